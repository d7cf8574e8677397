//! Slots: aligned pieces of the huge page's size, and how many of their pages were faulted one by one.

use std::ops::Range;

use super::Tracker;
use crate::mappings::ledger::Ledger;
use crate::mappings::profile::SlotSummary;

/// A slot that has a page table or a huge page.
#[derive(Debug)]
pub(super) struct Slot {
    class: u32,
    whole: bool,
    known: bool,
    pages: u32,
    faults: u64,
    window_faults: u64,
    seen: Box<[u64]>,
}

impl Slot {
    /// A slot before its first fault. `known`: no pages can have been there before recording began.
    pub(super) fn new(class: u32, whole: bool, known: bool, pages_per_slot: u64) -> Self {
        let seen = vec![0; pages_per_slot.div_ceil(64) as usize].into_boxed_slice();
        Self { class, whole, known, pages: 0, faults: 0, window_faults: 0, seen }
    }

    #[inline]
    pub(super) fn fault(&mut self, page: u64, in_window: bool) {
        self.faults += 1;
        self.window_faults += u64::from(in_window);
        if let Some(word) = self.seen.get_mut((page / 64) as usize) {
            let bit = 1u64 << (page % 64);
            self.pages += u32::from(*word & bit == 0);
            *word |= bit;
        }
    }
}

/// The slots of all address spaces by number; the numbers of closed ones are used again.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// Keeps a slot, and returns its number.
    pub(super) fn add(&mut self, slot: Slot) -> u32 {
        let Some(number) = self.free.pop() else {
            self.slots.push(slot);
            return (self.slots.len() - 1) as u32;
        };
        if let Some(place) = self.slots.get_mut(number as usize) {
            *place = slot;
        }
        number
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Slot> {
        self.slots.get_mut(number as usize)
    }

    /// Adds a slot that has lost its page table to its class.
    pub(super) fn close(&mut self, number: u32, ledger: &mut Ledger) {
        let Some(slot) = self.slots.get_mut(number as usize) else { return };
        if slot.known {
            let summary = SlotSummary { pages: slot.pages, faults: slot.faults, window_faults: slot.window_faults };
            ledger.slot(slot.class, slot.whole, &summary);
        }
        slot.seen = Box::default();
        self.free.push(number);
    }
}

impl Tracker {
    /// Closes the slots of `range` that have lost their page table: those in which no area is left (mm/memory.c,
    /// `free_pgd_range` between the neighbours), or with `emptied` those that lie in `range` whole.
    pub(super) fn forget_slots(&mut self, mm_id: u32, range: &Range<u64>, emptied: bool) {
        let slot_bytes = self.scale.slot;
        let Some(space) = self.spaces.get_mut(&mm_id) else { return };
        let numbers = range.start / slot_bytes..range.end.div_ceil(slot_bytes);
        let touched: Vec<u64> = if numbers.end - numbers.start > space.slots.len() as u64 {
            space.slots.keys().copied().filter(|number| numbers.contains(number)).collect()
        } else {
            numbers.filter(|number| space.slots.contains_key(number)).collect()
        };
        for number in touched {
            let slot = number * slot_bytes..(number + 1) * slot_bytes;
            let gone =
                if emptied { range.start <= slot.start && slot.end <= range.end } else { !space.areas.any_in(&slot) };
            if gone && let Some(slot) = space.slots.remove(&number) {
                self.slots.close(slot, &mut self.ledger);
            }
        }
    }
}
