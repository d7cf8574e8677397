//! The mappings (VMAs) of a process, from `/proc/PID/smaps`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::error::MapError;

/// What `/proc/PID/smaps` says of one mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Vma {
    pub(super) start: u64,
    pub(super) end: u64,
    /// As printed: `rw-p`.
    pub(super) permissions: String,
    /// Offset in the file, bytes.
    pub(super) offset: u64,
    /// `major:minor`, as printed.
    pub(super) device: String,
    /// 0 for private anonymous memory.
    pub(super) inode: u64,
    pub(super) path: String,
    pub(super) kernel_page_bytes: u64,
    pub(super) resident_bytes: u64,
    /// Resident in huge pages of all kinds but hugetlb.
    pub(super) huge_bytes: u64,
    /// On swap.
    pub(super) swapped_bytes: u64,
    /// Whether the kernel would give huge pages here; `None` where smaps does not say.
    pub(super) thp_eligible: Option<bool>,
    /// VmFlags, two letters each.
    pub(super) flags: Vec<String>,
}

impl Vma {
    /// Pages of a hugetlb pool.
    pub(super) fn is_hugetlb(&self) -> bool {
        self.has_flag("ht")
    }

    pub(super) fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|word| word == flag)
    }

    /// A file, or memory that the kernel keeps as one (shared memory, memfd).
    pub(super) fn is_file(&self) -> bool {
        self.inode != 0
    }
}

/// The mappings that touch `[start, end)`, in order of address. `folder` is the process's (`/proc/self`).
pub(super) fn read(folder: &Path, start: u64, end: u64) -> Result<Vec<Vma>, MapError> {
    let path = folder.join("smaps");
    let file = File::open(&path).map_err(|error| MapError::unreadable(&path, &error))?;
    let mut found: Vec<Vma> = Vec::new();
    let mut inside = false;
    for line in BufReader::with_capacity(1 << 16, file).split(b'\n') {
        let line = line.map_err(|error| MapError::unreadable(&path, &error))?;
        let line = String::from_utf8_lossy(&line);
        match heading(&line) {
            Some(vma) if vma.start >= end => break,
            Some(vma) => {
                inside = vma.end > start;
                if inside {
                    found.push(vma);
                }
            }
            None if inside => {
                if let Some(vma) = found.last_mut() {
                    add(vma, &line);
                }
            }
            None => {}
        }
    }
    Ok(found)
}

/// Whether the process whose folder is `folder` still has any of the mappings `then`. It has none when it has ended, waits to be
/// reaped, or runs another program.
pub(super) fn any_left(folder: &Path, then: &[Vma]) -> bool {
    let Ok(text) = std::fs::read(folder.join("maps")) else { return false };
    let text = String::from_utf8_lossy(&text);
    // [vsyscall] lies at the same address in all processes.
    let known = |now: &Vma| {
        let at = then.binary_search_by_key(&now.start, |vma| vma.start).ok().and_then(|at| then.get(at));
        now.path != "[vsyscall]" && at.is_some_and(|vma| vma.inode == now.inode)
    };
    text.lines().filter_map(heading).any(|now| known(&now))
}

/// Whether the process whose folder is `folder` has a private mapping of the same file at the same addresses as `vma`, or at a part
/// of them; `None` if its maps cannot be read.
pub(super) fn mapped(folder: &Path, vma: &Vma) -> Option<bool> {
    let text = std::fs::read(folder.join("maps")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let alike = |other: Vma| {
        other.start < vma.end
            && other.end > vma.start
            && (&other.device, other.inode) == (&vma.device, vma.inode)
            && other.permissions.ends_with('p')
            && other.start.wrapping_sub(other.offset) == vma.start.wrapping_sub(vma.offset)
    };
    Some(text.lines().filter_map(heading).any(alike))
}

/// `7f0000000000-7f0000200000 rw-s 00001000 00:01 1043   /memfd:name (deleted)`.
fn heading(line: &str) -> Option<Vma> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let permissions = words.next()?.to_owned();
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let device = words.next()?.to_owned();
    let inode = words.next()?.parse().ok()?;
    let path = words.collect::<Vec<_>>().join(" ");
    Some(Vma { start, end, permissions, offset, device, inode, path, ..Vma::default() })
}

fn add(vma: &mut Vma, line: &str) {
    let Some((key, value)) = line.split_once(':') else { return };
    let value = value.trim();
    match key {
        "VmFlags" => vma.flags = value.split_ascii_whitespace().map(str::to_owned).collect(),
        "THPeligible" => vma.thp_eligible = value.parse::<u8>().ok().map(|eligible| eligible != 0),
        _ => {
            let kib = value.strip_suffix(" kB").and_then(|kib| kib.trim().parse::<u64>().ok());
            let Some(bytes) = kib.and_then(|kib| kib.checked_mul(1024)) else { return };
            match key {
                "KernelPageSize" => vma.kernel_page_bytes = bytes,
                "Rss" => vma.resident_bytes = bytes,
                "Swap" => vma.swapped_bytes = bytes,
                "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" => vma.huge_bytes += bytes,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
100000000000-100000200000 rw-p 00000000 00:00 0 
Size:               2048 kB
KernelPageSize:        4 kB
Rss:                2048 kB
AnonHugePages:      2048 kB
ShmemPmdMapped:        0 kB
THPeligible:           1
VmFlags: rd wr mr mw me ac sd hg 
100000400000-100000600000 rw-s 00001000 00:0f 88                         /dev/shm/two words (deleted)
Size:               2048 kB
KernelPageSize:     2048 kB
Rss:                   0 kB
VmFlags: rd wr sh ht 
7ffff0000000-7ffff0021000 rw-p 00000000 00:00 0                          [heap]
Rss:                 132 kB
";

    #[test]
    fn mappings_that_touch_the_range_are_read() {
        let dir = tempfile::tempdir().expect("tempdir");
        std::fs::write(dir.path().join("smaps"), SMAPS).expect("write");
        let found = read(dir.path(), 0x1000_0010_0000, 0x1000_0060_0000).expect("read");
        let [first, second] = found.as_slice() else { panic!("found {found:?}") };
        assert_eq!((first.huge_bytes, first.resident_bytes, first.thp_eligible), (2 << 20, 2 << 20, Some(true)));
        assert!(first.has_flag("hg") && !first.is_hugetlb() && !first.is_file());
        assert!(second.is_hugetlb() && second.is_file() && second.thp_eligible.is_none());
        assert_eq!((second.path.as_str(), second.offset), ("/dev/shm/two words (deleted)", 4096));
        assert!(read(dir.path(), 0x1000_0060_0000, 0x1000_0070_0000).expect("read").is_empty());
        assert!(read(&dir.path().join("nowhere"), 0, 1).is_err());
    }
}
