//! Page faults, mappings, tasks, system calls and profile samples of a process tree through `perf_event_open`: the
//! source where BPF programs cannot be loaded. An ordinary user may use most of it on own processes.
//!
//! [`PerfObserver::open`] tries which events the kernel allows, [`PerfObserver::follow`] opens them on a child that
//! waits for its `exec` or on running processes; then the owner calls [`PerfObserver::drain`] often enough. The tree is
//! reported as events of the BPF observer ([`Event`](crate::bpf::Event)), so that the same code turns them into rows.
//!
//! System calls come from the tracepoints raw_syscalls:sys_enter and sys_exit. Only tracefs has their ids, and users
//! who may see user mode alone may not open them: they can be missing where the rest is available. Entry and return of
//! a call are known, but not the file, its position, the contents of a vector of buffers, or the time off the CPU.
//! Calls of 32-bit programs are left out, as by BPF: their numbers mean other calls.
//!
//! By the same tracepoints, with a filter, come the mapping actions that perf does not report by itself (`munmap`, `mremap`,
//! advice); without them it is not known when a mapping goes.
//!
//! Not available: the processor's error code of a fault; the address and the descriptor passed to a mapping call;
//! whether a child shares its parent's memory before it executes a program (`vfork`): it counts as a copy; exit status
//! and accounts of tasks other than the recorder's own child.
//!
//! | file | holds |
//! |---|---|
//! | `rings` | the events of one kind on every CPU, and their rings |
//! | `records` | the records in the rings |
//! | `tree` | ids of tasks and address spaces |
//! | `areas` | what is new in an address space |
//! | `tracepoints` | the tracepoints of system calls, as tracefs describes them |
//! | `actions` | mapping actions that only their calls tell of |
//! | `calls` | which return of a system call belongs to which entry |
//! | `code` | code that processes map, for stacks where BPF follows the tree and nobody its mappings |
//! | `watcher` | the rows of the streams |

mod actions;
mod areas;
mod calls;
pub(crate) mod code;
mod records;
mod rings;
mod tracepoints;
mod tree;
mod watcher;

use std::io;

use pagelab_vocab::syscalls::i386;

use crate::bpf::CallInfo;
use crate::cpu::{Frequency, Sample, Unwinding};
use crate::process;
use crate::streams::Stream;
use crate::syscalls::OTHER;

use calls::{Fate, Pairing, Purpose};
use pagelab_vocab::remedies::{self, Place};
use records::Item;
use rings::{How, Kind, Rings};
use tracepoints::CallTracepoints;
use tree::Tree;
pub use tree::{PerfBatch, PerfFault, PerfSample, Taken};
pub use watcher::{PerfWatcher, not_by_perf};

/// What is to be recorded.
#[derive(Debug, Clone)]
pub struct PerfOptions {
    /// Page faults.
    pub faults: bool,
    /// Samples: how many a second and CPU, and how their stacks are found.
    pub profile: Option<(Frequency, Unwinding)>,
    /// System calls: what is to be known of each that is wanted. That they cannot be had refuses only them
    /// ([`PerfObserver::calls_refused`]).
    pub calls: Option<Vec<CallInfo>>,
    /// Also the mapping actions that perf does not report by itself, where available
    /// ([`PerfObserver::actions_refused`]).
    pub map_actions: bool,
    /// Bytes of ring per CPU and kind of event, at most; less if the limit on locked memory demands it.
    pub ring_bytes_per_cpu: usize,
}

/// Whose events are recorded.
#[derive(Debug, Clone, Copy)]
pub enum PerfTarget<'a> {
    /// A child of this process that waits for its `exec`, from then on, with its descendants.
    Child(u32),
    /// Running processes with all their threads, and the children they fork from now on.
    Running(&'a [u32]),
}

/// The counts of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfCount {
    /// The stream; none for the events of the tree, which are several streams'.
    pub stream: Option<Stream>,
    /// The CPU.
    pub cpu: u32,
    /// Events that happened, lost ones included.
    pub seen: u64,
    /// Events that found no room.
    pub lost: u64,
}

/// The events and their rings.
pub struct PerfObserver {
    options: PerfOptions,
    user_only: bool,
    rings: Vec<Rings>,
    tree: Tree,
    /// The tracepoints of system calls, or why there are none; by [`Purpose`].
    tracepoints: [Result<CallTracepoints, String>; 2],
    /// Records that wait: an older one may still come from another CPU.
    pending: Vec<Item>,
    /// The state found at the start, for the next batch.
    first: PerfBatch,
    drained_ns: u64,
    /// Nothing can come any more.
    detached: bool,
}

impl PerfSample {
    /// The sample as the profile's stacks take it, whose addresses they look up.
    pub fn with<T>(&self, each: impl FnOnce(u32, &Sample<'_>) -> T) -> T {
        let tick = &self.tick;
        let sample = Sample {
            ts: self.ts,
            period: tick.period,
            task_id: self.task_id,
            mm_id: Some(self.mm_id),
            pid: self.pid,
            regs: tick.regs,
            kernel: &tick.kernel,
            user: &tick.user,
            copy: &tick.copy,
            kernel_cut: false,
            user_cut: false,
            copy_cut: tick.copy.len() >= rings::STACK_COPY_BYTES as usize,
            copy_failed: false,
            is_32_bit: false,
            place: None,
            no_room: false,
            returned_from: None,
        };
        each(tick.cpu, &sample)
    }
}

impl PerfObserver {
    /// Finds out, on this process itself, what the kernel gives. Nothing is recorded yet.
    ///
    /// # Errors
    /// The reason in words, with what is needed and what to type.
    pub fn open(mut options: PerfOptions) -> Result<Self, String> {
        // Its records do not say which kind of program called; mappings show which programs have other numbers.
        if let Some(calls) = &mut options.calls {
            calls.retain(|info| info.nr < i386::NUMBERS_FROM || info.nr == OTHER);
        }
        let wanted = [options.calls.clone(), options.map_actions.then(actions::wanted)];
        let tracepoints = [0, 1].map(|at| tracepoints_of(wanted[at].as_deref()));
        let tree = Tree::new([0, 1].map(|at| Pairing::new(wanted[at].as_deref().unwrap_or_default())));
        let mut observer = Self {
            options,
            user_only: false,
            rings: Vec::new(),
            tree,
            tracepoints,
            pending: Vec::new(),
            first: PerfBatch::default(),
            drained_ns: 0,
            detached: false,
        };
        let own = [std::process::id()];
        let denied = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
        match observer.open_rings(&own, false) {
            Err(error) if denied(&error) => {
                observer.user_only = true;
                observer.open_rings(&own, false).map_err(|error| in_words(&error))?;
            }
            other => other.map_err(|error| in_words(&error))?,
        }
        observer.rings.clear();
        Ok(observer)
    }

    /// Why system calls are not recorded, with what is needed and what to type; none if they are.
    pub fn calls_refused(&self) -> Option<&str> {
        self.tracepoints[Purpose::Calls as usize].as_ref().err().map(String::as_str)
    }

    /// The same of the mapping actions that perf does not report by itself.
    pub fn actions_refused(&self) -> Option<&str> {
        self.tracepoints[Purpose::Maps as usize].as_ref().err().map(String::as_str)
    }

    /// Only what happens in user mode is seen: faults that the kernel takes on a program's memory, and its stacks, are not.
    pub fn user_only(&self) -> bool {
        self.user_only
    }

    /// The event of the profile as it was opened: `cycles` or `cpu-clock`, with `:u` behind it if only user mode is sampled.
    pub fn event(&self) -> &'static str {
        let cycles = self.rings.iter().any(|rings| rings.kind == Kind::Cycles);
        match (cycles, self.user_only) {
            (true, false) => "cycles",
            (true, true) => "cycles:u",
            (false, false) => "cpu-clock",
            (false, true) => "cpu-clock:u",
        }
    }

    /// Opens the events on the target.
    ///
    /// # Errors
    /// The reason in words, with what is needed and what to type.
    pub fn follow(&mut self, target: PerfTarget<'_>) -> Result<(), String> {
        let ts = now_ns();
        match target {
            PerfTarget::Child(pid) => {
                self.tree.start_with_child(pid);
                self.open_rings(&[pid], true).map_err(|error| in_words(&error))
            }
            PerfTarget::Running(pids) => {
                let threads: Vec<(u32, Vec<u32>)> = pids.iter().map(|pid| (*pid, process::threads(*pid))).collect();
                let tids: Vec<u32> = threads.iter().flat_map(|(_, tids)| tids.iter().copied()).collect();
                self.open_rings(&tids, false).map_err(|error| in_words(&error))?;
                for (pid, tids) in &threads {
                    self.tree.found(ts, *pid, tids, &mut self.first);
                }
                let enabled = self.rings.iter_mut().try_for_each(Rings::enable);
                enabled.map_err(|error| in_words(&error))?;
                // Events of returns were enabled first.
                let whole_from = now_ns();
                self.tree.pairings.iter_mut().for_each(|pairing| pairing.whole_from = whole_from);
                Ok(())
            }
        }
    }

    fn open_rings(&mut self, tids: &[u32], from_exec: bool) -> io::Result<()> {
        // Those of the trial count against the limit on locked memory until they are gone.
        self.rings.clear();
        let how = How { options: &self.options, user_only: self.user_only, from_exec, tracepoints: None };
        self.rings.push(Rings::open(Kind::Tree, tids, how)?);
        if self.options.profile.is_some() {
            let cycles = Rings::open(Kind::Cycles, tids, how);
            self.rings.push(cycles.or_else(|_| Rings::open(Kind::Clock, tids, how))?);
        }
        // Last, because they take what memory there is.
        if self.options.faults {
            self.rings.push(Rings::open(Kind::Faults, tids, how)?);
        }
        for purpose in [Purpose::Calls, Purpose::Maps] {
            let how = How { tracepoints: self.tracepoints[purpose as usize].as_ref().ok(), ..how };
            if how.tracepoints.is_none() {
                continue;
            }
            // A tracepoint fires in the kernel: an observer limited to user mode does not see it.
            let opened = if self.user_only {
                Err(io::Error::from_raw_os_error(libc::EACCES))
            } else {
                Rings::open(Kind::Calls(purpose), tids, how)
            };
            match opened {
                Ok(rings) => self.rings.push(rings),
                Err(error) => self.tracepoints[purpose as usize] = Err(calls_in_words(&error)),
            }
        }
        Ok(())
    }

    /// Takes the events up to the last call: an older record may still be on its way on another CPU. When detached,
    /// all.
    pub fn drain(&mut self) -> PerfBatch {
        let now = now_ns();
        for rings in &mut self.rings {
            rings.drain(now, &mut self.pending);
        }
        // The rings are each in order of time already, and the sort finds that.
        self.pending.sort_by_key(|item| item.ts);
        // What happened before the last look was in its ring by now, on every CPU.
        let until = if self.detached { u64::MAX } else { std::mem::replace(&mut self.drained_ns, now) };
        let ready = self.pending.partition_point(|item| item.ts < until);
        let mut batch = std::mem::take(&mut self.first);
        for item in self.pending.drain(..ready) {
            self.tree.take(item, &mut batch);
        }
        if self.detached {
            self.tree.finish(&mut batch);
            self.rings.iter_mut().for_each(Rings::settle);
        }
        batch
    }

    /// Tasks whose events ended before they did: what they did since is not recorded.
    pub fn taken(&self) -> &[Taken] {
        &self.tree.taken
    }

    /// The streams that its events fill, each by an event of its own.
    pub(crate) fn event_streams(&self) -> impl Iterator<Item = Stream> {
        self.rings.iter().filter_map(|rings| rings.kind.stream()).filter(|stream| *stream != Stream::Maps)
    }

    /// The counts, per CPU. A system call is counted once it has returned or is known not to, on the CPU on which it
    /// began.
    pub fn counts(&self) -> Vec<PerfCount> {
        let counted = |rings: &Rings| {
            let pairing = match rings.kind {
                Kind::Calls(purpose) => Some(&self.tree.pairings[purpose as usize]),
                _ => None,
            };
            let of = |count: PerfCount| match pairing.map(|pairing| pairing.fate(count.cpu)) {
                Some(Fate { rows, given_up }) => {
                    let lost = count.lost + given_up;
                    PerfCount { seen: rows + lost, lost, ..count }
                }
                None => count,
            };
            rings.counts().map(of).collect::<Vec<_>>()
        };
        self.rings.iter().flat_map(counted).collect()
    }

    /// Ends recording; records made before can still be drained.
    pub fn detach(&mut self) {
        // Events of returns are disabled last.
        let whole_until = Some(now_ns());
        self.tree.pairings.iter_mut().for_each(|pairing| pairing.whole_until = whole_until);
        for rings in &mut self.rings {
            rings.disable();
        }
        self.detached = true;
    }

    /// Gives up a stream; false if it was not recorded.
    pub fn shed(&mut self, stream: Stream) -> bool {
        // Without its few calls the rest of `maps` would cost as much as with them.
        let alone = |kind: Kind| kind != Kind::Calls(Purpose::Maps);
        let mine = |rings: &Rings| rings.kind.stream() == Some(stream) && alone(rings.kind);
        let found = self.rings.iter_mut().filter(|rings| mine(rings)).map(Rings::disable).count();
        self.tree.pairings[Purpose::Calls as usize].shed |= found > 0 && stream == Stream::Syscalls;
        found > 0
    }
}

/// CLOCK_MONOTONIC, ns.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The tracepoints of the calls wanted.
fn tracepoints_of(wanted: Option<&[CallInfo]>) -> Result<CallTracepoints, String> {
    let wanted = wanted.ok_or("they are not to be recorded")?;
    let mut tracepoints = CallTracepoints::find()?;
    if wanted.len() < pagelab_vocab::syscalls::all().len() {
        tracepoints.narrow(&wanted.iter().map(|info| info.nr).collect::<Vec<_>>());
    }
    Ok(tracepoints)
}

/// `kernel.perf_event_paranoid`; empty if it cannot be read.
fn paranoid() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    text.trim().to_owned()
}

/// Why the tracepoints of system calls cannot be opened where other events can.
fn calls_in_words(error: &io::Error) -> String {
    let help = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "kernel.perf_event_paranoid at most 1, or CAP_PERFMON; try: sudo pagelab record --observe syscalls ..."
        }
        errno => remedies::needed(
            errno,
            Place::PerfEvent,
            "a kernel with CONFIG_FTRACE_SYSCALLS; look: ls /sys/kernel/tracing/events/raw_syscalls",
        ),
    };
    let paranoid = paranoid();
    format!(
        "tracepoints raw_syscalls:sys_enter and sys_exit: {error}; found kernel.perf_event_paranoid = {paranoid}; needed: {help}"
    )
}

/// What the kernel's answer means here, and what would help.
fn in_words(error: &io::Error) -> String {
    let paranoid = paranoid();
    let help = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) if paranoid.parse::<i32>().is_ok_and(|level| level > 2) => {
            "at most 2, or CAP_PERFMON; try: sudo sysctl kernel.perf_event_paranoid=2"
        }
        Some(libc::EACCES | libc::EPERM | libc::ENOSYS) if process::is_filtered() => process::FILTER_NEEDED,
        errno => remedies::needed(
            errno,
            Place::PerfEvent,
            "a kernel with CONFIG_PERF_EVENTS, and processes of this user; look: cat /proc/sys/kernel/perf_event_paranoid",
        ),
    };
    format!("perf_event_open: {error}; found kernel.perf_event_paranoid = {paranoid}; needed: {help}")
}
