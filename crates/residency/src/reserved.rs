//! Pages that a hugetlb pool keeps for a mapping which has not touched them: nobody else gets them.
//!
//! The kernel promises the pages of a mapping when it is made (Documentation/mm/hugetlbfs_reserv.rst): of a private one to the
//! process that made it, of a shared one to the file. `/proc` does not show promises, so they follow from what is mapped and touched.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::maps::{self, Vma};
use crate::pagemap::{IS_FILE, IS_PRESENT, Region};
use crate::pool::Pool;
use crate::process::{Told, as_root};

/// What a mapping of a hugetlb pool has of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolBytes {
    /// Bytes of one page.
    pub page_bytes: u64,
    /// Bytes of the mapping that this process has not touched.
    pub untouched_bytes: u64,
    /// Bytes that the pool keeps for it, free and out of reach for others.
    pub reserved_bytes: Told<u64>,
}

/// What `vma`, of a hugetlb pool, has of it.
pub(crate) fn of(root: &Path, folder: &Path, status: &str, vma: &Vma, regions: &[Region]) -> PoolBytes {
    let bytes = vma.len_bytes();
    let sum = |mask: u64, wanted: u64| -> u64 {
        let held = regions.iter().filter(|region| region.categories & mask == wanted);
        held.map(|region| region.end - region.start).sum()
    };
    let touched = sum(IS_PRESENT, IS_PRESENT);
    let reserved = if vma.has_flag("nr") {
        // MAP_NORESERVE: nothing is promised.
        Ok(0)
    } else if vma.permissions.ends_with('s') {
        of_shared(folder, vma, touched)
    } else {
        // A page of the file that is only read is not yet its own: writing will take a promised one.
        Ok(of_private(root, status, vma, bytes - sum(IS_PRESENT | IS_FILE, IS_PRESENT).min(bytes)))
    };
    let reserved_bytes = reserved.and_then(|bytes| within_pool(root, vma.kernel_page_bytes, bytes));
    PoolBytes { page_bytes: vma.kernel_page_bytes, untouched_bytes: bytes - touched.min(bytes), reserved_bytes }
}

/// The promise is the file's: what of its mapped range has no page yet, whoever touched the others.
fn of_shared(folder: &Path, vma: &Vma, touched: u64) -> Told<u64> {
    let bytes = vma.end - vma.start;
    let link = folder.join(format!("map_files/{:x}-{:x}", vma.start, vma.end));
    let file = fs::metadata(&link)
        .map_err(|error| format!("how many pages the file has: {}: {error}; {}", link.display(), as_root(folder)))?;
    let allocated = file.blocks() * 512;
    if vma.offset == 0 && bytes >= file.len() {
        return Ok(bytes - allocated.min(bytes));
    }
    // A part of the file: its pages lie in this part or in another.
    match allocated {
        0 => Ok(bytes),
        _ if allocated == touched => Ok(bytes - touched.min(bytes)),
        _ => Err(format!(
            "{allocated} bytes of the file have pages, {touched} of them are entered here; whether the others lie in this part of the \
             file is not shown"
        )),
    }
}

/// The promise is of the process that made the mapping; one that inherited it by fork has none.
fn of_private(root: &Path, status: &str, vma: &Vma, untouched: u64) -> u64 {
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<u32>().ok());
    let Some(parent) = parent.filter(|pid| *pid > 0) else { return untouched };
    let folder = root.join(format!("proc/{parent}"));
    // A parent that cannot be read is another user's: it did not fork a process with this memory, or exec came between.
    let inherited = maps::mapped(&folder, vma).unwrap_or(false);
    if inherited { 0 } else { untouched }
}

/// The reservations of a pool are at least those of one process.
fn within_pool(root: &Path, page_bytes: u64, bytes: u64) -> Told<u64> {
    let Ok(pool) = Pool::read(root, page_bytes as usize) else { return Ok(bytes) };
    let promised = pool.reserved_pages * page_bytes;
    if bytes <= promised {
        return Ok(bytes);
    }
    Err(format!(
        "{bytes} bytes of it are not touched, but the pool keeps {promised} bytes in all: the mapping may come from a process that has \
         ended since, whose promises ended with it"
    ))
}
