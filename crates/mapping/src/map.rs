//! A mapping: copies, advice, what the kernel gave.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::bus::MapWatch;
use crate::cache_lines::{CacheLines, WriteBack};
use crate::error::{MapError, last_errno};

use crate::options::MapOptions;
use crate::reservation::{Access, Backing, Reservation, Sharing, map_over};
use pagelab_residency::{Got, PageSize, Past, base_page_bytes, inspect_with, pool};

/// What lies under a map, kept for as long as it lives.
#[derive(Debug)]
pub(crate) enum Owned {
    /// Memory.
    Anonymous,
    /// Pages of a pool.
    Hugetlb {
        /// Bytes of one.
        page_bytes: usize,
    },
    /// A file.
    File {
        /// A descriptor of the map's own.
        file: OwnedFd,
        /// Where in the file the map's first page begins.
        offset: u64,
        /// MAP_SYNC.
        sync: bool,
        /// Unit of its mappings.
        page_bytes: usize,
    },
}

/// Advice of madvise(2) for a part of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// No particular order (MADV_NORMAL).
    Normal,
    /// Random order: no read-ahead (MADV_RANDOM).
    Random,
    /// In order: read ahead, drop behind (MADV_SEQUENTIAL).
    Sequential,
    /// Soon needed (MADV_WILLNEED).
    WillNeed,
    /// Use transparent huge pages (MADV_HUGEPAGE).
    HugePage,
    /// Use none (MADV_NOHUGEPAGE).
    NoHugePage,
    /// Leave it out of core dumps (MADV_DONTDUMP).
    DontDump,
    /// Children of fork do not have it (MADV_DONTFORK).
    DontFork,
    /// Look for pages that are alike (MADV_MERGEABLE).
    Mergeable,
}

/// How [`Map::flush`] made writes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// msync(MS_SYNC): the kernel wrote the dirty pages.
    Msync,
    /// Cache lines were written back to persistent memory, with this instruction; no system call.
    CacheLines(WriteBack),
    /// Anonymous memory, or a private map: there is nothing to write to.
    Nothing,
}

/// Memory of this process that a file, a pool or nothing but memory lies under. It is unmapped when dropped.
///
/// Copies in and out are checked: outside the map, or where the kernel has no page (a truncated file, an exhausted
/// pool), they are errors. Several threads may copy at once, and other processes may write to the same file meanwhile:
/// a copy concurrent with a write may hold bytes of both.
#[derive(Debug)]
pub struct Map {
    // First: the handler of signals must forget the addresses before they are unmapped.
    watch: MapWatch,
    reservation: Reservation,
    owned: Owned,
    sharing: Sharing,
    access: Access,
    bytes: usize,
    lead_bytes: usize,
    asked: PageSize,
    past: Past,
    /// Held while pages that had no memory are put right.
    repair: Mutex<()>,
}

impl Map {
    /// How to map; see [`MapOptions`].
    pub fn options() -> MapOptions {
        MapOptions::default()
    }

    #[allow(clippy::too_many_arguments)] // Called once, by the options.
    pub(crate) fn new(
        reservation: Reservation,
        owned: Owned,
        sharing: Sharing,
        access: Access,
        bytes: usize,
        lead_bytes: usize,
        asked: PageSize,
        past: Past,
    ) -> Self {
        let watch = MapWatch::new(reservation.address(), reservation.len_bytes(), owned.unit_bytes());
        Self { watch, reservation, owned, sharing, access, bytes, lead_bytes, asked, past, repair: Mutex::new(()) }
    }

    /// Length in bytes, as asked for.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// Address of the first byte.
    #[inline]
    pub fn address(&self) -> usize {
        self.reservation.address() + self.lead_bytes
    }

    /// The first byte, for code that copies by itself. Where there is no page it reads zeros instead of being killed by SIGBUS, and
    /// [`Map::check`] tells so afterwards.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.address() as *const u8
    }

    /// The first byte, for writing, if the map is not read-only.
    #[inline]
    pub fn as_mut_ptr(&self) -> Option<*mut u8> {
        (self.access == Access::ReadWrite).then_some(self.address() as *mut u8)
    }

    /// Copies the bytes at `offset` into `buffer`. No system call, no allocation.
    ///
    /// # Errors
    /// The block is not inside the map; the kernel had no page for it ([`MapError::NoPage`]), in which case the buffer's contents
    /// are unspecified.
    #[inline]
    pub fn read_at(&self, offset: usize, buffer: &mut [u8]) -> Result<(), MapError> {
        if !self.holds(offset, buffer.len()) {
            return Err(self.out_of_bounds(offset, buffer.len()));
        }
        // Raw parts from here on: a slice that the slow way could see would keep the compiler from knowing its length.
        let (into, bytes) = (buffer.as_mut_ptr(), buffer.len());
        // SAFETY: the block is inside the map, which is readable, and fits the buffer, which is elsewhere. Others may write to the
        // memory meanwhile: the bytes are copied, never interpreted.
        unsafe { self.copy(self.as_ptr().add(offset), into, offset, bytes) }
    }

    /// Copies `data` to `offset`. No system call, no allocation. What is written is durable after [`Map::flush`].
    ///
    /// # Errors
    /// The map is read-only; the block is not inside it; the kernel had no page for it, in which case a part of the data may have
    /// been written.
    #[inline]
    pub fn write_at(&self, offset: usize, data: &[u8]) -> Result<(), MapError> {
        if !self.holds(offset, data.len()) {
            return Err(self.out_of_bounds(offset, data.len()));
        }
        let Some(start) = self.as_mut_ptr() else { return Err(MapError::ReadOnly) };
        let (from, bytes) = (data.as_ptr(), data.len());
        // SAFETY: the block is inside the map, which is writable, and as long as the data, which is elsewhere, since nobody has a
        // reference into the map. Threads that copy at the same time get bytes of both.
        unsafe { self.copy(from, start.add(offset), offset, bytes) }
    }

    /// Copies between the block at `offset` and memory elsewhere.
    ///
    /// # Safety
    /// `bytes` from `from` on can be read, `bytes` from `into` on can be written, and they do not overlap; one of the two is the
    /// block at `offset`, which is inside the map.
    #[inline]
    unsafe fn copy(&self, from: *const u8, into: *mut u8, offset: usize, bytes: usize) -> Result<(), MapError> {
        if let Some(before) = self.watch.before() {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from, into, bytes) };
            if self.watch.whole_since(before) {
                return Ok(());
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.copy_again(from, into, offset, bytes) }
    }

    /// Says that a copy from `offset` comes soon: one prefetch instruction. Called with the offset of the next block before the
    /// present one is copied, it hides the next one's first miss of cache and TLB behind the present copy. Offsets outside the map
    /// are ignored.
    #[inline]
    pub fn expect_read(&self, offset: usize) {
        if offset < self.bytes {
            // SAFETY: a prefetch never faults; the address is inside the map all the same.
            prefetch(unsafe { self.as_ptr().add(offset) });
        }
    }

    /// Whether all of `bytes` at `offset` have memory behind them, as far as accesses by [`Map::as_ptr`] have found.
    ///
    /// # Errors
    /// The block is not inside the map; a page of it had no memory, which is put right by this call: a later access asks the kernel
    /// again.
    pub fn check(&self, offset: usize, bytes: usize) -> Result<(), MapError> {
        if !self.holds(offset, bytes) {
            return Err(self.out_of_bounds(offset, bytes));
        }
        let _guard = self.repair.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = self.watch.replaced_in(self.address() + offset, bytes);
        self.put_right();
        failed.map_or(Ok(()), |address| Err(self.no_page(address.saturating_sub(self.address()))))
    }

    /// Brings the pages of `bytes` at `offset` in, as reading (or, for memory that is writable and belongs to no file, writing)
    /// them would, in one call and with errors instead of signals.
    ///
    /// # Errors
    /// The block is not inside the map; there is no memory for it; the kernel is older than 5.14.
    pub fn prefault(&self, offset: usize, bytes: usize) -> Result<(), MapError> {
        let (address, length) = self.pages(offset, bytes)?;
        let write = self.access == Access::ReadWrite && !matches!(self.owned, Owned::File { .. });
        let advice = if write { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
        match madvise(address, length, advice) {
            Ok(()) => Ok(()),
            // "Populating failed because a SIGBUS would have been generated on actual memory access" (madvise(2)).
            Err(libc::EFAULT | libc::ENOMEM) if self.owned.is_hugetlb() || self.is_file() => {
                Err(self.no_page(self.first_beyond(offset)))
            }
            Err(libc::EHWPOISON) => Err(self.no_page(offset)),
            Err(errno) => Err(MapError::System { what: "prefault (MADV_POPULATE_READ/WRITE, Linux 5.14)", errno }),
        }
    }

    pub(crate) fn prefault_all(&self) -> Result<(), MapError> {
        self.prefault(0, self.bytes)
    }

    /// Locks all pages in memory, which brings them in.
    pub(crate) fn lock(&self) -> Result<(), MapError> {
        let (address, length) = self.pages(0, self.bytes)?;
        // SAFETY: changes nothing but where the pages are kept.
        if unsafe { libc::mlock(address as *const libc::c_void, length) } == 0 {
            return Ok(());
        }
        let errno = last_errno();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
        Err(match limit.current {
            Some(limit_bytes) if matches!(errno, libc::ENOMEM | libc::EPERM | libc::EAGAIN) => {
                MapError::MemlockLimit { limit_bytes, needed_bytes: length as u64 }
            }
            _ => MapError::System { what: "mlock", errno },
        })
    }

    /// Gathers the 4 KiB pages of `bytes` at `offset` into huge pages, now and by this thread (MADV_COLLAPSE, Linux 6.1).
    ///
    /// # Errors
    /// The kernel's answer, in words; some slots may have been collapsed before it. [`Map::got`] tells which.
    pub fn collapse(&self, offset: usize, bytes: usize) -> Result<(), MapError> {
        let (address, length) = self.pages(offset, bytes)?;
        madvise(address, length, libc::MADV_COLLAPSE).map_err(|errno| MapError::NotCollapsed { errno })
    }

    /// Gives advice on the pages that `bytes` at `offset` touch.
    ///
    /// # Errors
    /// The block is not inside the map; the kernel's refusal.
    pub fn advise(&self, offset: usize, bytes: usize, advice: Advice) -> Result<(), MapError> {
        let (address, length) = self.pages(offset, bytes)?;
        madvise(address, length, advice.number()).map_err(|errno| MapError::System { what: "madvise", errno })
    }

    /// The advice that the page size asked for implies. A refusal (a kernel without transparent huge pages) shows in `got`.
    pub(crate) fn advise_page_size(&self, fell_back: bool) {
        let advice = match self.asked {
            _ if self.owned.is_hugetlb() => return,
            _ if fell_back => Advice::HugePage,
            PageSize::Any => return,
            PageSize::Base => Advice::NoHugePage,
            PageSize::Huge2M | PageSize::Huge1G => Advice::HugePage,
        };
        _ = self.advise(0, self.bytes, advice);
    }

    /// Makes writes to `bytes` at `offset` durable: by msync, or on MAP_SYNC maps by writing cache lines back.
    ///
    /// # Errors
    /// The block is not inside the map; the medium's error.
    pub fn flush(&self, offset: usize, bytes: usize) -> Result<Flushed, MapError> {
        let (address, length) = self.pages(offset, bytes)?;
        match (&self.owned, self.sharing) {
            (Owned::File { sync: true, .. }, _) => {
                if let Some(lines) = CacheLines::of_this_processor() {
                    // SAFETY: the block lies in this map, as `pages` has found.
                    unsafe { lines.write_back(self.address() + offset, bytes) };
                    lines.fence();
                    return Ok(Flushed::CacheLines(lines.how()));
                }
            }
            (Owned::File { .. }, Sharing::Shared) => {}
            _ => return Ok(Flushed::Nothing),
        }
        // SAFETY: writes back pages of this map.
        if unsafe { libc::msync(address as *mut libc::c_void, length, libc::MS_SYNC) } != 0 {
            return Err(MapError::last("msync"));
        }
        Ok(Flushed::Msync)
    }

    /// What the kernel gave, for each 2 MiB, and why it is less than asked for where it is.
    ///
    /// # Errors
    /// Files of `/proc/self` cannot be read.
    pub fn got(&self) -> Result<Got, MapError> {
        self.got_for(self.asked)
    }

    /// As [`Map::got`], held against another page size than the map was made with.
    ///
    /// # Errors
    /// As of [`Map::got`].
    pub fn got_for(&self, asked: PageSize) -> Result<Got, MapError> {
        Ok(inspect_with(self.reservation.address(), self.reservation.len_bytes(), asked, &self.past)?)
    }

    /// The first page at or after `offset` that lies beyond the end of a file that has become shorter; `offset` if none does.
    fn first_beyond(&self, offset: usize) -> usize {
        let Owned::File { file, offset: start, page_bytes, .. } = &self.owned else { return offset };
        let Some(file_bytes) = regular_file_bytes(file) else { return offset };
        let page = *page_bytes as u64;
        let end = file_bytes.next_multiple_of(page).saturating_sub(start + self.lead_bytes as u64) as usize;
        if end < self.bytes { offset.max(end) } else { offset }
    }

    fn is_file(&self) -> bool {
        matches!(self.owned, Owned::File { .. })
    }

    #[inline]
    fn holds(&self, offset: usize, bytes: usize) -> bool {
        offset <= self.bytes && bytes <= self.bytes - offset
    }

    #[cold]
    fn out_of_bounds(&self, offset: usize, bytes: usize) -> MapError {
        MapError::OutOfBounds { offset, bytes, map_bytes: self.bytes }
    }

    /// The whole pages that a block touches: address and length, for calls that want them so.
    fn pages(&self, offset: usize, bytes: usize) -> Result<(usize, usize), MapError> {
        if !self.holds(offset, bytes) {
            return Err(self.out_of_bounds(offset, bytes));
        }
        let unit = self.owned.unit_bytes().max(base_page_bytes());
        let low = (self.address() + offset) & !(unit - 1);
        Ok((low, (self.address() + offset + bytes).next_multiple_of(unit) - low))
    }

    /// Copies again, alone, after pages without memory were met by this copy or another: those are put right first, so that what
    /// fails now fails truly.
    ///
    /// # Safety
    /// As of `copy`.
    #[cold]
    #[inline(never)]
    unsafe fn copy_again(&self, from: *const u8, into: *mut u8, offset: usize, bytes: usize) -> Result<(), MapError> {
        let _guard = self.repair.lock().unwrap_or_else(PoisonError::into_inner);
        self.put_right();
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, into, bytes) };
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        let Some(address) = self.watch.replaced_in(self.address() + offset, bytes) else { return Ok(()) };
        let error = self.no_page(address.saturating_sub(self.address()));
        self.put_right();
        Err(error)
    }

    /// Lays the map's own backing over pages that got ordinary memory. Called with `repair` held.
    fn put_right(&self) {
        let poisoned = self.watch.poisoned();
        self.watch.settle(|address, bytes| {
            let within = address - self.reservation.address();
            let backing = match self.owned.backing() {
                // Its contents are gone: zeros in their place would be a lie.
                _ if poisoned => return false,
                Backing::Anonymous => return false,
                Backing::Hugetlb { .. } if self.sharing == Sharing::Shared => return false,
                Backing::File { file, offset, sync } => Backing::File { file, offset: offset + within as u64, sync },
                pool @ Backing::Hugetlb { .. } => pool,
            };
            // SAFETY: one unit of this map, which the handler of signals had replaced; nobody has a reference into it.
            let put_back = unsafe { map_over(address, bytes, backing, self.sharing, self.access) }.is_ok();
            if put_back && self.asked == PageSize::Huge2M && !self.owned.is_hugetlb() {
                _ = madvise(address, bytes, libc::MADV_HUGEPAGE);
            }
            put_back
        });
    }

    /// The error for a page without memory, with what can be found out about the cause.
    #[cold]
    fn no_page(&self, offset: usize) -> MapError {
        let why = match &self.owned {
            _ if self.watch.poisoned() => "the hardware lost it (BUS_MCEERR); see dmesg".to_owned(),
            Owned::File { file, offset: start, .. } => {
                let needed = start + (self.lead_bytes + offset) as u64;
                match regular_file_bytes(file) {
                    Some(found) if found <= needed => {
                        format!(
                            "the file was truncated: it has {found} bytes now, needed {}; type: truncate -s {} FILE",
                            needed + 1,
                            start + (self.lead_bytes + self.bytes) as u64
                        )
                    }
                    _ if self.owned.is_hugetlb() => self.pool_words(),
                    _ => "the file system or its medium gave no page; see dmesg".to_owned(),
                }
            }
            Owned::Hugetlb { .. } => self.pool_words(),
            Owned::Anonymous => "the kernel had no memory for it; see dmesg".to_owned(),
        };
        MapError::NoPage { offset, why }
    }

    fn pool_words(&self) -> String {
        let page_bytes = self.owned.unit_bytes();
        pool::why_refused(Path::new("/"), page_bytes, page_bytes)
            .map_or_else(|| "the hugetlb pool gave no page".to_owned(), |error| error.to_string())
    }
}

impl Advice {
    fn number(self) -> libc::c_int {
        match self {
            Self::Normal => libc::MADV_NORMAL,
            Self::Random => libc::MADV_RANDOM,
            Self::Sequential => libc::MADV_SEQUENTIAL,
            Self::WillNeed => libc::MADV_WILLNEED,
            Self::HugePage => libc::MADV_HUGEPAGE,
            Self::NoHugePage => libc::MADV_NOHUGEPAGE,
            Self::DontDump => libc::MADV_DONTDUMP,
            Self::DontFork => libc::MADV_DONTFORK,
            Self::Mergeable => libc::MADV_MERGEABLE,
        }
    }
}

/// The length of a regular file; `None` for devices and what has no length.
pub(crate) fn regular_file_bytes(file: &OwnedFd) -> Option<u64> {
    // SAFETY: a zeroed stat is a valid value to be overwritten.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(file.as_raw_fd(), &raw mut stat) != 0 {
            return None;
        }
        stat
    };
    (stat.st_mode & libc::S_IFMT == libc::S_IFREG).then(|| u64::try_from(stat.st_size).unwrap_or(0))
}

fn madvise(address: usize, bytes: usize, advice: libc::c_int) -> Result<(), i32> {
    // SAFETY: ranges of a map of this crate, and no advice given here discards contents.
    if unsafe { libc::madvise(address as *mut libc::c_void, bytes, advice) } == 0 { Ok(()) } else { Err(last_errno()) }
}

#[inline]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint to the processor; it cannot fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint to the processor; it cannot fault.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
