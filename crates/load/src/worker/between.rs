//! What operations beyond plain ones need before they can be issued: a file, a direction, contents, a line in a log. And what becomes
//! of those that fail.

use pagelab_fiojob::{Caps, Direction, Operation};

use super::drive::{Drive, End};
use super::files::failure_to_open;
use crate::engines::Engine;
use crate::engines::queue::Queue;
use crate::fault::Fault;
use crate::offsets::Step;
use crate::verify::walk::Checked;

impl<E: Engine, S: Checked, Q: Queue> Drive<'_, E, S, Q> {
    /// The next operation of a varied walk; everything that it waits for is done when this returns.
    #[inline(never)]
    pub(super) fn next_varied(&mut self) -> Option<Operation> {
        match self.try_next_varied() {
            Ok(operation) => operation,
            Err(end) => {
                self.pending_end = Some(end);
                None
            }
        }
    }

    fn try_next_varied(&mut self) -> Result<Option<Operation>, End> {
        if self.goal.is_some()
            && let Some(end) = self.steer()
        {
            return Err(end);
        }
        while let Some(step) = self.source.next_step() {
            if let Some(end) = self.take_step(step) {
                return Err(end);
            }
        }
        if self.source.finished() {
            return Ok(None);
        }
        if !self.source.reads_backlog()
            && let Some(end) = self.flush_if_due()
        {
            return Err(end);
        }
        let preferred = self.source.draw_direction();
        let direction = match &self.pace {
            // As in fio: while one direction is ahead of its rate, the other may go. Not where the same way is gone again to verify.
            Some(pace) if self.options.rw.0.is_mixed() && !S::VERIFIED => pace.choose(preferred, self.clock.ticks()),
            _ => preferred,
        };
        let found = self.source.next_in(direction);
        while let Some(file) = self.source.take_done_file() {
            self.close(file)?;
        }
        let Some(operation) = found else { return Ok(None) };
        let direction = operation.direction;
        if let Some(end) = self.pause(direction) {
            return Err(end);
        }
        self.begun = self.clock.ticks();
        self.account(operation);
        self.switch_to(self.source.file())?;
        self.flushing.issued(operation);
        if direction == Direction::Write {
            self.files.note_write(self.source.file());
            if E::CAPS.contains(Caps::BUFFERS) && !S::VERIFIED {
                if self.options.refills() {
                    self.buffer.refill(operation.bytes);
                } else if self.options.stamps() {
                    self.buffer.stamp(operation.bytes);
                }
            }
        }
        if let Some(log) = &mut self.iolog {
            log.operation(self.source.file(), operation);
        }
        Ok(Some(operation))
    }

    /// The delay that a log asks for before the next operation. As in fio delays count from the last operation: lost
    /// time stays lost.
    #[cold]
    fn take_step(&mut self, step: Step) -> Option<End> {
        let (start, _) = self.anchor;
        let wake = match step {
            Step::Flush { file, data_only } => return self.flush_file(file, data_only),
            Step::Delay { ns } => self.begun.max(start).saturating_add(self.clock.from_ns(ns)),
            Step::Until { ns } => start.saturating_add(self.clock.from_ns(ns)),
        };
        let end = if wake > self.clock.ticks() { self.sleep_until(0, wake) } else { None };
        self.begun = self.clock.ticks();
        end
    }

    /// Makes this file the one that is worked on.
    pub(super) fn switch_to(&mut self, file: usize) -> Result<(), End> {
        if file == self.files.current() {
            return Ok(());
        }
        let opened = self
            .files
            .switch(self.task, &mut self.engine, file)
            .map_err(|error| End::Failed(failure_to_open(&error)))?;
        if let (true, Some(log)) = (opened, &mut self.iolog) {
            log.opened(file);
        }
        Ok(())
    }

    /// Nothing more will be done in this file in this pass.
    pub(super) fn close(&mut self, file: usize) -> Result<(), End> {
        let wanted = self.options.fsync_on_close && self.options.rw.0.writes();
        let flushes = wanted && !self.files.is_flushed(file) && !self.flushing.was_last();
        if self.flight.concerns(file) && !flushes {
            self.flight.closing.push(file);
            return Ok(());
        }
        if flushes {
            self.settle()?;
        }
        self.forget(file);
        if flushes {
            self.switch_to(file)?;
            self.engine.flush_closing().map_err(|fault| End::Failed(super::events::flush_failure(fault)))?;
            self.files.note_flush(file);
        }
        // Files that are to be removed at the end of the pass stay open until then.
        if self.options.unlink_each_loop {
            self.files.keep_open(file);
        } else {
            self.files.close(file);
        }
        if let Some(log) = &mut self.iolog {
            log.closed(file);
        }
        Ok(())
    }

    /// An operation failed: the end of the job, or one error more.
    pub(super) fn failed(&mut self, fault: Fault, operation: Operation) -> Result<bool, End> {
        let errno = fault.errno();
        if S::VERIFIED {
            self.failed_verified(operation.direction);
        }
        if self.options.fill_device && matches!(errno, libc::ENOSPC | libc::EDQUOT) {
            return Err(End::Full);
        }
        let message = self.engine.explain(fault, operation);
        if self.options.counts_errors_of(operation.direction) {
            self.first_error.get_or_insert(errno);
        }
        if !self.options.goes_on_after(operation.direction, errno) {
            self.fatal_error_counts = self.options.counts_errors_of(operation.direction);
            return Err(End::Failed(crate::report::Failure { errno, message }));
        }
        self.sides[operation.direction as usize].errors += 1;
        if self.options.error_dump {
            // Standard error may be closed; the count says it too.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("pagelab: job '{}': {message}\n", self.task.job.name).as_bytes(),
            );
        }
        Ok(false)
    }
}
