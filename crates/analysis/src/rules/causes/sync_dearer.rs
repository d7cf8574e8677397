//! `sync.dearer`: Each flush takes longer.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, Way, rises};
use pagelab_vocab::syscalls::Purpose;

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "sync.dearer",
    doing: "waiting until data are safe",
    signs: &[rises("time of a flush", "ns", Quantity::Ratio(&["disk.flush_ns"], &["disk.flushes"]), 1.15)],
    part: Part::DearerBy(Quantity::Events(&["disk.flushes"])),
    spent: Spent::InIfTold(Way::AskingFor(Purpose::Safety)),
    levers: &[
        Lever { pattern: "block.<dev>.write_cache", worse: Worse::Any },
        Lever { pattern: "block.<dev>.fua", worse: Worse::Any },
        Lever { pattern: "block.<dev>.wbt_lat_usec", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::ForMechanism,
    refuters: &[],
    yields_to: &["device.other", "mount.changed", "cgroup.io_limit", "block.queue_settings"],
    remedies: &[Remedy {
        reach: Reach::Device,
        text: "find out what else writes to the device",
        command: "pagelab record -o again.rec --all --observe default,block -- sleep 10; pagelab show again.rec block",
    }],
};
