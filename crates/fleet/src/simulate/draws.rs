//! Random numbers that are a function of what they are for, not of when they are drawn.
//!
//! Tables are written one after another, each in its own order, and must agree with each other: the value of a run is the same
//! in whatever order values are asked for, and nothing has to be kept. So a draw is a hash of the seed, its purpose and its
//! place, as in J. K. Salmon and others, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); the mixing is that of
//! SplitMix64 (G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).

/// The odd constant nearest to 2^64 over the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// What a draw decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Group,
    RunsOfDay,
    StartTime,
    HostLevel,
    RunNoise,
    ComponentNoise,
    CauseHosts,
    SettingValue,
    SettingChange,
    UpgradeDay,
    MissingValue,
    MissingColumn,
    OldVersion,
}

/// Draws of one seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draws {
    seed: u64,
}

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed: mix(seed.wrapping_add(GOLDEN)) }
    }

    /// 64 random bits for a purpose and a place.
    pub(super) fn bits(self, purpose: Purpose, place: &[u64]) -> u64 {
        let begin = mix(self.seed ^ (purpose as u64 + 1).wrapping_mul(GOLDEN));
        place.iter().fold(begin, |state, id| mix(state.wrapping_add(GOLDEN) ^ mix(id.wrapping_add(GOLDEN))))
    }

    /// Uniform between 0 and 1, never 0 or 1.
    pub(super) fn uniform(self, purpose: Purpose, place: &[u64]) -> f64 {
        share(self.bits(purpose, place))
    }

    /// Standard normal: G. E. P. Box and M. E. Muller, Annals of Mathematical Statistics 29 (1958).
    pub(super) fn normal(self, purpose: Purpose, place: &[u64]) -> f64 {
        let bits = self.bits(purpose, place);
        let angle = std::f64::consts::TAU * share(mix(bits.wrapping_add(GOLDEN)));
        (-2.0 * share(bits).ln()).sqrt() * angle.cos()
    }
}

/// The upper 52 bits, as the middle of one of 2^52 equal parts of 0 to 1.
fn share(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// The output function of SplitMix64: a permutation in which each input bit changes about half of the output bits.
fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean, spread and tails of a grid of places, and no correlation along any of its sides.
    #[test]
    fn places_are_independent_and_normal() {
        let draws = Draws::new(1);
        let side = 60_u64;
        let z = |a, b, c| draws.normal(Purpose::RunNoise, &[a % side, b % side, c % side]);
        let (mut sum, mut squares, mut far) = (0.0, 0.0, 0);
        let mut products = [0.0; 3];
        for a in 0..side {
            for b in 0..side {
                for c in 0..side {
                    let value = z(a, b, c);
                    sum += value;
                    squares += value * value;
                    far += u32::from(value.abs() > 1.959_964);
                    for (product, next) in products.iter_mut().zip([z(a + 1, b, c), z(a, b + 1, c), z(a, b, c + 1)]) {
                        *product += value * next;
                    }
                }
            }
        }
        // Five standard errors of 216,000 values.
        let n = (side * side * side) as f64;
        assert!((sum / n).abs() < 5.0 / n.sqrt(), "{}", sum / n);
        assert!((squares / n - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "{}", squares / n);
        assert!((f64::from(far) / n - 0.05).abs() < 5.0 * (0.05 * 0.95 / n).sqrt(), "{far}");
        assert!(products.iter().all(|product| (product / n).abs() < 5.0 / n.sqrt()), "{products:?}");
        let other = Draws::new(2).bits(Purpose::RunNoise, &[1, 2]);
        assert_ne!(draws.bits(Purpose::RunNoise, &[1, 2]), other);
        assert_ne!(draws.bits(Purpose::RunNoise, &[1, 2]), draws.bits(Purpose::HostLevel, &[1, 2]));
        assert_ne!(draws.bits(Purpose::RunNoise, &[1, 2]), draws.bits(Purpose::RunNoise, &[2, 1]));
    }
}
