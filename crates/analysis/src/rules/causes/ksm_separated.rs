//! `ksm.separated`: Pages that KSM merged are copied when they are written.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "ksm.separated",
    doing: "copying pages that were merged",
    signs: &[rises("merged pages copied", "", Quantity::Events(&["vmstat.cow_ksm"]), 1.2)],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "mm.ksm.run", worse: Worse::To(&["1"]) },
        Lever { pattern: "mm.ksm.<name>", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[
        Remedy {
            reach: Reach::Mapping,
            text: "take memory that is written often out of it",
            command: "madvise(addr, length, MADV_UNMERGEABLE);",
        },
        Remedy {
            reach: Reach::System,
            text: "stop merging and separate all pages",
            command: "echo 2 | sudo tee /sys/kernel/mm/ksm/run",
        },
    ],
};
