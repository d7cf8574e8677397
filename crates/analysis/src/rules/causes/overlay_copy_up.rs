//! `overlay.copy_up`: Files of a lower layer are copied before they are changed.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::quantity::Way;

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "overlay.copy_up",
    doing: "copying files of lower layers up",
    signs: &[],
    part: Part::All,
    // fs/overlayfs/copy_up.c: kernels may have inlined one into the other.
    spent: Spent::In(Way::Through(&["ovl_copy_up_flags", "ovl_copy_up_one"])),
    levers: &[],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &["cgroup.io_limit"],
    remedies: &[
        Remedy {
            reach: Reach::File,
            text: "give the image's files their owner and mode when it is built",
            command: "COPY --chown=USER --chmod=644 FILES /srv/   # in the Dockerfile; or keep what is written in a volume",
        },
        Remedy {
            reach: Reach::Device,
            text: "copy no contents where an owner or a mode changes",
            command: "sudo mount -t overlay overlay -o lowerdir=LOWER,upperdir=UPPER,workdir=WORK,metacopy=on MERGED",
        },
    ],
};
