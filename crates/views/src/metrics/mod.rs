//! From the rows of a recording to one number per metric.

mod bins;
mod faults;
pub mod info;
pub mod latency;
mod load;
pub mod over_time;
mod sampled;
mod series;
mod totals;
mod used;
pub mod values;

use std::collections::BTreeMap;

use pagelab_recording::{Recording, Span};
use pagelab_vocab::metrics::{MetricKind, Unit};

use crate::error::Result;
use crate::run::{MetricKey, RunMetric};
use crate::window::Window;

/// All numbers of a run.
pub(crate) type Metrics = BTreeMap<MetricKey, RunMetric>;

/// Reads all metrics of a recording in its window, which lies in `span`. What is known for the whole run only is left out
/// where the span is a part of it.
pub(crate) fn collect(recording: &Recording, span: Span, window: &Window, notes: &mut Vec<String>) -> Result<Metrics> {
    // A counter's value before the span is its value at the start of it, so sampled metrics are read from the beginning.
    let mut metrics = sampled::collect(recording, window, notes)?;
    metrics.extend(faults::collect(recording, window)?);
    metrics.extend(latency::collect(&recording.clone().within(span), window)?);
    if span.is_part() {
        notes.push(
            "what is known of the whole run only (the load's results, accounts of the command) is left out".to_owned(),
        );
    } else {
        metrics.extend(totals::collect(recording.manifest(), window));
        metrics.extend(used::collect(recording.manifest(), window));
        metrics.extend(values::collect(recording.manifest()));
        metrics.extend(load::collect(recording, window)?);
    }
    Ok(metrics)
}

impl RunMetric {
    /// A number taken as it is.
    pub(crate) fn level(value: f64, kind: MetricKind, unit: Unit) -> Self {
        Self { value: Some(value), kind, unit, per_operation: None, events: None, resolution: None, note: None }
    }

    /// `events` counted over the whole window.
    pub(crate) fn counted(events: f64, unit: Unit, window: &Window) -> Self {
        let seconds = window.seconds();
        Self {
            value: Some(events / seconds),
            kind: MetricKind::Counter,
            unit,
            per_operation: window.operations.map(|n| events / n),
            events: Some(events),
            resolution: Some(1.0 / seconds),
            note: None,
        }
    }

    /// No number, for this reason.
    pub(crate) fn absent(kind: MetricKind, unit: Unit, why: String) -> Self {
        Self { value: None, kind, unit, per_operation: None, events: None, resolution: None, note: Some(why) }
    }
}
