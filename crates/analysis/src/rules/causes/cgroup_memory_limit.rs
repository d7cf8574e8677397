//! `cgroup.memory_limit`: The control group's memory limit is reached.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "cgroup.memory_limit",
    doing: "freeing memory of the group, and fetching it again",
    signs: &[rises(
        "events of the limits",
        "",
        Quantity::Events(&["cgroup.memory.max_events", "cgroup.memory.high_events"]),
        1.2,
    )],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "cgroup.memory.max", worse: Worse::Lower },
        Lever { pattern: "cgroup.memory.high", worse: Worse::Lower },
        Lever { pattern: "cgroup.memory.max.effective", worse: Worse::Lower },
        Lever { pattern: "cgroup.memory.swap.max", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[Remedy {
        reach: Reach::Process,
        text: "give the group what it uses at most",
        command: "echo 2G | sudo tee \"{group}/memory.max\"",
    }],
};
