//! Mean, p50 and p99 from the buckets of the `latency` table, and the distributions that they are of.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::{LatencyRow, LatencyView, TableView};
use pagelab_vocab::metrics::{MetricKind, Unit};

use super::Metrics;
use crate::error::Result;
use crate::run::{MetricKey, RunMetric};
use crate::window::Window;

/// Operations of one run by bucket of their latency; bounds in ns, inclusive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Buckets(BTreeMap<(u64, u64), u64>);

impl Buckets {
    fn add(&mut self, low: u64, high: u64, count: u64) {
        *self.0.entry((low, high)).or_default() += count;
    }

    fn merge(&mut self, other: &Self) {
        for ((low, high), count) in &other.0 {
            self.add(*low, *high, *count);
        }
    }

    /// Operations.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The mean with each operation at the middle of its bucket: off by at most half the width of a bucket.
    fn mean(&self) -> Option<f64> {
        let n = self.count();
        let sum: f64 = self.0.iter().map(|((low, high), count)| middle(*low, *high) * *count as f64).sum();
        (n > 0).then(|| sum / n as f64)
    }

    /// The `share` quantile in ns, operations spread evenly over their bucket, and the width of that bucket.
    pub fn quantile(&self, share: f64) -> Option<(f64, f64)> {
        let rank = share * self.count() as f64;
        let mut below = 0.0;
        for ((low, high), count) in &self.0 {
            let count = *count as f64;
            let width = high.saturating_sub(*low) as f64;
            if count > 0.0 && below + count >= rank {
                let part = ((rank - below) / count).clamp(0.0, 1.0);
                return Some((*low as f64 + part * width, width + 1.0));
            }
            below += count;
        }
        None
    }
}

fn middle(low: u64, high: u64) -> f64 {
    f64::midpoint(low as f64, high as f64)
}

/// (job/direction, kind) to the buckets of the job as a whole and of its threads.
type Histograms = BTreeMap<(String, String), (Buckets, Buckets)>;

/// What operations a distribution is of: the instance (`job/direction`; `None`: all jobs and directions together) and the
/// kind (`slat`, `clat` or `lat`).
pub type LatencyOf = (Option<String>, String);

/// The latency distributions of the load in the window. Seconds that ended before it are the ramp and left out; after it
/// there are no operations, only the row of the last second, whose time is its end.
pub fn distributions(recording: &Recording, window: &Window) -> Result<BTreeMap<LatencyOf, Buckets>> {
    let mut histograms = Histograms::new();
    for batch in recording.read("latency", None)? {
        let view = LatencyView::new(&batch?)?;
        for LatencyRow { ts, job, thread, direction, kind, low_ns, high_ns, count } in view.rows() {
            if ts <= window.start_ns {
                continue;
            }
            let (whole, threads) = histograms.entry((format!("{job}/{direction}"), kind.to_owned())).or_default();
            let buckets = if thread.is_none() { whole } else { threads };
            buckets.add(low_ns, high_ns, count);
        }
    }
    let mut out: BTreeMap<LatencyOf, Buckets> = BTreeMap::new();
    for ((instance, kind), (whole, threads)) in histograms {
        let buckets = if whole.0.is_empty() { threads } else { whole };
        out.entry((None, kind.clone())).or_default().merge(&buckets);
        out.insert((Some(instance), kind), buckets);
    }
    Ok(out)
}

/// The latency metrics of the load.
pub(super) fn collect(recording: &Recording, window: &Window) -> Result<Metrics> {
    let mut out = Metrics::new();
    for ((instance, kind), buckets) in distributions(recording, window)? {
        put(&buckets, &kind, instance.as_deref(), &mut out);
    }
    Ok(out)
}

fn put(buckets: &Buckets, kind: &str, instance: Option<&str>, out: &mut Metrics) {
    let mut set = |statistic: &str, value: Option<(f64, f64)>| {
        let Some((value, step)) = value else { return };
        let mut metric = RunMetric::level(value, MetricKind::Histogram, Unit::Nanoseconds);
        metric.resolution = Some(step);
        out.insert(MetricKey::new(&format!("load.{kind}_ns.{statistic}"), instance), metric);
    };
    // A mean over many operations moves by much less than a bucket; one nanosecond spread over them is its step.
    let step = 1.0 / buckets.count().max(1) as f64;
    set("mean", buckets.mean().map(|mean| (mean, step)));
    set("p50", buckets.quantile(0.5));
    set("p99", buckets.quantile(0.99));
}
