//! The loop of a recording: wait, take what the probes have, sample, write.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pagelab_observe::bpf::{Event, TaskOp};
use pagelab_observe::details::{DetailCounts, FaultDetail};
use pagelab_observe::metrics::{Emit, Sampler};
use pagelab_observe::perf::PerfBatch;
use pagelab_observe::streams::Stream;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::{LossColumns, LossRow, MarksRow, MetricsRow, OffcpuRow, SyscallsRow};
use rustix::time::{ClockId, Timespec, clock_gettime};

use serde_json::json;

use crate::cost::{Budget, Spent};
use crate::feed::Feed;
use crate::found::Found;
use crate::load_rows;
use crate::marks::{Mark, Marks};
use crate::options::{DEFAULT_RING_BYTES, SessionOptions};
use crate::owner::{Caller, with_rights};
use crate::pace::Pace;
use crate::probes::{Count, Probes};
use crate::subject::Subject;

/// How often metrics are sampled.
const SAMPLE_INTERVAL_NS: i64 = 100_000_000;

/// CLOCK_MONOTONIC, ns: the clock of BPF and of every `ts`.
pub fn monotonic_ns() -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    tv_sec * 1_000_000_000 + tv_nsec
}

/// Nanoseconds since the epoch.
pub fn realtime_ns() -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    tv_sec * 1_000_000_000 + tv_nsec
}

/// What the streams have counted so far.
type Counts = Vec<Count>;

/// Probes, writer and the state between them.
pub struct Recorder {
    pub probes: Probes,
    pub feed: Feed,
    pub writer: RecordingWriter,
    /// Whose files the recording's are, if not this process's own user's.
    pub caller: Option<Caller>,
    sampler: Option<Sampler>,
    /// The target's processes are sampled.
    follows: bool,
    next_sample_ns: i64,
    pace: Pace,
    counts: Arc<Mutex<Counts>>,
    batch: Vec<Event>,
    details: Vec<FaultDetail>,
    marks: Option<Marks>,
    spent: Spent,
    budget: Option<Budget>,
    /// When every metric is to be written again, so that a flight recorder has them in what it keeps.
    all_samples: Option<(Duration, i64)>,
    /// What the first parts added to the recording, and the most that later ones did.
    growth_bytes: Option<(u64, Option<u64>)>,
    /// The first error of the writer: the command goes on, its recording has a hole.
    pub write_error: Option<pagelab_recording::Error>,
}

impl Recorder {
    /// A recorder of the given probes.
    pub fn new(probes: Probes, feed: Feed, mut writer: RecordingWriter, caller: Option<Caller>) -> Self {
        let counts: Arc<Mutex<Counts>> = Arc::default();
        let shared = Arc::clone(&counts);
        let mut written = Counts::new();
        writer.set_loss_provider(Box::new(move |now_ns, columns| {
            let now = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
            push_loss(now_ns, &now, &written, columns);
            written = now;
        }));
        Self {
            probes,
            feed,
            writer,
            caller,
            sampler: None,
            follows: false,
            next_sample_ns: i64::MIN,
            pace: Pace::new(false),
            counts,
            batch: Vec::new(),
            details: Vec::new(),
            marks: None,
            spent: Spent::default(),
            budget: None,
            all_samples: None,
            growth_bytes: None,
            write_error: None,
        }
    }

    /// Samples metrics from now on: the host's, and, where it is one of processes, those of the target, which may have
    /// a first one already.
    pub fn sample_of(&mut self, subject: &Subject) {
        self.sampler = Some(Sampler::new(Path::new("/"), subject.pid()));
        self.follows = !matches!(subject, Subject::Found(Found::System));
    }

    /// Does what the options want beside the probes: listens for marks, keeps to a budget, keeps only the last.
    pub fn begin(&mut self, options: &SessionOptions) {
        self.marks =
            Marks::listen(Caller::of_sudo()).inspect_err(|error| tracing::info!("marks cannot be taken: {error}")).ok();
        let cpus = self.writer.manifest().cpus.unwrap_or(1);
        self.pace = Pace::new(options.ring_bytes_per_cpu < DEFAULT_RING_BYTES);
        self.budget = options.budget_pct.map(|pct| Budget::new(pct, cpus, options.bpf_stats));
        // Twice in the time that is kept, so that it holds every metric at least once.
        self.all_samples = options.keep_last.map(|last| (last / 2, monotonic_ns()));
    }

    /// Size of the recording so far, bytes.
    pub fn bytes(&self) -> u64 {
        let stats = self.writer.stats();
        stats.bytes_written - stats.bytes_removed
    }

    /// Events of all streams so far: seen, filtered ones left out, and lost.
    pub fn events_seen(&self) -> (u64, u64) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().fold((0, 0), |(seen, lost), one| (seen + one.seen - one.filtered, lost + one.lost))
    }

    /// Sheds the dearest stream when the recorder takes more than its budget. Called about once a second.
    pub fn keep_to_budget(&mut self) {
        let now = monotonic_ns();
        let Some(verdict) = self.budget.as_mut().and_then(|budget| budget.look(now, &self.spent)) else { return };
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

    /// Waits for some milliseconds and takes what came; true if the target has ended.
    pub fn turn(&mut self, subject: &mut Subject) -> bool {
        let ended = subject.wait(self.pace.wait());
        if self.step() {
            subject.intervals(|told| load_rows::push_interval(&told, &mut self.writer));
        }
        ended
    }

    /// Whether the next parts would make the recording larger than `max_bytes`, if they are as large as any so far, and
    /// what is written at the end (settings, every metric) is as large as what was written at the start.
    pub fn nears(&self, max_bytes: u64) -> bool {
        let (first, most) = self.growth_bytes.unwrap_or_default();
        self.bytes() + first + most.unwrap_or(first) > max_bytes
    }

    /// Takes what is there, samples if it is time, and lets the writer write what is due. True if it was time for a sample.
    pub fn step(&mut self) -> bool {
        self.drain();
        let now = monotonic_ns();
        let due = now >= self.next_sample_ns;
        if due {
            let emit = self.what_to_emit(now);
            self.sample(now, emit);
            // After a stall the next sample is a full interval away: several at once would say nothing.
            self.next_sample_ns =
                (self.next_sample_ns.saturating_add(SAMPLE_INTERVAL_NS)).max(now + SAMPLE_INTERVAL_NS / 2);
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
        self.feed.details().before_part(now, self.writer.faults_mut());
        let written = with_rights(self.caller.as_ref(), || self.writer.tick(now));
        self.feed.details().after_part(self.writer.faults_mut());
        written
    }

    /// Writes the marks that have come before their senders are answered: `pagelab mark x && pagelab show --from x` finds them.
    fn take_marks(&mut self, now: i64) {
        let Some(marks) = self.marks.take() else { return };
        let came = marks.take();
        if !came.is_empty() {
            self.push_marks(&came);
            self.feed.details().before_part(now, self.writer.faults_mut());
            // What cannot be written waits in memory for the next part.
            let _ = with_rights(self.caller.as_ref(), || self.writer.flush(now));
            self.feed.details().after_part(self.writer.faults_mut());
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
                *next_ns = now.saturating_add(i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX));
                Emit::All
            }
            _ => Emit::Changed,
        }
    }

    /// Writes what the tasks that still live have used so far.
    pub fn note_living(&mut self) {
        self.feed.note_living(monotonic_ns(), &mut self.writer);
    }

    /// Reads every metric now, whether it changed or not.
    pub fn sample_all(&mut self) {
        self.sample(monotonic_ns(), Emit::All);
    }

    fn sample(&mut self, now: i64, emit: Emit) {
        let Some(sampler) = &mut self.sampler else { return };
        let columns = self.writer.table::<MetricsRow<'_>>();
        self.spent.on(Stream::Metrics.name(), || {
            sampler.sample(now, emit, &mut |row| {
                let instance = row.instance.map(|instance| &**instance);
                columns.push(&MetricsRow { ts: now, name: row.name, instance, value: row.value });
            });
        });
    }

    /// Empties the rings. Events are taken before faults: so the faults that a task took before it ended are there when
    /// its end is written.
    pub fn drain(&mut self) {
        let batch = &mut self.batch;
        if let Some(observer) = &mut self.probes.observer {
            if let Err(error) = observer.follow_moves() {
                tracing::warn!("tasks that moved into the cgroup are not recorded: {error}");
            }
            self.spent.on(Stream::Maps.name(), || observer.drain_events(|event| batch.push(event)));
            let (feed, columns) = (&mut self.feed, self.writer.faults_mut());
            let details = &mut self.details;
            self.spent.on(Stream::Faults.name(), || match &mut self.probes.fault_details {
                Ok(probe) => {
                    observer.mark_faults();
                    probe.drain(details);
                    feed.faults_in_detail(details, |sink| observer.drain_marked_faults(sink), columns);
                    details.clear();
                }
                Err(_) => _ = observer.drain_faults(|_cpu, slots| feed.faults(slots, columns)),
            });
            self.spent.on(Stream::Maps.name(), || self.feed.events(batch, &mut self.writer));
            follow(self.sampler.as_mut().filter(|_| self.follows), batch, &self.feed);
            let (feed, tables) = (&mut self.feed, self.writer.tables_mut());
            self.spent.on(Stream::Syscalls.name(), || {
                feed.calls(|sink| observer.drain_calls(|call| sink.take(call)), tables);
            });
        }
        if let Some(perf) = &mut self.probes.perf {
            // Of all records, those of system calls are the most by far.
            let dearest = if perf.calls_refused().is_none() { Stream::Syscalls } else { Stream::Maps };
            let PerfBatch { events, faults, samples, calls } = self.spent.on(dearest.name(), || perf.drain());
            let (feed, writer) = (&mut self.feed, &mut self.writer);
            self.spent.on(Stream::Faults.name(), || feed.perf_faults(&faults, writer.faults_mut()));
            self.spent.on(Stream::Maps.name(), || feed.events(&events, writer));
            follow(self.sampler.as_mut().filter(|_| self.follows), &events, feed);
            let tables = writer.tables_mut();
            self.spent.on(Stream::Syscalls.name(), || {
                feed.calls(|sink| calls.iter().for_each(|call| sink.take(call)), tables);
            });
            *batch = events;
            if let Some(profile) = self.probes.watchers.iter_mut().find(|one| one.streams().contains(&Stream::Cpu)) {
                self.spent.on(Stream::Cpu.name(), || profile.samples(samples));
            }
        }
        let (now, page_faults) = (monotonic_ns(), self.probes.page_faults());
        for watcher in &mut self.probes.watchers {
            let first = watcher.streams().first().map_or("", |stream| stream.name());
            self.spent.on(first, || {
                watcher.events(batch);
                watcher.page_faults(page_faults);
                watcher.off_cpu(&mut self.feed.off_cpu);
                watcher.actions(&mut self.feed.actions);
                watcher.step(now, &mut self.writer);
            });
        }
        self.feed.off_cpu(self.writer.table::<OffcpuRow<'_>>());
        self.feed.actions(&mut self.writer);
        let has_moved = !batch.is_empty();
        batch.clear();
        self.take_marks(now);
        self.count();
        let (seen, _) = self.events_seen();
        self.pace.looked(seen, has_moved);
    }

    fn count(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clear();
        if let Some(observer) = &self.probes.observer {
            for cpu in 0..observer.rings().cpus() {
                let one = observer.rings().counts(cpu);
                let (seen, lost, filtered) = (one.seen() + one.filtered, one.lost, one.filtered);
                counts.push(Count { stream: Stream::Faults.name(), cpu: Some(cpu as u32), seen, lost, filtered });
            }
            for cpu in 0..observer.call_rings().cpus() {
                let one = observer.call_rings().counts(cpu);
                for (stream, seen, lost) in
                    [(Stream::Syscalls, one.returned, one.lost), (Stream::Sched, one.off_seen, one.off_lost)]
                {
                    counts.push(Count { stream: stream.name(), cpu: Some(cpu as u32), seen, lost, filtered: 0 });
                }
            }
            if let Ok(probe) = &self.probes.fault_details {
                // A detail whose fault is not found takes no row away; the manifest tells how many there are.
                let DetailCounts { seen, lost } = probe.counts();
                counts.push(Count { stream: "fault_details", cpu: None, seen, lost, filtered: 0 });
            }
            let events = observer.event_counts();
            counts.push(Count { stream: "events", cpu: None, seen: events.seen, lost: events.lost, filtered: 0 });
            if events.calls_unnamed > 0 {
                let (seen, lost) = (events.calls_unnamed, events.calls_unnamed);
                counts.push(Count { stream: "file_names", cpu: None, seen, lost, filtered: 0 });
            }
        }
        if let Some(perf) = &self.probes.perf {
            counts.extend(perf.counts().into_iter().map(|one| Count {
                stream: one.stream.map_or("events", Stream::name),
                cpu: Some(one.cpu),
                seen: one.seen,
                lost: one.lost,
                filtered: 0,
            }));
        }
        for watcher in &self.probes.watchers {
            counts.extend(watcher.counts());
        }
    }

    /// Detaches the probes and takes what they still hold; what they have for the manifest is returned, by the name of
    /// their first stream.
    pub fn stop(&mut self) -> serde_json::Map<String, serde_json::Value> {
        // The last time: no mark is answered that is not written.
        if let Some(marks) = self.marks.take() {
            let came = marks.take();
            self.push_marks(&came);
            marks.answer(&came);
        }
        if let Some(observer) = &mut self.probes.observer {
            observer.detach();
            observer.tell_unfinished();
        }
        if let Ok(details) = &mut self.probes.fault_details {
            details.detach();
        }
        if let Some(perf) = &mut self.probes.perf {
            perf.detach();
        }
        for watcher in &mut self.probes.watchers {
            watcher.stop();
        }
        self.drain();
        self.feed.details().finish(self.writer.faults_mut());
        self.feed.waiting_calls(self.writer.table::<SyscallsRow<'_>>());
        let (now, mut extra) = (monotonic_ns(), serde_json::Map::new());
        for watcher in &mut self.probes.watchers {
            let mut own = serde_json::Map::new();
            watcher.finish(now, &mut self.writer, &mut own);
            if let (Some(first), false) = (watcher.streams().first(), own.is_empty()) {
                extra.insert(first.name().to_owned(), own.into());
            }
        }
        self.count();
        self.probes.count_events();
        extra.insert("fault_details".to_owned(), self.details_told());
        extra
    }

    /// How faults ended: of how many that is known, and why it is not of others.
    fn details_told(&self) -> serde_json::Value {
        match &self.probes.fault_details {
            Ok(probe) => {
                let (counts, unmatched) = (probe.counts(), self.feed.unmatched_details());
                json!({
                    "minor_one_in": probe.one_in(), "major_one_in": 1,
                    "seen": counts.seen, "lost": counts.lost, "unmatched": unmatched,
                    "got_unknown_because": probe.no_walk(),
                })
            }
            Err(reason) => json!({ "refused": reason }),
        }
    }

    /// What the sampler could not read.
    pub fn refused_sources(&self) -> Vec<String> {
        let refused = self.sampler.as_ref().map(Sampler::refused).unwrap_or_default();
        refused.iter().map(|one| format!("{}: {}", one.source, one.reason)).collect()
    }
}

/// Tells the sampler of the target's processes. Of the whole system there is no target to sample.
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

/// Writes what was counted since the last part. A CPU on which nothing happened has no row.
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
