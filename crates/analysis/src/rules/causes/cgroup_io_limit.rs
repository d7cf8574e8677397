//! `cgroup.io_limit`: The control group's share of the device is limited.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Spent};
use crate::rules::lever::{Lever, Worse};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "cgroup.io_limit",
    doing: "waiting for the device",
    signs: &[],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "cgroup.io.max", worse: Worse::LowerLimits },
        // A group without a latency of its own is held back for those that have one.
        Lever { pattern: "cgroup.io.latency", worse: Worse::HigherLimits },
        Lever { pattern: "cgroup.io.weight", worse: Worse::Lower },
        Lever { pattern: "cgroup.io.bfq.weight", worse: Worse::Lower },
    ],
    needs_lever: NeedsLever::Always,
    refuters: &[],
    yields_to: &[],
    remedies: &[],
};
