//! What is known of a number by its name: the vocabulary's metrics, those derived from events, and the three statistics
//! of a histogram.

use pagelab_vocab::metrics::{self, Direction, MetricInfo, MetricKind, Unit};

/// What a histogram's name gets appended.
pub(crate) const STATISTICS: [&str; 3] = [".mean", ".p50", ".p99"];

/// What is said of a metric that no registry has: it may come from a newer recorder.
const UNKNOWN_HELP: &str = "A metric that this version does not know.";
const UNKNOWN_SOURCE: &str = "unknown";

/// Metrics counted from the rows of `faults`.
pub(crate) const FAULTS: [(&str, &str); 7] = [
    ("faults.count", "Page faults on user addresses."),
    ("faults.user", "Of those, the faults from user mode."),
    ("faults.kernel", "Of those, the faults that the kernel took on the target's behalf."),
    ("faults.write", "Of those, the faults of writes."),
    ("faults.instruction", "Of those, the faults of instruction fetches."),
    ("faults.protection", "Of those, the faults on pages that were present, such as copy-on-write."),
    ("faults.major", "Of those, the faults that needed I/O."),
];

/// What is known of `name`; the default for names that nobody declares is a neutral gauge.
pub fn info(name: &str) -> MetricInfo {
    if let Some(info) = metrics::metric(name) {
        return info;
    }
    if let Some((name, help)) = FAULTS.iter().find(|(known, _)| *known == name) {
        return derived(name, MetricKind::Counter, Direction::LowerIsBetter, help, "table faults");
    }
    let histogram = STATISTICS.iter().find_map(|s| name.strip_suffix(s)).and_then(metrics::metric);
    if let Some(info) = histogram.filter(|info| info.kind == MetricKind::Histogram) {
        return MetricInfo { name: name.to_owned(), ..info };
    }
    derived(name, MetricKind::Gauge, Direction::Neutral, UNKNOWN_HELP, UNKNOWN_SOURCE)
}

/// Whether `name` has an entry of its own. That a name fits a family (`vmstat.` and anything) does not make it known.
pub fn is_declared(name: &str) -> bool {
    info(name).declared
}

fn derived(name: &str, kind: MetricKind, direction: Direction, help: &'static str, source: &'static str) -> MetricInfo {
    MetricInfo {
        name: name.to_owned(),
        kind,
        unit: Unit::Count,
        direction,
        instance: None,
        help,
        source,
        always_moves: false,
        self_inflicted: false,
        declared: source != UNKNOWN_SOURCE,
    }
}
