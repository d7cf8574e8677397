//! The table `coverage`: which streams each recording has.
//!
//! A count of 0 means something only where the stream was recorded. `coverage LEFT JOIN` a count of rows gives 0 where it
//! was, and null where it was refused or not asked for.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use pagelab_recording::set::RecordingRef;
use pagelab_recording::{Probe, ProbeState, Recording};
use pagelab_vocab::streams as words;

use crate::catalogue::Catalogue;
use crate::error::{QueryError, Result};

/// Name of the table.
pub(crate) const COVERAGE: &str = "coverage";

/// A part of `faults` that has a table of its own, and may be missing where they are not.
const KHUGEPAGED: &str = "khugepaged";

/// A stream of a recording.
struct Stream {
    recording: RecordingRef,
    name: String,
    table: Option<&'static str>,
    state: &'static str,
    probe: Option<Probe>,
}

/// The streams of a recording: those that it has or asked for, and those that it lacks.
fn streams(reference: &RecordingRef) -> Result<Vec<Stream>> {
    let recording = Recording::open(&reference.dir)?;
    let mut probes = recording.manifest().probes.clone();
    let mut found = Vec::new();
    let all = words::Stream::all().map(|stream| (stream.name(), stream.table()));
    for (name, table) in all.chain([(KHUGEPAGED, Some(KHUGEPAGED))]) {
        let at = probes.iter().position(|probe| probe.name == name);
        let probe = at.map(|at| probes.remove(at));
        let state = match &probe {
            Some(probe) => state(probe),
            // Recordings made of other tools' data have tables and no probes.
            None => match table {
                Some(table) if !recording.parts(table)?.is_empty() => "active",
                _ => "absent",
            },
        };
        let (recording, name) = (reference.clone(), name.to_owned());
        found.push(Stream { recording, name, table, state, probe });
    }
    for probe in probes {
        let (recording, name) = (reference.clone(), probe.name.clone());
        found.push(Stream { recording, name, table: None, state: state(&probe), probe: Some(probe) });
    }
    Ok(found)
}

fn state(probe: &Probe) -> &'static str {
    match probe.state {
        ProbeState::Active => "active",
        ProbeState::Refused => "refused",
    }
}

/// The table. Its rows are made when a query reads it: they take a look at the folders of every recording.
#[derive(Debug)]
pub(crate) struct Coverage {
    catalogue: Arc<Catalogue>,
    schema: SchemaRef,
}

impl Coverage {
    pub(crate) fn new(catalogue: Arc<Catalogue>) -> Result<Self> {
        Ok(Self { catalogue, schema: coverage(&[])?.schema() })
    }
}

#[async_trait]
impl TableProvider for Coverage {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let rows = coverage(self.catalogue.recordings()).map_err(|e| DataFusionError::External(Box::new(e)))?;
        MemTable::try_new(self.schema(), vec![vec![rows]])?.scan(state, projection, filters, limit).await
    }
}

/// One row per recording and stream, in the order of the recordings.
fn coverage(recordings: &[RecordingRef]) -> Result<RecordBatch> {
    let mut rows = Vec::new();
    for recording in recordings {
        rows.extend(streams(recording)?);
    }
    let text = |get: &dyn Fn(&Stream) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(get).collect::<StringArray>())
    };
    let number = |get: &dyn Fn(&Stream) -> Option<u64>| -> ArrayRef {
        let small = |stream: &Stream| get(stream).and_then(|value| i64::try_from(value).ok());
        Arc::new(rows.iter().map(small).collect::<Int64Array>())
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("host", text(&|s| s.recording.host.clone())),
        ("variant", text(&|s| s.recording.variant.clone())),
        ("run", number(&|s| s.recording.run)),
        ("dir", text(&|s| Some(s.recording.dir.display().to_string()))),
        ("stream", text(&|s| Some(s.name.clone()))),
        ("table_name", text(&|s| s.table.map(str::to_owned))),
        ("state", text(&|s| Some(s.state.to_owned()))),
        ("rung", text(&|s| s.probe.as_ref()?.rung.clone())),
        ("reason", text(&|s| s.probe.as_ref()?.reason.clone())),
        ("fix", text(&|s| s.probe.as_ref()?.fix.clone())),
        ("events_seen", number(&|s| s.probe.as_ref()?.events_seen)),
        ("events_lost", number(&|s| s.probe.as_ref()?.events_lost)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .map_err(|e| QueryError::Unanswered(e.to_string()))
}
