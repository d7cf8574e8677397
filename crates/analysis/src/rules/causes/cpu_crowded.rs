//! `cpu.crowded`: The target's own tasks have fewer CPUs to share.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "cpu.crowded",
    doing: "waiting for CPUs that the program's other tasks have",
    signs: &[rises(
        "time waiting for the program's other tasks, in parts of the time on CPUs,",
        "%",
        Quantity::TimeRatio(&["ready.own"], &["run."]),
        1.05,
    )],
    part: Part::DearerBy(Quantity::Time(&["run."])),
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "task.affinity", worse: Worse::Any },
        Lever { pattern: "cgroup.cpuset.cpus", worse: Worse::Any },
        Lever { pattern: "cpu.online", worse: Worse::Any },
        Lever { pattern: "irq.default_affinity", worse: Worse::Any },
        Lever { pattern: "irq.<irq>.affinity", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::ForMechanism,
    refuters: &[],
    yields_to: &["cpu.quota", "cpu.neighbour"],
    remedies: &[Remedy {
        reach: Reach::Process,
        text: "use as many threads as there are CPUs",
        command: "env GOMAXPROCS=2 OMP_NUM_THREADS=2 COMMAND",
    }],
};
