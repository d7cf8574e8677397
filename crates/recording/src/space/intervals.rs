//! A map from intervals of addresses to values.
//!
//! Written here rather than taken from a crate, by measurement: see the table in [`super`]. It must also return the
//! values it removes, cut to the range, and keep neighbours with equal values apart (two mappings of one file are two).

use std::collections::BTreeMap;
use std::ops::Range;

/// What an interval holds.
pub trait Content: Clone {
    /// The content of the same interval without its first `bytes`: a file's offset moves along.
    #[must_use]
    fn skip(self, bytes: u64) -> Self {
        let _ = bytes;
        self
    }
}

impl Content for u32 {}

/// An interval's end and its value; its start is its key.
#[derive(Debug, Clone)]
struct Interval<V> {
    end: u64,
    value: V,
}

/// Intervals that do not overlap, each with its content.
#[derive(Debug, Clone)]
pub struct Intervals<V> {
    by_start: BTreeMap<u64, Interval<V>>,
}

impl<V> Default for Intervals<V> {
    fn default() -> Self {
        Self { by_start: BTreeMap::new() }
    }
}

impl<V: Content> Intervals<V> {
    /// The interval that holds `addr`.
    pub fn at(&self, addr: u64) -> Option<(Range<u64>, &V)> {
        let (start, found) = self.by_start.range(..=addr).next_back()?;
        if addr >= found.end {
            return None;
        }
        Some((*start..found.end, &found.value))
    }

    /// The content of the interval that holds `addr`, to be changed in place.
    pub fn at_mut(&mut self, addr: u64) -> Option<&mut V> {
        let (_, found) = self.by_start.range_mut(..=addr).next_back()?;
        if addr >= found.end {
            return None;
        }
        Some(&mut found.value)
    }

    /// The first interval that begins at `addr` or above.
    pub fn from(&self, addr: u64) -> Option<(Range<u64>, &V)> {
        let (start, found) = self.by_start.range(addr..).next()?;
        Some((*start..found.end, &found.value))
    }

    /// The last interval that begins below `addr`.
    pub fn below(&self, addr: u64) -> Option<(Range<u64>, &V)> {
        let (start, found) = self.by_start.range(..addr).next_back()?;
        Some((*start..found.end, &found.value))
    }

    /// All intervals in the order of their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, &V)> {
        self.by_start.iter().map(|(start, one)| (*start..one.end, &one.value))
    }

    /// All intervals of which some part lies in `range`, in the order of their addresses. They are not cut to it.
    pub fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, &V)> + use<'_, V> {
        let first = self.below(range.start).filter(|(found, _)| found.end > range.start);
        // An inverted range would make the tree panic.
        let inside = self.by_start.range(range.start..range.end.max(range.start));
        first.into_iter().chain(inside.map(|(start, one)| (*start..one.end, &one.value)))
    }

    /// Whether some part of `range` is held.
    pub fn any_in(&self, range: &Range<u64>) -> bool {
        !range.is_empty() && self.below(range.end).is_some_and(|(found, _)| found.end > range.start)
    }

    /// Cuts the interval that reaches over `addr` in two; true if there was one.
    pub fn split(&mut self, addr: u64) -> bool {
        let Some((start, found)) = self.by_start.range_mut(..addr).next_back() else { return false };
        if found.end <= addr {
            return false;
        }
        let (start, end) = (*start, found.end);
        found.end = addr;
        let value = found.value.clone().skip(addr - start);
        self.by_start.insert(addr, Interval { end, value });
        true
    }

    /// Takes `range` out and gives each piece that was there, cut to it, to `taken`, in the order of addresses.
    pub fn remove_each(&mut self, range: &Range<u64>, mut taken: impl FnMut(Range<u64>, V)) {
        if range.is_empty() {
            return;
        }
        // Mostly one interval or none is concerned, and one search tells.
        let Some((start, last)) = self.by_start.range(..range.end).next_back() else { return };
        let (start, end) = (*start, last.end);
        if end <= range.start {
            return;
        }
        if start <= range.start {
            self.remove_within(start..end, range, taken);
            return;
        }
        if end > range.end {
            self.split(range.end);
        }
        self.split(range.start);
        while let Some((start, _)) = self.by_start.range(range.clone()).next() {
            let start = *start;
            if let Some(one) = self.by_start.remove(&start) {
                taken(start..one.end, one.value);
            }
        }
    }

    /// Takes `range` out of the one interval `whole`, in which it begins and beyond which nothing of it is held.
    fn remove_within(&mut self, whole: Range<u64>, range: &Range<u64>, mut taken: impl FnMut(Range<u64>, V)) {
        let Some(one) = self.by_start.remove(&whole.start) else { return };
        let taken_end = whole.end.min(range.end);
        if range.end < whole.end {
            let value = one.value.clone().skip(range.end - whole.start);
            self.by_start.insert(range.end, Interval { end: whole.end, value });
        }
        if whole.start < range.start {
            let value = one.value.clone();
            self.by_start.insert(whole.start, Interval { end: range.start, value });
        }
        taken(range.start..taken_end, one.value.skip(range.start - whole.start));
    }

    /// Takes `range` out and returns the pieces that were there, cut to it.
    pub fn remove(&mut self, range: &Range<u64>) -> Vec<(Range<u64>, V)> {
        let mut pieces = Vec::new();
        self.remove_each(range, |piece, value| pieces.push((piece, value)));
        pieces
    }

    /// Puts `value` into `range`, replacing earlier values. An empty range holds nothing.
    pub fn insert(&mut self, range: Range<u64>, value: V) {
        if range.is_empty() {
            return;
        }
        self.remove_each(&range, |_, _| ());
        self.by_start.insert(range.start, Interval { end: range.end, value });
    }

    /// Moves the start of the interval that begins at `start` to `to`, which no other interval may lie beyond.
    pub fn move_start(&mut self, start: u64, to: u64) {
        if let Some(one) = self.by_start.remove(&start).filter(|one| to < one.end) {
            self.by_start.insert(to, one);
        }
    }

    /// Moves the end of the interval that begins at `start` to `to`, which must not reach into the next one.
    pub fn move_end(&mut self, start: u64, to: u64) {
        if let Some(one) = self.by_start.get_mut(&start) {
            one.end = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const END: u64 = 48;

    /// A file's number, and the offset of the interval's start.
    #[derive(Debug, Clone, PartialEq)]
    struct File(u32, u64);

    impl Content for File {
        fn skip(self, bytes: u64) -> Self {
            File(self.0, self.1 + bytes)
        }
    }

    proptest! {
        /// Address by address it is what an array says, and what is taken out is what was there.
        #[test]
        fn it_is_a_map_of_addresses(steps in proptest::collection::vec((0..END, 1..END / 2, any::<bool>()), 1..40)) {
            let mut map = Intervals::default();
            let mut cells: Vec<Option<(u32, u64)>> = vec![None; END as usize];
            for (number, (start, len, inserts)) in steps.into_iter().enumerate() {
                let range = start..(start + len).min(END);
                let number = number as u32;
                if inserts {
                    map.insert(range.clone(), File(number, 0));
                } else {
                    let mut taken = vec![None; END as usize];
                    for (piece, File(number, offset)) in map.remove(&range) {
                        for at in piece.clone() {
                            taken[at as usize] = Some((number, offset + at - piece.start));
                        }
                    }
                    let there = range.start as usize..range.end as usize;
                    prop_assert_eq!(&taken[there.clone()], &cells[there]);
                    prop_assert!(taken.iter().flatten().count() == taken[start as usize..range.end as usize].iter().flatten().count());
                }
                for at in range.clone() {
                    cells[at as usize] = inserts.then(|| (number, at - range.start));
                }
                let held = |at| map.at(at).map(|(whole, File(number, offset))| (*number, offset + at - whole.start));
                prop_assert_eq!((0..END).map(held).collect::<Vec<_>>(), cells.clone());
            }
        }
    }
}
