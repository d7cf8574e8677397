//! Making the document.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pagelab_recording::Bounds;
use pagelab_vocab::metrics::Direction;

use super::detect::{DetectOptions, Found, detect};
use super::document::{ChangePoint, Correlation, Drift, Level, NewestPoints, Point, Scale, TREND_FORMAT, Trend};
use super::levels::{Description, Estimate};
use super::points::{RunsOfPoint, counted, load, one_unit, point};
use crate::compare::{CompareOptions, PrimaryChoice, PrimaryMetric, Verdict};
use crate::error::{AnalysisError, Result};

/// In which order points stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By the time at which their first run began.
    #[default]
    Time,
    /// As they are given.
    Given,
}

/// Options of [`trend`].
#[derive(Debug, Clone, Default)]
pub struct TrendOptions {
    /// The metric, named before looking. Default: as for a comparison.
    pub metric: Option<PrimaryChoice>,
    /// The variant to look at, where points are sets of several.
    pub variant: Option<String>,
    /// The order of the points.
    pub order: Order,
    /// The part of each recording's time that counts.
    pub bounds: Bounds,
    /// Levels and seed of the tests.
    pub detect: DetectOptions,
}

/// Reads the points of a history, each a recording or a folder of recordings, and looks for changes of its level.
///
/// # Errors
/// Fewer than two points, and directories, variants, units or metrics that make no history; the message says what is
/// needed. A point that has no value is no error: it stands in the document with the reason.
pub fn trend(dirs: &[PathBuf], options: &TrendOptions) -> Result<Trend> {
    if !(options.detect.alpha > 0.0 && options.detect.alpha < 1.0) {
        return Err(AnalysisError::BadAlpha { alpha: options.detect.alpha });
    }
    if dirs.len() < 2 {
        let found = dirs.first().map_or_else(|| "no point".to_owned(), |dir| format!("one point, {}", dir.display()));
        return Err(AnalysisError::TooFewPoints { found });
    }
    let loaded = load(dirs, options)?;
    let runs = counted(&loaded);
    if runs.is_empty() {
        let why = loaded.iter().flat_map(|point| &point.runs).find_map(|run| match &run.run {
            Err(error) => Some(error.clone()),
            Ok(run) => run.excluded.as_ref().map(ToString::to_string),
        });
        let why = why.map_or_else(String::new, |why| format!(" (the first: {why})"));
        return Err(AnalysisError::TooFewPoints { found: format!("no run that counts{why}") });
    }
    let compared = CompareOptions { primary: options.metric.clone(), ..CompareOptions::default() };
    let Some(metric) = PrimaryMetric::choose(&runs, &compared)? else {
        return Err(AnalysisError::NoPrimary { runs: runs.len() });
    };
    one_unit(&metric, &runs)?;
    let points: Vec<Point> = loaded.iter().map(|of| point(of, &metric)).collect();
    let mut trend = of_points(points, &metric.name, &metric.unit, metric.direction, &options.detect);
    trend.notes.extend(notes(&trend, &loaded, &metric));
    Ok(trend)
}

/// As [`trend`], of the values of points that stand in their order.
pub fn of_values(values: &[f64], metric: &PrimaryChoice, unit: &str, options: &DetectOptions) -> Trend {
    let points = values.iter().enumerate().map(|(at, value)| Point {
        dir: at.to_string(),
        time_ns: None,
        value: Some(*value).filter(|value| value.is_finite()),
        sd: None,
        n: 1,
        reason: (!value.is_finite()).then(|| format!("the value is {value}; a finite number is needed")),
        outlier: false,
        commands: Vec::new(),
        runs: Vec::new(),
    });
    of_points(points.collect(), &metric.metric, unit, metric.direction, options)
}

/// The fewest points of which an order can be so rare that its p is at most alpha: two of all orders of two equal levels of
/// n / 2 points are steps.
fn least_points(alpha: f64) -> usize {
    let mut orders = 1.0;
    let mut n = 0_usize;
    while 2.0 / orders > alpha {
        n += 1;
        // n choose n / 2, from the one before.
        let other = n.div_ceil(2);
        orders = orders * n as f64 / other as f64;
    }
    n
}

fn of_points(points: Vec<Point>, metric: &str, unit: &str, direction: Direction, options: &DetectOptions) -> Trend {
    let known: Vec<usize> = (0..points.len()).filter(|at| points.get(*at).is_some_and(|p| p.value.is_some())).collect();
    let values: Vec<f64> = points.iter().filter_map(|point| point.value).collect();
    let scale = if values.iter().all(|value| *value > 0.0) { Scale::Log } else { Scale::Linear };
    let mut trend = Trend {
        format: TREND_FORMAT,
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        direction: direction.name().to_owned(),
        verdict: Verdict::NotTested,
        change_points: Vec::new(),
        drifts: Vec::new(),
        levels: Vec::new(),
        newest: None,
        n: values.len(),
        points,
        scale,
        noise: None,
        correlation: None,
        detectable: None,
        alpha: options.alpha,
        shape_alpha: options.shape_alpha,
        seed: options.seed,
        not_tested: None,
        notes: Vec::new(),
    };
    let needed = least_points(options.alpha);
    if values.len() < needed {
        trend.not_tested = Some(format!(
            "{} points have a value; at least {needed} are needed at alpha {}; two of them are compared by: pagelab compare DIR DIR",
            values.len(),
            options.alpha
        ));
        return trend;
    }
    let searched: Vec<f64> = match scale {
        Scale::Log => values.iter().map(|value| value.ln()).collect(),
        Scale::Linear => values,
    };
    let found = detect(&searched, options);
    let filler = Filler { description: Description::of(&searched, &found), found: &found, known: &known, direction };
    filler.fill(&mut trend);
    trend
}

/// Carries what was found into the document: indices of values become those of points, logarithms become ratios.
struct Filler<'a> {
    description: Description<'a>,
    found: &'a Found,
    known: &'a [usize],
    direction: Direction,
}

impl Filler<'_> {
    fn fill(&self, trend: &mut Trend) {
        let scale = trend.scale;
        let size = |distance: f64| match scale {
            Scale::Log => 100.0 * distance.exp_m1(),
            Scale::Linear => distance,
        };
        trend.change_points = (0..self.found.cuts.len()).filter_map(|cut| self.change_point(cut, scale)).collect();
        trend.levels = (0..self.found.stretches.len()).filter_map(|stretch| self.level(stretch, scale)).collect();
        trend.drifts = (0..self.found.stretches.len()).filter_map(|stretch| self.drift(stretch, scale)).collect();
        trend.noise = self.description.noise().map(size);
        trend.detectable = self.description.detectable(trend.alpha).map(size);
        trend.correlation = self
            .found
            .correlation
            .map(|neighbours| Correlation { neighbours, allowed_for: self.found.noise.is_correlated() });
        trend.newest = self.description.newest().map(|newest| NewestPoints {
            points: newest.points,
            pct: self.last_level().and_then(|level| pct(newest.distance, level, scale)),
            verdict: self.verdict(newest.distance),
        });
        for outlier in self.description.outliers() {
            if let Some(point) = self.known.get(outlier).and_then(|at| trend.points.get_mut(*at)) {
                point.outlier = true;
            }
        }
        trend.verdict = trend.last_verdict();
    }

    fn last_level(&self) -> Option<f64> {
        Some(self.description.level(self.found.stretches.len().checked_sub(1)?)?.value)
    }

    fn point(&self, value: usize) -> usize {
        self.known.get(value).copied().unwrap_or(value)
    }

    fn change_point(&self, cut: usize, scale: Scale) -> Option<ChangePoint> {
        let place = self.found.cuts.get(cut)?;
        let (jump, before) = self.description.jump(cut)?;
        Some(ChangePoint {
            before: self.point(place.at.checked_sub(1)?),
            after: self.point(place.at),
            after_ci95: self.description.place(cut).map(|range| range.map(|at| self.point(at))),
            pct: pct(jump.value, before, scale),
            pct_ci95: pct_interval(&jump, before, scale),
            p: place.p.p,
            p_is_least: place.p.least,
            verdict: self.verdict(jump.value),
        })
    }

    fn level(&self, stretch: usize, scale: Scale) -> Option<Level> {
        let found = self.found.stretches.get(stretch)?;
        let level = self.description.level(stretch)?;
        let back = |value: f64| if scale == Scale::Log { value.exp() } else { value };
        let half = self.description.drift(stretch).map(|drift| drift.value / 2.0);
        Some(Level {
            first: self.point(found.points.start),
            last: self.point(found.points.end.checked_sub(1)?),
            n: found.points.len(),
            shape: found.shape,
            level: back(level.value),
            level_ci95: level.interval.map(|ends| ends.map(back)),
            line: half.map(|half| [back(level.value - half), back(level.value + half)]),
        })
    }

    fn drift(&self, stretch: usize, scale: Scale) -> Option<Drift> {
        let found = self.found.stretches.get(stretch)?;
        let drift = self.description.drift(stretch)?;
        let begin = self.description.level(stretch)?.value - drift.value / 2.0;
        Some(Drift {
            first: self.point(found.points.start),
            last: self.point(found.points.end.checked_sub(1)?),
            shape: found.shape,
            pct: pct(drift.value, begin, scale),
            pct_ci95: pct_interval(&drift, begin, scale),
            p: found.p.p,
            p_is_least: found.p.least,
            step_at: found.step_at.map(|at| self.point(at)),
            verdict: self.verdict(drift.value),
        })
    }

    fn verdict(&self, change: f64) -> Verdict {
        match self.direction {
            Direction::Neutral => Verdict::Different,
            Direction::HigherIsBetter if change > 0.0 => Verdict::Better,
            Direction::LowerIsBetter if change < 0.0 => Verdict::Better,
            Direction::HigherIsBetter | Direction::LowerIsBetter => Verdict::Worse,
        }
    }
}

/// A distance in per cent of the level it is from.
fn pct(distance: f64, from: f64, scale: Scale) -> Option<f64> {
    let pct = match scale {
        Scale::Log => 100.0 * distance.exp_m1(),
        Scale::Linear => 100.0 * distance / from.abs(),
    };
    pct.is_finite().then_some(pct)
}

fn pct_interval(estimate: &Estimate, from: f64, scale: Scale) -> Option<[f64; 2]> {
    let [low, high] = estimate.interval?;
    Some([pct(low, from, scale)?, pct(high, from, scale)?])
}

/// What a reader of the history must know beside its changes.
fn notes(trend: &Trend, loaded: &[RunsOfPoint], metric: &PrimaryMetric) -> Vec<String> {
    let mut notes = Vec::new();
    let missing: Vec<&Point> = trend.points.iter().filter(|point| point.value.is_none()).collect();
    if let Some(first) = missing.first() {
        let why = first.reason.as_deref().unwrap_or("not measured");
        notes.push(format!("{} of {} points have no value; {}: {why}", missing.len(), trend.points.len(), first.dir));
    }
    let left_out: usize = trend.points.iter().filter(|p| p.value.is_some()).map(|p| p.runs.len() - p.n).sum();
    if left_out > 0 {
        notes.push(format!("{left_out} runs of points that have a value do not count: `runs` of the JSON says why"));
    }
    notes.extend(commands_note(&trend.points));
    notes.extend(hosts_note(loaded));
    if metric.always_moves {
        notes.push(format!("{} follows the clock or the host's past, not the run", metric.name));
    }
    if trend.scale == Scale::Linear && trend.not_tested.is_none() {
        notes.push("some values are zero or negative: the search is for differences and not for ratios".to_owned());
    }
    if let Some(Correlation { neighbours, allowed_for: true }) = trend.correlation {
        notes.push(format!(
            "neighbouring points are correlated by {neighbours:.2}: a change must be larger to be shown, as such noise makes levels of its own"
        ));
    }
    notes
}

/// Where the points' commands change.
fn commands_note(points: &[Point]) -> Option<String> {
    let with: Vec<&Point> = points.iter().filter(|point| !point.commands.is_empty()).collect();
    let changes: Vec<String> = with
        .windows(2)
        .filter_map(|pair| match pair {
            [before, after] if before.commands != after.commands => Some(format!(
                "from {} on: {} (before: {})",
                after.dir,
                after.commands.join("; "),
                before.commands.join("; ")
            )),
            _ => None,
        })
        .collect();
    let first = changes.first()?;
    Some(format!("the command is not the same throughout, it changes at {} points; {first}", changes.len()))
}

fn hosts_note(loaded: &[RunsOfPoint]) -> Option<String> {
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    for run in loaded.iter().flat_map(|point| point.runs.iter().filter_map(|loaded| loaded.run.as_ref().ok())) {
        if let Some(host) = run.manifest.host.as_deref() {
            *hosts.entry(host).or_default() += 1;
        }
    }
    let names: Vec<&str> = hosts.keys().copied().collect();
    (names.len() > 1).then(|| format!("the runs are of {} hosts: {}", names.len(), names.join(", ")))
}
