//! Means, spreads and quantiles of one sample, and the mean of a gauge over time.

use super::Undefined;
use super::double::{Double, power_of_two_below};
use std::ops::Range;

/// Number, mean and standard deviation of one sample, kept precisely enough that the difference of two summaries is
/// right to the last digits of the data, whatever offset the values share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    n: usize,
    mean: Double,
    sd: Option<f64>,
}

impl Summary {
    /// Summarises `values`.
    ///
    /// Mean: sum / n. Standard deviation: sqrt(sum (x - mean)^2 / (n - 1)), by two passes in double-double arithmetic
    /// (the corrected two-pass algorithm of T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the
    /// sample variance", The American Statistician 37 (1983), in twice the precision). Relative error of the standard
    /// deviation: about n * 1e-31 * (|mean| / sd)^2 + 3e-16. Values are scaled by a power of two first, so that
    /// squares neither over- nor underflow.
    ///
    /// `sd` is `None` for one value, and exactly 0 if and only if all values are equal.
    pub fn of(values: &[f64]) -> Result<Self, Undefined> {
        if values.iter().any(|v| !v.is_finite()) {
            return Err(Undefined::NotFinite);
        }
        Self::of_doubles(values.iter().map(|v| Double::new(*v)))
    }

    /// Summarises ln(test / base) of the pairs given.
    pub(super) fn of_log_ratios(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Result<Self, Undefined> {
        for (base, test) in pairs.clone() {
            if !base.is_finite() || !test.is_finite() {
                return Err(Undefined::NotFinite);
            }
            if base <= 0.0 || test <= 0.0 {
                return Err(Undefined::NotPositive);
            }
        }
        let logs: Vec<Double> = pairs.map(|(base, test)| Double::ln_ratio(test, base)).collect();
        Self::of_doubles(logs.iter().copied())
    }

    /// Summarises test - base of the pairs given.
    pub(super) fn of_differences(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Result<Self, Undefined> {
        if pairs.clone().any(|(base, test)| !base.is_finite() || !test.is_finite()) {
            return Err(Undefined::NotFinite);
        }
        Self::of_doubles(pairs.map(|(base, test)| Double::difference(test, base)))
    }

    /// A summary from moments that are already known. `sd` must not be negative.
    pub fn from_moments(n: usize, mean: f64, sd: f64) -> Result<Self, Undefined> {
        if n == 0 {
            return Err(Undefined::Empty);
        }
        if !mean.is_finite() || !sd.is_finite() {
            return Err(Undefined::NotFinite);
        }
        if sd < 0.0 {
            return Err(Undefined::OutOfRange);
        }
        Ok(Self { n, mean: Double::new(mean), sd: (n > 1).then_some(sd) })
    }

    fn of_doubles(values: impl Iterator<Item = Double> + Clone) -> Result<Self, Undefined> {
        let Some(first) = values.clone().next() else { return Err(Undefined::Empty) };
        let n = values.clone().count();
        if values.clone().all(|v| v == first) {
            return Ok(Self { n, mean: first, sd: (n > 1).then_some(0.0) });
        }
        let largest = values.clone().fold(0.0_f64, |most, v| most.max(v.hi.abs()));
        let unit = power_of_two_below(largest);
        let shrink = 1.0 / unit;
        let count = Double::new(n as f64);
        let mean = values.clone().fold(Double::ZERO, |sum, v| sum + v.scaled(shrink)) / count;
        // The deviations get a scale of their own: noise of 1e-200 must not vanish when squared.
        let widest = values.clone().fold(0.0_f64, |most, v| most.max((v.scaled(shrink) - mean).hi.abs()));
        let spread_unit = power_of_two_below(widest);
        let squares = values.fold(Double::ZERO, |sum, v| {
            let deviation = (v.scaled(shrink) - mean).scaled(1.0 / spread_unit);
            sum + deviation * deviation
        });
        let variance = squares / Double::new((n - 1) as f64);
        Ok(Self { n, mean: mean.scaled(unit), sd: Some(variance.value().sqrt() * spread_unit * unit) })
    }

    /// Number of values.
    pub fn n(&self) -> usize {
        self.n
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> f64 {
        self.mean.value()
    }

    /// The standard deviation with n - 1 in the denominator; `None` for one value.
    pub fn sd(&self) -> Option<f64> {
        self.sd
    }

    /// The same summary with its standard deviation raised to `floor` if it is below it.
    ///
    /// Used where one side is constant: a quantity read in steps of `r` is uncertain by r / sqrt(12), the standard
    /// deviation of a uniform error of width r, even if every reading agrees.
    pub fn with_sd_floor(self, floor: f64) -> Self {
        Self { sd: self.sd.map(|sd| sd.max(floor)), ..self }
    }

    /// Mean of `self` minus mean of `other`, without the cancellation that rounded means would suffer.
    pub fn mean_difference(&self, other: &Self) -> f64 {
        (self.mean - other.mean).value()
    }

    /// Mean minus a given number.
    pub(super) fn mean_minus(&self, value: f64) -> f64 {
        (self.mean - Double::new(value)).value()
    }
}

/// Arithmetic mean, summed in double-double arithmetic and rounded once.
pub fn mean(values: &[f64]) -> Result<f64, Undefined> {
    Ok(Summary::of(values)?.mean())
}

/// Standard deviation with n - 1 in the denominator, see [`Summary::of`].
pub fn standard_deviation(values: &[f64]) -> Result<f64, Undefined> {
    Summary::of(values)?.sd().ok_or(Undefined::OneValue)
}

/// Geometric mean exp(mean(ln x)); all values must be positive.
///
/// The logarithms are taken to 30 digits, so the relative error is that of `exp`: about 1e-16 * (1 + |mean of ln x|).
pub fn geometric_mean(values: &[f64]) -> Result<f64, Undefined> {
    Ok(Summary::of_log_ratios(values.iter().map(|v| (1.0, *v)))?.mean().exp())
}

/// The `q` quantile, 0 <= q <= 1, by linear interpolation between order statistics: with h = (n - 1) q it is
/// x_(floor h) + (h - floor h) (x_(floor h + 1) - x_(floor h)), counting from 0.
///
/// This is definition 7 of R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages", The American
/// Statistician 50 (1996), the default of R and numpy.
pub fn quantile(values: &[f64], q: f64) -> Result<f64, Undefined> {
    if values.iter().any(|v| !v.is_finite()) {
        return Err(Undefined::NotFinite);
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

/// As [`quantile`], of values that are sorted already.
pub fn quantile_of_sorted(sorted: &[f64], q: f64) -> Result<f64, Undefined> {
    if !(0.0..=1.0).contains(&q) {
        return Err(Undefined::OutOfRange);
    }
    let Some(last) = sorted.len().checked_sub(1) else { return Err(Undefined::Empty) };
    let h = last as f64 * q;
    let below = (h.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let part = h - below as f64;
    match (sorted.get(below), sorted.get(above)) {
        (Some(a), Some(b)) => Ok(a + part * (b - a)),
        _ => Err(Undefined::Empty),
    }
}

/// The median: the middle value, or the mean of the middle two.
pub fn median(values: &[f64]) -> Result<f64, Undefined> {
    quantile(values, 0.5)
}

/// A mean over time, and how much time it stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeMean {
    /// Integral of the gauge over the covered time, divided by that time; in the gauge's unit.
    pub mean: f64,
    /// Nanoseconds of the window for which both neighbouring readings exist.
    pub covered_ns: i64,
}

/// Time-weighted mean of a gauge over `window` (nanoseconds), by the trapezoidal rule between neighbouring readings.
///
/// `readings` are (time, value) in ascending order of time; NaN marks a reading that failed. A stretch with a failed
/// reading at either end is left out rather than bridged, and nothing is extrapolated beyond the first and last
/// reading: `covered_ns` tells how much of the window the mean stands for. Stretches that cross an edge of the window
/// are cut there by linear interpolation. For a gauge with second derivative at most M, read every h, the error is at
/// most M h^2 / 12.
pub fn time_weighted_mean(readings: &[(i64, f64)], window: Range<i64>) -> Result<TimeMean, Undefined> {
    let mut area = Double::ZERO;
    let mut covered_ns = 0_i64;
    for pair in readings.windows(2) {
        let [(t0, v0), (t1, v1)] = pair else { continue };
        let (from, to) = ((*t0).max(window.start), (*t1).min(window.end));
        if from >= to || !v0.is_finite() || !v1.is_finite() {
            continue;
        }
        let slope = (v1 - v0) / (t1 - t0) as f64;
        let at = |t: i64| v0 + slope * (t - t0) as f64;
        let width = (to - from) as f64;
        let middle = f64::midpoint(at(from), at(to));
        area = area + Double::new(width) * Double::new(middle);
        covered_ns += to - from;
    }
    if covered_ns == 0 {
        return Err(Undefined::Empty);
    }
    Ok(TimeMean { mean: (area / Double::new(covered_ns as f64)).value(), covered_ns })
}
