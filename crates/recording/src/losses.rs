//! Counts of events by stream that have yet to be written into the table `loss`.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use pagelab_vocab::streams::{CountedAs, counted_as};

use crate::error::Result;
use crate::tables::{LossView, TableView};

/// Events of a stream; see the table `loss`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) seen: u64,
    pub(crate) lost: u64,
    pub(crate) filtered: u64,
}

impl Counts {
    fn add(&mut self, more: Self) {
        self.seen = self.seen.saturating_add(more.seen);
        self.lost = self.lost.saturating_add(more.lost);
        self.filtered = self.filtered.saturating_add(more.filtered);
    }
}

/// Counts by the name in the column `stream`.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    pub(crate) by_stream: BTreeMap<String, Counts>,
}

impl Losses {
    /// What a part of `loss` reports, its CPUs added up.
    pub(crate) fn of(batch: &RecordBatch) -> Result<Self> {
        let mut losses = Self::default();
        for row in LossView::new(batch)?.rows() {
            losses.add(row.stream, Counts { seen: row.seen, lost: row.lost, filtered: row.filtered });
        }
        Ok(losses)
    }

    fn add(&mut self, stream: &str, counts: Counts) {
        match self.by_stream.get_mut(stream) {
            Some(known) => known.add(counts),
            None => _ = self.by_stream.insert(stream.to_owned(), counts),
        }
    }

    /// Adds what others report.
    pub(crate) fn add_all(&mut self, others: &Self) {
        for (stream, counts) in &others.by_stream {
            self.add(stream, *counts);
        }
    }

    /// Rows of a table that are given up. Where no probe has counted them they are counted as seen here, so that no more is lost
    /// than was seen.
    pub(crate) fn add_dropped(&mut self, table: &str, rows: u64) {
        let CountedAs { stream, is_seen } = counted_as(table);
        self.add(stream, Counts { seen: if is_seen { 0 } else { rows }, lost: rows, filtered: 0 });
    }
}
