//! `reads.more`: The program reads more from files that are in the page cache.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::more_work::{FAULTS, PROCESSES, PROGRAMS, THREADS, WRITES};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "reads.more",
    doing: "in copies from the page cache",
    signs: &[
        rises("bytes that the program read", "bytes", Quantity::Events(&["target.io.rchar"]), 1.2),
        rises("time in copies from the page cache", "ns", Quantity::Time(&["run.file.read"]), 1.2),
    ],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[],
    needs_lever: NeedsLever::UnlessMoreWork(&[WRITES, FAULTS, PROCESSES, THREADS, PROGRAMS]),
    refuters: &[],
    yields_to: &["io.smaller_requests"],
    remedies: &[
        Remedy {
            reach: Reach::Process,
            text: "let the program keep what it reads: a larger cache of its own",
            command: "PRAGMA cache_size = -262144;   /* SQLite; shared_buffers, innodb_buffer_pool_size elsewhere */",
        },
        Remedy {
            reach: Reach::Process,
            text: "see which files are read, and by which calls",
            command: "pagelab record -o again.rec --observe default,syscalls -- COMMAND; pagelab show again.rec syscalls",
        },
    ],
};
