//! Profile samples that are alike as a table.

use arrow::array::RecordBatch;
use pagelab_recording::Recording;
use pagelab_recording::rollup::{RollupRows, Witness};
use pagelab_recording::tables::{RollupSamplesColumns, RollupSamplesRow, SamplesView, TableView};

use super::tally::{Alike, Samples};
use crate::fast::few_enough;
use crate::read::Tasks;
use crate::selection::Selection;

/// Adds up samples.
pub(crate) struct OfSamples {
    tasks: Tasks,
    samples: Samples,
}

impl OfSamples {
    /// Reads the tasks.
    pub(crate) fn new(recording: &Recording) -> crate::error::Result<Self> {
        let tasks = Tasks::load(recording, &Selection::default(), &mut Vec::new())?;
        Ok(Self { tasks, samples: Samples::new(recording) })
    }
}

impl Witness for OfSamples {
    fn batch(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let view = SamplesView::new(batch).map_err(|error| error.to_string())?;
        self.samples.add(&view, &self.tasks, |_, _, _| true);
        few_enough(self.samples.len())
    }

    fn finish(self: Box<Self>) -> Result<Vec<RollupRows>, String> {
        let mut columns = RollupSamplesColumns::default();
        for alike in self.samples.finish() {
            columns.push(&RollupSamplesRow {
                event: &alike.event,
                comm: alike.comm.as_deref(),
                cpu: alike.cpu,
                kstack_id: alike.pair.0,
                ustack_id: alike.pair.1,
                ustack_end: alike.ustack_end.as_deref(),
                measured: alike.measured,
                samples: alike.samples,
                weight: alike.weight,
            });
        }
        Ok(vec![RollupRows::of(columns).map_err(|error| error.to_string())?])
    }
}

/// All samples of a recording; `None` if it has no rollup that can be used.
pub(super) fn read(recording: &Recording) -> Option<Vec<Alike>> {
    let mut all = Vec::new();
    let read = recording.for_each_of_rollup::<RollupSamplesRow<'_>>(|row| {
        all.push(Alike {
            event: row.event.to_owned(),
            comm: row.comm.map(str::to_owned),
            cpu: row.cpu,
            pair: (row.kstack_id, row.ustack_id),
            ustack_end: row.ustack_end.map(str::to_owned),
            measured: row.measured,
            samples: row.samples,
            weight: row.weight,
        });
    });
    read.then_some(all)
}
