//! Slots of a file that are in memory, and whether a mapping of them is one entry.
//!
//! Folios in the page cache decide before any rule does: a mapping shows them as they are. So they are inspected
//! directly: the slot is mapped for reading, and one page of it that is in memory is faulted in by MADV_POPULATE_READ,
//! so that no byte of the file is loaded and no read reaches the device. Then the page tables are read.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use pagelab_mapping::{Access, Backing, MapError, Reservation, Sharing};
use pagelab_residency::{PageSize, inspect};

use super::ioctls::{cached_pages, resident};
use super::judge::Seen;
use super::report::SLOT_BYTES;

/// Slots that are mapped at a time.
const WINDOW_SLOTS: u64 = 256;

/// What is in memory of a file.
#[derive(Debug, Default)]
pub(super) struct InMemory {
    /// Bytes.
    pub(super) bytes: u64,
    /// Slots with pages in memory, in order.
    pub(super) slots: Vec<(u64, Seen)>,
}

/// Looks at all slots of a file of this length.
///
/// # Errors
/// The kernel does not tell which pages are in memory, or the file cannot be mapped; in words.
pub(super) fn look(file: &File, size_bytes: u64) -> Result<InMemory, String> {
    let pages = cached_pages(file, 0, 0).map_err(|error| why_not(&error))?;
    let mut slots = Vec::new();
    if pages > 0 {
        collect(file, 0, size_bytes.div_ceil(SLOT_BYTES), &mut slots).map_err(|error| why_not(&error))?;
    }
    let mut found = InMemory { bytes: pages * rustix::param::page_size() as u64, slots: Vec::new() };
    let mut left = slots.as_slice();
    while let Some(first) = left.first() {
        let inside = left.partition_point(|slot| *slot < first + WINDOW_SLOTS);
        let (window, rest) = left.split_at(inside);
        found.slots.extend(of_window(file, window).map_err(|error| error.to_string())?);
        left = rest;
    }
    Ok(found)
}

fn why_not(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "cachestat: this kernel has no such call (Linux 6.5 and later do)".to_owned(),
        Some(libc::EPERM | libc::EACCES) => {
            "cachestat: refused; needed to own the file or to be allowed to write it".to_owned()
        }
        _ => format!("cachestat: {error}"),
    }
}

/// The slots of `[first, end)` with pages in memory: halves without any are left at once, so that a hole of a TiB takes one call.
fn collect(file: &File, first: u64, end: u64, slots: &mut Vec<u64>) -> io::Result<()> {
    if first >= end {
        return Ok(());
    }
    if cached_pages(file, first * SLOT_BYTES, (end - first) * SLOT_BYTES)? == 0 {
        return Ok(());
    }
    if end - first == 1 {
        slots.push(first);
        return Ok(());
    }
    let middle = first + (end - first) / 2;
    collect(file, first, middle, slots)?;
    collect(file, middle, end, slots)
}

/// What the page tables say of these slots, which lie in one window.
fn of_window(file: &File, slots: &[u64]) -> Result<Vec<(u64, Seen)>, MapError> {
    let (Some(first), Some(last)) = (slots.first(), slots.last()) else { return Ok(Vec::new()) };
    let bytes = ((last + 1 - first) * SLOT_BYTES) as usize;
    let mut range = Reservation::new(bytes, SLOT_BYTES as usize)?;
    // The mapping goes on behind the end of the file, so that the last slot can be huge too.
    let backing = Backing::File { file: file.as_fd(), offset: first * SLOT_BYTES, sync: false };
    range.overlay(0, bytes, backing, Sharing::Shared, Access::Read)?;
    advise(range.address(), bytes, rustix::mm::Advice::Random);
    let at = |slot: u64| range.address() + ((slot - first) * SLOT_BYTES) as usize;
    for slot in slots {
        bring_in(file, *slot, at(*slot));
    }
    let got = inspect(range.address(), bytes, PageSize::Huge2M)?;
    let seen = |slot: u64| {
        let held = got.slots.get((slot - first) as usize).and_then(|slot| slot.held);
        match held {
            Some(held) if held.huge_2m_bytes > 0 => Seen::Huge,
            Some(held) if held.base_bytes > 0 => Seen::Small,
            _ => Seen::Hidden,
        }
    };
    Ok(slots.iter().map(|slot| (*slot, seen(*slot))).collect())
}

/// Faults in one page of the slot that is in memory. If mincore reports more pages than cachestat its answer may be
/// false (it says "all" to callers who could not write the file), and no page is faulted in: that could read from the
/// device.
fn bring_in(file: &File, slot: u64, address: usize) {
    let page = rustix::param::page_size();
    let mut pages = vec![0_u8; SLOT_BYTES as usize / page];
    if resident(address, &mut pages).is_err() {
        return;
    }
    let count = pages.iter().filter(|page| **page & 1 != 0).count() as u64;
    let told = cached_pages(file, slot * SLOT_BYTES, SLOT_BYTES).unwrap_or(0);
    let Some(index) = pages.iter().position(|page| page & 1 != 0).filter(|_| count <= told) else { return };
    advise(address + index * page, page, rustix::mm::Advice::LinuxPopulateRead);
}

/// Advice that changes nothing of what the memory holds; a refusal shows in the page tables.
fn advise(address: usize, bytes: usize, advice: rustix::mm::Advice) {
    // SAFETY: the addresses lie in a mapping of this module's own, and neither kind of advice takes pages away.
    let _ = unsafe { rustix::mm::madvise(address as *mut std::ffi::c_void, bytes, advice) };
}
