//! What the kernel itself counted of a command against what was recorded of its tree: where the two differ by more than is usual,
//! tasks or samples are missing, and the recording says so.
//!
//! Only what both count alike is compared. `wait4` counts the faults that the kernel takes for a program (pages of direct I/O,
//! `MAP_POPULATE`, `mlock`, arguments of exec), which raise no fault that could be recorded: so its faults are compared with the
//! accounts of the recorded tasks, which hold these, too, and not with the rows of `faults`.

use pagelab_observe::cpu::CPU_CLOCK;
use pagelab_observe::feed::{EndedTasks, Feed};
use pagelab_observe::tree::Tree;
use pagelab_recording::ProbeState;
use serde_json::{Map, Value};

use crate::child::Ended;
use crate::probes::Probes;

/// What a task takes between the last look at its accounts and its end: some faults of its stack and of what it gives back.
const FAULTS_PER_TASK: u64 = 4;
const FAULTS: u64 = 64;
const FAULTS_PCT: u64 = 2;
/// Time on CPUs that the kernel counted and that is not told: the way to the exec.
const RUN_NS: u64 = 30_000_000;
const RUN_PCT: u64 = 5;
/// The kernel reads a program that it executes: five times on Linux 6.18, of itself, its interpreter and their headers.
const READS_PER_EXEC: u64 = 12;
const TRANSFERS: u64 = 32;
const TRANSFERS_PCT: u64 = 1;
/// Samples below which nothing can be said, and the least share of those expected.
const SAMPLES: f64 = 200.0;
const SAMPLES_LEAST: f64 = 0.5;

/// The figures of one recording.
#[derive(Debug, Default)]
struct Figures {
    /// Faults and CPU time, ns, by `wait4`: of the command and of the children that it waited for.
    waited: Option<(u64, u64)>,
    /// Of the recorded tasks that have ended.
    ended: Option<EndedTasks>,
    /// What the kernel counted as run of all recorded tasks, by the stream `waits`.
    run_ns: Option<u64>,
    /// Samples of all recorded tasks, and how many a second.
    samples: Option<(u64, u64)>,
    /// Calls that the kernel counted as reads, and as writes; and those that were recorded.
    transfers: Option<[[u64; 2]; 2]>,
    /// Programs that were executed.
    execs: u64,
}

/// What the kernel's own figures contradict, in sentences.
pub(crate) fn doubts(
    probes: &Probes,
    extra: &Map<String, Value>,
    ended: Option<&Ended>,
    transfers: Option<[u64; 2]>,
) -> Vec<String> {
    // Of what was lost, or is not there, something else says so.
    let is_whole = |name: &str| {
        let mut states = probes.states.iter().filter(|state| state.name == name);
        states.any(|state| {
            state.state == ProbeState::Active
                && state.events_lost.unwrap_or(0) == 0
                && !state.extra.contains_key("shed_because")
                && !state.extra.contains_key("user_mode_only")
        })
    };
    let number = |stream: &str, key: &str| extra.get(stream)?.get(key)?.as_u64();
    let by_timer = extra.get("cpu").and_then(|cpu| cpu.get("event")).and_then(Value::as_str) == Some(CPU_CLOCK);
    let feed = probes.tree.as_ref().map(Tree::feed);
    let by_bpf = matches!(probes.tree, Some(Tree::Bpf(_)));
    let figures = Figures {
        waited: ended.map(|ended| (ended.minor_faults + ended.major_faults, ended.utime_ns + ended.stime_ns)),
        // Perf's events say it of the first process alone.
        ended: feed.filter(|_| by_bpf && is_whole("tasks")).and_then(Feed::ended),
        run_ns: number("waits", "kernel_run_ns").filter(|_| is_whole("waits")),
        samples: number("cpu", "samples").zip(number("cpu", "frequency_hz")).filter(|_| by_timer && is_whole("cpu")),
        transfers: transfers
            .zip(feed.filter(|_| is_whole("syscalls")).and_then(Feed::transfers))
            .map(|(counted, recorded)| [counted, recorded]),
        execs: feed.map_or(0, Feed::execs),
    };
    figures.doubts()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Figures {
    fn doubts(&self) -> Vec<String> {
        [self.of_faults(), self.of_run(), self.of_samples(), self.of_calls()].into_iter().flatten().collect()
    }

    fn of_faults(&self) -> Option<String> {
        let ((counted, _), tasks) = self.waited.zip(self.ended)?;
        let recorded = tasks.faults.0 + tasks.faults.1;
        let usual = FAULTS + FAULTS_PER_TASK * tasks.tasks + counted * FAULTS_PCT / 100;
        (counted > recorded + usual).then(|| {
            format!(
                "the kernel counted {counted} page faults of the command and of the children that it waited for, {recorded} of them of \
                 recorded tasks: tasks are missing, and with them their faults, samples and calls"
            )
        })
    }

    fn of_run(&self) -> Option<String> {
        let ((_, counted_ns), switched_ns) = self.waited.zip(self.run_ns)?;
        // A task that ends without having left its CPU is told by its own account alone.
        let run_ns = switched_ns.max(self.ended.map_or(0, |tasks| tasks.cpu_ns.0 + tasks.cpu_ns.1));
        (counted_ns > run_ns + RUN_NS + counted_ns * RUN_PCT / 100).then(|| {
            format!(
                "the kernel counted {:.3} s of CPU time of the command and of the children that it waited for, {:.3} s of it of recorded \
                 tasks: tasks are missing, and with them their faults, samples and calls",
                seconds(counted_ns),
                seconds(run_ns)
            )
        })
    }

    fn of_samples(&self) -> Option<String> {
        let (samples, hz) = self.samples.filter(|(_, hz)| *hz > 0)?;
        let run_ns = self.run_ns.or(self.waited.map(|(_, ns)| ns))?;
        let expected = seconds(run_ns) * hz as f64;
        (expected >= SAMPLES && (samples as f64) < expected * SAMPLES_LEAST).then(|| {
            format!(
                "the recorded tasks ran for {:.3} s by the kernel's count, their {samples} samples of the profile stand for {:.3} s: \
                 what they did in the rest is not in profile and budget",
                seconds(run_ns),
                samples as f64 / hz as f64
            )
        })
    }
}

impl Figures {
    fn of_calls(&self) -> Option<String> {
        let [counted, recorded] = self.transfers?;
        // The kernel counts what it writes into a core as calls.
        if self.ended?.dumped_core {
            return None;
        }
        let usual = |counted: u64| TRANSFERS + READS_PER_EXEC * (self.execs + 1) + counted * TRANSFERS_PCT / 100;
        let lacks = |at: usize| counted[at] > recorded[at] + usual(counted[at]);
        (lacks(0) || lacks(1)).then(|| {
            format!(
                "the kernel counted {} calls that read and {} that write of the command and of the children that it waited for, {} and {} \
                 are recorded: calls are missing",
                counted[0], counted[1], recorded[0], recorded[1]
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(waited: (u64, u64), faults: u64, run_ns: u64, samples: u64) -> Figures {
        Figures {
            waited: Some(waited),
            ended: Some(EndedTasks { tasks: 2, faults: (faults, 0), cpu_ns: (0, 0), dumped_core: false }),
            run_ns: Some(run_ns),
            samples: Some((samples, 997)),
            ..Figures::default()
        }
    }

    #[test]
    fn calls_that_are_missing_are_told_but_for_those_of_exec() {
        let of = |counted, recorded| {
            let ended = Some(EndedTasks::default());
            Figures { ended, transfers: Some([counted, recorded]), execs: 11, ..Figures::default() }.doubts()
        };
        assert_eq!(of([128, 10], [73, 10]), [""; 0], "a shell that starts ten programs");
        assert_eq!(of([10, 10], [5000, 5000]), [""; 0], "children that nobody waited for");
        let found = of([20, 100_000], [15, 60_000]);
        assert!(matches!(&*found, [one] if one.contains("100000") && one.contains("60000")), "{found:?}");
    }

    #[test]
    fn what_agrees_is_no_doubt() {
        let second = 1_000_000_000;
        assert_eq!(figures((4153, second), 4153, second, 990).doubts(), [""; 0]);
        // The usual: a little before the exec, a little after the last look, and a processor that a hypervisor took for a while.
        assert_eq!(figures((4153, second), 4100, second - 40_000_000, 600).doubts(), [""; 0]);
        // Children that nobody waited for are recorded all the same.
        assert_eq!(figures((100, second / 10), 90_000, 5 * second, 5000).doubts(), [""; 0]);
        assert_eq!(Figures::default().doubts(), [""; 0]);
    }

    #[test]
    fn threads_that_are_missing_are_told_with_both_figures() {
        let found = figures((4153, 620_000_000), 54, 110_000_000, 110).doubts();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("4153 page faults") && found[0].contains("54 of them"), "{found:?}");
        assert!(found[1].contains("0.620 s") && found[1].contains("0.110 s"), "{found:?}");
    }

    #[test]
    fn tasks_that_ended_before_they_left_their_cpu_are_not_missing() {
        let second = 1_000_000_000;
        let ended = |cpu_ns| Some(EndedTasks { tasks: 2, faults: (10, 0), cpu_ns, dumped_core: false });
        let of = |cpu_ns| Figures { ended: ended(cpu_ns), ..figures((10, second), 10, second / 2, 990) }.doubts();
        assert_eq!(of((second / 10, second * 9 / 10)), [""; 0]);
        assert_eq!(of((second / 10, second / 10)).len(), 1);
    }

    #[test]
    fn samples_that_are_missing_are_told_with_both_figures() {
        let found = figures((10, 2_000_000_000), 10, 2_000_000_000, 300).doubts();
        assert!(matches!(&*found, [one] if one.contains("2.000 s") && one.contains("0.301 s")), "{found:?}");
    }
}
