//! Character devices of direct access (`/dev/dax0.0`): memory without a file system. They can be mapped and nothing else; what is
//! known of them stands in `/sys/dev/char/MAJOR:MINOR` (drivers/dax/bus.c of the kernel).

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pagelab_residency::maps;
use rustix::mm::{MapFlags, ProtFlags};

/// Bytes of a device's start that are looked at for signatures, where it has as many.
const HEAD_BYTES: u64 = 2 << 20;

/// A device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DaxDevice {
    /// Its size.
    pub bytes: u64,
    /// Mappings of it start and end at multiples of this, and are made of pages of this size.
    pub align: u64,
}

/// What the kernel says of the character device of this number; `None` if it is no device of direct access. `root` is where `/sys` is
/// looked for.
///
/// # Errors
/// What it says is not what it should be, in words.
pub(crate) fn look(root: &Path, rdev: u64) -> Result<Option<DaxDevice>, String> {
    let number = format!("sys/dev/char/{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev));
    let folder = root.join(number);
    let subsystem = std::fs::read_link(folder.join("subsystem"));
    if !subsystem.is_ok_and(|path| path.ends_with("dax")) {
        return Ok(None);
    }
    let bytes = number_in(&folder.join("size"))?;
    // Kernels before 5.11 have it in the region only.
    let align = number_in(&folder.join("align")).or_else(|_| number_in(&folder.join("dax_region/align")))?;
    if !align.is_power_of_two() || align < rustix::param::page_size() as u64 {
        return Err(format!("{}: align is {align}, needed a power of two of pages", folder.display()));
    }
    Ok(Some(DaxDevice { bytes, align }))
}

fn number_in(path: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.trim().parse().map_err(|_| format!("{}: found {:?}, needed a number", path.display(), text.trim()))
}

/// The first bytes of a device, for looking at signatures: it has no read(2).
///
/// # Errors
/// The kernel does not map it.
pub(crate) fn head(file: &File, device: DaxDevice) -> rustix::io::Result<Vec<u8>> {
    let len = device.bytes.min(HEAD_BYTES.max(device.align)) as usize;
    let wanted = len.min(HEAD_BYTES as usize);
    let mut head = vec![0_u8; wanted];
    // SAFETY: a new mapping where the kernel likes, which nobody else knows of, of at least as many bytes as are copied. Other
    // processes may write there meanwhile: the bytes are only compared with signatures.
    unsafe {
        let address = rustix::mm::mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file.as_fd(), 0)?;
        std::ptr::copy_nonoverlapping(address.cast::<u8>(), head.as_mut_ptr(), wanted);
        rustix::mm::munmap(address, len)?;
    }
    Ok(head)
}

/// Another process that has the device mapped, in words. A device of direct access has no holders and cannot be claimed: that it is
/// mapped is all that shows its use. `root` is where `/proc` is looked for.
pub(crate) fn user(root: &Path, path: &Path) -> Option<String> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir(root.join("proc")).ok()?.flatten().filter(|entry| {
        let name = entry.file_name();
        name != own.as_str() && name.as_bytes().iter().all(u8::is_ascii_digit)
    });
    for process in processes {
        let Ok(mut mappings) = maps::list(&process.path()) else { continue };
        let mapped = mappings.any(|vma| vma.path == path.as_os_str().as_bytes());
        if mapped {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("process {} ({})", process.file_name().display(), name.trim()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as the kernel shows a device of direct access: number 252:1.
    fn sysfs(subsystem: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("tempdir");
        let folder = dir.path().join("sys/dev/char/252:1");
        std::fs::create_dir_all(folder.join("dax_region")).expect("mkdir");
        std::os::unix::fs::symlink(format!("../../../bus/{subsystem}"), folder.join("subsystem")).expect("link");
        for (name, text) in files {
            std::fs::write(folder.join(name), text).expect("write");
        }
        dir
    }

    #[test]
    fn sizes_and_alignments_are_read() {
        let rdev = rustix::fs::makedev(252, 1);
        let at = |subsystem, files: &[(&str, &str)]| look(sysfs(subsystem, files).path(), rdev);
        let device = DaxDevice { bytes: 1 << 30, align: 2 << 20 };
        assert_eq!(at("dax", &[("size", "1073741824\n"), ("align", "2097152\n")]), Ok(Some(device)));
        assert_eq!(at("dax", &[("size", "1073741824\n"), ("dax_region/align", "2097152\n")]), Ok(Some(device)));
        assert_eq!(at("mem", &[("size", "1073741824\n")]), Ok(None));
        for (files, word) in [
            (&[("size", "much\n"), ("align", "4096\n")], "found \"much\", needed a number"),
            (&[("size", "4096\n"), ("align", "3\n")], "align is 3"),
            (&[("size", "4096\n"), ("aligned", "3\n")], "No such file"),
        ] {
            assert!(at("dax", files).expect_err(word).contains(word));
        }
        let null = std::os::unix::fs::MetadataExt::rdev(&std::fs::metadata("/dev/null").expect("there"));
        assert_eq!(look(Path::new("/"), null), Ok(None));
    }

    #[test]
    fn who_maps_it_is_found() {
        let dir = tempfile::tempdir().expect("tempdir");
        let maps = |pid: &str, line: &str| {
            std::fs::create_dir_all(dir.path().join("proc").join(pid)).expect("mkdir");
            std::fs::write(dir.path().join("proc").join(pid).join("maps"), line).expect("write");
            std::fs::write(dir.path().join("proc").join(pid).join("comm"), "store\n").expect("write");
        };
        let device = Path::new("/dev/dax9.7");
        maps("12", "7f00-7f10 rw-s 00000000 00:06 88      /dev/dax9.70\n");
        maps("self", "7f00-7f10 rw-s 00000000 00:06 88      /dev/dax9.7\n");
        assert_eq!(user(dir.path(), device), None);
        maps("13", "7f00-7f10 rw-s 00000000 00:06 88      /dev/dax9.7\n7f20-7f30 rw-p 00000000 00:00 0 \n");
        assert_eq!(user(dir.path(), device).as_deref(), Some("process 13 (store)"));
    }
}
