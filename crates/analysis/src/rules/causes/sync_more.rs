//! `sync.more`: Data are made safe more often.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::more_work::{FAULTS, PROCESSES, PROGRAMS, READS, THREADS, WRITES};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "sync.more",
    doing: "waiting until data are safe",
    signs: &[rises("flushes of the device", "", Quantity::Events(&["disk.flushes"]), 1.15)],
    part: Part::MoreOf(Quantity::Events(&["disk.flushes"])),
    levers: &[Lever { pattern: "sysctl.vm.dirty_expire_centisecs", worse: Worse::Lower }],
    needs_lever: NeedsLever::UnlessMoreWork(&[READS, WRITES, FAULTS, PROCESSES, THREADS, PROGRAMS]),
    refuters: &[],
    yields_to: &["mount.changed"],
    remedies: &[
        Remedy {
            reach: Reach::File,
            text: "make several writes safe at once",
            command: "/* one fdatasync(fd) after a batch; group commit in databases (commit_delay, synchronous_commit) */",
        },
        Remedy {
            reach: Reach::Process,
            text: "find the calls",
            command: "pagelab record --observe default,syscalls:fsync,fdatasync,msync,sync_file_range -- COMMAND; pagelab show pagelab-out syscalls",
        },
    ],
};
