//! What can go wrong, each with the value found, the value needed and the command to type.

use std::io;

use pagelab_residency::ResidencyError;

/// Why a mapping, or an operation on one, failed. Nothing is left behind by an operation that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// A length of zero, or one that no address space holds.
    #[error("length: found {found_bytes} bytes, needed 1 to {}", isize::MAX)]
    Length {
        /// What was asked for.
        found_bytes: usize,
    },
    /// An offset, a length or an alignment that the kernel's units do not allow.
    #[error("{what}: found {found}, needed a multiple of {unit_bytes} bytes")]
    Unaligned {
        /// Which value.
        what: &'static str,
        /// What it was.
        found: u64,
        /// What it has to be a multiple of.
        unit_bytes: usize,
    },
    /// An alignment that is not a power of two.
    #[error("alignment: found {found_bytes} bytes, needed a power of two")]
    Alignment {
        /// What was asked for.
        found_bytes: usize,
    },
    /// A block that reaches beyond the mapping.
    #[error("offset {offset} + {bytes} bytes: beyond the mapping, which has {map_bytes} bytes")]
    OutOfBounds {
        /// Where the block begins in the mapping.
        offset: usize,
        /// Its length.
        bytes: usize,
        /// The mapping's length.
        map_bytes: usize,
    },
    /// A write to a mapping made for reading.
    #[error("the mapping is read-only; map it without read_only()")]
    ReadOnly,
    /// Options that contradict each other.
    #[error("{asked}: {why}")]
    Contradiction {
        /// What was asked for.
        asked: &'static str,
        /// Why that cannot be.
        why: &'static str,
    },
    /// The host has no pages of this size.
    #[error(
        "{}", ResidencyError::NoSuchPageSize { needed_bytes: *.needed_bytes, found: String::clone(.found) }
    )]
    NoSuchPageSize {
        /// Bytes of the page asked for.
        needed_bytes: usize,
        /// The sizes there are.
        found: String,
    },
    /// The hugetlb pool has not enough pages left.
    #[error(
        "{}", ResidencyError::PoolTooSmall {
            page_bytes: *.page_bytes,
            available_pages: *.available_pages,
            needed_pages: *.needed_pages,
            total_pages: *.total_pages,
        }
    )]
    PoolTooSmall {
        /// Bytes of a page of the pool.
        page_bytes: usize,
        /// Pages that can be promised now.
        available_pages: u64,
        /// Pages that the mapping takes.
        needed_pages: u64,
        /// Pages in the pool.
        total_pages: u64,
    },
    /// A control group forbids it.
    #[error(
        "{}", ResidencyError::CgroupLimit {
            file: String::clone(.file),
            limit_bytes: *.limit_bytes,
            needed_bytes: *.needed_bytes,
        }
    )]
    CgroupLimit {
        /// The file with the limit.
        file: String,
        /// The limit.
        limit_bytes: u64,
        /// What would be in use.
        needed_bytes: u64,
    },
    /// RLIMIT_MEMLOCK is too low to lock the mapping in memory.
    #[error("memory to lock: {needed_bytes} bytes, limit {limit_bytes} (RLIMIT_MEMLOCK); type: ulimit -l {}", .needed_bytes.div_ceil(1024))]
    MemlockLimit {
        /// The soft limit.
        limit_bytes: u64,
        /// What the mapping needs, besides what is locked already.
        needed_bytes: u64,
    },
    /// The file ends before the part of it that was asked for.
    #[error("the file has {found_bytes} bytes, needed {needed_bytes}; type: truncate -s {needed_bytes} FILE")]
    FileTooShort {
        /// Its length.
        found_bytes: u64,
        /// The end of the part asked for.
        needed_bytes: u64,
    },
    /// The file system cannot map with MAP_SYNC.
    #[error(
        "MAP_SYNC: not supported by this file system; it needs DAX: mount -o dax on persistent memory, or leave sync() out"
    )]
    SyncUnsupported,
    /// The kernel had no page for an address of the mapping: SIGBUS, caught.
    #[error("no memory behind offset {offset} of the mapping: {why}")]
    NoPage {
        /// Offset in the mapping of the first page that was not there.
        offset: usize,
        /// What was found out about the cause.
        why: String,
    },
    /// MADV_COLLAPSE did not collapse.
    #[error("collapse into huge pages: {} ({})", collapse_words(*.errno), io::Error::from_raw_os_error(*.errno))]
    NotCollapsed {
        /// What the kernel answered.
        errno: i32,
    },
    /// A file of the kernel's could not be read or understood.
    #[error("{path}: {why}")]
    Unreadable {
        /// Which file.
        path: String,
        /// Why.
        why: String,
    },
    /// The kernel refused something else.
    #[error("{what}: {}", io::Error::from_raw_os_error(*.errno))]
    System {
        /// What was being done.
        what: &'static str,
        /// The error number.
        errno: i32,
    },
}

impl MapError {
    /// The error of the system call that has just failed.
    pub(crate) fn last(what: &'static str) -> Self {
        Self::System { what, errno: last_errno() }
    }
}

/// Looking at memory and pools fails with the same causes, by the same names.
impl From<ResidencyError> for MapError {
    fn from(error: ResidencyError) -> Self {
        match error {
            ResidencyError::Length { found_bytes } => Self::Length { found_bytes },
            ResidencyError::NoSuchPageSize { needed_bytes, found } => Self::NoSuchPageSize { needed_bytes, found },
            ResidencyError::PoolTooSmall { page_bytes, available_pages, needed_pages, total_pages } => {
                Self::PoolTooSmall { page_bytes, available_pages, needed_pages, total_pages }
            }
            ResidencyError::CgroupLimit { file, limit_bytes, needed_bytes } => {
                Self::CgroupLimit { file, limit_bytes, needed_bytes }
            }
            ResidencyError::Unreadable { path, why } => Self::Unreadable { path, why },
            ResidencyError::System { what, errno } => Self::System { what, errno },
        }
    }
}

pub(crate) fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

/// What MADV_COLLAPSE means by its error numbers (madvise(2)).
fn collapse_words(errno: i32) -> &'static str {
    match errno {
        libc::EINVAL => {
            "the kernel gives this mapping no huge pages: the slot leaves the mapping, is misaligned with the file, is hugetlb, or \
             transparent huge pages are forbidden here"
        }
        libc::ENOMEM => "no huge page could be allocated, or the range has a hole",
        libc::EBUSY => "the memory cgroup has no room for a huge page",
        libc::EAGAIN => "pages were locked, pinned or dirty; try again",
        libc::EFAULT => "a page lies beyond the end of the file",
        _ => "refused",
    }
}
