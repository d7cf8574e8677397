//! `writeback.throttled`: Writers are held back because too many pages are dirty.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "writeback.throttled",
    doing: "waiting for dirty pages to be written",
    signs: &[rises("time held back for dirty pages", "ns", Quantity::Time(&["off.dirty_throttling"]), 1.05)],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        // Writers are held back from half of both limits on (mm/page-writeback.c, dirty_freerun_ceiling); the one of 0 is not in force.
        Lever { pattern: "sysctl.vm.dirty_bytes", worse: Worse::LowerOrFromOff },
        Lever { pattern: "sysctl.vm.dirty_ratio", worse: Worse::Lower },
        Lever { pattern: "sysctl.vm.dirty_background_bytes", worse: Worse::LowerOrFromOff },
        Lever { pattern: "sysctl.vm.dirty_background_ratio", worse: Worse::Lower },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &["cgroup.io_limit"],
    remedies: &[
        Remedy {
            reach: Reach::File,
            text: "begin the writing earlier, and in step with the program",
            command: "sync_file_range(fd, offset, length, SYNC_FILE_RANGE_WRITE);",
        },
        Remedy {
            reach: Reach::System,
            text: "allow more dirty pages",
            command: "echo 20 | sudo tee /proc/sys/vm/dirty_ratio",
        },
    ],
};
