//! `thp.compaction`: Faults move pages together before they get a huge one.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "thp.compaction",
    doing: "moving pages together",
    signs: &[rises("stalls in compaction", "", Quantity::Events(&["vmstat.compact_stall"]), 1.2)],
    part: Part::MoreOf(Quantity::Events(&["vmstat.compact_stall"])),
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "thp.defrag", worse: Worse::To(&["always"]) },
        Lever { pattern: "sysctl.vm.compaction_proactiveness", worse: Worse::Lower },
        Lever { pattern: "sysctl.vm.extfrag_threshold", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[Remedy {
        reach: Reach::System,
        text: "let faults take a base page and leave the moving to the kernel's threads",
        command: "echo defer+madvise | sudo tee /sys/kernel/mm/transparent_hugepage/defrag",
    }],
};
