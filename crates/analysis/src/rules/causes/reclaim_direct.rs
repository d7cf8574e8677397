//! `reclaim.direct`: Tasks free memory themselves because the host has too little.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "reclaim.direct",
    doing: "freeing memory",
    signs: &[rises(
        "stalls in direct reclaim",
        "",
        Quantity::Events(&[
            "vmstat.allocstall_dma",
            "vmstat.allocstall_dma32",
            "vmstat.allocstall_normal",
            "vmstat.allocstall_movable",
            "vmstat.allocstall_device",
        ]),
        1.2,
    )],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "sysctl.vm.min_free_kbytes", worse: Worse::Any },
        Lever { pattern: "sysctl.vm.watermark_scale_factor", worse: Worse::Any },
        Lever { pattern: "sysctl.vm.watermark_boost_factor", worse: Worse::Any },
        Lever { pattern: "sysctl.vm.zone_reclaim_mode", worse: Worse::Any },
        Lever { pattern: "mm.lru_gen.enabled", worse: Worse::Any },
        Lever { pattern: "sysctl.vm.vfs_cache_pressure", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &["cgroup.memory_limit"],
    remedies: &[
        Remedy {
            reach: Reach::System,
            text: "let kswapd begin earlier",
            command: "echo 200 | sudo tee /proc/sys/vm/watermark_scale_factor",
        },
        Remedy {
            reach: Reach::Process,
            text: "use less memory, or read with O_DIRECT what is read once",
            command: "open(path, O_RDONLY | O_DIRECT);",
        },
    ],
};
