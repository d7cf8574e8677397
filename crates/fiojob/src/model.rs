//! What the language and the engines that carry jobs out both speak of: directions, operations, lengths, capabilities.

use serde::{Deserialize, Serialize};

/// Which way data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the target.
    Read = 0,
    /// To the target.
    Write = 1,
    /// What the target holds there is given up.
    Trim = 2,
}

impl Direction {
    /// All, in fio's order.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Trim];

    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// `read`, `write` or `trim`.
    #[inline]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
        }
    }
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Which way.
    pub direction: Direction,
    /// Where in the target, bytes.
    pub offset: u64,
    /// How much, bytes.
    pub bytes: u32,
}

/// How long the operations of one direction are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lengths {
    /// Least, bytes; positions of random blocks are its multiples unless `blockalign` says otherwise.
    pub min_bytes: u32,
    /// Greatest, bytes.
    pub max_bytes: u32,
    /// Sizes with shares, least share first; empty for an even draw between the two.
    pub split: Vec<(u32, u8)>,
    /// Take any length instead of multiples of the least.
    pub unaligned: bool,
}

impl Lengths {
    /// Whether all are equal.
    #[inline]
    pub fn fixed(&self) -> bool {
        self.min_bytes == self.max_bytes
    }
}

/// What an engine can do, as a set of flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps(u32);

impl Caps {
    /// Nothing in particular.
    pub const NONE: Self = Self(0);
    /// Works on a file or block device.
    pub const FILES: Self = Self(1);
    /// Can bypass the page cache.
    pub const DIRECT: Self = Self(1 << 1);
    /// Can open its file for synchronous writing.
    pub const SYNC_OPEN: Self = Self(1 << 2);
    /// Maps memory; takes the `map_` options.
    pub const MAPS: Self = Self(1 << 3);
    /// Maps anonymous memory, hugetlb too.
    pub const ANONYMOUS: Self = Self(1 << 4);
    /// Has something to flush.
    pub const FSYNC: Self = Self(1 << 5);
    /// Completes each operation before it returns: no queue, no submission latency.
    pub const SYNCHRONOUS: Self = Self(1 << 6);
    /// Touches the target's memory with the processor's own loads and stores, which a plain time stamp may overtake.
    pub const TOUCHES_MEMORY: Self = Self(1 << 7);
    /// Needs its file to have full length before it starts.
    pub const NEEDS_LENGTH: Self = Self(1 << 8);
    /// Transfers from and to a buffer.
    pub const BUFFERS: Self = Self(1 << 9);
    /// Can poll for the completion of some of its operations and not of others.
    pub const POLLED_SHARE: Self = Self(1 << 10);
    /// Can poll for the completion of operations.
    pub const POLLED: Self = Self(1 << 11);
    /// Can give up where an operation would block.
    pub const NOWAIT: Self = Self(1 << 12);
    /// Can drop an operation's pages from the page cache when it is done.
    pub const UNCACHED: Self = Self(1 << 13);
    /// Has rings shared with the kernel.
    pub const RINGS: Self = Self(1 << 14);
    /// Gathers operations that follow each other in a file before it calls: fio counts them as queued ones.
    pub const GATHERS: Self = Self(1 << 15);
    /// Maps SysV segments.
    pub const SEGMENTS: Self = Self(1 << 16);
    /// Maps memory that may come from a memfd.
    pub const MEMFD: Self = Self(1 << 17);
    /// Can give up what a block device holds.
    pub const TRIMS: Self = Self(1 << 18);
    /// Writes past the page cache to memory that keeps it; maps shared.
    pub const PERSISTS: Self = Self(1 << 19);
    /// Works on character devices of direct access, and on nothing else.
    pub const DAX_DEVICES: Self = Self(1 << 20);
    /// Can write a range of its file's pages back.
    pub const RANGE_SYNC: Self = Self(1 << 21);
    /// Changes the space of its file and moves no data: also what it calls a read needs the file to be writable, and trims are holes.
    pub const ALLOCATES: Self = Self(1 << 22);
    /// Moves its file's blocks to those of a donor.
    pub const DONOR: Self = Self(1 << 23);
    /// Looks files up.
    pub const STATS: Self = Self(1 << 24);
    /// Makes files: none is made before.
    pub const CREATES: Self = Self(1 << 25);
    /// Removes files.
    pub const DELETES: Self = Self(1 << 26);
    /// An operation is one of a whole file, whatever its size.
    pub const WHOLE_FILES: Self = Self(1 << 27);
    /// Flushes are queued as writes are, in fio's engine of the name.
    pub const QUEUES_FLUSHES: Self = Self(1 << 28);
    /// Not an ability: what an engine has that reads and writes files by system calls.
    pub const FILE_CALLS: Self = Self::FILES
        .with(Self::DIRECT)
        .with(Self::SYNC_OPEN)
        .with(Self::FSYNC)
        .with(Self::SYNCHRONOUS)
        .with(Self::BUFFERS)
        .with(Self::TRIMS)
        .with(Self::RANGE_SYNC);

    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether everything in `other` is here.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_sets() {
        let both = Caps::FILES.with(Caps::DIRECT);
        assert!(both.contains(Caps::FILES) && both.contains(Caps::NONE) && !Caps::FILES.contains(both));
    }
}
