//! The streams that a recording is made of, the tables that each fills, and the names under which it counts its losses.
//!
//! This is the one place that says which stream a table belongs to. Whoever writes a table counts what it could not write under
//! [`counted_as`]; whoever shows it asks [`Stream::losses`]. So rows seen are rows kept, lost and filtered, whoever lost them.

use std::fmt;

/// One kind of data that a recording can hold, as `--observe` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Counters and gauges of host and target, ten times a second.
    Metrics,
    /// Settings of host and target, at start and end.
    Settings,
    /// The life of tasks.
    Tasks,
    /// Page faults.
    Faults,
    /// Mapping actions.
    Maps,
    /// Faults on DAX files.
    Dax,
    /// System calls.
    Syscalls,
    /// States of tasks, summed up.
    Waits,
    /// Every time off the CPU.
    Sched,
    /// Profile samples.
    Cpu,
    /// Hardware and software counters.
    Counters,
    /// Block requests.
    Block,
    /// Page sizes of regions.
    Regions,
    /// Speed of each CPU, fifty times a second.
    Speed,
}

/// Everything there is to say about a stream, in the order in which streams are listed.
struct Def {
    stream: Stream,
    name: &'static str,
    /// In `default`.
    default: bool,
    /// The table that it fills by itself; none if its rows are among another's.
    table: Option<&'static str>,
    /// Further names under which the table `loss` counts events of it. Others (`file_names`, `fault_details`) are of what is missing
    /// in rows that are there.
    parts: &'static [&'static str],
}

const fn def(stream: Stream, name: &'static str, default: bool, table: &'static str) -> Def {
    Def { stream, name, default, table: Some(table), parts: &[] }
}

const DEFS: [Def; 14] = [
    def(Stream::Metrics, "metrics", true, "metrics"),
    def(Stream::Settings, "settings", true, "settings"),
    Def { parts: &[EVENTS], ..def(Stream::Tasks, "tasks", true, "tasks") },
    Def { parts: &["khugepaged"], ..def(Stream::Faults, "faults", true, "faults") },
    Def { parts: &[EVENTS, "maps_stacks"], ..def(Stream::Maps, "maps", true, "mappings") },
    def(Stream::Dax, "dax", true, "dax_faults"),
    def(Stream::Syscalls, "syscalls", false, "syscalls"),
    def(Stream::Waits, "waits", true, "waits"),
    Def { parts: &["sched_stacks"], ..def(Stream::Sched, "sched", false, "offcpu") },
    def(Stream::Cpu, "cpu", true, "samples"),
    def(Stream::Counters, "counters", true, "counters"),
    def(Stream::Block, "block", false, "block_ios"),
    def(Stream::Regions, "regions", false, "region_pages"),
    // Its rows are among those of `metrics`.
    Def { table: None, ..def(Stream::Speed, "speed", false, "") },
];

/// The name of the counts that `tasks` and `maps` share: their records go through one ring.
pub const EVENTS: &str = "events";

/// Tables beside the streams' own, and the stream that each belongs to.
const BESIDE: [(&str, Stream); 5] = [
    ("files", Stream::Syscalls),
    ("wait_stacks", Stream::Waits),
    ("stacks", Stream::Cpu),
    ("frames", Stream::Cpu),
    ("khugepaged", Stream::Faults),
];

/// Tables that a probe fills with one row for each event that it counts as seen. Rows of the others are no such events: of those that
/// are lost the count of what was seen knows nothing.
const EVENT_TABLES: [&str; 7] = ["faults", "dax_faults", "syscalls", "offcpu", "samples", "block_ios", "khugepaged"];

impl Stream {
    fn def(self) -> &'static Def {
        // Every variant has a line; a test holds the table to that.
        DEFS.iter().find(|def| def.stream == self).unwrap_or(&DEFS[0])
    }

    /// The name on the command line, in manifests and in the table `loss`.
    pub fn name(self) -> &'static str {
        self.def().name
    }

    /// The stream of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|stream| stream.name() == name)
    }

    /// Whether `default` includes it.
    pub fn is_default(self) -> bool {
        self.def().default
    }

    /// Whether `default` includes it only where the kernel has what it needs, so that its absence is not reported.
    pub fn only_where_possible(self) -> bool {
        self == Self::Dax
    }

    /// The table that it fills by itself; none if its rows are among another's.
    pub fn table(self) -> Option<&'static str> {
        self.def().table
    }

    /// The stream that fills a table; none of tables that no stream fills (load, marks, rollups, `loss` itself).
    pub fn of_table(table: &str) -> Option<Self> {
        let own = DEFS.iter().find(|def| def.table == Some(table)).map(|def| def.stream);
        own.or_else(|| BESIDE.iter().find(|(beside, _)| *beside == table).map(|(_, stream)| *stream))
    }

    /// The names under which the table `loss` counts what belongs to the stream: its own first.
    pub fn losses(self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name()).chain(self.def().parts.iter().copied())
    }

    /// All streams, in the order in which they are listed.
    pub fn all() -> impl Iterator<Item = Self> {
        DEFS.iter().map(|def| def.stream)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the table `loss` counts rows of a table that could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedAs<'a> {
    /// The name in the column `stream`.
    pub stream: &'a str,
    /// The probe has counted them as seen. If not, whoever loses them counts them as seen, too: no more is lost than was seen.
    pub is_seen: bool,
}

/// How rows of a table that could not be written are counted.
pub fn counted_as(table: &str) -> CountedAs<'_> {
    let stream = match Stream::of_table(table) {
        // A part of a stream that has counts of its own.
        Some(stream) => stream.losses().find(|name| *name == table).unwrap_or_else(|| stream.name()),
        None => table,
    };
    CountedAs { stream, is_seen: EVENT_TABLES.contains(&table) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_stream_has_one_line() {
        let seen: BTreeSet<Stream> = Stream::all().collect();
        assert_eq!(seen.len(), DEFS.len());
        for stream in seen {
            assert_eq!(stream.def().stream, stream);
            assert_eq!(Stream::from_name(stream.name()), Some(stream));
            assert_eq!(stream.losses().next(), Some(stream.name()));
        }
        let tables: Vec<&str> = Stream::all().filter_map(Stream::table).chain(BESIDE.map(|(table, _)| table)).collect();
        assert_eq!(tables.len(), tables.iter().collect::<BTreeSet<_>>().len(), "a table has one stream: {tables:?}");
    }

    #[test]
    fn rows_are_counted_under_a_name_that_their_stream_asks_for() {
        for table in EVENT_TABLES.into_iter().chain(BESIDE.map(|(table, _)| table)) {
            let stream = Stream::of_table(table).expect("it belongs to one");
            assert!(stream.losses().any(|name| name == counted_as(table).stream), "{table}");
        }
        assert_eq!(counted_as("offcpu"), CountedAs { stream: "sched", is_seen: true });
        assert_eq!(counted_as("wait_stacks"), CountedAs { stream: "waits", is_seen: false });
        assert_eq!(counted_as("khugepaged"), CountedAs { stream: "khugepaged", is_seen: true });
        assert_eq!(counted_as("latency"), CountedAs { stream: "latency", is_seen: false });
    }
}
