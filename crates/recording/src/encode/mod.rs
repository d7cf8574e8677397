//! From record batches to the bytes of a part.
//!
//! A part has every column of its table: one that the rows lack is a chunk of nulls, some 100 bytes with its share of the footer.
//! Numbers ([`chunk`]) and text ([`text`]) are encoded here, lists of any length and text that seldom repeats by the Parquet
//! library; the footer is the library's, with checksums behind it ([`footer`]).

mod bits;
mod chunk;
pub(crate) mod footer;
mod levels;
mod part;
#[cfg(test)]
mod tests;
mod text;

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::tables::TableDef;

pub(crate) use part::{Effort, PartEncoder};

/// Rows of a live row group: what encoding them needs stays in the second-level cache and is memory used before. Fresh memory
/// for a second's rows at once would cost a page fault per 4 KiB, more than the encoding.
const LIVE_GROUP_ROWS: usize = 1 << 15;

/// Encodes a whole part of `table` quickly, for writing while a workload is being measured. The first `late_rows` rows are much older than
/// the others and get row groups of their own; see [`crate::late`].
pub(crate) fn live_part(table: &TableDef, batch: &RecordBatch, late_rows: usize) -> Result<Vec<u8>> {
    let mut encoder = PartEncoder::of_table(table, Effort::Live)?;
    let mut bytes = Vec::new();
    for rows in [0..late_rows, late_rows..batch.num_rows()] {
        for at in rows.clone().step_by(LIVE_GROUP_ROWS) {
            let group = batch.slice(at, LIVE_GROUP_ROWS.min(rows.end - at));
            bytes.extend_from_slice(&encoder.row_group(&[group])?);
        }
    }
    bytes.extend_from_slice(&encoder.finish()?);
    Ok(bytes)
}
