//! How memory looks to the kernel: the lines of smaps, and what page tables hold.

use std::path::Path;

use pagelab_residency::maps::{self, Vma};
use pagelab_residency::{Held, PageSize, inspect};

use crate::outcome::{Outcome, Stop, equal};
use crate::sys::Region;

/// What smaps says of the mapping that holds the region's first byte.
pub(crate) fn vma(region: &Region) -> Result<Vma, Stop> {
    let first = region.addr as u64;
    let found = maps::read(Path::new("/proc/self"), first, first + 1)
        .map_err(|error| Stop::inconclusive(format!("cannot read {error}")))?;
    let missing = || Stop::fail("/proc/self/smaps", "no mapping at the address", "the mapping just made");
    found.into_iter().next().ok_or_else(missing)
}

/// The kernel's page size of the mapping must be this.
pub(crate) fn page_size_is(region: &Region, expected: usize) -> Outcome {
    equal("KernelPageSize in smaps, bytes", vma(region)?.kernel_page_bytes as usize, expected)
}

/// Resident bytes of the mapping, by smaps: zero pages are none.
pub(crate) fn resident(region: &Region) -> Result<usize, Stop> {
    Ok(vma(region)?.resident_bytes as usize)
}

/// The page table entries of the region.
pub(crate) fn held(region: &Region) -> Result<Held, Stop> {
    let got = inspect(region.addr, region.len, PageSize::Huge2M)
        .map_err(|error| Stop::inconclusive(format!("the page tables cannot be seen: {error}")))?;
    got.total().ok_or_else(|| Stop::inconclusive("the kernel does not say what the page tables hold"))
}

/// Bytes that 2 MiB entries must map.
pub(crate) fn huge_is(what: &str, region: &Region, expected: u64) -> Outcome {
    equal(&format!("{what}, bytes on 2 MiB entries"), held(region)?.huge_2m_bytes, expected)
}
