//! Results of unwinding that are kept: most samples of a busy program meet it at a place where it was met before. What unwinding one sample
//! read from the stack is kept with its result: a sample with the same registers whose stack holds the same values at the
//! same places has the same frames, which is seen at a fraction of the cost.

use std::collections::HashMap;

/// Memory that results may take: they are forgotten by halves, those that were not met since the half before was full.
const BYTES_MAX: usize = 2 << 20;
/// Words of one result; a stack that was made from more is unwound anew each time.
const WORDS_MAX: usize = 4096;
/// What a result takes beside its words: its place in the table, of which a part is free.
const RESULT_BYTES: usize = 160;

/// The same place of the same program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub mm_id: u32,
    /// Of the address space.
    pub generation: u32,
    pub regs: [u64; 3],
}

/// Offsets in the copy of a stack and the 8 bytes that were there.
pub(super) type Words = Vec<(u32, u64)>;

/// A result, and what it was made from.
#[derive(Debug, Clone)]
struct Kept {
    read: Box<[(u32, u64)]>,
    stack_id: u64,
}

impl Kept {
    fn bytes(&self) -> usize {
        RESULT_BYTES + size_of_val(&*self.read)
    }
}

/// Results by place.
#[derive(Default)]
pub(super) struct Results {
    young: HashMap<Place, Kept>,
    young_bytes: usize,
    old: HashMap<Place, Kept>,
}

/// The 8 bytes at an offset of a copy.
pub(super) fn word(copy: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(copy.get(offset..offset.checked_add(8)?)?.try_into().ok()?))
}

impl Results {
    /// The stack found at this place before, if the stack is still as it was then; `read` gets the words that it was made from.
    pub(super) fn find(&mut self, place: &Place, copy: &[u8], read: &mut Words) -> Option<u64> {
        if let Some(kept) = self.old.remove(place) {
            self.put(*place, kept);
        }
        let kept = self.young.get(place)?;
        let same = kept.read.iter().all(|(offset, value)| word(copy, *offset as usize) == Some(*value));
        if !same {
            return None;
        }
        read.clear();
        read.extend_from_slice(&kept.read);
        Some(kept.stack_id)
    }

    /// Keeps a result in the place of the one before.
    pub(super) fn keep(&mut self, place: Place, read: &[(u32, u64)], stack_id: u64) {
        if read.len() > WORDS_MAX {
            return;
        }
        self.old.remove(&place);
        self.put(place, Kept { read: read.into(), stack_id });
    }

    fn put(&mut self, place: Place, kept: Kept) {
        self.young_bytes += kept.bytes();
        if let Some(before) = self.young.insert(place, kept) {
            self.young_bytes -= before.bytes();
        }
        if self.young_bytes > BYTES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ip: u64) -> Place {
        Place { mm_id: 1, generation: 0, regs: [ip, 0, 0] }
    }

    #[test]
    fn a_result_is_found_while_the_stack_holds_the_same_words() {
        let mut results = Results::default();
        let (mut read, mut copy) = (Words::new(), [0_u8; 64]);
        copy[8] = 7;
        results.keep(place(1), &[(8, 7)], 99);
        assert_eq!(results.find(&place(1), &copy, &mut read), Some(99));
        assert_eq!(read, [(8, 7)]);
        assert_eq!(results.find(&place(2), &copy, &mut read), None);
        assert_eq!(results.find(&place(1), &copy[..8], &mut read), None, "the copy is shorter");
        copy[8] = 8;
        assert_eq!(results.find(&place(1), &copy, &mut read), None);
        results.keep(place(1), &[(8, 8)], 100);
        assert_eq!(results.find(&place(1), &copy, &mut read), Some(100));
    }

    #[test]
    fn memory_is_bounded_and_what_is_met_again_stays() {
        let mut results = Results::default();
        let (mut read, copy, words) = (Words::new(), [0_u8; 1024], [(0, 0); 60]);
        let bytes = |half: &HashMap<Place, Kept>| half.values().map(Kept::bytes).sum::<usize>();
        for ip in 0..100_000 {
            results.keep(place(ip), &words, ip);
            assert_eq!(results.find(&place(0), &copy, &mut read), Some(0), "met all the time, at {ip}");
            assert!(results.young_bytes <= BYTES_MAX / 2);
        }
        assert_eq!(bytes(&results.young), results.young_bytes);
        assert!(bytes(&results.young) + bytes(&results.old) <= BYTES_MAX + 2 * (RESULT_BYTES + 60 * 16));
        assert_eq!(results.find(&place(1), &copy, &mut read), None, "long forgotten");
    }
}
