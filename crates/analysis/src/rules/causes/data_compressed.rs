//! `data.compressed`: The kernel compresses or decompresses data.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::quantity::{Quantity, Way, rises};

const COMPONENTS: &[&str] =
    &["run.file.", "run.memory.", "run.block.", "run.other", "run.task.lock", "off.read", "off.kernel_lock"];
const CODING: Way = Way::InPlacesOf("data.compressed");

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "data.compressed",
    doing: "compressing and decompressing in the kernel",
    signs: &[rises(
        "time compressing and decompressing in the kernel",
        "ns",
        Quantity::TimeIn(COMPONENTS, CODING),
        1.05,
    )],
    part: Part::All,
    spent: Spent::In(CODING),
    levers: &[],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[
        Remedy {
            reach: Reach::File,
            text: "use a method that is faster to decompress, or smaller blocks",
            command: "mksquashfs FOLDER IMAGE -comp zstd -b 128K   # or lz4; btrfs: mount -o compress=lzo",
        },
        Remedy {
            reach: Reach::Process,
            text: "keep the result in the page cache",
            command: "cat FILES > /dev/null   # vmtouch -t FILES, or a memory limit that leaves room for them",
        },
    ],
};
