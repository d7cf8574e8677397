//! The document of `trend --json`.

use serde::{Deserialize, Serialize};

use crate::compare::Verdict;

/// Format of the document.
pub(super) const TREND_FORMAT: u32 = 1;

/// A history and its changes. Points are counted from 0 in the order of [`Trend::points`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Major format of the document.
    pub format: u32,
    /// The metric.
    pub metric: String,
    /// Unit of its values.
    pub unit: String,
    /// `higher`, `lower`, or `neutral`: which way is better.
    pub direction: String,
    /// What the last level is to the one before: [`Verdict::NoDifference`] where no change was shown.
    pub verdict: Verdict,
    /// Places where the level changed, oldest first.
    pub change_points: Vec<ChangePoint>,
    /// Stretches that are no one level and no step, oldest first.
    pub drifts: Vec<Drift>,
    /// The stretches between the change points, oldest first; empty without a test.
    pub levels: Vec<Level>,
    /// Newest points that lie far from the last level and are too few to be one; null if there are none.
    pub newest: Option<NewestPoints>,
    /// All points, those without a value too.
    pub points: Vec<Point>,
    /// Points that have a value.
    pub n: usize,
    /// Whether sizes are ratios or differences.
    pub scale: Scale,
    /// Standard deviation of the points about their levels: in per cent of the level, or on a linear scale in the unit;
    /// null without a test.
    pub noise: Option<f64>,
    /// The correlation of neighbouring points' noise; null without a test.
    pub correlation: Option<Correlation>,
    /// The step in the middle of the history, in the terms of `noise`, that would be found in about 80 % of all repetitions;
    /// null without a test.
    pub detectable: Option<f64>,
    /// The chance of any false change that was accepted.
    pub alpha: f64,
    /// The chance that was accepted of calling a drift steps.
    pub shape_alpha: f64,
    /// Seed of the random orders.
    pub seed: u64,
    /// Why nothing was tested; null if it was.
    pub not_tested: Option<String>,
    /// Notes a reader of the whole must know.
    pub notes: Vec<String>,
}

/// On which scale values are searched and sizes given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Logarithms: sizes are ratios.
    Log,
    /// The values as they are, some of which are zero or negative.
    Linear,
}

/// One point of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Directory as it was given.
    pub dir: String,
    /// When its first run began, ns since the epoch; null if not known.
    pub time_ns: Option<i64>,
    /// Mean of its runs; null with the reason in `reason`.
    pub value: Option<f64>,
    /// Standard deviation of its runs; null for fewer than two.
    pub sd: Option<f64>,
    /// Runs that count.
    pub n: usize,
    /// Why there is no value.
    pub reason: Option<String>,
    /// It lies far from its neighbours and was replaced by their median in the search.
    pub outlier: bool,
    /// Command lines of its runs, each once.
    pub commands: Vec<String>,
    /// Its runs, excluded ones too.
    pub runs: Vec<PointRun>,
}

/// One run of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointRun {
    /// Directory of the recording.
    pub dir: String,
    /// Its value of the metric; null with the reason in `reason`.
    pub value: Option<f64>,
    /// Why it does not count.
    pub reason: Option<String>,
}

/// A place where the level changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Last point of the old level.
    pub before: usize,
    /// First point of the new one.
    pub after: usize,
    /// First and last point that may be the first of the new level, with 95 % confidence; null beside a drift.
    pub after_ci95: Option<[usize; 2]>,
    /// Change in per cent of the old level; null if that is 0.
    pub pct: Option<f64>,
    /// 95 % interval of `pct`; on a linear scale without the uncertainty of the old level.
    pub pct_ci95: Option<[f64; 2]>,
    /// The p value, corrected for all places where a change was looked for.
    pub p: f64,
    /// No random order was as extreme: p is the smallest that the number of orders can give.
    pub p_is_least: bool,
    /// Whether the new level is better.
    pub verdict: Verdict,
}

/// A stretch between two change points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// First point.
    pub first: usize,
    /// Last point.
    pub last: usize,
    /// Points with a value.
    pub n: usize,
    /// What it looks like.
    pub shape: Shape,
    /// Its mean without outliers, in the unit: the geometric one on a log scale.
    pub level: f64,
    /// 95 % interval of the mean; null if nothing is left to estimate the noise from.
    pub level_ci95: Option<[f64; 2]>,
    /// The line through it at its first and last point; null for a level.
    pub line: Option<[f64; 2]>,
}

/// What a stretch between change points looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// One level.
    Level,
    /// A slope.
    Drift,
    /// It is no one level, and whether it is a slope or a step cannot be told.
    Undecided,
}

/// A stretch that is no one level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// First point.
    pub first: usize,
    /// Last point.
    pub last: usize,
    /// A drift, or undecided.
    pub shape: Shape,
    /// Change along the line from the first to the last point, in per cent; null if it begins at 0.
    pub pct: Option<f64>,
    /// 95 % interval of `pct`.
    pub pct_ci95: Option<[f64; 2]>,
    /// The p value of one level, corrected for all places.
    pub p: f64,
    /// No random order was as extreme: p is the smallest that the number of orders can give.
    pub p_is_least: bool,
    /// If it is a step: the first point of the new level. Null for a drift.
    pub step_at: Option<usize>,
    /// Whether the way it goes is better.
    pub verdict: Verdict,
}

/// Newest points far from the last level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NewestPoints {
    /// Number of points.
    pub points: usize,
    /// Their distance from the last level in per cent of it; null if that is 0.
    pub pct: Option<f64>,
    /// Whether that is better.
    pub verdict: Verdict,
}

/// The correlation of neighbouring points' noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Correlation {
    /// Of neighbours, -1 to 1.
    pub neighbours: f64,
    /// It is more than chance, so that tests and intervals allow for it.
    pub allowed_for: bool,
}

/// The last change of a history, a step or a drift.
struct LastChange {
    verdict: Verdict,
    pct: Option<f64>,
    said: String,
}

impl Trend {
    /// Why `--check` fails, if it does: the last change is for the worse, by more than `threshold` per cent where that is given;
    /// nothing was tested; or the newest point has no value, so that it is not known.
    pub fn bad_answer(&self, threshold: Option<f64>) -> Option<String> {
        if let Some(newest) = self.points.last()
            && newest.value.is_none()
        {
            let why = newest.reason.as_deref().unwrap_or("it was not measured");
            return Some(format!("the newest point, {}, has no value of {}: {why}", newest.dir, self.metric));
        }
        if let Some(why) = &self.not_tested {
            return Some(format!("nothing was tested: {why}"));
        }
        let last = self.last_change()?;
        let allowed = threshold.zip(last.pct).is_some_and(|(threshold, pct)| pct.abs() <= threshold);
        (last.verdict == Verdict::Worse && !allowed).then(|| format!("{} is worse: {}", self.metric, last.said))
    }

    fn last_change(&self) -> Option<LastChange> {
        let said = |pct: Option<f64>, place: String| match pct {
            Some(pct) => format!("{pct:+.2} % {place}"),
            None => place,
        };
        let dir = |at: usize| self.points.get(at).map_or("", |point| point.dir.as_str());
        let step = self.change_points.last();
        let drift = self.drifts.last().filter(|drift| step.is_none_or(|step| drift.first >= step.after));
        if let Some(drift) = drift {
            let place = format!("from {} to {}", dir(drift.first), dir(drift.last));
            return Some(LastChange { verdict: drift.verdict, pct: drift.pct, said: said(drift.pct, place) });
        }
        let step = step?;
        let place = format!("since {}", dir(step.after));
        Some(LastChange { verdict: step.verdict, pct: step.pct, said: said(step.pct, place) })
    }

    /// What the last level is to the one before.
    pub(super) fn last_verdict(&self) -> Verdict {
        self.last_change().map_or(Verdict::NoDifference, |last| last.verdict)
    }
}
