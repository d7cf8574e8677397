//! Opens the probes that the streams need, and keeps account of what each one could and could not do.
//!
//! How to add a probe: implement [`Watcher`] in a file of its own beside this one, and name it in [`WATCHERS`].

mod block;
mod counters;
mod dax;
mod khugepaged;
mod regions;
mod stacks;
mod watcher;

use std::os::fd::{AsFd, BorrowedFd};

use pagelab_observe::bpf::{BpfError, Cgroup, Members, Observer, ObserverOptions};
use pagelab_observe::details::FaultDetails;
use pagelab_observe::streams::Stream;
use pagelab_recording::{Probe, ProbeState};

pub use stacks::push_off_cpu;
pub use watcher::{Count, Scope, Watched, Watcher};

use crate::options::{SessionError, SessionOptions, Target};
use crate::subject::Subject;

/// Streams that the BPF observer fills.
const OBSERVED: [Stream; 5] = [Stream::Tasks, Stream::Faults, Stream::Maps, Stream::Syscalls, Stream::Sched];

/// Makes a probe; the reason in words if it cannot be had.
type Open = fn(&SessionOptions) -> Result<Box<dyn Watcher>, String>;

/// Which probe fills which streams.
struct WatcherDef {
    streams: &'static [Stream],
    /// It finds the recorded tree through the observer, which is loaded for it.
    needs_tree: bool,
    /// It must know the mappings of the recorded address spaces.
    needs_maps: bool,
    open: Open,
}

/// Every probe beside the observer.
const WATCHERS: &[WatcherDef] = &[
    WatcherDef { streams: stacks::STREAMS, needs_tree: true, needs_maps: true, open: stacks::open },
    WatcherDef { streams: counters::STREAMS, needs_tree: false, needs_maps: false, open: counters::open },
    WatcherDef { streams: block::STREAMS, needs_tree: true, needs_maps: false, open: block::open },
    WatcherDef { streams: regions::STREAMS, needs_tree: false, needs_maps: false, open: regions::open },
    WatcherDef { streams: dax::STREAMS, needs_tree: true, needs_maps: false, open: dax::open },
    WatcherDef { streams: khugepaged::STREAMS, needs_tree: true, needs_maps: false, open: khugepaged::open },
];

/// The probes of a session.
pub struct Probes {
    /// The BPF observer, if any of its streams was asked for and the kernel took it.
    pub observer: Option<Observer>,
    /// How faults end, if they are recorded and the kernel took it.
    pub fault_details: Result<FaultDetails, String>,
    /// All others that were asked for and could be opened.
    pub watchers: Vec<Box<dyn Watcher>>,
    /// One entry per stream asked for.
    pub states: Vec<Probe>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

fn active(stream: Stream, rung: &str) -> Probe {
    Probe { name: stream.name().into(), state: ProbeState::Active, rung: Some(rung.into()), ..Probe::default() }
}

fn refused(stream: Stream, reason: String, fix: Option<String>) -> Probe {
    Probe { name: stream.name().into(), state: ProbeState::Refused, reason: Some(reason), fix, ..Probe::default() }
}

fn wanted(options: &SessionOptions, def: &WatcherDef) -> bool {
    if def.streams == stacks::STREAMS {
        return stacks::wanted(options);
    }
    def.streams.iter().any(|stream| options.streams.contains(*stream))
}

/// Which tasks the observer is to record.
fn members(options: &SessionOptions) -> Result<Members, String> {
    Ok(match &options.target {
        // A command that has run for a while is found, with what it has forked meanwhile.
        Target::Command(_) | Target::Job(_) if options.skip.is_some() => Members::Processes { descendants: true },
        Target::Command(_) | Target::Job(_) => Members::Started,
        Target::Processes(_) => Members::Processes { descendants: false },
        Target::Cgroup(path) => Members::Cgroup(Cgroup::open(path)?),
        Target::System => Members::All,
    })
}

/// Makes the target's tasks members.
fn enrol(
    observer: &mut Observer,
    scope: &Scope<'_>,
    processes: &[(u32, BorrowedFd<'_>)],
    attach: bool,
) -> Result<(), BpfError> {
    if attach {
        observer.attach()?;
    }
    match scope {
        Scope::Tree => processes.iter().try_for_each(|(_, pidfd)| observer.adopt(*pidfd))?,
        Scope::Processes(running) => running.iter().try_for_each(|(_, pidfd)| observer.want(*pidfd))?,
        Scope::Cgroup(_) | Scope::System => {}
    }
    observer.find().map(drop)
}

impl Probes {
    /// Tries every stream asked for. A stream asked for by name and refused is an error, unless best effort will do.
    pub fn open(options: &SessionOptions) -> Result<Self, SessionError> {
        let mut probes = Self {
            observer: None,
            fault_details: Err("no faults are recorded".to_owned()),
            watchers: Vec::new(),
            states: Vec::new(),
            warnings: Vec::new(),
        };
        let bpf_error = probes.open_observer(options).err();
        let watcher_errors = probes.open_watchers(options, bpf_error.as_ref());
        for stream in options.streams.iter() {
            let watcher_error = watcher_errors.iter().find(|(streams, _)| streams.contains(&stream));
            let watcher = probes.watchers.iter().find(|watcher| watcher.streams().contains(&stream));
            let state = match (&bpf_error, watcher_error, watcher) {
                (Some(error), ..) if OBSERVED.contains(&stream) => {
                    refused(stream, error.clone(), Some(format!("sudo pagelab record --observe {stream} ...")))
                }
                _ if OBSERVED.contains(&stream) => active(stream, "bpf"),
                (_, Some((_, error)), _) => refused(stream, error.clone(), None),
                (_, None, Some(watcher)) => active(stream, watcher.rung()),
                _ => active(stream, "procfs"),
            };
            probes.states.push(state.clone());
            probes.judge(options, stream, &state)?;
        }
        Ok(probes)
    }

    /// A refusal is an error where the stream was named, else a warning.
    fn judge(&mut self, options: &SessionOptions, stream: Stream, state: &Probe) -> Result<(), SessionError> {
        let Some(reason) = &state.reason else { return Ok(()) };
        if options.streams.names(stream) && !options.best_effort {
            return Err(SessionError::StreamRefused { stream: stream.name(), reason: reason.clone() });
        }
        // That a part of `default` is not for this kernel is no news on every run.
        if !stream.only_where_possible() || options.streams.names(stream) {
            self.warnings.push(format!("{stream} not recorded: {reason}"));
        }
        Ok(())
    }

    fn open_observer(&mut self, options: &SessionOptions) -> Result<(), String> {
        let needed_by = |need: fn(&WatcherDef) -> bool| WATCHERS.iter().any(|def| wanted(options, def) && need(def));
        let observed = OBSERVED.iter().any(|stream| options.streams.contains(*stream));
        if !observed && !needed_by(|def| def.needs_tree || def.needs_maps) {
            return Ok(());
        }
        let wanted = ObserverOptions {
            ring_bytes_per_cpu: options.ring_bytes_per_cpu,
            counting_only: false,
            faults: options.streams.contains(Stream::Faults),
            maps: options.streams.contains(Stream::Maps) || needed_by(|def| def.needs_maps),
            calls: options.streams.contains(Stream::Syscalls).then(|| options.shapes().infos()),
            sched: options.streams.contains(Stream::Sched),
            off_stacks: options.streams.off_stacks().then(|| stacks::off_stack_options(options)),
            call_ring_bytes_per_cpu: 2 * options.ring_bytes_per_cpu,
            members: members(options)?,
        };
        let mut observer = self.load(wanted).map_err(|error| error.to_string())?;
        observer.attach().map_err(|error| error.to_string())?;
        if options.skip.is_some() {
            // It can be had; until its time comes it shall cost nothing.
            observer.detach();
        }
        self.observer = Some(observer);
        self.open_details(options);
        Ok(())
    }

    /// Loads the observer; without the stacks of sleeping tasks if that is what the kernel refuses.
    fn load(&mut self, wanted: ObserverOptions) -> Result<Observer, BpfError> {
        let without = wanted.off_stacks.is_some().then(|| ObserverOptions { off_stacks: None, ..wanted.clone() });
        Observer::load(wanted).or_else(|error| {
            let observer = without.and_then(|without| Observer::load(without).ok());
            let Some(observer) = observer else { return Err(error) };
            self.warnings.push(format!("sched is recorded without stacks: {error}"));
            Ok(observer)
        })
    }

    /// That it cannot be said how faults end is no reason not to record them.
    fn open_details(&mut self, options: &SessionOptions) {
        let Some(observer) = self.observer.as_ref().filter(|_| options.streams.contains(Stream::Faults)) else {
            return;
        };
        self.fault_details = match options.fault_details {
            0 => Err("it was not asked for (--fault-details 0)".to_owned()),
            one_in => {
                let opened = FaultDetails::open(observer, one_in).map_err(|error| error.to_string());
                if let Err(reason) = &opened {
                    self.warnings.push(format!("how faults end is not recorded: {reason}"));
                }
                opened
            }
        };
    }

    /// Opens what the streams need; gives the reasons for those that could not be.
    fn open_watchers(
        &mut self,
        options: &SessionOptions,
        bpf_error: Option<&String>,
    ) -> Vec<(&'static [Stream], String)> {
        let mut errors = Vec::new();
        for def in WATCHERS.iter().filter(|def| wanted(options, def)) {
            let opened = match bpf_error {
                Some(error) if def.needs_tree => Err(error.clone()),
                _ => (def.open)(options),
            };
            match opened {
                Ok(watcher) => self.watchers.push(watcher),
                Err(error) => errors.push((def.streams, error)),
            }
        }
        errors
    }

    /// Attaches the probes to the target, at its gate or running. One that cannot be attached is refused after all.
    pub fn begin(&mut self, options: &SessionOptions, subject: &Subject) -> Result<(), SessionError> {
        let processes = subject.processes();
        let scope = subject.scope(&processes, options.skip.is_some());
        if let Some(observer) = &mut self.observer {
            enrol(observer, &scope, &processes, options.skip.is_some())
                .map_err(|error| SessionError::StreamRefused { stream: "tasks", reason: error.to_string() })?;
        }
        if let Ok(details) = &mut self.fault_details
            && let Err(error) = details.attach()
        {
            self.warnings.push(format!("how faults end is not recorded: {error}"));
            self.fault_details = Err(error.to_string());
        }
        let mut watchers = std::mem::take(&mut self.watchers);
        let task_states = self.observer.as_ref().map(Observer::task_states);
        let own = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty())
            .map_err(|error| SessionError::System { step: "pidfd_open", error: error.into() })?;
        let (pid, pidfd) = processes.first().copied().unwrap_or((0, own.as_fd()));
        let watched = Watched { scope, pid, pidfd, task_states, observer: self.observer.as_ref() };
        let mut failed: Vec<(Stream, String)> = Vec::new();
        watchers.retain_mut(|watcher| {
            let begun = watcher.takes(&scope).and_then(|()| watcher.begin(&watched));
            failed.extend_from_slice(watcher.lacks());
            begun
                .map_err(|reason| failed.extend(watcher.streams().iter().map(|stream| (*stream, reason.clone()))))
                .is_ok()
        });
        self.watchers = watchers;
        for (stream, reason) in failed.into_iter().filter(|(stream, _)| options.streams.contains(*stream)) {
            let state = refused(stream, reason, None);
            self.judge(options, stream, &state)?;
            if let Some(known) = self.states.iter_mut().find(|known| known.name == state.name) {
                *known = state;
            }
        }
        Ok(())
    }

    /// Detaches what a stream costs; false if it cannot be had without, or is gone already.
    pub fn shed(&mut self, stream: &str) -> bool {
        let Some(stream) = Stream::all().find(|known| known.name() == stream) else { return false };
        if let (Stream::Faults, Ok(details)) = (stream, &mut self.fault_details) {
            details.detach();
        }
        let observed = self.observer.as_mut().is_some_and(|observer| observer.shed(stream));
        observed || self.watchers.iter_mut().any(|watcher| watcher.streams().contains(&stream) && watcher.shed(stream))
    }

    /// Says of a stream that it was given up on the way.
    pub fn note_shed(&mut self, stream: &str, ts: i64, reason: &str) {
        tracing::warn!("{stream} is not recorded any more: {reason}");
        self.warnings.push(format!("{stream} was recorded only at first: {reason}"));
        for state in self.states.iter_mut().filter(|state| state.name == stream) {
            state.extra.insert("shed_at_ns".to_owned(), ts.into());
            state.extra.insert("shed_because".to_owned(), reason.into());
        }
    }

    /// Writes the final counts into the states.
    pub fn count_events(&mut self) {
        let mut counted: Vec<Count> = self.watchers.iter().flat_map(|watcher| watcher.counts()).collect();
        if let Some(observer) = &self.observer {
            let (faults, events) = (observer.rings().total(), observer.event_counts());
            let calls = observer.call_rings().total();
            // Tasks and mappings share one ring buffer and one pair of counts.
            for (stream, seen, lost) in [
                (Stream::Faults, faults.seen(), faults.lost),
                (Stream::Syscalls, calls.returned, calls.lost),
                (Stream::Sched, calls.off_seen, calls.off_lost),
                (Stream::Tasks, events.seen, events.lost),
                (Stream::Maps, events.seen, events.lost),
            ] {
                counted.push(Count { stream: stream.name(), cpu: None, seen, lost, filtered: 0 });
            }
        }
        for state in self.states.iter_mut().filter(|state| state.state == ProbeState::Active) {
            let mine = || counted.iter().filter(|count| count.stream == state.name);
            if mine().next().is_some() {
                state.events_seen = Some(mine().map(|count| count.seen - count.filtered).sum());
                state.events_lost = Some(mine().map(|count| count.lost).sum());
            }
        }
    }
}
