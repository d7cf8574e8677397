//! `io.smaller_requests`: The same bytes take more calls.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Refuter, Remedy};
use crate::rules::finding::Reach;
use crate::rules::more_work::PROCESSES;
use crate::rules::quantity::{Quantity, falls, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "io.smaller_requests",
    doing: "in reads and writes",
    signs: &[
        rises("read and write calls", "", Quantity::Events(&["target.io.syscr", "target.io.syscw"]), 1.2),
        falls(
            "bytes of a call",
            "bytes",
            Quantity::Ratio(&["target.io.rchar", "target.io.wchar"], &["target.io.syscr", "target.io.syscw"]),
            0.85,
        ),
    ],
    part: Part::MoreOf(Quantity::Events(&["target.io.syscr", "target.io.syscw"])),
    levers: &[],
    // Each process that is started reads its program and its libraries, in pieces of all sizes.
    needs_lever: NeedsLever::UnlessMoreWork(&[PROCESSES]),
    refuters: &[Refuter {
        sign: rises("bytes read and written", "bytes", Quantity::Events(&["target.io.rchar", "target.io.wchar"]), 1.5),
        means: "more is read or written, in small pieces",
    }],
    yields_to: &["readahead.reduced", "sync.more"],
    remedies: &[
        Remedy {
            reach: Reach::File,
            text: "read and write in larger pieces",
            command: "setvbuf(stream, NULL, _IOFBF, 1 << 20);   /* or preadv2 and pwritev2 of several buffers */",
        },
        Remedy {
            reach: Reach::Process,
            text: "see which calls are small",
            command: "pagelab record --observe default,syscalls -- COMMAND; pagelab show pagelab-out syscalls",
        },
    ],
};
