//! The latency of operations as a distribution: its quantiles on both sides, each with an interval from runs.
//!
//! A mean hides what a tail does. Each run gives one value of each quantile, from its histogram; runs are compared and
//! never the operations of a run, which wait for each other and are no independent draws. The quantiles of all jobs are
//! one family (Benjamini-Hochberg), beside that of the metrics.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_recording::{Bounds, Recording};
use pagelab_views::metrics::latency::{Buckets, LatencyOf, distributions};
use pagelab_views::run::RunData;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::design::{Block, block_of};
use super::{Comparison, Family, levels};
use crate::error::Result;
use crate::parallel;
use crate::stats::{Design, MetricSamples, Observation, Side, TestResult, settle_family, test_metric};

/// The quantiles compared.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
/// Operations of a run that must be slower than a quantile: of fewer its value is that of single operations.
const LEAST_BEYOND: f64 = 10.0;
/// The kinds of latency, the one that is compared first. From submission on, or from issue to completion.
const KINDS: [&str; 2] = ["lat", "clat"];
/// Name of the family of these tests.
const FAMILY: &str = "latency";

/// One quantile of the latency of a job's operations in one direction, on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct LatencyChange {
    /// `job/direction`; null for all jobs and directions together.
    pub instance: Option<String>,
    /// `lat` (from submission to completion) or `clat` (from issue to completion).
    pub kind: String,
    /// `p50`, `p90`, `p99` or `p99.9`.
    pub quantile: String,
    /// Unit of the means: `ns`.
    pub unit: String,
    /// The base's runs, each with its own quantile.
    pub base: Side,
    /// The test side's runs.
    pub test: Side,
    /// test / base.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio, from runs.
    pub ratio_ci95: Option<[f64; 2]>,
    /// Two-sided p value.
    pub p: Option<f64>,
    /// Benjamini-Hochberg q value in the family `latency`.
    pub q: Option<f64>,
    /// The decision: q is at most the family's level; null if not tested.
    pub significant: Option<bool>,
    /// Notes a reader of the numbers must know, and why what is null is null.
    pub note: Option<String>,
}

/// Distributions of one run.
type Distributions = BTreeMap<LatencyOf, Buckets>;

/// Compares the distributions, if every run that counts has one.
pub(super) fn add(
    comparison: &mut Comparison,
    base: &[&RunData],
    test: &[&RunData],
    design: Design,
    bounds: &Bounds,
) -> Result<()> {
    // A metric says whether there is a distribution, without reading it.
    let has_latency = |run: &&RunData| KINDS.iter().any(|kind| run.value(&format!("load.{kind}_ns.p50")).is_some());
    if base.is_empty() || test.is_empty() || !base.iter().chain(test).all(has_latency) {
        return Ok(());
    }
    let load = |run: &&RunData| -> Result<Distributions> {
        let recording = Recording::open(&run.dir)?;
        let span = bounds.of(&recording)?;
        Ok(distributions(&recording.within(span), &run.window)?)
    };
    let of_side = |runs: &[&RunData]| -> Result<Vec<Distributions>> { parallel::map(runs, load).into_iter().collect() };
    let sides = [(base, of_side(base)?), (test, of_side(test)?)];
    let (mut changes, mut results) = (Vec::new(), Vec::new());
    for key in compared(sides.iter().flat_map(|(_, all)| all)) {
        for (quantile, share) in QUANTILES {
            results.push(tested(&key, share, &sides, design));
            changes.push((key.clone(), quantile));
        }
    }
    let level = levels::of_families(comparison.primary.as_ref(), comparison.alpha);
    let size = settle_family(&mut results, level);
    comparison.latency =
        changes.into_iter().zip(results).map(|((key, quantile), result)| change(key, quantile, result)).collect();
    comparison.families.push(Family { name: FAMILY.to_owned(), size, level });
    Ok(())
}

/// What can be compared: what every run has, in the first kind that there is. All operations together only where there
/// are several jobs or directions.
fn compared<'a>(runs: impl Iterator<Item = &'a Distributions>) -> BTreeSet<LatencyOf> {
    let mut in_all: Option<BTreeSet<LatencyOf>> = None;
    for run in runs {
        let has: BTreeSet<LatencyOf> = run.keys().cloned().collect();
        in_all = Some(in_all.map_or_else(|| has.clone(), |all| &all & &has));
    }
    let all = in_all.unwrap_or_default();
    let Some(kind) = KINDS.into_iter().find(|kind| all.iter().any(|(_, of)| of == kind)) else {
        return BTreeSet::new();
    };
    let of_kind: BTreeSet<LatencyOf> = all.into_iter().filter(|(_, of)| of == kind).collect();
    let instances = of_kind.iter().filter(|(instance, _)| instance.is_some()).count();
    of_kind.into_iter().filter(|(instance, _)| instance.is_some() || instances != 1).collect()
}

/// The test of one quantile.
fn tested(key: &LatencyOf, share: f64, sides: &[(&[&RunData], Vec<Distributions>); 2], design: Design) -> TestResult {
    let all = || sides.iter().flat_map(|(runs, _)| runs.iter());
    let blocks: BTreeSet<Block> = all().filter_map(|run| block_of(run)).collect();
    let rounds: BTreeMap<Block, u32> = blocks.into_iter().zip(0..).collect();
    let is_few = |buckets: &Buckets| buckets.count() as f64 * (1.0 - share) < LEAST_BEYOND;
    let few =
        sides.iter().flat_map(|(_, all)| all).filter_map(|run| run.get(key)).filter(|buckets| is_few(buckets)).count();
    let mut step: Option<f64> = None;
    let samples = sides.each_ref().map(|(runs, distributions)| -> Vec<Observation> {
        let one = |(run, all): (&&RunData, &Distributions)| {
            // Without the runs of few operations, which are the slow ones, the rest would be a selection.
            let found = all.get(key).filter(|_| few == 0).and_then(|buckets| buckets.quantile(share));
            step = found.map_or(step, |(_, width)| Some(step.map_or(width, |most: f64| most.max(width))));
            let round = block_of(run).and_then(|block| rounds.get(&block).copied());
            Observation { value: found.map_or(f64::NAN, |(value, _)| value), round, count: None }
        };
        runs.iter().zip(distributions).map(one).collect()
    });
    let [base, test] = &samples;
    let mut result = test_metric(&MetricSamples { base, test, design, resolution: step });
    if few > 0 {
        let why = format!("in {few} runs fewer than {LEAST_BEYOND} operations are slower than that");
        result.note = Some(result.note.take().map_or_else(|| why.clone(), |note| format!("{note}; {why}")));
    }
    result
}

fn change((instance, kind): LatencyOf, quantile: &str, result: TestResult) -> LatencyChange {
    LatencyChange {
        instance,
        kind,
        quantile: quantile.to_owned(),
        unit: "ns".to_owned(),
        base: result.base,
        test: result.test,
        ratio: result.ratio,
        ratio_ci95: result.ratio_ci95,
        p: result.p,
        q: result.q,
        significant: result.significant,
        note: result.note,
    }
}
