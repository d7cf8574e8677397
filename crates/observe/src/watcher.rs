//! A probe in the loop of a recording: its inputs, and the rows it writes.
//!
//! The loop opens the probes before the target runs ([`Watcher::begin`]) and then calls [`Watcher::step`] 20 to 50 times a
//! second. At the end come [`Watcher::stop`], one more `step`, and [`Watcher::finish`]. The probe that follows the recorded
//! tree ([`Tree`](crate::tree::Tree)) steps first; what it learns of the tree is in the [`Round`] that the others step with.
//!
//! How to add a probe: implement [`Watcher`] in its module, and name it in [`WATCHERS`](crate::watchers::WATCHERS).

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::os::fd::BorrowedFd;

use pagelab_recording::tables::OffcpuRow;
use pagelab_recording::{RecordingWriter, Result as Written};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value};

use crate::bpf::{Cgroup, Event, Observer, OffCpu};
use crate::cpu::{Frequency, Unwinding};
use crate::feed::{MapAction, push_off_cpu};
use crate::moment::Moment;
use crate::perf::PerfSample;
use crate::stacks::StackIds;
use crate::streams::{Stream, StreamSet};

/// The probes' parameters, known before there is a target.
#[derive(Debug, Clone)]
pub struct ProbeOptions {
    /// The streams to record.
    pub streams: StreamSet,
    /// The recorder starts the target; else the target runs already.
    pub starts_target: bool,
    /// Recording begins some time after the start of the target: nothing is attached until then.
    pub starts_late: bool,
    /// Bytes of ring per CPU, for page faults and for samples; system calls get twice as many.
    pub ring_bytes_per_cpu: usize,
    /// The end of 1 in N minor faults is recorded; 0: of none.
    pub fault_details: u64,
    /// How stacks of user space are found.
    pub unwinding: Unwinding,
    /// Samples of the profile a second and CPU.
    pub frequency: Frequency,
}

impl ProbeOptions {
    /// The target's first process waits at the gate until all probes are attached.
    pub fn at_gate(&self) -> bool {
        self.starts_target && !self.starts_late
    }

    /// Which arguments of a system call mean what, of those calls that are recorded.
    pub fn shapes(&self) -> crate::syscalls::Shapes {
        crate::syscalls::Shapes::of(self.streams.calls())
    }
}

/// The counts of a stream so far on one CPU, or altogether.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// The stream, as the table `loss` names it.
    pub stream: &'static str,
    /// The CPU; none where the probe counts for all together.
    pub cpu: Option<u32>,
    /// Events that happened as far as the probe knows, lost and filtered ones included.
    pub seen: u64,
    /// Events that should be in the recording and are not.
    pub lost: u64,
    /// Events left out on purpose.
    pub filtered: u64,
}

impl Count {
    /// The name of the counts that `tasks` and `maps` share: their records go through one ring.
    pub const EVENTS: &str = pagelab_vocab::streams::EVENTS;

    /// Whether it counts what a stream records.
    pub fn is_of(&self, stream: &str) -> bool {
        let shares = |one: Stream| one.name() == stream;
        self.stream == stream || (self.stream == Self::EVENTS && (shares(Stream::Tasks) || shares(Stream::Maps)))
    }
}

/// Which tasks are recorded.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// A process that waits at the gate, with its descendants.
    Tree,
    /// Running processes, each with its descriptor: all threads, and the children they fork from now on.
    Processes(&'a [(u32, BorrowedFd<'a>)]),
    /// The tasks of a cgroup and of those below it, as long as they are in it.
    Cgroup(&'a Cgroup),
    /// Every task but the recorder's own.
    System,
}

impl fmt::Display for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree => f.write_str("a command"),
            Self::Processes([(pid, _)]) => write!(f, "process {pid}, which runs already"),
            Self::Processes(all) => write!(f, "{} processes, which run already", all.len()),
            Self::Cgroup(cgroup) => write!(f, "the cgroup {}", cgroup.path.display()),
            Self::System => f.write_str("the whole system"),
        }
    }
}

/// The target of a probe.
#[derive(Clone, Copy)]
pub struct AttachTo<'a> {
    /// Which tasks; see [`Watcher::takes`].
    pub scope: Scope<'a>,
    /// The first process's id; 0 for a cgroup and the whole system, which have none.
    pub pid: u32,
    /// The same as a descriptor; the recorder's own where `pid` is 0.
    pub pidfd: BorrowedFd<'a>,
    /// The BPF observer, if it follows the recorded tree.
    pub observer: Option<&'a Observer>,
    /// The event that the profile samples, where perf takes the samples because BPF programs cannot be loaded.
    pub perf_event: Option<&'static str>,
}

impl<'a> AttachTo<'a> {
    /// The BPF map that says which tasks are recorded (`task_states` of `bpf/membership.bpf.h`), if there is one.
    pub fn task_states(&self) -> Option<BorrowedFd<'a>> {
        self.observer.map(Observer::task_states)
    }

    /// The same map, for probes that can do nothing without it.
    ///
    /// # Errors
    /// There is none, in words.
    pub fn needed_task_states(&self) -> Result<BorrowedFd<'a>, String> {
        self.task_states().ok_or_else(|| "the recorded tree is known to BPF only, which is not to be had".to_owned())
    }
}

/// CPU time that the recording loop spends on each stream, ns: taking its records, turning them into rows, sampling.
#[derive(Debug, Clone, Default)]
pub struct Spent {
    by_stream: BTreeMap<&'static str, u64>,
    /// The stream that time goes to now, and since when.
    charged: Option<(&'static str, u64)>,
}

impl Spent {
    /// From now on time goes to `stream`, until the next call or [`Spent::pause`].
    pub fn charge(&mut self, stream: &'static str) {
        let now = thread_cpu_ns();
        self.settle(now);
        self.charged = Some((stream, now));
    }

    /// From now on time goes to no stream.
    pub fn pause(&mut self) {
        if self.charged.is_some() {
            self.settle(thread_cpu_ns());
        }
    }

    fn settle(&mut self, now: u64) {
        if let Some((stream, since)) = self.charged.take() {
            *self.by_stream.entry(stream).or_default() += now.saturating_sub(since);
        }
    }

    /// The cost of each stream so far.
    pub fn by_stream(&self) -> &BTreeMap<&'static str, u64> {
        &self.by_stream
    }
}

impl From<BTreeMap<&'static str, u64>> for Spent {
    fn from(by_stream: BTreeMap<&'static str, u64>) -> Self {
        Self { by_stream, charged: None }
    }
}

/// CPU time of this thread, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_MONOTONIC, ns: the clock of BPF and of every `ts`.
pub fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Waits of one kind that ended with the same stack of the kernel, in one interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitStack {
    /// End of the interval, CLOCK_MONOTONIC, ns.
    pub ts: i64,
    /// Who waited.
    pub task_id: u32,
    /// As in `wait_stacks`.
    pub off_state: &'static str,
    /// As in `wait_stacks`.
    pub iowait: bool,
    /// As in `wait_stacks`.
    pub call: Option<&'static str>,
    /// As in `wait_stacks`.
    pub by: Option<&'static str>,
    /// Addresses, innermost first; empty if the kernel gave none.
    pub addrs: Vec<u64>,
    /// Stacks that were taken.
    pub samples: u64,
    /// The time off the CPU that they stand for, ns.
    pub weight_ns: u64,
}

/// One round of the loop: what the probes that have stepped hand to those that follow.
#[derive(Debug, Default)]
pub struct Round {
    /// When the other probes began to step, CLOCK_MONOTONIC: all of `events` happened before.
    pub now_ns: i64,
    /// Tasks, mappings and names of files that were seen since the last round.
    pub events: Vec<Event>,
    /// Samples that perf took; the mappings and tasks that they belong to are in `events`.
    pub samples: Vec<PerfSample>,
    /// Page faults of recorded tasks so far; none if nobody counts them, or not any more.
    pub page_faults: Option<u64>,
    /// Times off the CPU that ended. A probe that removes some must write their rows.
    pub off_cpu: Vec<OffCpu>,
    /// Waits by the kernel's stack that they ended with. Who names stacks writes their rows.
    pub wait_stacks: Vec<WaitStack>,
    /// Somebody looks on while it is recorded: `moment` is wanted.
    pub is_watched: bool,
    /// The states of the tasks, in a round in which they were summed up.
    pub moment: Option<Moment>,
    /// Mapping actions that were made with a stack. A probe that removes some must write their rows.
    pub map_actions: Vec<MapAction>,
    /// The cost of the rounds so far.
    pub spent: Spent,
}

impl Round {
    /// Writes the rows that no probe has taken to add a stack to them.
    pub fn write_rest(&mut self, writer: &mut RecordingWriter) {
        let columns = writer.table::<OffcpuRow<'_>>();
        for off in self.off_cpu.drain(..) {
            push_off_cpu(&off, StackIds::default(), columns);
        }
        for action in self.map_actions.drain(..) {
            action.push(None, writer);
        }
    }

    /// Forgets the rows handed over in this round.
    pub fn clear(&mut self) {
        self.events.clear();
        self.samples.clear();
        self.wait_stacks.clear();
        self.page_faults = None;
        self.moment = None;
    }
}

/// The end of a recording, as a probe writes what can only be written then.
pub struct Closing<'a> {
    /// CLOCK_MONOTONIC, ns.
    pub now_ns: i64,
    /// The recording.
    pub writer: &'a mut RecordingWriter,
    /// Writes all rows so far as parts, with the rights of the recording's owner.
    pub flush: &'a dyn Fn(&mut RecordingWriter) -> Written<()>,
    /// Whether whatever can be left out is to be left out now: a second signal came.
    pub hurry: &'a dyn Fn() -> bool,
    /// The probe's entry in the manifest, under the name of its first stream.
    pub extra: Map<String, Value>,
}

impl Closing<'_> {
    /// Says something in the manifest.
    pub fn note(&mut self, key: &str, value: impl Into<Value>) {
        self.extra.insert(key.to_owned(), value.into());
    }
}

/// A probe in the loop of a recording; the module's text says when what is called.
pub trait Watcher {
    /// The streams that it fills.
    fn streams(&self) -> &'static [Stream];

    /// Its source: `bpf`, `perf` or `procfs`.
    fn rung(&self) -> &'static str;

    /// Whether it can watch these tasks; asked before [`Watcher::begin`]. What finds its tasks in
    /// [`AttachTo::task_states`] can watch all.
    ///
    /// # Errors
    /// The reason in words, with what is needed and what to type.
    fn takes(&self, _scope: &Scope<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Attaches it to the target, which waits at the gate or runs already.
    ///
    /// # Errors
    /// The reason in words, with what is needed and what to type.
    fn begin(&mut self, _target: &AttachTo<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Those of its streams that it could not begin although it can fill others, each with the reason in words.
    fn lacks(&self) -> &[(Stream, String)] {
        &[]
    }

    /// Empties its rings, or looks again, and appends the rows to the recording.
    fn step(&mut self, round: &mut Round, writer: &mut RecordingWriter);

    /// Appends its counts since it began; they go to `loss` and to the manifest.
    fn count(&self, _counts: &mut Vec<Count>) {}

    /// The files that recorded tasks mapped code from, as far as it knows them and has them open, each with its path.
    fn code_files(&self) -> Vec<(&[u8], &File)> {
        Vec::new()
    }

    /// Gives up a stream because recording costs too much: detaches what makes it. False if it cannot.
    fn shed(&mut self, _stream: Stream) -> bool {
        false
    }

    /// Detaches it from the kernel. Events collected before can still be taken.
    fn stop(&mut self) {}

    /// Writes what can only be written at the end.
    fn finish(&mut self, _closing: &mut Closing<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_to_one_stream_at_a_time() {
        let burn = || {
            let begun = thread_cpu_ns();
            while thread_cpu_ns() - begun < 2_000_000 {}
        };
        let mut spent = Spent::default();
        let begun = thread_cpu_ns();
        spent.charge("faults");
        burn();
        spent.charge("maps");
        burn();
        spent.pause();
        let all = thread_cpu_ns() - begun;
        burn();
        spent.charge("faults");
        spent.pause();
        let times: Vec<u64> = spent.by_stream().values().copied().collect();
        assert!(times.len() == 2 && times.iter().all(|ns| *ns >= 2_000_000), "{times:?}");
        // The last charge lasted no longer than two looks at the clock.
        assert!(times.iter().sum::<u64>() <= all + 1_000_000, "{times:?} of {all}");
    }

    #[test]
    fn tasks_and_mappings_share_the_count_of_their_ring() {
        let count = |stream| Count { stream, cpu: None, seen: 1, lost: 0, filtered: 0 };
        assert!(count("faults").is_of("faults") && !count("khugepaged").is_of("faults"));
        assert!(count(Count::EVENTS).is_of("tasks") && count(Count::EVENTS).is_of("maps"));
        assert!(!count(Count::EVENTS).is_of("syscalls") && count("maps").is_of("maps"));
    }
}
