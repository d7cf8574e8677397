//! Files of debugfs, mounted or not.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::files::{text, under};

/// The text of the file `name` of debugfs. Where it is not mounted at its usual place, a mount is made that no path leads to
/// (fsmount(2), Linux 5.2), and is gone with its descriptor: the host stays as it is.
///
/// # Errors
/// What the kernel says: EPERM without CAP_SYS_ADMIN or in lockdown, ENODEV without debugfs.
pub(super) fn text_of(root: &Path, name: &str) -> io::Result<String> {
    let path = under(root, &format!("/sys/kernel/debug/{name}"));
    if path.exists() || root != Path::new("/") {
        return text(&path);
    }
    let context = fsopen("debugfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes =
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC | MountAttrFlags::MOUNT_ATTR_RDONLY;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let mut contents = String::new();
    File::from(openat(&mount, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?).read_to_string(&mut contents)?;
    Ok(contents)
}
