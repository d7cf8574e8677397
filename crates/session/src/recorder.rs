//! One turn of a recording: wait, let the probes write their rows, sample metrics, write parts.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pagelab_host::scheduling::step_back;
use pagelab_host::settings;
use pagelab_observe::bpf::{BpfWatcher, Event, TaskOp};
use pagelab_observe::feed::Feed;
use pagelab_observe::metrics::{Emit, Refused, Sampler};
use pagelab_observe::streams::Stream;
use pagelab_observe::tree::Tree;
pub(crate) use pagelab_observe::watcher::monotonic_ns;
use pagelab_observe::watcher::{Closing, Count, Round};
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::{LossColumns, LossRow, MarksRow, MetricsRow};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::cost::Budget;
use crate::found::Found;
use crate::load_rows;
use crate::marks::{Mark, Marks};
use crate::options::{DEFAULT_METRICS_INTERVAL, SessionOptions};
use crate::owner::{Caller, with_rights};
use crate::pace::Pace;
use crate::probes::Probes;
use crate::process_settings::ProcessSettings;
use crate::second_signal::PATIENCE_WITH_NAMES;
use crate::settings_rows::{self, Rows};
use crate::signals;
use crate::subject::Subject;
use crate::used::Used;

/// Nanoseconds since the epoch.
pub(crate) fn realtime_ns() -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    tv_sec * 1_000_000_000 + tv_nsec
}

fn as_ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// What the streams have counted so far.
type Counts = Vec<Count>;

/// Probes, writer and the state between them.
pub(crate) struct Recorder {
    pub probes: Probes,
    pub writer: RecordingWriter,
    /// Whose files the recording's are, if not this process's own user's.
    pub caller: Option<Caller>,
    sampler: Option<Sampler>,
    /// What of the settings is the target's own, to be read once more.
    process_settings: ProcessSettings,
    /// What the target works on.
    used: Used,
    /// Settings are recorded.
    with_settings: bool,
    /// The target's processes are sampled.
    follows: bool,
    /// Time between two samples of the metrics.
    sample_interval_ns: i64,
    next_sample_ns: i64,
    pace: Pace,
    counts: Arc<Mutex<Counts>>,
    round: Round,
    marks: Option<Marks>,
    budget: Option<Budget>,
    /// Nice value at which the recording is closed.
    close_nice: Option<i32>,
    /// When every metric is to be written again, so that a flight recorder has them in the part it keeps.
    all_samples: Option<(Duration, i64)>,
    /// What the first parts added to the recording, and the most that later ones did.
    growth_bytes: Option<(u64, Option<u64>)>,
    /// Signals that had come before the session.
    pub signals_before: u32,
    /// The first error of the writer: the command goes on, its recording has a hole.
    pub write_error: Option<pagelab_recording::Error>,
}

impl Recorder {
    /// What takes rows of settings now.
    pub(crate) fn setting_rows(&mut self) -> Rows<'_> {
        Rows { writer: &mut self.writer, own: &mut self.process_settings, ts: monotonic_ns() }
    }

    /// Writes which builds the recorded tasks ran.
    pub(crate) fn write_builds(&mut self, options: &SessionOptions) {
        if !options.target.is_started() || !options.streams.contains(Stream::Settings) {
            return;
        }
        let builds = settings::builds(self.probes.all().flat_map(|watcher| watcher.code_files()));
        settings_rows::write_builds(self.setting_rows(), &builds);
    }

    /// A recorder of the given probes.
    pub(crate) fn new(probes: Probes, mut writer: RecordingWriter, caller: Option<Caller>) -> Self {
        let counts: Arc<Mutex<Counts>> = Arc::default();
        let shared = Arc::clone(&counts);
        let mut written = Counts::new();
        writer.set_loss_provider(Box::new(move |now_ns, columns| {
            let now = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
            push_loss(now_ns, &now, &written, columns);
            written = now;
        }));
        let round = Round { is_watched: probes.are_watched, ..Round::default() };
        Self {
            probes,
            writer,
            caller,
            sampler: None,
            process_settings: ProcessSettings::default(),
            used: Used::default(),
            with_settings: false,
            follows: false,
            sample_interval_ns: as_ns(DEFAULT_METRICS_INTERVAL),
            next_sample_ns: i64::MIN,
            pace: Pace::default(),
            counts,
            round,
            marks: None,
            budget: None,
            close_nice: None,
            all_samples: None,
            growth_bytes: None,
            signals_before: 0,
            write_error: None,
        }
    }

    /// Samples metrics from now on: the host's, and, where it is one of processes, those of the target, which may have
    /// a first one already.
    pub(crate) fn sample_of(&mut self, subject: &Subject, walks_all: bool) {
        let mut sampler = Sampler::new(Path::new("/"), subject.pid());
        if walks_all {
            sampler.walk_all();
        }
        if matches!(subject, Subject::Started(_) | Subject::Found(Found::Processes(_))) {
            sampler.follow_groups();
        }
        self.sampler = Some(sampler);
        self.follows = !matches!(subject, Subject::Found(Found::System));
    }

    /// Sets up the options other than probes: listens for marks, keeps to a budget, keeps only the last.
    pub(crate) fn begin(&mut self, options: &SessionOptions) {
        self.marks =
            Marks::listen(Caller::of_sudo()).inspect_err(|error| tracing::info!("marks cannot be taken: {error}")).ok();
        let cpus = self.writer.manifest().cpus.unwrap_or(1);
        self.pace = Pace::of(options);
        self.with_settings = options.streams.contains(Stream::Settings);
        self.sample_interval_ns = as_ns(options.metrics_interval);
        self.close_nice = options.close_nice;
        self.budget = options.budget_pct.map(|pct| Budget::new(pct, cpus, options.bpf_stats));
        // Twice in the time that is kept, so that it holds every metric at least once.
        self.all_samples = options.keep_last.map(|last| (last / 2, monotonic_ns()));
    }

    /// Size of the recording so far, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let stats = self.writer.stats();
        stats.bytes_written - stats.bytes_removed
    }

    /// Events of all streams so far: seen, filtered ones left out, and lost.
    pub(crate) fn events_seen(&self) -> (u64, u64) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().fold((0, 0), |(seen, lost), one| (seen + one.seen - one.filtered, lost + one.lost))
    }

    /// Sheds the most expensive stream when the recorder takes more than its budget. Called about once a second.
    pub(crate) fn keep_to_budget(&mut self) {
        let now = monotonic_ns();
        let Some(verdict) = self.budget.as_mut().and_then(|budget| budget.look(now, &self.round.spent)) else { return };
        let Some(stream) = verdict.streams.iter().find(|stream| self.shed(stream)) else { return };
        let reason = format!("the recorder took {:.2} % of the machine's CPU time (--budget)", verdict.found_pct);
        self.probes.note_shed(stream, now, &reason);
        self.writer.push(&MarksRow { ts: now, name: &format!("shed {stream}"), source: "budget" });
        self.writer.manifest_mut().probes.clone_from(&self.probes.states);
    }

    fn shed(&mut self, stream: &str) -> bool {
        if stream == Stream::Metrics.name() {
            return self.sampler.take().is_some();
        }
        self.probes.shed(stream)
    }

    /// Waits for some milliseconds, then lets the probes write their rows; true if the target has ended.
    pub(crate) fn turn(&mut self, subject: &mut Subject) -> bool {
        let ended = subject.wait(self.pace.wait());
        if self.step() {
            subject.intervals(|told| load_rows::push_interval(&told, &mut self.writer));
        }
        ended
    }

    /// The same where the command has ended and only its tree is left.
    pub(crate) fn turn_alone(&mut self) {
        std::thread::sleep(self.pace.wait());
        self.step();
    }

    /// Whether the next parts would make the recording larger than `max_bytes`, if they are as large as any so far, and
    /// the rows at the end (settings, every metric) take as much as those at the start.
    pub(crate) fn nears(&self, max_bytes: u64) -> bool {
        let (first, most) = self.growth_bytes.unwrap_or_default();
        self.bytes() + first + most.unwrap_or(first) > max_bytes
    }

    /// Drains the probes, samples metrics when an interval has passed, and writes parts older than a second. True if metrics
    /// were sampled.
    pub(crate) fn step(&mut self) -> bool {
        self.drain();
        let now = monotonic_ns();
        let due = now >= self.next_sample_ns;
        if due {
            let emit = self.what_to_emit(now);
            self.sample(now, emit);
            // After a stall the next sample is a full interval away: several at once would say nothing.
            self.next_sample_ns =
                (self.next_sample_ns.saturating_add(self.sample_interval_ns)).max(now + self.sample_interval_ns / 2);
        }
        let before_bytes = self.writer.stats().bytes_written;
        match self.write_due(now) {
            Ok(true) => {
                let grown = self.writer.stats().bytes_written - before_bytes;
                self.growth_bytes = Some(match self.growth_bytes {
                    None => (grown, None),
                    Some((first, most)) => (first, most.max(Some(grown))),
                });
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!("{error}");
                self.write_error.get_or_insert(error);
            }
        }
        due
    }

    /// Writes parts if it is time for them.
    fn write_due(&mut self, now: i64) -> pagelab_recording::Result<bool> {
        if !self.writer.is_due(now) {
            return Ok(false);
        }
        self.write_parts(now, |writer| writer.tick(now))
    }

    /// Writes parts, with the rights of the recording's owner. Faults whose end may still come wait for the next ones.
    fn write_parts<T>(&mut self, now: i64, write: impl FnOnce(&mut RecordingWriter) -> T) -> T {
        let Self { probes, writer, caller, .. } = self;
        if let Some(tree) = &mut probes.tree {
            tree.feed_mut().details().before_part(now, writer.faults_mut());
        }
        let written = with_rights(caller.as_ref(), || write(writer));
        if let Some(tree) = &mut probes.tree {
            tree.feed_mut().details().after_part(writer.faults_mut());
        }
        written
    }

    /// Writes the marks that have come before their senders are answered: `pagelab mark x && pagelab show --from x` finds them.
    fn take_marks(&mut self, now: i64) {
        let Some(marks) = self.marks.take() else { return };
        let came = marks.take();
        if !came.is_empty() {
            self.push_marks(&came);
            // What cannot be written waits in memory for the next part.
            let _ = self.write_parts(now, |writer| writer.flush(now));
            marks.answer(&came);
        }
        self.marks = Some(marks);
    }

    fn push_marks(&mut self, marks: &[Mark]) {
        for mark in marks {
            self.writer.push(&MarksRow { ts: mark.ts, name: &mark.name, source: "mark" });
        }
    }

    fn what_to_emit(&mut self, now: i64) -> Emit {
        match &mut self.all_samples {
            Some((interval, next_ns)) if now >= *next_ns => {
                *next_ns = now.saturating_add(as_ns(*interval));
                Emit::All
            }
            _ => Emit::Changed,
        }
    }

    /// Reads every metric now, whether it changed or not.
    pub(crate) fn sample_all(&mut self) {
        self.sample(monotonic_ns(), Emit::All);
    }

    fn sample(&mut self, now: i64, emit: Emit) {
        let Some(sampler) = &mut self.sampler else { return };
        let columns = self.writer.table::<MetricsRow<'_>>();
        self.round.spent.charge(Stream::Metrics.name());
        sampler.sample(now, emit, &mut |row| {
            let instance = row.instance.map(|instance| &**instance);
            columns.push(&MetricsRow { ts: now, name: row.name, instance, value: row.value });
        });
        self.round.spent.pause();
    }

    /// Lets every probe empty its rings and write its rows.
    pub(crate) fn drain(&mut self) {
        let Self { probes, writer, round, sampler, follows, .. } = self;
        if let Some(tree) = &mut probes.tree {
            tree.watcher_mut().step(round, writer);
            follow(sampler.as_mut().filter(|_| *follows), &round.events, tree.feed());
        }
        let now = monotonic_ns();
        round.now_ns = now;
        for watcher in &mut probes.watchers {
            round.spent.charge(watcher.streams().first().map_or("", |stream| stream.name()));
            watcher.step(round, writer);
        }
        round.spent.pause();
        round.write_rest(writer);
        // The first task is the command's process.
        let has_execed =
            |event: &Event| matches!(event, Event::Task(task) if task.task_id == 1 && task.op == TaskOp::Exec);
        if self.round.events.iter().any(has_execed) {
            self.process_settings.became_another_program();
        }
        let mounts = self.used.meet(&self.round.events);
        if self.with_settings && !mounts.is_empty() {
            settings_rows::write_mounts(self.setting_rows(), &mounts);
        }
        let round = &mut self.round;
        let has_moved = !round.events.is_empty();
        round.clear();
        self.take_marks(now);
        self.count();
        let (seen, _) = self.events_seen();
        self.pace.looked(seen, has_moved);
    }

    fn count(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        self.probes.count(&mut counts);
    }

    /// Detaches the probes, drains them once more and lets them finish. Returns their entries for the manifest, by the
    /// name of their first stream.
    pub(crate) fn stop(&mut self) -> serde_json::Map<String, serde_json::Value> {
        // The last time: no mark is answered that is not written.
        if let Some(marks) = self.marks.take() {
            let came = marks.take();
            self.push_marks(&came);
            marks.answer(&came);
        }
        for watcher in self.probes.all_mut() {
            watcher.stop();
        }
        self.drain();
        if let Some(nice) = self.close_nice
            && let Err(error) = step_back(nice)
        {
            tracing::warn!("--close-nice {nice}: {error}");
        }
        let mut extra = serde_json::Map::new();
        let signals_before = self.signals_before;
        let hurry = move || signals::is_impatient(signals_before, PATIENCE_WITH_NAMES);
        let Self { probes, writer, caller, .. } = self;
        let now_ns = monotonic_ns();
        let flush = |writer: &mut RecordingWriter| with_rights(caller.as_ref(), || writer.flush(now_ns));
        for watcher in probes.all_mut() {
            let mut closing = Closing { now_ns, writer, flush: &flush, hurry: &hurry, extra: serde_json::Map::new() };
            watcher.finish(&mut closing);
            if let (Some(first), false) = (watcher.streams().first(), closing.extra.is_empty()) {
                // Two may fill one stream: one of them its rows, another the stacks.
                match extra.get_mut(first.name()) {
                    Some(serde_json::Value::Object(there)) => there.extend(closing.extra),
                    _ => drop(extra.insert(first.name().to_owned(), closing.extra.into())),
                }
            }
        }
        self.count();
        self.probes.count_events();
        let bpf = self.probes.tree.as_ref().and_then(Tree::bpf);
        if let Some(watcher) = bpf {
            extra.insert("used".to_owned(), serde_json::json!(self.used.list(&watcher.observer().used_places())));
        }
        extra.insert("fault_details".to_owned(), BpfWatcher::details_summary(bpf));
        extra
    }

    /// What the sampler could not read.
    pub(crate) fn refused_sources(&self) -> Vec<String> {
        let refused = self.sampler.as_ref().map(Sampler::refused).unwrap_or_default();
        let words = |one: &Refused| {
            let fix = one.fix.as_deref().map_or_else(String::new, |fix| format!("; what mends it: {fix}"));
            format!("{}: {}{fix}", one.source, one.reason)
        };
        refused.iter().map(words).collect()
    }
}

/// Passes the target's processes to the sampler. The whole system has no target to sample.
fn follow(sampler: Option<&mut Sampler>, events: &[Event], feed: &Feed) {
    let Some(sampler) = sampler else { return };
    for event in events {
        let Event::Task(task) = event else { continue };
        if task.tid != task.pid || !feed.records(task) {
            continue;
        }
        match task.op {
            TaskOp::Fork | TaskOp::Exec | TaskOp::Snapshot => sampler.add_process(task.pid, feed.parent_of(task)),
            TaskOp::Exit => sampler.process_ended(task.pid),
            TaskOp::Leave => sampler.remove_process(task.pid),
            TaskOp::Comm => {}
        }
    }
}

/// Writes the counts since the last part. A CPU without events has no row.
fn push_loss(now_ns: i64, now: &Counts, before: &Counts, columns: &mut LossColumns) {
    for (at, count) in now.iter().enumerate() {
        let same = |earlier: &&Count| earlier.stream == count.stream && earlier.cpu == count.cpu;
        // Mostly they come in the same order; on a thousand CPUs looking for each would take longer than all else.
        let earlier = before.get(at).filter(same).or_else(|| before.iter().find(same));
        let (seen, lost, filtered) =
            earlier.map_or((0, 0, 0), |earlier| (earlier.seen, earlier.lost, earlier.filtered));
        if count.seen == seen && count.cpu.is_some() {
            continue;
        }
        columns.push(&LossRow {
            ts: now_ns,
            stream: count.stream,
            cpu: count.cpu,
            seen: count.seen - seen,
            lost: count.lost - lost,
            filtered: count.filtered - filtered,
        });
    }
}
