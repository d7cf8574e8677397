//! What happened in a second.

use std::collections::BTreeMap;

use pagelab_observe::moment::Wait;
use pagelab_observe::sums::Sums;
use pagelab_vocab::budget::{OFF_OTHER, UNSAMPLED, off_by_waker, ready_by};
use pagelab_vocab::waits::{Waker, is_active_wait};
use serde::Serialize;

use crate::names::Names;
use crate::states::{Spent, Times, WaitSpent};

/// Rows kept of a list, the longest first.
const ROWS: usize = 100;
/// On a CPU in system calls.
pub(crate) const RUN_CALLS: &str = "run.calls";
/// On a CPU otherwise: the program's own code, page faults, interrupts.
pub(crate) const RUN_PROGRAM: &str = "run.program";

/// A part of the tasks' time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Component {
    /// Its name, as `pagelab show DIR budget` has it, or `run.calls` or `run.program`.
    pub component: &'static str,
    /// `run`, `ready` or `off`.
    pub state: &'static str,
    /// Time of all tasks together.
    pub ns: u64,
    /// The same in percent of the tasks' lives.
    pub pct: f64,
}

/// Page faults by kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Faults {
    /// All.
    pub total: u64,
    /// The same by seconds.
    pub per_s: f64,
    /// The program read a page that was not there.
    pub read: u64,
    /// It wrote one.
    pub write: u64,
    /// It ran code of one.
    pub execute: u64,
    /// The page was there and did not allow it.
    pub protection: u64,
    /// The kernel touched memory of the program's.
    pub kernel: u64,
    /// Of all, those that waited for I/O.
    pub major: u64,
}

/// System calls of one name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Call {
    /// The name.
    pub name: &'static str,
    /// That returned.
    pub calls: u64,
    /// The same by seconds.
    pub per_s: f64,
    /// Time in them, of all tasks together.
    pub ns: u64,
    /// Of this, on a CPU.
    pub cpu_ns: u64,
}

/// Waits of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WaitRow {
    /// The system call, or `page_fault`; null for threads of the kernel.
    pub call: Option<&'static str>,
    /// The scheduler's state, as `ps` shows it.
    pub off_state: &'static str,
    /// The kernel counted it as waiting for I/O.
    pub iowait: bool,
    /// The system made the task wait; all else is waiting for others or for a time.
    pub active: bool,
    /// Who ended most of the time of those that ended; null if none did.
    pub woken_by: Option<&'static str>,
    /// Waits that ended.
    pub times: u64,
    /// Time of all tasks together.
    pub ns: u64,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// Process id; null if its beginning was not seen.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// Its name.
    pub comm: String,
    /// On a CPU.
    pub run_ns: u64,
    /// Waiting for one.
    pub ready_ns: u64,
    /// Waiting for something else.
    pub off_ns: u64,
}

/// What watching cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Cost {
    /// CPU time of this process.
    pub cpu_ns: u64,
    /// The same in percent of the machine's CPU time.
    pub cpu_pct: f64,
    /// Run time of its BPF programs; null unless asked for.
    pub bpf_ns: Option<u64>,
    /// The same in percent of the machine's CPU time.
    pub bpf_pct: Option<f64>,
}

/// What happened in a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Second {
    /// From the beginning to the end of it, s.
    pub elapsed_s: f64,
    /// How long it was, s: about one.
    pub seconds: f64,
    /// Tasks that lived in it.
    pub tasks: usize,
    /// How long they lived together: the sum of the three below.
    pub lives_ns: u64,
    /// On a CPU.
    pub run_ns: u64,
    /// Waiting for one.
    pub ready_ns: u64,
    /// Waiting for something else.
    pub off_ns: u64,
    /// No task was active.
    pub idle_ns: u64,
    /// The states by what the time was spent on, longest first.
    pub components: Vec<Component>,
    /// Page faults; null if they are not counted.
    pub faults: Option<Faults>,
    /// System calls, longest first; null if they are not counted.
    pub calls: Option<Vec<Call>>,
    /// Why not.
    pub counts_missing: Option<String>,
    /// Waits, longest first.
    pub waits: Vec<WaitRow>,
    /// Threads, those that run most first.
    pub threads: Vec<Thread>,
    /// What watching cost.
    pub cost: Cost,
    /// Seconds before this one that could not be shown in time.
    pub skipped: u64,
}

impl Second {
    /// An amount of this second by seconds.
    pub(crate) fn per_s(&self, amount: u64) -> f64 {
        amount as f64 / self.seconds.max(1e-9)
    }

    /// A time in percent of the tasks' lives.
    pub(crate) fn pct(&self, ns: u64) -> f64 {
        100.0 * ns as f64 / self.lives_ns.max(1) as f64
    }
}

fn not_below_zero(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}

/// Divides a total among parts that are known by what ended: what they leave is the part `rest`. If more ended than the total, some
/// of it was told in seconds before, and the total is divided in their proportion.
fn divide(total: u64, parts: BTreeMap<&'static str, u64>, rest: &'static str) -> BTreeMap<&'static str, u64> {
    let known: u64 = parts.values().sum();
    if known > total {
        let share = |ns: u64| (u128::from(ns) * u128::from(total) / u128::from(known)) as u64;
        return parts.into_iter().map(|(name, ns)| (name, share(ns))).collect();
    }
    let mut parts = parts;
    *parts.entry(rest).or_default() += total - known;
    parts
}

/// Makes a second of what is known of it.
pub(crate) struct Making<'a> {
    pub spent: &'a Spent,
    /// What was counted, or why nothing was.
    pub counted: Result<&'a Sums, &'a str>,
    pub names: &'a Names,
}

impl Making<'_> {
    /// The second; when it began to be watched, what it cost and what was skipped is the caller's to add.
    pub(crate) fn make(&self) -> Second {
        let Spent { from_ts, to_ts, idle_ns, .. } = *self.spent;
        let Times { run_ns, ready_ns, off_ns } = self.spent.total();
        let [run_ns, ready_ns, off_ns] = [run_ns, ready_ns, off_ns].map(not_below_zero);
        let mut second = Second {
            seconds: (to_ts - from_ts) as f64 / 1e9,
            tasks: self.spent.tasks.len(),
            lives_ns: run_ns + ready_ns + off_ns,
            run_ns,
            ready_ns,
            off_ns,
            idle_ns,
            counts_missing: self.counted.err().map(str::to_owned),
            waits: self.waits(),
            threads: self.threads(),
            ..Second::default()
        };
        if let Ok(sums) = self.counted {
            second.faults = Some(faults(sums, second.seconds));
            second.calls = Some(calls(sums, second.seconds));
        }
        second.components = self.components(&second);
        second
    }

    fn waits(&self) -> Vec<WaitRow> {
        let mut rows: Vec<WaitRow> = self.spent.waits.iter().map(|(wait, spent)| wait_row(wait, spent)).collect();
        rows.retain(|row| row.ns > 0 || row.times > 0);
        rows.sort_by_key(|row| (std::cmp::Reverse(row.ns), row.call, row.off_state, row.iowait));
        rows.truncate(ROWS);
        rows
    }

    fn threads(&self) -> Vec<Thread> {
        let thread = |(task_id, times): (&u32, &Times)| {
            let name = self.names.get(*task_id);
            Thread {
                pid: name.map(|name| name.pid),
                tid: name.map(|name| name.tid),
                comm: name.map(|name| name.comm.clone()).unwrap_or_default(),
                run_ns: not_below_zero(times.run_ns),
                ready_ns: not_below_zero(times.ready_ns),
                off_ns: not_below_zero(times.off_ns),
            }
        };
        // Names are looked up of those alone that are shown.
        let mut all: Vec<(&u32, &Times)> = self.spent.tasks.iter().collect();
        all.sort_by_key(|(task_id, times)| {
            (std::cmp::Reverse((times.run_ns, times.ready_ns, times.off_ns)), **task_id)
        });
        all.into_iter().take(ROWS).map(thread).collect()
    }

    fn components(&self, second: &Second) -> Vec<Component> {
        let mut components = Vec::new();
        let mut add = |state: &'static str, parts: BTreeMap<&'static str, u64>| {
            for (component, ns) in parts.into_iter().filter(|(_, ns)| *ns > 0) {
                components.push(Component { component, state, ns, pct: second.pct(ns) });
            }
        };
        add("run", run_parts(second));
        let holders = self.spent.ready_ended_ns.iter();
        let holders = holders.fold(BTreeMap::new(), |mut parts, (holder, ns)| {
            *parts.entry(ready_by(*holder)).or_default() += ns;
            parts
        });
        add("ready", divide(second.ready_ns, holders, ready_by(None)));
        add("off", self.off_parts(second.off_ns));
        components.sort_by_key(|one| (std::cmp::Reverse(one.ns), one.component));
        components
    }

    fn off_parts(&self, off_ns: u64) -> BTreeMap<&'static str, u64> {
        let mut active_ns = 0;
        let mut wakers: BTreeMap<&'static str, u64> = BTreeMap::new();
        for (wait, spent) in &self.spent.waits {
            if is_active_wait(Some(wait.off_state), Some(wait.iowait)) {
                active_ns += not_below_zero(spent.ns);
                continue;
            }
            for (name, ns) in divide(not_below_zero(spent.ns), by_component(&spent.ended_ns), off_by_waker(None)) {
                *wakers.entry(name).or_default() += ns;
            }
        }
        wakers.insert(OFF_OTHER, active_ns);
        // Kinds that seem to have fallen by some microseconds are no part of the others.
        divide(off_ns, wakers, off_by_waker(None))
    }
}

fn by_component(ended_ns: &BTreeMap<Option<Waker>, u64>) -> BTreeMap<&'static str, u64> {
    let mut parts = BTreeMap::new();
    for (waker, ns) in ended_ns {
        *parts.entry(off_by_waker(*waker)).or_default() += ns;
    }
    parts
}

fn run_parts(second: &Second) -> BTreeMap<&'static str, u64> {
    let Some(calls) = &second.calls else { return BTreeMap::from([(UNSAMPLED, second.run_ns)]) };
    let in_calls_ns: u64 = calls.iter().map(|call| call.cpu_ns).sum();
    divide(second.run_ns, BTreeMap::from([(RUN_CALLS, in_calls_ns)]), RUN_PROGRAM)
}

fn wait_row(wait: &Wait, spent: &WaitSpent) -> WaitRow {
    let most = spent.ended_ns.iter().max_by_key(|(_, ns)| **ns);
    WaitRow {
        call: wait.call,
        off_state: wait.off_state,
        iowait: wait.iowait,
        active: is_active_wait(Some(wait.off_state), Some(wait.iowait)),
        woken_by: most.and_then(|(waker, _)| waker.map(Waker::word)),
        times: spent.times,
        ns: not_below_zero(spent.ns),
    }
}

fn faults(sums: &Sums, seconds: f64) -> Faults {
    let pagelab_observe::sums::FaultSums { read, write, execute, protection, kernel, major } = sums.faults;
    let total = read + write + execute + protection + kernel;
    Faults { total, per_s: total as f64 / seconds.max(1e-9), read, write, execute, protection, kernel, major }
}

fn calls(sums: &Sums, seconds: f64) -> Vec<Call> {
    let call = |(name, sums): (&&'static str, &pagelab_observe::sums::CallSums)| Call {
        name,
        calls: sums.calls,
        per_s: sums.calls as f64 / seconds.max(1e-9),
        ns: sums.ns,
        cpu_ns: sums.ns.saturating_sub(sums.off_ns),
    };
    let mut calls: Vec<Call> = sums.calls.iter().map(call).collect();
    calls.sort_by_key(|call| (std::cmp::Reverse(call.ns), call.name));
    calls
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use pagelab_observe::sums::CallSums;
    use pagelab_vocab::waits::Holder;

    use super::*;

    fn spent() -> Spent {
        let sleep = Wait { off_state: "S", iowait: false, call: Some("futex"), by: None };
        let read = Wait { off_state: "D", iowait: true, call: Some("read"), by: None };
        let of =
            |ns, ended: &[(Option<Waker>, u64)]| WaitSpent { ns, times: 1, ended_ns: ended.iter().copied().collect() };
        Spent {
            from_ts: 0,
            to_ts: 2_000_000_000,
            tasks: HashMap::from([(1, Times { run_ns: 500, ready_ns: 100, off_ns: 400 }), (2, Times::default())]),
            waits: HashMap::from([
                (sleep, of(300, &[(Some(Waker::Own), 100), (Some(Waker::Timer), 50)])),
                (read, of(100, &[(Some(Waker::Irq), 900)])),
            ]),
            ready_ended_ns: BTreeMap::from([(Some(Holder::Own), 150), (Some(Holder::Foreign), 50)]),
            ..Spent::default()
        }
    }

    #[test]
    fn components_sum_to_their_states() {
        let read = CallSums { calls: 4, ns: 300, off_ns: 100 };
        let sums = Sums { calls: BTreeMap::from([("read", read)]), ..Sums::default() };
        let names = Names::default();
        let second = Making { spent: &spent(), counted: Ok(&sums), names: &names }.make();
        assert_eq!((second.lives_ns, second.tasks), (1000, 2));
        let parts: BTreeMap<&str, u64> = second.components.iter().map(|one| (one.component, one.ns)).collect();
        let expected = [
            ("off.dependent", 100),
            ("off.other", 100),
            ("off.timer", 50),
            ("off.unknown", 150),
            ("ready.foreign", 25),
            ("ready.own", 75),
            ("run.calls", 200),
            ("run.program", 300),
        ];
        assert_eq!(parts, BTreeMap::from(expected));
        assert_eq!(parts.values().sum::<u64>(), second.lives_ns);
        assert_eq!(second.calls.as_ref().map(|calls| calls[0].per_s), Some(2.0), "4 in 2 s");
        assert_eq!(second.waits[0].woken_by, Some("own"));
    }

    #[test]
    fn what_is_not_counted_is_null_with_a_reason() {
        let names = Names::default();
        let second = Making { spent: &spent(), counted: Err("no tracepoint"), names: &names }.make();
        assert_eq!((second.faults, second.calls.as_ref()), (None, None));
        assert_eq!(second.counts_missing.as_deref(), Some("no tracepoint"));
        assert!(second.components.iter().any(|one| one.component == UNSAMPLED && one.ns == 500));
    }
}
