//! `show DIR metrics`: every series with its first and last value and its number in the measured time.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::MetricsRow;
use pagelab_vocab::metrics::{self, MetricKind};
use pagelab_vocab::streams::Stream;
use pagelab_vocab::terminal::escape;
use serde::Serialize;
use serde_json::Value;

use crate::absence;
use crate::answer::Answer;
use crate::error::Result;
use crate::read;
use crate::run::{MetricKey, RunData, RunMetric, Window};
use crate::selection::{Selection, cut};

/// One series of values, or a number that a run has without one.
#[derive(Debug, Serialize)]
pub struct Metric {
    /// Name in the vocabulary of metrics.
    pub name: String,
    /// Device, CPU, job; null where there is one for all.
    pub instance: Option<String>,
    /// `counter`, `gauge` or `histogram`; null for a name that this version does not know.
    pub kind: Option<&'static str>,
    /// Unit of what is counted or levelled; null for a name that this version does not know.
    pub unit: Option<&'static str>,
    /// Rows in the recording: one for each change.
    pub rows: u64,
    /// First value recorded.
    pub first: Option<f64>,
    /// Last value recorded.
    pub last: Option<f64>,
    /// A counter's increase per second, a gauge's mean over time, a histogram's value as its name says; all in the
    /// measured time.
    pub value: Option<f64>,
    /// What `value` is: `per_second`, `mean` or `statistic`.
    pub value_is: Option<&'static str>,
    /// A counter's increase per operation; null where operations are not known.
    pub per_operation: Option<f64>,
    /// What a reader of the number must know.
    pub note: Option<String>,
}

/// Metrics, one row per name and instance.
#[derive(Debug, Serialize)]
pub struct MetricsView {
    /// The measured time; null if it could not be found.
    pub window: Option<Window>,
    /// Rows, by name or ranked.
    pub metrics: Vec<Metric>,
    /// Rows before the list was cut.
    pub metrics_total: usize,
}

/// Why the recorder could not read the files that the words ask about: `target.smaps.rss` is from `smaps_rollup`.
fn refused_sources(recording: &Recording, words: &[String]) -> Vec<String> {
    let refused = recording.manifest().extra.get("metric_sources_refused").and_then(Value::as_array);
    let asked_for = |reason: &&str| {
        let source = reason.split(": ").next().unwrap_or_default();
        let file = source.rsplit('/').next().and_then(|name| name.split('_').next()).unwrap_or_default();
        !file.is_empty() && words.iter().any(|word| word.split('.').any(|part| part == file))
    };
    let reasons = refused.into_iter().flatten().filter_map(Value::as_str).filter(asked_for);
    reasons.map(|reason| format!("not recorded: {}", escape(reason))).collect()
}

/// One series' rows.
#[derive(Debug, Default)]
struct Series {
    rows: u64,
    first: Option<(i64, f64)>,
    last: Option<(i64, f64)>,
}

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<MetricsView>> {
    let sort = selection.sort_by(&["name", "value", "change", "first", "last"])?;
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
    let run = RunData::load_within(recording.dir(), &selection.bounds)?;
    notes.extend(run.notes.iter().cloned());
    let mut rows: Vec<Metric> = series
        .keys()
        .chain(run.metrics.keys().filter(|key| !series.contains_key(key)))
        .filter(|key| selection.wants_name(&key.to_string()))
        .map(|key| metric_of(key, series.get(key), run.metrics.get(key)))
        .collect();
    read::lost(recording, Stream::Metrics, &mut notes)?;
    if rows.is_empty() {
        if selection.words.is_empty() {
            absence::none_recorded(recording, Stream::Metrics, "metrics", &mut notes)?;
        } else {
            notes.push(format!("no metric has {} in its name", selection.words.join(" or ")));
            notes.extend(refused_sources(recording, &selection.words));
        }
    }
    rows.sort_by(|a, b| (&a.name, &a.instance).cmp(&(&b.name, &b.instance)));
    rank(&mut rows, sort);
    let (metrics, metrics_total) = cut(rows, selection.limit(sort != "name"));
    let window = (run.window.end_ns > run.window.start_ns).then(|| run.window.clone());
    let data = MetricsView { window, metrics, metrics_total };
    Ok(Answer::new("metrics", recording, notes, data))
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
