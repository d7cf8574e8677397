//! What a stream falls back to, and what the manifest and the user hear of it.

use pagelab_observe::perf::{PerfWatcher, Taken};
use pagelab_observe::process;
use pagelab_observe::streams::Stream;
use pagelab_recording::{Probe, ProbeState};

use super::{active, refused};
use crate::fallbacks::{Rung, fallback};

/// The command that mends it, unless this is root already: then the reason has what is needed.
fn mended_by_root(stream: Stream) -> Option<String> {
    let root = rustix::process::geteuid().is_root();
    (!root).then(|| format!("sudo pagelab record --observe {stream} ..."))
}

/// Why BPF is not available; where a seccomp filter is in force, no right alone will help.
pub(super) fn with_filter(reason: String) -> String {
    if process::is_filtered() {
        return format!("{reason}; found a seccomp filter, as containers have it: it must let bpf pass, too");
    }
    reason
}

fn nor_by_perf(bpf: &str, perf: &str) -> String {
    format!("{bpf}; nor by perf events: {perf}")
}

/// The rungs that cannot be had, with the reasons.
#[derive(Debug, Default)]
pub(super) struct Missing {
    pub bpf: Option<String>,
    /// Only tried where BPF is missing.
    pub perf: Option<String>,
    /// Why perf's events lack system calls, where they have other events.
    pub calls: Option<String>,
}

impl Missing {
    /// Why a stream is not recorded; `by_perf` says that perf events would have been enough.
    pub(super) fn why(&self, by_perf: bool) -> String {
        let bpf = self.bpf.clone().unwrap_or_default();
        match &self.perf {
            Some(perf) if by_perf => nor_by_perf(&bpf, perf),
            _ => bpf,
        }
    }

    /// What becomes of a stream of the observers.
    pub(super) fn state(&self, stream: Stream) -> Probe {
        let by_perf = PerfWatcher::STREAMS.contains(&stream);
        let rung = match (&self.bpf, &self.perf) {
            (None, _) => Rung::Bpf,
            (Some(_), None) => Rung::Perf,
            (Some(_), Some(_)) => Rung::Procfs,
        };
        if let (Stream::Syscalls, Rung::Perf, Some(reason)) = (stream, rung, &self.calls) {
            return refused(stream, nor_by_perf(&self.why(false), reason), mended_by_root(stream));
        }
        if fallback(stream, rung).is_some() {
            return self.active_on(stream, rung.name());
        }
        refused(stream, self.why(by_perf), mended_by_root(stream))
    }

    /// A stream that is recorded, with the reason why on no higher rung.
    pub(super) fn active_on(&self, stream: Stream, rung: &str) -> Probe {
        let state = active(stream, rung);
        if self.bpf.is_none() {
            return state;
        }
        let reason = format!("fallback because {}", self.why(rung == Rung::Procfs.name()));
        Probe { reason: Some(reason), fix: mended_by_root(stream), ..state }
    }

    /// What the user is to know of the streams that are recorded on a lower rung; refusals speak for themselves.
    pub(super) fn in_words(&self, states: &[Probe]) -> Vec<String> {
        let mut said = Vec::new();
        for (rung, how) in [(Rung::Perf, "through perf events"), (Rung::Procfs, "from /proc alone")] {
            let lower = |state: &&Probe| {
                state.state == ProbeState::Active
                    && state.reason.is_some()
                    && state.rung.as_deref() == Some(rung.name())
            };
            let streams: Vec<&str> = states.iter().filter(lower).map(|state| state.name.as_str()).collect();
            if streams.is_empty() {
                continue;
            }
            let why = self.why(rung == Rung::Procfs);
            said.push(format!("{} recorded {how}, because: {why}", streams.join(", ")));
            let lacks = Stream::all().filter(|stream| streams.contains(&stream.name()));
            for stream in lacks {
                if let Some(fallback) = fallback(stream, rung) {
                    said.push(format!("{stream} recorded {how}: {}", fallback.lacks));
                }
            }
            if states.iter().filter(lower).any(|state| state.extra.contains_key("user_mode_only")) {
                said.push(USER_ONLY.to_owned());
            }
        }
        said
    }
}

/// Processes named of those whose events are gone.
const TAKEN_NAMED: usize = 4;

/// That the kernel took events away, and what to type; none if it did not.
pub(super) fn taken_in_words(taken: &[Taken]) -> Option<String> {
    if taken.is_empty() {
        return None;
    }
    let one = |one: &Taken| format!("{} (pid {})", String::from_utf8_lossy(&one.comm), one.pid);
    let mut names: Vec<String> = taken.iter().take(TAKEN_NAMED).map(one).collect();
    let more = taken.len().saturating_sub(TAKEN_NAMED);
    names.extend((more > 0).then(|| format!("{more} more")));
    let names = names.join(", ");
    Some(format!(
        "the kernel took the events away at exec of a setuid program, or one with capabilities or that this user may not read: \
         {names}; its faults, samples, calls and children from then on are not recorded; record as root, try: sudo pagelab record ..."
    ))
}

const USER_ONLY: &str = "faults and samples are those of user mode only: what the kernel does for the program is not seen; needed: \
                         kernel.perf_event_paranoid at most 1, or CAP_PERFMON; look: cat /proc/sys/kernel/perf_event_paranoid";
