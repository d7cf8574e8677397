//! From record batches to Parquet bytes.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::error::Result;
use crate::tables::TableDef;

/// Encodes a part quickly, for writing while a workload is being measured.
pub(crate) fn live_part(_table: &TableDef, batch: &RecordBatch) -> Result<Vec<u8>> {
    let keep: Vec<usize> =
        (0..batch.num_columns()).filter(|i| batch.column(*i).null_count() < batch.num_rows()).collect();
    let batch = batch.project(&keep)?;
    let properties = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None).build();
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let schema = Arc::clone(batch.schema_ref());
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options)?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?)
}
