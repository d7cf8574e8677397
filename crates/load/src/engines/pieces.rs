//! A region mapped in pieces: where each piece lies, when it comes and goes.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::Path;

use pagelab_fiojob::words::{Advice, MapLifetime};
use pagelab_fiojob::{Direction, Operation};
use pagelab_mapping::Watch;
use pagelab_residency::Pool;
use rustix::io::Errno;
use rustix::mm::ProtFlags;

use super::backing::{Backing, FileKind, Fresh, Place};
use super::got::MapReport;
use super::{Setup, arena};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;
use crate::hugetlb::{self, Resort};
use crate::segments;

/// Size of the smaller huge page on x86-64 and on arm64 with 4 KiB pages; where alignment pays, unless the job says otherwise.
const HUGE: u64 = 2 << 20;

/// The pieces of a region.
pub(super) struct Pieces {
    backing: Backing,
    protection: ProtFlags,
    layout: Layout,
    advice: Vec<Advice>,
    /// Fault pieces in when they are mapped; for writing if the job writes.
    populate: Option<Advise>,
    /// All pieces are always mapped and lie side by side: an address is a sum.
    contiguous: bool,
    /// Bookkeeping of which pieces are mapped; `None` if all always are.
    cache: Option<Cache>,
    /// Distance of the bytes that are read before a piece goes; `None` for none.
    read_back: Option<usize>,
    report: MapReport,
    watch: Watch,
    job: String,
}

/// Raw advice of madvise(2) by number, where rustix has no name for it.
#[derive(Clone, Copy)]
struct Advise(i32);

/// Where pieces lie. Offsets are relative to the start of the mapped range, which is the region's start rounded down to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    /// Offset in the target where the mapped range starts.
    range_start: u64,
    range_bytes: u64,
    piece_bytes: u64,
    stride: u64,
    /// Address of piece 0.
    base: u64,
    /// log2 of `piece_bytes`, if that is a power of two.
    shift: Option<u32>,
    page: u64,
}

impl Layout {
    fn pieces(&self) -> u64 {
        self.range_bytes.div_ceil(self.piece_bytes)
    }

    #[inline(always)]
    fn piece_of(&self, relative: u64) -> u64 {
        match self.shift {
            Some(shift) => relative >> shift,
            None => relative / self.piece_bytes,
        }
    }

    fn address_of(&self, piece: u64) -> u64 {
        self.base + piece * self.stride
    }

    /// Bytes of a piece: whole pages, the last one perhaps fewer than the others.
    fn bytes_of(&self, piece: u64) -> u64 {
        let left = self.range_bytes.saturating_sub(piece * self.piece_bytes);
        left.min(self.piece_bytes).next_multiple_of(self.page)
    }

    /// Whether neighbours touch, so that the kernel may merge them.
    fn touch(&self) -> bool {
        self.stride == self.piece_bytes
    }

    /// Address space from the first piece's start to the last one's end.
    fn span(&self) -> u64 {
        let last = self.pieces().saturating_sub(1);
        last * self.stride + self.bytes_of(last)
    }
}

/// Which pieces are mapped, when they come and go.
struct Cache {
    /// At most this many.
    limit: usize,
    /// Those mapped, oldest first.
    resident: VecDeque<u64>,
    /// A bit for each piece.
    mapped: Vec<u64>,
    /// The piece used last; `u64::MAX` for none.
    current: u64,
}

impl Cache {
    fn new(pieces: u64, limit: u64) -> Self {
        let words = usize::try_from(pieces.div_ceil(64)).unwrap_or(usize::MAX);
        Self {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            resident: VecDeque::new(),
            mapped: vec![0; words],
            current: u64::MAX,
        }
    }

    fn clear(&mut self) {
        self.resident.clear();
        self.mapped.fill(0);
        self.current = u64::MAX;
    }

    fn is_mapped(&self, piece: u64) -> bool {
        self.mapped.get((piece / 64) as usize).is_some_and(|word| word >> (piece % 64) & 1 == 1)
    }

    fn set(&mut self, piece: u64, mapped: bool) {
        if let Some(word) = self.mapped.get_mut((piece / 64) as usize) {
            let bit = 1 << (piece % 64);
            *word = if mapped { *word | bit } else { *word & !bit };
        }
    }
}

impl Pieces {
    /// Plans the pieces of a job's region and maps them, unless they come and go.
    ///
    /// # Errors
    /// No addresses, no memory, an empty pool, advice that the kernel does not know.
    pub(super) fn new(setup: &Setup<'_>, backing: Backing) -> Result<Self, LoadError> {
        let o = setup.options;
        let page = backing.page();
        let layout = plan_layout(setup, backing.is_file(), page)?;
        let writes = o.changes_files();
        let evicts = o.map_lifetime == MapLifetime::Evict;
        let watch = watch(setup.job, &layout)?;
        let mut pieces = Self {
            protection: if writes || backing.is_own_memory() {
                ProtFlags::READ | ProtFlags::WRITE
            } else {
                ProtFlags::READ
            },
            backing,
            advice: o.map_advice.0.clone(),
            populate: o.map_populate.then_some(Advise(if writes {
                libc::MADV_POPULATE_WRITE
            } else {
                libc::MADV_POPULATE_READ
            })),
            cache: evicts.then(|| Cache::new(layout.pieces(), o.map_resident)),
            read_back: o.map_read_back.then_some(if writes { o.bs.write.0 } else { o.bs.read.0 } as usize),
            report: MapReport {
                piece_bytes: layout.piece_bytes,
                first_address: layout.base,
                stride_bytes: layout.stride,
                span_bytes: layout.span(),
                ..MapReport::default()
            },
            contiguous: !evicts && (layout.pieces() == 1 || layout.touch()),
            layout,
            watch,
            job: setup.job.to_owned(),
        };
        if evicts {
            pieces.pool_suffices(o.map_resident)?;
        } else {
            for piece in 0..layout.pieces() {
                pieces.map(piece).map_err(|fault| pieces.refused(piece, fault))?;
            }
        }
        Ok(pieces)
    }

    /// The address of a byte of the target, with its piece mapped.
    #[inline(always)]
    pub(super) fn address(&mut self, offset: u64) -> Result<*mut u8, Fault> {
        let relative = offset - self.layout.range_start;
        if self.contiguous {
            return Ok((self.layout.base + relative) as *mut u8);
        }
        let piece = self.layout.piece_of(relative);
        if let Some(cache) = &self.cache
            && cache.current != piece
        {
            self.use_piece(piece)?;
        }
        // Pieces lie `stride` apart: what a gap adds to the address is the piece's number times the difference.
        let address = self.layout.base + relative + piece * (self.layout.stride - self.layout.piece_bytes);
        Ok(address as *mut u8)
    }

    /// Whether the operation just done met a page that was not there.
    #[inline(always)]
    pub(super) fn check(&self) -> Result<(), Fault> {
        match self.watch.failed() {
            None => Ok(()),
            Some(address) => Err(Fault::Bus { address: address as u64 }),
        }
    }

    /// Makes `piece` the one in use: maps it if it is not mapped, after unmapping the oldest if there are too many.
    #[cold]
    fn use_piece(&mut self, piece: u64) -> Result<(), Fault> {
        let Some(cache) = &mut self.cache else { return Ok(()) };
        if !cache.is_mapped(piece) {
            let oldest = if cache.resident.len() >= cache.limit { cache.resident.pop_front() } else { None };
            if let Some(oldest) = oldest {
                cache.set(oldest, false);
                self.read_back(oldest)?;
                self.unmap(oldest)?;
                self.report.pieces_evicted += 1;
            }
            self.map(piece)?;
            if let Some(cache) = &mut self.cache {
                cache.set(piece, true);
                cache.resident.push_back(piece);
            }
        }
        if let Some(cache) = &mut self.cache {
            cache.current = piece;
        }
        Ok(())
    }

    fn place_of(&self, piece: u64) -> Place {
        Place {
            address: self.layout.address_of(piece),
            len: self.layout.bytes_of(piece) as usize,
            offset: self.layout.range_start + piece * self.layout.piece_bytes,
        }
    }

    fn map(&mut self, piece: u64) -> Result<(), Fault> {
        let place = self.place_of(piece);
        let fell_back = self.backing.map(place, self.protection)?;
        self.report.pieces_fallen_back += u64::from(fell_back);
        self.report.pieces_mapped += 1;
        self.advise(place.address, place.len)
    }

    fn unmap(&self, piece: u64) -> Result<(), Fault> {
        self.backing.unmap(self.place_of(piece))
    }

    /// Reads a byte of each block of a piece, if the job wants that.
    fn read_back(&mut self, piece: u64) -> Result<(), Fault> {
        let Some(step) = self.read_back else { return Ok(()) };
        let place = self.place_of(piece);
        for offset in (0..place.len).step_by(step.max(1)) {
            // SAFETY: the byte lies in a mapped piece; others may change its value, and nothing follows from it.
            unsafe { std::ptr::read_volatile((place.address as *const u8).add(offset)) };
            self.report.blocks_read_back += 1;
        }
        self.check()
    }

    /// Gives the advice that the job wants, in its order; collapsing only makes sense once pages are there.
    fn advise(&mut self, address: u64, len: usize) -> Result<(), Fault> {
        let (later, first): (Vec<Advice>, Vec<Advice>) =
            self.advice.iter().partition(|advice| **advice == Advice::Collapse);
        for advice in first {
            madvise(address, len, Advise(advice_number(advice)))?;
        }
        if let Some(populate) = self.populate {
            // On hugetlb and files this reports an empty pool or a missing page as an error, where touching would raise SIGBUS.
            madvise(address, len, populate)?;
        }
        for _ in later {
            // It fails where no huge page is free or the mapping is not eligible; the report counts that instead of ending the job.
            if madvise(address, len, Advise(libc::MADV_COLLAPSE)).is_err() {
                self.report.pieces_not_collapsed += 1;
            }
        }
        Ok(())
    }

    /// Takes another file for the pieces of a file, all of which are unmapped; only [`Pieces::map_anew`] may follow.
    pub(super) fn replace_file(&mut self, with: BorrowedFd<'_>) -> Result<(), Fault> {
        if let Backing::File { fd, .. } = &mut self.backing {
            *fd = rustix::io::fcntl_dupfd_cloexec(with, 0)?;
        }
        Ok(())
    }

    /// Unmaps everything; only [`Pieces::map_anew`] may follow.
    pub(super) fn unmap_all(&self) -> Result<(), Fault> {
        (0..self.layout.pieces()).filter(|piece| self.is_mapped(*piece)).try_for_each(|piece| self.unmap(piece))
    }

    /// Unmaps everything and maps it again as at the start.
    pub(super) fn map_anew(&mut self) -> Result<(), Fault> {
        // What is unmapped already stays so.
        self.unmap_all()?;
        match &mut self.cache {
            Some(cache) => cache.clear(),
            None => (0..self.layout.pieces()).try_for_each(|piece| self.map(piece))?,
        }
        Ok(())
    }

    fn is_mapped(&self, piece: u64) -> bool {
        self.cache.as_ref().is_none_or(|cache| cache.is_mapped(piece))
    }

    /// Writes dirty pages of all mapped pieces back.
    pub(super) fn sync(&self) -> Result<(), Fault> {
        for piece in 0..self.layout.pieces() {
            if self.is_mapped(piece) {
                let (address, len) = (self.layout.address_of(piece), self.layout.bytes_of(piece) as usize);
                // SAFETY: the piece is mapped; msync changes no memory.
                unsafe { rustix::mm::msync(address as *mut _, len, rustix::mm::MsyncFlags::SYNC) }?;
            }
        }
        Ok(())
    }

    /// Writes the pages of an operation back, which begins at a page. As fio does for `direct=1`, for reads too; what fio asks for besides,
    /// `posix_madvise(POSIX_MADV_DONTNEED)`, does nothing in glibc.
    ///
    /// # Errors
    /// The medium's; EINVAL for an operation that begins inside a page.
    #[cold]
    pub(super) fn sync_whole_pages(&mut self, operation: Operation) -> Result<(), Fault> {
        let address = self.address(operation.offset)?;
        // SAFETY: the operation lies in a mapped piece; msync changes no memory.
        unsafe { rustix::mm::msync(address.cast(), operation.bytes as usize, rustix::mm::MsyncFlags::SYNC) }?;
        Ok(())
    }

    /// Writes the pages of one block back, whose address was given by [`Pieces::address`].
    ///
    /// # Errors
    /// The medium's.
    pub(super) fn sync_block(&self, address: *mut u8, bytes: usize) -> Result<(), Fault> {
        let lead = address as usize % self.layout.page as usize;
        // SAFETY: the block lies in a mapped piece, and its page too; msync changes no memory.
        unsafe { rustix::mm::msync(address.sub(lead).cast(), bytes + lead, rustix::mm::MsyncFlags::SYNC) }?;
        Ok(())
    }

    /// The mappings so far.
    pub(super) fn report(&self) -> MapReport {
        self.report.clone()
    }

    /// Why a piece could not be mapped, as an error of the whole job.
    fn refused(&self, piece: u64, fault: Fault) -> LoadError {
        let left = self.layout.pieces() - piece;
        if let Some(error) = self.segment_refused(fault, left) {
            return error;
        }
        match (fault, self.backing.hugetlb()) {
            (Fault::HugetlbExhausted | Fault::Errno(libc::ENOMEM | libc::EFAULT), Some(page)) => {
                self.pool_too_small(page, left)
            }
            (Fault::Errno(libc::ENOMEM), None) if piece > 0 && !self.layout.touch() => self.too_many_mappings(piece),
            (fault, _) => {
                let what = format!(
                    "job '{}': mapping piece {piece} of {} bytes at {:#x}",
                    self.job,
                    self.layout.bytes_of(piece),
                    self.layout.address_of(piece)
                );
                LoadError::system(what, std::io::Error::from_raw_os_error(fault.errno()))
            }
        }
    }

    /// Why the kernel gave no segment for a piece, if pieces are segments and it is about segments; `left` were still to be made.
    fn segment_refused(&self, fault: Fault, left: u64) -> Option<LoadError> {
        let Backing::Fresh { how: Fresh::Segment, hugetlb, .. } = self.backing else { return None };
        match fault {
            Fault::Errno(errno @ (libc::EINVAL | libc::ENOSPC | libc::EPERM)) => {
                let errno = Errno::from_raw_os_error(errno);
                Some(segments::refused(&self.job, self.layout.piece_bytes, left, hugetlb, errno))
            }
            _ => None,
        }
    }

    /// Whether the hugetlb pool can back the job's later mappings, as far as is known now: better reported before the
    /// run than in it.
    fn pool_suffices(&self, resident: u64) -> Result<(), LoadError> {
        let at_once = match &self.backing {
            Backing::Fresh { fallback: false, .. } => resident.min(self.layout.pieces()),
            // Pages of a memfd stay in it when a piece is unmapped.
            Backing::File { kind: FileKind::Memfd, .. } => self.layout.pieces(),
            Backing::Fresh { fallback: true, .. } | Backing::File { .. } => return Ok(()),
        };
        let Some(page) = self.backing.hugetlb() else { return Ok(()) };
        let needed = at_once * self.layout.piece_bytes.div_ceil(page);
        match Pool::read(Path::new("/"), page as usize) {
            Ok(pool) if pool.available_pages() < needed => Err(self.pool_too_small(page, at_once)),
            // A pool that cannot be read is met when a piece is mapped.
            _ => Ok(()),
        }
    }

    /// The kernel gave `piece` mappings and then no more: its limit, most likely.
    fn too_many_mappings(&self, piece: u64) -> LoadError {
        let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        // Room for the process's other mappings.
        let needed = self.layout.pieces() + 1000;
        LoadError::Host {
            what: format!("job '{}': mapping {} pieces", self.job, self.layout.pieces()),
            found: format!(
                "room for {piece} (vm.max_map_count is {})",
                limit.as_deref().map_or("not readable", str::trim)
            ),
            needed: format!("vm.max_map_count of {needed}"),
            command: format!("sysctl -w vm.max_map_count={needed}, or map_merge=1, or a larger map_granularity="),
        }
    }

    /// More about a fault of an operation, if pieces know more.
    pub(super) fn explain(&self, fault: Fault) -> Option<String> {
        if let Some(error) = self.segment_refused(fault, 1) {
            return Some(error.to_string());
        }
        let page = self.backing.hugetlb()?;
        // Pages behind the end of a file are missing for that reason, whatever is left in the pool.
        if self.backing.is_shorter_than(self.layout.range_start + self.layout.range_bytes) {
            return None;
        }
        match fault {
            Fault::HugetlbExhausted | Fault::Bus { .. } | Fault::Errno(libc::ENOMEM | libc::EFAULT) => {
                Some(self.pool_too_small(page, 1).to_string())
            }
            _ => None,
        }
    }

    /// The pool has no pages for `pieces` more pieces.
    fn pool_too_small(&self, page: u64, pieces: u64) -> LoadError {
        let resort = if self.backing.is_file() { Resort::None } else { Resort::Fallback };
        hugetlb::pool_too_small(
            Path::new("/"),
            &self.job,
            page,
            pieces * self.layout.piece_bytes.div_ceil(page),
            resort,
        )
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if self.layout.span() > 0 {
            // SAFETY: the whole range belongs to this value; holes in it are no error to munmap.
            let _ = unsafe { rustix::mm::munmap(self.layout.base as *mut _, self.layout.span() as usize) };
        }
    }
}

/// Turns SIGBUS among the pieces into a note, which every operation looks at.
fn watch(job: &str, layout: &Layout) -> Result<Watch, LoadError> {
    // An empty file has no pieces; a range is never empty.
    let range = layout.base as usize..(layout.base + layout.span().max(layout.page)) as usize;
    // SAFETY: the range was taken from the arena, which hands out each address once, for pieces of pages of this size; they are
    // accessed by copies alone, which end before the pieces are dropped.
    unsafe { Watch::new(range, layout.page as usize) }
        .map_err(|error| LoadError::Target { job: job.to_owned(), reason: error.to_string() })
}

fn plan_layout(setup: &Setup<'_>, is_file: bool, page: u64) -> Result<Layout, LoadError> {
    let o = setup.options;
    let range_start = setup.course.start / page * page;
    let lead = setup.course.start - range_start;
    let range_bytes = (setup.course.region_bytes + lead).next_multiple_of(page);
    let piece_bytes = if o.map_granularity.0 == 0 { range_bytes.max(page) } else { o.map_granularity.0 };
    // A block that starts off the page grid would reach over the end of its piece.
    if lead > 0 && o.map_granularity.0 > 0 {
        return Err(LoadError::Target {
            job: setup.job.to_owned(),
            reason: format!(
                "offset={} is not a multiple of the page size, {page}, which pieces of a file need",
                setup.course.start
            ),
        });
    }
    let align = match o.map_align.0 {
        0 => default_align(piece_bytes, page),
        align => align.max(page),
    };
    let gap = if o.map_merge { 0 } else { align };
    // Anonymous pieces each start at a multiple of the alignment. Pieces of a file keep address and file offset equal modulo
    // the alignment, which contiguous pieces and gaps of whole alignments do.
    let stride = if is_file { piece_bytes + gap } else { piece_bytes.next_multiple_of(align) + gap };
    let mut layout = Layout {
        range_start,
        range_bytes,
        piece_bytes,
        stride,
        base: 0,
        shift: piece_bytes.is_power_of_two().then(|| piece_bytes.trailing_zeros()),
        page,
    };
    // Checked in wide numbers before the product is used in narrow ones.
    if u128::from(layout.pieces()) * u128::from(stride) > u128::from(u64::MAX >> 1) {
        return Err(arena::exhausted(u64::MAX >> 1));
    }
    let displacement = if is_file { range_start % align } else { 0 } + o.map_shift.0;
    layout.base = arena::take(layout.span() + displacement, align)? + displacement;
    Ok(layout)
}

/// The largest power of two in a piece, between the page and 2 MiB.
fn default_align(piece_bytes: u64, page: u64) -> u64 {
    let floor = 1 << piece_bytes.max(1).ilog2();
    page.max(HUGE.min(floor))
}

fn advice_number(advice: Advice) -> i32 {
    match advice {
        Advice::Normal => libc::MADV_NORMAL,
        Advice::Random => libc::MADV_RANDOM,
        Advice::Sequential => libc::MADV_SEQUENTIAL,
        Advice::WillNeed => libc::MADV_WILLNEED,
        Advice::HugePage => libc::MADV_HUGEPAGE,
        Advice::NoHugePage => libc::MADV_NOHUGEPAGE,
        Advice::Collapse => libc::MADV_COLLAPSE,
        Advice::Mergeable => libc::MADV_MERGEABLE,
        Advice::DontFork => libc::MADV_DONTFORK,
        Advice::DontDump => libc::MADV_DONTDUMP,
    }
}

fn madvise(address: u64, len: usize, advice: Advise) -> Result<(), Fault> {
    // SAFETY: the range is a piece of this crate's own, and none of the advice given here discards contents.
    if unsafe { libc::madvise(address as *mut libc::c_void, len, advice.0) } == 0 {
        Ok(())
    } else {
        Err(Fault::Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)))
    }
}

/// Copies a block between the buffer and its piece.
#[inline(always)]
pub(super) fn copy(pieces: &mut Pieces, buffer: &Buffer, operation: Operation) -> Result<u32, Fault> {
    let target = pieces.address(operation.offset)?;
    let len = operation.bytes as usize;
    // SAFETY: `target` to `target + len` lies in a mapped piece (the course keeps blocks inside the region, and validation keeps
    // them inside one piece), the buffer holds the longest operation, and the two mappings are distinct. Memory shared with other
    // workers may change while it is copied: the bytes are never interpreted. The buffer is written through its raw pointer; no
    // reference to its contents is alive.
    unsafe {
        match operation.direction {
            Direction::Read => std::ptr::copy_nonoverlapping(target, buffer.as_ptr(), len),
            Direction::Write => std::ptr::copy_nonoverlapping(buffer.as_ptr(), target, len),
            // Engines that map have no trims, which validation refuses.
            Direction::Trim => {}
        }
    }
    pieces.check()?;
    Ok(operation.bytes)
}
