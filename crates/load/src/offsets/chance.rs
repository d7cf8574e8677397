//! Blocks drawn by a law: Zipf, Pareto, a bell curve, zones. Each draw is independent of those before.
//!
//! The formulas are those that fio 3.33 draws by, so that the same options touch the same blocks equally often: ranks of Zipf's law by
//! Gray et al., "Quickly generating billion-record synthetic databases" (1994); Pareto's law by its inverse; the bell curve as the
//! mean of twelve even draws. Ranks are spread over the region by multiplication with 2^64 divided by the golden ratio (Knuth's
//! multiplicative hash), so that frequent blocks are not neighbours.

use pagelab_fiojob::Direction;
use pagelab_fiojob::chances::Distribution;

use crate::random::SplitMix64;

/// 2^64 / golden ratio, negated (mod 2^64): the constant that fio's and the kernel's hashes multiply with.
const SPREAD: u64 = 0x61C8_8646_80B5_83EB;

/// Terms of the zeta sum that fio adds up; beyond it leaves them out.
const MAX_ZETA_TERMS: u64 = 10_000_000;

/// Terms that are added up one by one; the rest is an integral with corrections.
const PLAIN_ZETA_TERMS: u64 = 10_000;

/// A law, ready to draw block numbers of one region.
#[derive(Debug, Clone)]
pub enum Chance {
    /// All alike.
    Even {
        /// Number of blocks.
        blocks: u64,
    },
    /// Zipf's law.
    Zipf(Zipf),
    /// Pareto's law.
    Pareto {
        /// Number of blocks.
        blocks: u64,
        /// Exponent of the inverse.
        exponent: f64,
        /// Where and how ranks lie.
        spread: Spread,
    },
    /// A bell curve.
    Normal {
        /// Number of blocks.
        blocks: u64,
        /// Width of the even deviation, blocks.
        deviation: u64,
        /// Where and how ranks lie.
        spread: Spread,
    },
    /// Zones.
    Zones(Vec<ZoneSpan>),
}

/// A zone of [`Chance::Zones`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneSpan {
    /// A draw of 0 to 99 below this, and not below any earlier zone's, falls here.
    pub below_percent: u64,
    /// First block.
    pub first: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// How ranks become blocks.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    /// Added to every rank.
    shift: u64,
    /// Whether neighbouring ranks are thrown apart.
    hashed: bool,
}

impl Spread {
    #[inline]
    fn place(self, rank: u64, blocks: u64) -> u64 {
        let rank = if self.hashed { rank.wrapping_mul(SPREAD) } else { rank };
        rank.wrapping_add(self.shift) % blocks.max(1)
    }
}

/// The constants of Zipf's law for a number of blocks.
#[derive(Debug, Clone)]
pub struct Zipf {
    blocks: u64,
    zeta: f64,
    half_power: f64,
    alpha: f64,
    eta: f64,
    spread: Spread,
}

/// Sum of `1 / k^theta` for k from 1 to `terms`: the first ones added up, the rest by Euler's and Maclaurin's formula, whose next term
/// is below 1e-16 here.
fn zeta(terms: u64, theta: f64) -> f64 {
    let plain = terms.min(PLAIN_ZETA_TERMS);
    let sum: f64 = (1..=plain).map(|k| (k as f64).powf(-theta)).sum();
    if terms <= plain {
        return sum;
    }
    let (a, b) = (plain as f64, terms as f64);
    let integral = (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta);
    let ends = (b.powf(-theta) - a.powf(-theta)) / 2.0;
    let slopes = theta * (a.powf(-theta - 1.0) - b.powf(-theta - 1.0)) / 12.0;
    sum + integral + ends + slopes
}

impl Zipf {
    fn new(blocks: u64, theta: f64, spread: Spread) -> Self {
        let blocks = blocks.max(1);
        let zeta = zeta(blocks.min(MAX_ZETA_TERMS), theta);
        let half_power = 0.5_f64.powf(theta);
        let eta = (1.0 - (2.0 / blocks as f64).powf(1.0 - theta)) / (1.0 - (1.0 + half_power) / zeta);
        Self { blocks, zeta, half_power, alpha: 1.0 / (1.0 - theta), eta, spread }
    }

    fn rank(&self, uniform: f64) -> u64 {
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            0
        } else if scaled < 1.0 + self.half_power {
            1
        } else {
            (self.blocks as f64 * (self.eta * uniform - self.eta + 1.0).powf(self.alpha)) as u64
        }
    }
}

impl Chance {
    /// The law of `distribution` over `blocks` blocks of `block_bytes`. `zones` are those of the direction that draws. Where the
    /// most frequent block lies follows from `draw` unless the job says it.
    pub fn new(
        distribution: &Distribution,
        direction: Direction,
        blocks: u64,
        block_bytes: u64,
        hashed: bool,
        draw: &mut SplitMix64,
    ) -> Self {
        let blocks = blocks.max(1);
        let mut somewhere = |center: Option<f64>| {
            let random = draw.next_u64() >> 32;
            Spread { shift: center.map_or(random, |center| (blocks as f64 * center) as u64), hashed }
        };
        match distribution {
            Distribution::Random => Self::Even { blocks },
            Distribution::Zipf { theta, center } => Self::Zipf(Zipf::new(blocks, *theta, somewhere(*center))),
            Distribution::Pareto { power, center } => {
                Self::Pareto { blocks, exponent: power.ln() / (1.0 - power).ln(), spread: somewhere(*center) }
            }
            Distribution::Normal { deviation_percent, center } => {
                let deviation = ((blocks as f64 * deviation_percent) / 100.0).ceil() as u64;
                let shift = center.map_or(0.0, |center| blocks as f64 * (center - 0.5));
                // Below the middle the shift is negative; added to a number of 64 bits it comes to the same.
                let spread = Spread { shift: shift as i64 as u64, hashed };
                Self::Normal { blocks, deviation: deviation.min(blocks / 2), spread }
            }
            Distribution::Zoned(zones) => {
                let zones = zones.of(direction);
                let (mut below_percent, mut share) = (0, 0);
                Self::Zones(
                    zones
                        .iter()
                        .map(|zone| {
                            below_percent += u64::from(zone.access_percent);
                            let first = part(blocks, share);
                            share += zone.size;
                            ZoneSpan { below_percent, first, blocks: part(blocks, zone.size).max(1) }
                        })
                        .collect(),
                )
            }
            Distribution::ZonedAbs(zones) => {
                let zones = zones.of(direction);
                let (mut below_percent, mut end) = (0, 0_u64);
                Self::Zones(
                    zones
                        .iter()
                        .map(|zone| {
                            below_percent += u64::from(zone.access_percent);
                            let first = end / block_bytes.max(1);
                            end = end.saturating_add(zone.size);
                            let last = (end / block_bytes.max(1)).min(blocks);
                            ZoneSpan {
                                below_percent,
                                first: first.min(blocks - 1),
                                blocks: last.saturating_sub(first).max(1),
                            }
                        })
                        .collect(),
                )
            }
        }
    }

    /// Draws a block number.
    pub fn draw(&self, random: &mut SplitMix64) -> u64 {
        match self {
            Self::Even { blocks } => random.below(*blocks),
            Self::Zipf(zipf) => zipf.spread.place(zipf.rank(random.fraction()), zipf.blocks),
            Self::Pareto { blocks, exponent, spread } => {
                let rank = ((*blocks - 1) as f64 * random.fraction().powf(*exponent)) as u64;
                spread.place(rank, *blocks)
            }
            Self::Normal { blocks, deviation, spread } => spread.place(bell(*blocks, *deviation, random), *blocks),
            Self::Zones(zones) => {
                let percent = random.below(100);
                let zone = zones.iter().find(|zone| percent < zone.below_percent).or(zones.last());
                zone.map_or(0, |zone| zone.first + random.below(zone.blocks))
            }
        }
    }
}

/// `percent` of `blocks`.
fn part(blocks: u64, percent: u64) -> u64 {
    (u128::from(blocks) * u128::from(percent) / 100) as u64
}

/// The mean of twelve even draws, moved by an even deviation that is halved until it stays inside.
fn bell(blocks: u64, deviation: u64, random: &mut SplitMix64) -> u64 {
    let sum: u128 = (0..12).map(|_| u128::from(random.below(blocks + 1))).sum();
    let mean = sum.div_ceil(12) as i64;
    if deviation == 0 {
        return mean as u64;
    }
    let mut moved = (deviation as f64 * random.fraction()) as i64 - (deviation / 2) as i64;
    while !(0..blocks as i64).contains(&(mean + moved)) && moved != 0 {
        moved /= 2;
    }
    (mean + moved) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(distribution: &Distribution, blocks: u64, hashed: bool) -> Vec<u64> {
        let mut random = SplitMix64::new(7);
        let chance = Chance::new(distribution, Direction::Read, blocks, 4096, hashed, &mut random);
        (0..200_000).map(|_| chance.draw(&mut random)).collect()
    }

    #[test]
    fn zeta_sums_are_right_beyond_the_terms_added_up() {
        for theta in [0.5, 1.1, 1.9] {
            let exact: f64 = (1..=100_000_u64).map(|k| (k as f64).powf(-theta)).sum();
            assert!((zeta(100_000, theta) / exact - 1.0).abs() < 1e-12, "{theta}");
        }
    }

    #[test]
    fn zipf_keeps_to_its_law() {
        let drawn = draws(&Distribution::Zipf { theta: 1.2, center: Some(0.0) }, 1000, false);
        let expected = zeta(1000, 1.2);
        for rank in [0_u64, 1] {
            let share = drawn.iter().filter(|block| **block == rank).count() as f64 / drawn.len() as f64;
            let law = ((rank + 1) as f64).powf(-1.2) / expected;
            assert!((share - law).abs() < 0.006, "rank {rank}: {share}, by the law {law}");
        }
    }

    #[test]
    fn all_laws_stay_inside() {
        for distribution in [
            Distribution::Random,
            Distribution::Zipf { theta: 0.8, center: None },
            Distribution::Zipf { theta: 2.5, center: Some(1.0) },
            Distribution::Pareto { power: 0.3, center: None },
            Distribution::Normal { deviation_percent: 20.0, center: Some(0.1) },
        ] {
            for blocks in [1, 2, 3, 1000] {
                assert!(
                    draws(&distribution, blocks, true).iter().all(|block| *block < blocks),
                    "{distribution:?} {blocks}"
                );
            }
        }
    }

    #[test]
    fn the_bell_has_its_middle_where_it_was_put() {
        let drawn = draws(&Distribution::Normal { deviation_percent: 0.0, center: Some(0.75) }, 10_000, false);
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((mean - 7500.0).abs() < 20.0, "{mean}");
    }
}
