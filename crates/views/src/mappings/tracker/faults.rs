//! Faults: whose piece and slot each one hit.

use super::Tracker;
use super::pieces::Held;
use super::slots::Slot;
use crate::mappings::class::MemoryKind;
use crate::mappings::space::bits;

/// A stack may have grown by this much below what was recorded of it.
const STACK_GROWTH_BYTES: u64 = 1 << 28;

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
        let space = self.spaces.get(&mm_id)?;
        let found = space.held.range(..=addr).next_back().filter(|(_, held)| addr < held.end);
        let (start, held) = match found {
            Some((start, held)) => (*start, *held),
            None => self.grow_stack(mm_id, addr)?,
        };
        self.cache = Some((mm_id, start..held.end, held.piece));
        Some((held.piece, true))
    }

    /// A stack grows down by faults, without a call: a fault a little below one belongs to it.
    fn grow_stack(&mut self, mm_id: u32, addr: u64) -> Option<(u64, Held)> {
        let page = self.scale.page;
        let space = self.spaces.get_mut(&mm_id)?;
        let (start, held) = space.held.range(addr..).next().map(|(start, held)| (*start, *held))?;
        let (_, attrs) = space.areas.at(start)?;
        let grows = attrs.kind == MemoryKind::Stack && attrs.bits & bits::GROWSDOWN != 0;
        if !grows || start - addr > STACK_GROWTH_BYTES {
            return None;
        }
        let to = addr / page * page;
        space.areas.grow_down(start, to);
        space.held.remove(&start);
        space.held.insert(to, held);
        Some((to, held))
    }
}
