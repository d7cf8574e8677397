//! `run.*`: what the kernel says of a command when it has ended.

use pagelab_recording::{Manifest, Rusage};
use pagelab_vocab::metrics::{self, MetricKind, Unit};

use super::Metrics;
use crate::run::{MetricKey, RunMetric};
use crate::window::{Window, WindowSource};

const ELAPSED: &str = "run.elapsed_ns";

/// For a command, the manifest's `rusage` and the length of the window. A load has none: its process also lays out
/// files and ramps up, and its use in the measured time is in `jobs`.
pub(super) fn collect(manifest: &Manifest, window: &Window) -> Metrics {
    let mut out = Metrics::new();
    if window.source != WindowSource::Command || window.is_empty() {
        return out;
    }
    put(&mut out, ELAPSED, (window.end_ns - window.start_ns) as f64, Unit::Nanoseconds);
    for (name, value) in manifest.rusage.as_ref().map(counted).into_iter().flatten() {
        if let (Some(info), Some(value)) = (metrics::metric(name), value) {
            put(&mut out, name, value as f64, info.unit);
        }
    }
    let of = |name: &str| out.get(&MetricKey::new(name, None)).and_then(|m: &RunMetric| m.value);
    if let (Some(user), Some(system)) = (of("run.utime_ns"), of("run.stime_ns")) {
        put(&mut out, "run.cpu_ns", user + system, Unit::Nanoseconds);
    }
    out
}

/// Each figure of wait4 with the name of its metric.
fn counted(rusage: &Rusage) -> [(&'static str, Option<u64>); 7] {
    [
        ("run.utime_ns", rusage.utime_ns),
        ("run.stime_ns", rusage.stime_ns),
        ("run.minor_faults", rusage.minor_faults),
        ("run.major_faults", rusage.major_faults),
        ("run.voluntary_switches", rusage.voluntary_context_switches),
        ("run.involuntary_switches", rusage.involuntary_context_switches),
        ("run.max_rss_bytes", rusage.max_rss_bytes),
    ]
}

fn put(out: &mut Metrics, name: &str, value: f64, unit: Unit) {
    let mut metric = RunMetric::level(value, MetricKind::Gauge, unit);
    // These are whole numbers of their unit.
    metric.resolution = Some(1.0);
    out.insert(MetricKey::new(name, None), metric);
}
