//! `load.*` from the `jobs` table: operations and bytes per job and direction, and all together.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::{JobsRow, JobsView, TableView};
use pagelab_vocab::metrics::{MetricKind, Unit};

use super::Metrics;
use crate::error::Result;
use crate::run::{MetricKey, RunMetric};
use crate::window::Window;

#[derive(Debug, Clone, Copy, Default)]
struct Work {
    ios: u64,
    bytes: u64,
    runtime_ns: u64,
    short: Option<u64>,
    errors: Option<u64>,
}

impl Work {
    fn of(row: &JobsRow) -> Self {
        let JobsRow { ios, bytes, runtime_ns, short, errors, .. } = *row;
        Self { ios, bytes, runtime_ns, short, errors }
    }

    /// Threads of one job run side by side: work adds up, time does not.
    fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b).or(a).or(b);
        self.ios += other.ios;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.runtime_ns = self.runtime_ns.max(other.runtime_ns);
        self.short = sum(self.short, other.short);
        self.errors = sum(self.errors, other.errors);
    }

    fn put(&self, seconds: f64, operations: Option<f64>, instance: Option<&str>, out: &mut Metrics) {
        if seconds <= 0.0 {
            return;
        }
        let mut set = |name: &str, metric: RunMetric| out.insert(MetricKey::new(name, instance), metric);
        let counted = |events: u64, unit: Unit, per_operation: bool| RunMetric {
            value: Some(events as f64 / seconds),
            kind: MetricKind::Counter,
            unit,
            per_operation: operations.filter(|n| per_operation && *n > 0.0).map(|n| events as f64 / n),
            events: Some(events as f64),
            resolution: Some(1.0 / seconds),
            note: None,
        };
        let level = |value: f64, unit: Unit, step: f64| RunMetric {
            resolution: Some(step / seconds),
            ..RunMetric::level(value, MetricKind::Gauge, unit)
        };
        // Operations per operation is 1 and says nothing.
        set("load.ops", counted(self.ios, Unit::Count, false));
        set("load.bytes", counted(self.bytes, Unit::Bytes, true));
        set("load.iops", level(self.ios as f64 / seconds, Unit::PerSecond, 1.0));
        set("load.bw_bytes", level(self.bytes as f64 / seconds, Unit::BytesPerSecond, 1.0));
        if let Some(short) = self.short {
            set("load.short", counted(short, Unit::Count, true));
        }
        if let Some(errors) = self.errors {
            set("load.errors", counted(errors, Unit::Count, true));
        }
    }
}

/// Work by job and direction: of the job as a whole, and added up over its threads.
type Jobs = BTreeMap<(String, String), (Option<Work>, Work)>;

/// The numbers of the load; none for a recording of a command.
pub(super) fn collect(recording: &Recording, window: &Window) -> Result<Metrics> {
    let mut jobs = Jobs::new();
    for batch in recording.read("jobs", None)? {
        let view = JobsView::new(&batch?)?;
        for row in view.rows() {
            let entry = jobs.entry((row.job.to_owned(), row.direction.to_owned())).or_default();
            let work = Work::of(&row);
            match row.thread {
                None => entry.0.get_or_insert_default().add(&work),
                Some(_) => entry.1.add(&work),
            }
        }
    }
    let mut out = Metrics::new();
    let mut total = Work::default();
    for ((job, direction), (whole, threads)) in &jobs {
        let work = whole.as_ref().unwrap_or(threads);
        if work.ios == 0 && work.errors.unwrap_or(0) == 0 {
            continue;
        }
        total.add(work);
        let seconds = work.runtime_ns as f64 / 1e9;
        work.put(seconds, Some(work.ios as f64), Some(&format!("{job}/{direction}")), &mut out);
    }
    if !jobs.is_empty() && !window.is_empty() {
        total.put(window.seconds(), window.operations, None, &mut out);
    }
    Ok(out)
}
