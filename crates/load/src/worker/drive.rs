//! A worker's life: get ready, wait for the start, work through passes, report.
//!
//! The loops here are compiled once per engine. Per operation they do: one look at the stop flag, the next block, two time stamps
//! around the engine, two histogram updates and one comparison with the time of the next event (half-second sample, end of ramp,
//! end of runtime). Everything else is in functions marked cold.
//!
//! Total latency (`lat`) starts when the worker begins to make the operation: with nothing to wait for, that is the end of the one
//! before. Completion latency (`clat`) starts when the operation is handed to the engine. So `lat` of an operation is its `clat`
//! plus what choosing and counting cost, and without pauses the sum of `lat` is the time the worker spent.

use std::sync::atomic::Ordering;

use super::pace::{Pace, wait};
use super::shared::{Phase, State};
use super::side::Side;
use super::task::{Task, WorkerResult};
use crate::clock::{Clock, monotonic_ns};
use crate::engines::{Caps, Engine, Fault, Setup, StartOver};
use crate::error::LoadError;
use crate::histogram::Recorder;
use crate::job::JobOptions;
use crate::offsets::{Direction, Operation, PassLimit, Stream};
use crate::random::{SplitMix64, derive_seed};
use crate::report::{Failure, Usage, Window, WorkerReport};

/// Distance of samples, as fio's `bwavgtime` and `iopsavgtime`; every second one closes an interval.
const SAMPLE_NS: u64 = 500_000_000;

/// Most operations between two looks at the clock where operations are not timed.
const BURST: u64 = 256;

/// Longest time between two such looks that is aimed at.
const BURST_NS: u64 = 1_000_000;

/// A worker's life with engine `E`.
pub fn run<E: Engine>(task: &Task<'_>) -> WorkerResult {
    let mut report = WorkerReport {
        job: task.plan.job,
        name: task.job.name.clone(),
        clone: task.plan.clone,
        group: task.plan.group,
        pid: std::process::id(),
        tid: rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned(),
        ..WorkerReport::default()
    };
    if !task.shared.await_phase(Phase::Prepare(task.plan.wave)) {
        return WorkerResult { report, not_ready: None };
    }
    let setup = Setup {
        job: &task.job.name,
        options: &task.job.options,
        path: task.plan.path.as_deref(),
        course: &task.plan.course,
        state_dir: task.state_dir,
    };
    let engine = match E::open(&setup) {
        Ok(engine) => engine,
        Err(error) => {
            report.failure = Some(Failure { errno: errno_of(&error), message: error.to_string() });
            return WorkerResult { report, not_ready: Some(error.exit_status()) };
        }
    };
    task.shared.set_state(task.plan.index, State::Ready);
    if task.shared.await_phase(Phase::Work(task.plan.wave)) {
        let mut drive = Drive::new(task, engine);
        drive.delay_start();
        drive.work();
        drive.report(&mut report);
    }
    WorkerResult { report, not_ready: None }
}

fn errno_of(error: &LoadError) -> i32 {
    match error {
        LoadError::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        LoadError::Host { .. } => libc::ENOMEM,
        _ => libc::EINVAL,
    }
}

/// Why a pass ended.
enum End {
    /// The region is done.
    Pass,
    /// The ramp is over: measuring starts.
    Ramp,
    /// The runtime is over.
    Time,
    /// Somebody asked to stop.
    Stopped,
    /// An operation failed.
    Failed(Failure),
}

struct Drive<'a, E> {
    task: &'a Task<'a>,
    options: &'a JobOptions,
    engine: E,
    stream: Stream,
    clock: Clock,
    sides: [Side; 2],
    flushes: Recorder,
    pace: Option<Pace>,
    /// Flush after this many writes; 0 never.
    flush_every: u64,
    data_only: bool,
    unflushed: u64,
    /// Something may have to happen before an operation: a pause or a flush.
    attended: bool,
    /// Ticks of the next event.
    next_event: u64,
    next_sample: u64,
    samples: u64,
    ramp_end: Option<u64>,
    deadline: Option<u64>,
    /// An instant on both clocks: (ticks, ns of CLOCK_MONOTONIC).
    anchor: (u64, u64),
    measured_from: Option<u64>,
    measured_until: u64,
    usage_before: Usage,
    usage_after: Usage,
    passes: u64,
    covered: u64,
    failure: Option<Failure>,
}

impl<'a, E: Engine> Drive<'a, E> {
    fn new(task: &'a Task<'a>, engine: E) -> Self {
        let options = &task.job.options;
        let flush_every = if options.fsync > 0 { options.fsync } else { options.fdatasync };
        Self {
            task,
            options,
            engine,
            stream: Stream::new(task.plan.course),
            clock: task.clock,
            sides: <[Side; 2]>::default(),
            flushes: Recorder::default(),
            pace: None,
            flush_every,
            data_only: options.fsync == 0,
            unflushed: 0,
            attended: false,
            next_event: u64::MAX,
            next_sample: u64::MAX,
            samples: 0,
            ramp_end: None,
            deadline: None,
            anchor: (0, 0),
            measured_from: None,
            measured_until: 0,
            usage_before: Usage::default(),
            usage_after: Usage::default(),
            passes: 0,
            covered: 0,
            failure: None,
        }
    }

    /// `startdelay`: a fixed one, or drawn from its range.
    fn delay_start(&self) {
        let range = self.options.startdelay;
        let drawn = SplitMix64::new(derive_seed(self.task.plan.course.seed, 1))
            .below((range.high_ns - range.low_ns).saturating_add(1));
        let delay = range.low_ns + drawn;
        if delay > 0 {
            let until = self.clock.ticks().saturating_add(self.clock.from_ns(delay));
            wait(&self.clock, 0, until, &|| self.task.shared.stopped());
        }
    }

    /// Works until nothing is left to do.
    fn work(&mut self) {
        self.task.shared.set_state(self.task.plan.index, State::Running);
        if self.options.ramp_time.0 > 0 {
            self.begin_ramp();
        } else {
            self.begin_measuring();
        }
        let end = loop {
            let end = if self.options.gtod_reduce || self.options.latency_sample > 1 {
                self.sparse_pass()
            } else {
                self.timed_pass()
            };
            match end {
                End::Pass => match self.after_pass() {
                    Ok(true) => {}
                    Ok(false) => break None,
                    Err(failure) => break Some(failure),
                },
                End::Ramp => {
                    if let Err(failure) = self.start_over(StartOver::Rewind) {
                        break Some(failure);
                    }
                    self.begin_measuring();
                }
                End::Time | End::Stopped => break self.final_flush().err(),
                End::Failed(failure) => break Some(failure),
            }
        };
        self.failure = end;
        self.measured_until = monotonic_ns();
        self.usage_after = thread_usage();
    }

    /// Every operation timed.
    fn timed_pass(&mut self) -> End {
        let mut begun = self.clock.ticks();
        let stop = self.task.shared.stop_flag();
        loop {
            if stop.load(Ordering::Relaxed) != 0 {
                return End::Stopped;
            }
            let Some(operation) = self.stream.next_operation() else { return End::Pass };
            if self.attended {
                if let Some(end) = self.attend(operation.direction) {
                    return end;
                }
                begun = self.clock.ticks();
            }
            match self.timed(operation, begun) {
                Ok(done) => begun = done,
                Err(failure) => return End::Failed(failure),
            }
            if begun >= self.next_event {
                if let Some(end) = self.event(begun) {
                    return end;
                }
                begun = self.clock.ticks();
            }
        }
    }

    /// One operation with its latencies; gives the ticks of its end.
    #[inline(always)]
    fn timed(&mut self, operation: Operation, begun: u64) -> Result<u64, Failure> {
        let issued = self.clock.ticks();
        let result = self.engine.execute(operation);
        let mut done =
            if E::CAPS.contains(Caps::TOUCHES_MEMORY) { self.clock.ticks_after_loads() } else { self.clock.ticks() };
        if result != Ok(operation.bytes) {
            self.finish_short(operation, result)?;
            done = self.clock.ticks();
        }
        let clock = self.clock;
        let side = &mut self.sides[operation.direction as usize];
        side.count(operation.bytes);
        // Saturating: a thread moved between CPUs may read a stamp a few ticks early.
        side.clat.record(clock.to_ns(done.saturating_sub(issued)));
        side.lat.record(clock.to_ns(done.saturating_sub(begun)));
        Ok(done)
    }

    /// One operation in `latency_sample` timed, or none (`gtod_reduce`).
    fn sparse_pass(&mut self) -> End {
        let period = if self.options.gtod_reduce { u64::MAX } else { self.options.latency_sample };
        let mut until_timed = 0;
        if self.options.gtod_reduce {
            until_timed = u64::MAX;
        }
        let stop = self.task.shared.stop_flag();
        let mut looked = self.clock.ticks();
        let mut longest = if self.attended { 1 } else { BURST };
        let (short, long) = (self.clock.from_ns(BURST_NS / 4), self.clock.from_ns(BURST_NS));
        loop {
            let burst = longest.min(until_timed);
            for _ in 0..burst {
                let Some(operation) = self.stream.next_operation() else { return End::Pass };
                if self.attended
                    && let Some(end) = self.attend(operation.direction)
                {
                    return end;
                }
                let result = self.engine.execute(operation);
                if result != Ok(operation.bytes)
                    && let Err(failure) = self.finish_short(operation, result)
                {
                    return End::Failed(failure);
                }
                self.sides[operation.direction as usize].count(operation.bytes);
            }
            until_timed -= burst;
            let mut now = self.clock.ticks();
            if until_timed == 0 {
                until_timed = period - 1;
                let Some(operation) = self.stream.next_operation() else { return End::Pass };
                match self.timed(operation, now) {
                    Ok(done) => now = done,
                    Err(failure) => return End::Failed(failure),
                }
            }
            // Slow operations: look at the clock more often, so that the end of the runtime is not overslept.
            match now.saturating_sub(looked) {
                took if took > long => longest = (longest / 2).max(1),
                took if took < short && !self.attended => longest = (longest * 2).min(BURST),
                _ => {}
            }
            looked = now;
            if stop.load(Ordering::Relaxed) != 0 {
                return End::Stopped;
            }
            if now >= self.next_event
                && let Some(end) = self.event(now)
            {
                return end;
            }
        }
    }

    /// Transfers what a short operation left, or says why it failed.
    #[cold]
    fn finish_short(&mut self, operation: Operation, first: Result<u32, Fault>) -> Result<(), Failure> {
        let mut rest = operation;
        let mut result = first;
        loop {
            match result {
                Ok(bytes) if bytes >= rest.bytes => return Ok(()),
                Ok(bytes) => {
                    if rest == operation {
                        self.sides[operation.direction as usize].short += 1;
                    }
                    rest.offset += u64::from(bytes);
                    rest.bytes -= bytes;
                }
                // A signal came first; if it was one that ends the run, the loop around notices after this operation.
                Err(Fault::Errno(libc::EINTR)) => {}
                Err(fault) => return Err(Failure { errno: fault.errno(), message: self.engine.explain(fault, rest) }),
            }
            result = self.engine.execute(rest);
        }
    }

    /// What has to happen before an operation: flushing, waiting.
    #[cold]
    fn attend(&mut self, direction: Direction) -> Option<End> {
        if self.flush_every > 0 {
            if self.unflushed >= self.flush_every {
                self.unflushed = 0;
                let before = self.clock.ticks();
                if let Err(fault) = self.engine.flush(self.data_only) {
                    return Some(End::Failed(flush_failure(fault)));
                }
                let ticks = self.clock.ticks().saturating_sub(before);
                self.flushes.record(self.clock.to_ns(ticks));
            }
            self.unflushed += u64::from(direction == Direction::Write);
        }
        let pace = self.pace.as_mut()?;
        let now = self.clock.ticks();
        let (spin, wake) = pace.next(direction, now);
        if wake <= now {
            return None;
        }
        // Sleep no longer than until the next event: it may end the run.
        let shared = self.task.shared;
        loop {
            wait(&self.clock, spin, wake.min(self.next_event), &|| shared.stopped());
            let now = self.clock.ticks();
            if shared.stopped() {
                return Some(End::Stopped);
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

    /// Something is due: the end of the ramp or of the runtime, or a sample.
    #[cold]
    fn event(&mut self, now: u64) -> Option<End> {
        if self.ramp_end.is_some_and(|end| now >= end) {
            return Some(End::Ramp);
        }
        if self.deadline.is_some_and(|end| now >= end) {
            return Some(End::Time);
        }
        if now >= self.next_sample {
            let at = self.monotonic(now);
            self.samples += 1;
            for side in &mut self.sides {
                side.sample(at);
                if self.samples.is_multiple_of(2) {
                    side.close_interval(at);
                }
            }
            let [read, write] = &self.sides;
            self.task.shared.publish(
                self.task.plan.index,
                read.operations + write.operations,
                read.bytes + write.bytes,
            );
            self.next_sample = now.saturating_add(self.clock.from_ns(SAMPLE_NS));
        }
        self.set_next_event();
        None
    }

    fn set_next_event(&mut self) {
        self.next_event =
            [Some(self.next_sample), self.ramp_end, self.deadline].into_iter().flatten().min().unwrap_or(u64::MAX);
    }

    /// Ticks as nanoseconds of `CLOCK_MONOTONIC`.
    fn monotonic(&self, ticks: u64) -> u64 {
        self.anchor.1 + self.clock.to_ns(ticks.saturating_sub(self.anchor.0))
    }

    fn begin_ramp(&mut self) {
        self.anchor = self.clock.pair();
        self.ramp_end = Some(self.anchor.0.saturating_add(self.clock.from_ns(self.options.ramp_time.0)));
        self.prepare_pace();
        self.set_next_event();
        self.stream.begin_pass(PassLimit::REGION);
    }

    fn begin_measuring(&mut self) {
        self.anchor = self.clock.pair();
        let (ticks, now_ns) = self.anchor;
        self.sides.iter_mut().for_each(|side| side.restart(now_ns));
        self.flushes.reset();
        self.unflushed = 0;
        self.measured_from = Some(now_ns);
        self.ramp_end = None;
        let runtime = self.options.runtime.0;
        self.deadline = (runtime > 0).then(|| ticks.saturating_add(self.clock.from_ns(runtime)));
        self.next_sample = ticks.saturating_add(self.clock.from_ns(SAMPLE_NS));
        self.prepare_pace();
        self.set_next_event();
        self.passes = 0;
        self.covered = 0;
        self.usage_before = thread_usage();
        self.stream.begin_pass(self.limit().unwrap_or(PassLimit::REGION));
    }

    fn prepare_pace(&mut self) {
        self.pace = Pace::new(self.options, &self.clock, self.clock.ticks());
        self.attended = self.pace.is_some() || self.flush_every > 0;
    }

    /// The limit of the pass that would come next; `None` if none comes.
    ///
    /// As fio 3.33 counts: `loops` passes over the region, and further ones while less than `io_size` was done; a pass is cut
    /// short when `io_size` x `loops` is reached, or `number_ios` x `loops` operations. `time_based` overrules all of it.
    fn limit(&self) -> Option<PassLimit> {
        if self.measured_from.is_none() || self.options.time_based {
            return Some(PassLimit::REGION);
        }
        let loops = self.options.loops;
        let bytes = match self.task.plan.io_bytes {
            None if self.passes < loops => None,
            Some(each) if self.passes < loops || self.covered < each => {
                Some(each.saturating_mul(loops).checked_sub(self.covered).filter(|left| *left > 0)?)
            }
            _ => return None,
        };
        let done = self.sides.iter().map(|side| side.operations).sum();
        let operations = match self.options.number_ios.filter(|n| *n > 0) {
            None => u64::MAX,
            Some(n) => n.saturating_mul(loops).saturating_sub(done),
        };
        (operations > 0).then_some(PassLimit { bytes, operations })
    }

    /// Starts the next pass, if there is one.
    fn after_pass(&mut self) -> Result<bool, Failure> {
        self.passes += 1;
        self.covered += self.stream.covered();
        let rewinds = self.measured_from.is_none() || self.options.time_based;
        if !rewinds {
            self.final_flush()?;
        }
        let Some(limit) = self.limit() else { return Ok(false) };
        self.start_over(if rewinds { StartOver::Rewind } else { StartOver::Reopen })?;
        if !rewinds {
            self.unflushed = 0;
        }
        self.stream.begin_pass(limit);
        // A pass can be shorter than the distance between two looks at the clock.
        let now = self.clock.ticks();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.final_flush()?;
            return Ok(false);
        }
        Ok(true)
    }

    fn start_over(&mut self, how: StartOver) -> Result<(), Failure> {
        self.engine.start_over(how).map_err(|fault| Failure {
            errno: fault.errno(),
            message: format!("starting over: {}", std::io::Error::from_raw_os_error(fault.errno())),
        })
    }

    /// `end_fsync`.
    fn final_flush(&mut self) -> Result<(), Failure> {
        if self.options.end_fsync && self.options.rw.0.writes() {
            self.engine.flush(false).map_err(flush_failure)?;
        }
        Ok(())
    }

    /// Puts everything measured into the report. What happened before measuring began is not in it.
    fn report(mut self, report: &mut WorkerReport) {
        report.passes = self.stream.passes();
        report.failure = self.failure.take();
        report.mapped = self.engine.mapped();
        let Some(start_ns) = self.measured_from else { return };
        let end_ns = self.measured_until;
        report.window = Some(Window { start_ns, end_ns });
        let [read, write] = &mut self.sides;
        report.read = read.finish(end_ns);
        report.write = write.finish(end_ns);
        report.flushes = self.flushes.finish();
        report.usage = Some(self.usage_after.since(&self.usage_before));
    }
}

fn flush_failure(fault: Fault) -> Failure {
    Failure { errno: fault.errno(), message: format!("flushing: {}", std::io::Error::from_raw_os_error(fault.errno())) }
}

/// CPU time and events of this thread so far.
fn thread_usage() -> Usage {
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
