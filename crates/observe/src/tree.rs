//! The probe that follows the recorded tree and its tasks' events. BPF where available, else perf events.

use crate::bpf::{BpfWatcher, Observer};
use crate::feed::Feed;
use crate::perf::{PerfObserver, PerfWatcher};
use crate::watcher::Watcher;

/// What follows the recorded tree.
pub enum Tree {
    /// BPF programs.
    Bpf(Box<BpfWatcher>),
    /// Perf events on the target's tasks.
    Perf(Box<PerfWatcher>),
}

impl Tree {
    /// It in the loop of the recording.
    pub fn watcher(&self) -> &dyn Watcher {
        match self {
            Self::Bpf(watcher) => &**watcher,
            Self::Perf(watcher) => &**watcher,
        }
    }

    /// The same, to be called.
    pub fn watcher_mut(&mut self) -> &mut dyn Watcher {
        match self {
            Self::Bpf(watcher) => &mut **watcher,
            Self::Perf(watcher) => &mut **watcher,
        }
    }

    /// BPF, if it is that.
    pub fn bpf(&self) -> Option<&BpfWatcher> {
        match self {
            Self::Bpf(watcher) => Some(watcher),
            Self::Perf(_) => None,
        }
    }

    /// The BPF observer, if it is that.
    pub fn observer(&self) -> Option<&Observer> {
        self.bpf().map(BpfWatcher::observer)
    }

    /// The perf observer, if it is that.
    pub fn perf(&self) -> Option<&PerfObserver> {
        match self {
            Self::Bpf(_) => None,
            Self::Perf(watcher) => Some(watcher.observer()),
        }
    }

    /// What is known of the tree.
    pub fn feed(&self) -> &Feed {
        match self {
            Self::Bpf(watcher) => watcher.feed(),
            Self::Perf(watcher) => watcher.feed(),
        }
    }

    /// The same, mutable: to be notified of parts.
    pub fn feed_mut(&mut self) -> &mut Feed {
        match self {
            Self::Bpf(watcher) => watcher.feed_mut(),
            Self::Perf(watcher) => watcher.feed_mut(),
        }
    }
}
