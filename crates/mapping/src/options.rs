//! What to map, and how.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use crate::error::MapError;

use crate::map::{Map, Owned};
use crate::reservation::{Access, Backing, Reservation, Sharing};
use pagelab_residency::{Counters, HUGE_2M_BYTES, PageSize, Past, base_page_bytes, pool};

/// Magic number of hugetlbfs (include/uapi/linux/magic.h).
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

/// How to map; made by [`Map::options`], ended by the method that says what: [`anonymous`](Self::anonymous),
/// [`memfd`](Self::memfd), [`hugetlb`](Self::hugetlb) or [`file`](Self::file).
#[derive(Debug, Clone, Default)]
pub struct MapOptions {
    page_size: PageSize,
    sharing: Option<Sharing>,
    access: Access,
    sync: bool,
    prefault: bool,
    lock: bool,
    fall_back: bool,
    shift_bytes: usize,
}

impl MapOptions {
    /// Asks for pages of this size.
    pub fn page_size(mut self, page_size: PageSize) -> Self {
        self.page_size = page_size;
        self
    }

    /// Writes stay with this process (MAP_PRIVATE). Anonymous and hugetlb memory is private by default.
    pub fn private(mut self) -> Self {
        self.sharing = Some(Sharing::Private);
        self
    }

    /// Writes are seen by all who map the same (MAP_SHARED). Files and memfds are shared by default.
    pub fn shared(mut self) -> Self {
        self.sharing = Some(Sharing::Shared);
        self
    }

    /// For reading alone.
    pub fn read_only(mut self) -> Self {
        self.access = Access::Read;
        self
    }

    /// MAP_SYNC: writes survive a crash once they have left the caches, without msync. Files on DAX only.
    pub fn sync(mut self) -> Self {
        self.sync = true;
        self
    }

    /// Brings all pages in before the map is handed out, so that no later access takes a fault. Memory that cannot be had is an
    /// error here, not a signal later (MADV_POPULATE_READ, MADV_POPULATE_WRITE; Linux 5.14 and later).
    pub fn prefault(mut self) -> Self {
        self.prefault = true;
        self
    }

    /// Locks the pages in memory (mlock), which brings them in.
    pub fn lock(mut self) -> Self {
        self.lock = true;
        self
    }

    /// With [`hugetlb`](Self::hugetlb): ordinary memory, advised to use transparent huge pages, if the pool has too few pages.
    /// [`Map::got`] then says so.
    pub fn fall_back(mut self) -> Self {
        self.fall_back = true;
        self
    }

    /// Places the map this many bytes, a multiple of the base page, off the address that its page size needs: to see what
    /// misalignment costs.
    pub fn shifted(mut self, bytes: usize) -> Self {
        self.shift_bytes = bytes;
        self
    }

    /// Anonymous memory, zeroed.
    ///
    /// # Errors
    /// A length that cannot be, 1 GiB pages (which are the pool's alone), and the kernel's refusals.
    pub fn anonymous(self, bytes: usize) -> Result<Map, MapError> {
        if self.page_size == PageSize::Huge1G {
            let why = "anonymous memory has transparent huge pages of 2 MiB at most; use hugetlb()";
            return Err(MapError::Contradiction { asked: "1 GiB pages", why });
        }
        self.not_sync()?;
        let sharing = self.sharing.unwrap_or(Sharing::Private);
        self.place(Owned::Anonymous, sharing, bytes, 0, Past::default())
    }

    /// Memory of a hugetlb pool, of the page size asked for (2 MiB if none was). The length is rounded up to whole pages.
    ///
    /// # Errors
    /// No pool of this size, too few pages in it, a control group's limit, a length that cannot be.
    pub fn hugetlb(self, bytes: usize) -> Result<Map, MapError> {
        self.not_sync()?;
        let page_bytes = match self.page_size {
            PageSize::Any => HUGE_2M_BYTES,
            PageSize::Base => {
                let why = "a hugetlb pool has huge pages only; use anonymous()";
                return Err(MapError::Contradiction { asked: "base pages", why });
            }
            size => size.bytes().unwrap_or(HUGE_2M_BYTES),
        };
        if !self.shift_bytes.is_multiple_of(page_bytes) {
            return Err(MapError::Unaligned {
                what: "shift of a hugetlb map",
                found: self.shift_bytes as u64,
                unit_bytes: page_bytes,
            });
        }
        let sharing = self.sharing.unwrap_or(Sharing::Private);
        let placed = self.clone().place(Owned::Hugetlb { page_bytes }, sharing, bytes, 0, Past::default());
        match placed {
            Err(
                error
                @ (MapError::PoolTooSmall { .. } | MapError::NoSuchPageSize { .. } | MapError::CgroupLimit { .. }),
            ) if self.fall_back => {
                let past = Past { pool: Some(error.to_string()), ..Past::default() };
                self.place(Owned::Anonymous, sharing, bytes, 0, past)
            }
            placed => placed,
        }
    }

    /// A new file in memory without a name (memfd), of this length.
    ///
    /// # Errors
    /// As of [`anonymous`](Self::anonymous).
    pub fn memfd(self, bytes: usize) -> Result<Map, MapError> {
        if bytes == 0 || bytes > isize::MAX as usize {
            return Err(MapError::Length { found_bytes: bytes });
        }
        // SAFETY: the name is a C string; the descriptor is new and owned from here on.
        let file = unsafe {
            let fd = libc::memfd_create(c"mapping".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(MapError::last("memfd_create"));
            }
            File::from(OwnedFd::from_raw_fd(fd))
        };
        file.set_len(bytes as u64).map_err(|error| MapError::System {
            what: "giving the memfd its length",
            errno: error.raw_os_error().unwrap_or(libc::EINVAL),
        })?;
        self.file(&file, 0, bytes)
    }

    /// `bytes` of a file from `offset` on, which need not be a multiple of anything. The map keeps a descriptor of its own.
    ///
    /// # Errors
    /// The file ends earlier; MAP_SYNC without DAX; a length that cannot be; the kernel's refusals.
    pub fn file(self, file: impl AsFd, offset: u64, bytes: usize) -> Result<Map, MapError> {
        let sharing = self.sharing.unwrap_or(Sharing::Shared);
        if self.sync && sharing == Sharing::Private {
            let why = "MAP_SYNC is for shared maps; leave private() or sync() out";
            return Err(MapError::Contradiction { asked: "private() with sync()", why });
        }
        let own = file.as_fd().try_clone_to_owned().map_err(|error| MapError::System {
            what: "duplicating the descriptor",
            errno: error.raw_os_error().unwrap_or(libc::EINVAL),
        })?;
        if bytes == 0 || bytes > isize::MAX as usize {
            return Err(MapError::Length { found_bytes: bytes });
        }
        check_length(&own, offset, bytes)?;
        let page_bytes = file_page_bytes(&own)?;
        let owned = Owned::File { file: own, offset: offset - offset % page_bytes as u64, sync: self.sync, page_bytes };
        self.place(owned, sharing, bytes, (offset % page_bytes as u64) as usize, Past::default())
    }

    fn not_sync(&self) -> Result<(), MapError> {
        if self.sync {
            let why = "only files on DAX can be mapped so; use file()";
            return Err(MapError::Contradiction { asked: "sync()", why });
        }
        Ok(())
    }

    /// Reserves, overlays, advises, brings in. `lead_bytes` lie before the caller's first byte, in the first page.
    fn place(
        self,
        owned: Owned,
        sharing: Sharing,
        bytes: usize,
        lead_bytes: usize,
        mut past: Past,
    ) -> Result<Map, MapError> {
        past.is_range_known = true;
        let unit = owned.unit_bytes();
        let mapped_bytes = bytes
            .checked_add(lead_bytes)
            .and_then(|bytes| bytes.checked_next_multiple_of(unit))
            .filter(|mapped| bytes > 0 && isize::try_from(*mapped).is_ok())
            .ok_or(MapError::Length { found_bytes: bytes })?;
        let alignment = self.page_size.alignment_bytes().max(unit);
        let file_offset = owned.file_offset();
        let remainder = ((file_offset % alignment as u64) as usize).wrapping_add(self.shift_bytes);
        let mut reservation = Reservation::at_remainder(mapped_bytes, alignment, remainder)?;
        reservation
            .overlay(0, mapped_bytes, owned.backing(), sharing, self.access)
            .map_err(|error| explain(error, &owned, mapped_bytes))?;
        if past.pool.is_none() && !owned.is_hugetlb() && self.page_size == PageSize::Huge2M {
            past.counters = Counters::read(Path::new("/"));
        }
        let fell_back = past.pool.is_some();
        let map = Map::new(reservation, owned, sharing, self.access, bytes, lead_bytes, self.page_size, past);
        map.advise_page_size(fell_back);
        if self.prefault {
            map.prefault_all()?;
        }
        if self.lock {
            map.lock()?;
        }
        Ok(map)
    }
}

/// A file shorter than the part to map has no pages there: better said now than as an error of a copy.
fn check_length(file: &OwnedFd, offset: u64, bytes: usize) -> Result<(), MapError> {
    let needed_bytes = offset.checked_add(bytes as u64).ok_or(MapError::Length { found_bytes: bytes })?;
    match crate::map::regular_file_bytes(file) {
        Some(found_bytes) if found_bytes < needed_bytes => Err(MapError::FileTooShort { found_bytes, needed_bytes }),
        _ => Ok(()),
    }
}

/// The unit of a file's mappings: the pool's page on hugetlbfs (its block size), the base page elsewhere.
fn file_page_bytes(file: &OwnedFd) -> Result<usize, MapError> {
    // SAFETY: a zeroed statfs is a valid value to be overwritten.
    let found = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        if libc::fstatfs(file.as_raw_fd(), &raw mut found) != 0 {
            return Err(MapError::last("fstatfs"));
        }
        found
    };
    let block = usize::try_from(found.f_bsize).unwrap_or(0);
    let is_pool = found.f_type as i64 == HUGETLBFS_MAGIC && block.is_power_of_two();
    Ok(if is_pool { block.max(base_page_bytes()) } else { base_page_bytes() })
}

/// Says which of the known causes a refused mapping has.
fn explain(error: MapError, owned: &Owned, mapped_bytes: usize) -> MapError {
    let MapError::System { errno, .. } = error else { return error };
    match (errno, owned) {
        (libc::EOPNOTSUPP, Owned::File { sync: true, .. }) => MapError::SyncUnsupported,
        (libc::ENOMEM | libc::EINVAL | libc::ENOENT, _) if owned.is_hugetlb() => {
            pool::why_refused(Path::new("/"), owned.unit_bytes(), mapped_bytes).map_or(error, MapError::from)
        }
        _ => error,
    }
}

impl Owned {
    /// What is mapped and replaced at once.
    pub(crate) fn unit_bytes(&self) -> usize {
        match self {
            Self::Anonymous => base_page_bytes(),
            Self::Hugetlb { page_bytes } | Self::File { page_bytes, .. } => *page_bytes,
        }
    }

    /// Whether its pages come from a hugetlb pool.
    pub(crate) fn is_hugetlb(&self) -> bool {
        match self {
            Self::Anonymous => false,
            Self::Hugetlb { .. } => true,
            Self::File { page_bytes, .. } => *page_bytes > base_page_bytes(),
        }
    }

    fn file_offset(&self) -> u64 {
        if let Self::File { offset, .. } = self { *offset } else { 0 }
    }

    pub(crate) fn backing(&self) -> Backing<'_> {
        match self {
            Self::Anonymous => Backing::Anonymous,
            Self::Hugetlb { page_bytes } => Backing::Hugetlb { page_bytes: *page_bytes },
            Self::File { file, offset, sync, .. } => Backing::File { file: file.as_fd(), offset: *offset, sync: *sync },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_residency::maps;

    #[test]
    fn a_file_must_be_as_long_as_the_part_to_map() {
        let file = OwnedFd::from(tempfile::tempfile().expect("tempfile"));
        let set = |bytes: u64| File::from(file.try_clone().expect("a descriptor")).set_len(bytes).expect("length");
        set((2 << 20) - 1);
        let error = check_length(&file, 1 << 20, 1 << 20).expect_err("a byte is missing");
        let MapError::FileTooShort { found_bytes, needed_bytes } = error else { panic!("{error}") };
        assert_eq!((found_bytes, needed_bytes), ((2 << 20) - 1, 2 << 20));
        set(2 << 20);
        check_length(&file, 1 << 20, 1 << 20).expect("it is as long");
        assert!(check_length(&file, (1 << 20) + 1, 1 << 20).is_err());
    }

    #[test]
    fn memory_is_advised_as_its_page_size_asks() {
        if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        let file = tempfile::tempfile().expect("tempfile");
        file.set_len(4 << 20).expect("length");
        for (page_size, expected) in
            [(PageSize::Any, [false, false]), (PageSize::Base, [false, true]), (PageSize::Huge2M, [true, false])]
        {
            let options = Map::options().page_size(page_size);
            for map in [options.clone().anonymous(4 << 20), options.file(&file, 0, 4 << 20)] {
                let map = map.expect("map");
                let (start, end) = (map.address() as u64, (map.address() + (4 << 20)) as u64);
                let found = maps::read(Path::new("/proc/self"), start, end).expect("smaps");
                assert!(!found.is_empty());
                for vma in found {
                    assert_eq!(["hg", "nh"].map(|flag| vma.has_flag(flag)), expected, "{page_size:?}: {}", vma.flags);
                }
            }
        }
    }
}
