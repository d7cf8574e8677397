//! The target while it is recorded: a process that the session started, or one that it found running.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use pagelab_load::report::WorkerInterval;
use pagelab_observe::process::has_ended;
use pagelab_observe::watcher::Scope;

use crate::child::Ended;
use crate::found::Found;
use crate::options::SessionError;
use crate::target::Started;

/// A target in the hands of a session.
pub(crate) enum Subject {
    /// Ours: it waits at the gate, has a status in the end, and gets signals.
    Started(Box<Started>),
    /// Somebody else's: it is only looked at.
    Found(Found),
}

impl Subject {
    /// The process whose metrics and settings are the target's.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Started(started) => Some(started.child.pid()),
            Self::Found(found) => found.first_pid(),
        }
    }

    /// Its processes, where they are known one by one.
    pub(crate) fn processes(&self) -> Vec<(u32, BorrowedFd<'_>)> {
        match self {
            Self::Started(started) => vec![(started.child.pid(), started.child.pidfd())],
            Self::Found(found) => found.processes(),
        }
    }

    /// Which tasks belong to it; `processes` are its own.
    pub(crate) fn scope<'a>(&'a self, processes: &'a [(u32, BorrowedFd<'a>)], runs: bool) -> Scope<'a> {
        match self {
            Self::Started(_) if !runs => Scope::Tree,
            Self::Started(_) | Self::Found(Found::Processes(_)) => Scope::Processes(processes),
            Self::Found(Found::Cgroup(looked)) => Scope::Cgroup(&looked.cgroup),
            Self::Found(Found::System) => Scope::System,
        }
    }

    /// Opens the gate, where there is one.
    pub(crate) fn release(&mut self) -> Result<(), SessionError> {
        match self {
            Self::Started(started) => Ok(started.child.release()?),
            Self::Found(_) => Ok(()),
        }
    }

    /// Waits for its end, at most for `time`, which is below a second; true if it has ended.
    pub(crate) fn wait(&mut self, time: Duration) -> bool {
        match self {
            Self::Started(started) => has_ended(started.child.pidfd(), time),
            Self::Found(found) => found.wait(time),
        }
    }

    /// Sends a signal to a target that we started; one that was found is left alone.
    pub(crate) fn signal(&self, signal: i32) {
        if let Self::Started(started) = self {
            started.child.signal(signal);
        }
    }

    /// Its status, if it is ours and has ended.
    pub(crate) fn try_reap(&mut self) -> Option<Ended> {
        match self {
            Self::Started(started) => started.child.try_reap(),
            Self::Found(_) => None,
        }
    }

    /// The load process's reports since the last time.
    pub(crate) fn intervals(&mut self, each: impl FnMut(WorkerInterval)) {
        if let Self::Started(started) = self {
            started.intervals(each);
        }
    }
}
