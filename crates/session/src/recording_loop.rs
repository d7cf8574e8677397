//! The recording loop: until the target has ended, or something else ends the recording before it.

use std::time::{Duration, Instant};

use pagelab_observe::feed::EndedTasks;
use pagelab_observe::process::{self, has_ended};
use pagelab_observe::tree::Tree;
use pagelab_observe::watcher::Count;
use pagelab_recording::EndedBy;

use crate::child::Ended;
use crate::first_task;
use crate::options::SessionOptions;
use crate::output::Heard;
use crate::recorder::{Recorder, monotonic_ns};
use crate::settings_rows;
use crate::signals;
use crate::subject::Subject;
use crate::target::Started;

/// Time a command gets between being asked to end and being ended, or left to itself: its status is in the recording if
/// it ends by then. A target that ran already is not asked, so there is nothing to wait for.
const GRACE: Duration = Duration::from_secs(5);
/// How often the loop wakes while nothing is recorded.
const IDLE_INTERVAL: Duration = Duration::from_millis(100);

/// How watching the target ended.
pub(crate) struct LoopEnd {
    /// None if it still runs, or was not ours.
    pub ended: Option<Ended>,
    pub ended_by: EndedBy,
    /// When recording ended, CLOCK_MONOTONIC.
    pub ended_ns: i64,
    /// Calls of the command that the kernel counted as reads, and as writes.
    pub transfers: Option<[u64; 2]>,
    /// What the kernel counted of all its tasks, where it was recorded beyond the end of its first process.
    pub followed: Option<EndedTasks>,
    /// What of the command's tree goes on although the command has ended.
    pub left: Vec<Left>,
    /// What the output of the command beside the target said.
    pub heard_beside: Heard,
    /// What the probes have for the manifest.
    pub probes_extra: serde_json::Map<String, serde_json::Value>,
}

/// A process that a command has left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Left {
    pub pid: u32,
    pub comm: String,
    pub tasks: usize,
}

/// What the loop woke up for.
enum Happened {
    Ended,
    Signal,
    Timeout,
    Enough(EndedBy),
}

/// Signals to the recorder, as they are passed on to a command.
pub(crate) struct Passing {
    seen: u32,
    /// A first one came: the work is to end.
    pub once: bool,
}

impl Passing {
    /// From now on.
    pub(crate) fn new() -> Self {
        Self { seen: signals::count(), once: false }
    }

    /// Whether one has come that was not passed on.
    pub(crate) fn waits(&self) -> bool {
        signals::count() > self.seen
    }

    /// Passes it on; true if the target is not to be waited for any longer.
    pub(crate) fn pass(&mut self, options: &SessionOptions, subject: &Subject) -> bool {
        self.seen = signals::count();
        let Subject::Started(started) = subject else { return true };
        if self.once {
            // The second one: leave the target, keep the recording so far.
            subject.signal(if started.is_load { libc::SIGKILL } else { libc::SIGTERM });
            return true;
        }
        self.once = true;
        // A signal from the terminal has reached the target by itself, unless it has a group of its own.
        if signals::sent_by_process() || options.own_group {
            subject.signal(signals::last());
        }
        false
    }
}

/// How a recording goes, for whoever wants to tell the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Time since recording began.
    pub elapsed: Duration,
    /// Events seen so far, of all streams.
    pub events: u64,
    /// Events of the last second.
    pub events_per_s: u64,
    /// Events that should be in the recording and are not.
    pub lost: u64,
    /// Size of the recording so far.
    pub bytes: u64,
}

/// A recording that goes on.
pub(crate) struct RecordingLoop<'a> {
    pub options: &'a SessionOptions,
    pub recorder: &'a mut Recorder,
    pub subject: &'a mut Subject,
    /// The command running with the target with which recording ends.
    pub during: Option<Started>,
    pub signals: &'a mut Passing,
    /// Gets the progress once a second.
    pub tell: &'a mut dyn FnMut(&Progress),
    /// The command has ended, and the rest of its tree is recorded on.
    pub follows_rest: bool,
}

impl RecordingLoop<'_> {
    /// Records until the target or the recording ends; passes signals on, and enforces the timeout.
    pub(crate) fn run(mut self) -> LoopEnd {
        let ended_by = self.until_ended();
        let woken_ns = monotonic_ns();
        let Self { options, recorder, subject, during, follows_rest, .. } = self;
        // A process of ours that has ended is a zombie now: its /proc entries can still be read.
        recorder.drain();
        if matches!(recorder.probes.tree, Some(Tree::Perf(_))) {
            // Its records wait for those of other CPUs until the next look: the end of the target is in this one.
            recorder.drain();
        }
        first_task::note_end(recorder, subject);
        recorder.sample_all();
        recorder.write_builds(options);
        settings_rows::write(options, recorder.setting_rows(), subject.pid(), "end");
        let may_leave = ended_by == EndedBy::Target && !follows_rest && matches!(subject, Subject::Started(_));
        if may_leave {
            tree_goes_on(recorder);
        }
        let transfers = subject.pid().filter(|_| options.target.is_started()).and_then(process::transfers);
        let tree = recorder.probes.tree.as_ref();
        let followed = tree.filter(|_| follows_rest).and_then(|tree| tree.feed().ended());
        let ended_ns = end_of(recorder, follows_rest).unwrap_or(woken_ns);
        let probes_extra = recorder.stop();
        // Processes in between, which a daemon is made through, have ended by now.
        let left = if may_leave { left_behind(recorder) } else { Vec::new() };
        if ended_by == EndedBy::Duration && options.target.is_started() {
            subject.signal(libc::SIGTERM);
            wait_until(subject, Instant::now() + GRACE);
        }
        let (beside, heard_beside) = during.map(|command| end_beside(command, &ended_by, options)).unwrap_or_default();
        let ended = subject.try_reap().or(beside);
        LoopEnd { ended, ended_by, ended_ns, transfers, followed, left, heard_beside, probes_extra }
    }

    fn until_ended(&mut self) -> EndedBy {
        let began = Instant::now();
        let mut deadline = self.options.timeout.map(|timeout| began + timeout);
        let until = self.options.duration.map(|duration| began + duration);
        let mut next_signal = libc::SIGTERM;
        let mut ended_by = EndedBy::Target;
        let mut second = Second::begins(began);
        loop {
            match self.next(deadline, until, &mut second) {
                Happened::Ended => return ended_by,
                Happened::Enough(why) => return why,
                Happened::Signal => {
                    ended_by = EndedBy::Signal;
                    if self.follows_rest || self.signals.pass(self.options, self.subject) {
                        return ended_by;
                    }
                }
                Happened::Timeout => {
                    ended_by = EndedBy::Timeout;
                    if self.follows_rest {
                        return ended_by;
                    }
                    self.subject.signal(next_signal);
                    next_signal = libc::SIGKILL;
                    deadline = Some(Instant::now() + GRACE);
                }
            }
        }
    }

    /// One turn of the recording; true if there is nothing left to record.
    fn turn(&mut self) -> bool {
        if self.follows_rest {
            self.recorder.turn_alone();
            return !tree_goes_on(self.recorder);
        }
        let ended = self.recorder.turn(self.subject);
        if ended && self.options.follow && matches!(self.subject, Subject::Started(_)) {
            self.follows_rest = tree_goes_on(self.recorder);
        }
        ended && !self.follows_rest
    }

    fn next(&mut self, deadline: Option<Instant>, until: Option<Instant>, second: &mut Second) -> Happened {
        let over = |time: Option<Instant>| time.is_some_and(|time| Instant::now() >= time);
        loop {
            let beside = self.during.as_ref().is_some_and(|command| has_ended(command.child.pidfd(), Duration::ZERO));
            if self.turn() || beside {
                return Happened::Ended;
            }
            settings_rows::write_changed(self.options, self.recorder.setting_rows(), self.subject);
            if second.is_over() {
                self.recorder.keep_to_budget();
                let (events, lost) = self.recorder.events_seen();
                (self.tell)(&second.next(events, lost, self.recorder.bytes()));
            }
            if self.signals.waits() {
                return Happened::Signal;
            }
            if over(until) {
                return Happened::Enough(EndedBy::Duration);
            }
            if self.options.max_bytes.is_some_and(|max| self.recorder.nears(max)) {
                return Happened::Enough(EndedBy::MaxSize);
            }
            if self.options.keep_last.is_some() && signals::asked_to_keep() {
                return Happened::Enough(EndedBy::Kept);
            }
            if over(deadline) {
                return Happened::Timeout;
            }
        }
    }
}

/// Whether a task of the tree lives, as far as somebody follows it.
fn tree_goes_on(recorder: &mut Recorder) -> bool {
    if matches!(recorder.probes.tree, Some(Tree::Perf(_))) {
        // Its records wait for those of other CPUs until the next look.
        recorder.drain();
    }
    for _ in 0..LOOKS_MOST {
        let Some(feed) = recorder.probes.tree.as_ref().map(Tree::feed) else { return false };
        if feed.is_alive() {
            return true;
        }
        if feed.has_seen_all_end() {
            return false;
        }
        // What has ended since the last look may have made others before.
        recorder.drain();
    }
    false
}

/// What of a command's tree goes on although the command has ended.
fn left_behind(recorder: &Recorder) -> Vec<Left> {
    let Some(tree) = &recorder.probes.tree else { return Vec::new() };
    let mut counts = Vec::new();
    recorder.probes.count(&mut counts);
    let lost = |count: &Count| count.stream == Count::EVENTS && count.lost > 0;
    let ends_were_lost = counts.iter().any(lost) || !recorder.probes.taken().is_empty();
    let living = tree.feed().living_processes(ends_were_lost).into_iter();
    living.map(|(pid, comm, tasks)| Left { pid, comm, tasks }).collect()
}

/// When the command ended, or, with the rest of its tree, the last task did; none if that was not seen.
fn end_of(recorder: &Recorder, follows_rest: bool) -> Option<i64> {
    let feed = recorder.probes.tree.as_ref()?.feed();
    if !follows_rest {
        return feed.first_exit_ns;
    }
    if feed.is_alive() { None } else { feed.last_exit_ns }
}

/// Looks at a tree in which nobody goes on and not all were seen to end: their ends come with the next look, or were lost.
const LOOKS_MOST: usize = 10;

/// What is done once a second.
struct Second {
    began: Instant,
    ends: Instant,
    last: Instant,
    events: u64,
}

impl Second {
    const LENGTH: Duration = Duration::from_secs(1);

    fn begins(now: Instant) -> Self {
        Self { began: now, ends: now + Self::LENGTH, last: now, events: 0 }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.ends
    }

    fn next(&mut self, events: u64, lost: u64, bytes: u64) -> Progress {
        let now = Instant::now();
        let rate = events.saturating_sub(self.events) as f64 / (now - self.last).as_secs_f64();
        (self.last, self.ends, self.events) = (now, now + Self::LENGTH, events);
        Progress { elapsed: now - self.began, events, events_per_s: rate as u64, lost, bytes }
    }
}

/// Ends the command that runs with a target and did not end the recording by its own end, as a recorded command is
/// ended, and gives its status and what its output said.
fn end_beside(mut command: Started, ended_by: &EndedBy, options: &SessionOptions) -> (Option<Ended>, Heard) {
    match ended_by {
        EndedBy::Target => {}
        // A signal from the terminal has reached it by itself.
        EndedBy::Signal if !signals::sent_by_process() && !options.own_group => {}
        EndedBy::Signal => command.child.signal(signals::last()),
        _ => command.child.signal(libc::SIGTERM),
    }
    let until = Instant::now() + GRACE;
    while !has_ended(command.child.pidfd(), IDLE_INTERVAL) && Instant::now() < until {}
    (command.child.try_reap(), command.heard())
}

fn wait_until(subject: &mut Subject, time: Instant) {
    while !subject.wait(IDLE_INTERVAL) && Instant::now() < time {}
}

/// Lets the time pass that is to be skipped; false if the target ended, or a signal came, before it was over.
pub(crate) fn skip(time: Duration, subject: &mut Subject, signals: &Passing) -> bool {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        if subject.wait(left.min(IDLE_INTERVAL)) || signals.waits() {
            return false;
        }
    }
}

/// Waits for a command whose recording is closed already; signals are passed on as before.
pub(crate) fn outlast(options: &SessionOptions, subject: &mut Subject, signals: &mut Passing) -> Option<Ended> {
    while !subject.wait(IDLE_INTERVAL) {
        if signals.waits() && signals.pass(options, subject) {
            break;
        }
    }
    subject.try_reap()
}
