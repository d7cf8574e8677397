//! The memory areas of one address space, as perf tells of them.
//!
//! perf does not tell of calls: it reports the area that is there after an `mmap`, `brk` or `mprotect`, neighbours that the
//! kernel has merged included, and it reports nothing when an area goes. What was known before tells what is new.

use std::collections::BTreeMap;

use crate::bpf::Special;

/// An area; its start is its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    pub end: u64,
    pub prot: u32,
    /// MAP_ bits.
    pub flags: u32,
    /// Of the start, in the file.
    pub offset: u64,
    /// None without a file.
    pub path_id: Option<u64>,
    pub dev: u64,
    pub ino: u64,
    pub special: Special,
}

impl Area {
    /// Whether `other` is more of the same: the kernel merges such neighbours.
    fn is_of(&self, start: u64, other: &Self, other_start: u64) -> bool {
        let kind = |area: &Self| (area.path_id, area.special, area.flags);
        let place = |area: &Self, start: u64| area.path_id.map(|_| area.offset.wrapping_sub(start));
        kind(self) == kind(other) && place(self, start) == place(other, other_start)
    }

    /// The same area from another start on, in the same place of the file.
    fn from(&self, start: u64, at: u64) -> Self {
        Self { offset: self.offset.wrapping_add(at.wrapping_sub(start)), ..*self }
    }
}

/// What a report says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// These ranges are mapped anew.
    Made(Vec<(u64, u64)>),
    /// What was there is protected otherwise.
    Protected,
}

/// The areas that are known.
#[derive(Debug, Clone, Default)]
pub struct Areas(BTreeMap<u64, Area>);

impl Areas {
    /// All of them, in the order of addresses.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Area)> {
        self.0.iter().map(|(start, area)| (*start, area))
    }

    /// Takes note of a report.
    pub fn report(&mut self, start: u64, area: Area) -> Seen {
        let seen = self.judge(start, &area);
        self.forget(start, area.end);
        self.0.insert(start, area);
        seen
    }

    /// Takes note that what was at a place of some length is at another of some length, if it is known what that was.
    pub fn moved(&mut self, (old, old_len): (u64, u64), (start, len): (u64, u64)) {
        let Some((at, area)) = self.overlapping(old, old.saturating_add(1)).next().map(|(at, area)| (at, *area)) else {
            return;
        };
        self.forget(old, old.saturating_add(old_len));
        let end = start.saturating_add(len);
        self.forget(start, end);
        self.0.insert(start, Area { end, ..area.from(at, old) });
    }

    fn judge(&self, start: u64, area: &Area) -> Seen {
        let whole = || Seen::Made(vec![(start, area.end)]);
        let old: Vec<(u64, &Area)> = self.overlapping(start, area.end).collect();
        if old.is_empty() || old.iter().any(|(at, one)| !one.is_of(*at, area, start)) {
            return whole();
        }
        let mut gaps = Vec::new();
        let mut at = start;
        for (from, one) in &old {
            if *from > at {
                gaps.push((at, *from));
            }
            at = at.max(one.end);
        }
        if at < area.end {
            gaps.push((at, area.end));
        }
        let reaches_out = old.iter().any(|(from, one)| *from < start || one.end > area.end);
        // A loader lays the parts of a file over a mapping of all of it; only taking rights away is left to `mprotect`.
        let taken_away = |one: &Area| one.prot & area.prot == area.prot;
        let allowed = area.path_id.is_none() || old.iter().all(|(_, one)| taken_away(one));
        match (gaps.is_empty(), old.iter().any(|(_, one)| one.prot != area.prot)) {
            (true, true) if allowed => Seen::Protected,
            // A neighbour that was merged with what was there.
            (false, false) if !reaches_out => Seen::Made(gaps),
            // The same again: it was taken away meanwhile, which perf does not tell.
            _ => whole(),
        }
    }

    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &Area)> {
        let before = self.0.range(..start).next_back().filter(|(_, area)| area.end > start);
        before.into_iter().chain(self.0.range(start..end)).map(|(at, area)| (*at, area))
    }

    /// Takes `start..end` out of what is known: nothing is there any more.
    pub fn forget(&mut self, start: u64, end: u64) {
        let old: Vec<(u64, Area)> = self.overlapping(start, end).map(|(at, area)| (at, *area)).collect();
        for (at, area) in old {
            self.0.remove(&at);
            if at < start {
                self.0.insert(at, Area { end: start, ..area });
            }
            if area.end > end {
                self.0.insert(end, area.from(at, end));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(end: u64, prot: u32) -> Area {
        Area { end, prot, flags: 2, offset: 0, path_id: None, dev: 0, ino: 0, special: Special::Plain }
    }

    #[test]
    fn what_was_merged_with_a_neighbour_is_told_from_it() {
        let mut areas = Areas::default();
        assert_eq!(areas.report(0x5000, area(0x8000, 3)), Seen::Made(vec![(0x5000, 0x8000)]));
        assert_eq!(areas.report(0x2000, area(0x9000, 3)), Seen::Made(vec![(0x2000, 0x5000), (0x8000, 0x9000)]));
        assert_eq!(areas.report(0x2000, area(0x9000, 3)), Seen::Made(vec![(0x2000, 0x9000)]), "mapped once more");
        let other = Area { flags: 1, ..area(0xa000, 3) };
        assert_eq!(areas.report(0x8000, other), Seen::Made(vec![(0x8000, 0xa000)]), "other memory over it");
        assert_eq!(
            areas.iter().map(|(at, one)| (at, one.end)).collect::<Vec<_>>(),
            [(0x2000, 0x8000), (0x8000, 0xa000)]
        );
    }

    #[test]
    fn another_protection_of_what_was_there_is_no_mapping() {
        let mut areas = Areas::default();
        areas.report(0x1000, area(0x9000, 0));
        assert_eq!(areas.report(0x2000, area(0x9000, 3)), Seen::Protected);
        let kept: Vec<_> = areas.iter().map(|(at, one)| (at, one.end, one.prot)).collect();
        assert_eq!(kept, [(0x1000, 0x2000, 0), (0x2000, 0x9000, 3)]);
    }

    #[test]
    fn what_went_or_moved_is_known_no_more_where_it_was() {
        let mut areas = Areas::default();
        areas.report(0x1000, Area { path_id: Some(7), ..area(0x9000, 3) });
        areas.forget(0x2000, 0x3000);
        areas.moved((0x5000, 0x1000), (0x2_0000, 0x2000));
        areas.moved((0x7_0000, 0x1000), (0x3_0000, 0x1000));
        let kept: Vec<_> = areas.iter().map(|(at, one)| (at, one.end, one.offset)).collect();
        let wanted =
            [(0x1000, 0x2000, 0), (0x3000, 0x5000, 0x2000), (0x6000, 0x9000, 0x5000), (0x2_0000, 0x2_2000, 0x4000)];
        assert_eq!(kept, wanted);
        assert_eq!(
            areas.report(0x2000, Area { path_id: Some(7), offset: 0x1000, ..area(0x3000, 3) }),
            Seen::Made(vec![(0x2000, 0x3000)])
        );
    }

    #[test]
    fn parts_of_a_file_are_one_piece_only_in_their_order() {
        let file = |end, offset| Area { path_id: Some(7), offset, ..area(end, 1) };
        let mut areas = Areas::default();
        areas.report(0x1000, file(0x2000, 0));
        assert_eq!(areas.report(0x1000, file(0x3000, 0)), Seen::Made(vec![(0x2000, 0x3000)]));
        assert_eq!(
            areas.report(0x2000, file(0x3000, 0)),
            Seen::Made(vec![(0x2000, 0x3000)]),
            "its beginning once more"
        );
        let code = Area { prot: 5, ..file(0x2000, 0) };
        assert_eq!(areas.report(0x1000, code), Seen::Made(vec![(0x1000, 0x2000)]), "for execution, as loaders map it");
        assert_eq!(areas.report(0x1000, file(0x2000, 0)), Seen::Protected);
    }
}
