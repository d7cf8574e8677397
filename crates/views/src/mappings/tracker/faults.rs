//! Faults: whose piece and slot each one hit.

use std::ops::Range;

use super::Tracker;
use super::slots::Slot;

impl Tracker {
    /// Counts one fault. `protection`: the page was there and the access was not allowed.
    pub(in crate::mappings) fn fault(&mut self, mm_id: u32, addr: u64, protection: bool, in_window: bool) {
        self.ledger.faults += 1;
        self.ledger.window_faults += u64::from(in_window);
        let Some((number, fresh)) = self.find(mm_id, addr) else {
            self.ledger.unattributed += 1;
            return;
        };
        let page = addr / self.scale.page;
        let Some(piece) = self.pieces.get_mut(number as usize) else { return };
        if protection {
            piece.protection_faults += 1;
            return;
        }
        piece.fault(page, in_window);
        let (class, prior, first) = (piece.class, piece.prior, piece.faults == 1);
        let scale = self.scale;
        let Some(space) = self.spaces.get_mut(&mm_id) else { return };
        if fresh || first {
            space.areas.faulted(addr);
        }
        let slot = space.slots.entry(addr / scale.slot).or_insert_with(|| {
            let start = addr / scale.slot * scale.slot;
            let end = start.saturating_add(scale.slot);
            let whole = space.areas.at(addr).is_some_and(|(area, _)| area.start <= start && end <= area.end);
            Slot::new(class, whole, !prior, scale.pages_per_slot())
        });
        slot.fault(page % scale.pages_per_slot(), in_window);
    }

    /// The piece at `addr`, and whether it is another one than last time.
    fn find(&mut self, mm_id: u32, addr: u64) -> Option<(u32, bool)> {
        if let Some((cached_mm, range, piece)) = &self.cache
            && *cached_mm == mm_id
            && range.contains(&addr)
        {
            return Some((*piece, false));
        }
        let space = self.spaces.get_mut(&mm_id)?;
        let (range, number) = match space.held.at(addr) {
            Some((range, number)) => (range, *number),
            None => self.grow_stack(mm_id, addr)?,
        };
        self.cache = Some((mm_id, range, number));
        Some((number, true))
    }

    /// A stack grows down by faults, without a call: a fault below one belongs to it.
    fn grow_stack(&mut self, mm_id: u32, addr: u64) -> Option<(Range<u64>, u32)> {
        let page = self.scale.page;
        let space = self.spaces.get_mut(&mm_id)?;
        let (range, began) = space.held.grow_down(addr / page * page)?;
        space.areas.grow_down(began, range.start);
        let number = space.held.at(range.start).map(|(_, number)| *number)?;
        Some((range, number))
    }
}
