//! `device.slower`: The device takes longer for the same requests.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Refuter, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::quantity::{DEVICE_REQUEST_BYTES, DEVICE_REQUESTS, Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "device.slower",
    doing: "waiting for the device",
    signs: &[rises(
        "time of a request",
        "ns",
        Quantity::Ratio(&["disk.read_ns", "disk.write_ns"], &["disk.reads", "disk.writes"]),
        1.15,
    )],
    part: Part::DearerBy(DEVICE_REQUESTS),
    spent: Spent::Anyhow,
    levers: &[],
    needs_lever: NeedsLever::Never,
    refuters: &[Refuter {
        sign: rises("bytes of a request", "bytes", DEVICE_REQUEST_BYTES, 1.2),
        means: "requests are larger, and take longer for that",
    }],
    yields_to: &[
        "device.other",
        "block.queue_settings",
        "cgroup.io_limit",
        "writeback.in_the_way",
        "cgroup.memory_limit",
        "readahead.reduced",
        "sync.dearer",
        "cache.refaults",
        "swap.traffic",
        "io.direct",
        "sync.more",
    ],
    remedies: &[
        Remedy {
            reach: Reach::Device,
            text: "see who else uses the device",
            command: "pagelab record -o again.rec --all --observe default,block -- sleep 10; pagelab show again.rec block",
        },
        Remedy {
            reach: Reach::Device,
            text: "measure it alone",
            command: "fio --name=alone --filename=FILE --direct=1 --rw=randread --bs=4k --runtime=10",
        },
    ],
};
