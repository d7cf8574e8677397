//! What drives a counter: the work of the load, the passing of time, or both.

/// What makes a counter rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Driver {
    /// The work that is done: so much per operation, however long it takes.
    Work,
    /// Time that passes: so much per second, whatever is done in it. Per operation it rises with every slowdown.
    Time,
    /// Both, in a mixture that nobody knows beforehand: only a difference that shows per operation and per second says
    /// anything.
    Mixed,
}

/// The first line whose beginning fits the name, and whose instance (where it has one) is the metric's, holds.
const DRIVERS: &[(&str, Option<&str>, Driver)] = &[
    // The tick and what it sets off.
    ("interrupts", Some("LOC"), Driver::Time),
    ("interrupts", None, Driver::Mixed),
    ("softirqs.timer", None, Driver::Time),
    ("softirqs.hrtimer", None, Driver::Time),
    ("softirqs.rcu", None, Driver::Time),
    ("softirqs.sched", None, Driver::Time),
    ("softirqs.", None, Driver::Mixed),
    // Each CPU's states add up to the time that passed; what runs on the host beside the load is among them.
    ("cpu.idle_ns", None, Driver::Time),
    ("cpu.iowait_ns", None, Driver::Time),
    ("cpu.", None, Driver::Mixed),
    ("stat.interrupts", None, Driver::Mixed),
    ("stat.context_switches", None, Driver::Mixed),
    ("stat.forks", None, Driver::Mixed),
    ("schedstat.goidle", None, Driver::Time),
    ("schedstat.", None, Driver::Mixed),
    ("net.", None, Driver::Mixed),
    ("run.", None, Driver::Work),
];

/// What drives the counter `name` of `instance`; work, unless it is known otherwise.
pub fn driver(name: &str, instance: Option<&str>) -> Driver {
    let fits = |(start, of, _): &&(&str, Option<&str>, Driver)| {
        name.starts_with(start) && of.is_none_or(|of| Some(of) == instance)
    };
    DRIVERS.iter().find(fits).map_or(Driver::Work, |(_, _, driver)| *driver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::metric;

    #[test]
    fn the_tick_is_driven_by_time_and_faults_by_work() {
        assert_eq!(driver("interrupts", Some("LOC")), Driver::Time);
        assert_eq!(driver("interrupts", Some("NVME")), Driver::Mixed);
        assert_eq!(driver("softirqs.rcu", None), Driver::Time);
        assert_eq!(driver("stat.context_switches", None), Driver::Mixed);
        for name in ["vmstat.pgfault", "target.io.rchar", "disk.reads", "faults.count"] {
            assert_eq!(driver(name, None), Driver::Work, "{name}");
        }
    }

    /// A line for a name that nobody writes is a slip of the pen.
    #[test]
    fn every_line_is_for_a_declared_name() {
        for (start, _, _) in DRIVERS {
            let known = crate::metrics::declared().any(|info| info.name.starts_with(start)) || metric(start).is_some();
            assert!(known, "{start}");
        }
    }
}
