//! Whether a block device holds anything: mounts, holders, partitions, signatures of file systems and volumes.

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// A mark that something on a device leaves at a fixed place.
struct Signature {
    offset: u64,
    bytes: &'static [u8],
    what: &'static str,
}

/// Offsets and bytes as the formats define them; the same places that `wipefs` looks at.
const SIGNATURES: &[Signature] = &[
    Signature { offset: 0x438, bytes: &[0x53, 0xEF], what: "an ext2, ext3 or ext4 file system" },
    Signature { offset: 0, bytes: b"XFSB", what: "an xfs file system" },
    Signature { offset: 0x1_0040, bytes: b"_BHRfS_M", what: "a btrfs file system" },
    Signature { offset: 0x1_0034, bytes: b"ReIsEr", what: "a reiserfs file system" },
    Signature { offset: 0x400, bytes: &[0x10, 0x20, 0xF5, 0xF2], what: "an f2fs file system" },
    Signature { offset: 0x8001, bytes: b"CD001", what: "an ISO 9660 file system" },
    Signature { offset: 0x8001, bytes: b"BEA01", what: "a UDF file system" },
    Signature { offset: 3, bytes: b"NTFS    ", what: "an NTFS file system" },
    Signature { offset: 3, bytes: b"EXFAT   ", what: "an exFAT file system" },
    Signature { offset: 0, bytes: b"hsqs", what: "a squashfs file system" },
    Signature { offset: 0x400, bytes: &[0xE2, 0xE1, 0xF5, 0xE0], what: "an erofs file system" },
    Signature { offset: 4096 - 10, bytes: b"SWAPSPACE2", what: "swap space" },
    Signature { offset: 4096 - 10, bytes: b"SWAP-SPACE", what: "swap space" },
    Signature { offset: 65536 - 10, bytes: b"SWAPSPACE2", what: "swap space" },
    Signature { offset: 0, bytes: b"LUKS\xBA\xBE", what: "a LUKS volume" },
    Signature { offset: 4096, bytes: &[0xFC, 0x4E, 0x2B, 0xA9], what: "an md RAID member" },
    Signature { offset: 0, bytes: &[0xFC, 0x4E, 0x2B, 0xA9], what: "an md RAID member" },
    Signature { offset: 24, bytes: &[0xC6, 0x85, 0x73, 0xF6], what: "a bcache device" },
    Signature { offset: 512, bytes: b"EFI PART", what: "a GPT partition table" },
    Signature { offset: 4096, bytes: b"EFI PART", what: "a GPT partition table" },
    Signature { offset: 0, bytes: b"PMEMOBJ\0", what: "a pool of objects (libpmemobj)" },
    Signature { offset: 0, bytes: b"PMEMBLK\0", what: "a pool of blocks (libpmemblk)" },
    Signature { offset: 0, bytes: b"PMEMLOG\0", what: "a log (libpmemlog)" },
    Signature { offset: 510, bytes: &[0x55, 0xAA], what: "a boot sector or MBR partition table" },
];

/// How much of the start is looked at: past the last signature above.
const HEAD_BYTES: usize = 0x1_0080;

/// Claims an open device for this process alone; `rdev` is its device number. As long as the descriptor is open nobody can mount it,
/// swap on it or give it to a volume manager, and its number stays its own.
///
/// # Errors
/// Its users, in words.
pub(crate) fn claim(device: BorrowedFd<'_>, rdev: u64) -> Result<OwnedFd, String> {
    if let Some(holder) = entries(&sysfs(rdev).join("holders")).first() {
        return Err(format!("the device is held by {}", holder.display()));
    }
    // On a block device O_EXCL asks for sole use: the kernel refuses while it, or a partition of it, is mounted, swapped on or held by
    // a volume manager. The descriptor's own name leads to the same device, whatever became of the path.
    let path = format!("/proc/self/fd/{}", device.as_raw_fd());
    match rustix::fs::open(path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
        Ok(claim) => Ok(claim),
        Err(rustix::io::Errno::BUSY) => {
            Err("the device is in use (mounted, swap, or held by another driver); see lsblk".to_owned())
        }
        Err(error) => Err(format!("opening it exclusively: {error}")),
    }
}

/// The contents of a device, in words: a file system, a volume, a partition table; `None` if unknown.
///
/// # Errors
/// It cannot be read.
pub(crate) fn contents(device: &std::fs::File, rdev: u64) -> Result<Option<String>, String> {
    if let Some(what) = signature(device).map_err(|error| format!("reading its start: {error}"))? {
        return Ok(Some(what.to_owned()));
    }
    let partitions = entries(&sysfs(rdev)).into_iter().find(|entry| entry.join("partition").exists());
    Ok(partitions.map(|partition| format!("partitions ({})", partition.display())))
}

fn sysfs(rdev: u64) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev)))
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).map(|entries| entries.flatten().map(|e| e.path()).collect()).unwrap_or_default()
}

/// The first signature found, in words.
fn signature(file: &std::fs::File) -> std::io::Result<Option<&'static str>> {
    let mut head = vec![0_u8; HEAD_BYTES];
    let mut filled = 0;
    while let Some(rest) = head.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    head.truncate(filled);
    Ok(signature_in(&head))
}

/// The first signature found in the start of something, in words.
pub(crate) fn signature_in(head: &[u8]) -> Option<&'static str> {
    let found = SIGNATURES.iter().find(|s| {
        let start = s.offset as usize;
        head.get(start..start + s.bytes.len()) == Some(s.bytes)
    });
    // LVM puts its label into one of the first four sectors.
    let lvm = (0..4).any(|sector| head.get(sector * 512..sector * 512 + 8) == Some(b"LABELONE".as_slice()));
    found.map(|s| s.what).or(lvm.then_some("an LVM physical volume"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek as _, SeekFrom, Write as _};

    #[test]
    fn each_signature_is_found_where_it_belongs() {
        let mut blank = tempfile::tempfile().expect("tempfile");
        assert_eq!(signature(&blank).expect("read"), None, "an empty file");
        blank.set_len(1 << 20).expect("length");
        assert_eq!(signature(&blank).expect("read"), None);
        for s in SIGNATURES {
            blank.set_len(0).expect("length");
            blank.set_len(1 << 20).expect("length");
            blank.seek(SeekFrom::Start(s.offset)).expect("seek");
            blank.write_all(s.bytes).expect("write");
            assert!(signature(&blank).expect("read").is_some(), "{}", s.what);
        }
        blank.set_len(0).expect("length");
        blank.set_len(1 << 20).expect("length");
        blank.seek(SeekFrom::Start(512)).expect("seek");
        blank.write_all(b"LABELONE").expect("write");
        assert_eq!(signature(&blank).expect("read"), Some("an LVM physical volume"));
    }

    /// `MD_SB_MAGIC` of include/uapi/linux/raid/md_p.h; md(4): 1.1 is at the start of the device, 1.2 4 KiB behind it.
    #[test]
    fn a_raid_member_is_found_by_the_superblock_of_either_version() {
        for (version, start) in [("1.1", 0), ("1.2", 4096)] {
            let mut head = vec![0; HEAD_BYTES];
            head[start..start + 4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
            assert_eq!(signature_in(&head), Some("an md RAID member"), "{version}");
        }
    }
}
