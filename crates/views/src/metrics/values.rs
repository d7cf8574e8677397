//! `value.*`: numbers that the command printed about itself, from the manifest's `values`.
//!
//! Which way such a number is better is known to the user alone, who says it with the number; the vocabulary of metrics
//! cannot.

use pagelab_recording::Manifest;
use pagelab_vocab::metrics::{Direction, MetricInfo, MetricKind, Unit};
use serde_json::Value;

use super::Metrics;
use super::info::info;
use crate::run::{MetricKey, RunData, RunMetric};

/// What the names of these metrics begin with.
pub(crate) const PREFIX: &str = "value.";

/// Key of the manifest under which the session keeps them.
const VALUES: &str = "values";

/// The numbers of one run; one that the output did not hold is there without a value.
pub(super) fn collect(manifest: &Manifest) -> Metrics {
    let mut out = Metrics::new();
    for value in list(manifest) {
        let Some(name) = name(value) else { continue };
        let metric = if let Some(number) = value.get("value").and_then(Value::as_f64) {
            let mut metric = RunMetric::level(number, MetricKind::Gauge, Unit::Count);
            metric.resolution = value.get("step").and_then(Value::as_f64).filter(|step| *step > 0.0);
            metric
        } else {
            let why = value.get("note").and_then(Value::as_str).unwrap_or("the command did not print it");
            RunMetric::absent(MetricKind::Gauge, Unit::Count, why.to_owned())
        };
        out.insert(MetricKey::new(&name, None), metric);
    }
    out
}

fn list(manifest: &Manifest) -> impl Iterator<Item = &Value> {
    manifest.extra.get(VALUES).and_then(Value::as_array).into_iter().flatten()
}

fn name(value: &Value) -> Option<String> {
    Some(format!("{PREFIX}{}", value.get("name")?.as_str()?))
}

/// Which way `metric` is better, if the user said so in some run.
fn direction<'a>(metric: &str, runs: impl Iterator<Item = &'a RunData>) -> Option<Direction> {
    let mut values = runs.flat_map(|run| list(&run.manifest)).filter(|value| name(value).as_deref() == Some(metric));
    values.find_map(|value| match value.get("direction")?.as_str()? {
        "higher" => Some(Direction::HigherIsBetter),
        "lower" => Some(Direction::LowerIsBetter),
        _ => None,
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
    let metric = name(list(&runs.clone().next()?.manifest).next()?)?;
    let mut runs = runs;
    let asked = |run: &RunData| list(&run.manifest).any(|value| name(value).as_ref() == Some(&metric));
    if runs.all(asked) { Some(metric) } else { None }
}
