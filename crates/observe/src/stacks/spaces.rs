//! Recorded address spaces: which code is mapped where.

use std::ops::Range;

use framehop::Unwinder;
use framehop::x86_64::UnwinderX86_64;
use pagelab_recording::space::{self, Change, Content, Made, Map, PageSizes, Ranges};
use pagelab_recording::tables::MappingsRow;

use super::modules::Modules;
use super::section::Section;
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
    unwinder: Option<UnwinderX86_64<Section>>,
    /// Stacks that took too long to follow.
    slow: u32,
}

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
        if mapped.is_none() && !self.is_touched_by(change) && !self.moves_something(change) {
            return;
        }
        self.maps.apply(change, |made| match made {
            Made::Mapped(_) => mapped,
            Made::Moved(before, _) => before,
            Made::Grown(_) => None,
        });
        self.changed();
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
        self.unwinder = None;
    }

    /// The file mapped at an address, and the offset in it.
    pub(super) fn find(&self, addr: u64) -> Option<(u32, u64)> {
        let (range, map) = self.maps.at(addr)?;
        Some((map.module, map.offset.wrapping_add(addr - range.start)))
    }

    /// The unwinder of this space.
    pub(super) fn unwinder(&mut self, modules: &mut Modules) -> &UnwinderX86_64<Section> {
        let maps = &self.maps;
        self.unwinder.get_or_insert_with(|| {
            let mut unwinder = UnwinderX86_64::new();
            for (range, map) in maps.iter().filter(|(_, map)| map.code) {
                if let Some(module) = modules.unwinding(map.module, range.start, range.end, map.offset) {
                    unwinder.add_module(module);
                }
            }
            unwinder
        })
    }
}

#[cfg(test)]
mod tests {
    use pagelab_vocab::abi::MREMAP_DONTUNMAP;

    use super::*;

    const MAPPED: Mapped = Mapped { module: 7, offset: 0, code: true };

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
}
