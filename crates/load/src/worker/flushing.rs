//! When a worker flushes on its way: `fsync`, `fdatasync`, `sync_file_range`.

use pagelab_fiojob::{Direction, JobOptions, Operation};

/// What is to be done before the next operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
    /// sync_file_range(2).
    Range,
}

/// As in fio one question before each operation: is the number of writes that were issued a multiple of what an option names? So in a
/// job that also reads, every read behind such a write is followed by a further flush, but no flush follows another.
#[derive(Debug, Clone)]
pub(super) struct Flushing {
    /// What is asked in this order, and after how many writes each.
    every: [(Due, u64); 3],
    /// Writes since measuring began, over all passes.
    writes: u64,
    /// Nothing was issued since the last flush.
    just_flushed: bool,
}

impl Flushing {
    /// The rule of a job.
    pub(super) fn of(options: &JobOptions) -> Self {
        let [fsync, fdatasync, ranges] = options.flushes().map(|(_, writes)| writes);
        let every = [(Due::Fsync, fsync), (Due::Fdatasync, fdatasync), (Due::Range, ranges)];
        Self { every, writes: 0, just_flushed: false }
    }

    /// Whether the job ever asks for a flush on its way.
    pub(super) fn is_wanted(&self) -> bool {
        self.every.iter().any(|(_, every)| *every > 0)
    }

    /// What the options ask for before the next operation.
    pub(super) fn due(&self) -> Option<Due> {
        if self.just_flushed || self.writes == 0 {
            return None;
        }
        self.every.iter().find(|(_, every)| *every > 0 && self.writes.is_multiple_of(*every)).map(|(due, _)| *due)
    }

    /// Nothing was issued since the last flush on the way.
    pub(super) fn was_last(&self) -> bool {
        self.just_flushed
    }

    /// It is done, or there was nothing to flush.
    pub(super) fn done(&mut self) {
        self.just_flushed = true;
    }

    /// An operation is issued.
    pub(super) fn issued(&mut self, operation: Operation) {
        self.writes += u64::from(operation.direction == Direction::Write);
        self.just_flushed = false;
    }

    /// A pass begins in files that are opened anew: what is due is done in them, too.
    pub(super) fn begin_pass(&mut self) {
        self.just_flushed = false;
    }

    /// Measuring begins.
    pub(super) fn restart(&mut self) {
        (self.writes, self.just_flushed) = (0, false);
    }
}
