//! What the recording loop knows of a probe that is not the observer.

use std::fmt;
use std::os::fd::BorrowedFd;

use pagelab_observe::bpf::{Cgroup, Event, Observer, OffCpu};
use pagelab_observe::perf::PerfSample;
use pagelab_observe::streams::Stream;
use pagelab_recording::RecordingWriter;
use serde_json::{Map, Value};

use crate::actions::MapAction;

/// What a stream has counted so far on one CPU, or altogether.
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

/// Which tasks are recorded.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// A process that waits at the gate, with what it forks.
    Tree,
    /// Running processes, each with its descriptor: all threads, and what they fork from now on.
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

/// What is recorded, as far as a probe must know it to attach to it.
#[derive(Clone, Copy)]
pub struct Watched<'a> {
    /// Which tasks; see [`Watcher::takes`].
    #[allow(dead_code, reason = "for probes that cannot go by `task_states` and attach to processes one by one")]
    pub scope: Scope<'a>,
    /// The first process's id; 0 for a cgroup and the whole system, which have none.
    pub pid: u32,
    /// The same as a descriptor; the recorder's own where `pid` is 0.
    #[allow(dead_code, reason = "for probes that attach to a process by itself")]
    pub pidfd: BorrowedFd<'a>,
    /// The BPF map that says which tasks are recorded (`task_states` of `bpf/membership.bpf.h`), where BPF is to be had.
    pub task_states: Option<BorrowedFd<'a>>,
    /// The observer itself, for what it has beside.
    pub observer: Option<&'a Observer>,
    /// What the profile samples, where perf takes the samples and BPF is not to be had.
    pub perf_event: Option<&'static str>,
}

/// A probe in the recording loop.
///
/// The loop opens it before the target runs ([`Watcher::begin`]), calls [`Watcher::step`] 20 to 50 times a second, and at the end
/// [`Watcher::stop`], one more `step`, and [`Watcher::finish`].
pub trait Watcher {
    /// The streams that it fills.
    fn streams(&self) -> &'static [Stream];

    /// What it works through: `bpf`, `perf` or `procfs`.
    fn rung(&self) -> &'static str;

    /// Whether it can watch these tasks; asked before [`Watcher::begin`]. What finds its tasks in
    /// [`Watched::task_states`] can watch all.
    ///
    /// # Errors
    /// The reason in words, with what is needed and what to type.
    fn takes(&self, scope: &Scope<'_>) -> Result<(), String> {
        match scope {
            Scope::Tree => Ok(()),
            running => Err(format!(
                "this probe cannot watch {running}; needed: a command that pagelab starts, try: pagelab record ... -- CMD"
            )),
        }
    }

    /// Attaches it to the target, which waits at the gate or runs already.
    ///
    /// # Errors
    /// The reason in words, with what is needed and what to type.
    fn begin(&mut self, _watched: &Watched<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Those of its streams that it could not begin although it can fill others, each with the reason in words.
    fn lacks(&self) -> &[(Stream, String)] {
        &[]
    }

    /// Takes the times off the CPU that have ended since the last step, if it has something to add to their rows. Who takes
    /// them writes them.
    fn off_cpu(&mut self, _times: &mut Vec<OffCpu>) {}

    /// Takes the mapping actions that have a stack; as with [`Watcher::off_cpu`].
    fn actions(&mut self, _actions: &mut Vec<MapAction>) {}

    /// Takes samples that the perf observer has; their mappings and tasks come right after by [`Watcher::events`].
    fn samples(&mut self, _samples: Vec<PerfSample>) {}

    /// Takes note of how many page faults of recorded tasks the observer has seen, if it looks for them.
    fn page_faults(&mut self, _seen: Option<u64>) {}

    /// Takes note of tasks, mappings and names of files that the observer has seen since the last step.
    fn events(&mut self, _events: &[Event]) {}

    /// Takes what there is and appends it to the recording.
    fn step(&mut self, now_ns: i64, writer: &mut RecordingWriter);

    /// What it has counted since it began; this goes to `loss` and to the manifest.
    fn counts(&self) -> Vec<Count> {
        Vec::new()
    }

    /// Gives up a stream because recording costs too much: detaches what makes it. False if it cannot.
    fn shed(&mut self, _stream: Stream) -> bool {
        false
    }

    /// Detaches it from the kernel. What it has collected can still be taken.
    fn stop(&mut self) {}

    /// Writes what can only be written at the end; `extra` goes into the manifest under the watcher's own key.
    fn finish(&mut self, _now_ns: i64, _writer: &mut RecordingWriter, _extra: &mut Map<String, Value>) {}
}
