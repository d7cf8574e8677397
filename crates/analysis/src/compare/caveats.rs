//! What makes two sets of runs hard to compare, and how much their number can show.

use std::collections::BTreeSet;

use super::design::lifetime;
use super::{LargestChange, Primary, Verdict};
use crate::stats::{Design, Method, TestResult, critical_value};
use pagelab_views::metrics::info::info;
use pagelab_views::run::RunData;

/// Notes on differences between the sides other than settings, and on how the runs were laid out.
pub(super) fn guards(base: &[&RunData], test: &[&RunData], design: Design) -> Vec<String> {
    let mut notes = Vec::new();
    let mut differs = |what: &str, of: &dyn Fn(&RunData) -> Option<String>| {
        let side = |runs: &[&RunData]| -> BTreeSet<String> { runs.iter().filter_map(|run| of(run)).collect() };
        let (base, test) = (side(base), side(test));
        if !base.is_empty() && !test.is_empty() && base != test {
            let list = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(", ");
            notes.push(format!("the sides differ in {what}: {} on base, {} on test", list(&base), list(&test)));
        }
    };
    differs("host", &|run| run.manifest.host.clone());
    differs("number of CPUs", &|run| run.manifest.cpus.map(|n| n.to_string()));
    differs("command", &|run| run.manifest.command.as_ref().map(|words| words.join(" ")));
    let jobs = |runs: &[&RunData]| -> BTreeSet<String> {
        runs.iter().filter_map(|run| run.manifest.job.as_ref()).map(ToString::to_string).collect()
    };
    let (base_jobs, test_jobs) = (jobs(base), jobs(test));
    if !base_jobs.is_empty() && !test_jobs.is_empty() && base_jobs.is_disjoint(&test_jobs) {
        notes.push("the sides ran different jobs".to_owned());
    }
    let set_back = base.iter().chain(test).filter(|run| lifetime(run).is_some_and(|(from, to)| to < from)).count();
    if set_back > 0 {
        notes.push(format!(
            "the host's clock was set back during {set_back} runs: in which order they were made is not known; how long they \
             took is, from a clock that cannot be set"
        ));
    }
    if design == Design::Unpaired && apart(base, test) {
        notes.push(
            "all runs of one side were made before those of the other: a slow phase of the machine would look the same; \
             interleave them with pagelab compare -n or pagelab experiment"
                .to_owned(),
        );
    }
    notes
}

/// Whether one side was over before the other began.
fn apart(base: &[&RunData], test: &[&RunData]) -> bool {
    let span = |runs: &[&RunData]| -> Option<(i64, i64)> {
        let times: Option<Vec<(i64, i64)>> = runs.iter().map(|run| lifetime(run)).collect();
        times?.into_iter().reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    };
    let Some(((base_from, base_to), (test_from, test_to))) = span(base).zip(span(test)) else { return false };
    base_to <= test_from || test_to <= base_from
}

/// Power at which the smallest detectable change is stated.
pub(super) const POWER: f64 = 0.8;

/// The smallest relative change of the primary metric that a comparison of such runs finds in four cases of five, from
/// the spread of these runs; `None` if nothing was tested by a t test.
pub(super) fn detectable(result: &TestResult, alpha: f64) -> Option<f64> {
    let (df, se) = match result.method? {
        // Half the interval, in logs, over its critical value.
        Method::PairedBlocks | Method::PairedBlocksAdjusted | Method::UnpairedAdjusted => {
            let [low, high] = result.ratio_ci95?;
            let df = result.df?;
            (df, (high / low).ln() / 2.0 / critical_value(df, 0.95).ok()?)
        }
        Method::WelchUnpaired => {
            let welch = result.welch?;
            let [low, high] = result.difference_ci95?;
            let half = (high - low) / 2.0;
            (welch.df, half / critical_value(welch.df, 0.95).ok()? / result.base.mean?.abs())
        }
        Method::PairedDifferences | Method::ExactPoisson | Method::RankSumCensored => return None,
    };
    let errors = critical_value(df, 1.0 - alpha).ok()? + critical_value(df, 2.0 * POWER - 1.0).ok()?;
    Some(errors * se).filter(|change| change.is_finite())
}

/// The power of this number of runs, where it is low.
pub(super) fn power_notes(primary: Option<&Primary>, family: usize, n: [usize; 2], alpha: f64) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(primary) = primary.filter(|primary| primary.verdict == Verdict::NoDifference)
        && let Some(change) = primary.detectable
    {
        notes.push(format!(
            "{} and {} runs of this spread find a change of {} from {:.1} % on in four cases of five; a smaller one may be there",
            n[0],
            n[1],
            primary.metric,
            change * 100.0
        ));
    }
    let needed = needed_spreads(family, n, alpha);
    if let Some(needed) = needed.filter(|needed| *needed > 4.0) {
        notes.push(format!(
            "{family} metrics are tested together, so with {} and {} runs only one that differs by more than {needed:.0} \
             standard deviations of its runs can be shown; 10 runs a side would show {:.1}",
            n[0],
            n[1],
            needed_spreads(family, [10, 10], alpha).unwrap_or(0.0)
        ));
    }
    notes
}

/// By how many standard deviations a lone differing metric must differ to survive the family, at equal spreads.
fn needed_spreads(family: usize, [base, test]: [usize; 2], alpha: f64) -> Option<f64> {
    if family == 0 || base < 2 || test < 2 {
        return None;
    }
    let t = critical_value((base + test - 2) as f64, 1.0 - alpha / family as f64).ok()?;
    Some(t * (1.0 / base as f64 + 1.0 / test as f64).sqrt())
}

/// Changes listed where nothing can be tested.
const LISTED: usize = 15;
/// Events that are added to both sides of a counter, so that a few more of what hardly happens do not come first.
const FEW_EVENTS: f64 = 20.0;

/// The metrics that differ most between sides of which one has a single run: nothing is claimed of them.
pub(super) fn largest_changes(
    metrics: &[super::MetricComparison],
    base: &[&RunData],
    test: &[&RunData],
) -> Vec<LargestChange> {
    let size = |metric: &super::MetricComparison| -> Option<f64> {
        if info(&metric.name).always_moves || metric.self_inflicted {
            return None;
        }
        let (before, after) = (metric.base.mean?, metric.test.mean?);
        let events = |runs: &[&RunData]| runs.first()?.metric(&metric.name, metric.instance.as_deref())?.events;
        // What a few events come to in the unit of the means.
        let some = match events(base).zip(events(test)) {
            Some((b, t)) if b + t > 0.0 => FEW_EVENTS * (before + after) / (b + t),
            _ => 0.01 * before.abs().max(after.abs()),
        };
        let change = ((after + some) / (before + some)).ln().abs();
        (change.is_finite() && change > 0.05).then_some(change)
    };
    let mut sized: Vec<(f64, &super::MetricComparison)> =
        metrics.iter().filter_map(|metric| Some((size(metric)?, metric))).collect();
    sized.sort_by(|a, b| b.0.total_cmp(&a.0));
    let entry = |metric: &super::MetricComparison| LargestChange {
        name: metric.name.clone(),
        instance: metric.instance.clone(),
        unit: metric.unit.clone(),
        base: metric.base.mean,
        test: metric.test.mean,
        ratio: metric.ratio,
    };
    sized.into_iter().take(LISTED).map(|(_, metric)| entry(metric)).collect()
}
