//! The rows of one run.

use std::collections::BTreeMap;

use pagelab_recording::{Recording, isolated};
use pagelab_views::metrics::values;
use pagelab_views::run::{Exclusion, RunData};
use pagelab_views::selection::Selection;
use pagelab_views::view::budget;
use pagelab_vocab::budget::IDLE;
use pagelab_vocab::settings::setting;

use super::labels::HostLabels;
use super::recordings::Candidate;
use super::settings::Snapshot;
use super::text;
use crate::rollup::{ComponentsRow, LabelsRow, MetricsRow, RunsRow, Text};

/// Instances of a metric without a sum that are kept at most.
pub const MOST_INSTANCES: usize = 16;

/// How a note of damage begins.
const LEFT_OUT: &str = "left out: ";

/// Settings that runs are grouped by, with the label that they become.
const LABELS_FROM_SETTINGS: [(&str, &str); 2] = [("thp", "thp.enabled"), ("cpu_model", "cpu.model")];

/// The rows of a run. One that counts nowhere has only that of `runs`.
#[derive(Default)]
pub(super) struct RunRows {
    pub run: RunsRow,
    pub labels: Vec<LabelsRow>,
    pub metrics: Vec<MetricsRow>,
    pub components: Vec<ComponentsRow>,
    pub settings: Snapshot,
}

/// Reads a recording.
///
/// # Errors
/// In words: it cannot be read.
pub(super) fn load(candidate: &Candidate, labels: &HostLabels) -> Result<RunRows, String> {
    isolated(|| read(candidate, labels)).unwrap_or_else(Err)
}

fn read(candidate: &Candidate, labels: &HostLabels) -> Result<RunRows, String> {
    let run = RunData::load(&candidate.dir).map_err(|error| error.to_string())?;
    if let Some(Exclusion::Damaged { detail }) = &run.excluded {
        return Err(detail.clone());
    }
    let mut rows = RunRows { run: row_of(candidate, &run), ..RunRows::default() };
    if run.excluded.is_some() {
        return Ok(rows);
    }
    rows.labels = labels_of(candidate, &run, labels);
    rows.metrics = metrics_of(candidate, &run);
    rows.components = components_of(candidate, &run)?;
    rows.settings = snapshot_of(&run);
    Ok(rows)
}

fn row_of(candidate: &Candidate, run: &RunData) -> RunsRow {
    let manifest = &run.manifest;
    let command = manifest.command.as_deref().map(pagelab_vocab::terminal::shell_line);
    let measured_ns =
        (run.window.end_ns > run.window.start_ns).then(|| run.window.end_ns.abs_diff(run.window.start_ns));
    RunsRow {
        recording_id: Some(candidate.recording_id.clone()),
        host: candidate.host.clone(),
        variant: manifest.variant.as_deref().map(text),
        run: manifest.run,
        start_ns: Some(candidate.start_ns),
        kernel: manifest.kernel.as_deref().map(text),
        cpus: manifest.cpus,
        virt: manifest.virt.as_deref().map(text),
        pagelab_version: Some(manifest.pagelab_version.as_str()).filter(|version| !version.is_empty()).map(text),
        command: command.as_deref().map(text),
        complete: Some(manifest.complete),
        excluded: run.excluded.as_ref().map(|why| text(&why.to_string())),
        measured_ns,
        operations: run.window.operations,
        path: candidate.dir.to_str().map(text),
    }
}

/// What runs are grouped by: the host's labels, and what the manifest and some settings say. The user's word goes before ours.
fn labels_of(candidate: &Candidate, run: &RunData, of_hosts: &HostLabels) -> Vec<LabelsRow> {
    let manifest = &run.manifest;
    let mut labels: BTreeMap<&str, String> = BTreeMap::new();
    let told = [
        ("kernel", manifest.kernel.clone()),
        ("virt", manifest.virt.clone()),
        ("cpus", manifest.cpus.map(|cpus| cpus.to_string())),
        ("variant", manifest.variant.clone()),
        ("label", manifest.label.clone()),
    ];
    labels.extend(told.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let of_settings = LABELS_FROM_SETTINGS.iter();
    labels.extend(of_settings.filter_map(|(name, key)| Some((*name, run.setting(key)?.to_owned()))));
    let host = candidate.host.as_deref().unwrap_or_default();
    labels.extend(of_hosts.of(host).map(|(name, value)| (name, value.to_owned())));
    let row = |(name, value): (&str, String)| LabelsRow {
        recording_id: Some(candidate.recording_id.clone()),
        name: Some(text(name)),
        value: Some(text(&value)),
    };
    labels.into_iter().map(row).collect()
}

fn metrics_of(candidate: &Candidate, run: &RunData) -> Vec<MetricsRow> {
    let mut instances: BTreeMap<&str, (bool, usize)> = BTreeMap::new();
    for key in run.metrics.keys() {
        let of = instances.entry(&key.name).or_default();
        of.0 |= key.instance.is_none();
        of.1 += usize::from(key.instance.is_some());
    }
    let is_kept = |name: &str, instance: Option<&str>| {
        let (has_total, count) = instances.get(name).copied().unwrap_or_default();
        instance.is_none() || (!has_total && count <= MOST_INSTANCES)
    };
    let kept = run.metrics.iter().filter(|(key, _)| is_kept(&key.name, key.instance.as_deref()));
    let row = |(key, metric): (&pagelab_views::run::MetricKey, &pagelab_views::run::RunMetric)| {
        let info = values::info_of(&key.name, std::iter::once(run));
        MetricsRow {
            name: Some(text(&key.name)),
            instance: key.instance.as_deref().map(text),
            unit: Some(text(metric.unit.name())),
            direction: Some(text(info.direction.name())),
            recording_id: Some(candidate.recording_id.clone()),
            host: candidate.host.clone(),
            start_ns: Some(candidate.start_ns),
            value: metric.value,
            kind: Some(text(metric.kind.name())),
            per_operation: metric.per_operation,
        }
    };
    kept.map(row).collect()
}

/// The wall account. What a stream that was not recorded would tell is there without a value.
fn components_of(candidate: &Candidate, run: &RunData) -> Result<Vec<ComponentsRow>, String> {
    let recording = Recording::open(&run.dir).map_err(|error| error.to_string())?;
    let all = Selection { top: Some(0), ..Selection::default() };
    let answer = budget::collect(&recording, &all).map_err(|error| error.to_string())?;
    // An account of a part of the events would be compared with accounts of all of them.
    if let Some(damage) = answer.notes.iter().find_map(|note| note.strip_prefix(LEFT_OUT)) {
        return Err(damage.to_owned());
    }
    let view = answer.data;
    let operations = view.operations.or(run.window.operations).filter(|count| *count > 0.0);
    let row = |component: &str, wall_ns: Option<u64>| ComponentsRow {
        component: Some(text(component)),
        recording_id: Some(candidate.recording_id.clone()),
        host: candidate.host.clone(),
        start_ns: Some(candidate.start_ns),
        ns_per_operation: wall_ns.zip(operations).map(|(ns, count)| ns as f64 / count),
        ns_per_s: wall_ns.zip(view.window_ns).map(|(ns, window)| ns as f64 / (window.max(1) as f64 / 1e9)),
    };
    let mut rows: Vec<ComponentsRow> = vec![row(IDLE, view.idle_ns)];
    rows.extend(view.components.iter().filter(|one| one.active).map(|one| row(one.component, one.wall_ns)));
    let mut missing: Vec<&str> = view.missing.iter().map(|missing| missing.part).collect();
    missing.sort_unstable();
    missing.dedup();
    rows.extend(missing.into_iter().map(|part| row(part, None)));
    Ok(rows)
}

fn snapshot_of(run: &RunData) -> Snapshot {
    let pair = |(key, read): (&String, &pagelab_views::run::SettingValue)| {
        (Text::from(key.as_str()), read.value.as_deref().map(text))
    };
    // What is another value at each reading says nothing about hosts: counters, the time.
    let tells = |key: &str| setting(key).is_none_or(|info| !info.def.volatile);
    run.settings.start.iter().filter(|(key, _)| tells(key)).map(pair).collect()
}
