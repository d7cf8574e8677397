//! The registry of metrics: every name that may stand in a recording's `metrics` table, declared once.
//!
//! A metric has a kind (which rule turns its rows into one number per run), a unit, a direction (which way is
//! better), the meaning of its instance, the file it is read from and a sentence of help. The sampler takes its
//! names from here, analysis its rules, and `docs/metrics.md` is printed from it ([`markdown`]).
//!
//! Where the kernel's list of fields is open-ended (`/proc/vmstat` gains fields with every release) a whole family
//! is declared by its prefix: [`metric`] answers for a field that did not exist when this was written, with
//! [`MetricInfo::declared`] false. Fields whose unit, kind or direction differs from their family's, and those
//! that explain page-fault and paging behaviour, have entries of their own.
//!
//! # Adding a metric
//!
//! 1. Put a line into the group of the file it is read from (`vmstat.rs`, `memory.rs`, `cpu.rs`, `devices.rs`,
//!    `target.rs`, `load.rs`), or a new [`Group`] into that file and into [`GROUPS`].
//! 2. Let the sampler emit it; its test fails for a name that this registry does not know.
//! 3. Rewrite the page: `make docs`.

mod cpu;
mod devices;
mod driver;
mod load;
mod markdown;
mod memory;
mod target;
mod vmstat;

use std::fmt;

pub use driver::{Driver, driver};
pub use markdown::markdown;

/// How the rows of one series become one number per run (DESIGN section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// Counts up from an arbitrary start; the number of a run is (last - first) / measured seconds, or / operations.
    Counter,
    /// A level; the number of a run is its mean weighted by the time each value held.
    Gauge,
    /// A distribution, kept as buckets; the numbers of a run are its mean, p50 and p99.
    Histogram,
}

impl MetricKind {
    /// The word used in documents and JSON: `counter`, `gauge`, `histogram`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Which way of moving is an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// More is better, as of operations per second.
    HigherIsBetter,
    /// Less is better, as of page faults.
    LowerIsBetter,
    /// Neither: the value describes what happened, not how well.
    Neutral,
}

impl Direction {
    /// The word used in documents and JSON: `higher`, `lower`, `neutral`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HigherIsBetter => "higher",
            Self::LowerIsBetter => "lower",
            Self::Neutral => "neutral",
        }
    }
}

/// What one unit of a value is. Values are stored in these units, never scaled further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A number of things or events.
    Count,
    /// Bytes.
    Bytes,
    /// 1024 bytes, where the kernel counts so under a name that is kept.
    Kibibytes,
    /// Pages of the machine's base page size (`page_size_bytes` of the manifest).
    Pages,
    /// Huge pages of the size that the instance names, or of the default size.
    HugePages,
    /// Nanoseconds.
    Nanoseconds,
    /// 1000 cycles per second.
    Kilohertz,
    /// Hundredths of a whole.
    Percent,
    /// A quotient of two like things.
    Ratio,
    /// Things or events in a second.
    PerSecond,
    /// Bytes in a second.
    BytesPerSecond,
}

impl Unit {
    /// Every unit, for tests and documents.
    pub const ALL: [Unit; 11] = [
        Self::Count,
        Self::Bytes,
        Self::Kibibytes,
        Self::Pages,
        Self::HugePages,
        Self::Nanoseconds,
        Self::Kilohertz,
        Self::Percent,
        Self::Ratio,
        Self::PerSecond,
        Self::BytesPerSecond,
    ];

    /// What is printed behind a number: `12.5 ns`. Empty for [`Unit::Count`] and [`Unit::Ratio`].
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Count | Self::Ratio => "",
            Self::Bytes => "B",
            Self::Kibibytes => "KiB",
            Self::Pages => "pages",
            Self::HugePages => "huge pages",
            Self::Nanoseconds => "ns",
            Self::Kilohertz => "kHz",
            Self::Percent => "%",
            Self::PerSecond => "/s",
            Self::BytesPerSecond => "B/s",
        }
    }

    /// The stable identifier used in JSON and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::Kibibytes => "kibibytes",
            Self::Pages => "pages",
            Self::HugePages => "huge_pages",
            Self::Nanoseconds => "ns",
            Self::Kilohertz => "khz",
            Self::Percent => "percent",
            Self::Ratio => "ratio",
            Self::PerSecond => "per_second",
            Self::BytesPerSecond => "bytes_per_second",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.suffix())
    }
}

/// All that is known about a metric from its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricInfo {
    /// The name as it stands in the `metrics` table.
    pub name: String,
    /// Which rule turns rows into a number per run.
    pub kind: MetricKind,
    /// Unit of the stored values.
    pub unit: Unit,
    /// Which way is better.
    pub direction: Direction,
    /// What the `instance` column holds; `None` when it is always null.
    pub instance: Option<&'static str>,
    /// What it tells, in one or two sentences.
    pub help: &'static str,
    /// Where it is read: a path under `/`, or the stream that yields it.
    pub source: &'static str,
    /// True when the value follows the clock, the host's past or another metric's threshold rather than what the
    /// run did (a load average still carries the minutes before the run). Such metrics are recorded and shown but
    /// belong in no family of tests: they would only lend it false findings.
    pub always_moves: bool,
    /// True when recording itself moves it visibly (the recorder's own writes show in the disk counters).
    /// A finding that rests on it alone needs a second witness.
    pub self_inflicted: bool,
    /// True for a metric with an entry of its own, false for one known only by its family.
    pub declared: bool,
}

/// One metric of a [`Group`], named by what follows the group's prefix.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    field: &'static str,
    kind: MetricKind,
    unit: Unit,
    direction: Direction,
    help: &'static str,
    always_moves: bool,
    self_inflicted: bool,
}

impl Member {
    const fn new(field: &'static str, kind: MetricKind, unit: Unit, direction: Direction, help: &'static str) -> Self {
        Self { field, kind, unit, direction, help, always_moves: false, self_inflicted: false }
    }

    const fn always_moves(mut self) -> Self {
        self.always_moves = true;
        self
    }

    /// The kernel prints these few in huge pages (mm/vmstat.c, `vmstat_item_print_in_thp`).
    const fn huge(mut self) -> Self {
        self.unit = Unit::HugePages;
        self
    }

    const fn self_inflicted(mut self) -> Self {
        self.self_inflicted = true;
        self
    }
}

/// The declaration for the fields of an open-ended group that have no entry of their own. The first rule whose
/// `starts` and `ends` both fit a field holds for it.
#[derive(Debug, Clone, Copy)]
pub struct FieldRule {
    /// How the field's name begins; empty for any.
    pub starts: &'static str,
    /// How it ends; empty for any.
    pub ends: &'static str,
    /// Kind of the fields it covers.
    pub kind: MetricKind,
    /// Their unit.
    pub unit: Unit,
    /// Their direction.
    pub direction: Direction,
    /// What they have in common.
    pub help: &'static str,
}

impl FieldRule {
    const fn new(
        starts: &'static str,
        ends: &'static str,
        kind: MetricKind,
        unit: Unit,
        direction: Direction,
        help: &'static str,
    ) -> Self {
        Self { starts, ends, kind, unit, direction, help }
    }

    fn covers(&self, field: &str) -> bool {
        !field.is_empty()
            && field.len() >= self.starts.len() + self.ends.len()
            && field.starts_with(self.starts)
            && field.ends_with(self.ends)
    }
}

/// The metrics of one source.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// What every name of the group begins with, dot included; empty for lone names.
    pub prefix: &'static str,
    /// The file or stream they come from.
    pub source: &'static str,
    /// What the instance column holds.
    pub instance: Option<&'static str>,
    /// What a reader of the page must know about all of them.
    pub note: &'static str,
    /// The metrics with an entry of their own.
    pub members: &'static [Member],
    /// Rules for further fields; empty when the group is closed.
    pub rules: &'static [FieldRule],
}

impl Group {
    fn info(&self, member: &Member) -> MetricInfo {
        MetricInfo {
            name: format!("{}{}", self.prefix, member.field),
            kind: member.kind,
            unit: member.unit,
            direction: member.direction,
            instance: self.instance,
            help: member.help,
            source: self.source,
            always_moves: member.always_moves,
            self_inflicted: member.self_inflicted,
            declared: true,
        }
    }

    fn find(&self, name: &str) -> Option<MetricInfo> {
        let field = name.strip_prefix(self.prefix)?;
        self.members.iter().find(|m| m.field == field).map(|m| self.info(m))
    }

    fn guess(&self, name: &str) -> Option<MetricInfo> {
        let field = name.strip_prefix(self.prefix)?;
        let rule = self.rules.iter().find(|r| r.covers(field))?;
        Some(MetricInfo {
            name: name.to_owned(),
            kind: rule.kind,
            unit: rule.unit,
            direction: rule.direction,
            instance: self.instance,
            help: rule.help,
            source: self.source,
            always_moves: false,
            self_inflicted: false,
            declared: false,
        })
    }
}

/// Every group, in the order of the documentation.
pub const GROUPS: &[Group] = &[
    vmstat::VMSTAT,
    memory::MEMINFO,
    memory::HUGETLB,
    memory::MTHP,
    memory::BUDDY,
    memory::NUMA,
    memory::SLAB,
    cpu::CPU,
    cpu::SPEED,
    cpu::STAT,
    cpu::SCHEDSTAT,
    cpu::INTERRUPTS,
    cpu::SOFTIRQS,
    cpu::LOADAVG,
    cpu::CPUFREQ,
    cpu::PSI,
    devices::DISK,
    devices::NET,
    devices::FS,
    target::IO,
    target::STAT,
    target::STATUS,
    target::SMAPS,
    target::CGROUP,
    target::FAULTS,
    target::USED,
    load::LOAD,
    load::RUN,
    load::VALUE,
];

/// What is known of `name`, by its own entry or by its family; `None` for a name that pagelab does not write.
pub fn metric(name: &str) -> Option<MetricInfo> {
    GROUPS.iter().find_map(|g| g.find(name)).or_else(|| GROUPS.iter().find_map(|g| g.guess(name)))
}

/// Every metric with an entry of its own, in the order of the documentation.
pub fn declared() -> impl Iterator<Item = MetricInfo> {
    GROUPS.iter().flat_map(|g| g.members.iter().map(|m| g.info(m)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_declared_once_and_found_again() {
        let mut seen = HashSet::new();
        for info in declared() {
            assert!(seen.insert(info.name.clone()), "{} is declared twice", info.name);
            assert_eq!(metric(&info.name), Some(info));
        }
        assert!(seen.len() > 200, "only {} metrics are declared", seen.len());
    }

    /// A name becomes a column value, a file name of an export and a word on a command line.
    #[test]
    fn names_hold_only_plain_characters() {
        for info in declared() {
            assert!(
                info.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._".contains(&b)),
                "{}",
                info.name
            );
            assert!(info.help.ends_with('.'), "the help of {} is not a sentence: {:?}", info.name, info.help);
        }
    }

    /// The suffix of a name and the unit of its values are two statements of one fact.
    #[test]
    fn suffix_of_the_name_agrees_with_the_unit() {
        for info in declared() {
            let name = info.name.as_str();
            if name.ends_with("_ns") {
                assert_eq!(info.unit, Unit::Nanoseconds, "{name}");
            }
            if name.ends_with("_khz") {
                assert_eq!(info.unit, Unit::Kilohertz, "{name}");
            }
            if name.ends_with("_bytes") {
                assert!(matches!(info.unit, Unit::Bytes | Unit::BytesPerSecond), "{name}");
            }
        }
    }

    #[test]
    fn a_field_of_a_later_kernel_is_known_by_its_family() {
        let counter = metric("vmstat.thp_something_new").expect("vmstat is open-ended");
        assert_eq!((counter.kind, counter.unit, counter.declared), (MetricKind::Counter, Unit::Count, false));
        let level = metric("vmstat.nr_something_new").expect("vmstat is open-ended");
        assert_eq!((level.kind, level.unit), (MetricKind::Gauge, Unit::Pages));
        let flushes = metric("vmstat.nr_tlb_remote_flush").expect("vmstat is open-ended");
        assert_eq!(flushes.kind, MetricKind::Counter, "nr_tlb_* count events although they begin with nr_");
        let memory = metric("meminfo.something_bytes").expect("meminfo is open-ended");
        assert_eq!((memory.kind, memory.unit), (MetricKind::Gauge, Unit::Bytes));
    }

    #[test]
    fn unknown_names_are_refused() {
        for name in ["", "vmstat", "vmstat.", "disk.nosuch", "interrupts.", "Load.ops", "nosuch.x"] {
            assert_eq!(metric(name), None, "{name:?}");
        }
    }

    /// Counters that the kernel names like levels, and the reverse, are the entries most easily got wrong.
    #[test]
    fn kinds_that_the_name_belies() {
        for name in ["nr_dirtied", "nr_written", "nr_vmscan_write", "nr_throttled_written", "nr_foll_pin_acquired"] {
            assert_eq!(metric(&format!("vmstat.{name}")).map(|m| m.kind), Some(MetricKind::Counter), "{name}");
        }
        for name in ["vmstat.workingset_nodes", "disk.in_flight", "stat.procs_running", "buddy.free_blocks"] {
            assert_eq!(metric(name).map(|m| m.kind), Some(MetricKind::Gauge), "{name}");
        }
        assert_eq!(metric("load.lat_ns").map(|m| m.kind), Some(MetricKind::Histogram));
    }
}
