//! Rows that are written much later than they began, such as calls that slept: they are kept apart from the other rows
//! of their part.
//!
//! A part begins with its oldest row. One call that slept for a minute makes its part begin a minute before all its
//! other rows. A merge in order of time has to open the part then. If the part's rows could only be read together, the
//! merge would hold them for a minute of the recording, and so with each part of that minute that has such a row. So
//! the rows that are older than half of the part before are row groups of their own: few rows, which can be held for
//! long.

use std::collections::HashMap;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;

/// Parts of fewer rows are one row group: they take little memory as they are.
const LARGE_PART: usize = 4096;

/// The middle of the last part of each table: half of its rows are older.
#[derive(Debug, Default)]
pub(crate) struct Late {
    middle_ns: HashMap<&'static str, i64>,
}

impl Late {
    /// How many of the first rows of `table`'s next part, which is sorted by `ts`, are older than the middle of the last part. Its
    /// beginning would not do: it may be a late row itself.
    pub(crate) fn rows(&mut self, table: &'static str, part: &RecordBatch) -> usize {
        let times = part.column_by_name("ts").and_then(|ts| ts.as_primitive_opt::<Int64Type>());
        let times: &[i64] = times.map_or(&[], |times| times.values());
        let Some(middle) = times.get(times.len() / 2) else { return 0 };
        let before = self.middle_ns.insert(table, *middle).unwrap_or(i64::MIN);
        if times.len() < LARGE_PART { 0 } else { times.partition_point(|ts| *ts < before) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn part(times: impl Iterator<Item = i64>) -> RecordBatch {
        let times: ArrayRef = Arc::new(times.collect::<Int64Array>());
        RecordBatch::try_from_iter([("ts", times)]).expect("a batch")
    }

    #[test]
    fn late_is_what_is_older_than_half_of_the_part_before() {
        let rows = LARGE_PART as i64;
        let mut late = Late::default();
        assert_eq!(late.rows("syscalls", &part(0..rows)), 0, "nothing came before the first part");
        assert_eq!(late.rows("syscalls", &part(rows - 100..3 * rows)), 0, "parts overlap a little");
        let third = [5, 6, rows - 200].into_iter().chain(3 * rows..5 * rows);
        assert_eq!(late.rows("syscalls", &part(third)), 3);
        let fourth = [rows, 3 * rows].into_iter().chain(5 * rows..7 * rows);
        assert_eq!(late.rows("syscalls", &part(fourth)), 2, "what came late does not make a part old");
        assert_eq!(late.rows("offcpu", &part(0..rows)), 0, "each table has its own parts");
        assert_eq!(late.rows("syscalls", &part(0..10)), 0, "a small part is not taken apart");
    }
}
