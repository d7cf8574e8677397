//! `swap.traffic`: Pages are fetched from swap.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "swap.traffic",
    doing: "fetching pages from swap, and writing them there",
    signs: &[rises("pages fetched from swap", "", Quantity::Events(&["vmstat.pswpin"]), 1.2)],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "sysctl.vm.swappiness", worse: Worse::Higher },
        Lever { pattern: "cgroup.memory.swappiness", worse: Worse::Higher },
        Lever { pattern: "mm.swaps", worse: Worse::Any },
        Lever { pattern: "cgroup.memory.swap.max", worse: Worse::Any },
        Lever { pattern: "sysctl.vm.page-cluster", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &["cgroup.memory_limit"],
    remedies: &[
        Remedy {
            reach: Reach::Process,
            text: "keep the memory that matters in place",
            command: "mlock(addr, length);",
        },
        Remedy {
            reach: Reach::Process,
            text: "keep the group out of swap",
            command: "echo 0 | sudo tee \"{group}/memory.swap.max\"",
        },
    ],
};
