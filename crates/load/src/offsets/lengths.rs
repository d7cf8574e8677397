//! How long the next operation is, where lengths vary.

use pagelab_fiojob::Lengths;

use crate::random::SplitMix64;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
