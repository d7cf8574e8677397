//! The block device that a directory lies on, as `block.<dev>.*` names it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pagelab_residency::mounts::{self, Mount};

/// Why a directory has no block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoDevice {
    /// What was found.
    pub found: String,
    /// What is needed.
    pub needed: String,
}

/// Name below /sys/block of the device that holds `path`, or its nearest ancestor that exists. For a partition it is
/// the whole device, which has the queue. `root` is where /proc and /sys are.
pub fn block_device_of(root: &Path, path: &Path) -> Result<String, NoDevice> {
    let existing = path.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let no_device = |found: String| {
        NoDevice {
        found,
        needed: "a directory on a file system with one block device; choose one with `workdir`, or put the set on a disk with -o DIR"
            .to_owned(),
    }
    };
    let meta = fs::metadata(existing).map_err(|error| no_device(format!("{}: {error}", existing.display())))?;
    let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
    device_by_number(root, major, minor).or_else(|| device_by_mount(root, major, minor)).ok_or_else(|| {
        let kind = mount_of(root, major, minor).map_or("an unknown file system".to_owned(), |mount| mount.fs);
        no_device(format!("{} on {kind}, device {major}:{minor}, which is no block device", existing.display()))
    })
}

fn device_by_number(root: &Path, major: u32, minor: u32) -> Option<String> {
    // Link to .../block/vda or, for a partition, .../block/vda/vda1.
    let link = fs::read_link(root.join(format!("sys/dev/block/{major}:{minor}"))).ok()?;
    whole_device(root, &link)
}

/// The part after `block/` of a device's path, if the kernel lists it under /sys/block.
fn whole_device(root: &Path, device: &Path) -> Option<String> {
    let mut parts = device.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    parts.find(|part| part == "block")?;
    parts.next().filter(|name| root.join("sys/block").join(name).exists())
}

/// Some file systems on disks (btrfs) show a number of their own; their mount names the device.
fn device_by_mount(root: &Path, major: u32, minor: u32) -> Option<String> {
    let source = mount_of(root, major, minor)?.source;
    let real = fs::canonicalize(&source).unwrap_or_else(|_| PathBuf::from(&source));
    let name = real.strip_prefix("/dev").ok()?.to_str()?.to_owned();
    if root.join("sys/block").join(&name).exists() {
        return Some(name);
    }
    whole_device(root, &fs::read_link(root.join("sys/class/block").join(&name)).ok()?)
}

/// The mount with this device number.
fn mount_of(root: &Path, major: u32, minor: u32) -> Option<Mount> {
    let number = format!("{major}:{minor}");
    mounts::table(root, None).ok()?.into_iter().find(|mount| mount.device == number)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn sys() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for dir in ["sys/dev/block", "sys/block/vda", "sys/block/nvme0n1", "sys/class/block", "proc/self"] {
            fs::create_dir_all(root.path().join(dir)).expect("a directory");
        }
        let link = |to: &str, from: &str| symlink(to, root.path().join(from)).expect("a link");
        link("../../devices/pci0000:00/virtio1/block/vda", "sys/dev/block/254:0");
        link("../../devices/pci0000:00/virtio1/block/vda/vda2", "sys/dev/block/254:2");
        link("../../devices/pci0000:00/nvme/nvme0/nvme0n1/nvme0n1p3", "sys/dev/block/259:3");
        link("../../devices/virtual/block/vda/vda2", "sys/class/block/vda2");
        fs::write(
            root.path().join("proc/self/mountinfo"),
            "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
             30 22 0:45 / /data rw,relatime shared:1 - btrfs /dev/vda2 rw\n\
             31 22 0:46 / /tmp rw - tmpfs tmpfs rw\n",
        )
        .expect("written");
        root
    }

    #[test]
    fn disks_partitions_and_btrfs_have_their_device() {
        let root = sys();
        assert_eq!(device_by_number(root.path(), 254, 0).as_deref(), Some("vda"));
        assert_eq!(device_by_number(root.path(), 254, 2).as_deref(), Some("vda"));
        assert_eq!(device_by_mount(root.path(), 0, 45).as_deref(), Some("vda"));
        assert_eq!(device_by_number(root.path(), 0, 46), None);
        assert_eq!(device_by_mount(root.path(), 0, 46), None);
        // An unusual layout is no reason to guess.
        assert_eq!(device_by_number(root.path(), 259, 3), None);
    }

    #[test]
    fn a_directory_without_device_is_said_so() {
        let root = sys();
        // /proc is a file system without a device, and its number is in no table of the test.
        let error = block_device_of(root.path(), Path::new("/proc/self/does/not/exist")).expect_err("no device");
        assert!(error.found.contains("no block device") && error.needed.contains("workdir"), "{error:?}");
    }

    #[test]
    fn the_real_working_directory_agrees_with_sys() {
        // Where the sources lie on a disk, the device found is one that has a queue.
        let here = std::env::current_dir().expect("a directory");
        if let Ok(device) = block_device_of(Path::new("/"), &here.join("not/there")) {
            assert!(Path::new("/sys/block").join(device).join("queue").exists());
        }
    }
}
