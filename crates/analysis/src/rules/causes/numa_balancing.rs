//! `numa.balancing`: NUMA balancing unmaps pages to see who uses them.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "numa.balancing",
    doing: "in faults of NUMA balancing, and moving pages",
    signs: &[rises("hinting faults", "", Quantity::Events(&["vmstat.numa_hint_faults"]), 1.2)],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[Lever { pattern: "sysctl.kernel.numa_balancing", worse: Worse::Higher }],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[Remedy {
        reach: Reach::Process,
        text: "bind the program to a node, which is then left alone",
        command: "numactl --cpunodebind=0 --membind=0 COMMAND",
    }],
};
