//! `value.*`: numbers that the command printed about itself, from the manifest's `values`.
//!
//! Which direction of such a number is better is known to the user alone, who gives it with the number; the vocabulary
//! of metrics cannot.

use pagelab_recording::{Better, Manifest, PrintedValue};
use pagelab_vocab::metrics::{Direction, MetricInfo, MetricKind, Unit};

use super::Metrics;
use super::info::info;
use crate::run::{MetricKey, RunData, RunMetric};

/// What the names of these metrics begin with.
pub(crate) const PREFIX: &str = "value.";

/// The numbers of one run; one that the output did not hold is there without a value.
pub(super) fn collect(manifest: &Manifest) -> Metrics {
    let mut out = Metrics::new();
    for value in &manifest.values {
        let metric = if let Some(number) = value.value {
            let mut metric = RunMetric::level(number, MetricKind::Gauge, Unit::Count);
            metric.resolution = value.step.filter(|step| *step > 0.0);
            metric
        } else {
            let why = value.note.as_deref().unwrap_or("the command did not print it");
            RunMetric::absent(MetricKind::Gauge, Unit::Count, why.to_owned())
        };
        out.insert(MetricKey::new(&metric_name(value), None), metric);
    }
    out
}

fn metric_name(value: &PrintedValue) -> String {
    metric_of(&value.name)
}

/// The metric of the number that `--value` calls NAME.
pub fn metric_of(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// Which way `metric` is better, if the user said so in some run.
fn direction<'a>(metric: &str, runs: impl Iterator<Item = &'a RunData>) -> Option<Direction> {
    let mut values = runs.flat_map(|run| &run.manifest.values).filter(|value| metric_name(value) == metric);
    values.find_map(|value| {
        Some(match value.direction? {
            Better::Higher => Direction::HigherIsBetter,
            Better::Lower => Direction::LowerIsBetter,
        })
    })
}

/// What is known of a metric: the vocabulary's word, and of the user's own numbers the user's.
pub fn info_of<'a>(metric: &str, runs: impl Iterator<Item = &'a RunData>) -> MetricInfo {
    let mut info = info(metric);
    if metric.starts_with(PREFIX)
        && let Some(direction) = direction(metric, runs)
    {
        info.direction = direction;
    }
    info
}

/// The metric of the first number that the command was asked for, if all runs were asked for it.
pub fn first<'a>(runs: impl Iterator<Item = &'a RunData> + Clone) -> Option<String> {
    let metric = metric_name(runs.clone().next()?.manifest.values.first()?);
    let mut runs = runs;
    let asked = |run: &RunData| run.manifest.values.iter().any(|value| metric_name(value) == metric);
    if runs.all(asked) { Some(metric) } else { None }
}
