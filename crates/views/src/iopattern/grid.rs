//! Operations on one file, counted by time and offset.

use serde::Serialize;

/// A picture's cells: columns of time, rows of offsets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grid {
    /// Time of the first operation, ns on the recording's clock.
    pub start_ns: i64,
    /// Time of the last.
    pub end_ns: i64,
    /// Least offset, bytes.
    pub low: u64,
    /// End of the operation that reaches furthest.
    pub high: u64,
    /// Columns.
    pub columns: usize,
    /// Rows, from the least offset up.
    pub rows: usize,
    /// Reads by cell, row after row.
    pub reads: Vec<u64>,
    /// Writes by cell.
    pub writes: Vec<u64>,
}

impl Grid {
    /// A grid without operations.
    pub fn new((start_ns, end_ns): (i64, i64), (low, high): (u64, u64), columns: usize, rows: usize) -> Self {
        let (columns, rows) = (columns.max(1), rows.max(1));
        let cells = vec![0; columns * rows];
        Self { start_ns, end_ns, low, high, columns, rows, reads: cells.clone(), writes: cells }
    }

    /// Counts an operation in the cells that it covers.
    pub fn add(&mut self, ts: i64, offset: u64, bytes: u64, write: bool) {
        let span = self.end_ns.saturating_sub(self.start_ns).max(1) as f64;
        let column = (ts.saturating_sub(self.start_ns) as f64 / span * self.columns as f64) as usize;
        let height = self.high.saturating_sub(self.low).max(1) as f64;
        let row =
            |at: u64| ((at.saturating_sub(self.low) as f64 / height * self.rows as f64) as usize).min(self.rows - 1);
        let (from, to) = (row(offset), row(offset.saturating_add(bytes.max(1) - 1)));
        let column = column.min(self.columns - 1);
        let (columns, cells) = (self.columns, if write { &mut self.writes } else { &mut self.reads });
        for row in from..=to {
            if let Some(cell) = cells.get_mut(row * columns + column) {
                *cell += 1;
            }
        }
    }
}
