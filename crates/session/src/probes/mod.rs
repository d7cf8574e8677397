//! Opens the probes that the streams need, and keeps account of what each one could and could not do.

mod rungs;

use std::os::fd::AsFd;

use pagelab_observe::bpf::{BpfWatcher, Cgroup, Members};
use pagelab_observe::perf::{PerfObserver, PerfWatcher, Taken, not_by_perf};
use pagelab_observe::streams::Stream;
use pagelab_observe::tree::Tree;
use pagelab_observe::watcher::{AttachTo, Count, ProbeOptions, Watcher};
use pagelab_observe::watchers::{WATCHERS, WatcherDef, maps_of_procfs};
use pagelab_recording::{Probe, ProbeState};

use rungs::Missing;

use crate::fallbacks::Rung;
use crate::options::{SessionError, SessionOptions, Target};
use crate::subject::Subject;

/// What a probe's state has when its stream was given up on the way.
const SHED_BECAUSE: &str = "shed_because";

/// The probes of a session.
pub(crate) struct Probes {
    /// What follows the recorded tree, if a stream asked for needs it and the kernel gives it.
    pub tree: Option<Tree>,
    /// All others that were asked for and could be opened.
    pub watchers: Vec<Box<dyn Watcher>>,
    /// One entry per stream asked for.
    pub states: Vec<Probe>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// Somebody looks on.
    pub are_watched: bool,
}

fn active(stream: Stream, rung: &str) -> Probe {
    Probe { name: stream.name().into(), state: ProbeState::Active, rung: Some(rung.into()), ..Probe::default() }
}

fn refused(stream: Stream, reason: String, fix: Option<String>) -> Probe {
    Probe { name: stream.name().into(), state: ProbeState::Refused, reason: Some(reason), fix, ..Probe::default() }
}

/// Which tasks the observer is to record.
fn members(options: &SessionOptions) -> Result<Members, String> {
    Ok(match &options.target {
        // A command that has run for a while is found, with the children forked meanwhile.
        Target::Command(_) | Target::Job(_) if options.skip.is_some() => Members::Processes { descendants: true },
        Target::Command(_) | Target::Job(_) => Members::Started,
        Target::Processes(_) => Members::Processes { descendants: false },
        Target::Cgroup(path) => Members::Cgroup(Cgroup::open(path)?),
        Target::System => Members::All,
    })
}

impl Probes {
    /// Tries every stream asked for. A stream asked for by name and refused is an error, unless best effort will do.
    pub(crate) fn open(options: &SessionOptions) -> Result<Self, SessionError> {
        let mut probes =
            Self { tree: None, watchers: Vec::new(), states: Vec::new(), warnings: Vec::new(), are_watched: false };
        let wanted = options.for_probes();
        let bpf = probes.open_bpf(options, &wanted).err().map(rungs::with_filter);
        let mut missing = Missing { bpf, ..Missing::default() };
        if missing.bpf.is_some() {
            missing.perf = probes.open_perf(options, &wanted).err();
            missing.calls = probes.perf().and_then(PerfObserver::calls_refused).map(str::to_owned);
        }
        let watcher_errors = probes.open_watchers(&wanted, &missing);
        for stream in options.streams.iter() {
            let watcher_error = watcher_errors.iter().find(|(streams, _)| streams.contains(&stream));
            let watcher = probes.watchers.iter().find(|watcher| watcher.streams().contains(&stream));
            let climbs =
                BpfWatcher::STREAMS.contains(&stream) || WATCHERS.iter().any(|def| def.needs_tree && def.fills(stream));
            let state = match (watcher_error, watcher) {
                _ if BpfWatcher::STREAMS.contains(&stream) => missing.state(stream),
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

    fn open_bpf(&mut self, options: &SessionOptions, wanted: &ProbeOptions) -> Result<(), String> {
        let needs_maps = |def: &WatcherDef| (def.needs_maps)(wanted);
        let needed_by =
            |need: &dyn Fn(&WatcherDef) -> bool| WATCHERS.iter().any(|def| def.is_wanted(wanted) && need(def));
        let observed = BpfWatcher::STREAMS.iter().any(|stream| options.streams.contains(*stream));
        if !observed && !needed_by(&|def| def.needs_tree || needs_maps(def)) {
            return Ok(());
        }
        let watcher = BpfWatcher::open(wanted, members(options)?, needed_by(&needs_maps));
        let mut watcher = watcher.map_err(|error| error.to_string())?;
        self.warnings.extend(watcher.take_warnings());
        self.tree = Some(Tree::Bpf(Box::new(watcher)));
        Ok(())
    }

    /// The perf observer, which takes the place of the BPF observer.
    fn open_perf(&mut self, options: &SessionOptions, wanted: &ProbeOptions) -> Result<(), String> {
        if !PerfWatcher::STREAMS.iter().any(|stream| options.streams.contains(*stream)) {
            return Ok(());
        }
        match &options.target {
            Target::Command(_) | Target::Job(_) | Target::Processes(_) => {}
            Target::Cgroup(_) => return Err(not_by_perf("a cgroup")),
            Target::System => return Err(not_by_perf("the whole system")),
        }
        self.tree = Some(Tree::Perf(Box::new(PerfWatcher::open(wanted)?)));
        Ok(())
    }

    /// The perf observer, where it follows the tree.
    fn perf(&self) -> Option<&PerfObserver> {
        self.tree.as_ref().and_then(Tree::perf)
    }

    /// Opens what the streams need; gives the reasons for those that could not be.
    fn open_watchers(&mut self, options: &ProbeOptions, missing: &Missing) -> Vec<(&'static [Stream], String)> {
        let mut errors = Vec::new();
        if missing.perf.is_some() && options.streams.contains(Stream::Maps) {
            self.watchers.push(maps_of_procfs());
        }
        for def in WATCHERS.iter().filter(|def| def.is_wanted(options)) {
            let opened = match (&missing.bpf, def.by_perf) {
                (Some(_), Some(open)) if self.perf().is_some() => open(options),
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

    /// Adds one of somebody who looks on, behind all others; it fills no stream.
    pub(crate) fn watch(&mut self, watcher: Box<dyn Watcher>) {
        self.are_watched = true;
        self.watchers.push(watcher);
    }

    /// Attaches the probes to the target, at its gate or running. One that cannot be attached is refused after all.
    pub(crate) fn begin(&mut self, options: &SessionOptions, subject: &Subject) -> Result<(), SessionError> {
        let processes = subject.processes();
        let scope = subject.scope(&processes, options.skip.is_some());
        let own = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty())
            .map_err(|error| SessionError::System { step: "pidfd_open", error: error.into() })?;
        let (pid, pidfd) = processes.first().copied().unwrap_or((0, own.as_fd()));
        let mut target = AttachTo { scope, pid, pidfd, observer: None, perf_event: None };
        self.begin_tree(options, &target)?;
        let mut watchers = std::mem::take(&mut self.watchers);
        target.observer = self.tree.as_ref().and_then(Tree::observer);
        target.perf_event = self.tree.as_ref().and_then(Tree::perf).map(PerfObserver::event);
        let states = &mut self.states;
        let mut failed: Vec<(Stream, String)> = Vec::new();
        watchers.retain_mut(|watcher| {
            let begun = watcher.takes(&scope).and_then(|()| watcher.begin(&target));
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

    /// Attaches what follows the tree. Without BPF, once it could be loaded, nothing can be recorded; perf events leave the rest.
    fn begin_tree(&mut self, options: &SessionOptions, target: &AttachTo<'_>) -> Result<(), SessionError> {
        match &mut self.tree {
            None => Ok(()),
            Some(Tree::Bpf(watcher)) => {
                let begun = watcher.begin(target);
                self.warnings.extend(watcher.take_warnings());
                begun.map_err(|reason| SessionError::StreamRefused { stream: "tasks", reason })
            }
            Some(Tree::Perf(watcher)) => {
                let begun = watcher.takes(&target.scope).and_then(|()| watcher.begin(target));
                let Err(reason) = begun else {
                    let calls = watcher.observer().calls_refused().map(str::to_owned);
                    return calls.map_or(Ok(()), |reason| self.refuse_calls(options, &reason));
                };
                self.tree = None;
                self.refuse(options, PerfWatcher::STREAMS, &reason)
            }
        }
    }

    /// Perf gives no system calls after all.
    fn refuse_calls(&mut self, options: &SessionOptions, reason: &str) -> Result<(), SessionError> {
        let active = |state: &Probe| state.name == Stream::Syscalls.name() && state.state == ProbeState::Active;
        if !self.states.iter().any(active) {
            return Ok(());
        }
        self.refuse(options, &[Stream::Syscalls], reason)
    }

    /// Tasks whose events the kernel took away from perf's observer.
    pub(crate) fn taken(&self) -> &[Taken] {
        self.perf().map_or(&[], PerfObserver::taken)
    }

    /// Says of perf's streams that the kernel took events away, and gives that in words; none if it did not. A stream that has nothing
    /// is refused after all.
    pub(crate) fn note_taken(&mut self) -> Option<String> {
        let taken = self.taken();
        let reason = rungs::taken_in_words(taken)?;
        let from_the_start = taken.iter().any(|one| one.is_child);
        for state in self.states.iter_mut().filter(|state| state.state == ProbeState::Active) {
            if state.rung.as_deref() != Some(Rung::Perf.name()) {
                continue;
            }
            let has_nothing = match state.events_seen.zip(state.events_lost) {
                Some((seen, lost)) => seen <= lost,
                // Counts stand still from then on.
                None => from_the_start && state.name == Stream::Counters.name(),
            };
            if has_nothing {
                (state.state, state.reason) = (ProbeState::Refused, Some(reason.clone()));
            } else {
                state.extra.insert("taken_away_because".to_owned(), reason.as_str().into());
            }
        }
        Some(reason)
    }

    /// Notes what perf's observer does not see because it may see user mode only.
    fn note_user_only(&mut self) {
        if !self.perf().is_some_and(PerfObserver::user_only) {
            return;
        }
        let mine = |state: &&mut Probe| state.name == Stream::Faults.name() || state.name == Stream::Cpu.name();
        for state in self.states.iter_mut().filter(mine).filter(|state| state.rung.as_deref() == Some("perf")) {
            state.extra.insert("user_mode_only".to_owned(), true.into());
        }
    }

    /// Notes why perf's observer does not see those mapping actions that only tracepoints report.
    fn note_actions(&mut self) {
        let perf = self.tree.as_ref().and_then(Tree::perf);
        let Some(reason) = perf.and_then(PerfObserver::actions_refused) else { return };
        let mine = |state: &&mut Probe| state.name == Stream::Maps.name() && state.rung.as_deref() == Some("perf");
        for state in self.states.iter_mut().filter(mine) {
            state.extra.insert("areas_only_because".to_owned(), reason.into());
        }
    }

    /// Nothing reports tasks: neither BPF nor perf events are available, or not requested.
    pub(crate) fn are_alone(&self) -> bool {
        self.tree.is_none()
    }

    /// All probes, what follows the tree first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &dyn Watcher> {
        self.tree.iter().map(Tree::watcher).chain(self.watchers.iter().map(|watcher| &**watcher))
    }

    /// The same, to be called.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut dyn Watcher> {
        let others = self.watchers.iter_mut().map(|watcher| &mut **watcher as &mut dyn Watcher);
        self.tree.iter_mut().map(Tree::watcher_mut).chain(others)
    }

    /// What all of them have counted so far.
    pub(crate) fn count(&self, counts: &mut Vec<Count>) {
        counts.clear();
        self.all().for_each(|watcher| watcher.count(counts));
    }

    /// Detaches what a stream costs; false if it cannot be had without, or is gone already.
    pub(crate) fn shed(&mut self, stream: &str) -> bool {
        let Some(stream) = Stream::all().find(|known| known.name() == stream) else { return false };
        let gone = |state: &Probe| state.name == stream.name() && state.extra.contains_key(SHED_BECAUSE);
        if self.states.iter().any(gone) {
            return false;
        }
        let by_tree = self.tree.as_mut().is_some_and(|tree| tree.watcher_mut().shed(stream));
        by_tree || self.watchers.iter_mut().any(|watcher| watcher.streams().contains(&stream) && watcher.shed(stream))
    }

    /// Says of a stream that it was given up on the way.
    pub(crate) fn note_shed(&mut self, stream: &str, ts: i64, reason: &str) {
        tracing::warn!("{stream} is not recorded any more: {reason}");
        self.warnings.push(format!("{stream} was recorded only at first: {reason}"));
        for state in self.states.iter_mut().filter(|state| state.name == stream) {
            state.extra.insert("shed_at_ns".to_owned(), ts.into());
            state.extra.insert(SHED_BECAUSE.to_owned(), reason.into());
        }
    }

    /// Writes the final counts into the states.
    pub(crate) fn count_events(&mut self) {
        let mut counts = Vec::new();
        self.count(&mut counts);
        for state in self.states.iter_mut().filter(|state| state.state == ProbeState::Active) {
            let mine = || counts.iter().filter(|count| count.is_of(&state.name));
            if mine().next().is_some() {
                state.events_seen = Some(mine().map(|count| count.seen - count.filtered).sum());
                state.events_lost = Some(mine().map(|count| count.lost).sum());
            }
        }
    }
}
