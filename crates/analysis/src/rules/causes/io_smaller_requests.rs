//! `io.smaller_requests`: The same bytes take more calls.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Refuter, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::more_work::PROCESSES;
use crate::rules::quantity::{
    DEVICE_BYTES, DEVICE_REQUEST_BYTES, DEVICE_REQUESTS, MORE_DIRECT, Quantity, Sign, falls, rises,
};

const CALLS: Quantity = Quantity::Events(&["target.io.syscr", "target.io.syscw"]);

/// The kernel counts no reads and writes that are handed to io_uring or aio as calls of the task; past the page cache each of them
/// is a request of the device.
const MORE_SUBMITTED: Sign = rises("requests of the device", "", DEVICE_REQUESTS, 1.2).beside(&MORE_DIRECT);
const SMALLER_SUBMITTED: Sign =
    falls("bytes of a request of the device", "bytes", DEVICE_REQUEST_BYTES, 0.85).beside(&MORE_DIRECT);

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "io.smaller_requests",
    doing: "in reads and writes",
    signs: &[
        rises("read and write calls", "", CALLS, 1.2).or(&MORE_SUBMITTED),
        falls(
            "bytes of a call",
            "bytes",
            Quantity::Ratio(&["target.io.rchar", "target.io.wchar"], &["target.io.syscr", "target.io.syscw"]),
            0.85,
        )
        .or(&SMALLER_SUBMITTED),
    ],
    part: Part::MoreOf(CALLS),
    spent: Spent::Anyhow,
    levers: &[],
    // Each process that is started reads its program and its libraries, in pieces of all sizes.
    needs_lever: NeedsLever::UnlessMoreWork(&[PROCESSES]),
    refuters: &[
        Refuter {
            sign: rises(
                "bytes read and written",
                "bytes",
                Quantity::Events(&["target.io.rchar", "target.io.wchar"]),
                1.5,
            ),
            means: "more is read or written, in small pieces",
        },
        Refuter {
            sign: rises("bytes that the device moved for io_uring and aio", "bytes", DEVICE_BYTES, 1.5)
                .beside(&MORE_SUBMITTED),
            means: "more is read or written past the page cache, in small pieces",
        },
    ],
    yields_to: &["readahead.reduced", "sync.more", "block.queue_settings", "io.direct"],
    remedies: &[
        Remedy {
            reach: Reach::File,
            text: "read and write in larger pieces",
            command: "setvbuf(stream, NULL, _IOFBF, 1 << 20);   /* or preadv2 and pwritev2 of several buffers */",
        },
        Remedy {
            reach: Reach::Process,
            text: "see which calls are small",
            command: "pagelab record -o again.rec --observe default,syscalls -- COMMAND; pagelab show again.rec syscalls",
        },
    ],
};
