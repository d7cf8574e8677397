//! Intervals by resampling, for medians of paired ratios.

use super::descriptive::quantile_of_sorted;
use super::student::NORMAL;
use super::{Interval, Undefined, median};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// How an interval is read off the resampled estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootstrapKind {
    /// The quantiles (1 - level)/2 and (1 + level)/2 of the resampled estimates.
    Percentile,
    /// Bias-corrected and accelerated. For a median the jackknife that estimates the acceleration is not consistent, so
    /// prefer [`Self::Percentile`] unless the ratios are clearly skewed.
    Bca,
}

/// Settings of a bootstrap; the seed belongs into whatever document reports the interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    /// Number of resamples, at least 100; the ends are stable to about 2 % of the width from 10,000 on.
    pub resamples: usize,
    /// Level of the interval, 0.95 for 95 %.
    pub level: f64,
    /// Seed of the ChaCha8 generator. One seed gives one interval, on every machine.
    pub seed: u64,
    /// How the interval is formed.
    pub kind: BootstrapKind,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { resamples: 10_000, level: 0.95, seed: 1, kind: BootstrapKind::Percentile }
    }
}

/// Median of the ratios test / base of paired measurements, with a bootstrap interval: the estimate by which overhead
/// is measured. All base values must be positive; a pair is resampled as a whole.
pub fn paired_ratio_median(base: &[f64], test: &[f64], options: &Bootstrap) -> Result<Interval, Undefined> {
    if base.len() != test.len() {
        return Err(Undefined::Unpaired);
    }
    if base.iter().any(|b| *b <= 0.0) {
        return Err(Undefined::NotPositive);
    }
    let ratios: Vec<f64> = base.iter().zip(test).map(|(b, t)| t / b).collect();
    bootstrap_median(&ratios, options)
}

/// Median with a bootstrap interval.
///
/// B. Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7 (1979), for the percentile
/// interval; "Better bootstrap confidence intervals", JASA 82 (1987), for BCa. The percentile interval of a median is,
/// up to the noise of resampling, the order-statistic interval whose level is known from the binomial distribution; it
/// covers a little less than its level below about 20 values.
pub fn bootstrap_median(values: &[f64], options: &Bootstrap) -> Result<Interval, Undefined> {
    let estimate = median(values)?;
    if values.len() < 2 {
        return Err(Undefined::OneValue);
    }
    if !(options.level > 0.0 && options.level < 1.0) || options.resamples < 100 {
        return Err(Undefined::OutOfRange);
    }
    let mut estimates = resampled_medians(values, options);
    estimates.sort_by(f64::total_cmp);
    let tail = 0.5 * (1.0 - options.level);
    let (low, high) = match options.kind {
        BootstrapKind::Percentile => (tail, 1.0 - tail),
        BootstrapKind::Bca => bca_levels(values, &estimates, estimate, tail)?,
    };
    Ok(Interval {
        estimate,
        low: quantile_of_sorted(&estimates, low)?,
        high: quantile_of_sorted(&estimates, high)?,
        level: options.level,
        n: values.len(),
    })
}

fn resampled_medians(values: &[f64], options: &Bootstrap) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let mut generator = ChaCha8Rng::seed_from_u64(options.seed);
    let mut drawn = vec![0_u32; n];
    (0..options.resamples)
        .map(|_| {
            drawn.fill(0);
            for _ in 0..n {
                // Multiply and shift: fixed for all versions of the generator's crates, bias below n / 2^32.
                let index = ((u64::from(generator.next_u32()) * n as u64) >> 32) as usize;
                if let Some(count) = drawn.get_mut(index) {
                    *count += 1;
                }
            }
            median_of_counts(&sorted, &drawn)
        })
        .collect()
}

/// The median of a resample given as how often each sorted value was drawn.
fn median_of_counts(sorted: &[f64], drawn: &[u32]) -> f64 {
    let n = sorted.len() as u32;
    let (lower, upper) = ((n - 1) / 2, n / 2);
    let mut seen = 0;
    let mut first = None;
    for (value, count) in sorted.iter().zip(drawn) {
        seen += count;
        if first.is_none() && seen > lower {
            first = Some(*value);
        }
        if seen > upper {
            return f64::midpoint(first.unwrap_or(*value), *value);
        }
    }
    first.unwrap_or(f64::NAN)
}

/// The two quantiles at which BCa reads the resampled estimates:
/// Phi(z0 + (z0 + z) / (1 - a (z0 + z))) for z = -+z_tail, z0 from the share of estimates below the median (ties count
/// half), a = sum d^3 / (6 (sum d^2)^(3/2)) from the jackknife, d = mean - value without observation i.
fn bca_levels(values: &[f64], estimates: &[f64], estimate: f64, tail: f64) -> Result<(f64, f64), Undefined> {
    let total = estimates.len() as f64;
    let below = estimates.partition_point(|e| *e < estimate) as f64;
    let not_above = estimates.partition_point(|e| *e <= estimate) as f64;
    let share = (f64::midpoint(below, not_above) / total).clamp(0.5 / total, 1.0 - 0.5 / total);
    let bias = NORMAL.inverse_cdf(share)?;
    let mut without = Vec::with_capacity(values.len());
    for i in 0..values.len() {
        let rest: Vec<f64> = values.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, v)| *v).collect();
        without.push(median(&rest)?);
    }
    let center = super::mean(&without)?;
    let squares: f64 = without.iter().map(|v| (center - v).powi(2)).sum();
    let cubes: f64 = without.iter().map(|v| (center - v).powi(3)).sum();
    let acceleration = if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 };
    let z = NORMAL.inverse_sf(tail)?;
    let level = |z: f64| NORMAL.cdf(bias + (bias + z) / (1.0 - acceleration * (bias + z)));
    Ok((level(-z), level(z)))
}
