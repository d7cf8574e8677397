//! Opens the probes that the streams need, and keeps account of what each one could and could not do.
//!
//! How to add a probe: implement [`Watcher`] in a file of its own beside this one, and name it in [`WATCHERS`].

mod block;
mod counters;
mod dax;
mod khugepaged;
mod maps;
mod regions;
mod rungs;
mod stacks;
mod watcher;

use std::os::fd::{AsFd, BorrowedFd};

use pagelab_observe::bpf::{BpfError, Cgroup, Members, Observer, ObserverOptions};
use pagelab_observe::details::FaultDetails;
use pagelab_observe::perf::{PerfObserver, PerfOptions, PerfTarget};
use pagelab_observe::streams::Stream;
use pagelab_recording::{Probe, ProbeState};

use rungs::Missing;
pub use stacks::push_off_cpu;
pub use watcher::{Count, Scope, Watched, Watcher};

use crate::options::{SessionError, SessionOptions, Target};
use crate::subject::{Subject, has_ended};

/// Streams that the BPF observer fills.
const OBSERVED: [Stream; 5] = [Stream::Tasks, Stream::Faults, Stream::Maps, Stream::Syscalls, Stream::Sched];

/// Streams that the perf observer fills where BPF is not to be had.
const BY_PERF: [Stream; 5] = [Stream::Tasks, Stream::Faults, Stream::Maps, Stream::Syscalls, Stream::Cpu];

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
    /// What takes its place where the tree is told by the perf observer.
    by_perf: Option<Open>,
}

/// Every probe beside the observer.
const WATCHERS: &[WatcherDef] = &[
    WatcherDef {
        streams: stacks::STREAMS,
        needs_tree: true,
        needs_maps: true,
        open: stacks::open,
        by_perf: Some(stacks::open_by_perf),
    },
    WatcherDef {
        streams: counters::STREAMS,
        needs_tree: false,
        needs_maps: false,
        open: counters::open,
        by_perf: None,
    },
    WatcherDef { streams: block::STREAMS, needs_tree: true, needs_maps: false, open: block::open, by_perf: None },
    WatcherDef { streams: regions::STREAMS, needs_tree: false, needs_maps: false, open: regions::open, by_perf: None },
    WatcherDef { streams: dax::STREAMS, needs_tree: true, needs_maps: false, open: dax::open, by_perf: None },
    WatcherDef {
        streams: khugepaged::STREAMS,
        needs_tree: true,
        needs_maps: false,
        open: khugepaged::open,
        by_perf: None,
    },
];

/// What a probe's state has when its stream was given up on the way.
const SHED_BECAUSE: &str = "shed_because";

/// The probes of a session.
pub struct Probes {
    /// The BPF observer, if any of its streams was asked for and the kernel took it.
    pub observer: Option<Observer>,
    /// How faults end, if they are recorded and the kernel took it.
    pub fault_details: Result<FaultDetails, String>,
    /// The perf observer, if the kernel did not take the BPF observer and gives perf events.
    pub perf: Option<PerfObserver>,
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

impl WatcherDef {
    fn fills(&self, stream: Stream) -> bool {
        self.streams.contains(&stream)
    }
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
    let mut wanted = 0;
    match scope {
        Scope::Tree => processes.iter().try_for_each(|(_, pidfd)| observer.adopt(*pidfd))?,
        Scope::Processes(running) => {
            // One that has ended since it was found is missed like those that had ended before.
            let mut refused = None;
            for (_, pidfd) in *running {
                match observer.want(*pidfd) {
                    Err(error) if has_ended(*pidfd, std::time::Duration::ZERO) => refused = Some(error),
                    other => other.map(|()| wanted += 1)?,
                }
            }
            if let (0, Some(error)) = (wanted, refused) {
                return Err(error);
            }
        }
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
            perf: None,
            watchers: Vec::new(),
            states: Vec::new(),
            warnings: Vec::new(),
        };
        let bpf = probes.open_observer(options).err().map(rungs::with_filter);
        let mut missing = Missing { bpf, ..Missing::default() };
        if missing.bpf.is_some() {
            missing.perf = probes.open_perf(options).err();
            missing.calls = probes.perf.as_ref().and_then(PerfObserver::calls_refused).map(str::to_owned);
        }
        let watcher_errors = probes.open_watchers(options, &missing);
        for stream in options.streams.iter() {
            let watcher_error = watcher_errors.iter().find(|(streams, _)| streams.contains(&stream));
            let watcher = probes.watchers.iter().find(|watcher| watcher.streams().contains(&stream));
            let climbs = OBSERVED.contains(&stream) || WATCHERS.iter().any(|def| def.needs_tree && def.fills(stream));
            let state = match (watcher_error, watcher) {
                _ if OBSERVED.contains(&stream) => missing.state(stream),
                (Some((_, error)), _) => refused(stream, error.clone(), None),
                (None, Some(watcher)) if climbs => missing.active_on(stream, watcher.rung()),
                (None, Some(watcher)) => active(stream, watcher.rung()),
                _ => active(stream, "procfs"),
            };
            probes.states.push(state.clone());
            probes.judge(options, stream, &state)?;
        }
        probes.note_user_only();
        probes.note_actions();
        probes.warnings.splice(0..0, missing.in_words(&probes.states));
        Ok(probes)
    }

    /// A refusal is an error where the stream was named, else a warning.
    fn judge(&mut self, options: &SessionOptions, stream: Stream, state: &Probe) -> Result<(), SessionError> {
        let Some(reason) = state.reason.as_ref().filter(|_| state.state == ProbeState::Refused) else { return Ok(()) };
        if options.streams.names(stream) && !options.best_effort {
            return Err(SessionError::StreamRefused { stream: stream.name(), reason: reason.clone() });
        }
        // That a part of `default` is not for this kernel is no news on every run.
        if !stream.only_where_possible() || options.streams.names(stream) {
            // What is refused for one reason is said in one line.
            let tail = format!(" not recorded: {reason}");
            match self.warnings.iter_mut().find(|said| said.ends_with(&tail)) {
                Some(said) => said.insert_str(said.len() - tail.len(), &format!(", {stream}")),
                None => self.warnings.push(format!("{stream}{tail}")),
            }
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
            begin_at_entry: false,
            calls: options.streams.contains(Stream::Syscalls).then(|| options.shapes().infos()),
            sched: options.streams.contains(Stream::Sched),
            stacks: stacks::task_stack_options(options),
            call_ring_bytes_per_cpu: 2 * options.ring_bytes_per_cpu,
            members: members(options)?,
            names_sent_before: 0,
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

    /// Loads the observer; without stacks if that is what the kernel refuses.
    fn load(&mut self, wanted: ObserverOptions) -> Result<Observer, BpfError> {
        let without = wanted.stacks.is_some().then(|| ObserverOptions { stacks: None, ..wanted.clone() });
        Observer::load(wanted).or_else(|error| {
            let observer = without.and_then(|without| Observer::load(without).ok());
            let Some(observer) = observer else { return Err(error) };
            self.warnings.push(format!("waits and mapping calls are recorded without stacks: {error}"));
            Ok(observer)
        })
    }

    /// That it cannot be said how faults end is no reason not to record them.
    fn open_details(&mut self, options: &SessionOptions) {
        let Some(observer) = self.observer.as_ref().filter(|_| options.streams.contains(Stream::Faults)) else {
            return;
        };
        self.fault_details = FaultDetails::open(observer, options.fault_details).map_err(|error| error.to_string());
        if let Err(reason) = &self.fault_details {
            self.warnings.push(format!("how faults end is not recorded: {reason}"));
        }
    }

    /// The perf observer, which takes the place of the BPF observer.
    fn open_perf(&mut self, options: &SessionOptions) -> Result<(), String> {
        let wants = |stream: Stream| options.streams.contains(stream);
        if !BY_PERF.into_iter().any(wants) {
            return Ok(());
        }
        match &options.target {
            Target::Command(_) | Target::Job(_) | Target::Processes(_) => {}
            Target::Cgroup(_) => return Err(rungs::not_by_perf("a cgroup")),
            Target::System => return Err(rungs::not_by_perf("the whole system")),
        }
        let wanted = PerfOptions {
            faults: wants(Stream::Faults),
            profile: wants(Stream::Cpu).then_some((options.frequency(), options.unwinding)),
            calls: wants(Stream::Syscalls).then(|| options.shapes().infos()),
            map_actions: wants(Stream::Maps),
            ring_bytes_per_cpu: options.ring_bytes_per_cpu,
        };
        self.perf = Some(PerfObserver::open(wanted)?);
        Ok(())
    }

    /// Opens what the streams need; gives the reasons for those that could not be.
    fn open_watchers(&mut self, options: &SessionOptions, missing: &Missing) -> Vec<(&'static [Stream], String)> {
        let mut errors = Vec::new();
        if missing.perf.is_some() && options.streams.contains(Stream::Maps) {
            self.watchers.push(maps::open());
        }
        for def in WATCHERS.iter().filter(|def| wanted(options, def)) {
            let opened = match (&missing.bpf, def.by_perf) {
                (Some(_), Some(open)) if self.perf.is_some() => open(options),
                (Some(_), _) if def.needs_tree => Err(missing.why(def.by_perf.is_some())),
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
        self.begin_perf(options, &scope, processes.first().map(|(pid, _)| *pid))?;
        let mut watchers = std::mem::take(&mut self.watchers);
        let perf_event = self.perf.as_ref().map(PerfObserver::event);
        let task_states = self.observer.as_ref().map(Observer::task_states);
        let own = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty())
            .map_err(|error| SessionError::System { step: "pidfd_open", error: error.into() })?;
        let (pid, pidfd) = processes.first().copied().unwrap_or((0, own.as_fd()));
        let watched = Watched { scope, pid, pidfd, task_states, observer: self.observer.as_ref(), perf_event };
        let states = &mut self.states;
        let mut failed: Vec<(Stream, String)> = Vec::new();
        watchers.retain_mut(|watcher| {
            let begun = watcher.takes(&scope).and_then(|()| watcher.begin(&watched));
            failed.extend_from_slice(watcher.lacks());
            let mine = |state: &&mut Probe| watcher.streams().iter().any(|stream| stream.name() == state.name);
            for state in states.iter_mut().filter(mine).filter(|state| state.state == ProbeState::Active) {
                state.rung = Some(watcher.rung().to_owned());
            }
            begun
                .map_err(|reason| failed.extend(watcher.streams().iter().map(|stream| (*stream, reason.clone()))))
                .is_ok()
        });
        self.watchers = watchers;
        failed.into_iter().try_for_each(|(stream, reason)| self.refuse(options, &[stream], &reason))
    }

    /// Says of streams that they cannot be had after all.
    fn refuse(&mut self, options: &SessionOptions, streams: &[Stream], reason: &str) -> Result<(), SessionError> {
        for stream in streams.iter().filter(|stream| options.streams.contains(**stream)) {
            let state = refused(*stream, reason.to_owned(), None);
            self.judge(options, *stream, &state)?;
            if let Some(known) = self.states.iter_mut().find(|known| known.name == state.name) {
                *known = state;
            }
        }
        Ok(())
    }

    /// Opens perf's events on the target.
    fn begin_perf(
        &mut self,
        options: &SessionOptions,
        scope: &Scope<'_>,
        first: Option<u32>,
    ) -> Result<(), SessionError> {
        let Some(perf) = &mut self.perf else { return Ok(()) };
        let begun = match scope {
            Scope::Tree => perf.follow(PerfTarget::Child(first.unwrap_or(0))),
            Scope::Processes(running) => {
                let pids: Vec<u32> = running.iter().map(|(pid, _)| *pid).collect();
                perf.follow(PerfTarget::Running(&pids))
            }
            other => Err(rungs::not_by_perf(&other.to_string())),
        };
        let Err(reason) = begun else {
            let calls = perf.calls_refused().map(str::to_owned);
            let active = |state: &&Probe| state.name == Stream::Syscalls.name() && state.state == ProbeState::Active;
            let given = calls.filter(|_| self.states.iter().any(|state| active(&state)));
            return given.map_or(Ok(()), |reason| self.refuse(options, &[Stream::Syscalls], &reason));
        };
        self.perf = None;
        self.refuse(options, &BY_PERF, &reason)
    }

    /// Notes what perf's observer does not see because it may see user mode only.
    fn note_user_only(&mut self) {
        if !self.perf.as_ref().is_some_and(PerfObserver::user_only) {
            return;
        }
        let mine = |state: &&mut Probe| state.name == Stream::Faults.name() || state.name == Stream::Cpu.name();
        for state in self.states.iter_mut().filter(mine).filter(|state| state.rung.as_deref() == Some("perf")) {
            state.extra.insert("user_mode_only".to_owned(), true.into());
        }
    }

    /// Notes why perf's observer does not see those mapping actions that only tracepoints tell of.
    fn note_actions(&mut self) {
        let Some(reason) = self.perf.as_ref().and_then(PerfObserver::actions_refused) else { return };
        let mine = |state: &&mut Probe| state.name == Stream::Maps.name() && state.rung.as_deref() == Some("perf");
        for state in self.states.iter_mut().filter(mine) {
            state.extra.insert("areas_only_because".to_owned(), reason.into());
        }
    }

    /// Nothing tells of tasks: neither BPF nor perf events are to be had, or not asked for.
    pub fn are_alone(&self) -> bool {
        self.observer.is_none() && self.perf.is_none()
    }

    /// The page faults that the BPF observer has seen, unless it does not look for them, or not any more.
    pub fn page_faults(&self) -> Option<u64> {
        let observer = self.observer.as_ref().filter(|observer| observer.sees_faults())?;
        Some(observer.rings().total().seen())
    }

    /// Detaches what a stream costs; false if it cannot be had without, or is gone already.
    pub fn shed(&mut self, stream: &str) -> bool {
        let Some(stream) = Stream::all().find(|known| known.name() == stream) else { return false };
        let gone = |state: &Probe| state.name == stream.name() && state.extra.contains_key(SHED_BECAUSE);
        if self.states.iter().any(gone) {
            return false;
        }
        if let (Stream::Faults, Ok(details)) = (stream, &mut self.fault_details) {
            details.detach();
        }
        let by_perf = self.perf.as_mut().is_some_and(|perf| perf.shed(stream));
        let observed = by_perf || self.observer.as_mut().is_some_and(|observer| observer.shed(stream));
        observed || self.watchers.iter_mut().any(|watcher| watcher.streams().contains(&stream) && watcher.shed(stream))
    }

    /// Says of a stream that it was given up on the way.
    pub fn note_shed(&mut self, stream: &str, ts: i64, reason: &str) {
        tracing::warn!("{stream} is not recorded any more: {reason}");
        self.warnings.push(format!("{stream} was recorded only at first: {reason}"));
        for state in self.states.iter_mut().filter(|state| state.name == stream) {
            state.extra.insert("shed_at_ns".to_owned(), ts.into());
            state.extra.insert(SHED_BECAUSE.to_owned(), reason.into());
        }
    }

    /// What perf's observer has counted, by the names of the streams; tasks and mappings share their records.
    fn perf_counts(&self) -> Vec<Count> {
        let counts = self.perf.as_ref().map(PerfObserver::counts).unwrap_or_default();
        let named = counts.iter().flat_map(|one| {
            let streams = one.stream.map_or(vec![Stream::Tasks, Stream::Maps], |stream| vec![stream]);
            let count = |stream: Stream| Count {
                stream: stream.name(),
                cpu: Some(one.cpu),
                seen: one.seen,
                lost: one.lost,
                filtered: 0,
            };
            streams.into_iter().map(count)
        });
        named.collect()
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
        counted.extend(self.perf_counts());
        for state in self.states.iter_mut().filter(|state| state.state == ProbeState::Active) {
            let mine = || counted.iter().filter(|count| count.stream == state.name);
            if mine().next().is_some() {
                state.events_seen = Some(mine().map(|count| count.seen - count.filtered).sum());
                state.events_lost = Some(mine().map(|count| count.lost).sum());
            }
        }
    }
}
