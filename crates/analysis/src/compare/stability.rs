//! Whether the runs of a side are of one kind: drift, outliers and two modes of the primary metric within it.
//!
//! A t test takes the runs of a side as draws from one distribution. Runs that drift, that hold one far value or that
//! fall into two groups are not, and the p value of such sides says less than it seems to: first touches of memory that
//! a hypervisor must fetch can make two sets of the same program `better`. The verdict stays as it is; what was found
//! is said before it.
//!
//! Seven questions are asked under one level of 5 %, see [`stats::check_sides`]: at most 5 % of comparisons whose sides
//! are clean get any note.

use pagelab_vocab::absence::Absence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::design::lifetime;
use super::separators::separators;
pub use super::separators::{SeparatingMetric, SeparatingSetting, Separators};
use super::stability_notes::notes;
use super::{Comparison, Primary, RunEntry, SideRuns};
use crate::stats::{self, Checks, Design, Modes, SideChecks, SideValues, Undefined, check_sides, sen_rise};
use pagelab_views::run::RunData;

/// Share of clean comparisons that may get a note.
const LEVEL: f64 = 0.05;
/// Seed of the draws that the test for modes is made of.
const SEED: u64 = 1;

/// Whether each side's runs are of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Stability {
    /// Share of clean comparisons that get any note at most, 0.05 for 5 %.
    pub level: f64,
    /// Questions among which the level is divided, 1 at least: those that this number of runs can answer yes to.
    pub questions: usize,
    /// p value up to which each answer is yes: `level` / `questions`.
    pub threshold: f64,
    /// A drift that both sides share.
    pub both: Drift,
    /// The base.
    pub base: SideStability,
    /// The test side.
    pub test: SideStability,
    /// What was found and what to do about it, a sentence or two each; empty for clean sides.
    pub notes: Vec<String>,
}

/// Whether the runs of one side are of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SideStability {
    /// Runs that count and have a value of the primary metric.
    pub n: usize,
    /// What put the runs in order: `time` (their start), `round` or `run` (their number); null if nothing does.
    pub order: Option<String>,
    /// Whether values rise or fall in that order.
    pub drift: Drift,
    /// Whether single runs lie far from all others.
    pub outliers: Outliers,
    /// Whether the runs fall into two groups.
    pub modes: TwoModes,
}

/// A rank test of the values against their order, see [`stats::drift()`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema, Deserialize)]
pub struct Drift {
    /// p is at most the threshold; null if not tested.
    pub found: Option<bool>,
    /// Two-sided p value.
    pub p: Option<f64>,
    /// Kendall's tau, -1 (falls throughout) to 1 (rises throughout).
    pub tau: Option<f64>,
    /// From the first run to the last by Sen's slope, in per cent of the median; of one side only.
    pub change_pct: Option<f64>,
    /// Why it was not tested.
    pub note: Option<String>,
}

/// A test of the farthest values, see [`stats::outliers()`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema, Deserialize)]
pub struct Outliers {
    /// p is at most the threshold; null if not tested.
    pub found: Option<bool>,
    /// p value of the run farthest out.
    pub p: Option<f64>,
    /// The outliers, the farthest first.
    pub runs: Vec<OutlyingRun>,
    /// Why it was not tested.
    pub note: Option<String>,
}

/// A run that lies far from the others.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct OutlyingRun {
    /// Directory of the recording.
    pub dir: String,
    /// Its value of the primary metric.
    pub value: f64,
    /// Distance from the mean of the others, in their standard deviations.
    pub deviations: f64,
    /// p value of its step, after those before it were taken out.
    pub p: f64,
}

/// A test of the best split of the runs in two, see [`stats::modes()`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema, Deserialize)]
pub struct TwoModes {
    /// p is at most the threshold; null if not tested.
    pub found: Option<bool>,
    /// p value.
    pub p: Option<f64>,
    /// The group of lower values; null unless two modes were found.
    pub lower: Option<Mode>,
    /// The group of higher values; null unless two modes were found.
    pub upper: Option<Mode>,
    /// What else tells the groups apart; null unless two modes were found.
    pub separators: Option<Separators>,
    /// Why it was not tested.
    pub note: Option<String>,
}

/// The runs of one mode.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Mode {
    /// Runs.
    pub n: usize,
    /// Mean of the primary metric, in its unit.
    pub mean: f64,
    /// Directories of the recordings, in order.
    pub runs: Vec<String>,
    /// `first` or `last` where they are exactly the first or the last of the side in order.
    pub place: Option<String>,
}

/// The runs of one side that have a value, in order.
struct Ordered<'a> {
    runs: Vec<&'a RunData>,
    values: Vec<f64>,
    order: Option<&'static str>,
}

impl<'a> Ordered<'a> {
    /// `runs` are all of the side, as `side` lists them.
    fn of(side: &SideRuns, runs: &[&'a RunData], primary: &Primary) -> Self {
        let counts = |entry: &RunEntry| entry.excluded.is_none() && entry.primary.is_some_and(f64::is_finite);
        let mut counted: Vec<&RunData> =
            side.runs.iter().zip(runs).filter(|(entry, _)| counts(entry)).map(|(_, run)| *run).collect();
        let order = if counted.iter().all(|run| lifetime(run).is_some()) {
            counted.sort_by_key(|run| lifetime(run).map(|(from, _)| from));
            Some("time")
        } else if counted.iter().all(|run| run.manifest.round.is_some()) {
            counted.sort_by_key(|run| run.manifest.round);
            Some("round")
        } else if counted.iter().all(|run| run.manifest.run.is_some()) {
            counted.sort_by_key(|run| run.manifest.run);
            Some("run")
        } else {
            None
        };
        let values = counted.iter().filter_map(|run| value(run, primary)).collect();
        Self { runs: counted, values, order }
    }

    fn values(&self) -> SideValues<'_> {
        SideValues { values: &self.values, ordered: self.order.is_some() }
    }
}

/// The value of the primary metric in the form in which it was tested.
fn value(run: &RunData, primary: &Primary) -> Option<f64> {
    let (name, instance) = match primary.metric.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        Some((name, instance)) => (name, Some(instance)),
        None => (primary.metric.as_str(), None),
    };
    let metric = run.metric(name, instance)?;
    if primary.unit.ends_with("/op") { metric.per_operation.or(metric.value) } else { metric.value }
}

/// Asks the seven questions; `None` without a primary metric. `base` and `test` are the runs that the comparison lists.
pub(super) fn stability(
    comparison: &Comparison,
    base: &[&RunData],
    test: &[&RunData],
    design: Design,
) -> Option<Stability> {
    let primary = comparison.primary.as_ref()?;
    let [base, test] =
        [(&comparison.base, base), (&comparison.test, test)].map(|(side, runs)| Ordered::of(side, runs, primary));
    let checks = check_sides([base.values(), test.values()], LEVEL, SEED);
    let Checks { questions, threshold, both, sides: [of_base, of_test] } = checks;
    let mut found = Stability {
        level: LEVEL,
        questions,
        threshold,
        both: drift_of(&both, None, threshold),
        base: side_of(&base, &of_base, primary, threshold),
        test: side_of(&test, &of_test, primary, threshold),
        notes: Vec::new(),
    };
    found.notes = notes(&found, design, &primary.unit);
    Some(found)
}

fn untested(why: Undefined) -> String {
    Absence::not_tested(why.to_string()).to_string()
}

fn side_of(side: &Ordered, checks: &SideChecks, primary: &Primary, threshold: f64) -> SideStability {
    SideStability {
        n: side.values.len(),
        order: side.order.map(str::to_owned),
        drift: drift_of(&checks.drift, Some(&side.values), threshold),
        outliers: match &checks.outliers {
            Ok(found) => Outliers {
                found: Some(found.p <= threshold),
                p: Some(found.p),
                runs: found.found.iter().filter_map(|one| outlying(side, one)).collect(),
                note: None,
            },
            Err(why) => Outliers { note: Some(untested(*why)), ..Outliers::default() },
        },
        modes: match &checks.modes {
            Ok(found) => modes_of(side, found, primary, threshold),
            Err(why) => TwoModes { note: Some(untested(*why)), ..TwoModes::default() },
        },
    }
}

/// `values` are those of the side, where the drift is of one.
fn drift_of(drift: &Result<stats::Drift, Undefined>, values: Option<&[f64]>, threshold: f64) -> Drift {
    let stats::Drift { tau, p, .. } = match drift {
        Ok(drift) => *drift,
        Err(why) => return Drift { note: Some(untested(*why)), ..Drift::default() },
    };
    let change = values.and_then(|values| Some(100.0 * sen_rise(values).ok()? / stats::median(values).ok()?.abs()));
    Drift {
        found: Some(p <= threshold),
        p: Some(p),
        tau: Some(tau),
        change_pct: change.filter(|change| change.is_finite()),
        note: None,
    }
}

fn outlying(side: &Ordered, one: &stats::Outlier) -> Option<OutlyingRun> {
    Some(OutlyingRun {
        dir: side.runs.get(one.index)?.dir.display().to_string(),
        value: *side.values.get(one.index)?,
        deviations: one.deviations,
        p: one.p,
    })
}

fn modes_of(side: &Ordered, found: &Modes, primary: &Primary, threshold: f64) -> TwoModes {
    let mut out = TwoModes { found: Some(found.p <= threshold), p: Some(found.p), ..TwoModes::default() };
    if found.p <= threshold {
        let runs = |places: &[usize]| -> Vec<&RunData> {
            places.iter().filter_map(|at| side.runs.get(*at).copied()).collect()
        };
        out.lower = Some(mode(side, &found.lower));
        out.upper = Some(mode(side, &found.upper));
        out.separators = Some(separators(&runs(&found.lower), &runs(&found.upper), &primary.metric));
    }
    out
}

fn mode(side: &Ordered, places: &[usize]) -> Mode {
    let values: Vec<f64> = places.iter().filter_map(|place| side.values.get(*place).copied()).collect();
    let runs = places.iter().filter_map(|place| side.runs.get(*place)).map(|run| run.dir.display().to_string());
    let n = side.values.len();
    let is_at = |from: usize| side.order.is_some() && places.iter().copied().eq(from..from + places.len());
    let place = if is_at(0) {
        Some("first")
    } else if is_at(n - places.len()) {
        Some("last")
    } else {
        None
    };
    Mode {
        n: places.len(),
        mean: values.iter().sum::<f64>() / values.len() as f64,
        runs: runs.collect(),
        place: place.map(str::to_owned),
    }
}
