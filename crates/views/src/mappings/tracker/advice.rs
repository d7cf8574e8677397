//! Advice: what madvise changes of areas, pieces and slots.

use std::ops::Range;

use super::Tracker;
use crate::mappings::ThpAdvice;
use crate::mappings::space::bits;

enum Advice {
    Thp(ThpAdvice),
    Bits { set: u16, clear: u16 },
    Drops,
    Nothing,
}

impl Advice {
    /// Numbers of include/uapi/asm-generic/mman-common.h.
    fn of(advice: i32) -> Self {
        let bits = |set, clear| Self::Bits { set, clear };
        match advice {
            0 => bits(0, bits::RANDOM | bits::SEQUENTIAL),
            1 => bits(bits::RANDOM, bits::SEQUENTIAL),
            2 => bits(bits::SEQUENTIAL, bits::RANDOM),
            // MADV_DONTNEED, MADV_REMOVE: the pages are gone at once and the next touch begins anew.
            4 | 9 => Self::Drops,
            10 => bits(bits::DONTFORK, 0),
            11 => bits(0, bits::DONTFORK),
            12 => bits(bits::MERGEABLE, 0),
            13 => bits(0, bits::MERGEABLE),
            14 => Self::Thp(ThpAdvice::Huge),
            15 => Self::Thp(ThpAdvice::NoHuge),
            16 => bits(bits::DONTDUMP, 0),
            17 => bits(0, bits::DONTDUMP),
            18 => bits(bits::WIPEONFORK, 0),
            19 => bits(0, bits::WIPEONFORK),
            _ => Self::Nothing,
        }
    }
}

impl Tracker {
    pub(super) fn advise(&mut self, mm_id: u32, range: Range<u64>, advice: i32) {
        match Advice::of(advice) {
            Advice::Thp(thp) => {
                self.space(mm_id).areas.change(&range, |attrs| attrs.thp = thp);
                self.advise_pieces(mm_id, &range, thp);
            }
            Advice::Bits { set, clear } => {
                self.space(mm_id).areas.change(&range, |attrs| attrs.bits = attrs.bits & !clear | set);
            }
            Advice::Drops => self.forget_slots(mm_id, &range, true),
            Advice::Nothing => {}
        }
    }

    /// A piece is of the class of its advice if at least half of it was advised.
    fn advise_pieces(&mut self, mm_id: u32, range: &Range<u64>, thp: ThpAdvice) {
        let Some(space) = self.spaces.get(&mm_id) else { return };
        if space.thp_forbidden {
            return;
        }
        let mut advised = Vec::new();
        for (held, piece) in space.held.overlapping(&range.clone()) {
            let common = held.end.min(range.end).saturating_sub(held.start.max(range.start));
            if common.saturating_mul(2) >= held.end - held.start {
                advised.push(*piece);
            }
        }
        for number in advised {
            if let Some(piece) = self.pieces.get_mut(number as usize) {
                piece.class = self.ledger.advised(piece.class, piece.start, piece.len, thp);
            }
        }
    }
}
