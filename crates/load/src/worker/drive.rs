//! A worker's life: get ready, wait for the start, work through passes, report.
//!
//! The loops here are compiled once per engine. Per operation they do: one look at the stop flag, the next block, two time stamps
//! around the engine, a histogram update and one comparison with the time of the next event (half-second sample, end of ramp,
//! end of runtime). Everything else is in functions marked cold.
//!
//! Completion latency (`clat`) starts when the operation is handed to the engine. Total latency (`lat`) starts when the worker has
//! chosen the operation and begins to prepare it: to open its file, to fill its buffer. Where nothing is to be prepared the two are
//! the same instant, and one histogram serves for both.

use std::sync::atomic::Ordering;

use pagelab_fiojob::words::Modifier;
use pagelab_fiojob::{Caps, Direction, JobOptions, Operation};

use super::commands;
use super::files::Files;
use super::flight::Flight;
use super::flushing::Flushing;
use super::goal::Goal;
use super::iolog::IoLog;
use super::logs::{Logs, Took};
use super::pace::{Pace, wait};
use super::ranges::Ranges;
use super::side::{Kinds, Side};
use super::surroundings;
use super::task::{Task, WorkerResult};
use super::verifying;
use crate::buffer::{Buffer, Slots};
use crate::clock::{Clock, monotonic_ns};
use crate::engines::queue::{NoQueue, Queue, QueuedFile};
use crate::engines::{Engine, StartOver, Synchronous};
use crate::error::LoadError;
use crate::fault::Fault;
use crate::histogram::Recorder;
use crate::offsets::{Order, Replayed, Stamped, Stream, Varied};
use crate::plan::{FilePlan, ends_passes_at_size};
use crate::random::{SplitMix64, derive_seed};
use crate::report::{Failure, Usage, WorkerReport};
use crate::shared::{Stage, State};
use crate::verify::Verify;
use crate::verify::walk::Checked;

/// Most operations between two looks at the clock where operations are not timed.
const BURST: u64 = 256;

/// Longest time between two such looks that is aimed at.
const BURST_NS: u64 = 1_000_000;

/// A worker's life with engine `E`, with the source of operations that its job needs.
pub(super) fn run<E: Synchronous>(task: &Task<'_>) -> WorkerResult {
    match sourced(task, E::CAPS) {
        Sourced::Varied(source) => live(task, Ok(*source), Drive::<E, _>::pass),
        Sourced::Stamped(source) => live(task, Ok(*source), Drive::<E, _>::pass),
        Sourced::Plain(source) => live(task, Ok(*source), Drive::<E, _>::pass),
        Sourced::Replayed(source) => live(task, Ok(*source), Drive::<E, _>::pass),
        Sourced::VerifiedVaried(source) => live(task, verifying::walk_of(task, *source), Drive::<E, _>::pass),
        Sourced::Verified(source) => live(task, verifying::walk_of(task, *source), Drive::<E, _>::pass),
    }
}

/// A worker's life with an engine that has a queue.
pub(super) fn run_queued<Q: Queue>(task: &Task<'_>) -> WorkerResult {
    type Queued<'a, Q, S> = Drive<'a, QueuedFile<Q>, S, Q>;
    match sourced(task, Q::CAPS) {
        Sourced::Varied(source) => live(task, Ok(*source), Queued::<Q, _>::queued_pass),
        Sourced::Stamped(source) => live(task, Ok(*source), Queued::<Q, _>::queued_pass),
        Sourced::Plain(source) => live(task, Ok(*source), Queued::<Q, _>::queued_pass),
        Sourced::Replayed(source) => live(task, Ok(*source), Queued::<Q, _>::queued_pass),
        Sourced::VerifiedVaried(source) => live(task, verifying::walk_of(task, *source), Queued::<Q, _>::queued_pass),
        Sourced::Verified(source) => live(task, verifying::walk_of(task, *source), Queued::<Q, _>::queued_pass),
    }
}

/// The sources of operations, of which a job needs one.
enum Sourced {
    Varied(Box<Varied>),
    Stamped(Box<Stamped>),
    Plain(Box<Stream>),
    Replayed(Box<Replayed>),
    VerifiedVaried(Box<Varied>),
    Verified(Box<Stream>),
}

fn sourced(task: &Task<'_>, caps: Caps) -> Sourced {
    let options = &task.job.options;
    let plain = || Stream::new(task.plan.course);
    if let Some(replay) = &task.plan.replay {
        return Sourced::Replayed(Box::new(Replayed::new(replay.clone())));
    }
    match &task.plan.varied {
        Some(course) if options.verifies() => Sourced::VerifiedVaried(Box::new(Varied::new(course.clone()))),
        Some(course) => Sourced::Varied(Box::new(Varied::new(course.clone()))),
        None if options.verifies() => Sourced::Verified(Box::new(plain())),
        None if caps.contains(Caps::FILES) && options.stamps() => Sourced::Stamped(Box::new(Stamped(plain()))),
        None => Sourced::Plain(Box::new(plain())),
    }
}

/// A worker's life with one kind of source. This, and what comes before and after its work, has frames of its own: all together took 32 KiB
/// of stack, which is as much as is copied for unwinding, so that no sample of a worker reached its beginning.
#[inline(never)]
fn live<'a, E: Engine, S: Checked, Q: Queue>(
    task: &'a Task<'a>,
    source: Result<S, LoadError>,
    pass: impl Fn(&mut Drive<'a, E, S, Q>) -> End,
) -> WorkerResult {
    let mut report = empty_report(task);
    let never_began = |report| WorkerResult { report, not_ready: None };
    if task.job.options.create_only && task.plan.unfit.is_none() {
        return match make_logs(task) {
            Ok(()) => never_began(report),
            Err(error) => not_ready(report, task, &error),
        };
    }
    if !task.await_stage(Stage::Prepare) {
        return never_began(report);
    }
    // Who waits for others opens its files after them, as a process that is started later would.
    let waits = !task.plan.waits_for.is_empty();
    if waits {
        task.shared.set_state(task.plan.index, State::Ready);
        if !(task.await_stage(Stage::Work) && task.await_others()) {
            return never_began(report);
        }
    }
    if let Some(why) = &task.plan.unfit {
        // fio has no number for it, either.
        let failure =
            Failure { errno: 0, message: format!("it does nothing and its files are not made, as in fio: {why}") };
        return cannot_begin(report, task, waits, failure);
    }
    if misses_an_empty_file(task) {
        let message = "an empty file is not laid out, as in fio, and a job that only reads does not make it".to_owned();
        return cannot_begin(report, task, waits, Failure { errno: libc::ENOENT, message });
    }
    let mut drive = match source.and_then(|source| Drive::open(task, source)) {
        Ok(drive) => drive,
        Err(error) => return not_ready(report, task, &error),
    };
    task.shared.set_state(task.plan.index, State::Ready);
    if waits || task.await_stage(Stage::Work) {
        drive.delay_start();
        match commands::before(task) {
            Ok(()) => {
                drive.work(pass);
                commands::after(task);
            }
            Err(failure) => drive.failure = Some(failure),
        }
        drive.report(&mut report);
        task.leave(report.failure.is_some());
    }
    WorkerResult { report, not_ready: None }
}

/// The result of a worker that cannot begin.
fn not_ready(mut report: WorkerReport, task: &Task<'_>, error: &LoadError) -> WorkerResult {
    report.failure = Some(Failure { errno: errno_of(error), message: error.to_string() });
    task.leave(true);
    WorkerResult { report, not_ready: Some(error.exit_status()) }
}

/// Whether a job that only reads has an empty file that does not exist. As in fio nobody has laid it out.
fn misses_an_empty_file(task: &Task<'_>) -> bool {
    let options = &task.job.options;
    let missing = |file: &FilePlan| {
        let is_empty = file.span.start + file.span.region_bytes == 0;
        is_empty && file.path.as_deref().is_some_and(|path| path.symlink_metadata().is_err())
    };
    !options.changes_files() && options.read_iolog.is_none() && task.plan.files.iter().any(missing)
}

/// The result of a worker that cannot begin when its turn comes: it fails, and the others go on.
fn cannot_begin(mut report: WorkerReport, task: &Task<'_>, waited: bool, failure: Failure) -> WorkerResult {
    task.shared.set_state(task.plan.index, State::Ready);
    if waited || task.await_stage(Stage::Work) {
        report.failure = Some(failure);
        task.leave(true);
    }
    WorkerResult { report, not_ready: None }
}

/// The logs of a job that only makes files (`create_only`): as in fio they are made, too, and nothing is logged.
fn make_logs(task: &Task<'_>) -> Result<(), LoadError> {
    let failed = |Failure { errno, message }| LoadError::system(message, std::io::Error::from_raw_os_error(errno));
    if let Some(path) = task.job.options.write_iolog.as_deref() {
        let mut log = IoLog::create(task, path)?;
        log.begin();
        log.finish().map_err(failed)?;
    }
    if let Some(mut logs) = Logs::create(task)? {
        logs.begin();
        logs.finish(0).map_err(failed)?;
    }
    Ok(())
}

/// Whether a job's random blocks come without a map of those that came already, so that no pass ever ends in fio; or zones follow
/// each other, none of which reaches beyond its file: a block behind it ends a pass.
fn is_seamless(task: &Task<'_>) -> bool {
    let options = &task.job.options;
    let goes_on = options.time_based || !ends_passes_at_size(options);
    if task.plan.replay.is_some() || options.verifies() || !goes_on {
        return false;
    }
    let Some(varied) = &task.plan.varied else { return task.plan.course.order == Order::Drawn };
    match varied.stride {
        Some(stride) if varied.random => varied.files.iter().all(|file| file.holds_zones(stride)),
        Some(_) => !options.time_based,
        None => varied.random && !varied.once,
    }
}

/// Whether each further loop goes the way of the first. As in fio, which seeds its generators anew between them, unless the job's seed
/// is one that no run repeats or one that it names; what goes on beyond a pass in fio (random blocks without a map, sequences between
/// random blocks) draws on.
fn repeats_order(task: &Task<'_>) -> bool {
    let options = &task.job.options;
    if !options.randrepeat || options.randseed.is_some() || task.plan.replay.is_some() {
        return false;
    }
    let Some(varied) = &task.plan.varied else { return task.plan.course.order == Order::Permuted };
    let all_random = varied.random && varied.random_percent.iter().all(|percent| *percent == 100);
    all_random && varied.once && varied.modifier == Modifier::None
}

/// The report of the calling worker, with no figures yet.
pub(super) fn empty_report(task: &Task<'_>) -> WorkerReport {
    WorkerReport {
        job: task.plan.job,
        name: task.job.name.clone(),
        clone: task.plan.clone,
        group: task.plan.group,
        pid: std::process::id(),
        tid: rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned(),
        ..WorkerReport::default()
    }
}

fn errno_of(error: &LoadError) -> i32 {
    match error {
        LoadError::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        LoadError::Host { .. } => libc::ENOMEM,
        _ => libc::EINVAL,
    }
}

/// Why a pass ended.
pub(super) enum End {
    /// The region is done.
    Pass,
    /// The ramp is over: measuring starts.
    Ramp,
    /// The runtime is over.
    Time,
    /// Somebody asked to stop.
    Stopped,
    /// The file system is full, which is what the job wanted.
    Full,
    /// An operation failed.
    Failed(Failure),
}

/// A worker at work. Its methods are in several files: the loops here, what happens between passes in `passes`, what happens at
/// certain times in `events`, what operations beyond plain ones need in `between`.
pub(super) struct Drive<'a, E, S, Q = NoQueue> {
    /// The operations in flight. They come first: the kernel is done with the buffer before the buffer goes.
    pub(super) flight: Flight<Q>,
    pub(super) task: &'a Task<'a>,
    pub(super) options: &'a JobOptions,
    /// The engine of the file that is worked on.
    pub(super) engine: E,
    /// The engines of the other files.
    pub(super) files: Files<E>,
    pub(super) buffer: Buffer,
    pub(super) source: S,
    pub(super) verify: Option<Verify>,
    /// Bytes of the measured window that were read to verify written data.
    pub(super) verifying_bytes: u64,
    /// Time of the measured window that went into verifying written data, ticks.
    pub(super) verifying_ticks: u64,
    /// When the verifying began that is going on, ticks.
    pub(super) verifying_since: Option<u64>,
    pub(super) clock: Clock,
    pub(super) sides: [Side; Direction::COUNT],
    pub(super) flushes: Recorder,
    pub(super) pace: Option<Pace>,
    /// The goal for latencies.
    pub(super) goal: Option<Goal>,
    pub(super) iolog: Option<IoLog>,
    pub(super) logs: Option<Logs>,
    /// When files are flushed on the way.
    pub(super) flushing: Flushing,
    /// Flushes that fio counts as none: fdatasync(2) and sync_file_range(2).
    pub(super) flushes_of_data: u64,
    /// What `sync_file_range` is to write back.
    pub(super) ranges: Option<Ranges>,
    /// The files of `unlink_each_loop` go at the end, too.
    pub(super) unlinks_at_end: bool,
    /// Passes are no more than a way to count: blocks may come more than once anyway, and fio has one pass without end, in which files
    /// stay open and the page cache stays.
    pub(super) seamless: bool,
    /// Further loops go the way of the first.
    pub(super) repeats_order: bool,
    /// Something may have to happen before an operation: a pause or a flush.
    pub(super) attended: bool,
    /// Why the source gave no operation, if not because the pass is over.
    pub(super) pending_end: Option<End>,
    /// Ticks at which the present operation was begun, where choosing it includes waiting.
    pub(super) begun: u64,
    /// Ticks of the next event.
    pub(super) next_event: u64,
    pub(super) next_sample: u64,
    pub(super) samples: u64,
    pub(super) ramp_end: Option<u64>,
    pub(super) deadline: Option<u64>,
    /// An instant on both clocks: (ticks, ns of CLOCK_MONOTONIC).
    pub(super) anchor: (u64, u64),
    pub(super) measured_from: Option<u64>,
    pub(super) measured_until: u64,
    pub(super) usage_before: Usage,
    pub(super) usage_after: Usage,
    pub(super) passes: u64,
    pub(super) covered: u64,
    pub(super) first_error: Option<i32>,
    /// Blocks with other contents than written that the job went on after.
    pub(super) forgiven_mismatches: u64,
    /// The operation that ended the job is one of the errors that the job counts.
    pub(super) fatal_error_counts: bool,
    pub(super) failure: Option<Failure>,
}

impl<'a, E: Engine, S: Checked, Q: Queue> Drive<'a, E, S, Q> {
    /// Whether anything happens to an operation between its choice and its issue.
    const PREPARES: bool = S::VARIED || S::STAMPED || S::VERIFIED;

    /// Whether the engine has several operations under way.
    const QUEUES: bool = !E::CAPS.contains(Caps::SYNCHRONOUS);

    /// Makes everything ready: surroundings, buffer, files.
    #[inline(never)]
    fn open(task: &'a Task<'a>, source: S) -> Result<Box<Self>, LoadError> {
        let options = &task.job.options;
        surroundings::enter(task)?;
        let [read, write] = task.plan.course.block_bytes;
        let needed = if E::CAPS.contains(Caps::BUFFERS) { read.max(write) as usize } else { 1 };
        let count = if Self::QUEUES { u32::try_from(options.iodepth).unwrap_or(u32::MAX) } else { 1 };
        let slots = Slots { count, bytes: needed };
        let mut buffer = Buffer::new(&task.job.name, options, task.state_dir, slots, task.plan.course.seed)?;
        let iolog = options.write_iolog.as_deref().map(|path| IoLog::create(task, path)).transpose()?;
        let (engine, files) = Files::open(task)?;
        let flight = if Self::QUEUES { Flight::open(task, &mut buffer)? } else { Flight::none(options) };
        let kinds = match (Self::QUEUES, Self::PREPARES) {
            (true, _) => Kinds::Queued,
            (false, true) => Kinds::Prepared,
            (false, false) => Kinds::One,
        };
        Ok(Box::new(Self {
            flight,
            task,
            options,
            engine,
            files,
            buffer,
            source,
            verify: verifying::verify_of::<E>(task),
            verifying_bytes: 0,
            verifying_ticks: 0,
            verifying_since: None,
            clock: task.clock,
            sides: Direction::ALL.map(|_| Side::new(task.clock, kinds)),
            flushes: Recorder::default(),
            pace: None,
            goal: Goal::new(task.job, &task.clock),
            iolog,
            logs: Logs::create(task)?,
            flushing: Flushing::of(options),
            flushes_of_data: 0,
            ranges: Ranges::new(options.sync_file_range, task.plan.files.len()),
            unlinks_at_end: false,
            seamless: is_seamless(task),
            repeats_order: repeats_order(task),
            attended: false,
            pending_end: None,
            begun: 0,
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
            first_error: None,
            forgiven_mismatches: 0,
            fatal_error_counts: false,
            failure: None,
        }))
    }

    /// `startdelay`: a fixed one, or drawn from its range.
    fn delay_start(&self) {
        let range = self.options.startdelay;
        let drawn = SplitMix64::new(derive_seed(self.task.plan.course.seed, 1))
            .below((range.high_ns - range.low_ns).saturating_add(1));
        let delay = range.low_ns + drawn;
        if delay > 0 {
            let until = self.clock.ticks().saturating_add(self.clock.from_ns(delay));
            wait(&self.clock, 0, until, &|| self.task.stopped());
        }
    }

    /// Works until nothing is left to do.
    fn work(&mut self, pass: impl Fn(&mut Self) -> End) {
        if let Some(log) = &mut self.iolog {
            log.begin();
        }
        if let Some(logs) = &mut self.logs {
            logs.begin();
        }
        if self.options.ramp_time.0 > 0 {
            self.begin_ramp();
        } else {
            self.begin_measuring();
        }
        let mut whole = true;
        let end = loop {
            let end = pass(self);
            if S::VERIFIED {
                whole = matches!(end, End::Pass | End::Ramp);
            }
            let end = if matches!(end, End::Pass) { self.flush_behind_pass() } else { end };
            let end = if S::VERIFIED { self.verify_pass(end, &pass) } else { end };
            match end {
                End::Pass => match self.after_pass() {
                    Ok(true) if S::VERIFIED && !self.writes_again() => break None,
                    Ok(true) => {}
                    Ok(false) => break None,
                    Err(failure) => break Some(failure),
                },
                End::Ramp => {
                    // What a job without passes has brought into the page cache stays there, as in fio.
                    if !self.seamless
                        && let Err(failure) = self.start_over(StartOver::Rewind)
                    {
                        break Some(failure);
                    }
                    self.begin_measuring();
                }
                End::Time | End::Stopped | End::Full => break self.final_flush().err(),
                End::Failed(failure) => break Some(failure),
            }
        };
        self.failure = end;
        if S::VERIFIED {
            self.end_verified(whole);
        }
        self.measured_until = monotonic_ns();
        self.usage_after = super::events::thread_usage();
        self.unlink_at_end();
        self.leave_files();
    }

    /// One operation in this many is timed.
    pub(super) fn period(&self) -> u64 {
        let o = self.options;
        let wanted = !(o.disable_lat && o.disable_clat) || (Self::QUEUES && !o.disable_slat);
        if o.gtod_reduce || !wanted { u64::MAX } else { o.latency_sample }
    }

    /// The next operation; `None` at the end of the pass, or when [`Drive::pass_end`] says why.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<Operation> {
        if S::VARIED { self.next_varied() } else { self.source.next_operation() }
    }

    #[cold]
    pub(super) fn pass_end(&mut self) -> End {
        self.pending_end.take().unwrap_or(End::Pass)
    }
}

impl<E: Synchronous, S: Checked> Drive<'_, E, S> {
    /// Works until the pass is over or something else ends it.
    fn pass(&mut self) -> End {
        if self.period() > 1 { self.sparse_pass() } else { self.timed_pass() }
    }

    /// Every operation timed.
    fn timed_pass(&mut self) -> End {
        let requests = self.task.requests();
        loop {
            if requests.load(Ordering::Relaxed) != 0
                && let Some(end) = self.asked()
            {
                return end;
            }
            let Some(operation) = self.next() else { return self.pass_end() };
            if !S::VARIED
                && self.attended
                && let Some(end) = self.attend(operation)
            {
                return end;
            }
            let now = match self.timed(operation) {
                Ok(done) => done,
                Err(end) => return end,
            };
            if now >= self.next_event
                && let Some(end) = self.event(now)
            {
                return end;
            }
        }
    }

    /// One operation with its latencies; gives the ticks of its end.
    #[inline(always)]
    fn timed(&mut self, operation: Operation) -> Result<u64, End> {
        let mut begun = if S::VARIED { self.begun } else { u64::MAX };
        if S::STAMPED && operation.direction == Direction::Write {
            begun = self.clock.ticks();
            self.buffer.stamp(operation.bytes);
        }
        if S::VERIFIED && operation.direction == Direction::Write {
            begun = begun.min(self.clock.ticks());
            self.prepare_verified(operation);
        }
        let issued = self.clock.ticks();
        let result = self.engine.execute(operation, &mut self.buffer);
        let mut done =
            if E::CAPS.contains(Caps::TOUCHES_MEMORY) { self.clock.ticks_after_loads() } else { self.clock.ticks() };
        if result != Ok(operation.bytes) {
            if !self.finish_short(operation, result)? {
                return Ok(self.clock.ticks());
            }
            done = self.clock.ticks();
        }
        let clock = self.clock;
        let side = &mut self.sides[operation.direction as usize];
        side.count(operation.bytes);
        // Saturating: a thread moved between CPUs may read a stamp a few ticks early.
        let clat = done.saturating_sub(issued);
        if Self::PREPARES {
            let (clat_ns, lat_ns) = (clock.to_ns(clat), clock.to_ns(done.saturating_sub(begun.min(issued))));
            side.completed_apart(clat_ns, lat_ns);
            if S::VARIED
                && self.measured_from.is_some()
                && let Some(logs) = &mut self.logs
            {
                let took = Took { slat_ns: None, clat_ns, lat_ns };
                logs.record(clock.to_ns(done.saturating_sub(self.anchor.0)), operation, took);
            }
            if S::VARIED
                && self.goal.is_some()
                && let Some(end) = self.held_against_goal(operation, lat_ns)
            {
                return Err(end);
            }
        } else {
            side.completed(clat);
        }
        if S::VERIFIED && operation.direction == Direction::Read {
            self.check_verified(operation)?;
        }
        Ok(done)
    }

    /// One operation in `latency_sample` timed, or none (`gtod_reduce`).
    fn sparse_pass(&mut self) -> End {
        let period = self.period();
        let mut until_timed = if period == u64::MAX { u64::MAX } else { 0 };
        let requests = self.task.requests();
        let mut looked = self.clock.ticks();
        let mut longest = if self.attended { 1 } else { BURST };
        let (short, long) = (self.clock.from_ns(BURST_NS / 4), self.clock.from_ns(BURST_NS));
        loop {
            let burst = longest.min(until_timed);
            for _ in 0..burst {
                let Some(operation) = self.next() else { return self.pass_end() };
                if !S::VARIED
                    && self.attended
                    && let Some(end) = self.attend(operation)
                {
                    return end;
                }
                if S::STAMPED && operation.direction == Direction::Write {
                    self.buffer.stamp(operation.bytes);
                }
                if S::VERIFIED && operation.direction == Direction::Write {
                    self.prepare_verified(operation);
                }
                let result = self.engine.execute(operation, &mut self.buffer);
                if result != Ok(operation.bytes) {
                    match self.finish_short(operation, result) {
                        Ok(true) => {}
                        Ok(false) => continue,
                        Err(end) => return end,
                    }
                }
                self.sides[operation.direction as usize].count(operation.bytes);
                if S::VERIFIED
                    && operation.direction == Direction::Read
                    && let Err(end) = self.check_verified(operation)
                {
                    return end;
                }
            }
            until_timed -= burst;
            let mut now = self.clock.ticks();
            if until_timed == 0 {
                until_timed = period - 1;
                let Some(operation) = self.next() else { return self.pass_end() };
                match self.timed(operation) {
                    Ok(done) => now = done,
                    Err(end) => return end,
                }
            }
            // Slow operations: look at the clock more often, so that the end of the runtime is not overslept.
            match now.saturating_sub(looked) {
                took if took > long => longest = (longest / 2).max(1),
                took if took < short && !self.attended => longest = (longest * 2).min(BURST),
                _ => {}
            }
            looked = now;
            if requests.load(Ordering::Relaxed) != 0
                && let Some(end) = self.asked()
            {
                return end;
            }
            if now >= self.next_event
                && let Some(end) = self.event(now)
            {
                return end;
            }
        }
    }

    /// Transfers what a short operation left; false if it failed and the job goes on without it.
    #[cold]
    fn finish_short(&mut self, operation: Operation, first: Result<u32, Fault>) -> Result<bool, End> {
        let mut rest = operation;
        let mut result = first;
        loop {
            match result {
                Ok(bytes) if bytes >= rest.bytes => return Ok(true),
                Ok(bytes) => {
                    if rest == operation {
                        self.sides[operation.direction as usize].short += 1;
                    }
                    if S::VERIFIED {
                        self.shift_verified(rest, bytes);
                    }
                    rest.offset += u64::from(bytes);
                    rest.bytes -= bytes;
                }
                // A signal came first; if it was one that ends the run, the loop around notices after this operation.
                Err(Fault::Errno(libc::EINTR)) => {}
                Err(fault) => return self.failed(fault, rest),
            }
            result = self.engine.execute(rest, &mut self.buffer);
        }
    }
}
