//! Recorded address spaces: which code is mapped where.

use std::collections::HashSet;
use std::ops::Range;

use pagelab_recording::space::{self, Change, Content, Made, Map, PageSizes, Ranges};
use pagelab_recording::tables::MappingsRow;

use super::modules::Modules;
use crate::bpf::MapEvent;

/// The base page of x86-64, the only machine whose stacks are followed.
const PAGE_BYTES: u64 = 4096;

/// Code that is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapped {
    pub module: u32,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// For execution.
    pub code: bool,
    /// Memory without a file was laid over the file's code since: mostly a copy of the same code, on larger pages.
    pub covered: bool,
}

impl Content for Mapped {
    fn skip(self, bytes: u64) -> Self {
        Self { offset: self.offset.wrapping_add(bytes), ..self }
    }
}

/// What a mapping action changed, as its row would tell; nothing if it failed.
pub(super) fn change_of(map: &MapEvent) -> Option<Change<Map<'static>>> {
    let row = MappingsRow {
        op: map.op,
        kind: map.kind,
        addr: Some(map.addr),
        len: Some(map.len),
        old_addr: Some(map.old_addr),
        old_len: Some(map.offset),
        prot: Some(map.prot),
        flags: Some(map.flags),
        advice: Some(map.advice as i32),
        ret: Some(map.ret),
        ..MappingsRow::default()
    };
    Change::of(&row, &PageSizes::new(PAGE_BYTES))
}

/// One address space.
#[derive(Default)]
pub(super) struct Space {
    pub pid: u32,
    /// Files only.
    maps: space::Space<Mapped>,
    /// All mappings are known: they were reported from the space's beginning.
    pub whole: bool,
    /// Rises with every change, so that results for another state are not used.
    pub generation: u32,
    /// A 32-bit program, whose stacks only the kernel's frame-pointer walk follows.
    pub compat: bool,
    /// The module of code that is in no file.
    pub jit: Option<u32>,
    /// Places between the mappings of a file where its code is not, as their memory says: pages.
    not_moved: HashSet<u64>,
    /// Stacks that took too long to follow.
    slow: u32,
}

/// Pages that are remembered to hold no code that was moved.
const NOT_MOVED_MAX: usize = 4096;

/// Whether a vDSO that is mapped there is a 32-bit program's: that of others, which is this process's too, lies higher.
pub(super) fn is_compat(vdso: u64) -> bool {
    vdso >> 32 == 0
}

/// A stack that takes so long is slow, ns: unwinding one takes some 20 us, with what is read for it the first time more.
const SLOW_NS: u64 = 20_000_000;
/// Slow stacks after which no more are followed: other processes' samples are lost meanwhile.
const SLOW_MAX: u32 = 50;

impl Space {
    /// Whether an action takes away, or lays something over, what is mapped.
    pub(super) fn is_touched_by(&self, change: &Change<Map<'_>>) -> bool {
        let Ranges { maps, unmaps } = Ranges::of(change);
        [maps, unmaps].into_iter().flatten().any(|(start, end)| self.maps.any_in(&(start..end)))
    }

    /// Whether a file is mapped somewhere in the range.
    pub(super) fn is_any_in(&self, range: &Range<u64>) -> bool {
        self.maps.any_in(range)
    }

    /// Applies an action; `mapped` is the file that it maps.
    pub(super) fn apply(&mut self, change: &Change<Map<'_>>, mapped: Option<Mapped>) {
        // Most actions are about memory without a file, on which nothing depends.
        let moves_something = self.moves_something(change);
        if mapped.is_none() && !self.is_touched_by(change) && !moves_something {
            return;
        }
        let covered = match change {
            Change::Map(made) if mapped.is_none() => self.code_in(&made.range()),
            Change::Remap(remap) if !moves_something => self.code_in(&remap.new_range()),
            _ => Vec::new(),
        };
        self.maps.apply(change, |made| match made {
            Made::Mapped(_) => mapped,
            Made::Moved(before, _) => before,
            Made::Grown(_) => None,
        });
        for (range, mapped) in covered {
            self.maps.insert(range, mapped);
        }
        self.changed();
    }

    /// Notes that memory without a file was laid over a range.
    pub(super) fn cover(&mut self, range: &Range<u64>) {
        for (range, mapped) in self.code_in(range) {
            self.maps.insert(range, mapped);
            self.changed();
        }
    }

    /// The code of files in a range, as it is when something is laid over it.
    fn code_in(&self, range: &Range<u64>) -> Vec<(Range<u64>, Mapped)> {
        let common = |(at, mapped): (Range<u64>, &Mapped)| {
            let (start, end) = (at.start.max(range.start), at.end.min(range.end));
            let covered = Mapped { covered: true, ..mapped.skip(start.saturating_sub(at.start)) };
            (mapped.code && start < end).then_some((start..end, covered))
        };
        self.maps.iter().filter_map(common).collect()
    }

    /// Whether an action moves, or maps a second time, what is mapped.
    fn moves_something(&self, change: &Change<Map<'_>>) -> bool {
        let Change::Remap(remap) = change else { return false };
        // A second mapping of the same memory is reported without the old length.
        let old_bytes = remap.old_len.unwrap_or(u64::MAX).max(1);
        self.maps.any_in(&(remap.old..remap.old.saturating_add(old_bytes)))
    }

    /// Maps a file; it replaces earlier mappings of the range.
    pub(super) fn map(&mut self, range: Range<u64>, mapped: Mapped) {
        self.maps.insert(range, mapped);
        self.changed();
    }

    /// Stacks are not unwound any more: earlier ones took too long or failed.
    pub(super) fn is_given_up(&self) -> bool {
        self.slow >= SLOW_MAX
    }

    /// Notes how long a stack took; `done` is false if it made what unwinds fail.
    pub(super) fn unwound(&mut self, done: bool, took_ns: u64) {
        if !done {
            self.slow = SLOW_MAX;
        } else if took_ns > SLOW_NS {
            self.slow += 1;
        }
    }

    fn changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.not_moved.clear();
    }

    /// The file mapped at an address, and the offset in it.
    #[cfg(test)]
    fn find(&self, addr: u64) -> Option<(u32, u64)> {
        let (range, map) = self.maps.at(addr)?;
        Some((map.module, map.offset.wrapping_add(addr - range.start)))
    }

    /// The file whose code is at an address, and the offset in it. Programs move their code to huge pages: they copy it to memory
    /// without a file, which they lay over the file's; then it has its names and its unwind information as before.
    pub(super) fn find_code(&mut self, addr: u64, modules: &mut Modules) -> Option<(u32, u64)> {
        let found = self.maps.at(addr).map(|(range, map)| (range, *map));
        match found {
            Some((range, map)) if map.covered => self.uncover(addr, &range, map, modules),
            Some((range, map)) => Some((map.module, map.offset.wrapping_add(addr - range.start))),
            None => self.find_moved(addr, modules),
        }
    }

    /// Looks whether what was laid over a file's code is a copy of it. If nobody can tell any more it is taken for one.
    fn uncover(&mut self, addr: u64, range: &Range<u64>, map: Mapped, modules: &mut Modules) -> Option<(u32, u64)> {
        let offset_of = |at: u64| map.offset.wrapping_add(at - range.start);
        let places = places(addr, range).map(|at| (at, offset_of(at)));
        match modules.is_code_of(map.module, self.pid, &places) {
            Some(false) => {
                self.maps.apply(&Change::Unmap(range.clone()), |_| None);
                self.changed();
                return None;
            }
            Some(true) => self.maps.insert(range.clone(), Mapped { covered: false, ..map }),
            None => {}
        }
        Some((map.module, offset_of(addr)))
    }

    /// Code that was moved before its mappings were looked at: it lies in a gap between those of its file, at the distance from
    /// them that the file says, and memory holds what the file holds.
    fn find_moved(&mut self, addr: u64, modules: &mut Modules) -> Option<(u32, u64)> {
        let page = addr / PAGE_BYTES;
        if self.not_moved.len() >= NOT_MOVED_MAX || self.not_moved.contains(&page) {
            return None;
        }
        let found = self.moved_at(addr, modules);
        match &found {
            Some((gap, mapped)) => self.maps.insert(gap.clone(), *mapped),
            None => _ = self.not_moved.insert(page),
        }
        found.map(|(gap, mapped)| (mapped.module, mapped.offset.wrapping_add(addr - gap.start)))
    }

    fn moved_at(&self, addr: u64, modules: &mut Modules) -> Option<(Range<u64>, Mapped)> {
        let [below, above] = self.neighbours(addr);
        let gap =
            below.as_ref().map_or(0, |(range, _)| range.end)..above.as_ref().map_or(u64::MAX, |(range, _)| range.start);
        [below, above].into_iter().flatten().find_map(|(range, map)| {
            let image = modules.image(map.module)?;
            let base = range.start.checked_sub(image.address(map.offset)?)?;
            let code = image.code_at(addr.checked_sub(base)?)?;
            let start = base.checked_add(code.addr)?;
            let offset_of = |at: u64| code.offset.wrapping_add(at.wrapping_sub(start));
            // Whole pages of the gap, as far as the file has code for them.
            let from = (start / PAGE_BYTES * PAGE_BYTES).max(gap.start);
            let to = start.checked_add(code.bytes)?.checked_next_multiple_of(PAGE_BYTES)?.min(gap.end);
            let places = places(addr, &(from.max(start)..to)).map(|at| (at, offset_of(at)));
            let is_there = modules.is_code_of(map.module, self.pid, &places) == Some(true);
            is_there.then_some((from..to, Mapped { offset: offset_of(from), code: true, covered: false, ..map }))
        })
    }

    /// What is mapped next below, and next above, an address at which nothing is.
    fn neighbours(&self, addr: u64) -> [Option<(Range<u64>, Mapped)>; 2] {
        let mut found = [None, None];
        for (range, map) in self.maps.iter() {
            if range.start > addr {
                found[1] = Some((range, *map));
                break;
            }
            found[0] = Some((range, *map));
        }
        found
    }
}

/// Some addresses of a range, at which code is compared: one near `addr`, the others spread over all.
fn places(addr: u64, range: &Range<u64>) -> [u64; 8] {
    const ALIGNED: u64 = 64;
    let bytes = range.end.saturating_sub(range.start);
    std::array::from_fn(|number| {
        let at = if number == 0 { addr } else { range.start + bytes / 8 * number as u64 };
        (at / ALIGNED * ALIGNED).max(range.start)
    })
}

#[cfg(test)]
mod tests {
    use pagelab_vocab::abi::MREMAP_DONTUNMAP;

    use super::*;

    const MAPPED: Mapped = Mapped { module: 7, offset: 0, code: true, covered: false };

    fn remap(old: u64, old_len: u64, new: u64, new_len: u64, flags: u32) -> Change<Map<'static>> {
        let remap = space::Remap { old, old_len: Some(old_len), new, new_len, flags, mapping_id: None };
        Change::Remap(remap)
    }

    #[test]
    fn a_hole_splits_a_mapping_and_keeps_offsets() {
        let mut space = Space::default();
        space.map(0x1000..0x5000, Mapped { offset: 0x100, ..MAPPED });
        space.apply(&Change::Unmap(0x2000..0x3000), None);
        assert_eq!(space.find(0x1010), Some((7, 0x110)));
        assert_eq!(space.find(0x2000), None);
        assert_eq!(space.find(0x3000), Some((7, 0x2100)));
        let touched = |range| space.is_touched_by(&Change::Unmap(range));
        assert!(touched(0x4fff..0x9000) && !touched(0x2000..0x3000));
        let before = space.generation;
        space.apply(&Change::Unmap(0x8000..0x9000), None);
        assert_eq!(space.generation, before, "nothing was there");
    }

    #[test]
    fn a_mapping_that_moves_takes_its_offset_along() {
        let mut space = Space::default();
        space.map(0x1000..0x5000, MAPPED);
        space.apply(&remap(0x2000, 0x1000, 0x10000, 0x2000, 1), None);
        assert_eq!(space.find(0x2000), None);
        assert_eq!(space.find(0x11000), Some((7, 0x2000)));
        assert_eq!(space.find(0x4000), Some((7, 0x3000)));
    }

    #[test]
    fn a_move_that_keeps_the_old_place_leaves_the_code_there() {
        let mut space = Space::default();
        space.map(0x1000..0x5000, MAPPED);
        space.apply(&remap(0x2000, 0x1000, 0x10000, 0x1000, 1 | MREMAP_DONTUNMAP), None);
        assert_eq!((space.find(0x2000), space.find(0x10000)), (Some((7, 0x1000)), Some((7, 0x1000))));
    }

    #[test]
    fn memory_that_is_laid_over_code_is_taken_for_a_copy_of_it() {
        let mut space = Space { pid: u32::MAX, ..Space::default() };
        space.map(0x1000..0x5000, MAPPED);
        space.map(0x5000..0x6000, Mapped { code: false, offset: 0x4000, ..MAPPED });
        // A copy that was made elsewhere, whose pages nobody had noted.
        space.apply(&remap(0x70000, 0x2000, 0x2000, 0x2000, 3), None);
        space.cover(&(0x4000..0x6000));
        assert_eq!(space.find(0x2010), Some((7, 0x1010)));
        let mut modules = Modules::default();
        assert_eq!(space.find_code(0x3010, &mut modules), Some((7, 0x2010)), "the process has ended: nobody can tell");
        assert_eq!(space.find_code(0x4010, &mut modules), Some((7, 0x3010)));
        space.apply(&Change::Unmap(0x2000..0x4000), None);
        assert_eq!((space.find(0x2010), space.find_code(0x2010, &mut modules)), (None, None));
    }

    #[test]
    fn data_that_is_laid_over_data_has_no_file() {
        let mut space = Space::default();
        space.map(0x1000..0x5000, Mapped { code: false, ..MAPPED });
        space.apply(&remap(0x70000, 0x1000, 0x2000, 0x1000, 3), None);
        assert_eq!((space.find(0x2010), space.find(0x3010)), (None, Some((7, 0x2010))));
    }
}
