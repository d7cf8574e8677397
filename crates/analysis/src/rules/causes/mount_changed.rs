//! `mount.changed`: A mount option makes changes wait for the medium.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Spent};
use crate::rules::lever::{Lever, Worse};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "mount.changed",
    doing: "in changes of files, and waiting for them",
    signs: &[],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever {
            pattern: "mount.<mountpoint>.options",
            worse: Worse::To(&[
                "sync",
                "dirsync",
                "discard",
                "strictatime",
                "data=journal",
                "nodelalloc",
                "journal_checksum",
            ]),
        },
        Lever {
            pattern: "mount.<mountpoint>.options",
            worse: Worse::From(&[
                "noatime",
                "relatime",
                "lazytime",
                "nobarrier",
                "barrier=0",
                "data=writeback",
                "noauto_da_alloc",
            ]),
        },
        Lever { pattern: "mount.<mountpoint>.fs", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Always,
    refuters: &[],
    yields_to: &[],
    remedies: &[],
};
