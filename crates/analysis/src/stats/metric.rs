//! One metric of two sets of runs: which test applies, its result, and the families that tests belong to.

use super::covariate::{Adjusted, WithCovariate, log_ratio_adjusted, paired_log_ratios_adjusted};
use super::equivalence::EQUIVALENCE_LEVEL;
use super::family::benjamini_hochberg;
use super::ranks::rank_sum;
use super::welch::TTest;
use super::{
    Count, Ratio, Summary, Undefined, exact_poisson, fieller, fieller_paired, hedges_g, one_sample, welch_of_summaries,
};
use pagelab_vocab::absence::Absence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A counter of which one side saw fewer events than this, over all its runs, gets the exact conditional test.
pub const SPARSE_EVENTS: u64 = 20;

/// Runs a side from which two constant and different sides are called a deterministic difference. Two sides that are
/// alike fall apart by chance in 2 of C(2n, n) orders of their values: 1 in 3 at n = 2, 1 in 10 at 3, 1 in 35 at 4.
pub const LEAST_DETERMINISTIC: usize = 4;

/// Relative difference below which two values are one: what is left of the rounding of sums of doubles.
const ROUNDING: f64 = 1e-12;

/// Level of every interval in a [`TestResult`], whatever alpha the decision uses.
const INTERVAL_LEVEL: f64 = 0.95;

/// How the runs were laid out. The method of testing follows from this and from the kind of data, never from a p value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// Two sets of runs without a common order.
    Unpaired,
    /// Randomised complete blocks: each round holds one run of either side.
    Blocks,
}

/// The test that was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Welch's t test of the difference of means.
    WelchUnpaired,
    /// One-sample t test of the log ratios per round.
    PairedBlocks,
    /// One-sample t test of the differences per round, where values are not all positive.
    PairedDifferences,
    /// Exact conditional test of two Poisson rates.
    ExactPoisson,
    /// Exact rank-sum test in which runs that the timeout ended rank as the slowest.
    RankSumCensored,
    /// t test of the log ratios per round at equal covariates, see [`test_at_equal_covariates`].
    PairedBlocksAdjusted,
    /// t test of the difference of mean logarithms at equal covariates, of unpaired runs.
    UnpairedAdjusted,
}

/// Which way the test side differs from the base, by the estimate that was tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The test side is larger.
    Rises,
    /// The test side is smaller.
    Falls,
    /// Neither.
    Equal,
}

impl Change {
    /// The sign of an estimate of test - base, or of ln(test / base).
    pub fn of(estimate: f64) -> Self {
        if estimate > 0.0 {
            Self::Rises
        } else if estimate < 0.0 {
            Self::Falls
        } else {
            Self::Equal
        }
    }

    fn opposes(self, other: Self) -> bool {
        matches!((self, other), (Self::Rises, Self::Falls) | (Self::Falls, Self::Rises))
    }
}

/// Whether there is a test, and if not, what the data say instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A p value exists and counts in its family.
    Tested,
    /// No test is possible or meaningful; the note says why.
    NotTested,
    /// Both sides are constant and differ. No chance is involved that a p value could describe, so the metric is
    /// reported outside the family.
    DeterministicDifference,
}

/// One metric of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The run's value; NaN where the run has none.
    pub value: f64,
    /// The round the run belongs to.
    pub round: Option<u32>,
    /// For counters: the events behind `value`, over the seconds or operations it was divided by.
    pub count: Option<Count>,
}

impl Observation {
    /// A value of a run that belongs to no round and counts no events.
    pub fn of(value: f64) -> Self {
        Self { value, round: None, count: None }
    }
}

/// What [`test_metric`] is given.
#[derive(Debug, Clone, Copy)]
pub struct MetricSamples<'a> {
    /// Runs of the base.
    pub base: &'a [Observation],
    /// Runs of the test side.
    pub test: &'a [Observation],
    /// How the runs were laid out.
    pub design: Design,
    /// Smallest step in which a run's value can change, in the metric's unit; `None` if unknown. Counters whose runs
    /// carry their counts need none: their step is one event over the mean exposure.
    pub resolution: Option<f64>,
}

/// Number, mean and standard deviation of one side.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema, Deserialize)]
pub struct Side {
    /// Number of runs that have a value.
    pub n: usize,
    /// Arithmetic mean; null without values.
    pub mean: Option<f64>,
    /// Standard deviation, n - 1 in the denominator; null for fewer than two values.
    pub sd: Option<f64>,
}

/// Welch's test, which is given in addition to every other method.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct WelchResult {
    /// Test statistic, test - base.
    pub t: f64,
    /// Welch-Satterthwaite degrees of freedom.
    pub df: f64,
    /// Two-sided p value.
    pub p: f64,
}

/// The comparison of one metric, as the compare document lists it. A value that does not exist is null and the note
/// says why.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct TestResult {
    /// Whether there is a test.
    pub outcome: Outcome,
    /// The test applied; null if none.
    pub method: Option<Method>,
    /// The base's runs.
    pub base: Side,
    /// The test side's runs.
    pub test: Side,
    /// Complete rounds, for designs in blocks.
    pub rounds: Option<usize>,
    /// Test statistic; positive where the test side is larger. Null for exact tests.
    pub t: Option<f64>,
    /// Degrees of freedom.
    pub df: Option<f64>,
    /// Two-sided p value of `method`.
    pub p: Option<f64>,
    /// Its natural logarithm, which stays exact where p is below the smallest f64 and prints as 0.
    pub ln_p: Option<f64>,
    /// Benjamini-Hochberg q value in the family; null outside a family. Filled by [`settle_family`].
    pub q: Option<f64>,
    /// Standardised difference, see [`hedges_g`].
    pub hedges_g: Option<f64>,
    /// test / base, on the scale that was tested: of geometric means within rounds, of means for unpaired runs, of event
    /// rates for the exact test, of medians for ranks.
    pub ratio: Option<f64>,
    /// 95 % interval of `ratio`; null where it is not bounded.
    pub ratio_ci95: Option<[f64; 2]>,
    /// 90 % interval of `ratio`, the one of two one-sided tests at 5 %; null where no t test was made or it is not bounded.
    #[serde(default)]
    pub ratio_ci90: Option<[f64; 2]>,
    /// Which way the test side differs, by the estimate that `p` is of. Never read the direction off the means: they are
    /// of all runs, while rounds that lost a run are not tested. Null where there is nothing to tell.
    #[serde(default)]
    pub change: Option<Change>,
    /// Mean of test - mean of base, over all runs that have a value.
    pub difference: Option<f64>,
    /// 95 % interval of `difference`, Welch's.
    pub difference_ci95: Option<[f64; 2]>,
    /// Welch's unpaired test of the same values.
    pub welch: Option<WelchResult>,
    /// p of the exact conditional test alone, where `method` is that.
    pub exact_p: Option<f64>,
    /// What the sides were held equal in, where `method` is an adjusted one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjusted: Option<AtEqualCovariates>,
    /// The decision; null until [`settle_family`] or [`settle_alone`], and for metrics that are not tested.
    pub significant: Option<bool>,
    /// Notes a reader of the numbers must know.
    pub note: Option<String>,
}

/// A covariate at equal values of which the sides were compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct AtEqualCovariates {
    /// Its name.
    pub covariate: String,
    /// Change of the value's logarithm for a change of the covariate's by 1.
    pub slope: f64,
    /// Part of the variance within sides, or between rounds, that goes with the covariate: 0 to 1.
    pub explained: f64,
    /// Two-sided p of whether the covariate itself differs between the sides; null where that could not be tested.
    pub covariate_p: Option<f64>,
    /// Two-sided p without adjustment.
    pub unadjusted_p: Option<f64>,
}

impl TestResult {
    fn untested(base: Side, test: Side) -> Self {
        Self {
            outcome: Outcome::NotTested,
            method: None,
            base,
            test,
            rounds: None,
            t: None,
            df: None,
            p: None,
            ln_p: None,
            q: None,
            hedges_g: None,
            ratio: None,
            ratio_ci95: None,
            ratio_ci90: None,
            change: None,
            difference: None,
            difference_ci95: None,
            welch: None,
            exact_p: None,
            adjusted: None,
            significant: None,
            note: None,
        }
    }

    fn remark(&mut self, text: &str) {
        self.note = Some(self.note.take().map_or_else(|| text.to_owned(), |old| format!("{old}; {text}")));
    }

    /// Says why there is no test.
    fn not_tested(&mut self, reason: impl Into<String>) {
        self.remark(&Absence::not_tested(reason).to_string());
    }

    fn set_test(&mut self, method: Method, test: &TTest) {
        self.outcome = Outcome::Tested;
        self.method = Some(method);
        self.t = Some(test.t);
        self.df = Some(test.df);
        self.p = Some(test.p);
        self.ln_p = Some(test.ln_p);
        self.change = Some(Change::of(test.t));
    }

    /// Both sides are constant (or every round has the same ratio) and differ; `runs` of them on the shorter side.
    fn set_deterministic(&mut self, change: Change, runs: usize, how: &str) {
        if runs < LEAST_DETERMINISTIC {
            self.not_tested(format!(
                "{how}, in {runs} runs a side; at least {LEAST_DETERMINISTIC} are needed to tell that from chance"
            ));
            return;
        }
        self.outcome = Outcome::DeterministicDifference;
        self.change = Some(change);
        self.remark(&format!("deterministic_difference: {how}; outside the family"));
    }

    /// `ratio` gives the ratio with its interval of a level.
    fn set_ratio(&mut self, ratio: impl Fn(f64) -> Result<Ratio, Undefined>) {
        self.ratio_ci90 = ratio(EQUIVALENCE_LEVEL).ok().and_then(|ratio| ratio.interval.ok());
        match ratio(INTERVAL_LEVEL) {
            Ok(Ratio { ratio, interval }) => {
                self.ratio = Some(ratio).filter(|r| r.is_finite());
                self.ratio_ci95 = interval.ok();
                if let Err(reason) = interval {
                    self.remark(&format!("ratio_ci95: {reason}"));
                }
            }
            Err(reason) => self.remark(&format!("ratio: {reason}")),
        }
    }
}

/// The values of one side that exist, and their summary.
struct Sample {
    values: Vec<f64>,
    summary: Option<Summary>,
    constant: bool,
    side: Side,
}

impl Sample {
    fn of(observations: &[Observation]) -> Self {
        let values: Vec<f64> = observations.iter().map(|o| o.value).filter(|v| v.is_finite()).collect();
        let summary = Summary::of(&values).ok();
        let side = Side {
            n: values.len(),
            mean: summary.map(|s| s.mean()).filter(|m| m.is_finite()),
            sd: summary.and_then(|s| s.sd()).filter(|sd| sd.is_finite()),
        };
        let constant = summary.is_some_and(|s| is_constant(&s));
        Self { values, summary, constant, side }
    }
}

/// Whether values are one, to the rounding of their sums.
fn is_constant(summary: &Summary) -> bool {
    summary.sd().is_some_and(|sd| sd <= ROUNDING * summary.mean().abs())
}

/// Compares one metric of two sets of runs.
///
/// In this order:
/// 1. values that are not finite are left out, and the note says how many; a side with fewer than two is not tested;
/// 2. both sides constant and equal: not tested;
/// 3. a counter with fewer than [`SPARSE_EVENTS`] events on either side: [`exact_poisson`] on the totals, see below;
/// 4. both sides constant and different: [`Outcome::DeterministicDifference`], from [`LEAST_DETERMINISTIC`] runs a side;
/// 5. one side constant: its standard deviation is raised to resolution / sqrt(12);
/// 6. blocks: one-sample t on the log ratios per round (on differences where a value is not positive); otherwise
///    Welch. Welch's test is given in both cases.
///
/// Values that differ by no more than 1e-12 of themselves are equal. p, ratio, its interval and [`TestResult::change`]
/// are of one estimate: the mean log ratio (or difference) of complete rounds, or the difference of means.
///
/// The exact test takes every event as independent. Kernel counters come in bursts, and one run with 19 events against
/// none would then be "significant" although a single run says nothing. So the p reported for a sparse counter is the
/// larger one of the exact test on events and the t test on runs: the intersection-union principle (R. L. Berger,
/// "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24 (1982)), which keeps the level if
/// either model is true. The exact one alone is in `exact_p`, the runs' one in `welch`. Where the two point opposite
/// ways neither is shown, and p is 1.
pub fn test_metric(samples: &MetricSamples) -> TestResult {
    let (base, test) = (Sample::of(samples.base), Sample::of(samples.test));
    let mut result = TestResult::untested(base.side, test.side);
    let missing = samples.base.len() + samples.test.len() - base.values.len() - test.values.len();
    if missing > 0 {
        result.remark(&format!("{missing} runs without a value are left out"));
    }
    let (Some(base_summary), Some(test_summary)) = (base.summary, test.summary) else {
        result.not_tested("a side has no values");
        return result;
    };
    result.difference = Some(test_summary.mean_difference(&base_summary)).filter(|d| d.is_finite());
    result.ratio = Some(test_summary.mean() / base_summary.mean()).filter(|r| r.is_finite());
    if base_summary.n() < 2 || test_summary.n() < 2 {
        result.not_tested(format!("{} and {} runs, at least 2 a side are needed", base.side.n, test.side.n));
        return result;
    }
    if base.constant && test.constant && same(base_summary.mean(), test_summary.mean()) {
        result.ratio = None;
        result.change = Some(Change::Equal);
        result.not_tested("both sides are constant and equal");
        return result;
    }
    let counts = total_counts(samples);
    let resolution = samples.resolution.or_else(|| counts.map(|totals| step_of_counter(totals, &base, &test)));
    let floors = Floors::of(resolution, &base, &test, &mut result);
    let sparse = counts.filter(is_sparse);
    if base.constant && test.constant && sparse.is_none() {
        let change = Change::of(test_summary.mean_difference(&base_summary));
        let runs = base_summary.n().min(test_summary.n());
        result.set_deterministic(change, runs, "both sides are constant and differ");
        return result;
    }
    result.ratio = None;
    test_runs(samples, &floors, &mut result);
    if let Some((base_count, test_count)) = sparse {
        test_counts(base_count, test_count, &mut result);
    }
    let of_means = result.difference.map(Change::of);
    if of_means.zip(result.change).is_some_and(|(means, tested)| means.opposes(tested)) {
        result.remark("the means of all runs differ the other way; what was tested decides");
    }
    result
}

/// Whether two means of constant sides are one value, to rounding.
fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.abs().max(b.abs())
}

/// Summaries with the floors of constant sides applied.
struct Floors {
    base: Option<Summary>,
    test: Option<Summary>,
    /// resolution / sqrt(12), or 0 where the resolution is unknown.
    sd: f64,
}

impl Floors {
    fn of(resolution: Option<f64>, base: &Sample, test: &Sample, result: &mut TestResult) -> Self {
        let known = resolution.filter(|r| r.is_finite() && *r > 0.0);
        let sd = known.unwrap_or(0.0) / 12f64.sqrt();
        if base.constant != test.constant {
            let side = if base.constant { "base" } else { "test" };
            result.remark(&match known {
                Some(r) => format!("{side} is constant, its sd is taken as resolution / sqrt(12), resolution {r}"),
                None => format!("{side} is constant and its resolution is unknown, its sd is taken as 0"),
            });
        }
        let floored = |sample: &Sample| {
            sample.summary.map(|summary| if sample.constant { summary.with_sd_floor(sd) } else { summary })
        };
        Self { base: floored(base), test: floored(test), sd }
    }
}

/// The t test on runs that the design calls for, with Welch's in addition.
fn test_runs(samples: &MetricSamples, floors: &Floors, result: &mut TestResult) {
    let (Some(base_summary), Some(test_summary)) = (floors.base, floors.test) else { return };
    result.hedges_g = hedges_g(&base_summary, &test_summary).ok().filter(|g| g.is_finite());
    let welch = welch_of_summaries(&base_summary, &test_summary);
    if let Ok(welch) = &welch {
        result.welch = Some(WelchResult { t: welch.t, df: welch.df, p: welch.p });
        result.difference_ci95 = welch.interval(INTERVAL_LEVEL).ok();
    }
    match samples.design {
        Design::Blocks => test_blocks(samples, floors, result),
        Design::Unpaired => match welch {
            Ok(welch) => {
                result.set_test(Method::WelchUnpaired, &welch);
                // On the scale of the test: an interval of geometric means can lie on the other side of 1.
                result.set_ratio(|level| fieller(&base_summary, &test_summary, level));
            }
            Err(reason) => result.not_tested(reason.to_string()),
        },
    }
}

/// Base and test values of the rounds in which both sides have one, or why rounds cannot be formed.
fn complete_rounds(samples: &MetricSamples) -> Result<(Vec<f64>, Vec<f64>), String> {
    let mut rounds: BTreeMap<u32, [Option<f64>; 2]> = BTreeMap::new();
    for (index, side) in [samples.base, samples.test].into_iter().enumerate() {
        for run in side.iter().filter(|run| run.value.is_finite()) {
            let round = run.round.ok_or("a run of a design in blocks has no round")?;
            let pair = rounds.entry(round).or_default();
            if let Some(slot) = pair.get_mut(index)
                && slot.replace(run.value).is_some()
            {
                return Err(format!("round {round} holds two runs of one side"));
            }
        }
    }
    Ok(rounds.into_values().filter_map(|[base, test]| Some((base?, test?))).unzip())
}

/// The paired test of complete rounds.
fn test_blocks(samples: &MetricSamples, floors: &Floors, result: &mut TestResult) {
    let (base, test) = match complete_rounds(samples) {
        Ok(pairs) => pairs,
        Err(reason) => {
            result.not_tested(reason);
            return;
        }
    };
    result.rounds = Some(base.len());
    if base.len() < 2 {
        result.not_tested(format!("{} complete rounds, at least 2 are needed", base.len()));
        return;
    }
    let positive = base.iter().chain(&test).all(|v| *v > 0.0);
    let pairs = base.iter().copied().zip(test.iter().copied());
    let (method, summary) = if positive {
        (Method::PairedBlocks, Summary::of_log_ratios(pairs))
    } else {
        (Method::PairedDifferences, Summary::of_differences(pairs))
    };
    let Ok(summary) = summary else { return };
    let spread = pair_floor(&base, &test, floors.sd, positive);
    // A log ratio is relative already; a difference is, to the values that it is of.
    let largest = base.iter().chain(&test).fold(0.0, |most: f64, v| most.max(v.abs()));
    let rounding = if positive { ROUNDING } else { ROUNDING * largest };
    let constant = |summary: &Summary| summary.sd().is_some_and(|sd| sd <= rounding);
    let floored =
        if constant(&summary) || spread.one_side_constant { summary.with_sd_floor(spread.sd) } else { summary };
    if constant(&floored) {
        if summary.mean().abs() <= rounding {
            result.change = Some(Change::Equal);
            result.not_tested("both sides are equal in every round");
            return;
        }
        result.ratio = positive.then(|| summary.mean().exp()).filter(|r| r.is_finite());
        result.set_deterministic(Change::of(summary.mean()), base.len(), "the sides differ by the same in every round");
        return;
    }
    match one_sample(&floored, 0.0) {
        Ok(paired) => {
            result.set_test(method, &paired);
            result.set_ratio(|level| {
                if positive {
                    paired.interval(level).map(|ends| Ratio::from_logs(paired.estimate, ends))
                } else {
                    fieller_paired(&base, &test, level)
                }
            });
        }
        Err(reason) => result.not_tested(reason.to_string()),
    }
}

struct PairFloor {
    sd: f64,
    one_side_constant: bool,
}

/// The smallest believable standard deviation of a round's log ratio or difference: the reading error of the constant
/// sides, relative to their means for logs.
fn pair_floor(base: &[f64], test: &[f64], sd: f64, logs: bool) -> PairFloor {
    let mut variance = 0.0;
    let mut constant_sides = 0;
    for side in [base, test] {
        let Ok(summary) = Summary::of(side) else { continue };
        constant_sides += u32::from(is_constant(&summary));
        let scale = if logs { summary.mean() } else { 1.0 };
        variance += (sd / scale).powi(2);
    }
    PairFloor { sd: variance.sqrt(), one_side_constant: constant_sides == 1 }
}

/// Events and exposure of either side, if every run that has a value has counted events.
fn total_counts(samples: &MetricSamples) -> Option<(Count, Count)> {
    let total = |runs: &[Observation]| -> Option<Count> {
        let mut sum = Count { events: 0, exposure: 0.0 };
        for run in runs.iter().filter(|run| run.value.is_finite()) {
            let count = run.count.filter(|c| c.exposure.is_finite() && c.exposure > 0.0)?;
            sum.events = sum.events.checked_add(count.events)?;
            sum.exposure += count.exposure;
        }
        Some(sum)
    };
    Some((total(samples.base)?, total(samples.test)?))
}

/// One side has fewer than [`SPARSE_EVENTS`] events while not both have none.
fn is_sparse((base, test): &(Count, Count)) -> bool {
    base.events.min(test.events) < SPARSE_EVENTS && base.events.max(test.events) > 0
}

/// The step of a counter's rate: one event over the mean exposure of a run.
fn step_of_counter((base, test): (Count, Count), base_runs: &Sample, test_runs: &Sample) -> f64 {
    (base_runs.values.len() + test_runs.values.len()) as f64 / (base.exposure + test.exposure)
}

/// Replaces the result on runs by the exact one where that is the more cautious.
fn test_counts(base: Count, test: Count, result: &mut TestResult) {
    let (Outcome::Tested, Some(runs)) = (result.outcome, result.ln_p) else { return };
    let Ok(exact) = exact_poisson(base, test, INTERVAL_LEVEL) else { return };
    result.method = Some(Method::ExactPoisson);
    result.ratio_ci90 = None;
    result.exact_p = Some(exact.p);
    result.remark(&format!(
        "{} and {} events: p is the larger one of the exact test on events and the t test on runs",
        base.events, test.events
    ));
    // A base without events has no ratio: all events are the test side's then.
    let by_events = exact.ratio.map_or(Change::Rises, |ratio| Change::of(ratio - 1.0));
    if result.change.is_some_and(|by_runs| by_runs.opposes(by_events)) {
        result.p = Some(1.0);
        result.ln_p = Some(0.0);
        result.remark("the events and the runs point opposite ways, so p is 1");
        return;
    }
    if exact.ln_p >= runs {
        result.t = None;
        result.df = None;
        result.p = Some(exact.p);
        result.ln_p = Some(exact.ln_p);
        result.change = Some(by_events);
        result.ratio = exact.ratio;
        result.ratio_ci95 = exact.interval;
        if exact.ratio.is_none() {
            result.remark("ratio: the base has no events, so the ratio is not bounded");
        }
    }
}

/// Runs a side, or rounds, from which the sides are compared at equal covariates: the slope takes a degree of freedom.
pub const LEAST_ADJUSTED: usize = 5;

/// Replaces a t test on runs by the one at equal covariates: `covariates` holds that of each run of base and test, NaN where it is
/// not known. `result` is the test of the same samples; it stays where there are fewer than [`LEAST_ADJUSTED`] runs a side, where a run
/// that has a value has no covariate, and where the result is no t test of positive values. Which of these is so does not depend on p.
///
/// Where the covariate itself differs between the sides at level `alpha`, the side may have moved it, and a part of what the side does
/// would be taken out or put in with it. Then p is the larger one of the tests with and without adjustment, and 1 where they point opposite
/// ways: the intersection-union principle, as for sparse counters.
pub fn test_at_equal_covariates(
    samples: &MetricSamples,
    covariates: [&[f64]; 2],
    name: &str,
    alpha: f64,
    result: &mut TestResult,
) {
    let method = match result.method {
        Some(Method::PairedBlocks) => Method::PairedBlocksAdjusted,
        Some(Method::WelchUnpaired) => Method::UnpairedAdjusted,
        _ => return,
    };
    let adjusted = match adjust(samples, covariates) {
        Ok(adjusted) => adjusted,
        Err(why) => {
            result.remark(&format!("not compared at equal {name}: {why}"));
            return;
        }
    };
    let (unadjusted_p, unadjusted_ln_p, unadjusted_change) = (result.p, result.ln_p, result.change);
    let covariate_p = adjusted.covariate.ok().map(|test| test.p);
    result.set_test(method, &adjusted.test);
    result.set_ratio(|level| adjusted.test.interval(level).map(|ends| Ratio::from_logs(adjusted.test.estimate, ends)));
    result.adjusted = Some(AtEqualCovariates {
        covariate: name.to_owned(),
        slope: adjusted.slope,
        explained: adjusted.explained,
        covariate_p,
        unadjusted_p,
    });
    if covariate_p.is_some_and(|p| p > alpha) {
        return;
    }
    result.remark(&format!("{name} differs between the sides, too: only what shows without adjustment as well counts"));
    if unadjusted_change.zip(result.change).is_some_and(|(without, with)| without.opposes(with)) {
        (result.p, result.ln_p) = (Some(1.0), Some(0.0));
    } else if unadjusted_ln_p > result.ln_p {
        (result.p, result.ln_p) = (unadjusted_p, unadjusted_ln_p);
    }
}

/// The adjusted test of the runs that have a value, or why there is none.
fn adjust(samples: &MetricSamples, [base, test]: [&[f64]; 2]) -> Result<Adjusted, String> {
    let known = |runs: &[Observation], covariates: &[f64]| -> [Vec<Observation>; 2] {
        let pairs = runs.iter().zip(covariates).filter(|(run, _)| run.value.is_finite());
        pairs.map(|(run, covariate)| (*run, Observation { value: *covariate, ..*run })).unzip().into()
    };
    let ([base, base_speeds], [test, test_speeds]) = (known(samples.base, base), known(samples.test, test));
    let without = base_speeds.iter().chain(&test_speeds).filter(|run| !run.value.is_finite()).count();
    if without > 0 {
        return Err(format!("{without} of {} runs do not know it", base.len() + test.len()));
    }
    let values_of = |runs: &[Observation]| -> Vec<f64> { runs.iter().map(|run| run.value).collect() };
    let (values, covariates) = match samples.design {
        Design::Blocks => {
            let of = |base, test| complete_rounds(&MetricSamples { base, test, ..*samples });
            (of(&base, &test)?, of(&base_speeds, &test_speeds)?)
        }
        Design::Unpaired => ((values_of(&base), values_of(&test)), (values_of(&base_speeds), values_of(&test_speeds))),
    };
    let least = values.0.len().min(values.1.len());
    if least < LEAST_ADJUSTED {
        return Err(format!("{least} runs a side, at least {LEAST_ADJUSTED} are needed"));
    }
    let side = |values, covariates| WithCovariate { values, covariates };
    let (base, test) = (side(&values.0, &covariates.0), side(&values.1, &covariates.1));
    let adjusted = match samples.design {
        Design::Blocks => paired_log_ratios_adjusted(base, test),
        Design::Unpaired => log_ratio_adjusted(base, test),
    };
    adjusted.map_err(|why| why.to_string())
}

/// The test of a time some of whose runs the timeout ended, `base_ended` and `test_ended` of them: how long these would
/// have taken is not known, only that no finished run took longer. They rank as the slowest, all alike, and the exact
/// rank-sum test decides; leaving them out would call the side better that only its fast runs survive on. `result` is
/// the test of the runs that finished, whose means stay. Runs are ranked across rounds, which loses power and no level.
pub fn test_censored(base: &[f64], base_ended: usize, test: &[f64], test_ended: usize, result: &mut TestResult) {
    let side = |values: &[f64], ended: usize| -> Vec<f64> {
        let finished = values.iter().copied().filter(|v| v.is_finite());
        finished.chain(std::iter::repeat_n(f64::INFINITY, ended)).collect()
    };
    let (base, test) = (side(base, base_ended), side(test, test_ended));
    let Ok(ranks) = rank_sum(&base, &test) else { return };
    let median = |values: &[f64]| -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
        0.5 * (at((sorted.len() - 1) / 2) + at(sorted.len() / 2))
    };
    result.outcome = Outcome::Tested;
    result.method = Some(Method::RankSumCensored);
    (result.t, result.df) = (None, None);
    (result.p, result.ln_p) = (Some(ranks.p), Some(ranks.p.ln()));
    result.change = Some(ranks.change);
    result.ratio = Some(median(&test) / median(&base)).filter(|r| r.is_finite());
    (result.ratio_ci95, result.ratio_ci90) = (None, None);
    result.remark(&format!(
        "{base_ended} base and {test_ended} test runs were ended by the timeout and rank as the slowest; the ratio is of \
         medians, the means are of the runs that finished"
    ));
}

/// Fills q and the decision of one family: all its tested metrics, none left out. Returns the size of the family.
///
/// Significant is q <= alpha. What is not tested stays undecided. Callers keep the primary metric out and pass it to
/// [`settle_alone`], and pass frames of profiles as a family of their own.
pub fn settle_family<'a>(results: impl IntoIterator<Item = &'a mut TestResult>, alpha: f64) -> usize {
    let mut results: Vec<&mut TestResult> = results.into_iter().collect();
    let p: Vec<Option<f64>> = results.iter().map(|r| r.p.filter(|_| r.outcome == Outcome::Tested)).collect();
    for (result, q) in results.iter_mut().zip(benjamini_hochberg(&p)) {
        result.q = q;
        result.significant = q.map(|q| q <= alpha);
    }
    p.iter().flatten().count()
}

/// The decision of the primary metric, which was named before the runs and is tested alone: p <= alpha, without q.
pub fn settle_alone(result: &mut TestResult, alpha: f64) {
    result.q = None;
    result.significant = result.p.filter(|_| result.outcome == Outcome::Tested).map(|p| p <= alpha);
}
