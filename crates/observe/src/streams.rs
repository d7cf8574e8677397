//! The streams that `--observe` names.

use std::collections::BTreeSet;

pub use pagelab_vocab::streams::Stream;

use crate::syscalls::CallFilter;

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
    /// `metrics:smaps`, `regions:smaps`: with what holds up large processes.
    with_smaps: BTreeSet<Stream>,
}

impl Default for StreamSet {
    fn default() -> Self {
        Self { named: BTreeSet::new(), implied: default_streams(), ..Self::none() }
    }
}

fn default_streams() -> BTreeSet<Stream> {
    Stream::all().filter(|stream| stream.is_default()).collect()
}

/// `sched:` and `maps:` take this word.
const NO_STACKS: &str = "nostacks";
/// `metrics:` and `regions:` take this word.
const SMAPS: &str = "smaps";

/// A word of `--observe` that names nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "--observe: found {found:?}, needed a list of: default, all, {names}; syscalls:LIST takes classes (desc, file, memory, process, network, signal, ipc) and names of calls; sched:nostacks and maps:nostacks leave out where tasks slept and mapped memory; metrics:smaps and regions:smaps read smaps of large processes, too, which keeps them from mapping memory meanwhile; try --observe default",
    names = stream_names()
)]
pub struct UnknownStream {
    /// What was found.
    pub found: String,
}

fn stream_names() -> String {
    Stream::all().map(Stream::name).collect::<Vec<_>>().join(", ")
}

impl StreamSet {
    /// No stream.
    pub fn none() -> Self {
        let calls = CallFilter::default();
        let (without_stacks, with_smaps) = (BTreeSet::new(), BTreeSet::new());
        Self { named: BTreeSet::new(), implied: BTreeSet::new(), calls, without_stacks, with_smaps }
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
                    let stream = Stream::from_name(name).ok_or_else(|| unknown(word))?;
                    set.named.insert(stream);
                    if matches!(stream, Stream::Sched | Stream::Maps) && narrowed == Some(NO_STACKS) {
                        set.without_stacks.insert(stream);
                        continue;
                    }
                    if matches!(stream, Stream::Metrics | Stream::Regions) && narrowed == Some(SMAPS) {
                        set.with_smaps.insert(stream);
                        continue;
                    }
                    in_filter = narrowed.is_some();
                    if in_filter && (stream != Stream::Syscalls || !set.calls.add(narrowed.unwrap_or_default())) {
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

    /// Whether a stream reads `smaps` of large processes, too, which keeps them from mapping memory meanwhile.
    pub fn reads_smaps(&self, stream: Stream) -> bool {
        self.with_smaps.contains(&stream)
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
    fn large_processes_are_walked_if_asked_for() {
        for (list, walked) in [
            ("default,metrics:smaps", [true, false]),
            ("regions:smaps,metrics", [false, true]),
            ("all", [false, false]),
            ("regions", [false, false]),
        ] {
            let set = StreamSet::parse(list).expect("all words are known");
            assert_eq!([Stream::Metrics, Stream::Regions].map(|stream| set.reads_smaps(stream)), walked, "{list}");
        }
        for wrong in ["tasks:smaps", "smaps", "metrics:nostacks"] {
            assert!(StreamSet::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_word_is_said_back() {
        let error = StreamSet::parse("faults,fault").expect_err("no such stream");
        assert!(error.to_string().contains("\"fault\"") && error.to_string().contains("maps"));
    }
}
