//! `cpu.frequency`: CPUs run at a lower frequency.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Refuter, Spent};
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, keeps, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "cpu.frequency",
    doing: "on CPUs",
    signs: &[rises("time on CPUs", "ns", Quantity::Time(&["run."]), 1.05)],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "cpu.governor", worse: Worse::From(&["performance"]) },
        Lever { pattern: "cpu.boost", worse: Worse::Lower },
        Lever { pattern: "cpu.no_turbo", worse: Worse::Higher },
        Lever { pattern: "cpu.scaling_max_freq", worse: Worse::Lower },
        Lever { pattern: "cpu.energy_performance_preference", worse: Worse::Any },
        Lever { pattern: "cpu.smt.control", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Always,
    refuters: &[Refuter {
        sign: keeps("speed of the CPUs (stream speed)", "calls/s", Quantity::CpuSpeed, 0.98),
        means: "the CPUs were as fast",
    }],
    yields_to: &["thp.disabled", "call.dearer", "map.churn", "numa.remote"],
    remedies: &[],
};
