//! From runs to the samples of one metric, and its test.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_vocab::absence::Absence;
use pagelab_vocab::metrics::{Driver, MetricInfo, MetricKind, Unit, driver};

use super::MetricComparison;
use super::design::{Block, block_of};
use super::loss::Losses;
use crate::stats::{Count, Design, MetricSamples, Observation, Outcome, Side, Summary, TestResult, test_metric};
use pagelab_views::metrics::values;
use pagelab_views::run::{MetricKey, RunData, RunMetric};
use pagelab_views::share_a_unit;

/// Names of the recorder's own figures. What the tool does to itself says nothing about the workload.
const OWN_FIGURES: [&str; 2] = ["self.", "recorder."];

/// The runs of both sides and how to read their numbers.
pub(super) struct Sides<'a> {
    pub base: &'a [&'a RunData],
    pub test: &'a [&'a RunData],
    pub design: Design,
    /// Every run knows its operations, and they are of one kind: counters are taken per operation and per operation only.
    pub per_operation: bool,
    pub losses: Losses,
    /// A number for each block.
    blocks: BTreeMap<Block<'a>, u32>,
}

impl<'a> Sides<'a> {
    pub(super) fn new(base: &'a [&'a RunData], test: &'a [&'a RunData], design: Design) -> Self {
        let per_operation = share_a_unit(base.iter().chain(test).map(|run| run.window.operations));
        let found: BTreeSet<Block<'_>> = base.iter().chain(test).filter_map(|run| block_of(run)).collect();
        Self {
            base,
            test,
            design,
            per_operation,
            losses: Losses::of(base, test),
            blocks: found.into_iter().zip(0..).collect(),
        }
    }

    /// Every number that any run has.
    pub(super) fn keys(&self) -> BTreeSet<&'a MetricKey> {
        self.base.iter().chain(self.test).flat_map(|run| run.metrics.keys()).collect()
    }

    /// Tests one metric by the rules for its data.
    pub(super) fn compare(&self, key: &MetricKey) -> Tested {
        let info = values::info_of(&key.name, self.base.iter().chain(self.test).copied());
        let base: Vec<Option<&RunMetric>> = self.base.iter().map(|run| run.metrics.get(key)).collect();
        let test: Vec<Option<&RunMetric>> = self.test.iter().map(|run| run.metrics.get(key)).collect();
        let driver = driver(&key.name, key.instance.as_deref());
        let operations = self.per_operation && driver != Driver::Time;
        let form = Form::of(&info, operations, base.iter().chain(&test).copied().flatten());
        let mut result = self.test_form(&info, form, &base, &test);
        if driver == Driver::Mixed && form == Form::PerOperation && result.outcome == Outcome::Tested {
            let per_second = self.test_form(&info, Form::PerSecond, &base, &test);
            hold_to_both(&mut result, &per_second);
        }
        let lossy = self.losses.explain(&key.name, info.kind);
        Tested { key: key.clone(), unit: form.unit(&info), form, info, result, lossy }
    }

    /// The test of one of a metric's numbers.
    fn test_form(
        &self,
        info: &MetricInfo,
        form: Form,
        base: &[Option<&RunMetric>],
        test: &[Option<&RunMetric>],
    ) -> TestResult {
        let samples_base = self.observations(form, self.base, base);
        let samples_test = self.observations(form, self.test, test);
        let resolution = base.iter().chain(test).flatten().filter_map(|m| form.resolution(m));
        let samples = MetricSamples {
            base: &samples_base,
            test: &samples_test,
            design: self.design,
            resolution: resolution.fold(None, |most: Option<f64>, r| Some(most.map_or(r, |m| m.max(r)))),
        };
        match reason_not_to_test(info, &samples) {
            Some(why) => untested(&samples, &why.to_string(), base, test),
            None => test_metric(&samples),
        }
    }

    /// What the runs of both sides have of a metric.
    pub(super) fn observations_of(&self, key: &MetricKey, form: Form) -> [Vec<Observation>; 2] {
        [self.base, self.test].map(|runs| {
            let metrics: Vec<Option<&RunMetric>> = runs.iter().map(|run| run.metrics.get(key)).collect();
            self.observations(form, runs, &metrics)
        })
    }

    fn observations(&self, form: Form, runs: &[&'a RunData], metrics: &[Option<&RunMetric>]) -> Vec<Observation> {
        runs.iter()
            .zip(metrics)
            .map(|(run, metric)| Observation {
                value: metric.and_then(|m| form.value(m)).unwrap_or(f64::NAN),
                round: block_of(run).and_then(|block| self.blocks.get(&block).copied()),
                count: metric.and_then(|m| form.count(run, m)),
            })
            .collect()
    }
}

/// A counter that time drives as well rises per operation with every slowdown, whatever caused that. It differs only if
/// its rate does too: p is the larger of the two, as where two models of one thing are possible.
fn hold_to_both(result: &mut TestResult, per_second: &TestResult) {
    let said = "driven by time too: p is the larger of those per operation and per second";
    if per_second.outcome == Outcome::NotTested {
        result.p = Some(1.0);
        result.ln_p = Some(0.0);
    } else if let (Some(ours), Some(theirs)) = (result.ln_p, per_second.ln_p)
        && theirs > ours
    {
        (result.p, result.ln_p) = (per_second.p, per_second.ln_p);
    }
    result.note = Some(result.note.take().map_or_else(|| said.to_owned(), |note| format!("{note}; {said}")));
}

/// One metric with its test, before the family is settled.
pub(super) struct Tested {
    pub key: MetricKey,
    pub info: MetricInfo,
    pub form: Form,
    pub unit: String,
    pub result: TestResult,
    /// Why loss forbids a conclusion.
    pub lossy: Option<String>,
}

impl Tested {
    /// Whether it counts in the family.
    pub(super) fn in_family(&self) -> bool {
        self.lossy.is_none() && self.result.outcome == Outcome::Tested
    }

    pub(super) fn into_comparison(self) -> MetricComparison {
        let Self { key, info, form, unit, result, lossy } = self;
        let significant = if lossy.is_some() { result.p.map(|_| false) } else { result.significant };
        let note = match (result.note, lossy) {
            (Some(note), Some(lossy)) => Some(format!("{note}; {lossy}")),
            (note, lossy) => note.or(lossy),
        };
        MetricComparison {
            name: key.name,
            instance: key.instance,
            unit,
            per_operation: form == Form::PerOperation,
            base: result.base,
            test: result.test,
            t: result.t,
            df: result.df,
            p: result.p,
            q: result.q,
            hedges_g: result.hedges_g,
            ratio: result.ratio,
            ratio_ci95: result.ratio_ci95,
            significant,
            note,
            kind: info.kind.name().to_owned(),
            direction: info.direction.name().to_owned(),
            outcome: result.outcome,
            method: result.method,
            welch: result.welch,
            ln_p: result.ln_p,
            self_inflicted: info.self_inflicted,
            follows_speed: None,
        }
    }
}

/// Which of a metric's numbers is compared. A counter has one place in the family, in one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A level or a statistic of a histogram, as it is.
    Level,
    /// A counter per second.
    PerSecond,
    /// A counter per operation.
    PerOperation,
}

impl Form {
    pub(super) fn of<'m>(info: &MetricInfo, operations: bool, metrics: impl Iterator<Item = &'m RunMetric>) -> Self {
        if info.kind != MetricKind::Counter {
            return Self::Level;
        }
        let mut valued = metrics.filter(|m| m.value.is_some()).peekable();
        let all_have = valued.peek().is_some() && valued.all(|m| m.per_operation.is_some());
        if operations && all_have { Self::PerOperation } else { Self::PerSecond }
    }

    pub(super) fn value(self, metric: &RunMetric) -> Option<f64> {
        match self {
            Self::Level | Self::PerSecond => metric.value,
            Self::PerOperation => metric.per_operation,
        }
    }

    /// The step of the number compared; a rate's step goes over to the per-operation form like the rate itself.
    fn resolution(self, metric: &RunMetric) -> Option<f64> {
        let step = metric.resolution?;
        if self != Self::PerOperation {
            return Some(step);
        }
        let (value, per_operation) = (metric.value?, metric.per_operation?);
        // A rate of 0 does not tell the factor; the test finds the step of a counter from its counts then.
        (value.abs() > 0.0).then(|| step * (per_operation / value).abs())
    }

    /// Events and exposure, where the unit is one of things that happen one by one. Nanoseconds and bytes are counted
    /// in large and varying portions, of which "fewer than 20" says nothing.
    fn count(self, run: &RunData, metric: &RunMetric) -> Option<Count> {
        let events = metric.events.filter(|e| *e >= 0.0)?;
        let single = matches!(metric.unit, Unit::Count | Unit::Pages | Unit::HugePages);
        let exposure = match self {
            Self::PerOperation => run.window.operations?,
            Self::PerSecond => run.window.seconds(),
            Self::Level => return None,
        };
        single.then_some(Count { events: events.round() as u64, exposure })
    }

    pub(super) fn unit(self, info: &MetricInfo) -> String {
        let name = info.unit.name();
        match self {
            Self::Level => name.to_owned(),
            Self::PerSecond => format!("{name}/s"),
            Self::PerOperation => format!("{name}/op"),
        }
    }
}

/// Numbers and means without a test, with the runs' own reasons where a side has nothing.
fn untested(
    samples: &MetricSamples,
    why: &str,
    base: &[Option<&RunMetric>],
    test: &[Option<&RunMetric>],
) -> TestResult {
    let one_run = |runs: &[Observation]| runs.first().copied().into_iter().collect::<Vec<_>>();
    // A single run a side is never tested, so this yields an empty result to fill.
    let (first_base, first_test) = (one_run(samples.base), one_run(samples.test));
    let mut result = test_metric(&MetricSamples { base: &first_base, test: &first_test, ..*samples });
    result.base = side(samples.base);
    result.test = side(samples.test);
    result.difference = None;
    let reason = base.iter().chain(test).flatten().find_map(|m| m.note.clone().filter(|_| m.value.is_none()));
    result.note = Some(match reason {
        Some(reason) => format!("{why}: {reason}"),
        None => why.to_owned(),
    });
    result
}

fn side(runs: &[Observation]) -> Side {
    let values: Vec<f64> = runs.iter().map(|o| o.value).filter(|v| v.is_finite()).collect();
    let summary = Summary::of(&values).ok();
    Side {
        n: values.len(),
        mean: summary.map(|s| s.mean()).filter(|m| m.is_finite()),
        sd: summary.and_then(|s| s.sd()).filter(|sd| sd.is_finite()),
    }
}

fn reason_not_to_test(info: &MetricInfo, samples: &MetricSamples) -> Option<Absence> {
    if OWN_FIGURES.iter().any(|own| info.name.starts_with(own)) {
        return Some(Absence::not_tested("a figure of the recorder itself"));
    }
    if info.always_moves {
        return Some(Absence::not_tested("it follows the clock or the host's past, not the run"));
    }
    for (side, runs) in [("base", samples.base), ("test", samples.test)] {
        let known = runs.iter().filter(|o| o.value.is_finite()).count();
        // Values that only some runs have are a selection, and a few of them show no spread.
        if known * 2 < runs.len() {
            return Some(Absence::not_tested(format!("{known} of {} {side} runs have a value", runs.len())));
        }
    }
    None
}
