//! `zswap.traffic`: Pages are compressed and decompressed.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "zswap.traffic",
    doing: "compressing and decompressing pages",
    signs: &[rises("pages decompressed", "", Quantity::Events(&["vmstat.zswpin"]), 1.2)],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "mm.zswap.enabled", worse: Worse::To(&["Y", "1"]) },
        Lever { pattern: "mm.zswap.<name>", worse: Worse::Any },
        Lever { pattern: "cgroup.memory.zswap.max", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &["cgroup.memory_limit"],
    remedies: &[Remedy {
        reach: Reach::System,
        text: "choose a faster compressor",
        command: "echo lz4 | sudo tee /sys/module/zswap/parameters/compressor",
    }],
};
