//! The memory areas of a process, from `/proc/PID/smaps`.

use std::io::{self, BufRead};

/// What smaps says of one area.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Area {
    /// Address of the first byte.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// `major:minor`, in hexadecimal as printed.
    pub device: String,
    /// 0 for private anonymous memory.
    pub inode: u64,
    /// File, or the kernel's name.
    pub path: Vec<u8>,
    /// Page size of the area: that of the pool for hugetlb, else the base page's.
    pub kernel_page_bytes: u64,
    /// Resident, hugetlb left out.
    pub resident_bytes: u64,
    /// Of these, in huge pages.
    pub huge_bytes: u64,
    /// Resident in pages of a hugetlb pool.
    pub hugetlb_bytes: u64,
    /// Whether the kernel would give huge pages here; none where smaps does not say.
    pub thp_eligible: Option<bool>,
    /// VmFlags, two letters each, with blanks between.
    pub flags: String,
}

impl Area {
    /// Whether VmFlags has these two letters.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|word| word == flag)
    }

    /// Pages of a hugetlb pool.
    pub fn is_hugetlb(&self) -> bool {
        self.has_flag("ht")
    }
}

/// Reads all areas, in order of address.
///
/// # Errors
/// Those of reading. A process that has ended has no areas.
pub fn read(mut text: impl BufRead) -> io::Result<Vec<Area>> {
    let mut found: Vec<Area> = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if text.read_until(b'\n', &mut line)? == 0 {
            return Ok(found);
        }
        let content = line.strip_suffix(b"\n").unwrap_or(&line);
        if let Some(area) = heading(content) {
            found.push(area);
        } else if let Some(area) = found.last_mut() {
            add(area, &String::from_utf8_lossy(content));
        }
    }
}

/// `7f0000000000-7f0000200000 rw-s 00001000 00:01 1043   /memfd:name (deleted)`.
fn heading(line: &[u8]) -> Option<Area> {
    // Lines of values begin with a capital letter, those of areas with an address.
    if !line.first().is_some_and(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte)) {
        return None;
    }
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let mut word = || words.next().and_then(|word| std::str::from_utf8(word).ok());
    let (start, end) = word()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let _permissions = word()?;
    let offset = u64::from_str_radix(word()?, 16).ok()?;
    let device = word()?.to_owned();
    let inode = word()?.parse().ok()?;
    let path = words.next().unwrap_or_default().trim_ascii_start().to_vec();
    Some(Area { start, end, offset, device, inode, path, ..Area::default() })
}

fn add(area: &mut Area, line: &str) {
    let Some((key, value)) = line.split_once(':') else { return };
    let value = value.trim();
    match key {
        "VmFlags" => value.clone_into(&mut area.flags),
        "THPeligible" => area.thp_eligible = value.parse::<u8>().ok().map(|eligible| eligible != 0),
        "KernelPageSize" | "Rss" | "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" | "Shared_Hugetlb"
        | "Private_Hugetlb" => {
            let kib = value.strip_suffix(" kB").and_then(|kib| kib.trim().parse::<u64>().ok());
            let Some(bytes) = kib.and_then(|kib| kib.checked_mul(1024)) else { return };
            match key {
                "KernelPageSize" => area.kernel_page_bytes = bytes,
                "Rss" => area.resident_bytes = bytes,
                "Shared_Hugetlb" | "Private_Hugetlb" => area.hugetlb_bytes += bytes,
                _ => area.huge_bytes += bytes,
            }
        }
        _ => {}
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
Shared_Hugetlb:     2048 kB
VmFlags: rd wr sh ht 
7ffff0000000-7ffff0021000 rw-p 00000000 00:00 0                          [heap]
Rss:                 132 kB
";

    #[test]
    fn areas_are_read_with_what_is_said_of_them() {
        let found = read(SMAPS.as_bytes()).expect("text");
        let [first, second, third] = found.as_slice() else { panic!("found {found:?}") };
        assert_eq!((first.start, first.end, first.path.as_slice()), (0x1000_0000_0000, 0x1000_0020_0000, &b""[..]));
        assert_eq!((first.huge_bytes, first.resident_bytes, first.thp_eligible), (2 << 20, 2 << 20, Some(true)));
        assert!(first.has_flag("hg") && !first.is_hugetlb());
        assert_eq!((second.path.as_slice(), second.offset), (&b"/dev/shm/two words (deleted)"[..], 4096));
        assert!(second.is_hugetlb() && second.hugetlb_bytes == 2 << 20 && second.kernel_page_bytes == 2 << 20);
        assert_eq!((third.path.as_slice(), third.resident_bytes), (&b"[heap]"[..], 132 << 10));
        assert!(read(&b"garbage\n\xff\nab:cd\n"[..]).expect("text").is_empty());
    }
}
