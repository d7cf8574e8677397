//! `write.partial`: Pages are read from the device before a part of them is written.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::quantity::{Quantity, Way, rises};
use pagelab_vocab::syscalls::Purpose;

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "write.partial",
    doing: "reading what is around the bytes that it writes",
    signs: &[rises("bytes read from the device", "bytes", Quantity::Events(&["disk.read_bytes"]), 1.2)],
    part: Part::All,
    spent: Spent::In(Way::AskingFor(Purpose::Writing)),
    levers: &[],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &["cgroup.io_limit"],
    remedies: &[
        Remedy {
            reach: Reach::File,
            text: "write whole pages at page boundaries",
            command: "/* collect the bytes of a page, then one pwrite(fd, page, 4096, offset) with offset a multiple of 4096 */",
        },
        Remedy {
            reach: Reach::File,
            text: "read the file before it is written",
            command: "vmtouch -t FILE   # or: cat FILE > /dev/null",
        },
    ],
};
