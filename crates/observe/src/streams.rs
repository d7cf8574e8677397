//! The streams that `--observe` names.

use std::collections::BTreeSet;
use std::fmt;

/// One kind of data that a recording can hold.
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
    /// Time off the CPU.
    Sched,
    /// Profile samples.
    Cpu,
    /// Hardware and software counters.
    Counters,
    /// Block requests.
    Block,
    /// Page sizes of regions.
    Regions,
}

/// Everything there is to say about a stream, in the order in which streams are listed.
struct Def {
    stream: Stream,
    name: &'static str,
    /// In `default`.
    default: bool,
    /// Why this version cannot record it.
    missing: Option<&'static str>,
}

const NOT_YET: Option<&str> = Some("this version of pagelab has no probe for it yet");

const DEFS: [Def; 12] = [
    Def { stream: Stream::Metrics, name: "metrics", default: true, missing: None },
    Def { stream: Stream::Settings, name: "settings", default: true, missing: None },
    Def { stream: Stream::Tasks, name: "tasks", default: true, missing: None },
    Def { stream: Stream::Faults, name: "faults", default: true, missing: None },
    Def { stream: Stream::Maps, name: "maps", default: true, missing: None },
    Def { stream: Stream::Dax, name: "dax", default: true, missing: None },
    Def { stream: Stream::Syscalls, name: "syscalls", default: false, missing: NOT_YET },
    Def { stream: Stream::Sched, name: "sched", default: false, missing: NOT_YET },
    Def { stream: Stream::Cpu, name: "cpu", default: true, missing: NOT_YET },
    Def { stream: Stream::Counters, name: "counters", default: true, missing: None },
    Def { stream: Stream::Block, name: "block", default: false, missing: None },
    Def { stream: Stream::Regions, name: "regions", default: false, missing: None },
];

impl Stream {
    fn def(self) -> &'static Def {
        // Every variant has a line; a test holds the table to that.
        DEFS.iter().find(|def| def.stream == self).unwrap_or(&DEFS[0])
    }

    /// The name on the command line, in manifests and in the table `loss`.
    pub fn name(self) -> &'static str {
        self.def().name
    }

    /// Why this version cannot record the stream on any host; `None` if it can.
    pub fn missing(self) -> Option<&'static str> {
        self.def().missing
    }

    /// Whether `default` means it only where the kernel has what it needs, so that its absence is no news.
    pub fn only_where_possible(self) -> bool {
        self == Self::Dax
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

/// The streams asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSet {
    /// Named one by one: refusing one of these is an error.
    named: BTreeSet<Stream>,
    /// Through `default` or `all`: refusing one of these is a warning.
    implied: BTreeSet<Stream>,
}

impl Default for StreamSet {
    fn default() -> Self {
        Self { named: BTreeSet::new(), implied: default_streams() }
    }
}

fn default_streams() -> BTreeSet<Stream> {
    DEFS.iter().filter(|def| def.default).map(|def| def.stream).collect()
}

/// A word of `--observe` that names nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--observe: found {found:?}, needed a list of: default, all, {names}; try --observe default", names = stream_names())]
pub struct UnknownStream {
    /// What was found.
    pub found: String,
}

fn stream_names() -> String {
    DEFS.iter().map(|def| def.name).collect::<Vec<_>>().join(", ")
}

impl StreamSet {
    /// Reads a list such as `default,syscalls`.
    pub fn parse(list: &str) -> Result<Self, UnknownStream> {
        let mut set = Self { named: BTreeSet::new(), implied: BTreeSet::new() };
        for word in list.split(',').map(str::trim) {
            // `syscalls:desc,file` narrows a stream; the part behind the colon belongs to the probe.
            let name = word.split(':').next().unwrap_or(word);
            match name {
                "default" => set.implied.extend(default_streams()),
                "all" => set.implied.extend(Stream::all()),
                name => match DEFS.iter().find(|def| def.name == name) {
                    Some(def) => {
                        set.named.insert(def.stream);
                    }
                    None => return Err(UnknownStream { found: word.to_owned() }),
                },
            }
        }
        Ok(set)
    }

    /// Whether the stream was asked for.
    pub fn contains(&self, stream: Stream) -> bool {
        self.named.contains(&stream) || self.implied.contains(&stream)
    }

    /// Whether the stream was asked for by its own name.
    pub fn names(&self, stream: Stream) -> bool {
        self.named.contains(&stream)
    }

    /// The streams asked for, in the order in which they are listed.
    pub fn iter(&self) -> impl Iterator<Item = Stream> + '_ {
        Stream::all().filter(|stream| self.contains(*stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_has_one_line() {
        let seen: BTreeSet<Stream> = Stream::all().collect();
        assert_eq!(seen.len(), DEFS.len());
        for stream in seen {
            assert_eq!(stream.def().stream, stream);
        }
    }

    #[test]
    fn named_streams_are_told_from_implied_ones() {
        let set = StreamSet::parse("default,syscalls").expect("both words are known");
        assert!(set.contains(Stream::Faults) && !set.names(Stream::Faults));
        assert!(set.names(Stream::Syscalls));
        assert!(!set.contains(Stream::Block));
    }

    #[test]
    fn an_unknown_word_is_said_back() {
        let error = StreamSet::parse("faults,fault").expect_err("no such stream");
        assert!(error.to_string().contains("\"fault\"") && error.to_string().contains("maps"));
    }
}
