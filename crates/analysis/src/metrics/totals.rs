//! `run.*`: what the kernel says of a command when it has ended.

use pagelab_recording::Manifest;
use pagelab_vocab::metrics::{self, MetricKind, Unit};
use serde_json::Value;

use super::Metrics;
use crate::run::{MetricKey, RunMetric};
use crate::window::{Window, WindowSource};

const ELAPSED: &str = "run.elapsed_ns";

/// The numbers in the manifest's `exit` (`utime_ns`, `minor_faults`, ... beside `code` and `signal`), and the length of
/// the window of a command.
pub(super) fn collect(manifest: &Manifest, window: &Window) -> Metrics {
    let mut out = Metrics::new();
    if window.source == WindowSource::Command && !window.is_empty() {
        let elapsed = (window.end_ns - window.start_ns) as f64;
        put(&mut out, ELAPSED, elapsed, Unit::Nanoseconds);
    }
    for (field, value) in manifest.exit.iter().flat_map(|exit| &exit.extra) {
        let name = format!("run.{field}");
        if let (Some(info), Some(value)) = (metrics::metric(&name), Value::as_f64(value)) {
            put(&mut out, &name, value, info.unit);
        }
    }
    out
}

fn put(out: &mut Metrics, name: &str, value: f64, unit: Unit) {
    let mut metric = RunMetric::level(value, MetricKind::Gauge, unit);
    // These are whole numbers of their unit.
    metric.resolution = Some(1.0);
    out.insert(MetricKey::new(name, None), metric);
}
