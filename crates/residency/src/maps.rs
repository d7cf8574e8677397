//! The mappings (VMAs) of a process: the one reader of `/proc/PID/maps` and `/proc/PID/smaps` (proc_pid_smaps(5)).

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::error::ResidencyError;

/// One mapping, as `/proc/PID/smaps` shows it. From `maps`, which lists no sums and flags, those stay 0 and empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vma {
    /// Address of the first byte.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// As printed: `rw-p`.
    pub permissions: String,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// `major:minor` in hexadecimal, as printed.
    pub device: String,
    /// Number of the file; 0 for private anonymous memory, and for the first System V segment.
    pub inode: u64,
    /// File, or the kernel's name for the memory, byte for byte; empty for anonymous memory.
    pub path: Vec<u8>,
    /// Bytes of a page of the mapping: the pool's for hugetlb, else a base page's.
    pub kernel_page_bytes: u64,
    /// In memory, hugetlb pages left out.
    pub resident_bytes: u64,
    /// In memory and no file's: anonymous memory, and pages of a private file mapping that were written.
    pub anonymous_bytes: u64,
    /// Anonymous memory in huge pages.
    pub anonymous_huge_bytes: u64,
    /// Shared memory (shmem, tmpfs) in huge pages.
    pub shared_huge_bytes: u64,
    /// Files of other file systems in huge pages. Direct access (DAX) is never counted.
    pub file_huge_bytes: u64,
    /// In hugetlb pages that no other process has in its page tables.
    pub private_hugetlb_bytes: u64,
    /// In hugetlb pages that another process has, too.
    pub shared_hugetlb_bytes: u64,
    /// On swap.
    pub swapped_bytes: u64,
    /// Whether the kernel would give huge pages here; `None` where smaps does not say.
    pub thp_eligible: Option<bool>,
    /// VmFlags as printed: two letters each, with blanks between.
    pub flags: String,
}

/// A mapping as the kernel keeps it: its addresses and flags, without sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// Address of the first byte.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// `vm_flags`.
    pub flags: u64,
    /// Bytes of a page of its hugetlb pool; 0 for other memory.
    pub pool_page_bytes: u64,
}

/// The letters of VmFlags that the policy of huge pages looks at, by the bits of include/linux/mm.h.
const FLAG_LETTERS: [(u64, &str); 8] = [
    (0x0000_0200, "um"),
    (0x0000_0400, "pf"),
    (0x0000_4000, "io"),
    (0x0020_0000, "nr"),
    (0x0040_0000, "ht"),
    (0x1000_0000, "mm"),
    (0x2000_0000, "hg"),
    (0x4000_0000, "nh"),
];

impl Area {
    /// The flags as smaps prints them, those that say something of huge pages.
    pub fn flags_text(&self) -> String {
        let letters = FLAG_LETTERS.iter().filter(|(bit, _)| self.flags & bit != 0).map(|(_, letters)| *letters);
        letters.collect::<Vec<_>>().join(" ")
    }
}

/// Lists the mappings of a process with their flags, without a walk through its page tables.
pub trait Areas: std::fmt::Debug {
    /// Those of a process.
    ///
    /// # Errors
    /// It has ended, or the kernel does not list them.
    fn areas(&mut self, pid: u32) -> io::Result<Vec<Area>>;
}

/// Adds flags and sizes of pages to mappings that were read from `maps`. False if one of the mappings has another extent by now: then
/// both lists are to be read again.
pub(crate) fn add_flags(vmas: &mut [Vma], areas: &[Area], base_page_bytes: u64) -> bool {
    for vma in vmas.iter_mut().filter(|vma| vma.path != b"[vsyscall]") {
        let at = areas.binary_search_by_key(&vma.start, |area| area.start);
        let Some(area) = at.ok().and_then(|at| areas.get(at)).filter(|area| area.end == vma.end) else { return false };
        vma.flags = area.flags_text();
        vma.kernel_page_bytes = if area.pool_page_bytes > 0 { area.pool_page_bytes } else { base_page_bytes };
    }
    true
}

impl Vma {
    /// Length in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether VmFlags has these two letters.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.split_ascii_whitespace().any(|word| word == flag)
    }

    /// Pages of a hugetlb pool.
    pub fn is_hugetlb(&self) -> bool {
        self.has_flag("ht")
    }

    /// Mapped with MAP_SHARED.
    pub fn is_shared(&self) -> bool {
        self.permissions.ends_with('s')
    }

    /// The path for people; bytes that are no UTF-8 become replacement characters.
    pub fn path_text(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }

    /// Resident in huge pages of all kinds but hugetlb.
    pub fn huge_bytes(&self) -> u64 {
        self.anonymous_huge_bytes + self.shared_huge_bytes + self.file_huge_bytes
    }

    /// In memory in pages of a hugetlb pool.
    pub fn hugetlb_bytes(&self) -> u64 {
        self.private_hugetlb_bytes + self.shared_hugetlb_bytes
    }

    /// A file, or memory that the kernel keeps as one ([`Self::is_shared_memory`]).
    pub fn is_file(&self) -> bool {
        (self.inode != 0 || self.is_shared_memory()) && !self.is_private_zeros()
    }

    /// Memory that the kernel keeps as a file of a mount that nobody sees: memfd, MAP_SHARED|MAP_ANONYMOUS and System V segments. The
    /// inode of a segment is its number, and the first one's is 0 (newseg in ipc/shm.c).
    pub fn is_shared_memory(&self) -> bool {
        let is_named = ["/memfd:", "/dev/zero", "/SYSV"].iter().any(|name| self.path.starts_with(name.as_bytes()));
        is_named && self.device.starts_with("00:") && !self.is_private_zeros()
    }

    /// A private mapping of `/dev/zero`, which keeps the file's name and number and is anonymous memory (mmap_zero in
    /// drivers/char/mem.c). The file under MAP_SHARED|MAP_ANONYMOUS has the same name and counts as deleted.
    fn is_private_zeros(&self) -> bool {
        self.path == b"/dev/zero" && !self.is_shared()
    }

    /// Memory of the kernel's own in the process, such as `[vdso]` and `[vvar]`. `[heap]`, `[stack]` and memory that the program has
    /// named (`[anon:NAME]`, prctl(PR_SET_VMA_ANON_NAME)) are ordinary.
    pub(crate) fn is_kernels_own(&self) -> bool {
        let ordinary: [&[u8]; 4] = [b"[heap]", b"[stack", b"[anon:", b"[anon_shmem:"];
        self.path.first() == Some(&b'[') && !ordinary.iter().any(|name| self.path.starts_with(name))
    }
}

/// The mappings in a text of `maps` or `smaps`, in order of address, read line by line.
#[derive(Debug)]
pub struct Vmas<R> {
    text: R,
    line: Vec<u8>,
    next: Option<Vma>,
}

impl<R: BufRead> Vmas<R> {
    /// Those of `text`.
    pub fn new(text: R) -> Self {
        Self { text, line: Vec::new(), next: None }
    }
}

impl<R: BufRead> Iterator for Vmas<R> {
    type Item = io::Result<Vma>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.line.clear();
            match self.text.read_until(b'\n', &mut self.line) {
                Ok(0) => return self.next.take().map(Ok),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
            let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            if let Some(vma) = heading(line) {
                if let Some(whole) = self.next.replace(vma) {
                    return Some(Ok(whole));
                }
            } else if let Some(vma) = &mut self.next {
                add(vma, line);
            }
        }
    }
}

/// The mappings that touch `[start, end)`, in order of address. `folder` is the process's (`/proc/self`).
///
/// # Errors
/// `smaps` cannot be read. A process that has ended has no mappings, which is no error.
pub fn read(folder: &Path, start: u64, end: u64) -> Result<Vec<Vma>, ResidencyError> {
    let path = folder.join("smaps");
    let unreadable = |error: io::Error| ResidencyError::unreadable(&path, &error);
    let mut found: Vec<Vma> = Vec::new();
    for vma in smaps(folder).map_err(unreadable)? {
        let mut vma = vma.map_err(unreadable)?;
        if vma.start >= end {
            break;
        }
        // The kernel does not make the list at once: what changes meanwhile may be told again, or in part.
        vma.start = vma.start.max(found.last().map_or(0, |last| last.end));
        if vma.end > start.max(vma.start) {
            found.push(vma);
        }
    }
    Ok(found)
}

/// All mappings of the process whose folder is `folder`. The file is open when this returns: what is read later is still of the address
/// space that the process has now.
///
/// # Errors
/// `smaps` cannot be opened.
pub fn smaps(folder: &Path) -> io::Result<Vmas<BufReader<File>>> {
    Ok(Vmas::new(BufReader::with_capacity(1 << 16, File::open(folder.join("smaps"))?)))
}

/// The same without sums and flags, which the kernel lists much faster.
///
/// # Errors
/// `maps` cannot be opened.
pub fn list(folder: &Path) -> io::Result<impl Iterator<Item = Vma> + use<>> {
    let file = File::open(folder.join("maps"))?;
    Ok(Vmas::new(BufReader::with_capacity(1 << 16, file)).map_while(Result::ok))
}

/// Whether the process whose folder is `folder` still has any of the mappings `then`. It has none when it has ended, waits to be
/// reaped, or runs another program.
pub(crate) fn any_left(folder: &Path, then: &[Vma]) -> bool {
    // [vsyscall] lies at the same address in all processes.
    let known = |now: &Vma| {
        let at = then.binary_search_by_key(&now.start, |vma| vma.start).ok().and_then(|at| then.get(at));
        now.path != b"[vsyscall]" && at.is_some_and(|vma| vma.inode == now.inode)
    };
    list(folder).is_ok_and(|mut now| now.any(|vma| known(&vma)))
}

/// Whether the process whose folder is `folder` has a private mapping of the same file at the same addresses as `vma`, or at a part
/// of them; `None` if its maps cannot be read.
pub(crate) fn mapped(folder: &Path, vma: &Vma) -> Option<bool> {
    let alike = |other: Vma| {
        other.start < vma.end
            && other.end > vma.start
            && (&other.device, other.inode) == (&vma.device, vma.inode)
            && other.permissions.ends_with('p')
            && other.start.wrapping_sub(other.offset) == vma.start.wrapping_sub(vma.offset)
    };
    Some(list(folder).ok()?.any(alike))
}

/// A line of `maps`, or the first line of a mapping in `smaps`:
/// `7f0000000000-7f0000200000 rw-s 00001000 00:01 1043                      /memfd:name (deleted)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Address of the first byte.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// As printed: `rw-p`.
    pub permissions: &'a str,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// `major:minor` in hexadecimal, as printed.
    pub device: &'a str,
    /// Number of the file.
    pub inode: u64,
    /// All that follows the padding, byte for byte: a path may hold blanks, several in a row, too.
    pub path: &'a [u8],
}

impl<'a> Line<'a> {
    /// Reads a line without its newline; `None` for one of another form.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        // Lines of values begin with a capital letter, those of mappings with an address.
        if !line.first().is_some_and(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte)) {
            return None;
        }
        let mut words = line.splitn(6, |byte| *byte == b' ');
        let mut word = || words.next().and_then(|word| std::str::from_utf8(word).ok());
        let (start, end) = word()?.split_once('-')?;
        Some(Self {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            permissions: word()?,
            offset: u64::from_str_radix(word()?, 16).ok()?,
            device: word()?,
            inode: word()?.parse().ok()?,
            path: words.next().unwrap_or_default().trim_ascii_start(),
        })
    }

    /// The device as `st_dev` of its files has it.
    pub fn device_number(&self) -> Option<u64> {
        let (major, minor) = self.device.split_once(':')?;
        Some(libc::makedev(u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?))
    }
}

fn heading(line: &[u8]) -> Option<Vma> {
    let Line { start, end, permissions, offset, device, inode, path } = Line::parse(line)?;
    let (permissions, device, path) = (permissions.to_owned(), device.to_owned(), path.to_vec());
    Some(Vma { start, end, permissions, offset, device, inode, path, ..Vma::default() })
}

/// Adds a line of values; one of another form is left out.
fn add(vma: &mut Vma, line: &[u8]) {
    let Some((key, value)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once(':')) else { return };
    let value = value.trim();
    match key {
        "VmFlags" => value.clone_into(&mut vma.flags),
        "THPeligible" => vma.thp_eligible = value.parse::<u8>().ok().map(|eligible| eligible != 0),
        _ => {
            let Some(field) = field(vma, key) else { return };
            let kib = value.strip_suffix("kB").and_then(|kib| kib.trim().parse::<u64>().ok());
            if let Some(bytes) = kib.and_then(|kib| kib.checked_mul(1024)) {
                *field = bytes;
            }
        }
    }
}

/// The sum that a line in kB is about.
fn field<'a>(vma: &'a mut Vma, key: &str) -> Option<&'a mut u64> {
    Some(match key {
        "KernelPageSize" => &mut vma.kernel_page_bytes,
        "Rss" => &mut vma.resident_bytes,
        "Anonymous" => &mut vma.anonymous_bytes,
        "AnonHugePages" => &mut vma.anonymous_huge_bytes,
        "ShmemPmdMapped" => &mut vma.shared_huge_bytes,
        "FilePmdMapped" => &mut vma.file_huge_bytes,
        "Private_Hugetlb" => &mut vma.private_hugetlb_bytes,
        "Shared_Hugetlb" => &mut vma.shared_hugetlb_bytes,
        "Swap" => &mut vma.swapped_bytes,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
100000000000-100000200000 rw-p 00000000 00:00 0 
Size:               2048 kB
KernelPageSize:        4 kB
Rss:                2048 kB
Anonymous:          2048 kB
AnonHugePages:      2048 kB
ShmemPmdMapped:        0 kB
Swap:                 12 kB
SwapPss:               4 kB
THPeligible:           1
VmFlags: rd wr mr mw me ac sd hg 
100000400000-100000600000 rw-s 00001000 00:0f 88                         /dev/shm/two  words (deleted)
Size:               2048 kB
KernelPageSize:     2048 kB
Rss:                   0 kB
Shared_Hugetlb:     2048 kB
VmFlags: rd wr sh ht 
7ffff0000000-7ffff0021000 rw-p 00000000 00:00 0                          [heap]
Rss:                 132 kB
";

    #[test]
    fn mappings_are_in_order_whatever_is_told() {
        let dir = tempfile::tempdir().expect("tempdir");
        let line = |from: u64, to: u64| format!("{from:x}-{to:x} rw-p 00000000 00:00 0 \nRss: 4 kB\n");
        let told = [(0x1000, 0x4000), (0x2000, 0x3000), (0x1000, 0x6000), (0x8000, 0x9000), (0x7000, 0x8000)];
        let text: String = told.map(|(from, to)| line(from, to)).concat();
        std::fs::write(dir.path().join("smaps"), text).expect("write");
        let found = read(dir.path(), 0, 0x10000).expect("read");
        let ranges: Vec<(u64, u64)> = found.iter().map(|vma| (vma.start, vma.end)).collect();
        assert_eq!(ranges, [(0x1000, 0x4000), (0x4000, 0x6000), (0x8000, 0x9000)]);
    }

    #[test]
    fn mappings_that_touch_the_range_are_read() {
        let dir = tempfile::tempdir().expect("tempdir");
        std::fs::write(dir.path().join("smaps"), SMAPS).expect("write");
        let found = read(dir.path(), 0x1000_0010_0000, 0x1000_0060_0000).expect("read");
        let [first, second] = found.as_slice() else { panic!("found {found:?}") };
        assert_eq!((first.huge_bytes(), first.resident_bytes, first.thp_eligible), (2 << 20, 2 << 20, Some(true)));
        assert_eq!((first.anonymous_bytes, first.swapped_bytes), (2 << 20, 12 << 10));
        assert!(first.has_flag("hg") && !first.is_hugetlb() && !first.is_file());
        assert!(second.is_hugetlb() && second.is_file() && second.thp_eligible.is_none());
        assert_eq!((second.hugetlb_bytes(), second.kernel_page_bytes, second.offset), (2 << 20, 2 << 20, 4096));
        assert_eq!(second.path_text(), "/dev/shm/two  words (deleted)", "blanks are the file's own");
        assert!(read(dir.path(), 0x1000_0060_0000, 0x1000_0070_0000).expect("read").is_empty());
        let all = read(dir.path(), 0, u64::MAX).expect("read");
        assert_eq!(all.last().map(|vma| (vma.path.as_slice(), vma.resident_bytes)), Some((&b"[heap]"[..], 132 << 10)));
        assert!(read(&dir.path().join("nowhere"), 0, 1).is_err());
        assert_eq!(Vmas::new(&b"garbage\n\xff\nab:cd\nRss: 4 kB\n"[..]).count(), 0);
        assert_eq!(Vmas::new(&b"100-200 rw-p 0 00:00 0\nRss: 99999999999999999999 kB\nVmFlags\n"[..]).count(), 1);
    }

    /// Names as Linux 6.18 prints them.
    #[test]
    fn shared_memory_is_told_from_files_and_from_what_only_bears_a_name() {
        let of = |line: &str| heading(line.as_bytes()).expect("a mapping");
        for shared in [
            "1000-2000 rw-s 00000000 00:01 1043                       /memfd:name (deleted)",
            "1000-2000 rw-s 00000000 00:01 7                          /dev/zero (deleted)",
            "1000-2000 rw-s 00000000 00:01 0                          /SYSV00000000 (deleted)",
        ] {
            assert!(of(shared).is_shared_memory() && of(shared).is_file(), "{shared}");
        }
        let private_zeros = of("1000-2000 rw-p 00000000 00:06 5                          /dev/zero");
        assert!(!private_zeros.is_shared_memory() && !private_zeros.is_file());
        let file = of("1000-2000 rw-s 00000000 fe:01 5                          /memfd:file");
        assert!(!file.is_shared_memory() && file.is_file(), "a file on a disk");
        for (name, is_kernels) in [
            ("[vdso]", true),
            ("[vvar]", true),
            ("[uprobes]", true),
            ("[heap]", false),
            ("[stack]", false),
            ("[anon:arena of  a program]", false),
            ("", false),
        ] {
            let vma = of(&format!("1000-2000 rw-p 00000000 00:00 0                          {name}"));
            assert_eq!((vma.path_text().as_str(), vma.is_kernels_own()), (name, is_kernels));
        }
    }
}
