//! `mmap_lock.contended`: Threads wait for the lock of their address space.

use crate::rules::component_rule::{ComponentRule, KEEP_FREED, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "mmap_lock.contended",
    doing: "waiting for the lock of the address space",
    signs: &[rises("time waiting for the lock of the address space", "ns", Quantity::Time(&["off.mmap_lock"]), 1.05)],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[Lever { pattern: "kconfig.PER_VMA_LOCK", worse: Worse::From(&["y"]) }],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &["observed.by_others"],
    remedies: &[
        Remedy {
            reach: Reach::Process,
            text: "map less often while other threads fault: keep freed memory",
            command: KEEP_FREED,
        },
        Remedy {
            reach: Reach::Mapping,
            text: "fill the memory before the threads start",
            command: "madvise(addr, length, MADV_POPULATE_WRITE);   /* Linux 5.14 */",
        },
    ],
};
