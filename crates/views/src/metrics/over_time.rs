//! Sampled metrics and counted events over the measured time, in pieces of equal length.
//!
//! A counter is its increase per second in each piece, a gauge its mean, made by the same sums as the run's number: weighted by
//! the length of the pieces, their mean is that number.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::CountersRow;
use pagelab_vocab::counters::{self, Count};
use pagelab_vocab::metrics::{MetricKind, Unit};
use schemars::JsonSchema;
use serde::Serialize;

use super::bins::Bins;
use super::info::info;
use super::sampled;
use super::series::{Series, Ticks};
use crate::error::Result;
use crate::read;
use crate::window::Window;

/// Metrics are sampled about this often: shorter pieces would hold nothing of their own.
const SAMPLE_NS: i64 = 100_000_000;

/// One metric or event.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "SeriesCourse")]
pub struct Course {
    /// Table that it is of: `metrics` or `counters`.
    pub table: &'static str,
    /// Its name there.
    pub name: String,
    /// Device, CPU; null where there is one for all.
    pub instance: Option<String>,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    /// Unit of the values.
    pub unit: String,
    /// A counter's increase per second, a gauge's mean, by piece; null where it is not known.
    pub values: Vec<Option<f64>>,
}

/// Metrics and events over the measured time.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Series")]
pub struct OverTime {
    /// When the measured time began, on the recording's clock.
    pub start_ns: i64,
    /// Its length.
    pub span_ns: i64,
    /// Length of a piece; the last may be shorter.
    pub width_ns: i64,
    /// In the order of the names asked for.
    pub courses: Vec<Course>,
}

/// The metrics and events of these names in at most `most` pieces.
pub fn collect(
    recording: &Recording,
    metrics: &[&str],
    events: &[&str],
    most: usize,
    notes: &mut Vec<String>,
) -> Result<OverTime> {
    let window = Window::of(recording)?;
    let bins = Bins::new(&window, most, SAMPLE_NS);
    let found = sampled::collect_bins(recording, &window, metrics, &bins)?;
    let mut courses: Vec<Course> = Vec::new();
    for name in metrics {
        let info = info(name);
        for (key, values) in found.iter().filter(|(key, _)| key.name == *name) {
            let unit = unit_of(info.kind, info.unit.name());
            courses.push(Course {
                table: "metrics",
                name: key.name.clone(),
                instance: key.instance.clone(),
                kind: info.kind.name(),
                unit,
                values: values.clone(),
            });
        }
    }
    courses.extend(counted(recording, &window, events, &bins, notes)?);
    Ok(OverTime {
        start_ns: window.start_ns,
        span_ns: (window.end_ns - window.start_ns).max(0),
        width_ns: bins.width_ns(),
        courses,
    })
}

fn unit_of(kind: MetricKind, unit: &str) -> String {
    if kind == MetricKind::Counter { format!("{unit}/s") } else { unit.to_owned() }
}

/// The table `counters`: events counted by processor and kernel, all tasks together.
fn counted(
    recording: &Recording,
    window: &Window,
    events: &[&str],
    bins: &Bins,
    notes: &mut Vec<String>,
) -> Result<Vec<Course>> {
    let mut found: BTreeMap<usize, (Series, Ticks)> = BTreeMap::new();
    read::each_in_time::<CountersRow>(recording, notes, |row| {
        let Some(place) = events.iter().position(|name| *name == row.name).filter(|_| row.task_id.is_none()) else {
            return;
        };
        let count = row.value.map(|value| Count {
            value,
            enabled_ns: row.enabled_ns.unwrap_or(0),
            running_ns: row.running_ns.unwrap_or(0),
            group_id: row.group_id,
        });
        let new = || (Series::binned(MetricKind::Counter, Unit::Count, bins.clone()), Ticks::default());
        let (series, ticks) = found.entry(place).or_insert_with(new);
        ticks.advance(row.ts, window);
        series.push(row.ts, count.and_then(|count| count.estimate()), ticks, window);
    })?;
    let course = |(place, (series, ticks)): (usize, (Series, Ticks))| {
        let name = *events.get(place)?;
        let unit = counters::find(name).map_or("", |event| event.unit);
        Some(Course {
            table: "counters",
            name: name.to_owned(),
            instance: None,
            kind: MetricKind::Counter.name(),
            unit: unit_of(MetricKind::Counter, if unit.is_empty() { "count" } else { unit }),
            values: series.finish_bins(&ticks, window)?,
        })
    };
    Ok(found.into_iter().filter_map(course).collect())
}
