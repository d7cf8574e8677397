//! Everything random in an experiment: numbers from one seed, a stream of its own for each purpose, so that one more
//! draw here moves nothing there.
//!
//! The generator is ChaCha with 20 rounds; ranges and shuffles are written out here, because libraries change theirs
//! between versions and a seed must give the same order for as long as sets are kept.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What numbers are drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Order of the runs.
    Order,
    /// Order of the warm-up.
    Warmup,
    /// Harmless differences.
    Decoys,
    /// Names of variants.
    Names,
    /// Seeds handed to the runs of one round.
    Runs,
}

/// A source of random numbers.
#[derive(Debug, Clone)]
pub struct Draw(ChaCha20Rng);

impl Draw {
    /// The numbers that `seed` gives for `purpose`.
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        let mut generator = ChaCha20Rng::seed_from_u64(seed);
        generator.set_stream(match purpose {
            Purpose::Order => 1,
            Purpose::Decoys => 2,
            Purpose::Names => 3,
            Purpose::Runs => 4,
            Purpose::Warmup => 5,
        });
        Self(generator)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, all equally likely; 0 if `bound` is 0. (D. Lemire, "Fast random integer generation in an
    /// interval", 2019: the high half of a product, with the few values thrown away that would favour some results.)
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound as u64;
        if bound == 0 {
            return 0;
        }
        let unfair = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            if product as u64 >= unfair {
                return (product >> 64) as usize;
            }
        }
    }

    /// A fair coin.
    pub fn coin(&mut self) -> bool {
        self.bits() >> 63 == 1
    }

    /// Every order of `items` equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// A seed from the operating system's random numbers, for plans that name none. It is below 2^53, so that every JSON
/// reader keeps it exact.
pub fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library keys its hash maps with random bytes of the system; an empty hash is made of the key alone.
    std::hash::RandomState::new().build_hasher().finish() >> 11
}

/// The seed that both runs of a round hand to their workload: sides of a pair differ in nothing but the variant.
pub fn round_seed(seed: u64, round: u64) -> u64 {
    let mut draw = Draw::new(seed, Purpose::Runs);
    draw.0.set_word_pos(u128::from(round) * 2);
    draw.bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_is_uniform_and_in_range() {
        let mut draw = Draw::new(1, Purpose::Order);
        for bound in [1usize, 2, 3, 7] {
            let mut seen = vec![0u32; bound];
            for _ in 0..7000 {
                seen[draw.below(bound)] += 1;
            }
            let expected = 7000.0 / bound as f64;
            // Six standard deviations of a binomial count.
            let slack = 6.0 * (expected * (1.0 - 1.0 / bound as f64)).sqrt();
            assert!(seen.iter().all(|n| (f64::from(*n) - expected).abs() <= slack), "{bound}: {seen:?}");
        }
        assert_eq!(draw.below(0), 0);
    }

    #[test]
    fn shuffles_reach_every_order() {
        let mut draw = Draw::new(9, Purpose::Order);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..2400 {
            let mut items = [0, 1, 2, 3];
            draw.shuffle(&mut items);
            *seen.entry(items).or_insert(0u32) += 1;
        }
        assert_eq!(seen.len(), 24);
        assert!(seen.values().all(|n| (40..=180).contains(n)), "{seen:?}");
    }

    #[test]
    fn purposes_do_not_share_numbers_and_seeds_repeat() {
        let first = |seed, purpose| Draw::new(seed, purpose).bits();
        assert_ne!(first(5, Purpose::Order), first(5, Purpose::Decoys));
        assert_ne!(first(5, Purpose::Order), first(6, Purpose::Order));
        assert_eq!(first(5, Purpose::Order), first(5, Purpose::Order));
        assert_ne!(round_seed(5, 1), round_seed(5, 2));
        assert_eq!(round_seed(5, 2), round_seed(5, 2));
        assert_ne!(fresh_seed(), fresh_seed());
        assert!(fresh_seed() < 1 << 53);
    }
}
