//! Files of settings, opened so that they cannot be anything else.
//!
//! A key is turned into a path, and keys come out of plans and recordings that others wrote. The vocabulary refuses
//! keys that leave /proc/sys and /sys; here the kernel is asked to refuse them as well: a path is opened below a folder
//! that is held open (`RESOLVE_BENEATH`), and the file opened has to lie on the file system of the settings. Links that
//! stay below the folder are followed, since sysfs is made of them.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstatfs, openat, openat2};
use rustix::io::Errno;

use crate::files::{bytes_of, under};

const PROC: &str = "/proc/sys/";
const SYS: &str = "/sys/";

/// File systems (statfs(2), `f_type`) that hold settings below /proc/sys.
const PROC_MAGIC: &[u64] = &[0x9fa0];
/// The same below /sys: sysfs, cgroup v1 and v2.
const SYS_MAGIC: &[u64] = &[0x6265_6572, 0x0027_e0eb, 0x6367_7270];

/// The bytes of a setting's file below `root`. Whatever is not below /proc/sys and /sys (`/proc/cmdline`) is named by
/// the vocabulary itself and opened as it is; so are the plain files of a test's root folder.
pub(crate) fn bytes(root: &Path, path: &str) -> io::Result<Vec<u8>> {
    let file = if path.starts_with(PROC) || path.starts_with(SYS) {
        let (top, rest) = split(path)?;
        beneath(&under(root, top), rest, OFlags::RDONLY)?
    } else {
        File::open(under(root, path))?
    };
    bytes_of(file)
}

/// The text of a setting's file; bytes that are no UTF-8 become replacement characters.
pub(crate) fn text(root: &Path, path: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(root, path)?).into_owned())
}

/// Opens a setting of the running kernel for writing. It is never truncated: that means nothing to the kernel, and
/// everything to a file that is none of the kernel's.
///
/// # Errors
/// The path leaves /proc/sys and /sys, or leads to a file of another file system; what the kernel says.
pub(crate) fn writable(path: &str) -> io::Result<File> {
    let (top, rest) = split(path)?;
    let file = beneath(Path::new(top), rest, OFlags::WRONLY)?;
    let (magic, found) = (if top == "/sys" { SYS_MAGIC } else { PROC_MAGIC }, fstatfs(&file)?.f_type as u64);
    if magic.contains(&found) {
        return Ok(file);
    }
    let reason = format!("found {path} on a file system of type {found:#x}, needed one of the kernel's settings");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

fn split(path: &str) -> io::Result<(&'static str, &str)> {
    let parts = path.strip_prefix(PROC).map(|rest| ("/proc/sys", rest));
    parts.or_else(|| path.strip_prefix(SYS).map(|rest| ("/sys", rest))).ok_or_else(|| {
        let reason = format!("found {path}, needed a path below /proc/sys or /sys");
        io::Error::new(io::ErrorKind::PermissionDenied, reason)
    })
}

fn beneath(top: &Path, rest: &str, access: OFlags) -> io::Result<File> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = openat(CWD, top, folder, Mode::empty())?;
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let opened = loop {
        match openat2(&top, rest, flags, Mode::empty(), resolve) {
            // A concurrent rename (a device that comes or goes) makes the kernel give up now and then.
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Before 5.6, or barred by a filter: the vocabulary's own check has to do.
            Err(Errno::NOSYS) => break openat(&top, rest, flags, Mode::empty())?,
            other => break other?,
        }
    };
    Ok(File::from(opened))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Root;

    #[test]
    fn a_path_stays_below_its_folder() {
        let root = Root::new();
        root.write("/proc/sys/vm/swappiness", "60\n");
        root.write("/etc/passwd", "secret\n");
        root.write("/sys/devices/pci/block/sda/queue/nr_requests", "64\n");
        std::fs::create_dir_all(root.at("/sys/block")).expect("made");
        std::os::unix::fs::symlink("../devices/pci/block/sda", root.at("/sys/block/sda")).expect("a link");
        std::os::unix::fs::symlink("../../etc", root.at("/sys/block/out")).expect("a link");
        std::os::unix::fs::symlink("/etc", root.at("/sys/block/absolute")).expect("a link");
        let read = |path| bytes(root.path(), path);
        assert_eq!(read("/proc/sys/vm/swappiness").expect("there"), b"60\n");
        assert_eq!(read("/sys/block/sda/queue/nr_requests").expect("a link that stays"), b"64\n");
        for out in [
            "/proc/sys/../../etc/passwd",
            "/sys/../etc/passwd",
            "/sys/block/out/passwd",
            "/sys/block/absolute/passwd",
            "/proc/sys//etc/passwd",
        ] {
            assert!(read(out).is_err(), "{out}");
        }
    }

    #[test]
    fn only_settings_of_the_kernel_are_opened_for_writing() {
        for out in ["/etc/passwd", "/proc/sys/../../etc/hostname", "/proc/self/oom_score_adj", "/sys/../etc/hostname"] {
            assert!(writable(out).is_err(), "{out}");
        }
        // Opening changes nothing. As another user it is refused, which is no less good.
        match writable("/proc/sys/kernel/printk_ratelimit_burst") {
            Ok(_) => {}
            Err(error) => {
                assert!(matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem));
            }
        }
    }
}
