//! `thp.clearing`: Faults clear whole huge pages of which little is used.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "thp.clearing",
    doing: "clearing pages and giving them back",
    signs: &[rises("huge pages that faults took", "", Quantity::Events(&["vmstat.thp_fault_alloc"]), 1.2)],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "thp.enabled", worse: Worse::To(&["always"]) },
        Lever { pattern: "thp.<size>.enabled", worse: Worse::To(&["always"]) },
        Lever { pattern: "mm.thp_disable", worse: Worse::Lower },
    ],
    // Programs that use more memory take and clear more huge pages, too.
    needs_lever: NeedsLever::Always,
    refuters: &[],
    yields_to: &["thp.compaction"],
    remedies: &[
        Remedy {
            reach: Reach::Mapping,
            text: "keep huge pages away from memory that is touched here and there",
            command: "madvise(addr, length, MADV_NOHUGEPAGE);",
        },
        Remedy {
            reach: Reach::System,
            text: "leave it to programs to ask for huge pages",
            command: "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        },
    ],
};
