//! What can go wrong, each with the value found, the value needed and the command to type.

use std::io;
use std::path::Path;

use crate::page_size::HUGE_1G_BYTES;

/// Why memory, or a pool of huge pages, could not be looked at, or a pool gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResidencyError {
    /// A length of zero, or one that no address space holds.
    #[error("length: found {found_bytes} bytes, needed 1 to {}", isize::MAX)]
    Length {
        /// The length that was asked for.
        found_bytes: usize,
    },
    /// The host has no pages of this size.
    #[error("pages of {needed_bytes} bytes: this host has {found}; {}", command_for_size(*.needed_bytes))]
    NoSuchPageSize {
        /// Bytes of the page asked for.
        needed_bytes: usize,
        /// The sizes there are.
        found: String,
    },
    /// The hugetlb pool has not enough pages left.
    #[error(
        "hugetlb pool of {page_bytes}-byte pages: {available_pages} pages available, needed {needed_pages}; type: \
         echo {} > /sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages",
        .total_pages.saturating_sub(*.available_pages).saturating_add(*.needed_pages), .page_bytes >> 10
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
        "control group limit {file}: {limit_bytes} bytes, needed {needed_bytes}; type: echo {needed_bytes} > {file}"
    )]
    CgroupLimit {
        /// The file with the limit.
        file: String,
        /// The limit.
        limit_bytes: u64,
        /// Bytes that would be in use.
        needed_bytes: u64,
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
        /// The attempted action.
        what: &'static str,
        /// The error number.
        errno: i32,
    },
}

impl ResidencyError {
    pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self::Unreadable { path: path.display().to_string(), why: error.to_string() }
    }
}

fn command_for_size(needed_bytes: usize) -> String {
    if needed_bytes == HUGE_1G_BYTES {
        "1 GiB pages need a processor with pdpe1gb (type: grep -c pdpe1gb /proc/cpuinfo)".to_owned()
    } else {
        "type: ls /sys/kernel/mm/hugepages".to_owned()
    }
}
