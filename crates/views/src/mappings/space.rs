//! The memory areas of one address space as the kernel keeps them: neighbours with equal properties are one area.
//!
//! Whether a huge page can be put at an address is decided by the area, not by the call that made it (mm/huge_memory.c,
//! `thp_vma_suitable_order`: the aligned range must lie inside). So the areas are rebuilt here from the calls, with the
//! rules of mm/vma.c: two adjacent areas merge if their flags, file and file offset agree and they do not have two
//! different anon_vmas; a new area also joins both of its neighbours. An area gets its anon_vma at its first fault and
//! takes the neighbour's then if it could have merged with it but for its protection (`reusable_anon_vma`).

use std::collections::BTreeMap;
use std::ops::Range;

use super::class::{MemoryKind, ThpAdvice};

/// Properties beyond those with a field of their own that keep areas apart.
pub(super) mod bits {
    pub(crate) const LOCKED: u16 = 1;
    pub(crate) const NORESERVE: u16 = 2;
    pub(crate) const GROWSDOWN: u16 = 4;
    pub(crate) const RANDOM: u16 = 8;
    pub(crate) const SEQUENTIAL: u16 = 16;
    pub(crate) const DONTFORK: u16 = 32;
    pub(crate) const MERGEABLE: u16 = 64;
    pub(crate) const DONTDUMP: u16 = 128;
    pub(crate) const WIPEONFORK: u16 = 256;
}

/// What two areas must share to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attrs {
    pub kind: MemoryKind,
    pub shared: bool,
    pub prot: u8,
    pub thp: ThpAdvice,
    pub bits: u16,
    /// Number of the file, 0 for none.
    pub file: u32,
    /// File offset less address, wrapping; equal for areas that are continuous in the file.
    pub delta: u64,
}

/// One memory area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Area {
    end: u64,
    attrs: Attrs,
    /// Number of its anon_vma; 0 before the first fault.
    anon: u32,
}

/// The areas of one address space.
#[derive(Debug, Default)]
pub(super) struct Areas {
    by_start: BTreeMap<u64, Area>,
    last_anon: u32,
}

impl Areas {
    /// The area that holds `addr`.
    pub(super) fn at(&self, addr: u64) -> Option<(Range<u64>, Attrs)> {
        let (start, area) = self.by_start.range(..=addr).next_back()?;
        (addr < area.end).then_some((*start..area.end, area.attrs))
    }

    /// Whether any area lies in part in `range`.
    pub(super) fn any_in(&self, range: &Range<u64>) -> bool {
        self.by_start.range(..range.end).next_back().is_some_and(|(_, area)| area.end > range.start)
    }

    /// Makes an area, replacing earlier ones. Returns by how many whole slots the address space grew, mergers included
    /// and replaced areas not deducted.
    pub(super) fn map(&mut self, range: Range<u64>, attrs: Attrs, slot: u64) -> u64 {
        if range.is_empty() {
            return 0;
        }
        self.unmap(&range);
        let neighbour = |addr: u64| self.at(addr).map(|(found, _)| found);
        let left = range.start.checked_sub(1).and_then(neighbour);
        let right = neighbour(range.end);
        self.by_start.insert(range.start, Area { end: range.end, attrs, anon: 0 });
        let start = self.join_left(range.start);
        // A new area has no anon_vma, so it joins the right neighbour too unless the left one's differs.
        self.join_right(start);
        let Some(joined) = self.by_start.get(&start).map(|area| start..area.end) else { return 0 };
        let before: u64 = [left, right]
            .into_iter()
            .flatten()
            .filter(|other| joined.start <= other.start && other.end <= joined.end)
            .map(|other| whole_slots(&other, slot))
            .sum();
        whole_slots(&joined, slot).saturating_sub(before)
    }

    /// Takes everything in `range` away.
    pub(super) fn unmap(&mut self, range: &Range<u64>) {
        self.split(range.start);
        self.split(range.end);
        let gone: Vec<u64> = self.by_start.range(range.clone()).map(|(start, _)| *start).collect();
        for start in gone {
            self.by_start.remove(&start);
        }
    }

    /// Changes the properties of everything in `range` and merges what is equal then.
    pub(super) fn change(&mut self, range: &Range<u64>, mut change: impl FnMut(&mut Attrs)) {
        if range.is_empty() {
            return;
        }
        self.split(range.start);
        self.split(range.end);
        let inside: Vec<u64> = self.by_start.range(range.clone()).map(|(start, _)| *start).collect();
        for start in &inside {
            if let Some(area) = self.by_start.get_mut(start) {
                change(&mut area.attrs);
            }
        }
        for start in inside {
            if self.by_start.contains_key(&start) {
                self.join_left(start);
            }
        }
        if let Some(start) = self.by_start.range(..range.end).next_back().map(|(start, _)| *start) {
            self.join_right(start);
        }
    }

    /// Moves the lower end of the area that begins at `start` down to `to`: a stack that grew.
    pub(super) fn grow_down(&mut self, start: u64, to: u64) {
        if let Some(area) = self.by_start.remove(&start) {
            self.by_start.insert(to.min(start), area);
        }
    }

    /// Notes that the area at `addr` was faulted on, which gives it an anon_vma. Returns the area.
    pub(super) fn faulted(&mut self, addr: u64) -> Range<u64> {
        let Some((start, area)) = self.by_start.range(..=addr).next_back().map(|(s, a)| (*s, *a)) else { return 0..0 };
        if addr >= area.end {
            return 0..0;
        }
        if area.anon != 0 {
            return start..area.end;
        }
        let like =
            |other: &Area| other.anon != 0 && Attrs { prot: 0, ..other.attrs } == Attrs { prot: 0, ..area.attrs };
        let left =
            self.by_start.range(..start).next_back().filter(|(_, l)| l.end == start && like(l)).map(|(_, l)| l.anon);
        let right = self.by_start.get(&area.end).filter(|r| like(r)).map(|r| r.anon);
        let anon = right.or(left).unwrap_or_else(|| {
            self.last_anon += 1;
            self.last_anon
        });
        if let Some(area) = self.by_start.get_mut(&start) {
            area.anon = anon;
        }
        start..area.end
    }

    fn split(&mut self, at: u64) {
        let Some((start, area)) = self.by_start.range(..at).next_back().map(|(s, a)| (*s, *a)) else { return };
        if at > start && at < area.end {
            self.by_start.insert(at, area);
            if let Some(left) = self.by_start.get_mut(&start) {
                left.end = at;
            }
        }
    }

    /// Joins the area at `start` with the one that ends there; returns the start of the result.
    fn join_left(&mut self, start: u64) -> u64 {
        let left = self.by_start.range(..start).next_back().map(|(s, a)| (*s, *a));
        let (Some((left_start, left)), Some(area)) = (left, self.by_start.get(&start).copied()) else { return start };
        if left.end != start || !may_merge(&left, &area) {
            return start;
        }
        self.by_start.remove(&start);
        self.by_start.insert(left_start, Area { end: area.end, attrs: area.attrs, anon: left.anon.max(area.anon) });
        left_start
    }

    fn join_right(&mut self, start: u64) {
        if let Some(end) = self.by_start.get(&start).map(|area| area.end)
            && self.by_start.contains_key(&end)
        {
            self.join_left(end);
        }
    }
}

fn may_merge(a: &Area, b: &Area) -> bool {
    // hugetlb areas and the kernel's special ones are never merged (VM_SPECIAL in mm/vma.c).
    !matches!(a.attrs.kind, MemoryKind::Hugetlb | MemoryKind::Kernel)
        && a.attrs == b.attrs
        && (a.anon == 0 || b.anon == 0 || a.anon == b.anon)
}

/// Whole aligned slots in a range.
pub(super) fn whole_slots(range: &Range<u64>, slot: u64) -> u64 {
    let Some(first) = range.start.checked_next_multiple_of(slot.max(1)) else { return 0 };
    range.end.saturating_sub(first) / slot.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: u64 = 2 << 20;
    const ANON: Attrs =
        Attrs { kind: MemoryKind::Anonymous, shared: false, prot: 3, thp: ThpAdvice::None, bits: 0, file: 0, delta: 0 };

    fn extent(areas: &Areas, addr: u64) -> Option<Range<u64>> {
        areas.at(addr).map(|(range, _)| range)
    }

    #[test]
    fn neighbours_merge_and_make_a_slot_whole() {
        let mut areas = Areas::default();
        let middle = 10 * SLOT;
        assert_eq!(areas.map(middle..middle + SLOT / 2, ANON, SLOT), 0);
        assert_eq!(areas.map(middle + SLOT / 2..middle + SLOT, ANON, SLOT), 1, "two halves make one whole slot");
        assert_eq!(extent(&areas, middle), Some(middle..middle + SLOT));
        assert_eq!(areas.map(middle - SLOT..middle, ANON, SLOT), 1);
        assert_eq!(extent(&areas, middle), Some(middle - SLOT..middle + SLOT));
    }

    #[test]
    fn what_differs_stays_apart() {
        let mut areas = Areas::default();
        areas.map(0x1000..0x2000, ANON, SLOT);
        areas.map(0x2000..0x3000, Attrs { prot: 1, ..ANON }, SLOT);
        areas.map(0x3000..0x4000, Attrs { bits: bits::SEQUENTIAL, ..ANON }, SLOT);
        assert_eq!(extent(&areas, 0x2800), Some(0x2000..0x3000));
        areas.change(&(0x2000..0x3000), |attrs| attrs.prot = 3);
        assert_eq!(extent(&areas, 0x2800), Some(0x1000..0x3000), "mprotect made them equal");
        areas.change(&(0x1800..0x2000), |attrs| attrs.thp = ThpAdvice::Huge);
        assert_eq!(extent(&areas, 0x1900), Some(0x1800..0x2000), "madvise cut one out");
        assert_eq!(extent(&areas, 0x1000), Some(0x1000..0x1800));
    }

    #[test]
    fn two_faulted_areas_do_not_merge_through_a_third() {
        let mut areas = Areas::default();
        areas.map(0x1000..0x2000, ANON, SLOT);
        areas.map(0x3000..0x4000, ANON, SLOT);
        areas.faulted(0x1000);
        areas.faulted(0x3000);
        areas.map(0x2000..0x3000, ANON, SLOT);
        assert_eq!(extent(&areas, 0x2000), Some(0x1000..0x3000), "joined on one side only");
        assert_eq!(extent(&areas, 0x3000), Some(0x3000..0x4000));
    }

    #[test]
    fn files_merge_only_where_they_are_continuous() {
        let mut areas = Areas::default();
        let file = |offset: u64, start: u64| Attrs {
            kind: MemoryKind::File,
            file: 7,
            delta: offset.wrapping_sub(start),
            ..ANON
        };
        areas.map(0x10000..0x11000, file(0, 0x10000), SLOT);
        areas.map(0x11000..0x12000, file(0x1000, 0x11000), SLOT);
        areas.map(0x12000..0x13000, file(0x5000, 0x12000), SLOT);
        assert_eq!(extent(&areas, 0x10000), Some(0x10000..0x12000));
    }

    #[test]
    fn unmapping_cuts_and_remapping_replaces() {
        let mut areas = Areas::default();
        areas.map(0..4 * SLOT, ANON, SLOT);
        areas.unmap(&(SLOT..2 * SLOT));
        assert_eq!(extent(&areas, 0), Some(0..SLOT));
        assert_eq!(extent(&areas, SLOT), None);
        assert!(!areas.any_in(&(SLOT..2 * SLOT)));
        assert!(areas.any_in(&(SLOT..2 * SLOT + 1)));
        areas.map(SLOT / 2..SLOT, Attrs { prot: 0, ..ANON }, SLOT);
        assert_eq!(extent(&areas, 0), Some(0..SLOT / 2));
    }

    #[test]
    fn whole_slots_are_counted_inside_only() {
        assert_eq!(whole_slots(&(0..SLOT), SLOT), 1);
        assert_eq!(whole_slots(&(4096..SLOT + 4096), SLOT), 0);
        assert_eq!(whole_slots(&(4096..2 * SLOT + 4096), SLOT), 1);
        assert_eq!(whole_slots(&(u64::MAX - 10..u64::MAX), SLOT), 0);
    }
}
