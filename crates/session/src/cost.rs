//! What recording costs while it goes on, and the budget that it must keep.
//!
//! The model is simple. Each stream's cost is the CPU time that the recording loop spends on it ([`Spent`]). Encoding
//! and writing are included in no stream in particular. With `--bpf-stats` the run time of all BPF programs is added to
//! the recorder's total. Once a second that total is compared with the CPU time that the machine has (wall time x
//! CPUs). When it was above the budget for two seconds in a row, the stream that cost most in the last of them is shed:
//! one second may be a start or a burst.

use pagelab_observe::bpf::own_programs;
use pagelab_observe::watcher::Spent;

use crate::close::own_usage;

/// Seconds above the budget before something is shed.
const PATIENCE: u32 = 2;

/// What is to be shed, and why.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    /// The streams by their cost in the last second, most expensive first.
    pub streams: Vec<&'static str>,
    /// What the recorder took, in per cent of the machine's CPU time.
    pub found_pct: f64,
}

/// Watches the recorder's own CPU time.
#[derive(Debug)]
pub(crate) struct Budget {
    pct: f64,
    cpus: f64,
    with_bpf: bool,
    last: Option<(i64, u64, Spent)>,
    above: u32,
}

impl Budget {
    /// At most `pct` per cent of the CPU time of `cpus` CPUs; `with_bpf` says that the kernel counts BPF run time.
    pub(crate) fn new(pct: f64, cpus: u64, with_bpf: bool) -> Self {
        Self { pct, cpus: cpus.max(1) as f64, with_bpf, last: None, above: 0 }
    }

    /// Looks at the time since the last look, about a second ago.
    pub(crate) fn look(&mut self, now_ns: i64, spent: &Spent) -> Option<Verdict> {
        let bpf_ns: u64 = if self.with_bpf { own_programs().iter().map(|program| program.run_ns).sum() } else { 0 };
        self.judge(now_ns, own_usage().0 + bpf_ns, spent)
    }

    fn judge(&mut self, now_ns: i64, cpu_ns: u64, spent: &Spent) -> Option<Verdict> {
        let (then_ns, cpu_then_ns, before) = self.last.replace((now_ns, cpu_ns, spent.clone()))?;
        let wall_ns = (now_ns - then_ns).max(1) as f64;
        let found_pct = 100.0 * cpu_ns.saturating_sub(cpu_then_ns) as f64 / (wall_ns * self.cpus);
        self.above = if found_pct > self.pct { self.above + 1 } else { 0 };
        if self.above < PATIENCE {
            return None;
        }
        self.above = 0;
        let since = |stream: &str, ns: u64| ns - before.by_stream().get(stream).copied().unwrap_or(0);
        let mut streams: Vec<(&'static str, u64)> =
            spent.by_stream().iter().map(|(stream, ns)| (*stream, since(stream, *ns))).collect();
        streams.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        Some(Verdict { streams: streams.into_iter().map(|(stream, _)| stream).collect(), found_pct })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn spent(faults: u64, metrics: u64) -> Spent {
        BTreeMap::from([("faults", faults), ("metrics", metrics)]).into()
    }

    #[test]
    fn the_dearest_of_the_last_second_comes_first_and_a_burst_is_no_reason() {
        // 5 % of 2 CPUs are 100 ms a second.
        let mut budget = Budget::new(5.0, 2, false);
        assert_eq!(budget.judge(0, 0, &spent(0, 0)), None, "nothing to compare with");
        assert_eq!(budget.judge(SECOND, 150_000_000, &spent(140, 10)), None, "a burst");
        assert_eq!(budget.judge(2 * SECOND, 200_000_000, &spent(150, 50)), None, "over");
        assert_eq!(budget.judge(3 * SECOND, 350_000_000, &spent(160, 140)), None, "above once");
        let verdict = budget.judge(4 * SECOND, 500_000_000, &spent(170, 240)).expect("above twice");
        assert_eq!(verdict.streams, ["metrics", "faults"], "faults cost more in all, metrics in the last second");
        assert!((verdict.found_pct - 7.5).abs() < 1e-9, "{verdict:?}");
        assert_eq!(budget.judge(5 * SECOND, 650_000_000, &spent(180, 340)), None, "shedding gets time to show");
    }
}
