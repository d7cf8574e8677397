//! The events that processor and kernel count, by the names of `perf list`, and what is derived from the counts: made on
//! reading, never stored.
//!
//! Two counts may be divided only if they were taken at the same times: events of one group are, and events that were
//! counted all the time are. Estimates scaled up from other times are not divided by one another, because what a
//! program does changes while the counters take turns.

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// perf's name.
    pub name: &'static str,
    /// Unit of the count: `ns` of clocks, empty for plain counts.
    pub unit: &'static str,
}

const fn plain(name: &'static str) -> Event {
    Event { name, unit: "" }
}

/// All events, in the order in which they are shown.
pub const EVENTS: [Event; 24] = [
    Event { name: "task-clock", unit: "ns" },
    plain("context-switches"),
    plain("cpu-migrations"),
    plain("page-faults"),
    plain("minor-faults"),
    plain("major-faults"),
    plain("cycles"),
    plain("instructions"),
    plain("stalled-cycles-frontend"),
    plain("stalled-cycles-backend"),
    plain("branches"),
    plain("branch-misses"),
    plain("L1-dcache-loads"),
    plain("L1-dcache-load-misses"),
    plain("LLC-loads"),
    plain("LLC-load-misses"),
    plain("L1-icache-loads"),
    plain("L1-icache-load-misses"),
    plain("dTLB-loads"),
    plain("dTLB-load-misses"),
    plain("iTLB-loads"),
    plain("iTLB-load-misses"),
    plain("L1-dcache-prefetches"),
    plain("L1-dcache-prefetch-misses"),
];

/// Behind the name of an event of which only user mode was counted; perf writes it so.
pub const USER_ONLY: &str = ":u";

/// The event of this name, with or without the suffix for user mode.
pub fn find(name: &str) -> Option<Event> {
    position(name).and_then(|at| EVENTS.get(at)).copied()
}

/// The place of an event of this name in [`EVENTS`].
pub fn position(name: &str) -> Option<usize> {
    let plain = name.strip_suffix(USER_ONLY).unwrap_or(name);
    EVENTS.iter().position(|event| event.name == plain)
}

/// One quotient of two events.
#[derive(Debug)]
pub struct RatioDef {
    /// Name in documents.
    pub name: &'static str,
    /// What it is, in perf's words.
    pub help: &'static str,
    /// Event above the line.
    pub numerator: &'static str,
    /// Event below the line.
    pub denominator: &'static str,
    /// The quotient times this.
    pub factor: f64,
}

const fn ratio(
    name: &'static str,
    help: &'static str,
    numerator: &'static str,
    denominator: &'static str,
    factor: f64,
) -> RatioDef {
    RatioDef { name, help, numerator, denominator, factor }
}

/// All of them. The suffix says the unit: `_pct`, `_per_second` (of CPU time), `_ghz`.
pub const RATIOS: &[RatioDef] = &[
    ratio(
        "context_switches_per_second",
        "context switches per second of CPU time",
        "context-switches",
        "task-clock",
        1e9,
    ),
    ratio("cpu_migrations_per_second", "CPU migrations per second of CPU time", "cpu-migrations", "task-clock", 1e9),
    ratio("page_faults_per_second", "page faults per second of CPU time", "page-faults", "task-clock", 1e9),
    ratio("insn_per_cycle", "instructions per cycle", "instructions", "cycles", 1.0),
    ratio("cycles_ghz", "clock rate of the CPU, GHz", "cycles", "task-clock", 1.0),
    ratio("frontend_idle_pct", "of all cycles, the front end idle", "stalled-cycles-frontend", "cycles", 100.0),
    ratio("backend_idle_pct", "of all cycles, the back end idle", "stalled-cycles-backend", "cycles", 100.0),
    ratio("branch_miss_pct", "of all branches", "branch-misses", "branches", 100.0),
    ratio("l1d_load_miss_pct", "of all L1-dcache accesses", "L1-dcache-load-misses", "L1-dcache-loads", 100.0),
    ratio("llc_load_miss_pct", "of all LL-cache accesses", "LLC-load-misses", "LLC-loads", 100.0),
    ratio("l1i_load_miss_pct", "of all L1-icache accesses", "L1-icache-load-misses", "L1-icache-loads", 100.0),
    ratio("dtlb_load_miss_pct", "of all dTLB cache accesses", "dTLB-load-misses", "dTLB-loads", 100.0),
    ratio("itlb_load_miss_pct", "of all iTLB cache accesses", "iTLB-load-misses", "iTLB-loads", 100.0),
    ratio(
        "l1d_prefetch_miss_pct",
        "of all L1-dcache prefetches",
        "L1-dcache-prefetch-misses",
        "L1-dcache-prefetches",
        100.0,
    ),
];

/// What was counted of one event, to its last reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// As counted, not scaled.
    pub value: u64,
    /// Time for which it was asked for, ns.
    pub enabled_ns: u64,
    /// Time in which it was counted, ns.
    pub running_ns: u64,
    /// Its group.
    pub group_id: Option<u32>,
}

impl Count {
    /// Whether it had to take turns with others.
    pub fn multiplexed(&self) -> bool {
        self.running_ns < self.enabled_ns
    }

    /// The share of the time in which it was counted, in percent; none if it never was asked for.
    pub fn running_pct(&self) -> Option<f64> {
        (self.enabled_ns > 0).then(|| 100.0 * self.running_ns as f64 / self.enabled_ns as f64)
    }

    /// The count as it would be had it been counted all the time; none if it never was.
    pub fn estimate(&self) -> Option<f64> {
        match (self.enabled_ns, self.running_ns) {
            (0, _) => Some(self.value as f64),
            (_, 0) => None,
            (enabled, running) if running >= enabled => Some(self.value as f64),
            (enabled, running) => Some(self.value as f64 * (enabled as f64 / running as f64)),
        }
    }

    /// Whether this and another were counted at the same times.
    pub fn together_with(&self, other: &Self) -> bool {
        let same_group = self.group_id.is_some() && self.group_id == other.group_id;
        let whole = |count: &Self| count.enabled_ns > 0 && !count.multiplexed();
        same_group || (whole(self) && whole(other))
    }
}

/// The quotient, or why there is none. `count` finds what was counted of an event of that name.
pub fn quotient(def: &RatioDef, count: impl Fn(&str) -> Option<Count>) -> Result<f64, String> {
    // With user mode alone both sides have the suffix; one with and one without it never meet in a recording.
    let find = |name: &str| {
        count(name).or_else(|| count(&format!("{name}{USER_ONLY}"))).ok_or_else(|| format!("{name} was not counted"))
    };
    let (above, below) = (find(def.numerator)?, find(def.denominator)?);
    if !above.together_with(&below) {
        return Err(format!("{} and {} were not counted at the same times", def.numerator, def.denominator));
    }
    if below.value == 0 {
        return Err(format!("{} is 0", def.denominator));
    }
    Ok(def.factor * above.value as f64 / below.value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(value: u64, running_ns: u64, group_id: u32) -> Count {
        Count { value, enabled_ns: 1000, running_ns, group_id: Some(group_id) }
    }

    fn of(name: &str) -> &'static RatioDef {
        RATIOS.iter().find(|def| def.name == name).expect("declared")
    }

    #[test]
    fn every_ratio_divides_events_that_are_declared() {
        for def in RATIOS {
            for name in [def.numerator, def.denominator] {
                assert!(find(name).is_some(), "{}: {name}", def.name);
            }
        }
    }

    #[test]
    fn only_what_was_counted_together_is_divided() {
        let ipc = of("insn_per_cycle");
        let with = |instructions: Count, cycles: Count| {
            quotient(ipc, |name| match name {
                "instructions" => Some(instructions),
                "cycles" => Some(cycles),
                _ => None,
            })
        };
        assert_eq!(with(count(300, 400, 1), count(100, 400, 1)), Ok(3.0), "one group, half the time");
        assert_eq!(with(count(300, 1000, 1), count(100, 1000, 2)), Ok(3.0), "all the time");
        let apart = with(count(300, 400, 1), count(100, 600, 2)).expect_err("they took turns");
        assert!(apart.contains("not counted at the same times"), "{apart}");
        let never = Count { enabled_ns: 0, ..count(300, 0, 1) };
        with(never, count(100, 1000, 2)).expect_err("one was never switched on");
        let nothing = with(count(300, 1000, 1), count(0, 1000, 1)).expect_err("nothing to divide by");
        assert!(nothing.contains("cycles is 0"), "{nothing}");
        let missing = quotient(ipc, |_| None).expect_err("neither is there");
        assert!(missing.contains("instructions was not counted"), "{missing}");
    }

    #[test]
    fn a_count_is_scaled_to_the_time_it_was_asked_for() {
        assert_eq!(count(250, 250, 1).estimate(), Some(1000.0));
        assert_eq!((count(250, 1000, 1).estimate(), count(250, 1000, 1).multiplexed()), (Some(250.0), false));
        assert_eq!(count(0, 0, 1).estimate(), None, "never counted is not 0");
        assert_eq!(count(250, 250, 1).running_pct(), Some(25.0));
        assert_eq!(Count::default().running_pct(), None);
    }
}
