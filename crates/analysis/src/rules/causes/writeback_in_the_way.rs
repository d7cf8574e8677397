//! `writeback.in_the_way`: Reads wait behind write-back.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Refuter, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "writeback.in_the_way",
    doing: "waiting for reads",
    signs: &[
        rises("time of a read", "ns", Quantity::Ratio(&["disk.read_ns"], &["disk.reads"]), 1.15),
        rises("bytes written to the device", "bytes", Quantity::Events(&["disk.write_bytes"]), 1.15),
    ],
    part: Part::DearerBy(Quantity::Events(&["disk.reads"])),
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "block.<dev>.wbt_lat_usec", worse: Worse::Any },
        Lever { pattern: "block.<dev>.scheduler", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[Refuter {
        sign: rises("bytes of a read request", "bytes", Quantity::Ratio(&["disk.read_bytes"], &["disk.reads"]), 1.5),
        means: "reads are larger, and take longer for that",
    }],
    yields_to: &["cgroup.io_limit"],
    remedies: &[
        Remedy {
            reach: Reach::Process,
            text: "write with less priority; obeyed by bfq and mq-deadline",
            command: "ionice -c 3 COMMAND-THAT-WRITES",
        },
        Remedy {
            reach: Reach::Device,
            text: "keep room for reads",
            command: "echo bfq | sudo tee /sys/block/{device}/queue/scheduler",
        },
    ],
};
