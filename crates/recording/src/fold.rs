//! The small parts of a flight recorder that do not age: stacks and frames come in every tick, a few rows at a time, and each part takes a block
//! of the disk at least. So as many as [`PARTS`] are written again as one, and removed. A reader that comes in between meets rows twice, which
//! it may in these tables.

use std::collections::HashMap;
use std::path::PathBuf;

use arrow::array::RecordBatch;

/// Tables that are read with rows met twice.
const TABLES: [&str; 2] = ["stacks", "frames"];
/// Parts that become one: a tick writes twice as many bytes for it, and half an hour has 90 parts instead of 2,800.
const PARTS: usize = 32;
/// A larger part stays as it is.
const SMALL_BYTES: usize = 32 << 10;

/// Parts that are to become one, and their rows.
#[derive(Default)]
pub(crate) struct Small {
    pub paths: Vec<PathBuf>,
    pub rows: Vec<RecordBatch>,
    pub bytes: u64,
}

/// The small parts of each table since the last that were put together.
#[derive(Default)]
pub(crate) struct Fold {
    small: HashMap<&'static str, Small>,
}

impl Fold {
    /// Takes note of a part; gives those that are to become one.
    pub(crate) fn add(
        &mut self,
        table: &'static str,
        path: PathBuf,
        rows: &RecordBatch,
        bytes: usize,
    ) -> Option<Small> {
        if !TABLES.contains(&table) || bytes > SMALL_BYTES {
            return None;
        }
        let small = self.small.entry(table).or_default();
        small.paths.push(path);
        small.rows.push(rows.clone());
        small.bytes += bytes as u64;
        if small.paths.len() < PARTS { None } else { self.small.remove(table) }
    }
}
