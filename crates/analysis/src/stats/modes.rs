//! Two modes: whether values fall into two groups with a gap between them.
//!
//! The statistic is the share of the variance that is left within groups by the best split of the sorted values in two
//! (L. Engelman, J. A. Hartigan, "Percentage points of a test for clusters", JASA 64 (1969)), each group of at least
//! two values: a lone one is an outlier. Small is clear-cut.
//!
//! Its distribution without modes is drawn from the uniform law, which of all shapes with one mode splits best (as the
//! dip test takes it, J. A. Hartigan, P. M. Hartigan, Annals of Statistics 13 (1985)). Under the normal law, which
//! Engelman and Hartigan took, a steady drift would be called two modes at n = 20. The price is power at small n.
//! Positive values are taken as logarithms.
//!
//! Draws go on until 25 of them are as clear-cut as the data, and 1,999 at most; p = 25 / draws, or (as clear-cut + 1)
//! / 2,000 (J. Besag, P. Clifford, "Sequential Monte Carlo p-values", Biometrika 78 (1991)). Either is a p value that
//! keeps its level, and clean data cost some 50 draws.
//!
//! False notes at the level of 0.7 %: uniform values 0.7 %, normal ones 0.3 % at n = 5, 0.1 % at 10 and none at 30.
//! Exponential values, which no test against a symmetric law is held to, 0.6 %, 1.0 % and 0.4 % (60,000 draws each).
//!
//! Power at that level: a third of the values, and at least two, moved by `apart` standard deviations of a mode, 500
//! draws each, `the_tables_of_power` of `tests/stats_checks.rs`:
//!
//! | values | apart 5 | apart 8 | apart 12 | apart 20 |
//! |---|---|---|---|---|
//! | 5 | 2 % | 11 % | 24 % | 66 % |
//! | 7 | 3 % | 17 % | 56 % | 98 % |
//! | 10 | 6 % | 45 % | 94 % | 100 % |
//! | 15 | 20 % | 90 % | 100 % | 100 % |
//! | 20 | 18 % | 94 % | 100 % | 100 % |
//! | 30 | 29 % | 100 % | 100 % | 100 % |

use super::Undefined;
use super::outliers::step;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Fewest values that can fall into two groups.
pub const LEAST_FOR_MODES: usize = 5;
/// Fewest values of a group.
const LEAST_OF_A_MODE: usize = 2;
/// Draws at most.
const DRAWS: u32 = 1999;
/// As clear-cut draws after which drawing ends.
const ENOUGH: u32 = 25;
/// The smallest p value that [`modes()`] can find.
pub const LEAST_P_OF_MODES: f64 = 1.0 / (DRAWS as f64 + 1.0);

/// The best split of values in two.
#[derive(Debug, Clone, PartialEq)]
pub struct Modes {
    /// p value: the probability that values with one mode split so clearly.
    pub p: f64,
    /// Share of the variance that is left within the two groups, 0 to 1 (of logarithms for positive values).
    pub within: f64,
    /// Places of the lower group in the slice that was tested, ascending.
    pub lower: Vec<usize>,
    /// Places of the upper group, ascending.
    pub upper: Vec<usize>,
}

/// Tests values for two modes. One seed gives one p value, on every machine.
///
/// Values with ties were rounded, to the smallest distance between two that differ; step^2 / 12 is added to the
/// variance within groups, so that two neighbouring steps are not two modes.
pub fn modes(values: &[f64], seed: u64) -> Result<Modes, Undefined> {
    if values.len() < LEAST_FOR_MODES {
        return Err(Undefined::TooFew { needed: LEAST_FOR_MODES });
    }
    if values.iter().any(|value| !value.is_finite()) {
        return Err(Undefined::NotFinite);
    }
    let scaled: Vec<f64> = if values.iter().all(|value| *value > 0.0) {
        values.iter().map(|value| value.ln()).collect()
    } else {
        values.to_vec()
    };
    let mut order: Vec<usize> = (0..values.len()).collect();
    let at = |place: &usize| scaled.get(*place).copied().unwrap_or(f64::NAN);
    order.sort_by(|a, b| at(a).total_cmp(&at(b)));
    let sorted: Vec<f64> = order.iter().map(at).collect();
    let (within, size) = best_split(&sorted, step(&sorted).powi(2) / 12.0).ok_or(Undefined::NoVariance)?;
    let p = p_of(within, sorted.len(), seed);
    let (mut lower, mut upper) = (order.get(..size).unwrap_or(&[]).to_vec(), order.get(size..).unwrap_or(&[]).to_vec());
    lower.sort_unstable();
    upper.sort_unstable();
    Ok(Modes { p, within, lower, upper })
}

/// The share of the variance left within groups by the best split of sorted values, and the size of the lower group.
/// `rounding` is the variance of reading one value.
fn best_split(sorted: &[f64], rounding: f64) -> Option<(f64, usize)> {
    let n = sorted.len();
    let mean = sorted.iter().sum::<f64>() / n as f64;
    let total: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
    if total <= 0.0 {
        return None;
    }
    let (mut sum, mut best) = (0.0, (0.0, 0));
    for (place, value) in sorted.iter().enumerate() {
        sum += value - mean;
        let (below, above) = (place + 1, n - place - 1);
        if below < LEAST_OF_A_MODE || above < LEAST_OF_A_MODE {
            continue;
        }
        let between = sum * sum * (1.0 / below as f64 + 1.0 / above as f64);
        if between > best.0 {
            best = (between, below);
        }
    }
    let reading = rounding * n as f64;
    let within = ((total - best.0).max(0.0) + reading) / (total + reading);
    (best.1 > 0).then_some((within, best.1))
}

/// The probability that `n` uniform values leave no more than `within` within the groups of their best split.
fn p_of(within: f64, n: usize, seed: u64) -> f64 {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn = vec![0; n];
    let mut values = vec![0.0; n];
    let mut clear_cut = 0;
    for draws in 1..=DRAWS {
        // 32 bits are far more than the order of so few values needs, and ties have no effect.
        for value in &mut drawn {
            *value = generator.next_u32();
        }
        drawn.sort_unstable();
        for (value, drawn) in values.iter_mut().zip(&drawn) {
            *value = f64::from(*drawn);
        }
        clear_cut += u32::from(best_split(&values, 0.0).is_some_and(|(share, _)| share <= within));
        if clear_cut == ENOUGH {
            return f64::from(ENOUGH) / f64::from(draws);
        }
    }
    f64::from(clear_cut + 1) / f64::from(DRAWS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_first_runs_are_a_mode() {
        let seconds = [3.1, 2.9, 3.0, 1.01, 1.0, 1.02, 0.99, 1.0, 1.03, 0.98];
        let found = modes(&seconds, 1).expect("values");
        assert!(found.p < 0.002, "{found:?}");
        assert_eq!((found.lower.as_slice(), found.upper.as_slice()), (&[3, 4, 5, 6, 7, 8, 9][..], &[0, 1, 2][..]));
        assert_eq!(modes(&seconds, 1).expect("values"), found, "one seed, one answer");
    }

    #[test]
    fn neither_a_lone_value_nor_a_ramp_nor_neighbouring_steps_are() {
        let lone = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.015, 3.0];
        assert!(modes(&lone, 1).expect("values").p > 0.05);
        let ramp: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i)).collect();
        assert!(modes(&ramp, 1).expect("values").p > 0.05);
        assert!(modes(&[10.0, 11.0, 10.0, 11.0, 11.0, 10.0, 10.0], 1).expect("values").p > 0.05);
        assert_eq!(modes(&[1.0; 4], 1).err(), Some(Undefined::TooFew { needed: 5 }));
        assert_eq!(modes(&[1.0; 6], 1).err(), Some(Undefined::NoVariance));
    }

    #[test]
    fn the_share_within_groups_is_the_best_of_all_splits() {
        // 0 0 | 10 12 14: 8 within, of 180.8 around the mean of 7.2.
        let (within, size) = best_split(&[0.0, 0.0, 10.0, 12.0, 14.0], 0.0).expect("spread");
        assert!((within - 8.0 / 180.8).abs() < 1e-12 && size == 2, "{within} {size}");
    }
}
