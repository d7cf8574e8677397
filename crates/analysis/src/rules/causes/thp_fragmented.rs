//! `thp.fragmented`: Huge pages are allowed, and there is no memory in one piece for them.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, falls, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "thp.fragmented",
    doing: "in faults by base pages, allocating and clearing them",
    signs: &[
        rises("faults that found no huge page", "", Quantity::Events(&["vmstat.thp_fault_fallback"]), 1.2),
        falls("huge pages put into place", "", Quantity::Events(&["vmstat.thp_fault_alloc"]), 0.9),
    ],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "sysctl.vm.compaction_proactiveness", worse: Worse::Lower },
        Lever { pattern: "thp.defrag", worse: Worse::From(&["always", "defer", "defer+madvise"]) },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &["hugetlb.pool_exhausted"],
    remedies: &[
        Remedy {
            reach: Reach::Mapping,
            text: "ask for the pages where the memory is made, and let the kernel move others out of the way",
            command: "madvise(addr, length, MADV_COLLAPSE);   /* once the memory is filled */",
        },
        Remedy {
            reach: Reach::System,
            text: "move pages together now; it lasts until memory is scattered again",
            command: "echo 1 | sudo tee /proc/sys/vm/compact_memory",
        },
        Remedy {
            reach: Reach::System,
            text: "keep pages of one size in reserve instead",
            command: "sudo pagelab hugepages set 2M 512",
        },
    ],
};
