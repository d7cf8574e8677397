//! Places where tasks go to sleep: the stacks that the kernel's side can tell again by itself.
//!
//! A stack that was unwound from a copy gets a number. The BPF program gets the number along with the words read from
//! the stack, and sends the number in place of the copy when it meets the same registers and the same words again. A
//! number means one stack for ever: records with it may be on their way when the place has got another.

use std::collections::HashMap;

use super::kept::Place;
use super::unwind::End;

/// Numbers that are kept; all are forgotten when there are more.
const PLACES_MAX: usize = 1 << 16;

/// The update for the BPF program about the place that a record came from.
#[derive(Debug, PartialEq, Eq)]
pub enum PlaceNews<'a> {
    /// Its stack has a number.
    Known {
        /// The number.
        number: u32,
        /// The stack is to be found by frame pointers, so their chain is still needed.
        wants_chain: bool,
        /// Offsets from the stack pointer, and the words that were read there.
        read: &'a [(u32, u64)],
    },
    /// Its entry for the place is out of date.
    Stale,
}

/// The meaning of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A stack, and how it ended.
    Stack(u64, Option<End>),
    /// The chain of frame pointers is to be followed.
    Chain,
}

/// A number that was given out.
#[derive(Debug, Clone, Copy)]
struct Known {
    place: Place,
    meaning: Meaning,
    /// When the BPF program was last updated, CLOCK_MONOTONIC.
    told_ns: u64,
}

/// The numbers that were given out.
#[derive(Debug, Default)]
pub(super) struct Places {
    known: HashMap<u32, Known>,
    numbers: HashMap<(Place, Option<u64>), u32>,
    last: u32,
}

impl Places {
    /// The meaning of a number; none if it is forgotten, and the place is stale.
    pub(super) fn get(&self, number: u32) -> Option<Meaning> {
        self.known.get(&number).map(|known| known.meaning)
    }

    /// Whether the address space is still as it was when the number was given.
    pub(super) fn is_fresh(&self, number: u32, generation: u32) -> bool {
        self.known.get(&number).is_some_and(|known| known.place.generation == generation)
    }

    /// The number of the stack found at a place, if the BPF program needs it: a record of `ts` was made before it knew.
    pub(super) fn learn(&mut self, place: Place, meaning: Meaning, ts: u64, now_ns: u64) -> Option<u32> {
        let stack_id = match meaning {
            Meaning::Stack(id, _) => Some(id),
            Meaning::Chain => None,
        };
        let key = (place, stack_id);
        if let Some(number) = self.numbers.get(&key) {
            let known = self.known.get_mut(number)?;
            if ts <= known.told_ns {
                return None;
            }
            known.told_ns = now_ns;
            return Some(*number);
        }
        if self.known.len() >= PLACES_MAX {
            self.known.clear();
            self.numbers.clear();
        }
        // 0 says that there is none.
        self.last = self.last.checked_add(1).unwrap_or(1);
        self.numbers.insert(key, self.last);
        self.known.insert(self.last, Known { place, meaning, told_ns: now_ns });
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_again_only_if_it_was_met_unknown_after_it_was_told() {
        let mut places = Places::default();
        let place = Place { mm_id: 1, generation: 3, regs: [1, 2, 3] };
        let stack = Meaning::Stack(77, Some(End::Entry));
        let number = places.learn(place, stack, 100, 1000).expect("it is new");
        assert_eq!(places.learn(place, stack, 900, 1100), None, "that record was on its way");
        assert_eq!(places.learn(place, stack, 2000, 2100), Some(number), "the program has forgotten it");
        assert_eq!(places.get(number), Some(stack));
        let other = places.learn(place, Meaning::Chain, 3000, 3100).expect("another way to find it");
        assert_ne!(other, number);
        assert_eq!(places.get(number), Some(stack), "a number means one stack for ever");
        assert!(places.is_fresh(number, 3) && !places.is_fresh(number, 4) && !places.is_fresh(99, 3));
    }
}
