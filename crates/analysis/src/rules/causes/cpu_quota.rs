//! `cpu.quota`: The control group has used up its CPU quota.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "cpu.quota",
    doing: "waiting for the group's next quota",
    signs: &[rises(
        "time waiting for quota in parts of the time on CPUs",
        "%",
        Quantity::TimeRatio(&["ready.throttled"], &["run."]),
        1.05,
    )],
    part: Part::DearerBy(Quantity::Time(&["run."])),
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "cgroup.cpu.max", worse: Worse::Lower },
        Lever { pattern: "cgroup.cpu.max.burst", worse: Worse::Lower },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[
        Remedy {
            reach: Reach::Process,
            // The kernel takes no burst larger than the quota.
            text: "let the group save unused quota for bursts, as much as it gets at once",
            command: "cut -d' ' -f1 \"{group}/cpu.max\" | sudo tee \"{group}/cpu.max.burst\"",
        },
        Remedy {
            reach: Reach::Process,
            text: "use as many threads as the quota has CPUs",
            command: "env GOMAXPROCS=2 OMP_NUM_THREADS=2 COMMAND",
        },
    ],
};
