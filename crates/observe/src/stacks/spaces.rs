//! Recorded address spaces: which code is mapped where.

use std::collections::BTreeMap;
use std::sync::Arc;

use framehop::Unwinder;
use framehop::x86_64::UnwinderX86_64;

use super::modules::Modules;

/// Code that is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapped {
    pub end: u64,
    pub module: u32,
    /// Of `start` in the file.
    pub offset: u64,
    /// For execution.
    pub code: bool,
}

/// One address space.
#[derive(Default)]
pub struct Space {
    pub pid: u32,
    /// Files only, by first address.
    maps: BTreeMap<u64, Mapped>,
    /// All that is mapped is known: it was told at the space's beginning.
    pub whole: bool,
    /// Rises with every change, so that what was worked out for another state is not used.
    pub generation: u32,
    /// Of a 32-bit program, whose stacks only the kernel's chain of frame pointers follows.
    pub compat: bool,
    /// The module of code that is in no file.
    pub jit: Option<u32>,
    unwinder: Option<UnwinderX86_64<Arc<[u8]>>>,
    /// Stacks that took too long to follow.
    slow: u32,
}

/// Whether a vDSO that is mapped there is a 32-bit program's: that of others, which is this process's too, lies higher.
pub fn is_compat(vdso: u64) -> bool {
    vdso >> 32 == 0
}

/// A stack that takes so long is slow, ns: unwinding one takes some 20 us, with what is read for it the first time more.
const SLOW_NS: u64 = 20_000_000;
/// Slow stacks after which no more are followed: other processes' samples are lost meanwhile.
const SLOW_MAX: u32 = 50;

impl Space {
    /// Whether a file is mapped somewhere in `start..end`.
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        self.maps.range(..end).next_back().is_some_and(|(_, map)| map.end > start)
    }

    /// Takes away what is mapped in `start..end`.
    pub fn unmap(&mut self, start: u64, end: u64) {
        if start >= end || !self.overlaps(start, end) {
            return;
        }
        let hit: Vec<(u64, Mapped)> =
            self.maps.range(..end).rev().take_while(|(_, map)| map.end > start).map(|(at, map)| (*at, *map)).collect();
        for (at, map) in hit {
            self.maps.remove(&at);
            if at < start {
                self.maps.insert(at, Mapped { end: start, ..map });
            }
            if map.end > end {
                self.maps.insert(end, Mapped { offset: map.offset.wrapping_add(end - at), ..map });
            }
        }
        self.changed();
    }

    /// Maps a file; what was there before is gone.
    pub fn map(&mut self, start: u64, mapped: Mapped) {
        self.unmap(start, mapped.end);
        self.maps.insert(start, mapped);
        self.changed();
    }

    /// Moves what is mapped in `from..from + len` to `to`.
    pub fn remap(&mut self, from: u64, len: u64, to: u64, new_len: u64) {
        let end = from.saturating_add(len);
        let moved = self.maps.range(..end).next_back().filter(|(_, map)| map.end > from).map(|(at, map)| (*at, *map));
        self.unmap(from, end);
        self.unmap(to, to.saturating_add(new_len));
        if let Some((at, map)) = moved.filter(|(at, _)| *at <= from) {
            self.map(to, Mapped { end: to.saturating_add(new_len), offset: map.offset.wrapping_add(from - at), ..map });
        }
    }

    /// Stacks are not unwound any more, because of what came of earlier ones.
    pub fn is_given_up(&self) -> bool {
        self.slow >= SLOW_MAX
    }

    /// Notes how long a stack took; `done` is false if it made what unwinds fail.
    pub fn unwound(&mut self, done: bool, took_ns: u64) {
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
    pub fn find(&self, addr: u64) -> Option<(u32, u64)> {
        let (start, map) = self.maps.range(..=addr).next_back()?;
        (addr < map.end).then(|| (map.module, map.offset.wrapping_add(addr - start)))
    }

    /// The unwinder of this space.
    pub fn unwinder(&mut self, modules: &mut Modules) -> &UnwinderX86_64<Arc<[u8]>> {
        let maps = &self.maps;
        self.unwinder.get_or_insert_with(|| {
            let mut unwinder = UnwinderX86_64::new();
            for (start, map) in maps.iter().filter(|(_, map)| map.code) {
                if let Some(module) = modules.unwinding(map.module, *start, map.end, map.offset) {
                    unwinder.add_module(module);
                }
            }
            unwinder
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(end: u64, offset: u64) -> Mapped {
        Mapped { end, module: 7, offset, code: true }
    }

    #[test]
    fn a_hole_splits_a_mapping_and_keeps_offsets() {
        let mut space = Space::default();
        space.map(0x1000, mapped(0x5000, 0x100));
        space.unmap(0x2000, 0x3000);
        assert_eq!(space.find(0x1010), Some((7, 0x110)));
        assert_eq!(space.find(0x2000), None);
        assert_eq!(space.find(0x3000), Some((7, 0x2100)));
        assert!(space.overlaps(0x4fff, 0x9000) && !space.overlaps(0x2000, 0x3000));
        let before = space.generation;
        space.unmap(0x8000, 0x9000);
        assert_eq!(space.generation, before, "nothing was there");
    }

    #[test]
    fn a_mapping_that_moves_takes_its_offset_along() {
        let mut space = Space::default();
        space.map(0x1000, mapped(0x5000, 0));
        space.remap(0x2000, 0x1000, 0x10000, 0x2000);
        assert_eq!(space.find(0x2000), None);
        assert_eq!(space.find(0x11000), Some((7, 0x2000)));
        assert_eq!(space.find(0x4000), Some((7, 0x3000)));
    }
}
