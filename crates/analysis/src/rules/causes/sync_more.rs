//! `sync.more`: Data are made safe more often.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Refuter, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::more_work::{FAULTS, PROCESSES, PROGRAMS, READS, THREADS, WRITES};
use crate::rules::quantity::{Quantity, Sign, Way, rises, rises_to, stays_below};
use pagelab_vocab::syscalls::Purpose;

const FLUSHES: Quantity = Quantity::Events(&["disk.flushes"]);

/// A device without a volatile cache is never flushed, and sync_file_range(2) flushes none: then it is the writes that are waited for.
const WAITS_FOR_WRITES: Sign =
    rises("time waiting until pages are written", "ns", Quantity::Time(&["off.write_back"]), 1.2);
const MORE_WRITTEN: Sign =
    rises("writes of the device", "", Quantity::Events(&["disk.writes"]), 1.15).beside(&WAITS_FOR_WRITES);

/// Writes that are made safe as they are written, and memory that msync(2) makes safe, flush without such a call.
const FLUSHES_WITHOUT_CALLS: Sign = rises_to(
    "flushes of the device for each call that asks for data to be made safe",
    "",
    Quantity::Ratio(&["disk.flushes"], &["used.syncs"]),
    1.5,
    4.0,
);
const AS_MANY_CALLS: Sign =
    stays_below("calls that ask for data to be made safe", "", Quantity::Events(&["used.syncs"]), 1.1)
        .unless(&FLUSHES_WITHOUT_CALLS);

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "sync.more",
    doing: "waiting until data are safe",
    signs: &[rises("flushes of the device", "", FLUSHES, 1.15).or(&MORE_WRITTEN)],
    part: Part::MoreOf(FLUSHES),
    spent: Spent::InIfTold(Way::AskingFor(Purpose::Safety)),
    levers: &[Lever { pattern: "sysctl.vm.dirty_expire_centisecs", worse: Worse::Lower }],
    needs_lever: NeedsLever::UnlessMoreWork(&[READS, WRITES, FAULTS, PROCESSES, THREADS, PROGRAMS]),
    refuters: &[Refuter { sign: AS_MANY_CALLS, means: "the same calls do more" }],
    yields_to: &["mount.changed", "io.direct", "journal.full"],
    remedies: &[
        Remedy {
            reach: Reach::File,
            text: "make several writes safe at once",
            command: "/* one fdatasync(fd) after a batch; group commit in databases (commit_delay, synchronous_commit) */",
        },
        Remedy {
            reach: Reach::Process,
            text: "find the calls",
            command: "pagelab record -o again.rec --observe default,syscalls:fsync,fdatasync,msync,sync_file_range -- COMMAND; pagelab show again.rec syscalls",
        },
    ],
};
