//! The contents of a process's memory, and its waste: zero-filled parts of huge pages, folios, pages of a pool.

use pagelab_residency::{FolioBytes, PoolBytes, ZeroFilled};
use serde::Serialize;

use super::{Region, WORTH_A_WORD};
use crate::doctor::{Finding, Level};

/// The basis of a region's count of zero-filled bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ZeroFilledReport {
    /// Bytes of the region in huge pages.
    pub huge_bytes: u64,
    /// Of those, bytes that were read.
    pub looked_at_bytes: u64,
    /// Bytes of 4 KiB parts that hold only zeros, among those read.
    pub zero_bytes: u64,
    /// All huge pages were read: `zero_filled_bytes` is exact, and otherwise scaled up from the bytes read.
    pub exact: bool,
    /// How far `zero_filled_bytes` may be off.
    pub margin_bytes: Option<u64>,
    /// Transparent huge pages read that the kernel calls underused (`max_ptes_none`).
    pub underused_pages: u64,
}

impl From<&ZeroFilled> for ZeroFilledReport {
    fn from(found: &ZeroFilled) -> Self {
        Self {
            huge_bytes: found.huge_bytes,
            looked_at_bytes: found.looked_at_bytes,
            zero_bytes: found.zero_bytes,
            exact: found.is_exact(),
            margin_bytes: found.margin_bytes(),
            underused_pages: found.underused_pages,
        }
    }
}

/// Bytes of a region, in small pages, that lie in folios of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FolioReport {
    /// Size of the folio.
    pub folio_bytes: u64,
    /// Bytes of the region in folios of this size, each mapped whole or in part.
    pub bytes: u64,
}

impl From<&FolioBytes> for FolioReport {
    fn from(found: &FolioBytes) -> Self {
        Self { folio_bytes: found.folio_bytes, bytes: found.bytes }
    }
}

/// A region's pages of a hugetlb pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolReport {
    /// Bytes of one page.
    pub page_bytes: u64,
    /// Bytes that this process has not touched.
    pub untouched_bytes: u64,
    /// Bytes that the pool reserves for the region, or for the file under it; none with `reserved_reason`.
    pub reserved_bytes: Option<u64>,
    /// Why that is unknown; none where it is known.
    pub reserved_reason: Option<String>,
}

impl From<&PoolBytes> for PoolReport {
    fn from(found: &PoolBytes) -> Self {
        Self {
            page_bytes: found.page_bytes,
            untouched_bytes: found.untouched_bytes,
            reserved_bytes: found.reserved_bytes.as_ref().ok().copied(),
            reserved_reason: found.reserved_bytes.as_ref().err().cloned(),
        }
    }
}

/// Findings on memory that is taken and not used.
pub(super) fn findings(regions: &[Region]) -> Vec<Finding> {
    zero_filled(regions).into_iter().chain(reserved(regions)).collect()
}

/// Much of the huge pages that holds only zeros: at least half of what is in them.
fn zero_filled(regions: &[Region]) -> Option<Finding> {
    let mut sums = (0, 0);
    let mut is_exact = true;
    for (zero, report) in regions.iter().filter_map(|one| one.zero_filled_bytes.zip(one.zero_filled.as_ref())) {
        sums = (sums.0 + zero, sums.1 + report.huge_bytes);
        is_exact &= report.exact;
    }
    let (zero, huge) = sums;
    (zero >= WORTH_A_WORD && zero >= huge / 2).then(|| Finding {
        id: "process.zero_filled",
        level: Level::Note,
        found: format!(
            "{}{:.1} of {:.1} MiB in huge pages hold only zeros",
            if is_exact { "" } else { "about " },
            mebibytes(zero),
            mebibytes(huge)
        ),
        needed: "huge pages only where most of their 2 MiB are used: madvise(MADV_NOHUGEPAGE) for the others".to_owned(),
        why: "a huge page takes 2 MiB of memory for each few KiB touched in it, and the kernel splits such pages only under \
              pressure and below khugepaged/max_ptes_none"
            .to_owned(),
        fix: Some("echo 255 | sudo tee /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none".to_owned()),
    })
}

/// Much of a pool that is promised to this process and not used.
fn reserved(regions: &[Region]) -> Option<Finding> {
    let of = |one: &Region| one.pool.as_ref().and_then(|pool| pool.reserved_bytes);
    let bytes: u64 = regions.iter().filter_map(of).sum();
    (bytes >= WORTH_A_WORD).then(|| Finding {
        id: "process.pool_reserved",
        level: Level::Note,
        found: format!(
            "{:.1} MiB of hugetlb pools are kept for this process, which has not touched them",
            mebibytes(bytes)
        ),
        needed: "mappings as large as what is used, or MAP_NORESERVE (with SIGBUS where the pool is empty)".to_owned(),
        why: "pages that are kept are free, and nobody else gets them".to_owned(),
        fix: None,
    })
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
