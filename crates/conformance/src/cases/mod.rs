//! The cases, one file for each topic.

mod accounting;
mod faults;
mod gigantic;
mod madvise;
mod memfd;
mod pool;
mod races;
mod sanity;
mod sharing;
mod sysv;
mod thp;
mod thp_split;

use crate::case::Case;

/// All cases in the order in which they are run.
pub(crate) const ALL: &[&[Case]] = &[
    sanity::CASES,
    accounting::CASES,
    pool::CASES,
    faults::CASES,
    sharing::CASES,
    races::CASES,
    sysv::CASES,
    memfd::CASES,
    gigantic::CASES,
    thp::CASES,
    thp_split::CASES,
    madvise::CASES,
];

/// 2 MiB.
const PAGE: usize = crate::pool::HUGE.page;
/// A base page.
const BASE: usize = 4096;
const PRIVATE: i32 = libc::MAP_PRIVATE;
const SHARED: i32 = libc::MAP_SHARED;
