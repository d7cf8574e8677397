//! Order by time: sorting one batch, and merging many sorted parts.

use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::Int64Type;

use crate::error::Result;

/// The batch in order of `ts`, rows of equal `ts` in the order they came. Without `ts`, the batch as it is.
pub(crate) fn sort_by_ts(batch: &RecordBatch) -> Result<RecordBatch> {
    let Some(ts) = batch.column_by_name("ts") else {
        return Ok(batch.clone());
    };
    let ts = ts.as_primitive::<Int64Type>().values();
    if ts.is_sorted() {
        return Ok(batch.clone());
    }
    let mut order: Vec<u32> = (0..ts.len() as u32).collect();
    order.sort_by_key(|i| ts[*i as usize]);
    Ok(take_record_batch(batch, &UInt32Array::from(order))?)
}
