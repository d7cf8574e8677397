//! What happens to a worker at certain times: pauses, flushes, samples, the end of ramp and runtime.

use pagelab_fiojob::{Direction, Operation};

use super::drive::{Drive, End};
use super::flushing::Due;
use super::pace::{Pace, wait};
use crate::engines::Engine;
use crate::engines::queue::Queue;
use crate::fault::Fault;
use crate::offsets::PassLimit;
use crate::report::{Depths, Failure, Usage};
use crate::shared::{Progress, State};
use crate::verify::walk::Checked;

/// Distance of samples, as fio's `bwavgtime` and `iopsavgtime`; every second one closes an interval.
const SAMPLE_NS: u64 = 500_000_000;

impl<E: Engine, S: Checked, Q: Queue> Drive<'_, E, S, Q> {
    /// The work due before an operation of a plain walk: flushing, waiting.
    #[cold]
    pub(super) fn attend(&mut self, operation: Operation) -> Option<End> {
        let is_compared = S::VERIFIED && self.source.to_check().is_some();
        if !is_compared && let Some(end) = self.flush_if_due() {
            return Some(end);
        }
        self.flushing.issued(operation);
        self.pause(operation.direction).or_else(|| {
            self.account(operation);
            None
        })
    }

    /// `fsync`, `fdatasync` and `sync_file_range`.
    pub(super) fn flush_if_due(&mut self) -> Option<End> {
        let due = self.flushing.due()?;
        self.flushing.done();
        // A flush is for all writes before it: they are completed first, also before the file is chosen.
        if let Err(end) = self.settle() {
            return Some(end);
        }
        let file = if S::VARIED { self.source.next_file_to_flush() } else { 0 };
        match due {
            Due::Range => self.sync_range(file),
            Due::Fsync | Due::Fdatasync => self.flush_file(file, due == Due::Fdatasync),
        }
    }

    /// Flushes a file, with the time that it takes; nothing is under way when it begins.
    pub(super) fn flush_file(&mut self, file: usize, data_only: bool) -> Option<End> {
        if let Err(end) = self.settle() {
            return Some(end);
        }
        if S::VARIED {
            if let Err(end) = self.switch_to(file) {
                return Some(end);
            }
            if let Some(log) = &mut self.iolog {
                log.flush(file, data_only);
            }
        }
        let before = self.clock.ticks();
        if let Err(fault) = self.engine.flush(data_only) {
            return Some(End::Failed(flush_failure(fault)));
        }
        let ticks = self.clock.ticks().saturating_sub(before);
        self.flushes.record(self.clock.to_ns(ticks));
        self.flushes_of_data += u64::from(data_only);
        None
    }

    /// Waits until an operation of this direction may start.
    pub(super) fn pause(&mut self, direction: Direction) -> Option<End> {
        let pace = self.pace.as_mut()?;
        let now = self.clock.ticks();
        let (spin, wake) = pace.next(direction, now);
        if wake <= now {
            return None;
        }
        let end = self.sleep_until(spin, wake);
        if let (None, Some(pace)) = (&end, &mut self.pace) {
            pace.resume(self.clock.ticks());
        }
        end
    }

    /// Waits, at first spinning; gives the reason if the run ends before that.
    pub(super) fn sleep_until(&mut self, spin: u64, wake: u64) -> Option<End> {
        // As in fio: nothing is left to complete while nobody looks.
        if let Err(end) = self.settle() {
            return Some(end);
        }
        // Sleep no longer than until the next event: it may end the run.
        let task = self.task;
        loop {
            wait(&self.clock, spin, wake.min(self.next_event), &|| task.is_asked());
            let now = self.clock.ticks();
            if task.is_asked()
                && let Some(end) = self.asked()
            {
                return Some(end);
            }
            if now >= self.next_event
                && let Some(end) = self.event(now)
            {
                return Some(end);
            }
            if now >= wake {
                return None;
            }
        }
    }

    /// Tells the pace that an operation is issued.
    pub(super) fn account(&mut self, operation: Operation) {
        if let Some(pace) = &mut self.pace {
            pace.issued(operation.direction, operation.bytes);
        }
        if let Some(ranges) = &mut self.ranges {
            ranges.issued(if S::VARIED { self.source.file() } else { 0 }, operation);
        }
    }

    /// Something is due: the end of the ramp or of the runtime, or a sample.
    #[cold]
    pub(super) fn event(&mut self, now: u64) -> Option<End> {
        if self.ramp_end.is_some_and(|end| now >= end) {
            return Some(End::Ramp);
        }
        // A block that was trimmed is written before the job ends: the next operation does that, and asks again.
        if self.deadline.is_some_and(|end| now >= end) && !(S::VARIED && self.source.owes_write()) {
            return Some(End::Time);
        }
        if now >= self.next_sample {
            let at = self.monotonic(now);
            self.samples += 1;
            for side in &mut self.sides {
                side.sample(at);
            }
            if self.samples.is_multiple_of(2) {
                self.tell_interval(at);
            }
            let progress = Progress {
                operations: self.sides.each_ref().map(|side| side.operations),
                bytes: self.sides.each_ref().map(|side| side.bytes),
                at_ns: at,
            };
            self.task.shared.publish(self.task.plan.index, progress);
            if let Some(failure) = self.too_slow(now) {
                return Some(End::Failed(failure));
            }
            self.next_sample = now.saturating_add(self.clock.from_ns(SAMPLE_NS));
        }
        self.set_next_event();
        None
    }

    /// Something was asked of this worker: a report of what it has measured so far, after which it goes on, or the end.
    #[cold]
    pub(super) fn asked(&mut self) -> Option<End> {
        if self.task.take_request_to_tell() {
            self.tell_so_far();
        }
        self.task.stopped().then_some(End::Stopped)
    }

    /// Reports the events since the last report, until `at_ns` of `CLOCK_MONOTONIC`.
    pub(super) fn tell_interval(&mut self, at_ns: u64) {
        for (side, direction) in self.sides.iter_mut().zip(Direction::ALL) {
            let Some(mut interval) = side.close_interval(at_ns) else { continue };
            // What the job does not want to see.
            if self.options.disable_lat {
                interval.lat.clear();
            }
            if self.options.disable_clat {
                interval.clat.clear();
            }
            if self.options.disable_slat {
                interval.slat.clear();
            }
            self.task.tell(direction, interval);
        }
    }

    /// `rate_min` and `rate_iops_min`.
    fn too_slow(&mut self, now: u64) -> Option<Failure> {
        let done = self.sides.each_ref().map(|side| (side.operations, side.bytes));
        let message = self.pace.as_mut()?.too_slow(&self.clock, now, done)?;
        Some(Failure { errno: libc::EIO, message })
    }

    pub(super) fn set_next_event(&mut self) {
        self.next_event =
            [Some(self.next_sample), self.ramp_end, self.deadline].into_iter().flatten().min().unwrap_or(u64::MAX);
    }

    /// Ticks as nanoseconds of `CLOCK_MONOTONIC`.
    fn monotonic(&self, ticks: u64) -> u64 {
        self.anchor.1 + self.clock.to_ns(ticks.saturating_sub(self.anchor.0))
    }

    pub(super) fn begin_ramp(&mut self) {
        self.task.shared.set_state(self.task.plan.index, State::Ramping);
        self.anchor = self.clock.pair();
        self.ramp_end = Some(self.anchor.0.saturating_add(self.clock.from_ns(self.options.ramp_time.0)));
        self.prepare_pace();
        self.set_next_event();
        self.source.begin_pass(PassLimit::REGION);
        if S::VERIFIED {
            self.begin_verified();
        }
    }

    pub(super) fn begin_measuring(&mut self) {
        self.task.shared.set_state(self.task.plan.index, State::Running);
        self.passes = 0;
        self.covered = 0;
        self.count_from_now();
        let limit = self.limit().unwrap_or(PassLimit::REGION);
        self.source.begin_pass(limit);
        if S::VERIFIED {
            self.begin_verified();
        }
    }

    /// The measured window begins: everything counts from now, the runtime too.
    pub(super) fn count_from_now(&mut self) {
        self.anchor = self.clock.pair();
        let (ticks, now_ns) = self.anchor;
        self.sides.iter_mut().for_each(|side| side.restart(now_ns));
        self.flushes.reset();
        self.flight.depths = Depths::default();
        self.flushing.restart();
        (self.flushes_of_data, self.first_error, self.forgiven_mismatches) = (0, None, 0);
        self.measured_from = Some(now_ns);
        self.ramp_end = None;
        let runtime = self.options.runtime.0;
        self.deadline = (runtime > 0).then(|| ticks.saturating_add(self.clock.from_ns(runtime)));
        self.next_sample = ticks.saturating_add(self.clock.from_ns(SAMPLE_NS));
        if let Some(goal) = &mut self.goal {
            goal.reset(ticks);
        }
        self.prepare_pace();
        self.set_next_event();
        self.usage_before = thread_usage();
        (self.verifying_bytes, self.verifying_ticks) = (0, 0);
    }

    fn prepare_pace(&mut self) {
        let course = &self.task.plan.course;
        self.pace = Pace::new(self.options, &self.clock, self.clock.ticks(), course.transfer_bytes, course.seed);
        self.attended = self.pace.is_some() || self.flushing.is_wanted();
    }
}

pub(super) fn flush_failure(fault: Fault) -> Failure {
    Failure { errno: fault.errno(), message: format!("flushing: {}", std::io::Error::from_raw_os_error(fault.errno())) }
}

/// CPU time and events of this thread so far.
pub(super) fn thread_usage() -> Usage {
    // SAFETY: a zeroed rusage is a valid one, and the kernel fills it for the calling thread; the call cannot fail with these arguments.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let ns = |t: libc::timeval| (t.tv_sec as u64) * 1_000_000_000 + (t.tv_usec as u64) * 1_000;
    Usage {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
    }
}
