//! `file.fragmented`: A file lies on its device in more pieces.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{DEVICE_REQUEST_BYTES, falls};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "file.fragmented",
    doing: "in reads and writes of the device",
    signs: &[falls("bytes of a request", "bytes", DEVICE_REQUEST_BYTES, 0.9)],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[Lever { pattern: "file.<path>.extents", worse: Worse::ManyMore }],
    needs_lever: NeedsLever::Always,
    refuters: &[],
    yields_to: &["readahead.reduced", "io.smaller_requests", "io.direct", "cgroup.memory_limit"],
    remedies: &[
        Remedy { reach: Reach::File, text: "see how it lies", command: "filefrag -v FILE" },
        Remedy {
            reach: Reach::File,
            text: "put it together (ext4; the file can be in use)",
            command: "sudo e4defrag FILE",
        },
        Remedy {
            reach: Reach::Process,
            text: "say how long the file will be before it is written",
            command: "posix_fallocate(fd, 0, length);",
        },
    ],
};
