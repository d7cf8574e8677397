//! Address ranges for pieces: where the kernel does not put mappings by itself.
//!
//! Pieces come and go at addresses that follow from the piece's number. If their range were found by mapping and unmapping, the
//! kernel would hand the hole to the next `mmap` of any thread; if it were kept reserved, each piece would be a `mmap` over another
//! mapping and each eviction a second one, which no application does. So ranges are taken from the middle of the address space:
//! the kernel places mappings from the top down and the heap near the bottom, and pieces are mapped with `MAP_FIXED_NOREPLACE`,
//! which fails instead of overwriting if something is there after all.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::LoadError;

/// First address handed out: 16 TiB, of the 128 TiB that x86-64 and 48-bit arm64 give a process.
#[cfg(target_pointer_width = "64")]
const START: u64 = 0x1000_0000_0000;

/// End of what is handed out: 80 TiB.
const END: u64 = 0x5000_0000_0000;

/// Ranges are at least this far apart, so that no huge page of one reaches into the next.
const SPACING: u64 = 1 << 30;

static NEXT: AtomicU64 = AtomicU64::new(START);

/// Takes a range of `span` bytes that starts at a multiple of `align` (a power of two); gives its first address.
///
/// # Errors
/// All is taken.
pub(super) fn take(span: u64, align: u64) -> Result<u64, LoadError> {
    let unit = align.max(SPACING);
    let padded = span.checked_add(2 * unit).filter(|padded| *padded <= END - START).ok_or_else(|| exhausted(span))?;
    let first = NEXT.fetch_add(padded, Ordering::Relaxed);
    let start = first.next_multiple_of(unit);
    if start.checked_add(span).is_some_and(|end| end <= END) { Ok(start) } else { Err(exhausted(span)) }
}

/// There is no range of `span` bytes.
pub(super) fn exhausted(span: u64) -> LoadError {
    LoadError::Host {
        what: "addresses for mappings".to_owned(),
        found: format!("{} bytes in all", END - START),
        needed: format!("{span} bytes"),
        command: "use a smaller size= or a larger map_granularity=".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_aligned_and_apart() {
        let a = take(123, 1 << 21).expect("room");
        let b = take(1 << 32, 1 << 34).expect("room");
        assert!(a.is_multiple_of(1 << 21) && b.is_multiple_of(1 << 34));
        assert!(b >= a + 123 + SPACING - (1 << 21) || a >= b + (1 << 32));
        assert!(take(u64::MAX, 4096).is_err());
        assert!(take(1 << 47, 4096).is_err());
    }
}
