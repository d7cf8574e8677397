//! Pieces: which mapping action every address belongs to, as long as it is mapped.

use std::ops::Range;

use pagelab_recording::space::Map;

use super::Tracker;
use crate::mappings::profile::{Example, Order};

/// One mapping action's memory, as long as any of it is there.
#[derive(Debug, Clone)]
pub(in crate::mappings) struct Piece {
    pub class: u32,
    pub start: u64,
    pub len: u64,
    pub mapped_ts: i64,
    pub mapping_id: Option<u32>,
    pub prior: bool,
    /// Ranges of the address space that are still this piece's.
    pub(super) ranges: u32,
    pub faults: u64,
    pub protection_faults: u64,
    pub window_faults: u64,
    pub(super) last_page: u64,
    pub ascending: u32,
    pub descending: u32,
    pub other: u32,
    /// Candidate of the majority vote over steps (R. S. Boyer and J S. Moore, 1981), and its votes.
    pub step: i64,
    pub step_votes: u32,
}

impl Piece {
    pub(super) fn new(class: u32, mapped_ts: i64, mapping_id: Option<u32>, prior: bool) -> Self {
        Self {
            class,
            start: 0,
            len: 0,
            mapped_ts,
            mapping_id,
            prior,
            ranges: 1,
            faults: 0,
            protection_faults: 0,
            window_faults: 0,
            last_page: 0,
            ascending: 0,
            descending: 0,
            other: 0,
            step: 0,
            step_votes: 0,
        }
    }

    #[inline]
    pub(super) fn fault(&mut self, page: u64, in_window: bool) {
        self.faults += 1;
        self.window_faults += u64::from(in_window);
        let last = std::mem::replace(&mut self.last_page, page);
        if last == 0 {
            return;
        }
        let step = page.wrapping_sub(last) as i64;
        match step {
            1..=Order::NEAR_PAGES => self.ascending += 1,
            _ if (-Order::NEAR_PAGES..0).contains(&step) => self.descending += 1,
            _ => self.other += 1,
        }
        if self.step == step {
            self.step_votes += 1;
        } else if self.step_votes == 0 {
            self.step = step;
            self.step_votes = 1;
        } else {
            self.step_votes -= 1;
        }
    }
}

impl Tracker {
    pub(super) fn hold(&mut self, mm_id: u32, map: &Map<'_>, piece: Piece) {
        let range = map.range();
        if range.is_empty() {
            return;
        }
        let number = self.number(&range, piece);
        self.space(mm_id).held.map(map, Some(number));
    }

    /// Keeps a piece that is `range`, and returns its number.
    pub(super) fn number(&mut self, range: &Range<u64>, piece: Piece) -> u32 {
        let mut piece = piece;
        (piece.start, piece.len) = (range.start, range.end - range.start);
        let Some(number) = self.free.pop() else {
            self.pieces.push(piece);
            return (self.pieces.len() - 1) as u32;
        };
        if let Some(place) = self.pieces.get_mut(number as usize) {
            *place = piece;
        }
        number
    }

    pub(super) fn release(&mut self, number: u32, mm_id: u32, ts: Option<i64>) {
        let Some(piece) = self.pieces.get_mut(number as usize) else { return };
        piece.ranges = piece.ranges.saturating_sub(1);
        if piece.ranges > 0 {
            return;
        }
        let example = Example {
            mm_id,
            mapping_id: piece.mapping_id,
            start: piece.start,
            len: piece.len,
            mapped_ts: piece.mapped_ts,
            ended_ts: ts,
            faults: piece.faults,
        };
        self.ledger.ended(piece, example);
        self.free.push(number);
    }

    /// Cuts the piece at `at` in two ranges of the same piece.
    fn cut(&mut self, mm_id: u32, at: u64) {
        let Some(space) = self.spaces.get_mut(&mm_id) else { return };
        if !space.held.split(at) {
            return;
        }
        let number = space.held.at(at).map(|(_, number)| *number);
        if let Some(piece) = number.and_then(|number| self.pieces.get_mut(number as usize)) {
            piece.ranges += 1;
        }
    }

    pub(super) fn take(&mut self, mm_id: u32, range: &Range<u64>) -> Vec<(Range<u64>, u32)> {
        self.cut(mm_id, range.start);
        self.cut(mm_id, range.end);
        self.spaces.get_mut(&mm_id).map_or_else(Vec::new, |space| space.held.take(range))
    }

    pub(super) fn unmap(&mut self, ts: i64, mm_id: u32, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let taken = self.take(mm_id, &range);
        if let Some(space) = self.spaces.get_mut(&mm_id) {
            space.areas.unmap(&range);
        }
        if taken.is_empty() {
            return;
        }
        self.forget_slots(mm_id, &range, false);
        for (_, piece) in taken {
            self.release(piece, mm_id, Some(ts));
        }
    }
}
