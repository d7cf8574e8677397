//! `cache.refaults`: The working set of files is larger than the cache.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "cache.refaults",
    doing: "reading again what was dropped from the page cache",
    signs: &[
        rises("pages of files dropped and read again", "", Quantity::Events(&["vmstat.workingset_refault_file"]), 1.2),
        rises("bytes read from the device", "bytes", Quantity::Events(&["disk.read_bytes"]), 1.1),
    ],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "sysctl.vm.swappiness", worse: Worse::Any },
        Lever { pattern: "mm.lru_gen.enabled", worse: Worse::Any },
        Lever { pattern: "cgroup.memory.low", worse: Worse::Lower },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &["cgroup.memory_limit"],
    remedies: &[
        Remedy {
            reach: Reach::File,
            text: "do not keep what is read once",
            command: "posix_fadvise(fd, offset, length, POSIX_FADV_DONTNEED);",
        },
        Remedy {
            reach: Reach::System,
            text: "leave more memory to the cache: fewer programs, fewer pages in hugetlb pools",
            command: "sudo pagelab hugepages set 2M 0",
        },
    ],
};
