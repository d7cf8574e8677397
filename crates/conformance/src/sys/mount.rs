//! hugetlbfs mounts that are attached to no folder: they are known by a descriptor, and gone when it is.

use std::ffi::{CStr, CString};

use super::{Errno, Fd, checked};

/// `FSCONFIG_SET_STRING` and `FSCONFIG_CMD_CREATE` of include/uapi/linux/mount.h.
const SET_STRING: libc::c_long = 1;
const CREATE: libc::c_long = 6;

/// A hugetlbfs of the case's own.
#[derive(Debug)]
pub(crate) struct Mount {
    root: Fd,
}

impl Mount {
    /// Mounts one, with options such as `size` and `min_size`.
    pub(crate) fn new(options: &[(&str, String)]) -> Result<Self, Errno> {
        let zero: libc::c_long = 0;
        // SAFETY: the name ends with a zero byte.
        let context = Fd::new(unsafe { libc::syscall(libc::SYS_fsopen, c"hugetlbfs".as_ptr(), zero) })?;
        let fd = libc::c_long::from(context.raw());
        for (key, value) in options {
            let (key, value) = (text(key)?, text(value)?);
            // SAFETY: key and value end with a zero byte.
            checked(unsafe { libc::syscall(libc::SYS_fsconfig, fd, SET_STRING, key.as_ptr(), value.as_ptr(), zero) })?;
        }
        // SAFETY: this command takes neither key nor value.
        checked(unsafe { libc::syscall(libc::SYS_fsconfig, fd, CREATE, zero, zero, zero) })?;
        // SAFETY: takes numbers only.
        Ok(Mount { root: Fd::new(unsafe { libc::syscall(libc::SYS_fsmount, fd, zero, zero) })? })
    }

    /// The root folder.
    pub(crate) fn root(&self) -> &Fd {
        &self.root
    }

    /// A new file.
    pub(crate) fn create(&self, name: &CStr) -> Result<Fd, Errno> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: the name ends with a zero byte.
        Fd::new(i64::from(unsafe { libc::openat(self.root.raw(), name.as_ptr(), flags, 0o600) }))
    }

    /// Removes a name.
    pub(crate) fn unlink(&self, name: &CStr) -> Result<(), Errno> {
        // SAFETY: the name ends with a zero byte.
        checked(unsafe { libc::unlinkat(self.root.raw(), name.as_ptr(), 0) }).map(drop)
    }
}

fn text(text: &str) -> Result<CString, Errno> {
    CString::new(text).map_err(|_| Errno(libc::EINVAL))
}
