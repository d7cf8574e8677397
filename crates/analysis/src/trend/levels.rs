//! How high the levels are, how large the changes between them, and how sure their places.

use super::detect::{Found, Stretch};
use super::document::Shape;
use super::null::Noise;
use super::series::{LEAST_RUN, Sums, replaced, without_outliers};
use crate::stats::{StudentT, critical_value};

/// Level of all intervals.
const LEVEL: f64 = 0.95;

/// Twice the log likelihood ratio up to which places belong to the 95 % interval of a change's place: the c with
/// (1 - exp(-c / 2))^2 = 0.95. B. E. Hansen, "Sample splitting and threshold estimation", Econometrica 68 (2000), table I.
const PLACE_RATIO: f64 = 7.352;

/// Noises from the last level beyond which the newest points are pointed at.
const FAR: f64 = 4.0;

/// Share of repetitions in which the change of the size named would be found.
const CHANCE: f64 = 0.8;

/// An estimate with its 95 % interval, on the scale of the values searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub value: f64,
    /// `None` if nothing is left to estimate the noise from.
    pub interval: Option<[f64; 2]>,
}

/// The newest points, where they are far from the last level and too few to be one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Newest {
    /// Number of points.
    pub points: usize,
    /// Their mean less the last level.
    pub distance: f64,
}

/// A history described: a fit for every stretch, and the noise about all of them.
pub(super) struct Description<'a> {
    values: &'a [f64],
    found: &'a Found,
    fits: Vec<Fit>,
    /// Variance of the noise about the fits, and its degrees of freedom.
    variance: f64,
    df: f64,
}

/// A level or a line: its height in the middle of its points and its slope per point.
struct Fit {
    cleaned: Vec<f64>,
    height: f64,
    slope: f64,
    slopes: bool,
}

impl Fit {
    fn of(values: &[f64], stretch: &Stretch) -> Self {
        let cleaned = without_outliers(values.get(stretch.points.clone()).unwrap_or_default());
        let n = cleaned.len() as f64;
        let height = cleaned.iter().sum::<f64>() / n.max(1.0);
        let slopes = stretch.shape != Shape::Level;
        let along: f64 = cleaned.iter().enumerate().map(|(i, v)| (i as f64 - (n - 1.0) / 2.0) * v).sum();
        let slope = if slopes { along / spread(n) } else { 0.0 };
        Self { cleaned, height, slope, slopes }
    }

    fn n(&self) -> f64 {
        self.cleaned.len() as f64
    }

    /// Sum of squares about the fit.
    fn rest(&self) -> f64 {
        let middle = (self.n() - 1.0) / 2.0;
        let off = |(i, value): (usize, &f64)| value - self.height - self.slope * (i as f64 - middle);
        self.cleaned.iter().enumerate().map(|point| off(point).powi(2)).sum()
    }

    fn parameters(&self) -> f64 {
        if self.slopes { 2.0 } else { 1.0 }
    }

    /// The fit's value half a point beyond its last point (`side` 1) or before its first (-1), and its variance in
    /// variances of the noise.
    fn at_end(&self, side: f64) -> (f64, f64) {
        let reach = side * self.n() / 2.0;
        let of_slope = if self.slopes { reach * reach / spread(self.n()) } else { 0.0 };
        (self.height + self.slope * reach, 1.0 / self.n() + of_slope)
    }
}

/// Sum of squares of 0, 1, ... n - 1 about their mean.
fn spread(n: f64) -> f64 {
    (n * (n * n - 1.0) / 12.0).max(f64::MIN_POSITIVE)
}

impl<'a> Description<'a> {
    pub(super) fn of(values: &'a [f64], found: &'a Found) -> Self {
        let fits: Vec<Fit> = found.stretches.iter().map(|stretch| Fit::of(values, stretch)).collect();
        let df = values.len() as f64 - fits.iter().map(Fit::parameters).sum::<f64>() - found.cuts.len() as f64;
        let rest: f64 = fits.iter().map(Fit::rest).sum();
        Self { values, found, fits, variance: rest / df.max(1.0), df }
    }

    /// Standard deviation of the noise about levels and drifts; `None` without a degree of freedom.
    pub(super) fn noise(&self) -> Option<f64> {
        (self.df >= 1.0).then(|| self.variance.sqrt())
    }

    fn estimate(&self, value: f64, variances: f64) -> Estimate {
        let error = (variances * self.variance * self.found.noise.inflation()).sqrt();
        let half = if self.df >= 1.0 { critical_value(self.df, LEVEL).ok() } else { None };
        Estimate { value, interval: half.map(|half| [value - half * error, value + half * error]) }
    }

    /// The mean of a stretch.
    pub(super) fn level(&self, stretch: usize) -> Option<Estimate> {
        let fit = self.fits.get(stretch)?;
        Some(self.estimate(fit.height, 1.0 / fit.n()))
    }

    /// How far the line through a stretch moves from its first to its last point; `None` for a level.
    pub(super) fn drift(&self, stretch: usize) -> Option<Estimate> {
        let fit = self.fits.get(stretch).filter(|fit| fit.slopes)?;
        let way = fit.n() - 1.0;
        Some(self.estimate(fit.slope * way, way * way / spread(fit.n())))
    }

    /// What the level jumps by behind a stretch, and the level it jumps from.
    pub(super) fn jump(&self, stretch: usize) -> Option<(Estimate, f64)> {
        let (before, of_before) = self.fits.get(stretch)?.at_end(1.0);
        let (behind, of_behind) = self.fits.get(stretch + 1)?.at_end(-1.0);
        Some((self.estimate(behind - before, of_before + of_behind), before))
    }

    /// The first and last index that the first point of the new level may have, with 95 % confidence. `None` beside a drift.
    pub(super) fn place(&self, stretch: usize) -> Option<[usize; 2]> {
        let (before, behind) = (self.found.stretches.get(stretch)?, self.found.stretches.get(stretch + 1)?);
        if before.shape != Shape::Level || behind.shape != Shape::Level || self.df < 1.0 {
            return None;
        }
        let points = before.points.start..behind.points.end;
        let mut cleaned = self.fits.get(stretch)?.cleaned.clone();
        cleaned.extend_from_slice(&self.fits.get(stretch + 1)?.cleaned);
        let sums = Sums::of(&cleaned);
        let n = sums.len();
        let squares = |at: usize| sums.about_mean(0, at) + sums.about_mean(at, n);
        let least = squares(behind.points.start - points.start);
        let limit = least + PLACE_RATIO * self.found.noise.inflation() * self.variance;
        let possible = |at: &usize| squares(*at) <= limit;
        let first = (1..n).find(possible)?;
        let last = (1..n).rev().find(possible)?;
        Some([points.start + first, points.start + last])
    }

    /// Indices of outliers.
    pub(super) fn outliers(&self) -> Vec<usize> {
        let cleaned: Vec<f64> = self.fits.iter().flat_map(|fit| fit.cleaned.iter().copied()).collect();
        replaced(self.values, &cleaned).collect()
    }

    /// The newest points, if they all lie far from the last level on one side and the ones before do not.
    pub(super) fn newest(&self) -> Option<Newest> {
        let (stretch, fit) = (self.found.stretches.last()?, self.fits.last()?);
        let noise = self.noise().filter(|noise| *noise > 0.0)?;
        let values = self.values.get(stretch.points.clone())?;
        let far = |value: &f64| (value - fit.at_end(1.0).0) / (FAR * noise);
        let side = far(values.last()?).signum();
        let newest: Vec<f64> = values.iter().rev().copied().take_while(|value| far(value) * side >= 1.0).collect();
        if newest.is_empty() || newest.len() > LEAST_RUN || newest.len() * 2 > values.len() {
            return None;
        }
        let mean = newest.iter().sum::<f64>() / newest.len() as f64;
        Some(Newest { points: newest.len(), distance: mean - fit.at_end(1.0).0 })
    }

    /// About the smallest step in the middle of the history that would be found in [`CHANCE`] of all repetitions: as large
    /// as the critical value of a test of all its places and the quantile of the chance, in standard errors.
    pub(super) fn detectable(&self, alpha: f64) -> Option<f64> {
        let n = self.values.len() as f64;
        let normal = StudentT::new(self.df).ok()?;
        // About a third of the places are independent tests of a level.
        let critical = normal.inverse_two_sided(3.0 * alpha / n).ok()?;
        let error = self.noise()? * self.found.noise.inflation().sqrt() * 2.0 / n.sqrt();
        Some((critical + normal.inverse_cdf(CHANCE).ok()?) * error)
    }
}

impl Noise {
    /// Whether neighbouring points are taken to be correlated.
    pub(super) fn is_correlated(self) -> bool {
        self != Self::Exchangeable
    }
}
