//! `show DIR metrics`: every series with its first and last value and its number in the measured time.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::MetricsRow;
use pagelab_views::run::{MetricKey, RunData, RunMetric, Window};
use pagelab_vocab::metrics::{self, MetricKind};
use serde::Serialize;

use super::View;
use super::options::{Options, cut, more};
use super::read;
use super::table::{Table, figure, left, or_dash, paragraph, right, room};
use crate::failure::Failure;

#[derive(Debug, Serialize)]
struct Metric {
    name: String,
    instance: Option<String>,
    /// `counter`, `gauge` or `histogram`; null for a name that this version does not know.
    kind: Option<&'static str>,
    unit: Option<&'static str>,
    /// Rows in the recording: one for each change.
    rows: u64,
    first: Option<f64>,
    last: Option<f64>,
    /// Of a counter its increase per second, of a gauge its mean over time, of a histogram what the name says; all in
    /// the measured time.
    value: Option<f64>,
    /// What `value` is: `per_second`, `mean` or `statistic`.
    value_is: Option<&'static str>,
    per_operation: Option<f64>,
    note: Option<String>,
}

#[derive(Debug, Serialize)]
struct Document {
    /// The measured time; null if it could not be found.
    window: Option<Window>,
    metrics: Vec<Metric>,
    metrics_total: usize,
}

/// One series' rows.
#[derive(Debug, Default)]
struct Series {
    rows: u64,
    first: Option<(i64, f64)>,
    last: Option<(i64, f64)>,
}

/// Makes the view.
pub fn view(recording: &Recording, options: &Options) -> Result<View, Failure> {
    let sort = options.sort_by(&["name", "value", "change", "first", "last"])?;
    let mut notes = Vec::new();
    let mut series: BTreeMap<MetricKey, Series> = BTreeMap::new();
    let mut key = MetricKey::new("", None);
    read::each::<MetricsRow>(recording, &mut notes, |row| {
        if key.name != row.name || key.instance.as_deref() != row.instance {
            key = MetricKey::new(row.name, row.instance);
        }
        // Rows of one sample come one after the other, so most of them are of another series than the row before.
        match series.get_mut(&key) {
            Some(series) => series.take(&row),
            None => series.entry(key.clone()).or_default().take(&row),
        }
    })?;
    let run = RunData::load_within(recording.dir(), &options.bounds).map_err(read::analysis)?;
    notes.extend(run.notes.iter().cloned());
    let mut rows: Vec<Metric> = series
        .keys()
        .chain(run.metrics.keys().filter(|key| !series.contains_key(key)))
        .filter(|key| options.wants_name(&key.to_string()))
        .map(|key| metric_of(key, series.get(key), run.metrics.get(key)))
        .collect();
    if rows.is_empty() {
        notes.push(if options.words.is_empty() {
            "no metrics were recorded".to_owned()
        } else {
            format!("no metric has {} in its name", options.words.join(" or "))
        });
    }
    rows.sort_by(|a, b| (&a.name, &a.instance).cmp(&(&b.name, &b.instance)));
    rank(&mut rows, sort);
    let (metrics, metrics_total) = cut(rows, options.limit(sort != "name"));
    let window = (run.window.end_ns > run.window.start_ns).then(|| run.window.clone());
    let data = Document { window, metrics, metrics_total };
    let start = recording.manifest().clock.start_ns;
    View::new("metrics", recording, &notes, &data, &text(&data, start))
}

impl Series {
    fn take(&mut self, row: &MetricsRow<'_>) {
        self.rows += 1;
        let Some(value) = row.value.filter(|value| value.is_finite()) else { return };
        if self.first.is_none_or(|(ts, _)| row.ts < ts) {
            self.first = Some((row.ts, value));
        }
        if self.last.is_none_or(|(ts, _)| row.ts >= ts) {
            self.last = Some((row.ts, value));
        }
    }
}

fn metric_of(key: &MetricKey, series: Option<&Series>, run: Option<&RunMetric>) -> Metric {
    let info = metrics::metric(&key.name);
    let kind = run.map(|metric| metric.kind).or(info.as_ref().map(|info| info.kind));
    let unit = run.map(|metric| metric.unit).or(info.as_ref().map(|info| info.unit));
    let known = info.is_some() || series.is_none();
    Metric {
        name: key.name.clone(),
        instance: key.instance.clone(),
        kind: kind.filter(|_| known).map(MetricKind::name),
        unit: unit.filter(|_| known).map(metrics::Unit::name),
        rows: series.map_or(0, |series| series.rows),
        first: series.and_then(|series| series.first).map(|(_, value)| value),
        last: series.and_then(|series| series.last).map(|(_, value)| value),
        value: run.and_then(|metric| metric.value),
        value_is: run.filter(|metric| metric.value.is_some()).map(|metric| match metric.kind {
            MetricKind::Counter => "per_second",
            MetricKind::Gauge => "mean",
            MetricKind::Histogram => "statistic",
        }),
        per_operation: run.and_then(|metric| metric.per_operation),
        note: run.and_then(|metric| metric.note.clone()),
    }
}

fn rank(rows: &mut [Metric], sort: &str) {
    let of = |row: &Metric| match sort {
        "value" => row.value,
        "change" => row.first.zip(row.last).map(|(first, last)| (last - first).abs()),
        "first" => row.first,
        _ => row.last,
    };
    if sort != "name" {
        rows.sort_by(|a, b| match (of(a), of(b)) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        });
    }
}

/// Whether a number of this unit is printed with one of its multiples.
fn in_itself(unit: &str) -> bool {
    matches!(unit, "ns" | "bytes")
}

/// A number as people read it: time and memory with the multiple of the unit that suits them.
fn in_unit(value: f64, unit: Option<&str>) -> String {
    match unit {
        Some("ns") => read::short(value),
        Some("bytes") => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", pagelab_views::mappings::bytes(value.abs() as u64))
        }
        _ => figure(value),
    }
}

fn text(data: &Document, start: i64) -> String {
    if data.metrics.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n");
    let said = match &data.window {
        Some(window) => format!(
            "VALUE is that of the measured time, {:.3} s from {:.3} s: /s a counter's increase per second, ~ a gauge's mean",
            window.seconds(),
            window.start_ns.saturating_sub(start) as f64 / 1e9
        ),
        None => "the measured time is not known, so there are no values in it".to_owned(),
    };
    paragraph(&said, &mut out);
    let mut table = Table::new([
        left("METRIC").at_most(room(44, 60)),
        right("FIRST"),
        right("LAST"),
        right("VALUE"),
        left(""),
        left("UNIT"),
    ]);
    for row in &data.metrics {
        let mark = match row.value_is {
            Some("per_second") => "/s",
            Some("mean") => "~",
            _ => "",
        };
        table.row([
            MetricKey::new(&row.name, row.instance.as_deref()).to_string(),
            or_dash(row.first.map(|value| in_unit(value, row.unit))),
            or_dash(row.last.map(|value| in_unit(value, row.unit))),
            or_dash(row.value.map(|value| in_unit(value, row.unit))),
            mark.to_owned(),
            or_dash(row.unit.map(|unit| if in_itself(unit) { "" } else { unit })),
        ]);
    }
    table.write(0, &mut out);
    out.push_str(&more(data.metrics.len(), data.metrics_total));
    out
}
