//! Classes of mappings: what makes two mappings comparable.

use std::fmt;

use pagelab_vocab::units::bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What stands behind a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Private memory without a file, from mmap.
    Anonymous,
    /// Memory shared without a file (MAP_SHARED | MAP_ANONYMOUS, System V segments).
    SharedAnonymous,
    /// A file.
    File,
    /// Memory out of a pool of huge pages (MAP_HUGETLB or a file on hugetlbfs).
    Hugetlb,
    /// A stack: the process's own, or memory mapped with MAP_STACK.
    Stack,
    /// The heap that brk grows.
    Heap,
    /// vdso and other things that the kernel puts into every process.
    Kernel,
}

impl MemoryKind {
    /// The word used in sentences.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::SharedAnonymous => "shared anonymous",
            Self::File => "file",
            Self::Hugetlb => "hugetlb",
            Self::Stack => "stack",
            Self::Heap => "heap",
            Self::Kernel => "kernel-made",
        }
    }

    /// Whether thp.enabled decides about it: private memory that belongs to no file. Stacks mapped with MAP_STACK
    /// refuse huge pages since Linux 6.7 and the process's own grows in pieces too small for them.
    pub const fn takes_anonymous_thp(self) -> bool {
        matches!(self, Self::Anonymous | Self::Heap)
    }
}

/// What the program said about huge pages for a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThpAdvice {
    /// Nothing.
    #[default]
    None,
    /// madvise(MADV_HUGEPAGE).
    Huge,
    /// madvise(MADV_NOHUGEPAGE).
    NoHuge,
    /// prctl(PR_SET_THP_DISABLE) in this process or an ancestor, seen while recording.
    Prctl,
}

/// Mappings with the same key are one class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize)]
pub struct ClassKey {
    /// What stands behind it.
    pub kind: MemoryKind,
    /// File, for [`MemoryKind::File`] and files on hugetlbfs; bytes that are not UTF-8 replaced.
    pub path: Option<String>,
    /// Lengths from this power of two up to, not including, the next; 0 where the length tells nothing: heaps and
    /// stacks grow, and what the kernel makes is always alike.
    pub size_bytes: u64,
    /// Name of the thread that mapped it.
    pub comm: Option<String>,
    /// What the program said about huge pages.
    pub advice: ThpAdvice,
}

impl ClassKey {
    /// Whether `other` is the same sort of memory, whoever mapped it and whatever was advised. Names of threads and
    /// files may differ between two sides that do the same work.
    pub fn alike(&self, other: &Self) -> bool {
        self.kind == other.kind && self.size_bytes == other.size_bytes
    }
}

impl fmt::Display for ClassKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, self.kind) {
            (Some(path), MemoryKind::File) => write!(f, "{path}")?,
            (Some(path), kind) => write!(f, "{} {path}", kind.word())?,
            (None, kind) => f.write_str(kind.word())?,
        }
        if self.size_bytes > 0 {
            write!(f, ", {} to {}", bytes(self.size_bytes), bytes(self.size_bytes.saturating_mul(2)))?;
        }
        if let Some(comm) = &self.comm {
            write!(f, ", by {comm}")?;
        }
        match self.advice {
            ThpAdvice::None => Ok(()),
            ThpAdvice::Huge => f.write_str(", advised MADV_HUGEPAGE"),
            ThpAdvice::NoHuge => f.write_str(", advised MADV_NOHUGEPAGE"),
            ThpAdvice::Prctl => f.write_str(", huge pages off by prctl"),
        }
    }
}

/// The lower end of the size class of a length: the largest power of two that is not above it, 0 for 0.
pub const fn size_class_of(len: u64) -> u64 {
    match len.checked_ilog2() {
        Some(bits) => 1 << bits,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_said_exactly_where_that_is_short() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(bytes(2 << 20), "2 MiB");
        assert_eq!(bytes((2 << 20) + 4096), "2052 KiB");
        assert_eq!(bytes(12_345_678), "11.8 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn what_grows_is_of_no_size_class() {
        let heap = ClassKey {
            kind: MemoryKind::Heap,
            path: None,
            size_bytes: 0,
            comm: Some("sh".to_owned()),
            advice: ThpAdvice::None,
        };
        assert_eq!(heap.to_string(), "heap, by sh");
        let mapped = ClassKey { kind: MemoryKind::Anonymous, size_bytes: 1 << 20, ..heap };
        assert_eq!(mapped.to_string(), "anonymous, 1 MiB to 2 MiB, by sh");
    }

    #[test]
    fn a_size_class_holds_its_lengths() {
        assert_eq!(size_class_of(0), 0);
        for len in [1, 4096, 4097, 2 << 20, (2 << 20) + 4096, u64::MAX] {
            let low = size_class_of(len);
            assert!(low <= len && len - low < low, "{len} is in {low}");
        }
    }
}
