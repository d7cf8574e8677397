//! The random map: which blocks of a file random operations have taken, so that each is taken once.
//!
//! fio keeps one for each file and draws from what is free. Where all operations have one length a permutation does the same without
//! memory, and this map is not used. Where lengths differ the map decides what a job does: a length is cut where it runs into a block that
//! is taken, and a draw that hits a taken block goes on to the next free one.

/// Bits of a word.
const WORD: u64 = 64;

/// A set of blocks from 0 on, in words of 64, with words above that say which of those below are full: looking for a free block
/// takes as many steps as there are levels, and not as many as there are words.
#[derive(Debug, Clone)]
pub struct RandomMap {
    /// Each bit of a level is a word of the level below that is full; of the first level, a block that is taken.
    levels: Vec<Vec<u64>>,
    blocks: u64,
}

impl RandomMap {
    /// A map of `blocks` blocks, all free. Its memory, a bit for each, is used only where blocks are taken.
    pub fn new(blocks: u64) -> Self {
        let mut levels = Vec::new();
        let mut bits = blocks;
        loop {
            let words = bits.div_ceil(WORD).max(1);
            levels.push(vec![0; words as usize]);
            if words == 1 {
                return Self { levels, blocks };
            }
            bits = words;
        }
    }

    /// Whether the block is taken. Blocks that the map does not have are.
    fn is_taken(&self, block: u64) -> bool {
        block >= self.blocks || self.levels[0][(block / WORD) as usize] & (1 << (block % WORD)) != 0
    }

    /// The first free block from this one on.
    pub fn next_free(&self, from: u64) -> Option<u64> {
        if from >= self.blocks {
            return None;
        }
        // Upwards until a word has a free bit at or behind the place, then down to the first free bit below it.
        let mut place = from;
        for level in 0..self.levels.len() {
            let word = (place / WORD) as usize;
            let free = !self.levels[level].get(word)? & (u64::MAX << (place % WORD));
            if free == 0 {
                place = word as u64 + 1;
                continue;
            }
            let found = self.first_free_below(level, word as u64 * WORD + u64::from(free.trailing_zeros()));
            return found.filter(|block| *block < self.blocks);
        }
        None
    }

    /// The first free block below a free bit of a level.
    fn first_free_below(&self, level: usize, bit: u64) -> Option<u64> {
        let mut bit = bit;
        for below in self.levels[..level].iter().rev() {
            let free = !below.get(bit as usize)?;
            bit = bit * WORD + u64::from(free.trailing_zeros());
        }
        Some(bit)
    }

    /// Takes up to `count` blocks from this one on, as far as they are free; gives how many.
    pub fn take(&mut self, block: u64, count: u64) -> u64 {
        let mut taken = 0;
        while taken < count && !self.is_taken(block + taken) {
            self.set(block + taken);
            taken += 1;
        }
        taken
    }

    fn set(&mut self, block: u64) {
        let mut bit = block;
        for level in &mut self.levels {
            let word = &mut level[(bit / WORD) as usize];
            *word |= 1 << (bit % WORD);
            if *word != u64::MAX {
                return;
            }
            bit /= WORD;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_outside_of_a_map_are_not_free() {
        let mut map = RandomMap::new(65);
        assert_eq!((map.next_free(64), map.next_free(65)), (Some(64), None));
        assert_eq!(map.take(63, 10), 2);
        assert_eq!((map.next_free(63), map.next_free(0)), (None, Some(0)));
        assert_eq!(RandomMap::new(0).next_free(0), None);
    }

    proptest! {
        #[test]
        fn it_is_a_set(blocks in 1_u64..20_000, calls in proptest::collection::vec((0_u64..20_000, 1_u64..300), 1..300)) {
            let mut map = RandomMap::new(blocks);
            let mut taken = vec![false; blocks as usize];
            for (from, count) in calls {
                let free = (from..blocks).find(|block| !taken[*block as usize]);
                prop_assert_eq!(map.next_free(from), free);
                let Some(block) = free else { continue };
                let room = (block..blocks.min(block + count)).take_while(|block| !taken[*block as usize]).count() as u64;
                prop_assert_eq!(map.take(block, count), room);
                (block..block + room).for_each(|block| taken[block as usize] = true);
            }
        }
    }
}
