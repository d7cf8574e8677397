//! The measurement window: which part of a recording counts, and how many operations were done in it.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use pagelab_recording::tables::{TableView, TasksRow, TasksView};
use pagelab_recording::{Manifest, MeasuredBy, Recording, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// The first task of a recorded tree.
const ROOT_TASK: u32 = 1;

/// The measured time of a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Window {
    /// Begin, on the recording's clock.
    pub start_ns: i64,
    /// End, on the recording's clock.
    pub end_ns: i64,
    /// Operations done in it, as the load counted them. For a command that counts none it is 1: the command is the
    /// operation. `None` where neither makes sense.
    pub operations: Option<f64>,
    /// How the window is known.
    pub source: WindowSource,
}

/// How a measurement window is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowSource {
    /// The load said when it measured.
    Job,
    /// From exec of the recorded command to its end.
    Command,
    /// Nothing said so; all that was recorded.
    Recording,
}

/// Whether amounts of all these runs can be taken per operation: each counts operations, and they are of one kind. A command that
/// counts nothing is one operation; beside a load that counts its own that is another unit.
pub fn share_a_unit(operations: impl IntoIterator<Item = Option<f64>>) -> bool {
    let (mut whole, mut counted) = (false, false);
    for operations in operations {
        match operations.filter(|count| *count > 0.0) {
            Some(1.0) => whole = true,
            Some(_) => counted = true,
            None => return false,
        }
    }
    !(whole && counted)
}

impl Window {
    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        (self.end_ns - self.start_ns) as f64 / 1e9
    }

    /// Whether it has a length.
    pub(crate) fn is_empty(&self) -> bool {
        self.end_ns <= self.start_ns
    }

    /// Nanoseconds that `from..to` and the window have in common.
    pub(crate) fn overlap_ns(&self, from: i64, to: i64) -> i64 {
        (to.min(self.end_ns) - from.max(self.start_ns)).max(0)
    }

    /// The part of the window that lies in `span`. It has no count of operations: a load counts them for the whole, and
    /// a part of a command is no unit of work.
    pub(crate) fn within(self, span: Span) -> Self {
        if !span.is_part() {
            return self;
        }
        let (start_ns, end_ns) = (self.start_ns.max(span.from_ns), self.end_ns.min(span.to_ns));
        if (start_ns, end_ns) == (self.start_ns, self.end_ns) {
            return self;
        }
        Self { start_ns, end_ns, operations: None, source: WindowSource::Recording }
    }

    /// Finds the window of a recording: what the manifest's `measured` says; else exec to exit of the first task; else
    /// all that was recorded.
    pub(crate) fn of(recording: &Recording) -> Result<Self> {
        let manifest = recording.manifest();
        if let Some(window) = measured(manifest) {
            return Ok(window);
        }
        if manifest.command.is_some()
            && let Some((start_ns, end_ns)) = life_of_root(recording)?
        {
            return Ok(Self { start_ns, end_ns, operations: Some(1.0), source: WindowSource::Command });
        }
        let (start_ns, end_ns) = extent(recording)?;
        Ok(Self { start_ns, end_ns, operations: None, source: WindowSource::Recording })
    }
}

/// The recording within the time that its load measured: without laying out files, and without the ramp. None if it is whole
/// anyhow: a command's, or a part that was asked for.
pub fn measured_part(recording: &Recording) -> Option<Recording> {
    let window = measured(recording.manifest()).filter(|window| window.source == WindowSource::Job)?;
    let span = Span { from_ns: window.start_ns, to_ns: window.end_ns };
    (!recording.span().is_part() && !window.is_empty()).then(|| recording.clone().within(span))
}

fn measured(manifest: &Manifest) -> Option<Window> {
    let measured = manifest.measured.as_ref()?;
    let (start_ns, end_ns) = measured.span_ns()?;
    let source = match &measured.source {
        Some(MeasuredBy::Command) => WindowSource::Command,
        Some(MeasuredBy::Recording) => WindowSource::Recording,
        Some(MeasuredBy::Load | MeasuredBy::Other(_)) | None => WindowSource::Job,
    };
    Some(Window {
        start_ns,
        end_ns,
        // A run of a command to its end is one piece of work, whatever time it took.
        operations: measured.operations_done().or((source == WindowSource::Command).then_some(1.0)),
        source,
    })
}

/// Exec and exit of the recorded command.
fn life_of_root(recording: &Recording) -> Result<Option<(i64, i64)>> {
    let (mut start, mut end) = (None, None);
    for batch in recording.read("tasks", None)? {
        let view = TasksView::new(&batch?)?;
        for TasksRow { ts, op, task_id, .. } in view.rows() {
            match op {
                "exec" if task_id == ROOT_TASK => {
                    start.get_or_insert(ts);
                }
                "exit" if task_id == ROOT_TASK => end = Some(ts),
                _ => {}
            }
        }
    }
    Ok(start.zip(end))
}

/// First and last time of the tables that are written all along.
fn extent(recording: &Recording) -> Result<(i64, i64)> {
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    for table in ["metrics", "faults", "tasks"] {
        for batch in recording.read(table, Some(&["ts"]))? {
            let batch = batch?;
            let times = batch.column(0).as_primitive::<Int64Type>();
            first = arrow::compute::min(times).map_or(first, |t| first.min(t));
            last = arrow::compute::max(times).map_or(last, |t| last.max(t));
        }
    }
    Ok(if first <= last { (first, last) } else { (0, 0) })
}
