//! Address spaces replayed from the rows of `mappings`: the one place that knows what each action does to what is mapped.
//!
//! - [`Change`] is a row as a type, with the ranges that the kernel makes of the request ([`PageSizes`]).
//! - [`Space`] applies changes to an address space. The value of a mapping is the caller's: a number, a file, a class.
//! - [`Intervals`] is the map below it, for code that follows address spaces without rows.
//!
//! # What the kernel does
//! Each line was tried on Linux 6.18; `tests/kernel_space.rs` tries it again and compares with `/proc/self/maps`.
//!
//! - Lengths are rounded up to base pages, those of hugetlb memory to its pages: `mmap` and `mremap` of 5000 bytes map and
//!   move 2 MiB. `munmap`, `mprotect` and MAP_FIXED of a part of such a page fail (EINVAL).
//! - A private mapping over a part of another one, or an `munmap` of its middle, splits it.
//! - `mremap` with MREMAP_DONTUNMAP leaves the old range mapped. With an old length of 0 it maps shared memory a second
//!   time. With MREMAP_FIXED and equal lengths it moves several mappings with the gaps between them (since Linux 6.17); where
//!   a gap goes, what was there before stays. A range that shrinks where it is keeps its gaps, too.
//! - `shmdt` takes away every part of the segment that is still where it was attached, behind holes and other mappings
//!   too, and also if its first page is gone. A part that was moved stays; a segment that was moved as a whole is detached
//!   where it is then.
//! - `brk` maps and unmaps between the old and the new end, both rounded up.
//! - Advice about a range with a gap fails with ENOMEM and is given all the same.
//! - `process_madvise` changes properties of mappings only of the caller itself; which ranges, its row does not tell.
//!
//! A mapping is live from its row's `ts` until one of these takes its range away; a new mapping takes away what it is laid
//! over. A failed call does nothing. Two kinds grow without an action: a stack downwards, by faults ([`STACK_REACH`]), and
//! the heap by `brk`, of which each growing call is a mapping of its own.
//!
//! # The map of intervals
//! Medians of seven rounds of 400,000 changes and as many searches, ns each, on a busy 2-core VM:
//!
//! | addresses | change: this, `rangemap` 1.8 | search: this, `rangemap` |
//! |---|---|---|
//! | 1,000 places | 1058, 1180 | 199, 196 |
//! | 30,000 places | 1514, 1792 | 480, 431 |
//! | overlapping | 2083, 2135 | 353, 338 |

mod change;
mod intervals;
mod sizes;

use std::collections::BTreeMap;
use std::ops::Range;

pub(crate) use change::words;
pub use change::{Change, Kind, Map, Op, Ranges, Remap};
pub use intervals::{Content, Intervals};
pub use sizes::{PageSizes, named_size};

/// How far below its top a stack may reach. The kernel keeps at least this much free below the stack when it chooses
/// addresses (`MIN_GAP`, 128 MiB plus the stack's random offset, in arch/x86/mm/mmap.c and mm/util.c). So whatever the
/// limit on the stack's size was, there are no unrecorded mappings in that range.
pub(crate) const STACK_REACH: u64 = 128 << 20;

/// No segment is attached there.
const NO_SEGMENT: u64 = u64::MAX;

/// What a mapping holds, and what must be known of it to apply changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held<V> {
    value: V,
    properties: Properties,
}

impl<V: Content> Content for Held<V> {
    fn skip(self, bytes: u64) -> Self {
        Self { value: self.value.skip(bytes), ..self }
    }
}

/// Why there is something mapped anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made<'a, V> {
    /// It was mapped.
    Mapped(&'a Map<'a>),
    /// The heap grew by it.
    Grown(Option<u32>),
    /// It was moved, or changed its length: its earlier value, if known, and the mapping's number.
    Moved(Option<V>, Option<u32>),
}

/// What memory is, whoever holds it: page size, way to grow, part of which segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// Where the System V segment that it is part of would begin, or [`NO_SEGMENT`].
    segment: u64,
    /// Logarithm of the size of its pages; 0 for base pages.
    page_log: u8,
    grows_down: bool,
}

impl Properties {
    const PLAIN: Self = Self { segment: NO_SEGMENT, page_log: 0, grows_down: false };

    /// Those of the same memory that was at `from` and is at `to`.
    #[must_use]
    pub fn moved(self, from: u64, to: u64) -> Self {
        match self.segment {
            NO_SEGMENT => self,
            start => Self { segment: start.wrapping_sub(from).wrapping_add(to), ..self },
        }
    }
}

/// What is mapped in one address space.
#[derive(Debug, Clone)]
pub struct Space<V> {
    held: Intervals<Held<V>>,
    /// Sizes of attached segments by where they begin.
    segments: BTreeMap<u64, u64>,
    /// End of the heap, once an action gave it.
    heap_end: Option<u64>,
}

impl<V> Default for Space<V> {
    fn default() -> Self {
        Self { held: Intervals::default(), segments: BTreeMap::new(), heap_end: None }
    }
}

impl<V: Content + PartialEq> Space<V> {
    /// What is mapped at `addr`, and from where to where it is one.
    pub fn at(&self, addr: u64) -> Option<(Range<u64>, &V)> {
        self.held.at(addr).map(|(range, held)| (range, &held.value))
    }

    /// Like [`Space::at`], with the stack that may grow down to `addr`: of an address that no mapping holds, the next
    /// mapping above, if that is a stack and its top lies within [`STACK_REACH`]. The range is that for which the answer
    /// holds whatever is asked in between.
    pub fn find(&self, addr: u64) -> Option<(Range<u64>, &V)> {
        if let Some(found) = self.at(addr) {
            return Some(found);
        }
        let (range, above) = self.held.from(addr)?;
        if !above.properties.grows_down || range.end - addr > STACK_REACH {
            return None;
        }
        Some((addr..addr + 1, &above.value))
    }

    /// All that is mapped, in the order of addresses.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, &V)> {
        self.held.iter().map(|(range, held)| (range, &held.value))
    }

    /// Whether something is mapped in some part of `range`.
    pub fn any_in(&self, range: &Range<u64>) -> bool {
        self.held.any_in(range)
    }

    /// Applies a change. `make` is asked what memory that it maps holds; with `None` that range is known to be mapped by
    /// nothing of interest.
    pub fn apply(&mut self, change: &Change<Map<'_>>, make: impl FnMut(Made<'_, V>) -> Option<V>) {
        let mut make = make;
        match change {
            Change::Map(map) => {
                let value = make(Made::Mapped(map));
                self.map(map, value);
            }
            Change::Unmap(range) => self.unmap(range),
            Change::Detach(addr) => {
                for part in self.detach(*addr) {
                    self.unmap(&part);
                }
            }
            Change::Remap(remap) => self.remap(remap, make),
            Change::Clobber { target, source } => {
                if self.held.at(*source).is_some() {
                    self.unmap(target);
                }
            }
            Change::Break { before, after, mapping_id } => {
                let (gone, grown) = self.move_break(*before, *after);
                self.unmap(&gone);
                if !grown.is_empty() {
                    let value = make(Made::Grown(*mapping_id));
                    self.put(grown, value, Properties::PLAIN);
                }
            }
            Change::Refused(..)
            | Change::Advise(..)
            | Change::AdviseElsewhere { .. }
            | Change::Protect(..)
            | Change::Lock(..)
            | Change::ForbidThp(_) => {}
        }
    }

    /// Maps a range of ordinary memory, replacing earlier mappings: for mappings known without an action.
    pub fn insert(&mut self, range: Range<u64>, value: V) {
        self.put(range, Some(value), Properties::PLAIN);
    }

    /// Takes a range away.
    pub fn unmap(&mut self, range: &Range<u64>) {
        self.held.remove_each(range, |_, _| ());
    }

    /// The parts of the segment that is attached at `addr` which are still there, and forgets it. If no segment is known
    /// there, the run of adjacent ranges of one content that begins there.
    pub fn detach(&mut self, addr: u64) -> Vec<Range<u64>> {
        let size = self.segments.remove(&addr).unwrap_or(0);
        let all = addr..addr.saturating_add(size);
        let parts = self.held.overlapping(&all).filter(|(_, held)| held.properties.segment == addr);
        let parts: Vec<Range<u64>> = parts.map(|(range, _)| range).collect();
        let is_other = self.held.at(addr).is_some_and(|(_, held)| held.properties.segment != NO_SEGMENT);
        if !parts.is_empty() || is_other {
            return parts;
        }
        let end = self.run_end(addr);
        if end > addr { std::iter::once(addr..end).collect() } else { Vec::new() }
    }

    /// The ranges that a move of the heap's end to `after` unmaps and maps. Without an end before, the one that the
    /// last action left counts; if there is none, nothing is known to change.
    pub fn move_break(&mut self, before: Option<u64>, after: u64) -> (Range<u64>, Range<u64>) {
        let known = self.heap_end.replace(after);
        let before = before.or(known).unwrap_or(after);
        (after..before, before..after)
    }

    /// The same with the lengths that the kernel rounds up to, which are those of the pages that are there.
    pub fn rounded(&self, remap: &Remap) -> Remap {
        match self.held.at(remap.old) {
            Some((_, held)) if held.properties.page_log > 0 => remap.rounded(1 << held.properties.page_log),
            _ => *remap,
        }
    }

    /// Maps the requested range, replacing earlier mappings; with `None` nothing of interest is there from now on.
    pub fn map(&mut self, map: &Map<'_>, value: Option<V>) {
        let range = map.range();
        let page_log = map.hugetlb_bytes.map_or(0, |bytes| bytes.trailing_zeros() as u8);
        let segment = map.segment.unwrap_or(NO_SEGMENT);
        self.put(range, value, Properties { segment, page_log, grows_down: map.grows_down });
    }

    /// What the memory at `addr` is; ordinary memory where nothing is mapped.
    pub fn props_at(&self, addr: u64) -> Properties {
        self.held.at(addr).map_or(Properties::PLAIN, |(_, held)| held.properties)
    }

    /// Maps a range with the properties of other memory, replacing earlier mappings.
    pub fn insert_like(&mut self, range: Range<u64>, value: V, properties: Properties) {
        self.put(range, Some(value), properties);
    }

    /// Cuts what is mapped at `addr` in two; true if something reaches over it.
    pub fn split(&mut self, addr: u64) -> bool {
        self.held.split(addr)
    }

    /// Takes a range away and returns the pieces that were there, cut to it.
    pub fn take(&mut self, range: &Range<u64>) -> Vec<(Range<u64>, V)> {
        self.held.remove(range).into_iter().map(|(range, held)| (range, held.value)).collect()
    }

    /// What is mapped in some part of `range`, in the order of addresses. Pieces are not cut to it.
    pub fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, &V)> + use<'_, V> {
        self.held.overlapping(range).map(|(range, held)| (range, &held.value))
    }

    /// Lets the stack that may reach `addr` ([`Space::find`]) grow down to there. Returns the range that it has then, and
    /// where it began before.
    pub fn grow_down(&mut self, addr: u64) -> Option<(Range<u64>, u64)> {
        self.find(addr)?;
        let (range, _) = self.held.from(addr)?;
        self.held.move_start(range.start, addr);
        Some((addr..range.end, range.start))
    }

    /// Makes what is mapped at `addr` end at `end`, up to which nothing else may be mapped: a heap that grew.
    pub fn extend(&mut self, addr: u64, end: u64) {
        if let Some((range, _)) = self.held.at(addr) {
            self.held.move_end(range.start, end);
        }
    }

    fn put(&mut self, range: Range<u64>, value: Option<V>, properties: Properties) {
        if properties.segment != NO_SEGMENT && !range.is_empty() {
            self.note_segment(properties.segment, range.end.saturating_sub(properties.segment));
        }
        match value {
            Some(value) => self.held.insert(range, Held { value, properties }),
            None => self.unmap(&range),
        }
    }

    fn note_segment(&mut self, start: u64, size: u64) {
        let known = self.segments.entry(start).or_default();
        *known = size.max(*known);
    }

    fn remap(&mut self, remap: &Remap, mut make: impl FnMut(Made<'_, V>) -> Option<V>) {
        let remap = self.rounded(remap);
        let mut old = remap.old..match remap.old_len {
            Some(len) => remap.old.saturating_add(len),
            None => self.run_end(remap.old),
        };
        if !remap.keeps_old() {
            // The kernel takes off the end that is too much before it moves the rest (mremap_to and shrink_vma in mm/mremap.c).
            let kept_end = remap.old.saturating_add(remap.new_len).min(old.end);
            self.unmap(&(kept_end..old.end));
            old.end = kept_end;
        }
        let moved = self.taken(&old, &remap);
        let target = remap.new_range();
        if moved.is_empty() {
            let value = make(Made::Moved(None, remap.mapping_id));
            self.put(target, value, Properties::PLAIN);
            return;
        }
        let there = |addr: u64| addr - remap.old + remap.new;
        // Where the kernel keeps no gaps there were none: what is not known of the old range was like what is.
        let gapless = !remap.keeps_gaps();
        let mut starts: Vec<u64> = moved.iter().map(|(range, _)| there(range.start)).collect();
        if gapless {
            starts[0] = target.start;
        }
        starts.push(target.end);
        for (number, (range, held)) in moved.into_iter().enumerate() {
            let end = if gapless { starts[number + 1] } else { there(range.end) };
            let piece = starts[number]..end.min(target.end);
            let properties = held.properties.moved(remap.old, remap.new);
            let value = make(Made::Moved(Some(held.value), remap.mapping_id));
            self.put(piece, value, properties);
        }
    }

    /// The pieces that a move takes from `old`, which go unless it keeps them.
    fn taken(&mut self, old: &Range<u64>, remap: &Remap) -> Vec<(Range<u64>, Held<V>)> {
        if !remap.keeps_old() {
            return self.held.remove(old);
        }
        // For shared memory that is mapped a second time only the place is known, and no length.
        let within = old.start..old.end.max(old.start + 1);
        let pieces = self.held.overlapping(&within).map(|(range, held)| {
            let held = held.clone().skip(within.start.saturating_sub(range.start));
            (range.start.max(within.start)..range.end.min(within.end), held)
        });
        pieces.collect()
    }

    /// End of the run of adjacent ranges of one content that begins at `start`.
    fn run_end(&self, start: u64) -> u64 {
        let Some((range, first)) = self.held.from(start).filter(|(range, _)| range.start == start) else {
            return start;
        };
        let before = start.checked_sub(1).and_then(|addr| self.held.at(addr));
        if before.is_some_and(|(_, held)| held == first) {
            return start;
        }
        let mut end = range.end;
        while let Some((next, held)) = self.held.at(end) {
            if held != first {
                break;
            }
            end = next.end;
        }
        end
    }
}
