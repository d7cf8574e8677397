//! What verifying adds to a worker: contents before a write, a comparison after a read, a pass of reads behind a pass of writes, the
//! state of writes that ended early.
//!
//! Everything here is called under `S::VERIFIED`, which is false in the loops of jobs that do not verify.

use pagelab_fiojob::{Caps, Direction, Operation};

use super::drive::{Drive, End};
use super::flight::{Slot, ToVerify};
use super::task::Task;
use crate::engines::queue::Queue;
use crate::engines::{Engine, StartOver};
use crate::error::LoadError;
use crate::offsets::Repeatable;
use crate::report::{Failure, Mismatch};
use crate::verify::Verify;
use crate::verify::state::{self, Owner, Resume};
use crate::verify::walk::{Checked, Verified};

/// A walk whose writes are verified.
///
/// # Errors
/// The state that is to be loaded is not there, or not this job's.
pub(super) fn walk_of<W: Repeatable>(task: &Task<'_>, walk: W) -> Result<Verified<W>, LoadError> {
    let options = &task.job.options;
    let resume =
        if options.verify_state_load { Some(Resume::load(owner(task), options.rw.0.is_random())?) } else { None };
    Ok(Verified::new(walk, options, resume))
}

fn owner<'a>(task: &'a Task<'_>) -> Owner<'a> {
    Owner { job: &task.job.name, index: task.plan.index, seed: task.plan.course.seed }
}

/// A worker's verifying, for jobs that do.
pub(super) fn verify_of<E: Engine>(task: &Task<'_>) -> Option<Verify> {
    let options = &task.job.options;
    let keeps = E::CAPS.contains(Caps::BUFFERS);
    options.verifies().then(|| Verify::new(task.plan, &task.job.name, options, task.state_dir, keeps))
}

impl<E: Engine, S: Checked, Q: Queue> Drive<'_, E, S, Q> {
    /// Fills the buffer of a write that is about to be issued.
    pub(super) fn prepare_verified(&mut self, operation: Operation) {
        let number = self.source.issue_write(operation);
        if let (Some(verify), Ok(buffer)) = (&self.verify, self.buffer.first(operation.bytes)) {
            verify.prepare(operation, number, buffer);
        }
    }

    /// Compares what a read has brought, if it is one that is to be compared.
    pub(super) fn check_verified(&mut self, operation: Operation) -> Result<(), End> {
        let Some(number) = self.source.to_check() else { return Ok(()) };
        let file = if S::VARIED { self.source.file() } else { 0 };
        let (Some(verify), Ok(buffer)) = (&mut self.verify, self.buffer.first(operation.bytes)) else { return Ok(()) };
        verify.join_parts(buffer);
        let Err(mismatch) = verify.check(file, operation, number, buffer) else { return Ok(()) };
        if verify.forgives {
            self.forgiven_mismatches += 1;
            self.first_error.get_or_insert(libc::EILSEQ);
        } else if verify.fatal {
            return Err(End::Failed(failure_of(&mismatch, 1, 1)));
        }
        Ok(())
    }

    /// Makes an operation ready that goes into a queue, in the slot `number`. Blocks are compared with the write that came last, so no
    /// two operations on the same bytes are under way of which one writes.
    pub(super) fn prepare_queued(&mut self, number: u32, operation: Operation) -> Result<(), End> {
        let file = if S::VARIED { self.source.file() } else { 0 };
        if self.flight.overlaps(file, operation) {
            self.settle()?;
        }
        let writes = operation.direction == Direction::Write;
        let read = if writes { None } else { self.source.to_check() };
        let write = writes.then(|| self.source.issue_write(operation));
        if let (Some(write), Some(verify), Ok(buffer)) =
            (write, &self.verify, self.buffer.slot(number, operation.bytes))
        {
            verify.prepare(operation, write, buffer);
        }
        self.flight.note_to_verify(number, ToVerify { write, read });
        Ok(())
    }

    /// Compares what a read from a queue has brought into its slot, if it is one that is to be compared.
    pub(super) fn check_queued(&mut self, number: u32, slot: &Slot) -> Result<(), End> {
        let Some(expected) = self.flight.to_verify(number).read else { return Ok(()) };
        let operation = slot.operation;
        let (Some(verify), Ok(buffer)) = (&mut self.verify, self.buffer.slot(number, operation.bytes)) else {
            return Ok(());
        };
        let Err(mismatch) = verify.check(slot.file, operation, expected, buffer) else { return Ok(()) };
        if verify.forgives {
            self.forgiven_mismatches += 1;
            self.first_error.get_or_insert(libc::EILSEQ);
        } else if verify.fatal {
            return Err(End::Failed(failure_of(&mismatch, 1, 1)));
        }
        Ok(())
    }

    /// The first `bytes` of an operation are done; the rest goes from or to the start of the buffer.
    pub(super) fn shift_verified(&mut self, operation: Operation, bytes: u32) {
        let (Some(verify), Ok(buffer)) = (&mut self.verify, self.buffer.first(operation.bytes)) else { return };
        match operation.direction {
            Direction::Read => verify.keep_part(buffer.get(..bytes as usize).unwrap_or(&[])),
            Direction::Write => buffer.copy_within((bytes as usize).min(buffer.len()).., 0),
            Direction::Trim => {}
        }
    }

    /// An operation failed.
    pub(super) fn failed_verified(&mut self, direction: Direction) {
        match direction {
            Direction::Write => {
                let which = self.flight.failing.take();
                self.source.write_failed(which);
            }
            Direction::Read => {
                if let Some(verify) = &mut self.verify {
                    verify.drop_parts();
                }
            }
            Direction::Trim => {}
        }
    }

    /// A pass begins.
    pub(super) fn begin_verified(&mut self) {
        if let Some(verify) = &mut self.verify {
            verify.begin_pass();
        }
    }

    /// The writes of a pass have ended: reads them back by `pass`, unless a signal or an error ended them. Gives the
    /// pass's end.
    #[inline(never)]
    pub(super) fn verify_pass(&mut self, end: End, pass: &impl Fn(&mut Self) -> End) -> End {
        if !self.reads_back() || !matches!(end, End::Pass | End::Time | End::Full) {
            return end;
        }
        if !self.task.await_rivals() {
            return End::Stopped;
        }
        if !self.source.begin_replay() {
            return end;
        }
        let begun = self.clock.ticks();
        self.verifying_since = Some(begun);
        // As in fio: what no option flushes is verified from where it is, the page cache or the medium.
        let flushed = if self.flushing.was_last() { Ok(()) } else { self.flush_written_files() };
        if let Err(failure) = flushed.and_then(|()| self.start_over(StartOver::Reread)) {
            return End::Failed(failure);
        }
        // Reads are no writes to flush after; the count goes on with the next pass of writes.
        let flushing = self.flushing.clone();
        self.flushing.restart();
        // Rates and pauses are the writes' own, and all writes are verified however late it is: verification must not
        // depend on which came first, the end of the runtime or the last write.
        let pace = self.pace.take();
        let attended = std::mem::replace(&mut self.attended, false);
        let deadline = self.deadline.take();
        self.set_next_event();
        let bytes = self.bytes_read();
        let verified = pass(self);
        let bytes_now = self.bytes_read();
        self.verifying_bytes += bytes_now.saturating_sub(bytes);
        self.verifying_ticks += self.clock.ticks().saturating_sub(begun);
        (self.verifying_since, self.flushing) = (None, flushing);
        self.pace = pace;
        self.attended = attended;
        self.deadline = deadline;
        self.set_next_event();
        match verified {
            End::Pass if matches!(end, End::Pass) => self.flush_read_files().map_or_else(End::Failed, |()| end),
            End::Pass => end,
            // What is measured begins with a pass of writes.
            End::Ramp if !self.writes_again() => End::Stopped,
            other => other,
        }
    }

    /// `fsync_on_close` of files that are closed to be opened for reading, then `end_fsync` and `fsync_on_close` once more, as by fio.
    fn flush_written_files(&mut self) -> Result<(), crate::report::Failure> {
        if self.options.fsync_on_close {
            self.files.flush_open(&mut self.engine).map_err(super::events::flush_failure)?;
        }
        self.final_flush()
    }

    /// `fsync_on_close` of files that were opened to be verified.
    fn flush_read_files(&mut self) -> Result<(), crate::report::Failure> {
        if self.options.fsync_on_close { self.final_flush() } else { Ok(()) }
    }

    /// Whether passes of reads follow passes of writes.
    pub(super) fn reads_back(&self) -> bool {
        self.options.do_verify && self.options.changes_files()
    }

    /// Waits until those that write the same bytes have verified theirs; false if the worker is to end before that.
    pub(super) fn writes_again(&self) -> bool {
        // Who does not verify waits for nobody, and the others wait for its end.
        !self.reads_back() || self.task.await_rivals()
    }

    fn bytes_read(&self) -> u64 {
        let [read, ..] = &self.sides;
        read.bytes
    }

    /// The end of the work: the failure that mismatches are, and the state of writes that ended early.
    pub(super) fn end_verified(&mut self, whole: bool) {
        if self.failure.is_none()
            && let Some(verify) = &self.verify
            && !verify.forgives
            && let Some(first) = verify.report().first.first()
        {
            self.failure = Some(failure_of(first, verify.report().mismatches, verify.report().blocks));
        }
        let wanted = self.options.verify_state_save;
        let Some(progress) = self.source.progress().filter(|_| wanted != Some(false)) else { return };
        let owner = owner(self.task);
        if wanted.is_none() && (whole || (progress.again && progress.failed.is_empty())) {
            state::remove(owner, self.task.state_dir);
            return;
        }
        let files = self.task.plan.files.len();
        if let Err(message) = state::save(owner, files, &progress, self.task.state_dir) {
            self.failure.get_or_insert(Failure { errno: libc::EIO, message });
        }
    }
}

/// Mismatches as the end of a job.
fn failure_of(first: &Mismatch, mismatches: u64, blocks: u64) -> Failure {
    let message = match mismatches {
        1 => first.to_string(),
        _ => format!("{mismatches} of {blocks} blocks verified are not what was written; the first: {first}"),
    };
    Failure { errno: libc::EILSEQ, message }
}
