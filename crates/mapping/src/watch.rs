//! A watch on memory that others mapped: SIGBUS in it is a note instead of the end of the process.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::bus::{self, Slot};
use crate::error::MapError;

/// Looks after a range of addresses for as long as it lives: where an access of any thread meets no page (a file that was cut
/// short, an exhausted hugetlb pool), ordinary memory of zeros is put there so that the access ends, and [`Watch::failed`] tells.
///
/// The memory stays: what lay there before comes back only when the range is mapped anew. Maps of this library look after
/// themselves and need no watch.
#[derive(Debug)]
pub struct Watch {
    slot: &'static Slot,
}

impl Watch {
    /// Watches `range`, whose mappings are made of pages of `unit_bytes`: the base page, or that of the hugetlb pool, since such
    /// mappings can be replaced by whole pages only. Both ends are multiples of it. Parts of the range may be mapped later.
    ///
    /// # Errors
    /// An empty range, a unit that is not a power of two, an end that is not a multiple of it.
    ///
    /// # Safety
    /// Until the watch is dropped the range belongs to the caller: nothing of Rust's (references, the stack, allocations) lies in
    /// it, for its contents may be replaced, and its pages are not larger than `unit_bytes`. When it is dropped no thread is
    /// accessing the range.
    pub unsafe fn new(range: Range<usize>, unit_bytes: usize) -> Result<Self, MapError> {
        if range.is_empty() {
            return Err(MapError::Length { found_bytes: 0 });
        }
        if !unit_bytes.is_power_of_two() {
            return Err(MapError::Alignment { found_bytes: unit_bytes });
        }
        for (what, found) in [("start of a watch", range.start), ("end of a watch", range.end)] {
            if !found.is_multiple_of(unit_bytes) {
                return Err(MapError::Unaligned { what, found: found as u64, unit_bytes });
            }
        }
        Ok(Self { slot: bus::register(range.start, range.len(), unit_bytes, ptr::null_mut()) })
    }

    /// The first address of the range that had no page, if there was one. It is seen by the thread that made the access at once; the
    /// cost is one load.
    #[allow(clippy::inline_always)] // Between copies of 64 bytes a call would be seen.
    #[inline(always)]
    pub fn failed(&self) -> Option<usize> {
        // The handler runs on the thread that made the access: the compiler is all that could look too early.
        compiler_fence(Ordering::SeqCst);
        match self.slot.failed() {
            0 => None,
            address => Some(address),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.slot.give_back();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::reservation::{Access, Backing, Reservation, Sharing};
    use pagelab_residency::base_page_bytes;

    /// Two pages of a file of their own, mapped and watched.
    struct Mapped {
        watch: Option<Watch>,
        reservation: Reservation,
        file: File,
    }

    impl Mapped {
        fn new() -> Self {
            let page = base_page_bytes();
            let file = tempfile::tempfile().expect("tempfile");
            file.set_len(2 * page as u64).expect("length");
            let mut reservation = Reservation::new(2 * page, page).expect("room");
            let backing = Backing::File { file: std::os::fd::AsFd::as_fd(&file), offset: 0, sync: false };
            reservation.overlay(0, 2 * page, backing, Sharing::Shared, Access::Read).expect("map");
            let start = reservation.address();
            // SAFETY: the reservation is this value's, and nothing refers into it.
            let watch = unsafe { Watch::new(start..start + 2 * page, page) }.expect("watch");
            Self { watch: Some(watch), reservation, file }
        }

        fn second(&self) -> usize {
            self.reservation.address() + base_page_bytes()
        }

        /// A byte of the two pages.
        fn read(&self, address: usize) -> u8 {
            assert!((self.reservation.address()..self.second() + base_page_bytes()).contains(&address));
            // SAFETY: in the reservation, which is mapped and watched.
            unsafe { (address as *const u8).read_volatile() }
        }

        fn failed(&self) -> Option<usize> {
            self.watch.as_ref().and_then(Watch::failed)
        }
    }

    #[test]
    fn each_watch_notes_its_own_first_failure() {
        let (cut, whole) = (Mapped::new(), Mapped::new());
        assert_eq!((cut.read(cut.second()), cut.failed()), (0, None));
        cut.file.set_len(base_page_bytes() as u64).expect("truncate");
        assert_eq!((cut.read(cut.reservation.address()), cut.failed()), (0, None), "the first page is there");
        assert_eq!((cut.read(cut.second() + 7), cut.failed()), (0, Some(cut.second() + 7)));
        cut.file.set_len(0).expect("truncate");
        cut.read(cut.reservation.address());
        assert_eq!(cut.failed(), Some(cut.second() + 7), "the first one stays");
        whole.read(whole.second());
        assert_eq!(whole.failed(), None);
    }

    #[test]
    fn threads_are_looked_after_and_see_each_others_failures() {
        let cut = Mapped::new();
        cut.file.set_len(0).expect("truncate");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| cut.read(cut.second()));
            }
        });
        assert_eq!(cut.failed(), Some(cut.second()));
    }

    #[test]
    fn what_is_dropped_is_forgotten() {
        let mut mapped = Mapped::new();
        assert!(bus::replaced(mapped.second(), false));
        assert_eq!(mapped.failed(), Some(mapped.second()));
        mapped.watch = None;
        assert!(!bus::replaced(mapped.second(), false));
    }

    #[test]
    fn bad_ranges_are_refused() {
        // SAFETY: nothing is mapped there, and every watch is refused.
        let watch = |range, unit| unsafe { Watch::new(range, unit) }.map(drop);
        let (low, page) = (1 << 20, 4096);
        assert_eq!(watch(low..low, page), Err(MapError::Length { found_bytes: 0 }));
        assert_eq!(watch(low..low + page, 0), Err(MapError::Alignment { found_bytes: 0 }));
        assert_eq!(watch(low..low + page, 4095), Err(MapError::Alignment { found_bytes: 4095 }));
        assert!(matches!(watch(low + 1..low + page, page), Err(MapError::Unaligned { found: 1_048_577, .. })));
        assert!(matches!(watch(low..low + page, 2 << 20), Err(MapError::Unaligned { unit_bytes: 0x20_0000, .. })));
    }
}
