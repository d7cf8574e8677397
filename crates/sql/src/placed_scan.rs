//! A scan of plain Parquet: one registry table, as an engine plans and reads it that has nothing of ours.
//!
//! That engine knows no checksums of ours, so the columns that a query needs are held to them here, when it is planned.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileGroupPartitioner, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use pagelab_recording::tables::{ColType, ColumnDef, TableDef};

use crate::catalogue::{Catalogue, File, external};
use crate::partition::{PARTITION_COLUMNS, field, partition_values, read_as, span_filter, statistics};
use crate::places::Places;

/// The scan of a table.
pub(crate) struct PlacedScan<'a> {
    table: &'static TableDef,
    catalogue: &'a Catalogue,
    places: &'a Places,
}

/// The column of the files that holds what a query sees as `column`: text stands beside bytes.
fn source_of(table: &TableDef, column: &'static ColumnDef) -> &'static ColumnDef {
    let text = table.columns.iter().find(|other| column.ty == ColType::Bytes && other.text_of == Some(column.name));
    text.unwrap_or(column)
}

impl<'a> PlacedScan<'a> {
    pub(crate) fn new(table: &'static TableDef, catalogue: &'a Catalogue, places: &'a Places) -> Self {
        Self { table, catalogue, places }
    }

    /// The plan for files that count in the same time. `wanted` are places among the table's columns, and behind them where a row is from.
    pub(crate) fn plan(
        &self,
        files: &[Arc<File>],
        wanted: &[usize],
        split: FileGroupPartitioner,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_read = |column: &&'static ColumnDef| source_of(self.table, column).name == column.name;
        let read_as = read_as(self.table.columns.iter().filter(is_read).map(field).collect());
        let schema = read_as.table_schema().clone();
        let source = ParquetSource::new(read_as).with_pushdown_filters(true).with_reorder_filters(true);
        let names: Vec<&str> = wanted
            .iter()
            .filter_map(|at| self.table.columns.get(*at))
            .map(|column| source_of(self.table, column).name)
            .collect();
        let has_span = files.first().is_some_and(|file| file.span.is_some());
        let mut store = None;
        let mut planned = Vec::new();
        for file in files {
            self.verify(file, |name| names.contains(&name) || (has_span && name == "ts"))?;
            let (url, file) = self.planned(file, &schema)?;
            if store.get_or_insert_with(|| url.clone()) != &url {
                return Err(DataFusionError::Plan(format!(
                    "recordings of two stores in one query: {url} is another; ask each by itself"
                )));
            }
            planned.push(file);
        }
        let Some(store) = store else { return Err(DataFusionError::Internal("a scan of no file".to_owned())) };
        let whole = vec![FileGroup::new(planned)];
        let groups = split.repartition_file_groups(&whole).unwrap_or(whole);
        let rows = files.iter().map(|file| file.rows()).sum();
        let config = FileScanConfigBuilder::new(store, Arc::new(source))
            .with_statistics(statistics(&schema, rows))
            .with_file_groups(groups)
            .build();
        let mut plan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(config);
        if let Some(span) = files.first().and_then(|file| file.span) {
            plan = Arc::new(FilterExec::try_new(span_filter(&schema, span)?, plan)?);
        }
        let columns = self.table.columns.len();
        let mut seen = Vec::new();
        for at in wanted {
            let name = match self.table.columns.get(*at) {
                Some(column) => (source_of(self.table, column).name, column.name),
                None => partition_name(*at - columns).map(|name| (name, name))?,
            };
            let column = Column::new_with_schema(name.0, &schema)?;
            seen.push((Arc::new(column) as Arc<_>, name.1.to_owned()));
        }
        Ok(Arc::new(ProjectionExec::try_new(seen, plan)?))
    }

    /// Holds columns of a file to their checksums.
    fn verify(&self, file: &File, is_needed: impl Fn(&str) -> bool) -> Result<()> {
        let verified = file.part.bytes().and_then(|bytes| {
            let groups = file.part.metadata().row_groups().iter();
            for chunk in groups.flat_map(parquet::file::metadata::RowGroupMetaData::columns) {
                if chunk.column_path().parts().first().is_some_and(|name| is_needed(name)) {
                    let (start, len) = chunk.byte_range();
                    bytes.read(start, start + len)?;
                }
            }
            Ok(())
        });
        verified.map_err(|error| {
            self.catalogue.note_failure(file.part.path(), &error);
            external(error)
        })
    }

    /// A file where the other engine finds it.
    fn planned(&self, file: &File, schema: &Schema) -> Result<(ObjectStoreUrl, PartitionedFile)> {
        let path = file.part.path();
        for column in self.table.columns {
            let source = source_of(self.table, column);
            let has = |name: &str| file.part.schema().field_with_name(name).is_ok();
            if source.name != column.name && has(column.name) && !has(source.name) {
                return Err(DataFusionError::Plan(format!(
                    "{}: an older pagelab wrote it: it has no {}, and a cluster cannot make text of {}; ask without --cluster",
                    path.display(),
                    source.name,
                    column.name
                )));
            }
        }
        let outside = || DataFusionError::Internal(format!("{} is in none of the places", path.display()));
        let (store, object) = self.places.object_of(path).ok_or_else(outside)?;
        let mut planned = PartitionedFile::new(object, file.part.len_bytes());
        let recording = self.catalogue.recordings().get(file.recording);
        planned.partition_values = recording.map(partition_values).unwrap_or_default();
        planned.statistics = Some(Arc::new(statistics(schema, file.rows())));
        Ok((store, planned))
    }
}

fn partition_name(place: usize) -> Result<&'static str> {
    let name = PARTITION_COLUMNS.get(place);
    name.copied().ok_or_else(|| DataFusionError::Internal(format!("column {place} of none")))
}
