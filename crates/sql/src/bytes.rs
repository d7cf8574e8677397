//! Gives the engine's Parquet scans the footers that the catalogue has read, and bytes that have their checksums.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{ParquetFileMetrics, ParquetFileReaderFactory};
use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::future::{BoxFuture, FutureExt, ready};
use pagelab_recording::PartBytes;

use crate::catalogue::{Catalogue, File, Planned};

/// Opens catalogued files for the engine.
#[derive(Debug)]
pub(crate) struct VerifiedFiles(pub(crate) Arc<Catalogue>);

impl ParquetFileReaderFactory for VerifiedFiles {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let location = file.object_meta.location.as_ref();
        let Some(planned) = file.extension::<Planned>() else {
            return Err(DataFusionError::Internal(format!("{location} is read and was not catalogued")));
        };
        let metrics = ParquetFileMetrics::new(partition_index, location, metrics);
        let (catalogue, file) = (self.0.clone(), planned.file.clone());
        Ok(Box::new(VerifiedFile { catalogue, file, bytes: None, metrics }))
    }
}

/// One file, opened when its first bytes are needed: row groups may all be pruned.
struct VerifiedFile {
    catalogue: Arc<Catalogue>,
    file: Arc<File>,
    bytes: Option<PartBytes>,
    metrics: ParquetFileMetrics,
}

impl VerifiedFile {
    fn read(&mut self, range: &Range<u64>) -> pagelab_recording::Result<Bytes> {
        let bytes = match self.bytes.take() {
            Some(bytes) => bytes,
            None => self.file.part.bytes()?,
        };
        let read = self.bytes.insert(bytes).read(range.start, range.end)?;
        self.metrics.bytes_scanned.add(read.len());
        Ok(read)
    }

    /// Reads a range. Damage is noted with its file, because the engine turns errors into text on the way.
    fn range(&mut self, range: &Range<u64>) -> parquet::errors::Result<Bytes> {
        self.read(range).map_err(|error| {
            self.catalogue.note_failure(self.file.part.path(), &error);
            ParquetError::External(Box::new(error))
        })
    }
}

impl AsyncFileReader for VerifiedFile {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        ready(self.range(&range)).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        ready(ranges.iter().map(|range| self.range(range)).collect()).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        ready(Ok(self.file.part.metadata().clone())).boxed()
    }
}
