//! `faultaround.reduced`: A fault on a mapped file maps fewer pages around it.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::evidence::OF_FILE;
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "faultaround.reduced",
    doing: "in faults on mapped files",
    signs: &[rises("faults that found no page of a mapped file", "", Quantity::Faults(OF_FILE), 1.15)],
    part: Part::MoreOf(Quantity::Faults(OF_FILE)),
    spent: Spent::Anyhow,
    levers: &[Lever { pattern: "mm.fault_around_bytes", worse: Worse::Lower }],
    needs_lever: NeedsLever::Always,
    refuters: &[],
    yields_to: &[],
    remedies: &[
        Remedy {
            reach: Reach::Mapping,
            text: "map the pages of the file before they are used",
            command: "madvise(addr, length, MADV_POPULATE_READ);   /* Linux 5.14 */",
        },
        Remedy {
            reach: Reach::System,
            text: "set the kernel's default again",
            command: "echo 65536 | sudo tee /sys/kernel/debug/fault_around_bytes",
        },
    ],
};
