//! Faults: whose piece and slot each one hit.

use std::ops::Range;

use super::slots::Slot;
use super::{Found, Known, Tracker};

impl Tracker {
    /// Counts one fault. `protection`: the page was there and the access was not allowed.
    pub(in crate::mappings) fn fault(&mut self, mm_id: u32, addr: u64, protection: bool, in_window: bool) {
        self.ledger.faults += 1;
        self.ledger.window_faults += u64::from(in_window);
        let Some((place, fresh)) = self.find(mm_id, addr) else {
            self.ledger.unattributed += 1;
            return;
        };
        let Self { found, pieces, spaces, scale, .. } = self;
        let (Some(known), scale) = (found.places.get_mut(place), *scale) else { return };
        let Some(piece) = pieces.get_mut(known.piece as usize) else { return };
        if protection {
            piece.protection_faults += 1;
            return;
        }
        let page = scale.page_of(addr);
        piece.fault(page, in_window);
        let first = piece.faults == 1;
        if (fresh || first) && !known.faulted.contains(&addr) {
            let Some(space) = spaces.get_mut(&mm_id) else { return };
            known.faulted = space.areas.faulted(addr);
        }
        if known.slot.is_none() {
            let Some(space) = spaces.get_mut(&mm_id) else { return };
            let number = *space.slots.entry(known.slot_number).or_insert_with(|| {
                let start = known.slot_number * scale.slot;
                let end = start.saturating_add(scale.slot);
                let whole = space.areas.at(addr).is_some_and(|(area, _)| area.start <= start && end <= area.end);
                self.slots.add(Slot::new(piece.class, whole, !piece.prior, scale.pages_per_slot()))
            });
            known.slot = Some(number);
        }
        if let Some(slot) = known.slot.and_then(|number| self.slots.get_mut(number)) {
            slot.fault(page & (scale.pages_per_slot() - 1), in_window);
        }
    }

    /// The place in `found` of what is known of `addr`, and whether that is another piece than last time.
    fn find(&mut self, mm_id: u32, addr: u64) -> Option<(usize, bool)> {
        let slot_number = self.scale.slot_of(addr);
        let place = Found::place_of(mm_id, slot_number);
        let known = self.found.places.get(place)?;
        let is_known = known.changes == self.found.changes
            && (known.mm_id, known.slot_number) == (mm_id, slot_number)
            && known.range.contains(&addr);
        if !is_known {
            let (range, piece) = match self.spaces.get_mut(&mm_id)?.held.at(addr) {
                Some((range, number)) => (range, *number),
                None => self.grow_stack(mm_id, addr)?,
            };
            let changes = self.found.changes;
            self.found.places[place] = Known { changes, mm_id, slot_number, range, piece, faulted: 0..0, slot: None };
        }
        let known = self.found.places.get(place)?;
        let same = self.found.last.as_ref().is_some_and(|(mm, range)| *mm == mm_id && range.contains(&addr));
        if !same {
            self.found.last = Some((mm_id, known.range.clone()));
        }
        Some((place, !same))
    }

    /// A stack grows down by faults, without a call: a fault below one belongs to it.
    fn grow_stack(&mut self, mm_id: u32, addr: u64) -> Option<(Range<u64>, u32)> {
        let page = self.scale.page;
        // Ranges that are known have grown.
        self.found.changes += 1;
        let space = self.spaces.get_mut(&mm_id)?;
        let (range, began) = space.held.grow_down(addr / page * page)?;
        space.areas.grow_down(began, range.start);
        let number = space.held.at(range.start).map(|(_, number)| *number)?;
        Some((range, number))
    }
}
