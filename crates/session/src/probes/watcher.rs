//! What the recording loop knows of a probe that is not the observer.

use std::os::fd::BorrowedFd;

use pagelab_observe::bpf::Event;
use pagelab_observe::streams::Stream;
use pagelab_recording::RecordingWriter;
use serde_json::{Map, Value};

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

/// What is recorded, as far as a probe must know it to attach to it.
#[derive(Debug, Clone, Copy)]
pub struct Watched<'a> {
    /// The first task's process id.
    pub pid: u32,
    /// The same as a descriptor.
    #[allow(dead_code, reason = "not every probe asks for it")]
    pub pidfd: BorrowedFd<'a>,
    /// The BPF map that says which tasks are recorded (`task_states` of `bpf/membership.bpf.h`), where BPF is to be had.
    pub task_states: Option<BorrowedFd<'a>>,
}

/// A probe in the recording loop.
///
/// The loop opens it before the target runs ([`Watcher::begin`]), calls [`Watcher::step`] 50 times a second, and at the end
/// [`Watcher::stop`], one more `step`, and [`Watcher::finish`].
pub trait Watcher {
    /// The streams that it fills.
    fn streams(&self) -> &'static [Stream];

    /// What it works through: `bpf`, `perf` or `procfs`.
    fn rung(&self) -> &'static str;

    /// Attaches it to the target, which waits at the gate.
    ///
    /// # Errors
    /// The reason in words, with what is needed and what to type.
    fn begin(&mut self, _watched: &Watched<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Takes note of tasks, mappings and names of files that the observer has seen since the last step.
    fn events(&mut self, _events: &[Event]) {}

    /// Takes what there is and appends it to the recording.
    fn step(&mut self, now_ns: i64, writer: &mut RecordingWriter);

    /// What it has counted since it began; this goes to `loss` and to the manifest.
    fn counts(&self) -> Vec<Count> {
        Vec::new()
    }

    /// Detaches it from the kernel. What it has collected can still be taken.
    fn stop(&mut self) {}

    /// Writes what can only be written at the end; `extra` goes into the manifest under the watcher's own key.
    fn finish(&mut self, _now_ns: i64, _writer: &mut RecordingWriter, _extra: &mut Map<String, Value>) {}
}
