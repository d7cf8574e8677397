//! One metric of two sets of runs: which test applies, its result, and the families that tests belong to.

use super::family::benjamini_hochberg;
use super::welch::TTest;
use super::{
    Count, Ratio, Summary, Undefined, exact_poisson, fieller, fieller_paired, geometric_mean_ratio, hedges_g,
    one_sample, welch_of_summaries,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A counter of which one side saw fewer events than this, over all its runs, gets the exact conditional test.
pub const SPARSE_EVENTS: u64 = 20;

/// Level of every interval in a [`TestResult`], whatever alpha the decision uses.
const INTERVAL_LEVEL: f64 = 0.95;

/// How the runs were laid out. The method of testing follows from this and from the kind of data, never from a p value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// Two sets of runs without a common order.
    Unpaired,
    /// Randomised complete blocks: each round holds one run of either side.
    Blocks,
}

/// The test that was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
}

/// Whether there is a test, and if not, what the data say instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Side {
    /// Number of runs that have a value.
    pub n: usize,
    /// Arithmetic mean; null without values.
    pub mean: Option<f64>,
    /// Standard deviation, n - 1 in the denominator; null for fewer than two values.
    pub sd: Option<f64>,
}

/// Welch's test, which is given beside every other method.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// test / base: of geometric means where all values are positive, of event rates for the exact test, else of means.
    pub ratio: Option<f64>,
    /// 95 % interval of `ratio`; null where it is not bounded.
    pub ratio_ci95: Option<[f64; 2]>,
    /// Mean of test - mean of base.
    pub difference: Option<f64>,
    /// 95 % interval of `difference`, Welch's.
    pub difference_ci95: Option<[f64; 2]>,
    /// Welch's unpaired test of the same values.
    pub welch: Option<WelchResult>,
    /// p of the exact conditional test alone, where `method` is that.
    pub exact_p: Option<f64>,
    /// The decision; null until [`settle_family`] or [`settle_alone`], and for what is not tested.
    pub significant: Option<bool>,
    /// What a reader must know to read the numbers.
    pub note: Option<String>,
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
            difference: None,
            difference_ci95: None,
            welch: None,
            exact_p: None,
            significant: None,
            note: None,
        }
    }

    fn remark(&mut self, text: &str) {
        self.note = Some(self.note.take().map_or_else(|| text.to_owned(), |old| format!("{old}; {text}")));
    }

    fn set_test(&mut self, method: Method, test: &TTest) {
        self.outcome = Outcome::Tested;
        self.method = Some(method);
        self.t = Some(test.t);
        self.df = Some(test.df);
        self.p = Some(test.p);
        self.ln_p = Some(test.ln_p);
    }

    fn set_ratio(&mut self, ratio: Result<Ratio, Undefined>) {
        match ratio {
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
        let constant = summary.and_then(|s| s.sd()).is_some_and(|sd| sd <= 0.0);
        Self { values, summary, constant, side }
    }

    fn positive(&self) -> bool {
        self.values.iter().all(|v| *v > 0.0)
    }
}

/// Compares one metric of two sets of runs.
///
/// In this order:
/// 1. values that are not finite are left out, and the note says how many; a side with fewer than two is not tested;
/// 2. both sides constant and equal: not tested;
/// 3. a counter with fewer than [`SPARSE_EVENTS`] events on either side: [`exact_poisson`] on the totals, see below;
/// 4. both sides constant and different: [`Outcome::DeterministicDifference`];
/// 5. one side constant: its standard deviation is raised to resolution / sqrt(12);
/// 6. blocks: one-sample t on the log ratios per round (on differences where a value is not positive); otherwise
///    Welch. Welch's test is given in both cases.
///
/// The exact test takes every event as independent. Kernel counters come in bursts, and one run with 19 events against
/// none would then be "significant" although a single run says nothing. So the p reported for a sparse counter is the
/// larger one of the exact test on events and the t test on runs: the intersection-union principle (R. L. Berger,
/// "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24 (1982)), which keeps the level if
/// either model is true. The exact one alone is in `exact_p`, the runs' one in `welch`.
pub fn test_metric(samples: &MetricSamples) -> TestResult {
    let (base, test) = (Sample::of(samples.base), Sample::of(samples.test));
    let mut result = TestResult::untested(base.side, test.side);
    let missing = samples.base.len() + samples.test.len() - base.values.len() - test.values.len();
    if missing > 0 {
        result.remark(&format!("{missing} runs without a value are left out"));
    }
    let (Some(base_summary), Some(test_summary)) = (base.summary, test.summary) else {
        result.remark("not tested: a side has no values");
        return result;
    };
    result.difference = Some(test_summary.mean_difference(&base_summary)).filter(|d| d.is_finite());
    if base_summary.n() < 2 || test_summary.n() < 2 {
        result.remark(&format!("not tested: {} and {} runs, at least 2 a side are needed", base.side.n, test.side.n));
        return result;
    }
    if base.constant && test.constant && same(base_summary.mean(), test_summary.mean()) {
        result.remark("not tested: both sides are constant and equal");
        return result;
    }
    let counts = total_counts(samples);
    let resolution = samples.resolution.or_else(|| counts.map(|totals| step_of_counter(totals, &base, &test)));
    let floors = Floors::of(resolution, &base, &test, &mut result);
    let sparse = counts.filter(is_sparse);
    if base.constant && test.constant && sparse.is_none() {
        result.outcome = Outcome::DeterministicDifference;
        result.ratio = Some(test_summary.mean() / base_summary.mean()).filter(|r| r.is_finite());
        result.remark("deterministic_difference: both sides are constant and differ; outside the family");
        return result;
    }
    test_runs(samples, &base, &test, &floors, &mut result);
    if let Some((base_count, test_count)) = sparse {
        test_counts(base_count, test_count, &mut result);
    }
    result
}

/// Two means of constant sides are the values themselves, so they are compared exactly.
fn same(a: f64, b: f64) -> bool {
    a.partial_cmp(&b).is_some_and(std::cmp::Ordering::is_eq)
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

/// The t test on runs that the design calls for, with Welch's beside it.
fn test_runs(samples: &MetricSamples, base: &Sample, test: &Sample, floors: &Floors, result: &mut TestResult) {
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
                result.set_ratio(if base.positive() && test.positive() {
                    geometric_mean_ratio(&base.values, &test.values, floors.sd, INTERVAL_LEVEL)
                } else {
                    fieller(&base_summary, &test_summary, INTERVAL_LEVEL)
                });
            }
            Err(reason) => result.remark(&format!("not tested: {reason}")),
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
            result.remark(&format!("not tested: {reason}"));
            return;
        }
    };
    result.rounds = Some(base.len());
    if base.len() < 2 {
        result.remark(&format!("not tested: {} complete rounds, at least 2 are needed", base.len()));
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
    let floored = if summary.sd().is_some_and(|sd| sd <= 0.0) || spread.one_side_constant {
        summary.with_sd_floor(spread.sd)
    } else {
        summary
    };
    match one_sample(&floored, 0.0) {
        Ok(paired) => {
            result.set_test(method, &paired);
            result.set_ratio(if positive {
                paired.interval(INTERVAL_LEVEL).map(|ends| Ratio::from_logs(paired.estimate, ends))
            } else {
                fieller_paired(&base, &test, INTERVAL_LEVEL)
            });
        }
        Err(_) if same(summary.mean(), 0.0) => result.remark("not tested: both sides are equal in every round"),
        Err(_) => {
            result.outcome = Outcome::DeterministicDifference;
            result.ratio = positive.then(|| summary.mean().exp()).filter(|r| r.is_finite());
            result.remark("deterministic_difference: the sides differ by the same in every round; outside the family");
        }
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
        let constant = summary.sd().is_some_and(|sd| sd <= 0.0);
        constant_sides += u32::from(constant);
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
    result.exact_p = Some(exact.p);
    result.t = None;
    result.df = None;
    result.remark(&format!(
        "{} and {} events: p is the larger one of the exact test on events and the t test on runs",
        base.events, test.events
    ));
    if exact.ln_p >= runs {
        result.p = Some(exact.p);
        result.ln_p = Some(exact.ln_p);
        result.ratio = exact.ratio;
        result.ratio_ci95 = exact.interval;
        if exact.ratio.is_none() {
            result.remark("ratio: the base has no events, so the ratio is not bounded");
        }
    }
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
