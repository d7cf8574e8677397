//! One stretch of a history: sums, the scale of its noise, and single points that lie far off.

use rand::{Rng, RngExt};

/// Points on either side of a change at least. A shorter run of points cannot be told from outliers.
pub(crate) const LEAST_RUN: usize = 3;

/// Points of the moving median: the most of which a run of [`LEAST_RUN`] is the majority.
const WINDOW: usize = 2 * LEAST_RUN - 1;

/// Standard deviations from the median of its neighbours beyond which a point is an outlier. Of normal noise one point in
/// several thousand lies there.
const OUTLIER: f64 = 4.0;

/// Share of the largest squares that the estimate of correlation leaves out: steps and outliers are among them.
const TRIMMED: f64 = 0.1;

/// A normal sample's standard deviation over the median of its absolute values.
const MAD_TO_SD: f64 = 1.482_602_218_505_602;

/// The values without outliers: a point that lies more than [`OUTLIER`] standard deviations of the noise from the median
/// of itself and its two neighbours on either side is replaced by that median.
///
/// This is the filter of F. R. Hampel ("The influence curve and its role in robust estimation", JASA 69, 1974) on a moving
/// median of five. A level that lasts for three points passes through it as it is (a "root" of the median filter), so that
/// steps stay steps, while one or two wild points in a row do not make a level.
pub(crate) fn without_outliers(values: &[f64]) -> Vec<f64> {
    let limit = OUTLIER * noise(values);
    let replaced = |(at, value): (usize, &f64)| {
        let middle = moving_median(values, at);
        if (value - middle).abs() > limit { middle } else { *value }
    };
    values.iter().enumerate().map(replaced).collect()
}

/// The indices of the values that [`without_outliers`] replaced: it gives all others back to the bit.
pub(crate) fn replaced<'a>(values: &'a [f64], cleaned: &'a [f64]) -> impl Iterator<Item = usize> + 'a {
    let pairs = values.iter().zip(cleaned).enumerate();
    pairs.filter(|(_, (value, cleaned))| value.to_bits() != cleaned.to_bits()).map(|(at, _)| at)
}

/// The median of the point at `at` and the two before and behind it; at either end of the first or last five points, of
/// which two wild ones are no majority.
fn moving_median(values: &[f64], at: usize) -> f64 {
    let width = WINDOW.min(values.len());
    let from = at.saturating_sub(WINDOW / 2).min(values.len() - width);
    let window = values.get(from..from + width).unwrap_or_default();
    let mut sorted = [0.0_f64; WINDOW];
    let sorted = sorted.get_mut(..window.len()).unwrap_or_default();
    sorted.copy_from_slice(window);
    sorted.sort_unstable_by(f64::total_cmp);
    middle_of(sorted)
}

fn middle_of(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match (sorted.get(half), sorted.get(half.wrapping_sub(1))) {
        (Some(upper), Some(lower)) if sorted.len().is_multiple_of(2) => f64::midpoint(*lower, *upper),
        (Some(middle), _) => *middle,
        (None, _) => 0.0,
    }
}

/// The standard deviation of the noise, from differences of neighbours, which levels and slow drifts hardly touch: their
/// median absolute value, or their mean one where half of them are 0.
pub(crate) fn noise(values: &[f64]) -> f64 {
    let mut steps: Vec<f64> = values.iter().zip(values.iter().skip(1)).map(|(a, b)| (b - a).abs()).collect();
    steps.sort_unstable_by(f64::total_cmp);
    let median = middle_of(&steps);
    if median > 0.0 {
        return median * MAD_TO_SD / std::f64::consts::SQRT_2;
    }
    let mean = steps.iter().sum::<f64>() / steps.len().max(1) as f64;
    mean * std::f64::consts::PI.sqrt() / 2.0
}

/// The correlation of neighbours' noise, from the mean squares v1 and v2 of differences at distance 1 and 2: for an
/// autoregression of first order v2 / v1 = 1 + phi, whatever the levels. Without their largest tenth the squares hardly
/// know of steps and outliers.
///
/// S. Chakar, E. Lebarbier, C. Levy-Leduc and S. Robin, "A robust approach for estimating change-points in the mean of an
/// AR(1) process", Bernoulli 23 (2017), with trimmed squares in the place of their scale Qn.
pub(crate) fn correlation(values: &[f64]) -> Option<f64> {
    let near = trimmed_square(values, 1)?;
    let far = trimmed_square(values, 2)?;
    (near > 0.0).then(|| (far / near - 1.0).clamp(-0.95, 0.95))
}

fn trimmed_square(values: &[f64], distance: usize) -> Option<f64> {
    let mut squares: Vec<f64> =
        values.iter().zip(values.iter().skip(distance)).map(|(a, b)| (b - a) * (b - a)).collect();
    squares.sort_unstable_by(f64::total_cmp);
    let kept = squares.len() - (squares.len() as f64 * TRIMMED).ceil() as usize;
    let kept = squares.get(..kept).filter(|kept| !kept.is_empty())?;
    Some(kept.iter().sum::<f64>() / kept.len() as f64)
}

/// A draw from the standard normal distribution: Box and Muller's transformation.
pub(crate) fn normal(random: &mut impl Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

/// `n` values of standard deviation 1 of which neighbours are correlated by `phi`.
pub(crate) fn correlated_noise(n: usize, phi: f64, random: &mut impl Rng) -> Vec<f64> {
    let fresh = (1.0 - phi * phi).max(0.0).sqrt();
    let mut last = normal(random);
    let mut next = || {
        let this = last;
        last = phi * last + fresh * normal(random);
        this
    };
    (0..n).map(|_| next()).collect()
}

/// Running sums of values, for sums of squares about the mean of any stretch.
pub(crate) struct Sums {
    values: Vec<f64>,
    squares: Vec<f64>,
}

impl Sums {
    /// Sums about the mean of all, so that an offset of all values costs no digits.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let running = |of: fn(f64) -> f64| {
            let mut sum = 0.0;
            let mut sums = Vec::with_capacity(values.len() + 1);
            sums.push(0.0);
            for value in values {
                sum += of(value - mean);
                sums.push(sum);
            }
            sums
        };
        Self { values: running(|v| v), squares: running(|v| v * v) }
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.values.len().saturating_sub(1)
    }

    /// Sum of the values from `from` up to, without, `to`, each less the mean of all.
    pub(crate) fn sum(&self, from: usize, to: usize) -> f64 {
        self.values.get(to).zip(self.values.get(from)).map_or(0.0, |(a, b)| a - b)
    }

    /// Sum of squares about the mean of the stretch from `from` up to, without, `to`.
    pub(crate) fn about_mean(&self, from: usize, to: usize) -> f64 {
        let squares = self.squares.get(to).zip(self.squares.get(from)).map_or(0.0, |(a, b)| a - b);
        let sum = self.sum(from, to);
        (squares - sum * sum / (to - from).max(1) as f64).max(0.0)
    }
}
