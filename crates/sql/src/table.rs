//! One registry table over many recordings, as a table of the query engine: a plan of its own Parquet scans.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::{FileGroup, FileGroupPartitioner, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::union::UnionExec;
use pagelab_recording::tables::TableDef;

use crate::adapt::Columns;
use crate::bytes::VerifiedFiles;
use crate::catalogue::{Catalogue, File, Planned, Scan};
use crate::partition::{
    PARTITION_COLUMNS, field, partition_fields, partition_values, read_as, span_filter, statistics,
};
use crate::placed_scan::PlacedScan;

/// One table of the registry.
#[derive(Debug)]
pub(crate) struct RegistryTable {
    table: &'static TableDef,
    catalogue: Arc<Catalogue>,
    /// As queries see it: where a row is from, then the table's columns.
    schema: SchemaRef,
    /// As the engine reads it: the table's columns, then where a row is from.
    read_as: TableSchema,
}

impl RegistryTable {
    pub(crate) fn new(table: &'static TableDef, catalogue: Arc<Catalogue>) -> Self {
        let columns: Vec<Field> = table.columns.iter().map(field).collect();
        let all: Vec<Field> = partition_fields().into_iter().chain(columns.iter().cloned()).collect();
        Self { table, catalogue, schema: Arc::new(Schema::new(all)), read_as: read_as(columns) }
    }

    /// Where the columns of a projection are in what the engine reads.
    fn read_places(&self, projection: Option<&Vec<usize>>) -> Vec<usize> {
        let columns = self.table.columns.len();
        let place = |at: usize| match at.checked_sub(PARTITION_COLUMNS.len()) {
            Some(column) => column,
            None => columns + at,
        };
        match projection {
            Some(wanted) => wanted.iter().map(|at| place(*at)).collect(),
            None => (0..self.schema.fields().len()).map(place).collect(),
        }
    }

    /// A scan of files that count in the same time.
    fn scan_files(
        &self,
        files: &[Arc<File>],
        places: Vec<usize>,
        limit: Option<usize>,
        split: FileGroupPartitioner,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = Arc::new(Scan { table: self.table, files: files.to_vec() });
        let mut source = ParquetSource::new(self.read_as.clone())
            .with_parquet_file_reader_factory(Arc::new(VerifiedFiles(self.catalogue.clone())))
            .with_pushdown_filters(true)
            .with_reorder_filters(true);
        if let Some(span) = files.first().and_then(|file| file.span) {
            source = source.with_predicate(span_filter(self.read_as.table_schema(), span)?);
        }
        let rows: usize = files.iter().map(|file| file.rows()).sum();
        let planned: Vec<PartitionedFile> = files.iter().map(|file| self.planned(file, &scan)).collect();
        let whole = vec![FileGroup::new(planned)];
        let groups = split.repartition_file_groups(&whole).unwrap_or(whole);
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
            .with_statistics(statistics(self.read_as.table_schema(), rows))
            .with_file_groups(groups)
            .with_expr_adapter(Some(Arc::new(Columns(self.table))))
            .with_limit(limit)
            .with_projection_indices(Some(places))?
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    /// A file as the engine plans it.
    fn planned(&self, file: &Arc<File>, scan: &Arc<Scan>) -> PartitionedFile {
        let recordings = self.catalogue.recordings();
        let path = file.part.path().display().to_string();
        let mut planned = PartitionedFile::new(path, file.part.len_bytes())
            .with_arrow_schema(file.part.schema().clone())
            .with_extension(Planned { file: file.clone(), scan: scan.clone() });
        planned.partition_values = recordings.get(file.recording).map(partition_values).unwrap_or_default();
        // Set here and not by its method, which takes it that a partition's value is never null.
        planned.statistics = Some(Arc::new(statistics(self.read_as.table_schema(), file.rows())));
        planned
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

    /// The engine gives every filter to the scans when it has planned them, and keeps those that they cannot take.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    /// One scan of all files; with a span, which is another time in each recording, one for each time.
    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.catalogue.files(self.table)?;
        let options = state.config_options();
        // The engine would split files below some operators only; joins would read with one thread.
        let split = FileGroupPartitioner::new()
            .with_target_partitions(options.execution.target_partitions)
            .with_repartition_file_min_size(options.optimizer.repartition_file_min_size);
        let mut scans: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        for same in files.chunk_by(|a, b| a.span == b.span) {
            scans.push(match self.catalogue.places() {
                None => self.scan_files(same, self.read_places(projection), limit, split)?,
                Some(places) => PlacedScan::new(self.table, &self.catalogue, places).plan(
                    same,
                    &self.read_places(projection),
                    split,
                )?,
            });
        }
        match scans.len() {
            0 => {
                let schema = match projection {
                    Some(wanted) => Arc::new(self.schema.project(wanted)?),
                    None => self.schema.clone(),
                };
                Ok(Arc::new(EmptyExec::new(schema)))
            }
            1 => Ok(scans.remove(0)),
            _ => UnionExec::try_new(scans),
        }
    }
}
