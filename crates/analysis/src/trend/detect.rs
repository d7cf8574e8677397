//! Where the level of a history changed: the search, and the tests that it stands on.

use std::ops::Range;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::document::Shape;
use super::fits::{best_levels, drift, levels_against_drift, unevenness};
use super::null::{Drawn, Noise, chance};
use super::series::{LEAST_RUN, Sums, correlated_noise, correlation, without_outliers};

/// Draws of uncorrelated noise that the correlation of neighbours is held to.
const CORRELATION_DRAWS: usize = 399;
/// Level of that test, and the normal distribution's quantile for it.
const CORRELATION_LEVEL: f64 = 0.05;
const ONE_SIDED: f64 = 1.645;

/// What a search is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectOptions {
    /// The chance of any false change that is accepted, in a whole history.
    pub alpha: f64,
    /// The chance that is accepted of calling a drift steps, in a whole history.
    pub shape_alpha: f64,
    /// Seed of the random orders that the tests draw.
    pub seed: u64,
}

impl Default for DetectOptions {
    fn default() -> Self {
        Self { alpha: 0.01, shape_alpha: 0.05, seed: 1 }
    }
}

/// A place where the level changes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cut {
    /// Index of the first point of the new level.
    pub at: usize,
    /// Its p value, corrected for all places.
    pub p: Drawn,
}

/// A stretch without a change point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stretch {
    /// Its points.
    pub points: Range<usize>,
    /// What it looks like.
    pub shape: Shape,
    /// The p value of "it is one level", corrected for all places.
    pub p: Drawn,
    /// If it is a step: the index of the first point behind it.
    pub step_at: Option<usize>,
}

/// What a search finds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub cuts: Vec<Cut>,
    pub stretches: Vec<Stretch>,
    /// Correlation of neighbours; `None` if too few points or no noise.
    pub correlation: Option<f64>,
    /// What the tests took the noise for.
    pub noise: Noise,
}

/// Searches `values`, which are finite.
///
/// Any order of the points is taken to be as likely as another at first. If the differences of neighbours, or what the
/// levels found leave over, are correlated by more than chance, the search is made again against correlated noise: what
/// such noise does by itself is no change.
pub(crate) fn detect(values: &[f64], options: &DetectOptions) -> Found {
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let of_differences = correlation(values);
    let noise = match of_differences {
        Some(found) if is_correlated(found, values.len(), &mut random) => Noise::Correlated(found),
        _ => Noise::Exchangeable,
    };
    let first = search(values, options, noise, random.clone());
    let nothing = first.cuts.is_empty() && first.stretches.iter().all(|stretch| stretch.shape == Shape::Level);
    let (of_rest, error) = rest_correlation(values, &first);
    let of_noise = if let Noise::Correlated(phi) = noise { phi } else { 0.0 };
    if nothing || of_rest <= of_noise.max(ONE_SIDED * error) {
        return Found { correlation: of_differences, ..first };
    }
    Found { correlation: Some(of_rest), ..search(values, options, Noise::Correlated(of_rest), random) }
}

fn search(values: &[f64], options: &DetectOptions, noise: Noise, random: ChaCha8Rng) -> Found {
    let mut search = Search { values, options, noise, random, cuts: Vec::new() };
    search.divide(0..values.len(), Drawn { p: 0.0, least: true });
    search.cuts.sort_by_key(|cut| cut.at);
    search.settle();
    let bounds = search.bounds();
    let stretches = bounds.windows(2).map(|pair| search.judge(pair[0]..pair[1])).collect();
    Found { cuts: search.cuts, stretches, correlation: None, noise }
}

/// Whether uncorrelated noise has as large a correlation in few draws only.
fn is_correlated(found: f64, n: usize, random: &mut ChaCha8Rng) -> bool {
    let drawn = (0..CORRELATION_DRAWS).filter_map(|_| correlation(&correlated_noise(n, 0.0, random)));
    let larger = drawn.filter(|drawn| *drawn >= found).count();
    found > 0.0 && (larger + 1) as f64 / (CORRELATION_DRAWS + 1) as f64 <= CORRELATION_LEVEL
}

/// The correlation of neighbours in what levels and drifts leave over, and its standard error. A mean that was taken off
/// makes it smaller by about (1 + 3 phi) / n, a parabola by three times that (M. G. Kendall, "Note on bias in the
/// estimation of autocorrelation", Biometrika 41, 1954); that is added again.
fn rest_correlation(values: &[f64], found: &Found) -> (f64, f64) {
    let (mut products, mut squares, mut parameters) = (0.0, 0.0, 0.0);
    for stretch in &found.stretches {
        let cleaned = without_outliers(values.get(stretch.points.clone()).unwrap_or_default());
        let fit = match stretch.shape {
            Shape::Level => steps(&cleaned, &[]),
            Shape::Drift => drift(&cleaned),
            Shape::Undecided => steps(&cleaned, &best_levels(&Sums::of(&cleaned)).cuts),
        };
        parameters += if stretch.shape == Shape::Level { 1.0 } else { 3.0 };
        let rest: Vec<f64> = cleaned.iter().zip(&fit).map(|(value, fit)| value - fit).collect();
        products += rest.iter().zip(rest.iter().skip(1)).map(|(a, b)| a * b).sum::<f64>();
        squares += rest.iter().map(|v| v * v).sum::<f64>();
    }
    let n = values.len() as f64;
    if squares <= 0.0 {
        return (0.0, 1.0);
    }
    let plain = products / squares;
    ((plain + parameters * (1.0 + 3.0 * plain) / n).clamp(-0.95, 0.95), 1.0 / n.sqrt())
}

/// The means of the stretches between these indices, at every point.
fn steps(values: &[f64], cuts: &[usize]) -> Vec<f64> {
    let mut fit = Vec::with_capacity(values.len());
    for end in cuts.iter().copied().chain([values.len()]) {
        let level = values.get(fit.len()..end).unwrap_or_default();
        let mean = level.iter().sum::<f64>() / level.len().max(1) as f64;
        fit.resize(end, mean);
    }
    fit
}

struct Search<'a> {
    values: &'a [f64],
    options: &'a DetectOptions,
    noise: Noise,
    random: ChaCha8Rng,
    cuts: Vec<Cut>,
}

impl Search<'_> {
    /// The share of the history that a stretch is, which is the share of alpha that its test has.
    fn share(&self, points: &Range<usize>) -> f64 {
        points.len() as f64 / self.values.len().max(1) as f64
    }

    fn stretch(&self, points: &Range<usize>) -> &[f64] {
        self.values.get(points.clone()).unwrap_or_default()
    }

    /// Divides a stretch where its level changes, and then its parts.
    fn divide(&mut self, points: Range<usize>, above: Drawn) {
        if points.len() < 2 * LEAST_RUN {
            return;
        }
        let p = larger(above, self.one_level(&points, false));
        if p.p > self.options.alpha {
            return;
        }
        let (_, cuts) = self.shape(&points);
        let mut from = points.start;
        for at in cuts.iter().map(|cut| points.start + cut) {
            self.cuts.push(Cut { at, p });
            self.divide(from..at, p);
            from = at;
        }
        if !cuts.is_empty() {
            self.divide(from..points.end, p);
        }
    }

    /// The p value of "this stretch has one level", times the number of such stretches in the history.
    fn one_level(&mut self, points: &Range<usize>, steps_only: bool) -> Drawn {
        let values: Vec<f64> = self.stretch(points).to_vec();
        let share = self.share(points);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let noise: Vec<f64> = values.iter().map(|value| value - mean).collect();
        let statistic = |values: &[f64]| unevenness(values, steps_only);
        let signal = vec![0.0; values.len()];
        let level = self.options.alpha * share;
        let found = statistic(&noise);
        if values.iter().all(|value| Some(value) == values.first()) {
            return Drawn { p: 1.0, least: false };
        }
        let drawn = chance(found, &signal, &noise, self.noise, level, &mut self.random, statistic);
        Drawn { p: (drawn.p / share).min(1.0), ..drawn }
    }

    /// Whether a stretch that is no one level is one of steps or of a slope, and the first points of the levels if it is one
    /// of steps.
    ///
    /// The drift is the hypothesis: steps are believed if they describe the points better than they do in nearly all histories
    /// in which the drift is true. A test of two models of which none contains the other: D. R. Cox, "Tests of
    /// separate families of hypotheses", Proc. 4th Berkeley Symposium 1 (1961), with draws for the distribution.
    fn shape(&mut self, points: &Range<usize>) -> (Shape, Vec<usize>) {
        let values: Vec<f64> = self.stretch(points).to_vec();
        let (found, levels) = levels_against_drift(&values);
        if found <= 0.0 {
            return (Shape::Drift, Vec::new());
        }
        let signal = drift(&without_outliers(&values));
        // Residuals are smaller than the noise by the three parameters of the drift.
        let factor = (values.len() as f64 / (values.len() as f64 - 3.0).max(1.0)).sqrt();
        let noise: Vec<f64> = values.iter().zip(&signal).map(|(value, drift)| factor * (value - drift)).collect();
        let level = self.options.shape_alpha * self.share(points);
        let statistic = |values: &[f64]| levels_against_drift(values).0;
        let drawn = chance(found, &signal, &noise, self.noise, level, &mut self.random, statistic);
        if drawn.p <= level { (Shape::Level, levels.cuts) } else { (Shape::Undecided, Vec::new()) }
    }

    /// Begins and ends of all stretches.
    fn bounds(&self) -> Vec<usize> {
        let mut bounds = vec![0];
        bounds.extend(self.cuts.iter().map(|cut| cut.at));
        bounds.push(self.values.len());
        bounds
    }

    /// Holds each change point to the points between its neighbours: there it is moved to the best place, and taken away if
    /// they show no change without the rest of the history. The least certain goes first.
    fn settle(&mut self) {
        loop {
            let bounds = self.bounds();
            let mut worst: Option<(usize, f64)> = None;
            for place in 0..self.cuts.len() {
                let Some(&[from, at, to]) = bounds.get(place..place + 3) else { continue };
                let moved = self.best_place(from..to).unwrap_or(at);
                let p = self.one_level(&(from..to), true);
                let Some(cut) = self.cuts.get_mut(place) else { continue };
                cut.at = moved;
                let own = larger(cut.p, p);
                if p.p > self.options.alpha && worst.is_none_or(|(_, most)| p.p > most) {
                    worst = Some((place, p.p));
                } else {
                    cut.p = own;
                }
            }
            match worst {
                Some((place, _)) => _ = self.cuts.remove(place),
                None => return,
            }
        }
    }

    /// The best place of one change among these points.
    fn best_place(&self, points: Range<usize>) -> Option<usize> {
        let sums = Sums::of(&without_outliers(self.stretch(&points)));
        let n = sums.len();
        let squares = |at: &usize| sums.about_mean(0, *at) + sums.about_mean(*at, n);
        let places = LEAST_RUN..=n.checked_sub(LEAST_RUN)?;
        let best = places.min_by(|a, b| squares(a).total_cmp(&squares(b)))?;
        Some(points.start + best)
    }

    /// What a stretch between change points looks like.
    fn judge(&mut self, points: Range<usize>) -> Stretch {
        let level = |p| Stretch { points: points.clone(), shape: Shape::Level, p, step_at: None };
        if points.len() < 2 * LEAST_RUN {
            return level(Drawn { p: 1.0, least: false });
        }
        let p = self.one_level(&points, false);
        if p.p > self.options.alpha {
            return level(p);
        }
        let shape = match self.shape(&points) {
            (Shape::Drift, _) => Shape::Drift,
            _ => Shape::Undecided,
        };
        let sums = Sums::of(&without_outliers(self.stretch(&points)));
        let step = best_levels(&sums).cuts.first().copied();
        let step_at = step.filter(|_| shape == Shape::Undecided).map(|step| points.start + step);
        Stretch { points, shape, p, step_at }
    }
}

fn larger(a: Drawn, b: Drawn) -> Drawn {
    if a.p > b.p { a } else { b }
}
