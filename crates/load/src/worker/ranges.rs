//! `sync_file_range`: after some writes the bytes from the first to the last of them are written back.

use pagelab_fiojob::words::SyncRange;
use pagelab_fiojob::{Direction, Operation};

use super::drive::{Drive, End};
use super::events::flush_failure;
use crate::engines::Engine;
use crate::engines::queue::Queue;
use crate::verify::walk::Checked;

/// The writes of a worker since its files were last written back.
pub(super) struct Ranges {
    asked: SyncRange,
    /// By file: from the first byte written to behind the last.
    written: Vec<Option<(u64, u64)>>,
}

impl Ranges {
    /// `None` for a job that does not ask for it.
    pub(super) fn new(asked: SyncRange, files: usize) -> Option<Self> {
        if asked.flags == 0 { None } else { Some(Self { asked, written: vec![None; files] }) }
    }

    /// A write is issued.
    pub(super) fn issued(&mut self, file: usize, operation: Operation) {
        if operation.direction != Direction::Write {
            return;
        }
        let (start, end) = (operation.offset, operation.offset + u64::from(operation.bytes));
        if let Some(written) = self.written.get_mut(file) {
            *written = Some(written.map_or((start, end), |(from, to)| (from.min(start), to.max(end))));
        }
    }
}

impl<E: Engine, S: Checked, Q: Queue> Drive<'_, E, S, Q> {
    /// Writes a file back; nothing is under way.
    #[cold]
    pub(super) fn sync_range(&mut self, file: usize) -> Option<End> {
        let ranges = self.ranges.as_mut()?;
        let (flags, found) = (ranges.asked.flags, ranges.written.get_mut(file).and_then(Option::take));
        // As in fio: a file that nothing was written to is left alone.
        let (from, to) = found?;
        if S::VARIED
            && let Err(end) = self.switch_to(file)
        {
            return Some(end);
        }
        let before = self.clock.ticks();
        if let Err(fault) = self.engine.flush_range(from, to - from, flags) {
            return Some(End::Failed(flush_failure(fault)));
        }
        let ticks = self.clock.ticks().saturating_sub(before);
        self.flushes.record(self.clock.to_ns(ticks));
        self.flushes_of_data += 1;
        None
    }
}
