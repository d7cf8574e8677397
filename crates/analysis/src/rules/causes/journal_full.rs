//! `journal.full`: Changes of files wait until the journal has room.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::quantity::Way;

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "journal.full",
    doing: "waiting for room in the journal",
    signs: &[],
    part: Part::All,
    // fs/jbd2/checkpoint.c and fs/xfs/xfs_log.c: who needs room writes old blocks to their places first.
    spent: Spent::In(Way::Through(&[
        "__jbd2_log_wait_for_space",
        "jbd2_log_do_checkpoint",
        "jbd2_journal_update_sb_log_tail",
        "xlog_grant_head_wait",
    ])),
    levers: &[],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &["cgroup.io_limit"],
    remedies: &[Remedy {
        reach: Reach::Device,
        text: "make the journal larger",
        command: "sudo umount /dev/{device} && sudo tune2fs -O ^has_journal /dev/{device} && sudo tune2fs -J size=256 /dev/{device}",
    }],
};
