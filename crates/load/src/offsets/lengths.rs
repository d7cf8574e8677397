//! How long the next operation is, where lengths vary; and random blocks of varying lengths that cover a region exactly once.

use pagelab_fiojob::Lengths;

use crate::random::{Permutation, SplitMix64, derive_seed};

/// Draws until one fits; after this many the least is taken, which fits. fio would go on for ever where the least has no share.
const MAX_DRAWS: u32 = 100;

/// A length of at most `room` bytes; `None` if not even the least fits.
pub fn draw(lengths: &Lengths, room: u64, random: &mut SplitMix64) -> Option<u32> {
    let (min, max) = (lengths.min_bytes.max(1), lengths.max_bytes.max(1));
    if room < u64::from(min) {
        return None;
    }
    for _ in 0..MAX_DRAWS {
        let bits = random.next_u64() >> 32;
        let drawn = if lengths.split.is_empty() {
            // As in fio: the least plus a share of the greatest, cut off at the greatest. In multiples of the least all come alike.
            u64::from(min) + ((u64::from(max) * bits) >> 32)
        } else {
            of_split(&lengths.split, bits, room)
        };
        // As in fio, lengths of a split are cut to multiples of its least, too.
        let drawn = if lengths.unaligned { drawn } else { drawn - drawn % u64::from(min) };
        let length = drawn.min(u64::from(max));
        if length > 0 && length <= room {
            return Some(length as u32);
        }
    }
    Some(min)
}

/// The part of a split that 32 random bits choose, of those that fit.
fn of_split(split: &[(u32, u8)], bits: u64, room: u64) -> u64 {
    let mut reached = 0;
    let mut chosen = 0;
    for (bytes, percent) in split.iter().filter(|(_, percent)| *percent > 0) {
        chosen = u64::from(*bytes);
        reached += u64::from(*percent);
        if bits * 100 < reached << 32 && chosen <= room {
            break;
        }
    }
    chosen
}

/// Covers a region once with blocks of varying lengths in random order, without remembering which are done.
///
/// The region is cut into units of several of the longest blocks. Each unit is cut into blocks by draws that follow from the seed and
/// its number, the last ones shortened to what is left, as fio shortens a block that runs into one already done. Numbers
/// (unit, place in the unit) are gone through by a permutation; places that a unit does not have are passed over.
#[derive(Debug, Clone)]
pub struct Slots {
    region_bytes: u64,
    unit_bytes: u64,
    places: u64,
    permutation: Permutation,
    next: u64,
    seed: u64,
}

/// Longest blocks in a unit: more means fewer shortened blocks and more work to find one.
const LONGEST_IN_UNIT: u64 = 4;

impl Slots {
    /// Blocks of `lengths` on `region_bytes` bytes in the order that `seed` decides.
    pub fn new(lengths: &Lengths, region_bytes: u64, seed: u64) -> Self {
        let min = u64::from(lengths.min_bytes.max(1));
        let region_bytes = region_bytes - region_bytes % min;
        let unit_bytes = (u64::from(lengths.max_bytes) * LONGEST_IN_UNIT).next_multiple_of(min);
        let places = unit_bytes / min;
        let units = region_bytes.div_ceil(unit_bytes);
        let permutation = Permutation::new(units.saturating_mul(places).max(1), seed);
        Self { region_bytes, unit_bytes, places, permutation, next: 0, seed }
    }

    /// The next block: its offset in the region and its length; `None` when all are done.
    pub fn next(&mut self, lengths: &Lengths) -> Option<(u64, u32)> {
        while self.next < self.permutation.len() && self.region_bytes > 0 {
            let number = self.permutation.at(self.next);
            self.next += 1;
            let found = self.place(lengths, number / self.places, number % self.places);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn place(&self, lengths: &Lengths, unit: u64, place: u64) -> Option<(u64, u32)> {
        let min = u64::from(lengths.min_bytes.max(1));
        let start = unit * self.unit_bytes;
        let end = (start + self.unit_bytes).min(self.region_bytes);
        let mut random = SplitMix64::new(derive_seed(self.seed, unit));
        let mut at = start;
        for _ in 0..place {
            let length = draw(lengths, end - at, &mut random)?;
            at = (at + u64::from(length).next_multiple_of(min)).min(end);
        }
        draw(lengths, end - at, &mut random).map(|length| (at, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lengths(min_bytes: u32, max_bytes: u32, split: &[(u32, u8)]) -> Lengths {
        Lengths { min_bytes, max_bytes, split: split.to_vec(), unaligned: false }
    }

    #[test]
    fn shares_of_a_split_are_kept() {
        let split = lengths(4096, 65536, &[(4096, 10), (32768, 40), (65536, 50)]);
        let mut random = SplitMix64::new(1);
        let drawn: Vec<u32> = (0..100_000).filter_map(|_| draw(&split, u64::MAX, &mut random)).collect();
        for (bytes, percent) in &split.split {
            let share = drawn.iter().filter(|length| *length == bytes).count() as f64 / drawn.len() as f64;
            // Five standard deviations of a binomial share at n = 1e5.
            assert!((share - f64::from(*percent) / 100.0).abs() < 0.008, "{bytes}: {share}");
        }
        assert_eq!(draw(&split, 4095, &mut random), None);
        assert!((0..100).all(|_| draw(&split, 5000, &mut random) == Some(4096)), "only what fits");
    }

    #[test]
    fn ranges_are_even_in_multiples_of_the_least() {
        let range = lengths(1024, 4096, &[]);
        let mut random = SplitMix64::new(2);
        let drawn: Vec<u32> = (0..100_000).filter_map(|_| draw(&range, u64::MAX, &mut random)).collect();
        for length in [1024, 2048, 3072, 4096] {
            let share = drawn.iter().filter(|drawn| **drawn == length).count() as f64 / drawn.len() as f64;
            assert!((share - 0.25).abs() < 0.008, "{length}: {share}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn every_byte_is_covered_once(min in 1_u32..2000, times in 1_u32..20, blocks in 1_u64..500, seed: u64, split: bool, unaligned: bool) {
            let max = min * times;
            let parts = [(min, 50), (max, 50)];
            let lengths = Lengths { unaligned, ..lengths(min, max, if split { &parts } else { &[] }) };
            let region = blocks * u64::from(min);
            let mut slots = Slots::new(&lengths, region, seed);
            let mut found = Vec::new();
            while let Some((offset, length)) = slots.next(&lengths) {
                prop_assert!(length <= max);
                prop_assert_eq!(offset % u64::from(min), 0);
                found.push((offset, u64::from(length).next_multiple_of(u64::from(min))));
            }
            found.sort_unstable();
            let mut at = 0;
            for (offset, length) in found {
                prop_assert_eq!(offset, at);
                at += length;
            }
            prop_assert_eq!(at, region);
        }
    }
}
