//! `block.queue_settings`: A setting of the block queue holds requests back.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Spent};
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, Sign, rises_to};

/// Few requests hold back only who waits for one to be free, or has others wait for it (the workers of io_uring, unseen).
const QUEUE_IS_FULL: Sign = rises_to(
    "time waiting for room in the queue and for asynchronous I/O",
    "ns",
    Quantity::Time(&["off.block_queue", "off.async_io"]),
    1.2,
    1_000_000.0,
);

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "block.queue_settings",
    doing: "handing requests to the device and waiting for them",
    signs: &[],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "block.<dev>.nr_requests", worse: Worse::LowerWith(&QUEUE_IS_FULL) },
        Lever { pattern: "block.<dev>.scheduler", worse: Worse::Any },
        Lever { pattern: "block.<dev>.max_sectors_kb", worse: Worse::Lower },
        Lever { pattern: "block.<dev>.nomerges", worse: Worse::Any },
        Lever { pattern: "block.<dev>.iosched.<name>", worse: Worse::Any },
        Lever { pattern: "block.<dev>.rq_affinity", worse: Worse::Any },
        Lever { pattern: "block.<dev>.io_poll", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Always,
    refuters: &[],
    yields_to: &["readahead.reduced"],
    remedies: &[],
};
