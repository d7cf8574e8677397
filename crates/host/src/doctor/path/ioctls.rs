//! The kernel's requests about files that no crate in use wraps: extents, flags, xfs geometry, pages in memory. They only read.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::ioctl::{Getter, Opcode, Updater, ioctl, opcode};

use super::report::Extent;
use crate::fiemap::{FS_IOC_FIEMAP, FiemapHead};

/// Extents that one request fills in.
const BATCH: usize = 256;

const FS_IOC_FSGETXATTR: Opcode = opcode::read::<FsXattr>(b'X', 31);
const FS_IOC_GETFLAGS: Opcode = opcode::read::<libc::c_long>(b'f', 1);
const XFS_IOC_FSGEOMETRY_V1: Opcode = opcode::read::<XfsGeometry>(b'X', 100);

/// Flags of include/uapi/linux/fiemap.h.
const LAST: u32 = 0x1;
const UNKNOWN: u32 = 0x2;
const DELALLOC: u32 = 0x4;
const ENCODED: u32 = 0x8;
const ENCRYPTED: u32 = 0x80;
const INLINE: u32 = 0x200;
const UNWRITTEN: u32 = 0x800;
const SHARED: u32 = 0x2000;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    head: FiemapHead,
    extents: [FiemapExtent; BATCH],
}

/// Where the bytes of a file lie, in order, up to `size_bytes`. Nothing is written back for it: bytes that have no place yet say so.
///
/// # Errors
/// The file system has no such request (EOPNOTSUPP: tmpfs, proc), or it failed.
pub(super) fn extents(file: impl AsFd, size_bytes: u64) -> io::Result<Vec<Extent>> {
    let mut found: Vec<Extent> = Vec::new();
    let mut batch = Box::new(Fiemap { head: FiemapHead::default(), extents: [FiemapExtent::default(); BATCH] });
    let mut from = 0;
    // An empty file is asked about too: whether there is such a request does not depend on the length.
    while from < size_bytes.max(1) {
        let length = size_bytes.max(1) - from;
        batch.head = FiemapHead { start: from, length, extent_count: BATCH as u32, ..FiemapHead::default() };
        // SAFETY: the request reads the head and fills in at most `extent_count` extents, which follow it in the value.
        unsafe { ioctl(file.as_fd(), Updater::<FS_IOC_FIEMAP, Fiemap>::new(&mut batch)) }?;
        let filled = batch.extents.iter().take(batch.head.mapped_extents as usize);
        let mut end = from;
        let mut last = batch.head.mapped_extents == 0;
        for extent in filled.map(of_kernel).filter(|extent| extent.end > extent.start) {
            end = end.max(extent.end);
            last |= extent.last;
            // A request that begins inside an extent gets that extent again.
            if found.last().is_none_or(|before| before.start < extent.start) && extent.start < size_bytes {
                found.push(extent);
            }
        }
        // A list that does not move on would never end.
        if last || end <= from {
            break;
        }
        from = end;
    }
    Ok(found)
}

fn of_kernel(extent: &FiemapExtent) -> Extent {
    let has = |flag: u32| extent.flags & flag != 0;
    let placed = !has(UNKNOWN | DELALLOC | INLINE);
    Extent {
        start: extent.logical,
        end: extent.logical.saturating_add(extent.length),
        physical: placed.then_some(extent.physical),
        unwritten: has(UNWRITTEN),
        shared: has(SHARED),
        delalloc: has(DELALLOC),
        encoded: has(ENCODED | ENCRYPTED),
        inline: has(INLINE),
        last: has(LAST),
    }
}

/// `struct fsxattr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct FsXattr {
    xflags: u32,
    extsize: u32,
    nextents: u32,
    projid: u32,
    cowextsize: u32,
    pad: [u8; 8],
}

const XFLAG_EXTSIZE: u32 = 0x800;
const XFLAG_DAX: u32 = 0x8000;

impl FsXattr {
    /// The flags of a file, where the file system has them.
    pub(super) fn of(file: impl AsFd) -> io::Result<Self> {
        // SAFETY: the request fills in one `struct fsxattr`.
        Ok(unsafe { ioctl(file.as_fd(), Getter::<FS_IOC_FSGETXATTR, Self>::new()) }?)
    }

    /// Whether the file asks for direct access.
    pub(super) fn dax(&self) -> bool {
        self.xflags & XFLAG_DAX != 0
    }

    /// The size hint for new extents, bytes; 0 is none.
    pub(super) fn extent_size_hint_bytes(&self) -> u64 {
        if self.xflags & XFLAG_EXTSIZE == 0 { 0 } else { u64::from(self.extsize) }
    }
}

/// Whether the data of this file goes through the journal (`chattr +j`).
pub(super) fn journals_data(file: impl AsFd) -> bool {
    const JOURNAL_DATA: libc::c_long = 0x4000;
    // SAFETY: the kernel writes an int into the long that the request is declared with.
    let flags = unsafe { ioctl(file.as_fd(), Getter::<FS_IOC_GETFLAGS, libc::c_long>::new()) };
    flags.is_ok_and(|flags| flags & JOURNAL_DATA != 0)
}

/// `struct xfs_fsop_geom_v1`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct XfsGeometry {
    pub(super) block_bytes: u32,
    until_sunit: [u32; 7],
    counts: [u64; 4],
    uuid: [u8; 16],
    /// Stripe unit, blocks.
    pub(super) stripe_unit_blocks: u32,
    /// Stripe width, blocks.
    pub(super) stripe_width_blocks: u32,
    rest: [u32; 6],
}

/// The geometry of the xfs that the file is on.
pub(super) fn xfs_geometry(file: impl AsFd) -> io::Result<XfsGeometry> {
    // SAFETY: the request fills in one `struct xfs_fsop_geom_v1`, which has this size (checked below).
    Ok(unsafe { ioctl(file.as_fd(), Getter::<XFS_IOC_FSGEOMETRY_V1, XfsGeometry>::new()) }?)
}

const _: () = assert!(size_of::<XfsGeometry>() == 112 && size_of::<FsXattr>() == 28);
const _: () = assert!(size_of::<FiemapHead>() == 32 && size_of::<FiemapExtent>() == 56);

/// Number of the call: the same on all architectures but alpha. The libc crate does not have it yet.
const SYS_CACHESTAT: libc::c_long = 451;

/// Pages of `[start, start + bytes)` of the file that are in memory (cachestat; Linux 6.5).
///
/// # Errors
/// ENOSYS on older kernels, EPERM for files of others, EOPNOTSUPP on hugetlbfs.
pub(super) fn cached_pages(file: impl AsFd, start: u64, bytes: u64) -> io::Result<u64> {
    let range = [start, bytes];
    // nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted.
    let mut counts = [0_u64; 5];
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the call reads one `struct cachestat_range` (two u64) and fills in one `struct cachestat` (five).
    let result = unsafe { libc::syscall(SYS_CACHESTAT, fd, range.as_ptr(), counts.as_mut_ptr(), 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(counts[0])
}

/// Which pages of a mapping are in memory, one byte each.
///
/// # Errors
/// Addresses where nothing is mapped.
pub(super) fn resident(address: usize, pages: &mut [u8]) -> io::Result<()> {
    let bytes = pages.len() * rustix::param::page_size();
    // SAFETY: the call writes one byte for each page; it looks at the addresses and does not touch what lies there.
    if unsafe { libc::mincore(address as *mut libc::c_void, bytes, pages.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
