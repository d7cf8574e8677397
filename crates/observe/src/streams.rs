//! The streams that `--observe` names.

use std::collections::BTreeSet;
use std::fmt;

use crate::syscalls::CallFilter;

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
}

const DEFS: [Def; 14] = [
    Def { stream: Stream::Metrics, name: "metrics", default: true },
    Def { stream: Stream::Settings, name: "settings", default: true },
    Def { stream: Stream::Tasks, name: "tasks", default: true },
    Def { stream: Stream::Faults, name: "faults", default: true },
    Def { stream: Stream::Maps, name: "maps", default: true },
    Def { stream: Stream::Dax, name: "dax", default: true },
    Def { stream: Stream::Syscalls, name: "syscalls", default: false },
    Def { stream: Stream::Waits, name: "waits", default: true },
    Def { stream: Stream::Sched, name: "sched", default: false },
    Def { stream: Stream::Cpu, name: "cpu", default: true },
    Def { stream: Stream::Counters, name: "counters", default: true },
    Def { stream: Stream::Block, name: "block", default: false },
    Def { stream: Stream::Regions, name: "regions", default: false },
    Def { stream: Stream::Speed, name: "speed", default: false },
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

    /// Whether `default` includes it only where the kernel has what it needs, so that its absence is not reported.
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
    /// `syscalls:desc,file,NAME`: which of them.
    calls: CallFilter,
    /// `sched:nostacks`, `maps:nostacks`: without where tasks slept, or where they mapped memory.
    without_stacks: BTreeSet<Stream>,
}

impl Default for StreamSet {
    fn default() -> Self {
        Self { named: BTreeSet::new(), implied: default_streams(), ..Self::none() }
    }
}

fn default_streams() -> BTreeSet<Stream> {
    DEFS.iter().filter(|def| def.default).map(|def| def.stream).collect()
}

/// `sched:` and `maps:` take this word.
const NO_STACKS: &str = "nostacks";

/// A word of `--observe` that names nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "--observe: found {found:?}, needed a list of: default, all, {names}; syscalls:LIST takes classes (desc, file, memory, process, network, signal, ipc) and names of calls; sched:nostacks and maps:nostacks leave out where tasks slept and mapped memory; try --observe default",
    names = stream_names()
)]
pub struct UnknownStream {
    /// What was found.
    pub found: String,
}

fn stream_names() -> String {
    DEFS.iter().map(|def| def.name).collect::<Vec<_>>().join(", ")
}

impl StreamSet {
    /// No stream.
    pub fn none() -> Self {
        let calls = CallFilter::default();
        Self { named: BTreeSet::new(), implied: BTreeSet::new(), calls, without_stacks: BTreeSet::new() }
    }

    /// Reads a list such as `default,syscalls`.
    pub fn parse(list: &str) -> Result<Self, UnknownStream> {
        let mut set = Self::none();
        let unknown = |word: &str| UnknownStream { found: word.to_owned() };
        let mut in_filter = false;
        for word in list.split(',').map(str::trim) {
            let (name, narrowed) = word.split_once(':').map_or((word, None), |(name, rest)| (name, Some(rest)));
            if in_filter && narrowed.is_none() && set.calls.add(name) {
                continue;
            }
            in_filter = false;
            match name {
                "default" => set.implied.extend(default_streams()),
                "all" => set.implied.extend(Stream::all()),
                name => {
                    let def = DEFS.iter().find(|def| def.name == name).ok_or_else(|| unknown(word))?;
                    set.named.insert(def.stream);
                    if matches!(def.stream, Stream::Sched | Stream::Maps) && narrowed == Some(NO_STACKS) {
                        set.without_stacks.insert(def.stream);
                        continue;
                    }
                    in_filter = narrowed.is_some();
                    if in_filter && (def.stream != Stream::Syscalls || !set.calls.add(narrowed.unwrap_or_default())) {
                        return Err(unknown(word));
                    }
                }
            }
        }
        Ok(set)
    }

    /// Whether the stacks of tasks that go to sleep are recorded.
    pub fn off_stacks(&self) -> bool {
        self.has_stacks(Stream::Sched)
    }

    /// Whether the stacks of calls that map much memory are recorded.
    pub fn map_stacks(&self) -> bool {
        self.has_stacks(Stream::Maps)
    }

    fn has_stacks(&self, stream: Stream) -> bool {
        self.contains(stream) && !self.without_stacks.contains(&stream)
    }

    /// Which system calls are recorded.
    pub fn calls(&self) -> &CallFilter {
        &self.calls
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
    fn system_calls_are_narrowed_to_classes_and_names() {
        let set = StreamSet::parse("syscalls:memory,read,write,faults").expect("all words are known");
        assert!(set.names(Stream::Syscalls) && set.names(Stream::Faults));
        assert_ne!(set.calls(), &CallFilter::default());
        for wrong in ["syscalls:memroy", "faults:read", "syscalls:read,raed", "read"] {
            assert!(StreamSet::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn stacks_can_be_left_out() {
        for (list, stacks) in [("sched", true), ("all", true), ("sched:nostacks,cpu", false), ("cpu", false)] {
            assert_eq!(StreamSet::parse(list).expect("all words are known").off_stacks(), stacks, "{list}");
        }
        for (list, stacks) in [("maps", true), ("default", true), ("maps:nostacks,sched", false), ("cpu", false)] {
            assert_eq!(StreamSet::parse(list).expect("all words are known").map_stacks(), stacks, "{list}");
        }
        for wrong in ["sched:stacks", "cpu:nostacks", "sched:nostacks,read"] {
            assert!(StreamSet::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_word_is_said_back() {
        let error = StreamSet::parse("faults,fault").expect_err("no such stream");
        assert!(error.to_string().contains("\"fault\"") && error.to_string().contains("maps"));
    }
}
