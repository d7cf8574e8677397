//! `memory.pinned`: Memory is locked or populated.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "memory.pinned",
    doing: "faulting in and locking memory",
    signs: &[rises("pages locked", "", Quantity::Events(&["vmstat.unevictable_pgs_mlocked"]), 1.2)],
    part: Part::MoreOf(Quantity::Events(&["vmstat.unevictable_pgs_mlocked"])),
    spent: Spent::Anyhow,
    levers: &[Lever { pattern: "rlimit.memlock", worse: Worse::Any }],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[Remedy {
        reach: Reach::Mapping,
        text: "lock pages as they are touched",
        command: "mlock2(addr, length, MLOCK_ONFAULT);   /* Linux 4.4 */",
    }],
};
