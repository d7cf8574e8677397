//! A range of addresses, reserved and aligned, over which mappings are laid.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::error::MapError;
use pagelab_residency::base_page_bytes;

/// Who sees what is written to a mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sharing {
    /// This process alone (MAP_PRIVATE): pages of a file are copied when written.
    Private,
    /// Everybody who maps the same (MAP_SHARED).
    #[default]
    Shared,
}

/// What may be done with a mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    #[default]
    ReadWrite,
}

/// What is laid over a part of a [`Reservation`].
#[derive(Debug, Clone, Copy)]
pub enum Backing<'a> {
    /// Memory of its own.
    Anonymous,
    /// Pages of a hugetlb pool.
    Hugetlb {
        /// Bytes of a page, a power of two.
        page_bytes: usize,
    },
    /// A file, also one on hugetlbfs.
    File {
        /// The open file.
        file: BorrowedFd<'a>,
        /// Where in the file the part begins; a multiple of the page size.
        offset: u64,
        /// MAP_SYNC: a write that reached persistent memory survives a crash without msync (DAX only).
        sync: bool,
    },
}

/// Addresses that belong to this value and hold nothing until something is laid over them. They are unmapped, with all that was
/// laid over them, when the value is dropped.
///
/// ```
/// use pagelab_mapping::{Access, Backing, Reservation, Sharing};
/// let mut range = Reservation::new(8 << 20, 2 << 20)?;
/// assert!(range.address().is_multiple_of(2 << 20));
/// range.overlay(2 << 20, 4 << 20, Backing::Anonymous, Sharing::Private, Access::ReadWrite)?;
/// // Never outside:
/// assert!(range.overlay(6 << 20, 4 << 20, Backing::Anonymous, Sharing::Private, Access::ReadWrite).is_err());
/// # Ok::<(), pagelab_mapping::MapError>(())
/// ```
#[derive(Debug)]
pub struct Reservation {
    address: usize,
    bytes: usize,
}

impl Reservation {
    /// Reserves `bytes`, rounded up to whole base pages, at a multiple of `alignment_bytes`, a power of two.
    ///
    /// # Errors
    /// A length or an alignment that cannot be; no such range is free.
    pub fn new(bytes: usize, alignment_bytes: usize) -> Result<Self, MapError> {
        Self::at_remainder(bytes, alignment_bytes, 0)
    }

    /// As [`Reservation::new`], but at an address which leaves `remainder_bytes` when divided by `alignment_bytes`: where a part of
    /// a file has to lie that begins there in the file, if it is to have huge pages.
    ///
    /// # Errors
    /// As of [`Reservation::new`]; a remainder that is not a multiple of the base page.
    pub fn at_remainder(bytes: usize, alignment_bytes: usize, remainder_bytes: usize) -> Result<Self, MapError> {
        let page = base_page_bytes();
        let too_long = MapError::Length { found_bytes: bytes };
        if bytes == 0 || bytes > isize::MAX as usize {
            return Err(too_long);
        }
        if !alignment_bytes.is_power_of_two() {
            return Err(MapError::Alignment { found_bytes: alignment_bytes });
        }
        if !remainder_bytes.is_multiple_of(page) {
            return Err(unaligned("remainder", remainder_bytes as u64, page));
        }
        let alignment = alignment_bytes.max(page);
        let remainder = remainder_bytes & (alignment - 1);
        let bytes = bytes.next_multiple_of(page);
        let spare = if alignment > page { alignment } else { 0 };
        let padded = bytes.checked_add(spare).ok_or(too_long)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), padded, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(MapError::last("reserving addresses"));
        }
        let start = start as usize;
        let address = start + (remainder.wrapping_sub(start) & (alignment - 1));
        // The surplus on both sides goes back at once; neither call can hit anything but the mapping just made.
        unmap(start, address - start);
        unmap(address + bytes, start + padded - address - bytes);
        Ok(Self { address, bytes })
    }

    /// Address of the first byte.
    #[inline]
    pub fn address(&self) -> usize {
        self.address
    }

    /// Length in bytes, a multiple of the base page.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// Maps `backing` over `bytes` at `offset`, replacing earlier mappings; both are multiples of the backing's page
    /// size.
    ///
    /// # Errors
    /// A part that is not inside the reservation or not made of whole pages; the kernel's refusal.
    pub fn overlay(
        &mut self,
        offset: usize,
        bytes: usize,
        backing: Backing<'_>,
        sharing: Sharing,
        access: Access,
    ) -> Result<(), MapError> {
        let page = match backing {
            Backing::Hugetlb { page_bytes } => page_bytes.max(base_page_bytes()),
            Backing::Anonymous | Backing::File { .. } => base_page_bytes(),
        };
        if !page.is_power_of_two() {
            return Err(MapError::Alignment { found_bytes: page });
        }
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(MapError::OutOfBounds { offset, bytes, map_bytes: self.bytes });
        }
        if bytes == 0 {
            return Err(MapError::Length { found_bytes: 0 });
        }
        for (what, value) in [("address", self.address + offset), ("length", bytes)] {
            if !value.is_multiple_of(page) {
                return Err(unaligned(what, value as u64, page));
            }
        }
        // SAFETY: the range was checked to lie in this reservation, and `&mut self` keeps users of its contents away: a Map lends
        // its reservation to nobody.
        unsafe { map_over(self.address + offset, bytes, backing, sharing, access) }.inspect_err(|_| {
            // Kernels before 6.12 have unmapped the old part by the time they refuse the new one: take the addresses back.
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
            let address = (self.address + offset) as *mut libc::c_void;
            // SAFETY: replaces nothing.
            unsafe { libc::mmap(address, bytes, libc::PROT_NONE, flags, -1, 0) };
        })
    }

    /// Turns `bytes` at `offset` back into reserved addresses that hold nothing.
    ///
    /// # Errors
    /// As of [`Reservation::overlay`].
    pub fn clear(&mut self, offset: usize, bytes: usize) -> Result<(), MapError> {
        let page = base_page_bytes();
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(MapError::OutOfBounds { offset, bytes, map_bytes: self.bytes });
        }
        for (what, value) in [("offset", offset), ("length", bytes)] {
            if !value.is_multiple_of(page) {
                return Err(unaligned(what, value as u64, page));
            }
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let address = (self.address + offset) as *mut libc::c_void;
        // SAFETY: as in `overlay`.
        if unsafe { libc::mmap(address, bytes, libc::PROT_NONE, flags, -1, 0) } == libc::MAP_FAILED {
            return Err(MapError::last("clearing a part of a reservation"));
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        unmap(self.address, self.bytes);
    }
}

fn unaligned(what: &'static str, found: u64, unit_bytes: usize) -> MapError {
    MapError::Unaligned { what, found, unit_bytes }
}

fn unmap(address: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: called with ranges of a reservation that this module made and nobody refers to any more.
        unsafe { libc::munmap(address as *mut libc::c_void, bytes) };
    }
}

/// Maps over whatever is at `address`.
///
/// # Safety
/// The range belongs to the caller, and nothing of Rust's lies in it.
pub(crate) unsafe fn map_over(
    address: usize,
    bytes: usize,
    backing: Backing<'_>,
    sharing: Sharing,
    access: Access,
) -> Result<(), MapError> {
    let protection = match access {
        Access::Read => libc::PROT_READ,
        Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
    };
    let share = match (sharing, backing) {
        (Sharing::Private, _) => libc::MAP_PRIVATE,
        // Only MAP_SHARED_VALIDATE makes file systems without DAX refuse MAP_SYNC instead of ignoring it (mmap(2)).
        (Sharing::Shared, Backing::File { sync: true, .. }) => libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC,
        (Sharing::Shared, _) => libc::MAP_SHARED,
    };
    let (kind, fd, offset) = match backing {
        Backing::Anonymous => (libc::MAP_ANONYMOUS, -1, 0),
        Backing::Hugetlb { page_bytes } => {
            // The size stands in the flags as its logarithm (include/uapi/asm-generic/hugetlb_encode.h).
            let size = (page_bytes.trailing_zeros() as libc::c_int) << libc::MAP_HUGE_SHIFT;
            (libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | size, -1, 0)
        }
        Backing::File { file, offset, .. } => {
            let offset =
                libc::off_t::try_from(offset).map_err(|_| unaligned("file offset", offset, base_page_bytes()))?;
            (0, file.as_raw_fd(), offset)
        }
    };
    let flags = share | kind | libc::MAP_FIXED;
    // SAFETY: the caller's promise.
    let mapped = unsafe { libc::mmap(address as *mut libc::c_void, bytes, protection, flags, fd, offset) };
    if mapped == libc::MAP_FAILED { Err(MapError::last("mapping")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps_lines(from: usize, to: usize) -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let start = |line: &str| usize::from_str_radix(line.split('-').next().unwrap_or(""), 16).unwrap_or(0);
        maps.lines().filter(|line| (from..to).contains(&start(line))).count()
    }

    #[test]
    fn alignment_and_remainder_are_kept() {
        for (bytes, alignment, remainder) in
            [(1, 1, 0), (5 << 20, 2 << 20, 4096), (4096, 1 << 30, 0), (3 << 20, 1 << 30, 6 << 20), (4096, 4096, 8192)]
        {
            let range = Reservation::at_remainder(bytes, alignment, remainder).expect("room");
            let alignment = alignment.max(4096);
            assert_eq!(range.address() % alignment, remainder % alignment);
            assert!(range.len_bytes() >= bytes);
        }
    }

    #[test]
    fn bad_input_is_refused() {
        assert!(matches!(Reservation::new(0, 4096), Err(MapError::Length { .. })));
        assert!(matches!(Reservation::new(usize::MAX, 4096), Err(MapError::Length { .. })));
        assert!(Reservation::new(isize::MAX as usize, 4096).is_err());
        assert!(matches!(Reservation::new(1, 3), Err(MapError::Alignment { .. })));
        assert!(matches!(Reservation::new(1, 0), Err(MapError::Alignment { .. })));
        assert!(Reservation::new(1, 1 << 63).is_err());
        assert!(matches!(Reservation::at_remainder(1, 4096, 7), Err(MapError::Unaligned { .. })));
        let mut range = Reservation::new(1 << 20, 4096).expect("room");
        let mut over = |offset, bytes, backing| range.overlay(offset, bytes, backing, Sharing::Private, Access::Read);
        assert!(matches!(over(0, 2 << 20, Backing::Anonymous), Err(MapError::OutOfBounds { .. })));
        assert!(matches!(over(usize::MAX, 4096, Backing::Anonymous), Err(MapError::OutOfBounds { .. })));
        assert!(matches!(over(1, 4096, Backing::Anonymous), Err(MapError::Unaligned { .. })));
        assert!(matches!(over(0, 0, Backing::Anonymous), Err(MapError::Length { .. })));
        assert!(matches!(over(0, 4096, Backing::Hugetlb { page_bytes: 12_345 }), Err(MapError::Alignment { .. })));
        assert!(matches!(over(0, 4096, Backing::Hugetlb { page_bytes: 2 << 20 }), Err(MapError::Unaligned { .. })));
        assert!(range.clear(0, 1 << 21).is_err() && range.clear(5, 4096).is_err());
    }

    #[test]
    fn all_goes_with_the_reservation() {
        let mut range = Reservation::new(16 << 20, 2 << 20).expect("room");
        let (low, high) = (range.address(), range.address() + range.len_bytes());
        range.overlay(4 << 20, 4 << 20, Backing::Anonymous, Sharing::Private, Access::ReadWrite).expect("map");
        assert!(maps_lines(low, high) >= 2);
        range.clear(4 << 20, 4 << 20).expect("clear");
        range.overlay(0, 16 << 20, Backing::Anonymous, Sharing::Shared, Access::ReadWrite).expect("map");
        drop(range);
        assert_eq!(maps_lines(low, high), 0);
    }
}
