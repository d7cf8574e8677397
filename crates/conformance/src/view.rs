//! How memory looks to the kernel: the lines of smaps, and what page tables hold.

use pagelab_mapping::{Held, PageSize, inspect};

use crate::outcome::{Outcome, Stop, equal};
use crate::sys::{self, Region};

/// What `/proc/self/smaps` says of the mapping that holds an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Vma {
    pub(crate) bytes: usize,
    pub(crate) page_bytes: usize,
    pub(crate) resident_bytes: usize,
    pub(crate) path: String,
}

/// The mapping that holds the region's first byte.
pub(crate) fn vma(region: &Region) -> Result<Vma, Stop> {
    let text = sys::read_text("/proc/self/smaps")
        .map_err(|errno| Stop::inconclusive(format!("cannot read /proc/self/smaps: {errno}")))?;
    let mut found: Option<Vma> = None;
    for line in text.lines() {
        if let Some((start, end, path)) = heading(line) {
            if found.is_some() {
                break;
            }
            if (start..end).contains(&region.addr) {
                found = Some(Vma { bytes: end - start, path, ..Vma::default() });
            }
        } else if let Some(vma) = &mut found
            && let Some((key, value)) = line.split_once(':')
            && let Some(kib) = value.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<usize>().ok())
        {
            match key {
                "KernelPageSize" => vma.page_bytes = kib * 1024,
                "Rss" => vma.resident_bytes = kib * 1024,
                _ => {}
            }
        }
    }
    found.ok_or_else(|| Stop::fail("/proc/self/smaps", "no mapping at the address", "the mapping just made"))
}

/// `7f0000000000-7f0000200000 rw-s 00001000 00:01 1043   /memfd:name (deleted)`.
fn heading(line: &str) -> Option<(usize, usize, String)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    Some((start, end, words.skip(4).collect::<Vec<_>>().join(" ")))
}

/// The kernel's page size of the mapping must be this.
pub(crate) fn page_size_is(region: &Region, expected: usize) -> Outcome {
    equal("KernelPageSize in smaps, bytes", vma(region)?.page_bytes, expected)
}

/// Resident bytes of the mapping, by smaps: zero pages are none.
pub(crate) fn resident(region: &Region) -> Result<usize, Stop> {
    Ok(vma(region)?.resident_bytes)
}

/// What the page tables hold for the region.
pub(crate) fn held(region: &Region) -> Result<Held, Stop> {
    let got = inspect(region.addr, region.len, PageSize::Huge2M)
        .map_err(|error| Stop::inconclusive(format!("the page tables cannot be seen: {error}")))?;
    got.total().ok_or_else(|| Stop::inconclusive("the kernel does not say what the page tables hold"))
}

/// So many bytes must lie on 2 MiB entries.
pub(crate) fn huge_is(what: &str, region: &Region, expected: u64) -> Outcome {
    equal(&format!("{what}, bytes on 2 MiB entries"), held(region)?.huge_2m_bytes, expected)
}
