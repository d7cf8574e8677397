//! One run: what a recording says about the measured time, as one number per metric.
//!
//! [`RunData::load`] streams a recording with memory that depends on the number of metrics, not on its length, and reads
//! only the columns it needs. Rules that need single faults or mappings open [`RunData::dir`] themselves.

mod exclude;
mod load;
mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use pagelab_recording::Manifest;
use pagelab_vocab::metrics::{MetricKind, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use exclude::Exclusion;
pub use load::load_loss;
pub use settings::{RunSettings, SettingValue};

pub use crate::window::{Window, WindowSource};

/// Everything that comparing and explaining need of one run.
#[derive(Debug, Clone)]
pub struct RunData {
    /// The recording's directory.
    pub dir: PathBuf,
    /// Its manifest. Conclusions may not rest on `label` and `variant`.
    pub manifest: Manifest,
    /// The measured time, without ramp, start and tear-down.
    pub window: Window,
    /// One entry per metric and instance that the recording knows anything of. An entry without a value says why.
    pub metrics: BTreeMap<MetricKey, RunMetric>,
    /// Settings at the start and at the end.
    pub settings: RunSettings,
    /// What each stream saw and lost, over the whole recording.
    pub loss: BTreeMap<String, StreamLoss>,
    /// Why the run may not count, if so. It is still loaded and listed.
    pub excluded: Option<Exclusion>,
    /// What a reader of the numbers must know about this run.
    pub notes: Vec<String>,
}

impl RunData {
    /// The metric called `name` of `instance` (`None`: the one that has no instance, or the total of all).
    pub fn metric(&self, name: &str, instance: Option<&str>) -> Option<&RunMetric> {
        self.metrics.get(&MetricKey::new(name, instance))
    }

    /// The value of a metric without instance, if there is one.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.metric(name, None)?.value
    }

    /// The value per operation of a metric without instance, if there is one.
    pub fn per_operation(&self, name: &str) -> Option<f64> {
        self.metric(name, None)?.per_operation
    }

    /// All instances of a metric with their values.
    pub fn instances<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a MetricKey, &'a RunMetric)> + 'a {
        self.metrics.range(MetricKey::new(name, None)..).take_while(move |(key, _)| key.name == name)
    }

    /// A setting's value at the start of the run, `None` if it was not there or could not be read.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.start.get(key)?.value.as_deref()
    }
}

/// What names a number of a run: the metric and which device, CPU, job, ... it is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize)]
pub struct MetricKey {
    /// Name in the vocabulary of metrics; a histogram's has `.mean`, `.p50` or `.p99` appended.
    pub name: String,
    /// The instance; `None` where there is one for all, or for the total.
    pub instance: Option<String>,
}

impl MetricKey {
    /// Makes a key.
    pub fn new(name: &str, instance: Option<&str>) -> Self {
        Self { name: name.to_owned(), instance: instance.map(str::to_owned) }
    }
}

impl fmt::Display for MetricKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.instance {
            Some(instance) => write!(f, "{}[{instance}]", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// One number of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunMetric {
    /// The number: of a counter its increase per second, of a gauge its time-weighted mean, of a histogram the
    /// statistic that the key names. `None` if it could not be had; the note says why.
    pub value: Option<f64>,
    /// Which rule made the number.
    pub kind: MetricKind,
    /// Unit of what is counted or levelled; a counter's `value` is in this unit per second.
    pub unit: Unit,
    /// Counters only: the increase per operation, where the operations of the run are known ([`Window::operations`]).
    pub per_operation: Option<f64>,
    /// Counters only: the increase in the window, in `unit`.
    pub events: Option<f64>,
    /// Smallest step in which `value` can change; `None` if unknown.
    pub resolution: Option<f64>,
    /// What a reader of the number must know.
    pub note: Option<String>,
}

/// What a stream saw and lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, Deserialize)]
pub struct StreamLoss {
    /// Events that happened, as far as the probe knows.
    pub seen: u64,
    /// Of those, events that should be in the recording and are not.
    pub lost: u64,
    /// Of those, events left out on purpose.
    pub filtered: u64,
}

impl StreamLoss {
    /// Lost events over those that should have been recorded; 0 if there were none.
    pub fn share(&self) -> f64 {
        let wanted = self.seen.saturating_sub(self.filtered).max(self.lost);
        if wanted == 0 { 0.0 } else { self.lost as f64 / wanted as f64 }
    }
}
