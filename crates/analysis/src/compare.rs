//! Two sets of runs: are they different, in what, and why.
//!
//! [`Comparison`] is the document that `compare --json` prints: keys of the contract first, additions after them.

mod accounts;
mod assemble;
mod at_equal_speed;
mod budget;
mod by_time;
mod caveats;
mod claims;
mod design;
mod exclusions;
mod facts;
mod failures;
mod latency;
mod levels;
mod limits;
mod loss;
mod make;
mod mechanisms;
mod moved;
mod nothing_shown;
mod options;
mod places;
mod primary;
mod profile;
mod separators;
mod speed;
mod stability;
mod stability_notes;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::evidence::Account;
use crate::rules::{Considered, ErrorRate, Finding, Unexplained};
use crate::settings_diff::{FollowingSetting, SettingDiff, VaryingSetting};
use crate::stats;
use pagelab_views::run::RunData;

pub use budget::{BudgetComparison, ComponentChange, MissingPart};
pub use claims::{RecorderShare, Unknown, UnknownComponent, UnknownPlace};
pub use design::design;
pub use exclusions::Exclusions;
pub(crate) use facts::command;
pub use facts::{Facts, Power, SideFacts};
pub use failures::{FailedRuns, Failures};
pub use latency::LatencyChange;
pub use limits::{Limit, LimitAnswer, LimitState};
pub use make::{compare, compare_runs, load_side};
pub use mechanisms::MechanismChange;
pub use moved::Moved;
pub(crate) use moved::sign_of;
pub use nothing_shown::{NothingShown, RunsNeeded};
pub use options::{CompareOptions, DesignChoice, PrimaryChoice};
pub use places::{ComponentPlaces, PlaceChange};
pub(crate) use primary::PrimaryMetric;
pub use stability::{
    Drift, Mode, Outliers, OutlyingRun, SeparatingMetric, SeparatingSetting, Separators, SideStability, Stability,
    TwoModes,
};

/// Format of the document.
pub(crate) const COMPARE_FORMAT: u32 = 1;

/// The test that the design of the runs calls for; the p value has no part in the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonMethod {
    /// Welch's unequal-variance t-test, for runs that were made independently of each other.
    Welch,
    /// The mean log ratio of rounds in which each side ran once, with its t interval.
    PairedBlocks,
}

impl ComparisonMethod {
    fn of(design: stats::Design) -> Self {
        match design {
            stats::Design::Unpaired => Self::Welch,
            stats::Design::Blocks => Self::PairedBlocks,
        }
    }

    /// The word in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Welch => "welch",
            Self::PairedBlocks => "paired_blocks",
        }
    }
}

/// The comparison of two sets of runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Comparison {
    /// Major format of the document.
    pub format: u32,
    /// The test that the design of the runs calls for.
    pub method: ComparisonMethod,
    /// The base's runs.
    pub base: SideRuns,
    /// The test side's runs.
    pub test: SideRuns,
    /// The metric named before the runs, tested alone; null if the runs have none in common.
    pub primary: Option<Primary>,
    /// Families of tests over which false findings are controlled.
    pub families: Vec<Family>,
    /// All metrics, the most certain difference first; those not tested last.
    pub metrics: Vec<MetricComparison>,
    /// Where the difference is: the components of the account of time; null unless both sides have one.
    #[serde(default)]
    pub budget: Option<BudgetComparison>,
    /// Frames of profiles; empty without profiles.
    pub profile: Vec<ProfileFrame>,
    /// Settings that differ, most relevant first.
    pub settings: Vec<SettingDiff>,
    /// Causes, most certain first.
    pub findings: Vec<Finding>,
    /// Level of the decisions.
    pub alpha: f64,
    /// Runs were added after looking: the p values do not hold.
    pub exploratory: bool,
    /// Settings that varied within a side, from which nothing is concluded.
    pub settings_varying: Vec<VaryingSetting>,
    /// Settings that differ because the kernels do, and bear little on speed; not among `settings`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings_following: Vec<FollowingSetting>,
    /// Every rule with its outcome, those that led to nothing too.
    pub considered: Vec<Considered>,
    /// Notes a reader of the whole must know.
    pub notes: Vec<String>,
    /// The sides' commands, the spread of their values of the primary metric, and the smallest difference this number
    /// of runs can show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Facts>,
    /// Runs that failed or were ended by the timeout, and whether one side has more of them.
    #[serde(default)]
    pub failures: Failures,
    /// Drift, outliers and modes of the primary metric within each side; null without a primary metric. Its notes are to be
    /// read before the verdict.
    #[serde(default)]
    pub stability: Option<Stability>,
    /// The part of the loss that the findings leave over; null without findings that state their share.
    #[serde(default)]
    pub unexplained: Option<Unexplained>,
    /// What no cause claims of the loss, by the account of time; null without one, and where little is left.
    #[serde(default)]
    pub unknown: Option<Unknown>,
    /// Quantiles of the operations' latency; empty unless every run of both sides carries a distribution. They are a family of
    /// their own.
    #[serde(default)]
    pub latency: Vec<LatencyChange>,
    /// The metrics that differ most, where too few runs were made to test anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub largest_changes: Vec<LargestChange>,
    /// How often each word of confidence was wrong in cases whose truth was known, and where.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_rates: Vec<ErrorRate>,
    /// The recorder's own part of the loss, where it is worth a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder: Option<RecorderShare>,
    /// Why no cause is named, in a sentence, where none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_cause: Option<String>,
    /// Why no metric decides, where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_primary: Option<String>,
    /// Losses that `--check` lets pass, and what became of them; empty where none was named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitAnswer>,
}

/// A metric that differs between sides of too few runs to test it: it may be chance.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct LargestChange {
    /// Name.
    pub name: String,
    /// Device, CPU, job, ...
    pub instance: Option<String>,
    /// Unit of the means.
    pub unit: String,
    /// Base.
    pub base: Option<f64>,
    /// Test side.
    pub test: Option<f64>,
    /// test / base; null where the base is 0.
    pub ratio: Option<f64>,
}

impl Comparison {
    /// Why the answer is a bad one, in a sentence; `None` if the test side is no worse, or no worse than the limits let pass.
    /// No answer is not a good one: where nothing could be tested, nothing says that the test side is no worse.
    pub fn bad_answer(&self) -> Option<String> {
        let of_primary = || {
            let name = self.primary.as_ref().map(|primary| primary.metric.as_str());
            let is_limited = self.limits.iter().any(|limit| Some(limit.metric.as_str()) == name);
            if is_limited { None } else { self.bad_primary() }
        };
        let bad: Vec<String> = self.limits.iter().filter(|limit| limit.is_bad()).map(ToString::to_string).collect();
        self.bad_failures().or_else(of_primary).or_else(|| (!bad.is_empty()).then(|| bad.join("; ")))
    }

    fn bad_failures(&self) -> Option<String> {
        let Failures { base, test, p, verdict } = &self.failures;
        if test.runs > 0 && test.bad() == test.runs && base.bad() < base.runs {
            return Some(format!(
                "all {} test runs failed or timed out, {} of {} base runs did",
                test.runs,
                base.bad(),
                base.runs
            ));
        }
        if *verdict != Verdict::Worse {
            return None;
        }
        let p = p.map_or_else(String::new, |p| format!(" (p = {p:.2e})"));
        let shares = format!("{} of {} test runs, {} of {} base runs", test.bad(), test.runs, base.bad(), base.runs);
        Some(format!("more test runs failed or timed out: {shares}{p}"))
    }

    /// Where a side has no run that counts: why.
    fn without_runs(&self) -> Option<Exclusions> {
        let mut sides = [("base", &self.base), ("test", &self.test)].into_iter();
        sides.find_map(|(name, side)| side.exclusions(name).filter(|_| side.n == 0))
    }

    fn bad_primary(&self) -> Option<String> {
        let is_tested = self.primary.as_ref().is_some_and(|primary| primary.verdict != Verdict::NotTested);
        if let Some(why) = self.without_runs().filter(|_| !is_tested) {
            return Some(format!("nothing was tested: {why}"));
        }
        let Some(primary) = &self.primary else {
            return Some("nothing was tested: there is no primary metric; name one with --metric".to_owned());
        };
        match primary.verdict {
            Verdict::Worse => Some(format!("test is worse in {}", primary.metric)),
            Verdict::NotTested => {
                let why = primary.result.note.as_deref().unwrap_or("not tested");
                let (base, test) = (self.base.n, self.test.n);
                Some(format!("nothing was tested: {} of {base} base and {test} test runs: {why}", primary.metric))
            }
            Verdict::Better | Verdict::Different | Verdict::NoDifference => None,
        }
    }

    /// The comparison of one metric.
    pub fn metric(&self, name: &str, instance: Option<&str>) -> Option<&MetricComparison> {
        self.metrics.iter().find(|m| m.name == name && m.instance.as_deref() == instance)
    }

    /// Metrics found different, the most certain first.
    pub fn significant(&self) -> impl Iterator<Item = &MetricComparison> {
        self.metrics.iter().filter(|m| m.significant == Some(true))
    }
}

/// The runs of one side.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SideRuns {
    /// The runs' name, for display only.
    pub label: String,
    /// All runs, excluded ones too.
    pub runs: Vec<RunEntry>,
    /// Number of runs that count.
    pub n: usize,
}

impl SideRuns {
    /// Why runs of this side count nowhere, the side being called so; `None` if all count.
    pub fn exclusions(&self, name: &str) -> Option<Exclusions> {
        Exclusions::of(name, self.runs.iter().map(|run| (Path::new(&run.dir), run.excluded.as_ref())))
    }
}

/// One run of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RunEntry {
    /// Directory of the recording.
    pub dir: String,
    /// Number within its variant.
    pub run: Option<u64>,
    /// Round (block) of the experiment.
    pub round: Option<u64>,
    /// Why it does not count; null if it does.
    pub excluded: Option<pagelab_views::run::Exclusion>,
    /// Its value of the primary metric.
    pub primary: Option<f64>,
    /// Notes a reader of its numbers must know.
    pub notes: Vec<String>,
}

/// The primary metric, named before the runs and tested alone.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Primary {
    /// Name.
    pub metric: String,
    /// Unit, see [`MetricComparison::unit`].
    pub unit: String,
    /// Mean of the base's runs.
    pub base_mean: Option<f64>,
    /// Mean of the test side's runs.
    pub test_mean: Option<f64>,
    /// test / base.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub ratio_ci95: Option<[f64; 2]>,
    /// p value of the document's method.
    pub p: Option<f64>,
    /// `higher` or `lower` is better.
    pub direction: String,
    /// p <= alpha.
    pub significant: Option<bool>,
    /// What that means.
    pub verdict: Verdict,
    /// The smallest relative change that such runs would show in four cases of five (0.05 is 5 %); null where no t test
    /// was made.
    #[serde(default)]
    pub detectable: Option<f64>,
    /// How large a difference is excluded, and how many runs would find one; its keys are those of this object.
    #[serde(flatten)]
    pub nothing_shown: NothingShown,
    /// All of the test.
    pub result: stats::TestResult,
}

impl Primary {
    /// How many times as bad the test side is, by time where less is better and by its inverse where more is: the interval of that.
    pub(crate) fn times_worse(&self) -> Option<[f64; 2]> {
        let [low, high] = self.ratio_ci95.filter(|[low, _]| *low > 0.0)?;
        match self.direction.as_str() {
            "lower" => Some([low, high]),
            "higher" => Some([1.0 / high, 1.0 / low]),
            _ => None,
        }
    }
}

/// The result for the primary metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The test side is better.
    Better,
    /// The test side is worse: a regression.
    Worse,
    /// It differs, and neither way is better.
    Different,
    /// No difference was shown; that is not proof that there is none.
    NoDifference,
    /// There was no test.
    NotTested,
}

/// A family of tests.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Family {
    /// Name: `metrics`, `budget`, `profile`, `latency`.
    pub name: String,
    /// Number of tests in it, whatever is displayed.
    pub size: usize,
    /// What its q values are held to: alpha where the primary metric differs, a small part of it where it does not, so that all
    /// families together err hardly more often than alpha between sides that are alike.
    #[serde(default)]
    pub level: f64,
}

/// One metric of the comparison. What does not exist is null, and the note says why.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct MetricComparison {
    /// Name, see [`pagelab_views::run::MetricKey`].
    pub name: String,
    /// Device, CPU, job, ...
    pub instance: Option<String>,
    /// Unit of the means: `count/op`, `ns/s`, `bytes`, ...
    pub unit: String,
    /// Whether the numbers are per operation; else a counter's are per second.
    pub per_operation: bool,
    /// Base.
    pub base: stats::Side,
    /// Test side.
    pub test: stats::Side,
    /// Test statistic; positive where the test side is larger.
    pub t: Option<f64>,
    /// Degrees of freedom.
    pub df: Option<f64>,
    /// Two-sided p value.
    pub p: Option<f64>,
    /// Benjamini-Hochberg q value in the family.
    pub q: Option<f64>,
    /// Standardised difference.
    pub hedges_g: Option<f64>,
    /// test / base.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub ratio_ci95: Option<[f64; 2]>,
    /// The decision: q is at most the family's level, and no loss could explain it.
    pub significant: Option<bool>,
    /// Notes a reader of the numbers must know.
    pub note: Option<String>,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// Which way is better: `higher`, `lower` or `neutral`.
    pub direction: String,
    /// Whether it was tested, and if not, what the data say.
    pub outcome: stats::Outcome,
    /// The test applied.
    pub method: Option<stats::Method>,
    /// Welch's test, printed for every method.
    pub welch: Option<stats::WelchResult>,
    /// ln p, which stays exact where p prints as 0.
    pub ln_p: Option<f64>,
    /// Whether recording itself moves it visibly: what rests on it alone needs a second witness.
    pub self_inflicted: bool,
    /// It differs only as the speed does: a counter that is the same per run (or, of jobs, per second), or a level of the target,
    /// which was watched for longer. Null unless it differs and the primary metric is a time or a speed that does.
    #[serde(default)]
    pub follows_speed: Option<bool>,
}

#[cfg(test)]
impl MetricComparison {
    /// One without numbers, for tests.
    pub(crate) fn unmeasured(outcome: stats::Outcome) -> Self {
        Self {
            name: String::new(),
            instance: None,
            unit: String::new(),
            per_operation: false,
            base: stats::Side::default(),
            test: stats::Side::default(),
            t: None,
            df: None,
            p: None,
            q: None,
            hedges_g: None,
            ratio: None,
            ratio_ci95: None,
            significant: None,
            note: None,
            kind: String::new(),
            direction: String::new(),
            outcome,
            method: None,
            welch: None,
            ln_p: None,
            self_inflicted: false,
            follows_speed: None,
        }
    }
}

/// One frame of the profile comparison.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ProfileFrame {
    /// Function.
    pub frame: String,
    /// Nanoseconds per operation in the base.
    pub base_ns_per_op: Option<f64>,
    /// Nanoseconds per operation on the test side.
    pub test_ns_per_op: Option<f64>,
    /// Difference.
    pub delta_ns_per_op: Option<f64>,
    /// Share of the total difference.
    pub explained_pct: Option<f64>,
    /// Share of all samples in the base.
    pub base_share: Option<f64>,
    /// Share of all samples on the test side.
    pub test_share: Option<f64>,
    /// Two-sided p value.
    pub p: Option<f64>,
    /// q value in the family of frames.
    pub q: Option<f64>,
    /// The decision: q is at most the family's level.
    #[serde(default)]
    pub significant: Option<bool>,
}

/// What the rules are given (`rules::diagnose(&CompareInputs) -> Result<Diagnosis>`): the runs that count, and the
/// comparison as far as it is made: all but `findings` and `considered`.
#[derive(Debug, Clone, Copy)]
pub struct CompareInputs<'a> {
    /// Runs of the base, without the excluded ones.
    pub base: &'a [&'a RunData],
    /// Runs of the test side, without the excluded ones.
    pub test: &'a [&'a RunData],
    /// What the time of each run of the base was spent on; `None` where states of tasks were not recorded.
    pub base_accounts: &'a [Option<Account>],
    /// The same of the test side.
    pub test_accounts: &'a [Option<Account>],
    /// Metrics tested and settled, settings ranked; `findings` still empty.
    pub comparison: &'a Comparison,
}
