//! The loop of engines that have several operations under way.
//!
//! As in fio: operations are put into the queue until `iodepth_batch` of them wait, then submitted together; when `iodepth` are under
//! way, completions are waited for, at least `iodepth_batch_complete_min` at a time, until `iodepth_low` are left.
//!
//! Submission latency (`slat`) reaches from the start of an operation's preparation to the return of the call that
//! submitted it, completion latency (`clat`) from there until its completion was reaped; total latency (`lat`) is both.
//! Buffered operations on cached data are done while they are submitted: their time is in `slat`.
//!
//! Before anything that waits or that covers all operations so far (a pause, a flush, the end of a pass) all operations
//! in flight are completed. So `fsync=N` flushes what N writes wrote; fio's engines submit the flush while those writes
//! are in flight.

use std::sync::atomic::Ordering;

use pagelab_fiojob::{Direction, Operation};

use super::drive::{Drive, End};
use super::flight::{Slot, UNTIMED};
use super::logs::Took;
use crate::engines::Engine;
use crate::engines::queue::{Completion, Queue, QueuedFile, Submission};
use crate::fault::Fault;
use crate::report::Failure;
use crate::verify::walk::Checked;

impl<E: Engine, S: Checked, Q: Queue> Drive<'_, E, S, Q> {
    /// Completes everything that is under way. Nothing to do for engines without a queue.
    #[cold]
    pub(super) fn settle(&mut self) -> Result<(), End> {
        while self.flight.under_way() > 0 {
            self.submit()?;
            let all = self.flight.under_way();
            self.reap(1, all)?;
        }
        Ok(())
    }

    /// Submits the pushed operations to the kernel; gives the ticks at which it had them, 0 if there were none.
    fn submit(&mut self) -> Result<u64, End> {
        let mut now = 0;
        while self.flight.waiting() > 0 {
            let Some(queue) = &mut self.flight.queue else { return Ok(0) };
            match queue.submit() {
                Ok(0) => {
                    // The kernel takes no more until some are completed; if none are under way it is asked again.
                    let (waiting, under_way) = (self.flight.waiting(), self.flight.under_way());
                    if under_way > waiting {
                        self.reap(1, under_way - waiting)?;
                    } else if self.task.stopped() {
                        let message = "the kernel takes no operation although none is under way".to_owned();
                        return Err(End::Failed(Failure { errno: libc::EAGAIN, message }));
                    } else {
                        std::thread::sleep(std::time::Duration::from_micros(100));
                    }
                }
                Ok(count) => {
                    now = self.clock.ticks();
                    let (clock, sides) = (self.clock, &mut self.sides);
                    self.flight.handed_over(count, |slot| {
                        // What is submitted again, because a completion was short, was issued before.
                        if slot.begun != UNTIMED && slot.issued == UNTIMED {
                            slot.issued = now;
                            let side = &mut sides[slot.operation.direction as usize];
                            side.submitted(clock.to_ns(now.saturating_sub(slot.begun)));
                        }
                    });
                }
                Err(fault) => {
                    let Some(slot) = self.flight.refused() else { return Err(queue_failure(fault)) };
                    self.failed(fault, slot.operation)?;
                }
            }
        }
        Ok(now)
    }

    /// Waits for completions and counts them; gives the ticks at which they were taken.
    fn reap(&mut self, least: u32, most: u32) -> Result<u64, End> {
        let Some(queue) = &mut self.flight.queue else { return Ok(0) };
        let mut completed = std::mem::take(&mut self.flight.completed);
        completed.clear();
        let waited = queue.reap(least, most, &mut completed);
        self.flight.taken(completed.len() as u32);
        let now = self.clock.ticks();
        let mut ended = Ok(());
        for completion in &completed {
            let one = self.complete(*completion, now);
            ended = ended.and(one);
        }
        self.flight.completed = completed;
        ended?;
        if !self.flight.closing.is_empty() {
            self.close_done()?;
        }
        match waited {
            // A signal: if it was one that ends the run, the loop around notices.
            Ok(()) | Err(Fault::Errno(libc::EINTR)) => Ok(now),
            Err(fault) => Err(queue_failure(fault)),
        }
    }

    /// Counts a completed operation; a short one goes into the queue again.
    #[inline(always)]
    fn complete(&mut self, completion: Completion, now: u64) -> Result<(), End> {
        let number = completion.slot;
        let slot = self.flight.slot(number).map_err(queue_failure)?;
        let operation = slot.operation;
        if completion.result.cast_unsigned() != operation.bytes - slot.done_bytes
            && !self.finish_queued(number, slot, completion)?
        {
            return Ok(());
        }
        self.flight.give_back(number);
        let side = &mut self.sides[operation.direction as usize];
        side.count(operation.bytes);
        if slot.issued != UNTIMED {
            let clock = self.clock;
            let clat_ns = clock.to_ns(now.saturating_sub(slot.issued));
            let lat_ns = clock.to_ns(now.saturating_sub(slot.begun));
            side.completed_apart(clat_ns, lat_ns);
            if S::VARIED
                && self.measured_from.is_some()
                && let Some(logs) = &mut self.logs
            {
                let slat_ns = Some(clock.to_ns(slot.issued.saturating_sub(slot.begun)));
                let took = Took { slat_ns, clat_ns, lat_ns };
                logs.record(clock.to_ns(now.saturating_sub(self.anchor.0)), operation, took);
            }
            if S::VARIED
                && self.goal.is_some()
                && let Some(end) = self.held_against_goal(operation, lat_ns)
            {
                return Err(end);
            }
        }
        if S::VERIFIED && operation.direction == Direction::Read {
            self.check_queued(number, &slot)?;
        }
        Ok(())
    }

    /// A short or failed completion. True: it is whole with its earlier parts. False: its rest is queued, or it failed
    /// and the job goes on without it.
    #[cold]
    fn finish_queued(&mut self, number: u32, slot: Slot, completion: Completion) -> Result<bool, End> {
        let Operation { direction, offset, bytes } = slot.operation;
        let left = |done: u32| Operation { direction, offset: offset + u64::from(done), bytes: bytes - done };
        let done_bytes = match completion.outcome() {
            Ok(more) => {
                if slot.done_bytes == 0 {
                    self.sides[direction as usize].short += 1;
                }
                slot.done_bytes.saturating_add(more).min(bytes)
            }
            Err(Fault::Errno(libc::EINTR)) => slot.done_bytes,
            Err(fault) => {
                self.flight.note_failing(number, &slot);
                self.flight.give_back(number);
                return self.failed(fault, left(slot.done_bytes));
            }
        };
        if done_bytes == bytes {
            return Ok(true);
        }
        let slot = Slot { done_bytes, ..slot };
        self.push_rest(number, slot, left(done_bytes))?;
        Ok(false)
    }

    /// Asks for the rest of an operation.
    fn push_rest(&mut self, number: u32, slot: Slot, rest: Operation) -> Result<(), End> {
        // The selected slot stays selected: its contents may be being made.
        let whole = self.buffer.slot(number, slot.operation.bytes).map_err(queue_failure)?;
        let memory = whole.as_mut_ptr().wrapping_add(slot.done_bytes as usize);
        let Slot { file, fd, .. } = slot;
        if let Some(queue) = &mut self.flight.queue {
            queue.push(Submission { slot: number, file, fd, operation: rest, memory }).map_err(queue_failure)?;
        }
        self.flight.note(number, slot);
        Ok(())
    }

    /// Closes the files that nothing more will be done in, once nothing of them is under way.
    #[cold]
    fn close_done(&mut self) -> Result<(), End> {
        let closing = std::mem::take(&mut self.flight.closing);
        closing.into_iter().try_for_each(|file| self.close(file))
    }

    /// The worker closes a file, or closes it and opens it again; nothing of it is under way.
    pub(super) fn forget(&mut self, file: usize) {
        if let Some(queue) = &mut self.flight.queue {
            queue.forget(file);
        }
    }
}

impl<S: Checked, Q: Queue> Drive<'_, QueuedFile<Q>, S, Q> {
    /// Works until the pass is over or something else ends it. Nothing is under way when this returns.
    pub(super) fn queued_pass(&mut self) -> End {
        match self.keep_under_way() {
            Ok(end) | Err(end) => match self.settle() {
                Ok(()) => end,
                // The earlier of the two reasons.
                Err(later) => {
                    if matches!(end, End::Failed(_)) {
                        end
                    } else {
                        later
                    }
                }
            },
        }
    }

    fn keep_under_way(&mut self) -> Result<End, End> {
        let task = self.task;
        let requests = task.requests();
        let limits = self.flight.limits;
        let period = self.period();
        let mut until_timed = if period == u64::MAX { u64::MAX } else { 0 };
        loop {
            if requests.load(Ordering::Relaxed) != 0
                && let Some(end) = self.asked()
            {
                return Ok(end);
            }
            let timed = until_timed == 0;
            until_timed = if timed { period - 1 } else { until_timed - 1 };
            let Some(slot) = self.flight.take_slot() else { return Err(queue_failure(Fault::Errno(libc::ENOBUFS))) };
            let mut now = match self.enqueue(slot, timed) {
                Ok(Some(now)) => now,
                Ok(None) => {
                    self.flight.give_back(slot);
                    return Ok(self.pass_end());
                }
                Err(end) => {
                    self.flight.give_back(slot);
                    return Err(end);
                }
            };
            if self.flight.waiting() >= limits.batch {
                now = self.submit()?;
            }
            // Only what steers the depth changes it, which plain walks never have.
            let depth = if S::VARIED { self.flight.limits.depth } else { limits.depth };
            let full = self.flight.under_way() >= depth;
            if full || limits.polls {
                loop {
                    // Submit before waiting: the operation waited for may be among those pushed.
                    self.submit()?;
                    let least = limits.complete_least.min(self.flight.under_way());
                    now = self.reap(least.max(1), limits.complete_most)?;
                    if !full || self.flight.under_way() <= limits.low {
                        break;
                    }
                }
            }
            if now >= self.next_event
                && let Some(end) = self.event(now)
            {
                return Ok(end);
            }
        }
    }

    /// Chooses the next operation and pushes it; `None` at the end of the pass. Gives the ticks of its end if it is done already, else 0.
    #[inline(always)]
    fn enqueue(&mut self, number: u32, timed: bool) -> Result<Option<u64>, End> {
        self.buffer.select(number).map_err(queue_failure)?;
        let Some(operation) = self.next() else { return Ok(None) };
        if !S::VARIED
            && self.attended
            && let Some(end) = self.attend(operation)
        {
            return Err(end);
        }
        let begun = match timed {
            true if S::VARIED => self.begun,
            true => self.clock.ticks(),
            false => UNTIMED,
        };
        if S::STAMPED && operation.direction == Direction::Write {
            self.buffer.stamp(operation.bytes);
        }
        if S::VERIFIED {
            self.prepare_queued(number, operation)?;
        } else if self.options.serialize_overlap && self.flight.overlaps(self.files.current(), operation) {
            self.settle()?;
        }
        if S::VARIED && operation.direction == Direction::Trim {
            return self.trim(number, operation, begun).map(Some);
        }
        let fd = self.engine.fd().map_err(queue_failure)?;
        let file = self.files.current();
        let memory = self.buffer.as_ptr();
        if let Some(queue) = &mut self.flight.queue {
            queue.push(Submission { slot: number, file, fd, operation, memory }).map_err(queue_failure)?;
        }
        self.flight.note(number, Slot { operation, done_bytes: 0, file, fd, begun, issued: UNTIMED });
        Ok(Some(0))
    }
}

impl<S: Checked, Q: Queue> Drive<'_, QueuedFile<Q>, S, Q> {
    /// Trims at once, as fio's engines with a queue do: what waits is submitted before, so that the order stays.
    #[cold]
    fn trim(&mut self, number: u32, operation: Operation, begun: u64) -> Result<u64, End> {
        self.submit()?;
        let issued = self.clock.ticks();
        let result = self.engine.discard(operation);
        let done = self.clock.ticks();
        self.flight.depths.trimmed(self.flight.under_way() + 1);
        if let Err(fault) = result {
            self.failed(fault, operation)?;
            self.flight.give_back(number);
            return Ok(done);
        }
        self.flight.give_back(number);
        let (clock, side) = (self.clock, &mut self.sides[operation.direction as usize]);
        side.count(operation.bytes);
        if begun == UNTIMED {
            return Ok(done);
        }
        let ns = |from: u64, to: u64| clock.to_ns(to.saturating_sub(from));
        let took = Took { slat_ns: Some(ns(begun, issued)), clat_ns: ns(issued, done), lat_ns: ns(begun, done) };
        side.submitted(ns(begun, issued));
        side.completed_apart(took.clat_ns, took.lat_ns);
        if let (true, Some(logs)) = (self.measured_from.is_some(), &mut self.logs) {
            logs.record(ns(self.anchor.0, done), operation, took);
        }
        if self.goal.is_some()
            && let Some(end) = self.held_against_goal(operation, took.lat_ns)
        {
            return Err(end);
        }
        Ok(done)
    }
}

/// The queue itself failed.
fn queue_failure(fault: Fault) -> End {
    let errno = fault.errno();
    let message = format!("the queue of operations: {}", std::io::Error::from_raw_os_error(errno));
    End::Failed(Failure { errno, message })
}
