//! What a stretch of a history may be: one level, two or three levels, one level with a stretch off it, or a line.

use super::series::{LEAST_RUN, Sums, replaced, without_outliers};

/// From this number of points on, a stretch that leaves the level and comes back is looked for as well. In shorter ones
/// it costs more power than it gives.
const LEAST_FOR_ARCS: usize = 16;

/// Places of an end of a stretch that are tried, at most; in longer histories only every second or third place is.
const MOST_ENDS: usize = 200;

/// The levels that fit best, and how well.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Levels {
    /// Indices of the first points of the second and third level.
    pub cuts: Vec<usize>,
    /// Schwarz's criterion, see [`criterion`].
    pub criterion: f64,
}

/// n ln(squares / n) + parameters ln n: twice the negative log likelihood of normal noise, and what each parameter costs.
/// G. Schwarz, "Estimating the dimension of a model", Annals of Statistics 6 (1978); Y.-C. Yao, "Estimating the number of
/// change-points via Schwarz' criterion", Statistics & Probability Letters 6 (1988), where the place of a change counts as one.
fn criterion(n: usize, squares: f64, total: f64, parameters: f64) -> f64 {
    // Levels that fit to the last bit must not make a logarithm of 0.
    let n = n as f64;
    n * (squares.max(total * 1e-12) / n).ln() + parameters * n.ln()
}

/// How far the values are from one level: twice the log likelihood ratio of the best description by something else. That
/// is a step at any place, a line, or a stretch that leaves the level and comes back, which has one place more and pays
/// ln n for it. So does each outlier: else three points of a level of four, found side by side in a random order, would look
/// as good as the four.
///
/// At most 0 for values that do not vary.
pub(crate) fn unevenness(values: &[f64], steps_only: bool) -> f64 {
    let cleaned = without_outliers(values);
    let outliers = replaced(values, &cleaned).count() as f64;
    let sums = Sums::of(&cleaned);
    let n = sums.len();
    let total = sums.about_mean(0, n);
    if total <= 0.0 {
        return -outliers * (n as f64).ln();
    }
    let split = (LEAST_RUN..=n.saturating_sub(LEAST_RUN)).map(|at| explained(&sums, 0, at)).fold(0.0, f64::max);
    let place = (n as f64).ln();
    let ratio = |explained: f64| -(n as f64) * (1.0 - explained / total).max(1e-12).ln() - outliers * place;
    if steps_only {
        return ratio(split);
    }
    let straight = line_explains(&cleaned);
    let with_arcs = if n >= LEAST_FOR_ARCS { ratio(best_arc(&sums)) - place } else { f64::NEG_INFINITY };
    ratio(split.max(straight)).max(with_arcs)
}

/// Sum of squares that a level of its own for the stretch from `from` to `to` explains.
fn explained(sums: &Sums, from: usize, to: usize) -> f64 {
    let (n, inside) = (sums.len() as f64, (to - from) as f64);
    let sum = sums.sum(from, to);
    sum * sum * n / (inside * (n - inside))
}

/// The most that a stretch within can explain that has a level of its own while the points before and behind it share
/// one: the statistic of A. B. Olshen, E. S. Venkatraman, R. Lucito and M. Wigler, "Circular binary segmentation for the
/// analysis of array-based DNA copy number data", Biostatistics 5 (2004). Two changes that undo each other hide from a
/// single split and not from this.
fn best_arc(sums: &Sums) -> f64 {
    let n = sums.len();
    let stride = n.div_ceil(MOST_ENDS).max(1);
    let mut most = 0.0_f64;
    for from in (LEAST_RUN..=n.saturating_sub(2 * LEAST_RUN)).step_by(stride) {
        for to in (from + LEAST_RUN..=n - LEAST_RUN).step_by(stride) {
            most = most.max(explained(sums, from, to));
        }
    }
    most
}

/// Sum of squares that a line through the values explains.
fn line_explains(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let middle = (n - 1.0) / 2.0;
    let along: f64 = values.iter().enumerate().map(|(i, v)| (i as f64 - middle) * v).sum();
    let spread = n * (n * n - 1.0) / 12.0;
    if spread > 0.0 { along * along / spread } else { 0.0 }
}

/// A slow drift through the values by least squares: a parabola, at every point.
pub(crate) fn drift(values: &[f64]) -> Vec<f64> {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let line = Curve::fit(values, |i| i - middle);
    // About the middle the square is at a right angle to the line, so that one is fitted after the other.
    let bend = Curve::fit(values, |i| (i - middle) * (i - middle));
    let at = |i: usize| line.at(i as f64) + bend.at(i as f64) - line.mean;
    (0..values.len()).map(at).collect()
}

/// Values as a mean and a factor on one function of the place.
struct Curve<F> {
    basis: F,
    basis_mean: f64,
    mean: f64,
    factor: f64,
}

impl<F: Fn(f64) -> f64> Curve<F> {
    fn fit(values: &[f64], basis: F) -> Self {
        let n = values.len().max(1) as f64;
        let places = || (0..values.len()).map(|i| i as f64);
        let basis_mean = places().map(&basis).sum::<f64>() / n;
        let mean = values.iter().sum::<f64>() / n;
        let along: f64 = places().zip(values).map(|(i, value)| (basis(i) - basis_mean) * value).sum();
        let spread: f64 = places().map(|i| (basis(i) - basis_mean).powi(2)).sum();
        Self { basis, basis_mean, mean, factor: if spread > 0.0 { along / spread } else { 0.0 } }
    }

    fn at(&self, i: f64) -> f64 {
        self.mean + self.factor * ((self.basis)(i) - self.basis_mean)
    }
}

/// How much better levels describe the values than a drift does, by Schwarz's criterion, and these levels. Positive: the
/// levels are the better description.
pub(crate) fn levels_against_drift(values: &[f64]) -> (f64, Levels) {
    let cleaned = without_outliers(values);
    let sums = Sums::of(&cleaned);
    let n = sums.len();
    let total = sums.about_mean(0, n);
    let squares: f64 = cleaned.iter().zip(drift(&cleaned)).map(|(value, fit)| (value - fit) * (value - fit)).sum();
    let levels = best_levels(&sums);
    (criterion(n, squares, total, 3.0) - levels.criterion, levels)
}

/// The two or three levels that fit best.
pub(crate) fn best_levels(sums: &Sums) -> Levels {
    let n = sums.len();
    let total = sums.about_mean(0, n);
    let mut two = (f64::INFINITY, Vec::new());
    let mut three = (f64::INFINITY, Vec::new());
    let stride = n.div_ceil(MOST_ENDS).max(1);
    for first in LEAST_RUN..=n.saturating_sub(LEAST_RUN) {
        let before = sums.about_mean(0, first);
        let squares = before + sums.about_mean(first, n);
        if squares < two.0 {
            two = (squares, vec![first]);
        }
        if !first.is_multiple_of(stride) || before >= three.0 {
            continue;
        }
        for second in (first + LEAST_RUN..=n.saturating_sub(LEAST_RUN)).step_by(stride) {
            let squares = before + sums.about_mean(first, second) + sums.about_mean(second, n);
            if squares < three.0 {
                three = (squares, vec![first, second]);
            }
        }
    }
    let weigh = |(squares, cuts): (f64, Vec<usize>), parameters: f64| Levels {
        criterion: if cuts.is_empty() { f64::INFINITY } else { criterion(n, squares, total, parameters) },
        cuts,
    };
    let (two, three) = (weigh(two, 3.0), weigh(three, 5.0));
    if three.criterion < two.criterion { three } else { two }
}
