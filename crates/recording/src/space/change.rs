//! What a row of `mappings` says: an action as a type, with ranges as the kernel rounds them.

use std::ops::Range;

use pagelab_vocab::abi;

use super::sizes::PageSizes;
use crate::tables::MappingsRow;

/// An enum whose values are words of a column.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $value:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$of])* $value,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];

            /// The value that a word of the column names; none if it is not known.
            pub fn of_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$value),)*
                    _ => None,
                }
            }

            /// Its word in the column.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)*
                }
            }
        }
    };
}
pub(crate) use words;

words! {
    /// The call: the column `op`.
    Op {
        /// Maps memory.
        Mmap = "mmap",
        /// Takes mappings away.
        Munmap = "munmap",
        /// Moves, grows or shrinks a mapping.
        Mremap = "mremap",
        /// Moves the end of the heap.
        Brk = "brk",
        /// Gives advice about memory of the caller.
        Madvise = "madvise",
        /// Gives advice about memory of the process behind a pidfd.
        ProcessMadvise = "process_madvise",
        /// Changes the access that is allowed.
        Mprotect = "mprotect",
        /// Locks in memory; `mlock2` too.
        Mlock = "mlock",
        /// Attaches a System V segment.
        Shmat = "shmat",
        /// Detaches one.
        Shmdt = "shmdt",
        /// `prctl(PR_SET_THP_DISABLE)`.
        PrctlThp = "prctl_thp",
    }
}

words! {
    /// How a mapping came to be: the column `kind`.
    Kind {
        /// By a call of the task.
        Call = "call",
        /// The kernel made it at exec.
        Kernel = "kernel",
        /// It was there when the recorder began.
        Snapshot = "snapshot",
        /// It was inherited at a fork.
        Fork = "fork",
    }
}

/// A new mapping, or one that was asked for and refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Map<'a> {
    /// Where it begins; 0 for one that was refused.
    pub start: u64,
    /// Bytes, as the kernel rounds them.
    pub len: u64,
    /// How it came to be.
    pub kind: Kind,
    /// The call named an address.
    pub asked_for_address: bool,
    /// For a System V segment: where the whole of it would begin, which is the address passed to `shmdt`.
    pub segment: Option<u64>,
    /// Faults below it make it grow: a stack.
    pub grows_down: bool,
    /// The number of the mapping; none for one that was refused.
    pub mapping_id: Option<u32>,
    /// PROT_ bits.
    pub prot: u32,
    /// MAP_ bits; for a segment `MAP_SHARED | MAP_ANONYMOUS`, as the SHM_ bits of its call mean other things.
    pub flags: u32,
    /// Size of its pages if it is hugetlb memory: ranges of it are multiples of that.
    pub hugetlb_bytes: Option<u64>,
    /// File, or the kernel's name for it.
    pub path: Option<&'a [u8]>,
    /// Offset of `start` in the file.
    pub offset: Option<u64>,
    /// Device and inode of the file.
    pub file: Option<(u64, u64)>,
}

impl Map<'_> {
    /// From the first byte up to the one behind the last.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.len)
    }

    /// Whether all of these MAP_ bits are set.
    pub fn has(&self, bits: u32) -> bool {
        self.flags & bits == bits
    }

    /// The same without its path.
    pub fn without_path(self) -> Map<'static> {
        Map { path: None, ..self }
    }
}

/// A mapping that was moved, grown or shrunk. Lengths are rounded to base pages: how hugetlb memory is rounded further
/// depends on what is mapped there, which [`Space::apply`](super::Space::apply) knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remap {
    /// Where it began.
    pub old: u64,
    /// Bytes that were moved. 0: the shared mapping there was mapped a second time. `None`: not known.
    pub old_len: Option<u64>,
    /// Where it begins now.
    pub new: u64,
    /// Bytes there.
    pub new_len: u64,
    /// MREMAP_ bits.
    pub flags: u32,
    /// The number of the mapping that it made.
    pub mapping_id: Option<u32>,
}

impl Remap {
    /// Whether the old range stays mapped, without its pages.
    pub fn keeps_old(&self) -> bool {
        self.old != self.new && (self.flags & abi::MREMAP_DONTUNMAP != 0 || self.old_len == Some(0))
    }

    /// The same with lengths that are multiples of a page of `page_bytes`.
    #[must_use]
    pub fn rounded(self, page_bytes: u64) -> Self {
        let up = |bytes: u64| round_up(bytes, page_bytes);
        Self { old_len: self.old_len.map(up), new_len: up(self.new_len), ..self }
    }

    /// The range it is at now.
    pub fn new_range(&self) -> Range<u64> {
        self.new..self.new.saturating_add(self.new_len)
    }

    /// Whether gaps in the old range stay gaps: the kernel moves several mappings at once if nothing but the place
    /// changes (since Linux 6.17, `remap_move` in mm/mremap.c), and a range that
    /// shrinks where it is loses no more than its end. In all other cases it refuses a range with gaps.
    pub fn keeps_gaps(&self) -> bool {
        let moves_only = self.flags & abi::MREMAP_FIXED != 0 && self.old_len == Some(self.new_len);
        let shrinks = self.old == self.new && self.old_len.is_some_and(|len| len >= self.new_len);
        moves_only || shrinks
    }
}

/// The effect of an action, with `M` for the mapping it makes: [`Map`], or a caller's type ([`Change::with`]). Ranges
/// run from the first byte up to the one behind the last, and are whole pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<M> {
    /// Memory was mapped, replacing earlier mappings.
    Map(M),
    /// A request to map memory failed with that errno.
    Refused(M, i32),
    /// A range was unmapped.
    Unmap(Range<u64>),
    /// The segment that was attached there was detached.
    Detach(u64),
    /// A mapping was moved, grown or shrunk.
    Remap(Remap),
    /// A request to map shared memory a second time onto its own first page failed: the kernel had unmapped the target
    /// before it looked for the memory, if that was mapped at all (`mremap_to` in mm/mremap.c).
    Clobber {
        /// The range that was to be mapped.
        target: Range<u64>,
        /// The first byte of the memory, within the target.
        source: u64,
    },
    /// The heap's end moved; where from is none if it is not known.
    Break {
        /// The end before, rounded up.
        before: Option<u64>,
        /// The end after, rounded up.
        after: u64,
        /// The number of the mapping that the heap grew by.
        mapping_id: Option<u32>,
    },
    /// MADV_ advice about a range.
    Advise(Range<u64>, i32),
    /// Advice about ranges that the row does not have: `process_madvise` passes them by a vector in memory. For another
    /// process the kernel allows only advice that changes no property of a mapping (MADV_COLD, MADV_PAGEOUT,
    /// MADV_WILLNEED, MADV_COLLAPSE: `process_madvise_remote_valid` in mm/madvise.c); about its own memory a task may
    /// give any (since Linux 6.13).
    AdviseElsewhere {
        /// The pidfd of the process.
        pidfd: Option<i32>,
        /// MADV_ number.
        advice: i32,
        /// Bytes that it was applied to.
        bytes: u64,
    },
    /// PROT_ bits of a range.
    Protect(Range<u64>, u32),
    /// A range was locked in memory.
    Lock(Range<u64>),
    /// Huge pages were forbidden for the whole address space, or allowed again.
    ForbidThp(bool),
}

impl<'a> Change<Map<'a>> {
    /// What a row says; nothing if the call failed without effect, or if the row lacks what must be known.
    ///
    /// A call that maps and fails is [`Change::Refused`]. Advice that fails with ENOMEM was applied all the same: the
    /// kernel continues behind a gap and reports it at the end (`madvise_walk_vmas` in mm/madvise.c).
    pub fn of(row: &MappingsRow<'a>, sizes: &PageSizes) -> Option<Self> {
        let (op, kind) = (Op::of_word(row.op)?, Kind::of_word(row.kind)?);
        let errno = row.ret.filter(|_| kind == Kind::Call).and_then(abi::errno_of);
        if matches!(op, Op::Mmap | Op::Shmat) {
            return match errno {
                Some(errno) => Some(Self::Refused(map_of(row, (op, kind), 0, sizes), errno)),
                None => Some(Self::Map(map_of(row, (op, kind), place(row, kind)?, sizes))),
            };
        }
        let page = sizes.page_bytes();
        let gave_advice = op == Op::Madvise && errno == Some(abi::ENOMEM);
        if let Some(errno) = errno.filter(|_| !gave_advice) {
            return if op == Op::Mremap { clobbered(row, errno, page) } else { None };
        }
        match op {
            Op::Mmap | Op::Shmat => None,
            Op::Munmap => Some(Self::Unmap(pages(row.addr?, row.len?, page))),
            Op::Shmdt => Some(Self::Detach(row.addr?)),
            Op::Mremap => Some(Self::Remap(
                Remap {
                    old: row.old_addr?,
                    old_len: row.old_len,
                    new: place(row, kind)?,
                    new_len: row.len?,
                    flags: row.flags.unwrap_or(0),
                    mapping_id: row.mapping_id,
                }
                .rounded(page),
            )),
            Op::Brk => Some(Self::Break {
                // No heap begins at 0: that is what is written if the beginning of the call was not seen.
                before: row.old_addr.filter(|before| *before > 0).map(|before| round_up(before, page)),
                after: round_up(place(row, kind)?, page),
                mapping_id: row.mapping_id,
            }),
            Op::Madvise => Some(Self::Advise(pages(row.addr?, row.len?, page), row.advice?)),
            Op::ProcessMadvise => {
                let bytes = row.ret.and_then(|ret| u64::try_from(ret).ok())?;
                Some(Self::AdviseElsewhere { pidfd: row.fd, advice: row.advice?, bytes })
            }
            Op::Mprotect => Some(Self::Protect(pages(row.addr?, row.len?, page), row.prot?)),
            Op::Mlock => Some(Self::Lock(pages(row.addr?, row.len?, page))),
            Op::PrctlThp => Some(Self::ForbidThp(row.advice? != 0)),
        }
    }
}

impl<M> Change<M> {
    /// The same with another type for the mapping.
    pub fn with<N>(self, mut other: impl FnMut(M) -> N) -> Change<N> {
        match self {
            Self::Map(map) => Change::Map(other(map)),
            Self::Refused(map, errno) => Change::Refused(other(map), errno),
            Self::Unmap(range) => Change::Unmap(range),
            Self::Detach(addr) => Change::Detach(addr),
            Self::Remap(remap) => Change::Remap(remap),
            Self::Clobber { target, source } => Change::Clobber { target, source },
            Self::Break { before, after, mapping_id } => Change::Break { before, after, mapping_id },
            Self::Advise(range, advice) => Change::Advise(range, advice),
            Self::AdviseElsewhere { pidfd, advice, bytes } => Change::AdviseElsewhere { pidfd, advice, bytes },
            Self::Protect(range, prot) => Change::Protect(range, prot),
            Self::Lock(range) => Change::Lock(range),
            Self::ForbidThp(forbidden) => Change::ForbidThp(forbidden),
        }
    }
}

/// What `mremap` unmapped before it failed. Any other range that it takes from lies outside of its target.
fn clobbered<M>(row: &MappingsRow<'_>, errno: i32, page: u64) -> Option<Change<M>> {
    let source = row.old_addr?;
    let target = pages(row.addr?, row.len?, page);
    let is_second = row.flags? & abi::MREMAP_FIXED != 0 && row.old_len == Some(0);
    (errno == abi::EFAULT && is_second && target.contains(&source)).then_some(Change::Clobber { target, source })
}

/// The address of the mapping: a call's result gives it, and the requested address is a hint.
fn place(row: &MappingsRow<'_>, kind: Kind) -> Option<u64> {
    match kind {
        Kind::Call => row.ret.map(|ret| ret as u64),
        Kind::Kernel | Kind::Snapshot | Kind::Fork => row.addr,
    }
}

/// All pages of which some part lies in the `len` bytes from `start` on.
fn pages(start: u64, len: u64, page: u64) -> Range<u64> {
    let from = start / page * page;
    from..round_up(start.saturating_add(len), page).max(from)
}

fn round_up(bytes: u64, unit: u64) -> u64 {
    bytes.checked_next_multiple_of(unit.max(1)).unwrap_or(u64::MAX)
}

fn map_of<'a>(row: &MappingsRow<'a>, (op, kind): (Op, Kind), start: u64, sizes: &PageSizes) -> Map<'a> {
    let is_attached = op == Op::Shmat;
    let flags = if is_attached { abi::MAP_SHARED | abi::MAP_ANONYMOUS } else { row.flags.unwrap_or(0) };
    let hugetlb_bytes = sizes.hugetlb_bytes(flags, row.path.unwrap_or_default());
    // What is no call has the length that it has. A call's length is rounded up to the pages of the memory
    // (`ksys_mmap_pgoff` in mm/mmap.c).
    let unit = hugetlb_bytes.filter(|_| kind == Kind::Call).unwrap_or(sizes.page_bytes());
    // A segment that was attached before is reported part by part, each with its place in the segment.
    let is_known_part = row.path.is_some_and(|path| path.starts_with(b"/SYSV"));
    let part_of = is_known_part.then(|| start.wrapping_sub(row.offset.unwrap_or(0)));
    Map {
        start,
        len: round_up(row.len.unwrap_or(0), unit),
        kind,
        asked_for_address: row.addr.is_some_and(|addr| addr != 0),
        segment: if is_attached { Some(start) } else { part_of },
        grows_down: row.path == Some(b"[stack]") || flags & abi::MAP_GROWSDOWN != 0,
        mapping_id: row.mapping_id,
        prot: row.prot.unwrap_or(0),
        flags,
        hugetlb_bytes,
        path: row.path,
        offset: row.offset,
        file: row.dev.zip(row.ino),
    }
}

/// Addresses that are mapped after a row of `mappings`, and that are not: first byte and the one behind the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ranges {
    /// Mapped from then on, whatever was there before.
    pub maps: Option<(u64, u64)>,
    /// Not mapped any more. What a call maps is mapped after it.
    pub unmaps: Option<(u64, u64)>,
}

impl Ranges {
    /// The ranges that a change maps and unmaps, from the change alone: without the earlier state, the length of a
    /// detached segment and the pages of moved hugetlb memory are not known, and nothing and base pages stand for them.
    pub fn of(change: &Change<Map<'_>>) -> Self {
        let range = |range: Range<u64>| (!range.is_empty()).then_some((range.start, range.end));
        match change {
            Change::Map(map) => Self { maps: range(map.range()), unmaps: None },
            Change::Unmap(gone) | Change::Clobber { target: gone, .. } => {
                Self { maps: None, unmaps: range(gone.clone()) }
            }
            Change::Remap(remap) => {
                let gone = remap.old_len.filter(|_| !remap.keeps_old());
                let unmaps = gone.and_then(|len| range(remap.old..remap.old.saturating_add(len)));
                Self { maps: range(remap.new_range()), unmaps }
            }
            Change::Break { before: Some(before), after, .. } => {
                Self { maps: range(*before..*after), unmaps: range(*after..*before) }
            }
            _ => Self::default(),
        }
    }
}
