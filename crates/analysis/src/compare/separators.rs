//! What tells two modes of one side apart: settings, and metrics whose values split the runs into the same two groups.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pagelab_views::metrics::info::info;
use pagelab_views::run::{MetricKey, RunData, RunMetric};
use pagelab_vocab::metrics::{Driver, MetricKind, driver};

/// Metrics listed at most.
const LISTED: usize = 5;
/// Names of the recorder's own figures.
const OWN_FIGURES: [&str; 2] = ["self.", "recorder."];

/// What splits the runs of a side as its two modes do.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Separators {
    /// Settings with one value in all runs of one mode and another in all of the other.
    pub settings: Vec<SeparatingSetting>,
    /// Metrics whose values in one mode all lie above those in the other; the clearest first, five at most.
    pub metrics: Vec<SeparatingMetric>,
    /// Number of such metrics, listed or not.
    pub separating: usize,
    /// Metrics that were looked at: those that every run has and that vary, without the primary one, the recorder's own
    /// and those that follow the clock.
    pub looked_at: usize,
    /// The number of metrics that would split the runs so by chance, 2 / C(n, k) of those looked at, k of n runs being
    /// in one mode.
    pub by_chance: f64,
}

/// A setting, or the host, that is another in each mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct SeparatingSetting {
    /// Key; `host` for the machine that the runs were made on.
    pub key: String,
    /// Its value in the mode of lower values of the primary metric; null if it could not be read there.
    pub lower: Option<String>,
    /// Its value in the other mode.
    pub upper: Option<String>,
}

/// A metric whose values do not overlap between the modes. Counters are per operation, or per run where operations are
/// not known.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SeparatingMetric {
    /// Name.
    pub name: String,
    /// Device, CPU, job, ...
    pub instance: Option<String>,
    /// Mean in the mode of lower values of the primary metric.
    pub lower_mean: f64,
    /// Mean in the other mode.
    pub upper_mean: f64,
    /// Share of the metric's variance that is left within the modes, 0 to 1: the smaller, the clearer it separates.
    pub within: f64,
}

/// What separates the runs of two modes; neither is empty. `primary` is the metric that has the modes.
pub(super) fn separators(lower: &[&RunData], upper: &[&RunData], primary: &str) -> Separators {
    let keys: BTreeSet<&MetricKey> = lower.iter().flat_map(|run| run.metrics.keys()).collect();
    let mut looked_at = 0;
    let mut metrics = Vec::new();
    for key in keys.into_iter().filter(|key| may_explain(key, primary)) {
        let Some((low, high)) = values(key, lower, upper) else { continue };
        looked_at += 1;
        metrics.extend(separated(key, &low, &high));
    }
    metrics.sort_by(|a, b| {
        a.within.total_cmp(&b.within).then_with(|| (&a.name, &a.instance).cmp(&(&b.name, &b.instance)))
    });
    let separating = metrics.len();
    metrics.truncate(LISTED);
    let by_chance = looked_at as f64 * chance(lower.len(), upper.len());
    Separators { settings: settings(lower, upper), metrics, separating, looked_at, by_chance }
}

/// The probability that values without any relation to two groups split them completely: 2 / C(a + b, a).
fn chance(a: usize, b: usize) -> f64 {
    2.0 * (1..=a).map(|i| i as f64 / (b + i) as f64).product::<f64>()
}

/// Whether a metric can say more than the primary itself: not the time that passed, nor the recorder's doings.
fn may_explain(key: &MetricKey, primary: &str) -> bool {
    let follows = driver(&key.name, key.instance.as_deref()) == Driver::Time || info(&key.name).always_moves;
    let is_own = OWN_FIGURES.iter().any(|own| key.name.starts_with(own));
    let is_load = key.name.starts_with("load.") || key.name == "run.elapsed_ns";
    !follows && !is_own && !is_load && key.to_string() != primary
}

/// The metric's value in each run of both modes, in the first form that all have; `None` if there is none or if it does
/// not vary.
fn values(key: &MetricKey, lower: &[&RunData], upper: &[&RunData]) -> Option<(Vec<f64>, Vec<f64>)> {
    type Form = fn(&RunMetric) -> Option<f64>;
    let counter = |m: &RunMetric| m.kind == MetricKind::Counter;
    let is_counter = lower.iter().chain(upper).filter_map(|run| run.metrics.get(key)).any(counter);
    let forms: &[Form] = if is_counter { &[|m| m.per_operation, |m| m.events] } else { &[|m| m.value] };
    let of = |runs: &[&RunData], form: Form| -> Option<Vec<f64>> {
        runs.iter().map(|run| form(run.metrics.get(key)?).filter(|value| value.is_finite())).collect()
    };
    let (low, high) = forms.iter().find_map(|form| of(lower, *form).zip(of(upper, *form)))?;
    let first = *low.first()?;
    let varies = low.iter().chain(&high).any(|value| value.total_cmp(&first).is_ne());
    varies.then_some((low, high))
}

fn separated(key: &MetricKey, low: &[f64], high: &[f64]) -> Option<SeparatingMetric> {
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most(low) >= least(high) && most(high) >= least(low) {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let squares = |values: &[f64], center: f64| values.iter().map(|v| (v - center).powi(2)).sum::<f64>();
    let all = [low, high].concat();
    let within = (squares(low, mean(low)) + squares(high, mean(high))) / squares(&all, mean(&all));
    Some(SeparatingMetric {
        name: key.name.clone(),
        instance: key.instance.clone(),
        lower_mean: mean(low),
        upper_mean: mean(high),
        within,
    })
}

fn settings(lower: &[&RunData], upper: &[&RunData]) -> Vec<SeparatingSetting> {
    // The one value that a setting has in all of these runs; the outer `None` where it has several or is not there.
    let one = |runs: &[&RunData], key: &str| -> Option<Option<String>> {
        let mut read = runs.iter().map(|run| run.settings.start.get(key).map(|setting| setting.value.as_deref()));
        let first = read.next()??;
        read.all(|value| value == Some(first)).then(|| first.map(str::to_owned))
    };
    let keys: BTreeSet<&String> = lower.iter().flat_map(|run| run.settings.start.keys()).collect();
    let differing = keys.into_iter().filter_map(|key| {
        let (low, high) = (one(lower, key)?, one(upper, key)?);
        (low != high).then(|| SeparatingSetting { key: key.clone(), lower: low, upper: high })
    });
    host(lower, upper).into_iter().chain(differing).collect()
}

/// The host, if each mode was made on one of its own.
fn host(lower: &[&RunData], upper: &[&RunData]) -> Option<SeparatingSetting> {
    let one = |runs: &[&RunData]| -> Option<String> {
        let first = runs.first()?.manifest.host.as_ref()?;
        runs.iter().all(|run| run.manifest.host.as_ref() == Some(first)).then(|| first.clone())
    };
    let (low, high) = (one(lower)?, one(upper)?);
    (low != high).then(|| SeparatingSetting { key: "host".to_owned(), lower: Some(low), upper: Some(high) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_one_split_either_way_of_all() {
        assert!((chance(3, 7) - 2.0 / 120.0).abs() < 1e-15);
        assert!((chance(2, 3) - 2.0 / 10.0).abs() < 1e-15);
    }

    #[test]
    fn groups_that_overlap_or_touch_are_not_separated() {
        let key = MetricKey::new("vmstat.pgfault", None);
        assert_eq!(separated(&key, &[1.0, 2.0], &[2.0, 3.0]), None);
        assert_eq!(separated(&key, &[1.0, 4.0], &[2.0, 3.0]), None);
        let apart = separated(&key, &[7.0, 9.0], &[1.0, 3.0]).expect("apart, the other way round");
        assert!((apart.within - 4.0 / 40.0).abs() < 1e-12, "{apart:?}");
    }
}
