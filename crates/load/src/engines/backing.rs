//! What lies under the pieces of a mapping engine, and how one piece of it is mapped and unmapped.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

use super::Fault;
use crate::error::LoadError;
use crate::segments;

/// The backing of the pieces.
pub(crate) enum Backing {
    /// Memory made for each piece when it is mapped, and gone when it is unmapped.
    Fresh {
        /// Its kind.
        how: Fresh,
        /// hugetlb page size.
        hugetlb: Option<u64>,
        /// Ordinary memory when the pool is empty.
        fallback: bool,
    },
    /// A file, or memory that is one: its contents stay when a piece is unmapped.
    File {
        /// The open file.
        fd: OwnedFd,
        /// MAP_SHARED instead of MAP_PRIVATE.
        shared: bool,
        /// Page size of its mappings: that of the pool on hugetlbfs, the alignment of a device of direct access.
        page: u64,
        /// Its kind.
        kind: FileKind,
    },
}

/// Kinds of files under pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A file that others may have too.
    Named,
    /// Such a file on direct access, mapped with MAP_SYNC: what has left the processor's caches survives a crash.
    Synced,
    /// Made by memfd_create(2): nobody else can have cut it short.
    Memfd,
    /// A character device of direct access.
    DaxDevice,
}

/// Kinds of memory of a piece's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fresh {
    /// Anonymous; MAP_SHARED or MAP_PRIVATE.
    Anonymous {
        /// MAP_SHARED.
        shared: bool,
    },
    /// A SysV segment. shmat(2) attaches segments as a whole, so that each piece is one.
    Segment,
}

/// Where a piece goes: an address that nothing is mapped at, and the place in the file if there is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Its first address.
    pub address: u64,
    /// Its length, whole pages.
    pub len: usize,
    /// Where it starts in the file.
    pub offset: u64,
}

impl Backing {
    /// Memory from memfd_create(2), `bytes` long, of hugetlb pages if a size of them is given.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn memfd(job: &str, bytes: u64, shared: bool, hugetlb: Option<u64>) -> Result<Self, LoadError> {
        let size = hugetlb.map_or(MemfdFlags::empty(), |page| {
            // The page size is encoded as its logarithm, as for mmap (include/uapi/linux/memfd.h).
            MemfdFlags::HUGETLB | MemfdFlags::from_bits_retain(page.trailing_zeros() << libc::MAP_HUGE_SHIFT)
        });
        // Since Linux 6.3 the kernel expects a flag that says whether the file may be executed; older kernels do not
        // know the flag.
        let fd = rustix::fs::memfd_create("pagelab", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL | size)
            .or_else(|_| rustix::fs::memfd_create("pagelab", MemfdFlags::CLOEXEC | size))
            .and_then(|fd| rustix::fs::ftruncate(&fd, bytes).map(|()| fd))
            .map_err(|error| LoadError::system(format!("job '{job}': a memfd of {bytes} bytes"), error))?;
        Ok(Self::File { fd, shared, page: hugetlb.unwrap_or(rustix::param::page_size() as u64), kind: FileKind::Memfd })
    }

    /// The page size that mappings are made of by definition.
    pub(crate) fn page(&self) -> u64 {
        match self {
            Self::Fresh { hugetlb, .. } => hugetlb.unwrap_or(rustix::param::page_size() as u64),
            Self::File { page, .. } => *page,
        }
    }

    /// The hugetlb page size, if mappings are made of such pages.
    pub(crate) fn hugetlb(&self) -> Option<u64> {
        let pooled = !matches!(self, Self::File { kind: FileKind::DaxDevice, .. });
        Some(self.page()).filter(|page| pooled && *page > rustix::param::page_size() as u64)
    }

    /// Whether pieces are parts of one file: their addresses then follow their offsets.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// Whether it is memory of the worker's own, which it may write even if its job only reads.
    pub(crate) fn is_own_memory(&self) -> bool {
        matches!(self, Self::Fresh { .. } | Self::File { kind: FileKind::Memfd, .. })
    }

    /// Maps a piece; tells whether it got ordinary memory in place of hugetlb pages.
    ///
    /// # Errors
    /// The kernel's; [`Fault::HugetlbExhausted`] for a pool with nothing left.
    pub(crate) fn map(&self, place: Place, protection: ProtFlags) -> Result<bool, Fault> {
        let (how, page, fallback) = match self {
            Self::Fresh { how, hugetlb, fallback } => (how, *hugetlb, *fallback),
            Self::File { fd, shared, kind, .. } => {
                let mapped = match kind {
                    FileKind::Synced => map_synced(fd, place, protection),
                    _ => map_file(fd, place, protection, share(*shared) | MapFlags::FIXED_NOREPLACE),
                };
                return match mapped {
                    Err(Fault::Errno(libc::ENOMEM)) if *kind == FileKind::Memfd && self.hugetlb().is_some() => {
                        Err(Fault::HugetlbExhausted)
                    }
                    other => other.map(|()| false),
                };
            }
        };
        match how.map(place, protection, page) {
            Err(Fault::Errno(libc::ENOMEM)) if page.is_some() && fallback => {
                how.map(place, protection, None).map(|()| true)
            }
            Err(Fault::Errno(libc::ENOMEM)) if page.is_some() => Err(Fault::HugetlbExhausted),
            other => other.map(|()| false),
        }
    }

    /// Unmaps a piece.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn unmap(&self, place: Place) -> Result<(), Fault> {
        // SAFETY: the piece was mapped by this value; no reference into it outlives the operation that made it.
        unsafe {
            match self {
                Self::Fresh { how: Fresh::Segment, .. } => segments::detach(place.address as *mut u8)?,
                _ => rustix::mm::munmap(place.address as *mut _, place.len)?,
            }
        }
        Ok(())
    }

    /// Whether the file ends before `end`: the reason why mapped pages of it are missing.
    pub(crate) fn is_shorter_than(&self, end: u64) -> bool {
        match self {
            Self::File { fd, kind: FileKind::Named | FileKind::Synced, .. } => {
                rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_size.cast_unsigned() < end)
            }
            _ => false,
        }
    }
}

impl Fresh {
    fn map(self, place: Place, protection: ProtFlags, huge: Option<u64>) -> Result<(), Fault> {
        match self {
            Self::Anonymous { shared } => {
                let huge = huge.map_or(MapFlags::empty(), huge_flags);
                let flags = share(shared) | huge | MapFlags::FIXED_NOREPLACE;
                // SAFETY: the range was taken from the arena for the pieces alone, and MAP_FIXED_NOREPLACE fails rather than replace.
                unsafe { rustix::mm::mmap_anonymous(place.address as *mut _, place.len, protection, flags) }?;
            }
            Self::Segment => {
                segments::attach(Some(place.address), place.len, huge)?;
            }
        }
        Ok(())
    }
}

/// How a file on direct access is mapped.
const SYNCED: MapFlags = MapFlags::SHARED_VALIDATE.union(MapFlags::SYNC);

/// Whether the file can be mapped with MAP_SYNC: it lies on direct access, on memory that keeps what it is given.
///
/// # Errors
/// The kernel's: EOPNOTSUPP from file systems that cannot.
pub(super) fn try_sync(fd: BorrowedFd<'_>, page: u64) -> rustix::io::Result<()> {
    let len = page as usize;
    // SAFETY: a new mapping where the kernel likes, which is removed before anybody knows of it.
    unsafe {
        let address = rustix::mm::mmap(std::ptr::null_mut(), len, ProtFlags::READ, SYNCED, fd, 0)?;
        rustix::mm::munmap(address, len)
    }
}

fn map_file(fd: &OwnedFd, place: Place, protection: ProtFlags, flags: MapFlags) -> Result<(), Fault> {
    // SAFETY: as for anonymous memory, or over a range that was claimed just before.
    unsafe { rustix::mm::mmap(place.address as *mut _, place.len, protection, flags, fd.as_fd(), place.offset) }?;
    Ok(())
}

/// MAP_SHARED_VALIDATE refuses every flag that the file system does not list, MAP_FIXED_NOREPLACE among them. So the range is claimed
/// by memory that nobody can touch, and the file mapped over that.
fn map_synced(fd: &OwnedFd, place: Place, protection: ProtFlags) -> Result<(), Fault> {
    let (address, claim) =
        (place.address as *mut _, MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE);
    // SAFETY: the range was taken from the arena for the pieces alone, and MAP_FIXED_NOREPLACE fails rather than replace.
    unsafe { rustix::mm::mmap_anonymous(address, place.len, ProtFlags::empty(), claim) }?;
    map_file(fd, place, protection, SYNCED | MapFlags::FIXED).inspect_err(|_| {
        // SAFETY: it was mapped above, and nobody knows of it.
        let _ = unsafe { rustix::mm::munmap(address, place.len) };
    })
}

fn share(shared: bool) -> MapFlags {
    if shared { MapFlags::SHARED } else { MapFlags::PRIVATE }
}

/// MAP_HUGETLB with the page size encoded as its logarithm (include/uapi/asm-generic/hugetlb_encode.h).
fn huge_flags(page: u64) -> MapFlags {
    MapFlags::HUGETLB | MapFlags::from_bits_retain(page.trailing_zeros() << libc::MAP_HUGE_SHIFT)
}
