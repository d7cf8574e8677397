//! The enumerations of the job language.

use serde::{Deserialize, Serialize};

use crate::model::Direction;
use crate::units::ParseContext;
use crate::value::{Choice, OptionValue, choice, choose};

choice! {
    /// What a job does: which way the data goes and in which order the blocks come.
    Pattern {
        Read = "read": "sequential reads",
        Write = "write": "sequential writes",
        RandRead = "randread": "random reads",
        RandWrite = "randwrite": "random writes",
        ReadWrite = "rw" | "readwrite": "sequential reads and writes, mixed",
        RandReadWrite = "randrw": "random reads and writes, mixed",
        Trim = "trim": "sequential trims: what a block device holds there is discarded",
        RandTrim = "randtrim": "random trims",
        TrimWrite = "trimwrite": "sequential trims, each followed by a write of the same block",
        RandTrimWrite = "randtrimwrite": "random trims, each followed by a write of the same block",
    }
}

impl Pattern {
    /// Whether blocks come in random order.
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandReadWrite | Self::RandTrim | Self::RandTrimWrite)
    }

    /// Whether the job reads.
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::RandRead | Self::ReadWrite | Self::RandReadWrite)
    }

    /// Whether the job writes.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::RandRead | Self::Trim | Self::RandTrim)
    }

    /// Whether the job trims.
    pub fn trims(self) -> bool {
        matches!(self, Self::Trim | Self::RandTrim | Self::TrimWrite | Self::RandTrimWrite)
    }

    /// Whether the job does this.
    pub fn does(self, direction: Direction) -> bool {
        match direction {
            Direction::Read => self.reads(),
            Direction::Write => self.writes(),
            Direction::Trim => self.trims(),
        }
    }

    /// Whether it reads and writes.
    pub fn is_mixed(self) -> bool {
        self.reads() && self.writes()
    }
}

/// What the modifier after the colon of `rw=` does to the order of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Modifier {
    /// Nothing.
    #[default]
    None,
    /// Sequential patterns: this many bytes are left out after each operation; a negative number goes backwards.
    Skip(i64),
    /// Random patterns: a new random block after this many operations; those between go on by `rw_sequencer`.
    Every(u64),
}

/// `rw=`: a [`Pattern`] and its offset modifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RwOption(pub Pattern, pub Modifier);

impl OptionValue for RwOption {
    const KIND: &'static str = "word[:modifier]";
    const WORDS: &'static [(&'static str, &'static str)] = Pattern::ALL;
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        let (word, modifier) = match text.trim().split_once(':') {
            Some((word, modifier)) => (word.trim(), Some(modifier.trim())),
            None => (text.trim(), None),
        };
        let pattern: Pattern = choose(word)?;
        let modifier = match modifier {
            None | Some("") => Modifier::None,
            Some(text) if pattern.is_random() => match crate::units::count(text, context)? {
                0 => return Err("a random pattern needs a new block after at least 1 operation".to_owned()),
                1 => Modifier::None,
                every => Modifier::Every(every),
            },
            Some(text) => match crate::units::signed(text, context)? {
                0 => Modifier::None,
                skip => Modifier::Skip(skip),
            },
        };
        *self = Self(pattern, modifier);
        Ok(())
    }
}

choice! {
    /// `rw_sequencer`: what operations between two random blocks do (`rw=randread:8`).
    Sequencer {
        Sequential = "sequential": "they go on behind the one before",
        Identical = "identical": "they repeat the same offset",
    }
}

choice! {
    /// `random_generator`: how random blocks are made.
    RandomGenerator {
        Tausworthe = "tausworthe": "fio's 32-bit generator; here SplitMix64, of 64 bits",
        Lfsr = "lfsr": "each block exactly once, even with norandommap",
        Tausworthe64 = "tausworthe64": "fio's 64-bit generator; here SplitMix64",
    }
}

choice! {
    /// `rate_process`: how operations of a limited rate lie in time.
    RateProcess {
        Linear = "linear": "at even distances",
        Poisson = "poisson": "as a Poisson process: at exponentially distributed distances",
    }
}

choice! {
    /// `thinktime_blocks_type`: what `thinktime_blocks` counts.
    ThinktimeBlocksType {
        Complete = "complete": "completed operations",
        Issue = "issue": "issued operations; the same for engines that complete each operation before the next",
    }
}

choice! {
    /// `io_submit_mode`: who submits operations.
    SubmitMode {
        Inline = "inline": "the worker",
        Offload = "offload": "in fio threads beside the worker",
    }
}

choice! {
    /// `exit_what`: who ends when a job with `exitall` or `exitall_on_error` does.
    ExitWhat {
        Group = "group": "the jobs of its group",
        Stonewall = "stonewall": "the jobs between the same walls",
        All = "all": "all jobs, those behind later walls too",
    }
}

choice! {
    /// `continue_on_error`: after which errors a job goes on.
    ContinueOnError {
        None = "none" | "0": "after none",
        Read = "read": "after errors of reads",
        Write = "write": "after errors of writes",
        Io = "io": "after errors of reads and writes",
        Verify = "verify": "after blocks that verify finds wrong",
        All = "all" | "1": "after all",
    }
}

choice! {
    /// `cpus_allowed_policy`: how workers of a job share its CPUs.
    CpusAllowedPolicy {
        Shared = "shared": "each worker may use all of them",
        Split = "split": "each worker gets one of its own, in turn",
    }
}

choice! {
    /// `prioclass`: the I/O scheduling class.
    PrioClass {
        None = "0": "none: the nice value decides",
        Realtime = "1": "realtime",
        BestEffort = "2": "best effort",
        Idle = "3": "idle",
    }
}

choice! {
    /// `kb_base`: what the unit prefixes of sizes mean.
    KbBase {
        Binary = "1024": "k is 1024 and ki is 1000: fio's habit, kept so that old jobs do the same work",
        Decimal = "1000": "k is 1000 and ki is 1024: the standards",
    }
}

impl KbBase {
    /// 1024 or 1000.
    pub fn value(self) -> u64 {
        match self {
            Self::Binary => 1024,
            Self::Decimal => 1000,
        }
    }
}

choice! {
    /// `fallocate`: how the space of a file that a job will write is made ready.
    Fallocate {
        None = "none" | "0": "no space is allocated ahead; engines that map give the file its length",
        Native = "native": "fallocate(2), or as none where the file system cannot",
        Posix = "posix" | "1": "posix_fallocate(3)",
        Keep = "keep": "fallocate(2) with FALLOC_FL_KEEP_SIZE",
        Truncate = "truncate": "ftruncate(2) to the final length",
    }
}

choice! {
    /// `fadvise_hint`: what the kernel is told about the coming pattern.
    FadviseHint {
        Off = "0": "nothing",
        Workload = "1": "what the job does: sequential or random",
        Sequential = "sequential": "POSIX_FADV_SEQUENTIAL",
        Random = "random": "POSIX_FADV_RANDOM",
        NoReuse = "noreuse": "POSIX_FADV_NOREUSE",
    }
}

choice! {
    /// `sync`: how files are opened for writing.
    SyncMode {
        None = "none" | "0": "writes are cached",
        Sync = "sync" | "1": "O_SYNC",
        Dsync = "dsync": "O_DSYNC",
    }
}

choice! {
    /// `unified_rw_reporting`: whether directions are reported apart.
    UnifiedReporting {
        None = "none" | "0": "apart",
        Mixed = "mixed" | "1": "all together, as `mixed`",
        Both = "both" | "2": "apart, and all together",
    }
}

choice! {
    /// `stat_type`: the call of `ioengine=filestat`.
    StatType {
        Stat = "stat": "stat(2)",
        Lstat = "lstat": "lstat(2)",
        Statx = "statx": "statx(2) of the path that realpath(3) finds",
    }
}

/// `sync_file_range`: what is waited for and written, after how many writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SyncRange {
    /// Flags of the call; 0 where the option is not given.
    pub flags: u32,
    /// Writes between two calls.
    pub every: u64,
}

impl SyncRange {
    /// After how many writes there is a call; 0: never. Without a flag it would do nothing.
    pub fn after_writes(&self) -> u64 {
        if self.flags == 0 { 0 } else { self.every }
    }
}

impl OptionValue for SyncRange {
    const KIND: &'static str = "words[:int]";
    const WORDS: &'static [(&'static str, &'static str)] = &[
        ("wait_before", "SYNC_FILE_RANGE_WAIT_BEFORE"),
        ("write", "SYNC_FILE_RANGE_WRITE"),
        ("wait_after", "SYNC_FILE_RANGE_WAIT_AFTER"),
    ];
    fn assign(&mut self, text: &str, context: ParseContext) -> Result<(), String> {
        let (words, every) = crate::value::word_and_argument(text);
        let every = every.map_or(Ok(1), |text| crate::units::count(text, context))?;
        if every == 0 {
            return Err("needed at least 1 write between two calls".to_owned());
        }
        let mut flags = 0;
        for word in words.split(',').map(str::trim) {
            flags |= match word {
                "wait_before" => libc::SYNC_FILE_RANGE_WAIT_BEFORE,
                "write" => libc::SYNC_FILE_RANGE_WRITE,
                "wait_after" => libc::SYNC_FILE_RANGE_WAIT_AFTER,
                _ => return Err(crate::value::not_one_of(word, &["wait_before", "write", "wait_after"])),
            };
        }
        *self = Self { flags, every };
        Ok(())
    }
}

choice! {
    /// `clocksource`: where time stamps of operations come from.
    ClockSource {
        Auto = "auto": "the time stamp counter if it proves invariant and equal on all CPUs, else clock_gettime",
        Cpu = "cpu": "the time stamp counter; an error if it does not prove trustworthy",
        ClockGettime = "clock_gettime" | "gettimeofday": "clock_gettime(CLOCK_MONOTONIC), also for fio's gettimeofday, which counts in us and can be set back",
    }
}

choice! {
    /// `map_share`: who sees what is written to a mapping.
    MapShare {
        Default = "default": "shared for files, memfds and SysV segments, private for anonymous memory",
        Shared = "shared": "MAP_SHARED; anonymous memory is then shmem, whose huge pages shmem_enabled governs",
        Private = "private": "MAP_PRIVATE; what is written to a file's mapping stays in this process",
    }
}

choice! {
    /// `map_backing`: what lies under the pieces of `ioengine=anon`.
    MapBacking {
        Anonymous = "anonymous": "anonymous mappings, one for each piece: what is unmapped is gone",
        Memfd = "memfd": "one memfd_create(2) for all pieces, of hugetlb pages with hugetlb=: contents stay when a piece is unmapped; shmem_enabled governs its transparent huge pages",
    }
}

choice! {
    /// `map_lifetime`: how long a piece stays mapped.
    MapLifetime {
        Keep = "keep": "all pieces are mapped before the job starts and unmapped after it ended",
        Evict = "evict": "a piece is mapped at its first use and unmapped when map_resident newer ones are mapped",
    }
}

choice! {
    /// `map_order`: the order of blocks inside each piece, for sequential patterns.
    MapOrder {
        Ascending = "ascending": "from the lowest address up",
        Descending = "descending": "from the highest address down",
        Random = "random": "each block once, in seeded random order",
        Strided = "strided": "every map_stride bytes from the start of the piece up, then the same one block further on, until each block came once",
    }
}

choice! {
    /// One madvise(2) advice.
    Advice {
        Normal = "normal": "MADV_NORMAL",
        Random = "random": "MADV_RANDOM",
        Sequential = "sequential": "MADV_SEQUENTIAL",
        WillNeed = "willneed": "MADV_WILLNEED",
        HugePage = "hugepage": "MADV_HUGEPAGE",
        NoHugePage = "nohugepage": "MADV_NOHUGEPAGE",
        Collapse = "collapse": "MADV_COLLAPSE (Linux 6.1), after the piece was populated",
        Mergeable = "mergeable": "MADV_MERGEABLE",
        DontFork = "dontfork": "MADV_DONTFORK",
        DontDump = "dontdump": "MADV_DONTDUMP",
    }
}

/// `map_advice`: advices in the order in which they are given to each piece; `none` for none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AdviceList(pub Vec<Advice>);

impl OptionValue for AdviceList {
    const KIND: &'static str = "words, separated by ','";
    const WORDS: &'static [(&'static str, &'static str)] = Advice::ALL;
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let text = text.trim();
        self.0 = if text == "none" || text.is_empty() {
            Vec::new()
        } else {
            text.split([',', ':']).map(choose).collect::<Result<_, _>>()?
        };
        Ok(())
    }
}

/// The name of an engine, as written; checked against the engines when the job is put together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EngineName(pub String);

impl OptionValue for EngineName {
    const KIND: &'static str = "engine";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let name = text.trim();
        // As in fio, which knows libaio under these names, too, and looks no further than this.
        let is_libaio = ["linuxaio", "aio"].iter().any(|begin| name.starts_with(begin));
        if is_libaio { "libaio" } else { name }.clone_into(&mut self.0);
        if self.0.is_empty() { Err("an engine's name is needed".to_owned()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_know_their_directions() {
        for (text, reads, writes, random) in [
            ("read", true, false, false),
            ("write", false, true, false),
            ("randread", true, false, true),
            ("randwrite", false, true, true),
            ("rw", true, true, false),
            ("readwrite", true, true, false),
            ("randrw", true, true, true),
            ("trim", false, false, false),
            ("randtrim", false, false, true),
            ("trimwrite", false, true, false),
            ("randtrimwrite", false, true, true),
        ] {
            let mut option = RwOption::default();
            option.assign(text, ParseContext::default()).expect(text);
            let pattern = option.0;
            assert_eq!((pattern.reads(), pattern.writes(), pattern.is_random()), (reads, writes, random), "{text}");
            assert_eq!(pattern.trims(), text.contains("trim"), "{text}");
        }
    }

    #[test]
    fn modifiers_belong_to_their_patterns() {
        let context = ParseContext::default();
        let mut option = RwOption::default();
        for (text, modifier) in [
            ("read", Modifier::None),
            ("write:8k", Modifier::Skip(8192)),
            ("read:-4k", Modifier::Skip(-4096)),
            ("randread:8", Modifier::Every(8)),
            ("randrw:1", Modifier::None),
        ] {
            option.assign(text, context).expect(text);
            assert_eq!(option.1, modifier, "{text}");
        }
    }

    #[test]
    fn bad_words_and_modifiers_are_refused_with_reason() {
        let mut option = RwOption::default();
        for (text, word) in
            [("randtrims", "did you mean 'randtrim'"), ("randread:0", "at least 1"), ("reda", "did you mean 'read'")]
        {
            let reason = option.assign(text, ParseContext::default()).expect_err(text);
            assert!(reason.contains(word), "{reason}");
        }
    }

    #[test]
    fn advice_comes_in_lists() {
        let mut list = AdviceList::default();
        list.assign("hugepage,willneed", ParseContext::default()).expect("valid");
        assert_eq!(list.0, vec![Advice::HugePage, Advice::WillNeed]);
        list.assign("none", ParseContext::default()).expect("valid");
        assert!(list.0.is_empty());
        assert!(
            list.assign("hugepages", ParseContext::default()).expect_err("wrong").contains("did you mean 'hugepage'")
        );
    }
}
