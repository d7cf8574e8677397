//! Seeded randomness: a generator for draws, and permutations of block numbers that need no memory.

/// SplitMix64 (Steele, Lea, Flood 2014): one addition and a mixing function; passes BigCrush, any seed is a good seed.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator whose sequence follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[inline(always)]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix64(self.0)
    }

    /// A number of 0 up to below 1, of 53 bits.
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `bound` (0 for a bound of 0), by multiplication instead of division (Lemire 2019). Its bias, at most
    /// `bound / 2^64`, is far below what any run could show.
    #[inline(always)]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// SplitMix64's finaliser: a bijection of 64 bits in which every bit of the input moves every bit of the output.
#[inline(always)]
fn mix64(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A seed for one of many users of a common seed: `base` for the job, `index` for the worker, pass or piece.
pub fn derive_seed(base: u64, index: u64) -> u64 {
    mix64(base ^ mix64(index.wrapping_add(0xA076_1D64_78BD_642F)))
}

/// A seed from the system, for jobs that are not to repeat.
pub fn system_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds its hash maps from getrandom(2).
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    derive_seed(random, crate::clock::monotonic_ns())
}

/// A seeded permutation of `0..n`: [`Permutation::at`] gives each number below `n` exactly once.
///
/// It replaces fio's map of blocks already done (one bit per block of the file). Numbers of `ceil(log2 n)` bits are
/// mixed by rounds of two steps: multiplication by an odd number modulo a power of two, which carries low bits upwards,
/// and exclusive or with their own upper half, which carries high bits down. Each step can be undone, so the whole is a
/// bijection of `0..2^bits`. A result at or above `n` is mixed again until it falls below ("cycle walking", Black and
/// Rogaway 2002): still a bijection, now of `0..n`, at fewer than two mixings on average because `2^bits < 2n`.
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    n: u64,
    mask: u64,
    half: u32,
    multipliers: [u64; 3],
    offsets: [u64; 3],
}

impl Permutation {
    /// The permutation of `0..n` that belongs to `seed`. An `n` of 0 is treated as 1.
    pub(crate) fn new(n: u64, seed: u64) -> Self {
        let n = n.max(1);
        let bits = 64 - (n - 1).leading_zeros();
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let mut draw = SplitMix64::new(seed);
        // Odd numbers have an inverse modulo every power of two.
        let multipliers = [draw.next_u64() | 1, draw.next_u64() | 1, draw.next_u64() | 1];
        let offsets = [draw.next_u64(), draw.next_u64(), draw.next_u64()];
        Self { n, mask, half: (bits / 2).max(1), multipliers, offsets }
    }

    /// How many numbers it permutes.
    pub(crate) fn len(&self) -> u64 {
        self.n
    }

    /// The `index`-th number of the permutation, for an `index` below `n`.
    #[inline(always)]
    pub(crate) fn at(&self, index: u64) -> u64 {
        let mut x = index;
        loop {
            x = self.mix(x);
            if x < self.n {
                return x;
            }
        }
    }

    #[inline(always)]
    fn mix(&self, mut x: u64) -> u64 {
        for (multiplier, offset) in self.multipliers.iter().zip(&self.offsets) {
            x = x.wrapping_add(*offset).wrapping_mul(*multiplier) & self.mask;
            x ^= x >> self.half;
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_permutations_are_complete() {
        for n in 1..300 {
            let permutation = Permutation::new(n, n * 7);
            let mut seen = vec![false; n as usize];
            for index in 0..n {
                let value = permutation.at(index) as usize;
                assert!(!std::mem::replace(&mut seen[value], true), "{value} twice of {n}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn permutations_are_complete(n in 1_u64..200_000, seed: u64) {
            let permutation = Permutation::new(n, seed);
            let mut seen = vec![false; n as usize];
            for index in 0..n {
                let value = permutation.at(index);
                prop_assert!(value < n);
                prop_assert!(!std::mem::replace(&mut seen[value as usize], true));
            }
        }

        #[test]
        fn huge_ranges_stay_inside(n in (1_u64 << 40)..=u64::MAX, seed: u64, index: u64) {
            prop_assert!(Permutation::new(n, seed).at(index % n) < n);
        }
    }

    #[test]
    fn a_prefix_is_uniform_and_neighbours_are_strangers() {
        // 2^20 of 2^22 blocks: the prefix of a random permutation. Expected Kolmogorov distance about 1/sqrt(2^20) = 0.001.
        let n: u64 = 1 << 22;
        for seed in 0..8 {
            let permutation = Permutation::new(n, seed);
            let mut values: Vec<u64> = (0..1 << 20).map(|i| permutation.at(i)).collect();
            // Steps up and down are equally frequent, the parity of neighbours is independent, and no step dominates.
            let ups = values.windows(2).filter(|w| w[1] > w[0]).count() as f64 / values.len() as f64;
            let parity = values.windows(2).filter(|w| (w[0] ^ w[1]) & 1 == 1).count() as f64 / values.len() as f64;
            assert!((ups - 0.5).abs() < 0.01, "seed {seed}: ups {ups}");
            assert!((parity - 0.5).abs() < 0.01, "seed {seed}: parity {parity}");
            let mut steps: Vec<u64> = values.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
            steps.sort_unstable();
            let longest_run = steps.chunk_by(|a, b| a == b).map(<[u64]>::len).max().unwrap_or(0);
            assert!(longest_run < 200, "seed {seed}: one step occurs {longest_run} times");
            values.sort_unstable();
            let distance = values
                .iter()
                .enumerate()
                .map(|(i, v)| ((i as f64 + 0.5) / values.len() as f64 - (*v as f64 + 0.5) / n as f64).abs())
                .fold(0.0, f64::max);
            assert!(distance < 0.004, "seed {seed}: distance {distance}");
        }
    }

    #[test]
    fn seeds_matter_and_repeat() {
        let order = |seed| (0..100).map(|i| Permutation::new(100, seed).at(i)).collect::<Vec<_>>();
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_ne!(derive_seed(1, 2), derive_seed(2, 1));
        let mut draw = SplitMix64::new(5);
        assert!((0..1000).all(|_| draw.below(7) < 7));
        assert_eq!(draw.below(0), 0);
    }
}
