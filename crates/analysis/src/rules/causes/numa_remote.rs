//! `numa.remote`: Memory lies on another node than the tasks that use it.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "numa.remote",
    doing: "on CPUs",
    signs: &[rises(
        "share of pages from another node",
        "%",
        Quantity::Ratio(&["vmstat.numa_other", "vmstat.numa_miss"], &["vmstat.numa_hit"]),
        1.2,
    )],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "cgroup.cpuset.mems", worse: Worse::Any },
        Lever { pattern: "task.mems_allowed", worse: Worse::Any },
        Lever { pattern: "task.affinity", worse: Worse::Any },
        Lever { pattern: "sysctl.vm.zone_reclaim_mode", worse: Worse::Any },
        Lever { pattern: "sysctl.kernel.numa_balancing", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Always,
    refuters: &[],
    yields_to: &["thp.disabled", "swap.traffic", "reclaim.direct"],
    remedies: &[Remedy {
        reach: Reach::Process,
        text: "bind tasks and memory to one node",
        command: "numactl --cpunodebind=0 --membind=0 COMMAND",
    }],
};
