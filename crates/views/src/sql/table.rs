//! One registry table over many recordings, as a table of the query engine.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::stream;
use pagelab_recording::set::RecordingRef;
use pagelab_recording::tables::{ColType, TableDef, text_of};
use pagelab_recording::{Bounds, Recording};

/// The columns that say which recording a row is from.
pub(super) const PARTITION_COLUMNS: [&str; 3] = ["host", "variant", "run"];

/// The type of `host`, `variant` and of text columns: a number per row and each text once per batch.
pub(super) fn text_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Fields of the columns that say which recording a row is from.
pub(super) fn partition_fields() -> [Field; 3] {
    let [host, variant, run] = PARTITION_COLUMNS;
    [
        Field::new(host, text_type(), true),
        Field::new(variant, text_type(), true),
        Field::new(run, DataType::Int64, true),
    ]
}

/// One table of the registry.
#[derive(Debug)]
pub(super) struct RegistryTable {
    table: &'static TableDef,
    recordings: Arc<[RecordingRef]>,
    bounds: Bounds,
    schema: SchemaRef,
}

impl RegistryTable {
    pub(super) fn new(table: &'static TableDef, recordings: Arc<[RecordingRef]>, bounds: Bounds) -> Self {
        let columns = table.columns.iter().map(|c| {
            let ty = if c.ty == ColType::Bytes { text_type() } else { c.ty.arrow() };
            Field::new(c.name, ty, true)
        });
        let schema = Arc::new(Schema::new(partition_fields().into_iter().chain(columns).collect::<Vec<_>>()));
        Self { table, recordings, bounds, schema }
    }
}

#[async_trait]
impl TableProvider for RegistryTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// One partition per recording, which reads the columns that the query needs and no others.
    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(indices) => Arc::new(self.schema.project(indices)?),
            None => self.schema.clone(),
        };
        let partitions = self.recordings.iter().map(|recording| {
            let (recording, bounds) = (recording.clone(), self.bounds.clone());
            let part = Partition { table: self.table, recording, bounds, schema: schema.clone() };
            Arc::new(part) as Arc<dyn PartitionStream>
        });
        let plan = StreamingTableExec::try_new(schema.clone(), partitions.collect(), None, [], false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// The rows of one table of one recording.
#[derive(Debug)]
struct Partition {
    table: &'static TableDef,
    recording: RecordingRef,
    bounds: Bounds,
    schema: SchemaRef,
}

impl PartitionStream for Partition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _ctx: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = match self.open() {
            Ok(batches) => stream::iter(batches),
            Err(error) => stream::iter(Box::new(std::iter::once(Err(error))) as Batches),
        };
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches))
    }
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

impl Partition {
    fn open(&self) -> Result<Batches> {
        let recording = Recording::open(&self.recording.dir).map_err(external)?;
        let span = self.bounds.of(&recording).map_err(external)?;
        let recording = recording.within(span);
        let schema = self.schema.clone();
        let stored: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .filter(|name| !PARTITION_COLUMNS.contains(name))
            .collect();
        let reader = recording.read(self.table.name, Some(&stored)).map_err(external)?;
        let place = Place::of(&self.recording);
        let schema = self.schema.clone();
        let mut broken = false;
        // The reader goes on behind a damaged part; a query that silently lacks rows must not.
        Ok(Box::new(reader.map_while(move |batch| {
            if broken {
                return None;
            }
            let batch = batch.map_err(external).and_then(|batch| place.complete(&batch, &schema));
            broken = batch.is_err();
            Some(batch)
        })))
    }
}

/// Carries an error of this project through the engine.
fn external(error: pagelab_recording::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// What `host`, `variant` and `run` are in all rows of a recording.
struct Place {
    dir: PathBuf,
    host: Option<String>,
    variant: Option<String>,
    run: Option<i64>,
}

impl Place {
    fn of(recording: &RecordingRef) -> Self {
        Self {
            dir: recording.dir.clone(),
            host: recording.host.clone(),
            variant: recording.variant.clone(),
            run: recording.run.and_then(|run| i64::try_from(run).ok()),
        }
    }

    /// Adds the columns of the place and brings the others to the types of the query.
    fn complete(&self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns: Result<Vec<ArrayRef>> = schema
            .fields()
            .iter()
            .map(|field| match field.name().as_str() {
                "host" => Ok(constant(self.host.as_deref(), rows)),
                "variant" => Ok(constant(self.variant.as_deref(), rows)),
                "run" => Ok(Arc::new(Int64Array::from(vec![self.run; rows])) as ArrayRef),
                name => {
                    let column = batch.column_by_name(name).ok_or_else(|| {
                        DataFusionError::Execution(format!("{}: column {name} was not read", self.dir.display()))
                    })?;
                    as_text(column, field.data_type())
                }
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema.clone(), columns?, &options)?)
    }
}

/// A text column with the same value in every row.
fn constant(value: Option<&str>, rows: usize) -> ArrayRef {
    let keys = Int32Array::from(vec![value.map(|_| 0); rows]);
    let values = StringArray::from_iter_values(value);
    match DictionaryArray::try_new(keys, Arc::new(values)) {
        Ok(column) => Arc::new(column),
        // Keys are 0 and only where there is a value.
        Err(_) => arrow::array::new_null_array(&text_type(), rows),
    }
}

/// Paths from bytes to text; everything else as it is.
fn as_text(column: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    if column.data_type() == ty {
        return Ok(column.clone());
    }
    if let DataType::Dictionary(_, value) = column.data_type()
        && **value == DataType::Binary
    {
        return text_of(column).map_err(external);
    }
    Ok(cast(column, ty)?)
}
