//! `shmem.small_pages`: Shared memory and tmpfs lose their huge pages.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, falls, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "shmem.small_pages",
    doing: "in faults on shared memory, and allocating and clearing its pages",
    signs: &[
        falls("huge pages of shared memory and tmpfs", "", Quantity::Events(&["vmstat.thp_file_alloc"]), 0.9),
        rises(
            "time in faults on shared memory",
            "ns",
            Quantity::Time(&["run.fault.shared", "run.fault.entry", "run.memory."]),
            1.05,
        ),
    ],
    part: Part::AllOfHugePages,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "thp.shmem_enabled", worse: Worse::From(&["always", "within_size", "advise", "force"]) },
        Lever {
            pattern: "thp.<size>.shmem_enabled",
            worse: Worse::From(&["always", "within_size", "advise", "inherit"]),
        },
        Lever {
            pattern: "mount.<mountpoint>.options",
            worse: Worse::From(&["huge=always", "huge=within_size", "huge=advise"]),
        },
    ],
    needs_lever: NeedsLever::ForMechanism,
    refuters: &[],
    yields_to: &["thp.disabled", "hugetlb.pool_exhausted"],
    remedies: &[
        Remedy {
            reach: Reach::Mapping,
            text: "ask for huge pages on the mapping; thp.shmem_enabled or huge= must be at least advise",
            command: "madvise(addr, length, MADV_HUGEPAGE);",
        },
        Remedy {
            reach: Reach::File,
            text: "give the file system huge pages",
            command: "sudo mount -o remount,huge=within_size MOUNTPOINT",
        },
    ],
};
