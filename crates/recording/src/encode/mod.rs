//! From record batches to the bytes of a part.
//!
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

pub(crate) use part::{Effort, PartEncoder};

/// Encodes a whole part quickly, for writing while a workload is being measured.
pub(crate) fn live_part(batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut encoder = PartEncoder::new(batch.schema(), Effort::Live)?;
    let mut bytes = encoder.row_group(std::slice::from_ref(batch))?;
    bytes.extend_from_slice(&encoder.finish()?);
    Ok(bytes)
}
