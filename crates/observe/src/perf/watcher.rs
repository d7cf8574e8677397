//! The perf observer in the loop of a recording, where BPF programs cannot be loaded: the rows of `tasks`, `faults`, `mappings` and
//! `syscalls`. The samples that it takes are for the probe of stacks.

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::SyscallsRow;

use super::{PerfBatch, PerfCount, PerfObserver, PerfOptions, PerfTarget};
use crate::feed::{CallFeed, Feed};
use crate::streams::Stream;
use crate::watcher::{AttachTo, Closing, Count, ProbeOptions, Round, Scope, Watcher};

/// The observer, with the state that turns its events into rows.
pub struct PerfWatcher {
    observer: PerfObserver,
    feed: Feed,
}

/// Why perf events cannot take BPF's place.
pub fn not_by_perf(target: &str) -> String {
    format!(
        "perf events follow processes and not {target}; needed: BPF, or a command or processes; try: sudo pagelab record ... or pagelab record -p PID"
    )
}

impl PerfWatcher {
    /// The streams that it can fill; the samples of `cpu` become rows elsewhere.
    pub const STREAMS: &[Stream] = &[Stream::Tasks, Stream::Faults, Stream::Maps, Stream::Syscalls, Stream::Cpu];

    /// Finds out what the kernel gives of the streams wanted.
    ///
    /// # Errors
    /// The reason in words, with what is needed and what to type.
    pub fn open(options: &ProbeOptions) -> Result<Self, String> {
        let wants = |stream| options.streams.contains(stream);
        let observer = PerfObserver::open(PerfOptions {
            faults: wants(Stream::Faults),
            profile: wants(Stream::Cpu).then_some((options.frequency, options.unwinding)),
            calls: wants(Stream::Syscalls).then(|| options.shapes().infos()),
            map_actions: wants(Stream::Maps),
            ring_bytes_per_cpu: options.ring_bytes_per_cpu,
        })?;
        let calls = wants(Stream::Syscalls).then(|| CallFeed::new(options.shapes(), wants(Stream::Sched)));
        let feed = Feed::new(wants(Stream::Tasks), wants(Stream::Maps), options.at_gate()).with_calls(calls);
        Ok(Self { observer, feed: feed.by_perf() })
    }

    /// The observer.
    pub fn observer(&self) -> &PerfObserver {
        &self.observer
    }

    /// Its state of the recorded tree.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// The same, mutable: to be notified of parts.
    pub fn feed_mut(&mut self) -> &mut Feed {
        &mut self.feed
    }
}

impl Watcher for PerfWatcher {
    fn streams(&self) -> &'static [Stream] {
        Self::STREAMS
    }

    fn rung(&self) -> &'static str {
        "perf"
    }

    fn takes(&self, scope: &Scope<'_>) -> Result<(), String> {
        match scope {
            Scope::Tree | Scope::Processes(_) => Ok(()),
            other => Err(not_by_perf(&other.to_string())),
        }
    }

    fn begin(&mut self, target: &AttachTo<'_>) -> Result<(), String> {
        match target.scope {
            Scope::Processes(running) => {
                let pids: Vec<u32> = running.iter().map(|(pid, _)| *pid).collect();
                self.observer.follow(PerfTarget::Running(&pids))
            }
            _ => self.observer.follow(PerfTarget::Child(target.pid)),
        }
    }

    fn step(&mut self, round: &mut Round, writer: &mut RecordingWriter) {
        // Records of system calls are by far the most frequent.
        let dearest = if self.observer.calls_refused().is_none() { Stream::Syscalls } else { Stream::Maps };
        round.spent.charge(dearest.name());
        let PerfBatch { events, faults, samples, calls } = self.observer.drain();
        round.spent.charge(Stream::Faults.name());
        self.feed.perf_faults(&faults, writer.faults_mut());
        round.spent.charge(Stream::Maps.name());
        self.feed.events(&events, writer, &mut round.map_actions);
        round.spent.charge(Stream::Syscalls.name());
        let drain = |sink: &mut crate::feed::CallSink<'_>| calls.iter().for_each(|call| sink.take(call));
        self.feed.calls(drain, writer.tables_mut(), &mut round.off_cpu);
        round.spent.pause();
        (round.events, round.samples) = (events, samples);
    }

    fn count(&self, counts: &mut Vec<Count>) {
        counts.extend(self.observer.counts().into_iter().map(|one| Count {
            stream: one.stream.map_or(Count::EVENTS, Stream::name),
            cpu: Some(one.cpu),
            seen: one.seen,
            lost: one.lost,
            filtered: 0,
        }));
        // How many events each would have had is not known: at least one.
        let taken = self.observer.taken().len() as u64;
        for stream in self.observer.event_streams().filter(|_| taken > 0) {
            counts.push(Count { stream: stream.name(), cpu: None, seen: taken, lost: taken, filtered: 0 });
        }
    }

    fn shed(&mut self, stream: Stream) -> bool {
        self.observer.shed(stream)
    }

    fn stop(&mut self) {
        self.observer.detach();
    }

    fn finish(&mut self, closing: &mut Closing<'_>) {
        self.feed.waiting_calls(closing.writer.table::<SyscallsRow<'_>>());
        let of_tasks = |count: &PerfCount| count.stream.is_none() && count.lost > 0;
        let ends_were_lost = !self.observer.taken().is_empty() || self.observer.counts().iter().any(of_tasks);
        self.feed.note_living(ends_were_lost, closing);
    }
}
