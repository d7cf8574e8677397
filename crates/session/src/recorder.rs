//! The loop of a recording: wait, take what the probes have, sample, write.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pagelab_observe::bpf::Event;
use pagelab_observe::metrics::{Emit, Sampler};
use pagelab_observe::streams::Stream;
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::{LossColumns, LossRow, MetricsRow, SyscallsRow};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::feed::Feed;
use crate::load_rows;
use crate::probes::{Count, Probes};
use crate::target::Started;

/// How often the rings are emptied. The default ring holds ten times as much at the greatest rate of faults seen, and
/// what is taken soon is still in the processor's cache.
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);
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
    sampler: Option<Sampler>,
    next_sample_ns: i64,
    counts: Arc<Mutex<Counts>>,
    batch: Vec<Event>,
    /// The first error of the writer: the command goes on, its recording has a hole.
    pub write_error: Option<pagelab_recording::Error>,
}

impl Recorder {
    /// A recorder of the given probes; `sampler` if metrics are wanted.
    pub fn new(probes: Probes, feed: Feed, mut writer: RecordingWriter, sampler: Option<Sampler>) -> Self {
        let counts: Arc<Mutex<Counts>> = Arc::default();
        let shared = Arc::clone(&counts);
        let mut written = Counts::new();
        writer.set_loss_provider(Box::new(move |now_ns, columns| {
            let now = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
            push_loss(now_ns, &now, &written, columns);
            written = now;
        }));
        Self { probes, feed, writer, sampler, next_sample_ns: i64::MIN, counts, batch: Vec::new(), write_error: None }
    }

    /// Records until the target has ended, `stop` says so, or the deadline has passed; true if it has ended.
    pub fn until_ended(&mut self, target: &mut Started, deadline: Option<Instant>, stop: impl Fn() -> bool) -> bool {
        loop {
            let ended = wait(target.child.pidfd(), DRAIN_INTERVAL);
            if self.step() {
                target.intervals(|told| load_rows::push_interval(&told, &mut self.writer));
            }
            if ended {
                return true;
            }
            if stop() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return false;
            }
        }
    }

    /// Takes what is there, samples if it is time, and lets the writer write what is due. True if it was time for a sample.
    pub fn step(&mut self) -> bool {
        self.drain();
        let now = monotonic_ns();
        let due = now >= self.next_sample_ns;
        if due {
            self.sample(now, Emit::Changed);
            // After a stall the next sample is a full interval away: several at once would say nothing.
            self.next_sample_ns =
                (self.next_sample_ns.saturating_add(SAMPLE_INTERVAL_NS)).max(now + SAMPLE_INTERVAL_NS / 2);
        }
        if let Err(error) = self.writer.tick(now) {
            tracing::warn!("{error}");
            self.write_error.get_or_insert(error);
        }
        due
    }

    /// Reads every metric now, whether it changed or not.
    pub fn sample_all(&mut self) {
        self.sample(monotonic_ns(), Emit::All);
    }

    fn sample(&mut self, now: i64, emit: Emit) {
        let Some(sampler) = &mut self.sampler else { return };
        let columns = self.writer.table::<MetricsRow<'_>>();
        sampler.sample(now, emit, &mut |row| {
            columns.push(&MetricsRow {
                ts: now,
                name: row.name,
                instance: row.instance.map(|instance| &**instance),
                value: row.value,
            });
        });
    }

    /// Empties the rings. Events are taken before faults: so the faults that a task took before it ended are there when
    /// its end is written.
    pub fn drain(&mut self) {
        let batch = &mut self.batch;
        if let Some(observer) = &mut self.probes.observer {
            observer.drain_events(|event| batch.push(event));
            let (feed, columns) = (&mut self.feed, self.writer.faults_mut());
            observer.drain_faults(|_cpu, slots| feed.faults(slots, columns));
            self.feed.events(batch, &mut self.writer);
            let (feed, tables) = (&mut self.feed, self.writer.tables_mut());
            feed.calls(|sink| observer.drain_calls(sink), tables);
        }
        let now = monotonic_ns();
        for watcher in &mut self.probes.watchers {
            watcher.events(batch);
            watcher.step(now, &mut self.writer);
        }
        batch.clear();
        self.count();
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
            let events = observer.event_counts();
            counts.push(Count { stream: "events", cpu: None, seen: events.seen, lost: events.lost, filtered: 0 });
        }
        for watcher in &self.probes.watchers {
            counts.extend(watcher.counts());
        }
    }

    /// Detaches the probes and takes what they still hold; what they have for the manifest is returned, by the name of
    /// their first stream.
    pub fn stop(&mut self) -> serde_json::Map<String, serde_json::Value> {
        if let Some(observer) = &mut self.probes.observer {
            observer.detach();
        }
        for watcher in &mut self.probes.watchers {
            watcher.stop();
        }
        self.drain();
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
        extra
    }

    /// What the sampler could not read.
    pub fn refused_sources(&self) -> Vec<String> {
        let refused = self.sampler.as_ref().map(Sampler::refused).unwrap_or_default();
        refused.iter().map(|one| format!("{}: {}", one.source, one.reason)).collect()
    }
}

/// Writes what was counted since the last part. A CPU on which nothing happened has no row.
fn push_loss(now_ns: i64, now: &Counts, before: &Counts, columns: &mut LossColumns) {
    for count in now {
        let earlier = before.iter().find(|earlier| earlier.stream == count.stream && earlier.cpu == count.cpu);
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

/// Waits for the process to end, at most for `time`; true if it has.
fn wait(pidfd: BorrowedFd<'_>, time: Duration) -> bool {
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    // An interrupted wait is a short wait.
    matches!(poll(&mut fds, Some(&timeout)), Ok(1..))
}
