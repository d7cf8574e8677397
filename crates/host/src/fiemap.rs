//! The kernel's request for where the bytes of a file lie (Documentation/filesystems/fiemap.rst).

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

pub(crate) const FS_IOC_FIEMAP: Opcode = opcode::read_write::<FiemapHead>(b'f', 11);

/// `struct fiemap` without its extents.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct FiemapHead {
    pub start: u64,
    pub length: u64,
    pub flags: u32,
    pub mapped_extents: u32,
    pub extent_count: u32,
    pub reserved: u32,
}

/// In how many pieces a file lies on its device. Nothing is written back for it: bytes that have no place yet count as a piece.
///
/// # Errors
/// The file system has no such request (EOPNOTSUPP: tmpfs, proc), or it failed.
pub(crate) fn extent_count(file: impl AsFd) -> io::Result<u32> {
    // With room for none the kernel only counts.
    let mut head = FiemapHead { length: u64::MAX, ..FiemapHead::default() };
    // SAFETY: the request reads the head and writes into it; there is room for no extent, and the head says so.
    unsafe { ioctl(file.as_fd(), Updater::<FS_IOC_FIEMAP, FiemapHead>::new(&mut head)) }?;
    Ok(head.mapped_extents)
}
