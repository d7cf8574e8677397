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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_lie_in_the_cells_that_they_cover() {
        let mut grid = Grid::new((1000, 5000), (0, 3000), 4, 3);
        assert_eq!((grid.columns, grid.rows, grid.reads.len(), grid.writes.len()), (4, 3, 12, 12));
        grid.add(1000, 0, 1000, false);
        grid.add(2500, 500, 1000, true);
        // Operations at the end, and beyond it, are in the last column and the last row.
        grid.add(5000, 2999, 1, false);
        grid.add(9000, 4000, 1000, false);
        let row = |cells: &[u64], row: usize| cells[row * 4..][..4].to_vec();
        assert_eq!(
            [row(&grid.reads, 0), row(&grid.reads, 1), row(&grid.reads, 2)],
            [[1, 0, 0, 0], [0; 4], [0, 0, 0, 2]]
        );
        assert_eq!(
            [row(&grid.writes, 0), row(&grid.writes, 1), row(&grid.writes, 2)],
            [[0, 1, 0, 0], [0, 1, 0, 0], [0; 4]]
        );
    }

    #[test]
    fn a_grid_has_a_cell() {
        let mut grid = Grid::new((7, 7), (9, 9), 0, 0);
        grid.add(7, 9, 0, false);
        assert_eq!((grid.columns, grid.rows, grid.reads), (1, 1, vec![1]));
    }
}
