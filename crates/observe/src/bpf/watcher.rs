//! The BPF observer in the loop of a recording: the rows of `tasks`, `faults`, `mappings`, `syscalls` and `offcpu`.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::SyscallsRow;
use serde_json::{Value, json};

use super::{BpfError, Members, Observer, ObserverOptions};
use crate::details::{DetailCounts, FaultDetail, FaultDetails};
use crate::feed::{CallFeed, Feed};
use crate::perf::code::CodeMappings;
use crate::process::has_ended;
use crate::stacks::rows::task_stack_options;
use crate::streams::Stream;
use crate::watcher::{AttachTo, Closing, Count, ProbeOptions, Round, Scope, Watcher};

/// The observer, how the faults ended that it records, and what turns both into rows.
pub struct BpfWatcher {
    observer: Observer,
    /// The reason if they are not recorded.
    details: Result<FaultDetails, String>,
    /// Details on their way to the faults that they belong to.
    received: Vec<FaultDetail>,
    feed: Feed,
    /// It was detached after the trial, and is attached when recording begins.
    starts_late: bool,
    warnings: Vec<String>,
}

/// Why nothing is known of how faults end where page faults are not recorded, or not by BPF.
const NO_FAULTS: &str = "no faults are recorded";

impl BpfWatcher {
    /// The streams that it can fill.
    pub const STREAMS: &[Stream] = &[Stream::Tasks, Stream::Faults, Stream::Maps, Stream::Syscalls, Stream::Sched];

    /// Loads and attaches the programs for the streams wanted. `members` are the tasks to record; `code` says that a probe needs
    /// to know what code is mapped, whether or not mappings are recorded: it sees that itself where it can ([`CodeMappings`]).
    ///
    /// # Errors
    /// The kernel refuses them.
    pub fn open(options: &ProbeOptions, members: Members, code: bool) -> Result<Self, BpfError> {
        let wants = |stream| options.streams.contains(stream);
        let wanted = ObserverOptions {
            ring_bytes_per_cpu: options.ring_bytes_per_cpu,
            counting_only: false,
            faults: wants(Stream::Faults),
            maps: wants(Stream::Maps) || (code && !CodeMappings::are_available()),
            begin_at_entry: false,
            calls: wants(Stream::Syscalls).then(|| options.shapes().infos()),
            sched: wants(Stream::Sched),
            stacks: task_stack_options(options),
            call_ring_bytes_per_cpu: 2 * options.ring_bytes_per_cpu,
            members,
            names_sent_before: 0,
        };
        let mut warnings = Vec::new();
        let mut observer = load(wanted, &mut warnings)?;
        observer.attach()?;
        if options.starts_late {
            // It is available; it costs nothing until it is needed.
            observer.detach();
        }
        let calls = wants(Stream::Syscalls).then(|| CallFeed::new(options.shapes(), wants(Stream::Sched)));
        let feed = Feed::new(wants(Stream::Tasks), wants(Stream::Maps), options.at_gate()).with_calls(calls);
        let details = Err(NO_FAULTS.to_owned());
        let received = Vec::new();
        let mut watcher = Self { observer, details, received, feed, starts_late: options.starts_late, warnings };
        if wants(Stream::Faults) {
            let opened = FaultDetails::open(&watcher.observer, options.fault_details);
            watcher.set_details(opened.map_err(|error| error.to_string()));
        }
        Ok(watcher)
    }

    /// That it cannot be said how faults end is no reason not to record them.
    fn set_details(&mut self, details: Result<FaultDetails, String>) {
        if let Err(reason) = &details {
            self.warnings.push(format!("how faults end is not recorded: {reason}"));
        }
        self.details = details;
    }

    /// What the user should know since the last time.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// The observer.
    pub fn observer(&self) -> &Observer {
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

    /// How faults ended, for the manifest: of how many that is known, and why it is not of others.
    pub fn details_summary(watcher: Option<&Self>) -> Value {
        let details = watcher.map_or(Err(NO_FAULTS), |watcher| match &watcher.details {
            Ok(probe) => Ok((probe, watcher.feed.unmatched_details())),
            Err(reason) => Err(reason.as_str()),
        });
        match details {
            Ok((probe, unmatched)) => {
                let counts = probe.counts();
                json!({
                    "minor_one_in": probe.one_in(), "major_one_in": 1,
                    "seen": counts.seen, "lost": counts.lost, "unmatched": unmatched,
                    "got_unknown_because": probe.no_walk(),
                })
            }
            Err(reason) => json!({ "refused": reason }),
        }
    }

    /// Makes the target's tasks members.
    fn enrol(&mut self, target: &AttachTo<'_>) -> Result<(), BpfError> {
        let observer = &mut self.observer;
        if self.starts_late {
            observer.attach()?;
        }
        match target.scope {
            Scope::Tree => observer.adopt(target.pidfd)?,
            Scope::Processes(running) => want_all(observer, running)?,
            Scope::Cgroup(_) | Scope::System => {}
        }
        observer.find().map(drop)
    }

    /// Tasks whose birth was not seen are missing if they cannot be looked for, as they are without looking.
    fn find_missed(&mut self, now: bool) {
        if let Err(error) = self.observer.find_missed(now) {
            tracing::debug!("tasks whose birth was not seen are not looked for: {error}");
        }
    }

    /// Empties the rings of page faults. With details they are taken up to where the rings were before: see
    /// [`DetailFeed`](crate::feed::DetailFeed).
    fn drain_faults(&mut self, writer: &mut RecordingWriter) {
        let Self { observer, details, received, feed, .. } = self;
        let columns = writer.faults_mut();
        let Ok(probe) = details else {
            observer.drain_faults(|_cpu, slots| feed.faults(slots, columns));
            return;
        };
        observer.mark_faults();
        probe.drain(received);
        feed.faults_in_detail(received, |sink| observer.drain_marked_faults(sink), columns);
        received.clear();
    }
}

/// Loads the observer; without stacks if that is what the kernel refuses.
fn load(wanted: ObserverOptions, warnings: &mut Vec<String>) -> Result<Observer, BpfError> {
    let without = wanted.stacks.is_some().then(|| ObserverOptions { stacks: None, ..wanted.clone() });
    Observer::load(wanted).or_else(|error| {
        let observer = without.and_then(|without| Observer::load(without).ok());
        let Some(observer) = observer else { return Err(error) };
        warnings.push(format!("waits and mapping calls are recorded without stacks: {error}"));
        Ok(observer)
    })
}

/// Marks running processes as wanted. One that has ended since it was found is missed like those that had ended before.
fn want_all(observer: &mut Observer, running: &[(u32, BorrowedFd<'_>)]) -> Result<(), BpfError> {
    let (mut wanted, mut refused) = (0, None);
    for (_, pidfd) in running {
        match observer.want(*pidfd) {
            Err(error) if has_ended(*pidfd, Duration::ZERO) => refused = Some(error),
            other => other.map(|()| wanted += 1)?,
        }
    }
    match refused {
        Some(error) if wanted == 0 => Err(error),
        _ => Ok(()),
    }
}

impl Watcher for BpfWatcher {
    fn streams(&self) -> &'static [Stream] {
        Self::STREAMS
    }

    fn rung(&self) -> &'static str {
        "bpf"
    }

    fn begin(&mut self, target: &AttachTo<'_>) -> Result<(), String> {
        self.enrol(target).map_err(|error| error.to_string())?;
        if let Ok(details) = &mut self.details
            && let Err(error) = details.attach()
        {
            self.set_details(Err(error.to_string()));
        }
        Ok(())
    }

    /// Events are taken before faults: so the faults that a task took before it ended are there when its end is written.
    fn step(&mut self, round: &mut Round, writer: &mut RecordingWriter) {
        let Round { events, page_faults, off_cpu, map_actions, spent, .. } = round;
        if let Err(error) = self.observer.follow_moves() {
            tracing::warn!("tasks that moved into the cgroup are not recorded: {error}");
        }
        self.find_missed(false);
        spent.charge(Stream::Maps.name());
        self.observer.drain_events(|event| events.push(event));
        spent.charge(Stream::Faults.name());
        self.drain_faults(writer);
        spent.charge(Stream::Maps.name());
        self.feed.events(events, writer, map_actions);
        spent.charge(Stream::Syscalls.name());
        let observer = &mut self.observer;
        let drain = |sink: &mut crate::feed::CallSink<'_>| observer.drain_calls(|call| sink.take(call));
        self.feed.calls(drain, writer.tables_mut(), off_cpu);
        spent.pause();
        let seen = self.observer.rings().total().seen();
        *page_faults = Some(seen).filter(|_| self.observer.sees_faults());
    }

    fn count(&self, counts: &mut Vec<Count>) {
        let (rings, calls) = (self.observer.rings(), self.observer.call_rings());
        for cpu in 0..rings.cpus() {
            let one = rings.counts(cpu);
            let (seen, lost, filtered) = (one.seen() + one.filtered, one.lost, one.filtered);
            counts.push(Count { stream: Stream::Faults.name(), cpu: Some(cpu as u32), seen, lost, filtered });
        }
        for cpu in 0..calls.cpus() {
            let one = calls.counts(cpu);
            for (stream, seen, lost) in
                [(Stream::Syscalls, one.returned, one.lost), (Stream::Sched, one.off_seen, one.off_lost)]
            {
                counts.push(Count { stream: stream.name(), cpu: Some(cpu as u32), seen, lost, filtered: 0 });
            }
        }
        let mut of_all = |stream, seen, lost| counts.push(Count { stream, cpu: None, seen, lost, filtered: 0 });
        if let Ok(probe) = &self.details {
            // A detail whose fault is not found takes no row away; the manifest tells how many there are.
            let DetailCounts { seen, lost } = probe.counts();
            of_all("fault_details", seen, lost);
        }
        let events = self.observer.event_counts();
        of_all(Count::EVENTS, events.seen, events.lost);
        if events.calls_unnamed > 0 {
            of_all("file_names", events.calls_unnamed, events.calls_unnamed);
        }
    }

    fn shed(&mut self, stream: Stream) -> bool {
        if let (Stream::Faults, Ok(details)) = (stream, &mut self.details) {
            details.detach();
        }
        self.observer.shed(stream)
    }

    fn stop(&mut self) {
        self.find_missed(true);
        self.observer.detach();
        self.observer.tell_unfinished();
        if let Ok(details) = &mut self.details {
            details.detach();
        }
    }

    fn finish(&mut self, closing: &mut Closing<'_>) {
        self.feed.details().finish(closing.writer.faults_mut());
        self.feed.waiting_calls(closing.writer.table::<SyscallsRow<'_>>());
        self.feed.note_living(self.observer.event_counts().lost > 0, closing);
    }
}
