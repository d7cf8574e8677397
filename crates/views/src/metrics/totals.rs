//! `run.*`: what the kernel says of a command when it has ended.

use pagelab_recording::Manifest;
use pagelab_vocab::metrics::{self, MetricKind, Unit};
use serde_json::Value;

use super::Metrics;
use crate::run::{MetricKey, RunMetric};
use crate::window::{Window, WindowSource};

const ELAPSED: &str = "run.elapsed_ns";

/// Key of the manifest under which the session writes what wait4 says of the ended command.
const RUSAGE: &str = "rusage";

/// Fields of `rusage` whose metric has another name.
const RENAMED: [(&str, &str); 2] =
    [("voluntary_context_switches", "voluntary_switches"), ("involuntary_context_switches", "involuntary_switches")];

/// The manifest's `rusage` and the length of the window, of a command. Of a load there are none: its process also lays
/// out files and ramps up, and what it did in the measured time is in `jobs`.
pub(super) fn collect(manifest: &Manifest, window: &Window) -> Metrics {
    let mut out = Metrics::new();
    if window.source != WindowSource::Command || window.is_empty() {
        return out;
    }
    put(&mut out, ELAPSED, (window.end_ns - window.start_ns) as f64, Unit::Nanoseconds);
    for (field, value) in manifest.extra.get(RUSAGE).and_then(Value::as_object).into_iter().flatten() {
        let renamed = RENAMED.iter().find(|(theirs, _)| theirs == field).map_or(field.as_str(), |(_, ours)| *ours);
        let name = format!("run.{renamed}");
        if let (Some(info), Some(value)) = (metrics::metric(&name), Value::as_f64(value)) {
            put(&mut out, &name, value, info.unit);
        }
    }
    let of = |name: &str| out.get(&MetricKey::new(name, None)).and_then(|m: &RunMetric| m.value);
    if let (Some(user), Some(system)) = (of("run.utime_ns"), of("run.stime_ns")) {
        put(&mut out, "run.cpu_ns", user + system, Unit::Nanoseconds);
    }
    out
}

fn put(out: &mut Metrics, name: &str, value: f64, unit: Unit) {
    let mut metric = RunMetric::level(value, MetricKind::Gauge, unit);
    // These are whole numbers of their unit.
    metric.resolution = Some(1.0);
    out.insert(MetricKey::new(name, None), metric);
}
