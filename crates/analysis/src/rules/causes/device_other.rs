//! `device.other`: The target's files lie on another device, which takes longer.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::quantity::{Quantity, rises, rises_to};

/// Requests that a task waits for.
const REQUESTS: &[&str] = &["disk.reads", "disk.writes", "disk.flushes"];

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "device.other",
    doing: "waiting for the device",
    signs: &[
        rises_to("devices of the target that the other side does not use", "", Quantity::OtherDevice, 2.0, 0.5),
        rises(
            "time of a request",
            "ns",
            Quantity::Ratio(&["disk.read_ns", "disk.write_ns", "disk.flush_ns"], REQUESTS),
            1.15,
        ),
    ],
    part: Part::DearerBy(Quantity::Events(REQUESTS)),
    spent: Spent::Anyhow,
    levers: &[],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &["cgroup.io_limit"],
    remedies: &[Remedy {
        reach: Reach::Device,
        text: "put the files on the device that they were on, or compare both sides on one",
        command: "lsblk -o NAME,TYPE,ROTA,SIZE,MOUNTPOINTS /dev/{device}",
    }],
};
