//! Reading one part: open, normalise to the registry, and name file and offset of whatever is wrong.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};

use crate::error::{Error, Result};
use crate::tables::ColumnDef;

/// Rows per batch that readers are given.
pub(crate) const BATCH_ROWS: usize = 1 << 16;

/// One open part, yielding batches in the order of `columns`.
pub(crate) struct PartReader {
    path: PathBuf,
    columns: Vec<&'static ColumnDef>,
    schema: SchemaRef,
    inner: ParquetRecordBatchReader,
}

impl PartReader {
    pub(crate) fn open(path: &Path, columns: &[&'static ColumnDef], schema: &SchemaRef) -> Result<Self> {
        let bad =
            |e: &dyn std::fmt::Display| Error::BadPart { path: path.to_owned(), offset: 0, reason: e.to_string() };
        let file = File::open(path).map_err(Error::io("open", path))?;
        let plain = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new().with_skip_arrow_metadata(true))
            .map_err(|e| bad(&e))?;
        let hinted: Vec<Arc<Field>> = plain
            .schema()
            .fields()
            .iter()
            .map(|f| match columns.iter().find(|c| c.name == f.name()) {
                Some(c) if can_hint(f.data_type(), &c.ty.arrow()) => {
                    Arc::new(f.as_ref().clone().with_data_type(c.ty.arrow()))
                }
                _ => f.clone(),
            })
            .collect();
        let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(hinted)));
        let metadata = ArrowReaderMetadata::try_new(plain.metadata().clone(), options).map_err(|e| bad(&e))?;
        let wanted: Vec<usize> = metadata
            .schema()
            .fields()
            .iter()
            .enumerate()
            .filter(|(_, f)| columns.iter().any(|c| c.name == f.name()))
            .map(|(i, _)| i)
            .collect();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), wanted);
        let inner = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(|e| bad(&e))?;
        Ok(Self { path: path.to_owned(), columns: columns.to_vec(), schema: schema.clone(), inner })
    }

    fn normalise(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let arrays: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|c| {
                let ty = c.ty.arrow();
                match batch.column_by_name(c.name) {
                    None => Ok(new_null_array(&ty, batch.num_rows())),
                    Some(a) if *a.data_type() == ty => Ok(a.clone()),
                    Some(a) => cast(a, &ty),
                }
            })
            .collect::<Result<_, _>>()?;
        // The number of rows is said explicitly: a caller that only counts asks for no columns.
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?)
    }
}

/// Whether the Parquet reader can be told to yield `wanted` where it would yield `found`.
fn can_hint(found: &arrow::datatypes::DataType, wanted: &arrow::datatypes::DataType) -> bool {
    use arrow::datatypes::DataType as D;
    match (found, wanted) {
        (D::Utf8 | D::Binary, D::Dictionary(_, value)) => **value == *found,
        (D::List(_), D::List(_) | D::FixedSizeList(..)) => true,
        _ => false,
    }
}

impl Iterator for PartReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.inner.next()?;
        Some(match batch {
            Ok(batch) => self.normalise(&batch),
            Err(e) => Err(Error::BadPart { path: self.path.clone(), offset: 0, reason: e.to_string() }),
        })
    }
}
