//! Lost events, and which conclusions they forbid.

use std::collections::BTreeMap;

use pagelab_vocab::metrics::MetricKind;
use pagelab_vocab::streams::Stream;

use pagelab_views::run::RunData;

/// Largest share of a stream's events that may be lost before the numbers counted from it prove nothing.
const MAX_EVENTS_LOST: f64 = 0.001;

/// Largest share of the samples that may be missed before the mean of a level proves nothing. A missed sample does not
/// falsify a level as a lost event falsifies a count: the value before it is held.
const MAX_SAMPLES_LOST: f64 = 0.01;

/// Per stream the largest share that any run lost. The worst run decides: what is lost on one side only looks like a
/// difference between the sides.
pub(super) struct Losses(BTreeMap<String, f64>);

impl Losses {
    pub(super) fn of(base: &[&RunData], test: &[&RunData]) -> Self {
        let mut worst: BTreeMap<String, f64> = BTreeMap::new();
        for run in base.iter().chain(test) {
            for (stream, loss) in &run.loss {
                let entry = worst.entry(stream.clone()).or_default();
                *entry = entry.max(loss.share());
            }
        }
        Self(worst)
    }

    /// Why nothing may be concluded from this metric, if so.
    pub(super) fn explain(&self, name: &str, kind: MetricKind) -> Option<String> {
        let (stream, most) = source_stream(name, kind)?;
        let share = self.0.get(stream).copied().filter(|share| *share > most)?;
        Some(format!(
            "no conclusion: stream {stream} lost {:.2} % in one run, at most {} % are allowed",
            share * 100.0,
            most * 100.0
        ))
    }

    /// Streams that lost more than events may, for the document's notes.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        self.0
            .iter()
            .filter(|(_, share)| **share > MAX_EVENTS_LOST)
            .map(|(stream, share)| format!("stream {stream} lost up to {:.2} % of its events in a run", share * 100.0))
    }
}

/// The stream whose loss falsifies a metric, and how much of it may be lost. A counter of the kernel is right at every
/// sample that there is, and what the load says of itself comes from no stream.
fn source_stream(name: &str, kind: MetricKind) -> Option<(&'static str, f64)> {
    if name.starts_with("faults.") {
        return Some((Stream::Faults.name(), MAX_EVENTS_LOST));
    }
    let sampled = kind == MetricKind::Gauge && !name.starts_with("run.") && !name.starts_with("load.");
    sampled.then_some((Stream::Metrics.name(), MAX_SAMPLES_LOST))
}
