//! The memory areas of one address space, as perf reports them.
//!
//! perf does not report calls: it reports the area that exists after an `mmap`, `brk` or `mprotect`, neighbours that
//! the kernel has merged included, and it reports nothing when an area goes. What is new follows from what was known
//! before.

use std::ops::Range;

use pagelab_recording::space::{Content, Intervals};

use crate::bpf::Special;

/// What an area is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
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
}

impl Content for Area {
    /// The same area from another start on, in the same place of the file.
    fn skip(self, bytes: u64) -> Self {
        Self { offset: self.offset.wrapping_add(bytes), ..self }
    }
}

/// What a report says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// These ranges are mapped anew.
    Made(Vec<Range<u64>>),
    /// A known area got another protection.
    Protected,
}

/// The areas that are known.
#[derive(Debug, Clone, Default)]
pub(super) struct Areas(Intervals<Area>);

impl Areas {
    /// All of them, in the order of addresses.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Range<u64>, &Area)> {
        self.0.iter()
    }

    /// Takes note of a report.
    pub(super) fn report(&mut self, range: Range<u64>, area: Area) -> Seen {
        let seen = self.judge(&range, &area);
        self.0.insert(range, area);
        seen
    }

    /// Notes that memory was moved from one address and length to another, if it is known what it was; it stays at the
    /// old place too, if that was kept.
    pub(super) fn moved(&mut self, (old, old_len): (u64, u64), (start, len): (u64, u64), keeps_old: bool) {
        let Some((found, area)) = self.0.at(old) else { return };
        let area = area.skip(old - found.start);
        if !keeps_old {
            self.forget(old, old.saturating_add(old_len));
        }
        self.0.insert(start..start.saturating_add(len), area);
    }

    fn judge(&self, range: &Range<u64>, area: &Area) -> Seen {
        let whole = || Seen::Made(vec![range.clone()]);
        let old: Vec<(Range<u64>, &Area)> = self.0.overlapping(range).collect();
        if old.is_empty() || old.iter().any(|(one, known)| !known.is_of(one.start, area, range.start)) {
            return whole();
        }
        let mut gaps = Vec::new();
        let mut at = range.start;
        for (one, _) in &old {
            if one.start > at {
                gaps.push(at..one.start);
            }
            at = at.max(one.end);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        let reaches_out = old.iter().any(|(one, _)| one.start < range.start || one.end > range.end);
        // A loader lays the parts of a file over a mapping of all of it; only taking rights away is left to `mprotect`.
        let taken_away = |known: &Area| known.prot & area.prot == area.prot;
        let allowed = area.path_id.is_none() || old.iter().all(|(_, known)| taken_away(known));
        match (gaps.is_empty(), old.iter().any(|(_, known)| known.prot != area.prot)) {
            (true, true) if allowed => Seen::Protected,
            // A neighbour was merged with a known area.
            (false, false) if !reaches_out => Seen::Made(gaps),
            // The same again: it was taken away meanwhile, which perf does not tell.
            _ => whole(),
        }
    }

    /// Takes `start..end` out of what is known: nothing is there any more.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        self.0.remove_each(&(start..end), |_, _| ());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]

    use super::*;

    fn area(prot: u32) -> Area {
        Area { prot, flags: 2, offset: 0, path_id: None, dev: 0, ino: 0, special: Special::Plain }
    }

    #[test]
    fn what_was_merged_with_a_neighbour_is_told_from_it() {
        let mut areas = Areas::default();
        assert_eq!(areas.report(0x5000..0x8000, area(3)), Seen::Made(vec![0x5000..0x8000]));
        assert_eq!(areas.report(0x2000..0x9000, area(3)), Seen::Made(vec![0x2000..0x5000, 0x8000..0x9000]));
        assert_eq!(areas.report(0x2000..0x9000, area(3)), Seen::Made(vec![0x2000..0x9000]), "mapped once more");
        let other = Area { flags: 1, ..area(3) };
        assert_eq!(areas.report(0x8000..0xa000, other), Seen::Made(vec![0x8000..0xa000]), "other memory over it");
        assert_eq!(
            areas.iter().map(|(at, _)| (at.start, at.end)).collect::<Vec<_>>(),
            [(0x2000, 0x8000), (0x8000, 0xa000)]
        );
    }

    #[test]
    fn another_protection_of_what_was_there_is_no_mapping() {
        let mut areas = Areas::default();
        areas.report(0x1000..0x9000, area(0));
        assert_eq!(areas.report(0x2000..0x9000, area(3)), Seen::Protected);
        let kept: Vec<_> = areas.iter().map(|(at, one)| (at.start, at.end, one.prot)).collect();
        assert_eq!(kept, [(0x1000, 0x2000, 0), (0x2000, 0x9000, 3)]);
    }

    #[test]
    fn what_went_or_moved_is_known_no_more_where_it_was() {
        let mut areas = Areas::default();
        areas.report(0x1000..0x9000, Area { path_id: Some(7), ..area(3) });
        areas.forget(0x2000, 0x3000);
        areas.moved((0x5000, 0x1000), (0x2_0000, 0x2000), false);
        areas.moved((0x7_0000, 0x1000), (0x3_0000, 0x1000), false);
        let kept: Vec<_> = areas.iter().map(|(at, one)| (at.start, at.end, one.offset)).collect();
        let wanted =
            [(0x1000, 0x2000, 0), (0x3000, 0x5000, 0x2000), (0x6000, 0x9000, 0x5000), (0x2_0000, 0x2_2000, 0x4000)];
        assert_eq!(kept, wanted);
        assert_eq!(
            areas.report(0x2000..0x3000, Area { path_id: Some(7), offset: 0x1000, ..area(3) }),
            Seen::Made(vec![0x2000..0x3000])
        );
        areas.moved((0x6000, 0x1000), (0x4_0000, 0x1000), true);
        assert!(areas.iter().any(|(at, _)| at == (0x6000..0x9000)), "MREMAP_DONTUNMAP");
    }

    #[test]
    fn parts_of_a_file_are_one_piece_only_in_their_order() {
        let file = |offset| Area { path_id: Some(7), offset, ..area(1) };
        let mut areas = Areas::default();
        areas.report(0x1000..0x2000, file(0));
        assert_eq!(areas.report(0x1000..0x3000, file(0)), Seen::Made(vec![0x2000..0x3000]));
        assert_eq!(areas.report(0x2000..0x3000, file(0)), Seen::Made(vec![0x2000..0x3000]), "its beginning once more");
        let code = Area { prot: 5, ..file(0) };
        assert_eq!(
            areas.report(0x1000..0x2000, code),
            Seen::Made(vec![0x1000..0x2000]),
            "for execution, as loaders map it"
        );
        assert_eq!(areas.report(0x1000..0x2000, file(0)), Seen::Protected);
    }
}
