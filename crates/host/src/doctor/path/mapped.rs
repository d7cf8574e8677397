//! What the mapping takes away from what the file allows: pieces that do not hold a slot, addresses that are shifted against the
//! offsets, private copies.

use super::report::{SLOT_BYTES, SlotReason, SlotRun};

/// How the file will be mapped. The default is one shared mapping, as long as the file, whose address equals the offset modulo 2 MiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MappedAs {
    /// Bytes of the pieces that it is mapped in, from offset 0, each a mapping of its own; none for one mapping.
    pub piece_bytes: Option<u64>,
    /// Bytes by which addresses differ from offsets, modulo 2 MiB.
    pub shift_bytes: u64,
    /// Mapped with MAP_PRIVATE, and written.
    pub is_private_written: bool,
}

impl MappedAs {
    /// Why the mapping cannot show the slot at `start` by one entry, in the order in which the kernel looks at a fault
    /// (`dax_fault_check_fallback`).
    fn refuses(&self, start: u64) -> Option<SlotReason> {
        if !self.shift_bytes.is_multiple_of(SLOT_BYTES) {
            return Some(SlotReason::NotAligned);
        }
        if self.is_private_written {
            return Some(SlotReason::CopiedOnWrite);
        }
        let piece = self.piece_bytes.filter(|bytes| *bytes > 0)?;
        let piece_end = (start / piece).saturating_add(1).saturating_mul(piece);
        (start + SLOT_BYTES > piece_end).then_some(SlotReason::LeavesMapping)
    }

    /// The slots of a file when it is mapped so; `slots` are those that the file allows. What the mapping refuses is refused before
    /// the file is looked at.
    pub(super) fn narrow(&self, slots: Vec<SlotRun>, size_bytes: u64) -> Vec<SlotRun> {
        if *self == Self::default() {
            return slots;
        }
        let mut narrowed: Vec<SlotRun> = Vec::new();
        for run in slots {
            for slot in run.start / SLOT_BYTES..run.end.div_ceil(SLOT_BYTES) {
                let (start, end) = (slot * SLOT_BYTES, (slot + 1).saturating_mul(SLOT_BYTES).min(size_bytes));
                let reason = self.refuses(start).or(run.reason);
                match narrowed.last_mut() {
                    Some(last) if last.reason == reason => last.end = end,
                    _ => narrowed.push(SlotRun { start, end, possible: reason.is_none(), reason }),
                }
            }
        }
        narrowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Slots that are left, and the words of the others, for a file of 13 MiB whose third slot is a hole.
    fn left(mapped: MappedAs) -> (u64, Vec<&'static str>) {
        let run = |start, end, reason: Option<SlotReason>| SlotRun { start, end, possible: reason.is_none(), reason };
        let slots = vec![
            run(0, 4 * MIB, None),
            run(4 * MIB, 6 * MIB, Some(SlotReason::Hole)),
            run(6 * MIB, 12 * MIB, None),
            run(12 * MIB, 13 * MIB, Some(SlotReason::FileEndsInside)),
        ];
        let slots = mapped.narrow(slots, 13 * MIB);
        assert_eq!(slots.last().map(|run| run.end), Some(13 * MIB));
        let words = slots.iter().filter_map(|run| run.reason).map(SlotReason::word).collect();
        (slots.iter().filter(|run| run.possible).map(SlotRun::count).sum(), words)
    }

    #[test]
    fn a_mapping_takes_slots_away_and_gives_none() {
        let of_pieces = |bytes| MappedAs { piece_bytes: Some(bytes), ..MappedAs::default() };
        assert_eq!(left(MappedAs::default()), (5, vec!["hole", "file_ends_inside"]));
        assert_eq!(left(of_pieces(2 * MIB)), (5, vec!["hole", "file_ends_inside"]));
        assert_eq!(left(of_pieces(MIB)), (0, vec!["leaves_mapping"]));
        // Pieces end at 3, 6, 9 and 12: the slots at 2 and 8 lie across.
        let three = left(of_pieces(3 * MIB));
        assert_eq!(three, (3, vec!["leaves_mapping", "hole", "leaves_mapping", "file_ends_inside"]));
        assert_eq!(left(MappedAs { shift_bytes: MIB, ..MappedAs::default() }), (0, vec!["not_aligned"]));
        assert_eq!(left(MappedAs { shift_bytes: 4 * MIB, ..MappedAs::default() }).0, 5);
        let private = MappedAs { is_private_written: true, ..of_pieces(MIB) };
        assert_eq!(left(private), (0, vec!["copied_on_write"]));
        assert_eq!(left(MappedAs { shift_bytes: 4096, ..private }), (0, vec!["not_aligned"]));
    }
}
