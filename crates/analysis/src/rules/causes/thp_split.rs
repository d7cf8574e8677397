//! `thp.split`: Huge pages are split, and not made again.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "thp.split",
    doing: "splitting huge pages, and in faults on what is left of them",
    signs: &[rises("huge pages split", "", Quantity::Events(&["vmstat.thp_split_pmd", "vmstat.thp_split_page"]), 1.2)],
    part: Part::MoreOf(Quantity::Events(&["vmstat.thp_split_pmd", "vmstat.thp_split_page"])),
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "thp.shrink_underused", worse: Worse::Any },
        Lever { pattern: "thp.khugepaged.<name>", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &["swap.traffic", "cgroup.memory_limit"],
    remedies: &[Remedy {
        reach: Reach::Mapping,
        text: "change memory in whole huge pages: round what madvise, mprotect and munmap are given up to 2 MiB",
        command: "munmap(addr, (length + (2 << 20) - 1) & ~((2UL << 20) - 1));",
    }],
};
