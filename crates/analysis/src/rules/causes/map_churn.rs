//! `map.churn`: Memory is mapped and given back again and again.

use crate::rules::component_rule::{ComponentRule, KEEP_FREED, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::more_work::{PROCESSES, PROGRAMS, READS, THREADS, WRITES};
use crate::rules::quantity::{Quantity, Sign, rises};

/// A few calls more of a program that makes many may be of large blocks.
const MORE_BYTES: Sign = rises("bytes given back by munmap", "bytes", Quantity::GivenBack, 1.5);

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "map.churn",
    doing: "mapping, unmapping and faulting memory in",
    signs: &[
        rises("mapping calls", "", Quantity::Calls(&["mmap", "munmap", "brk", "mremap", "madvise"]), 1.2)
            .or(&MORE_BYTES),
        // What is given back is faulted in again: calls that only grow the heap bring few more.
        rises("page faults", "", Quantity::Events(&["faults.count"]), 1.1),
    ],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "env.MALLOC_<var>", worse: Worse::Any },
        Lever { pattern: "env.GLIBC_TUNABLES", worse: Worse::Any },
        Lever { pattern: "env.LD_PRELOAD", worse: Worse::Any },
        Lever { pattern: "env.TCMALLOC_<var>", worse: Worse::Any },
        Lever { pattern: "env.MIMALLOC_<var>", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::UnlessMoreWork(&[READS, WRITES, PROCESSES, THREADS, PROGRAMS]),
    refuters: &[],
    yields_to: &["hugetlb.pool_exhausted", "memory.pinned", "program.starts"],
    remedies: &[
        Remedy { reach: Reach::Process, text: "let glibc keep what is freed", command: KEEP_FREED },
        Remedy {
            reach: Reach::Mapping,
            text: "keep large buffers and use them again",
            command: "/* one buffer for the life of the thread instead of malloc and free around each use */",
        },
    ],
};
