//! `observed.by_others`: Others hold the lock of the program's address space.

use pagelab_vocab::waits::HELD_BY_OTHERS;

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::quantity::{Quantity, Way, rises};

const HELD: Way = Way::Through(&[HELD_BY_OTHERS]);

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "observed.by_others",
    doing: "waiting while others hold the lock of its address space",
    signs: &[rises("time waiting while others hold the lock", "ns", Quantity::TimeIn(&["off.mmap_lock"], HELD), 1.05)],
    part: Part::All,
    spent: Spent::In(HELD),
    levers: &[],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[Remedy {
        reach: Reach::Process,
        text: "find who reads its smaps or pagemap, or clears its references (monitors, exporters, memory profilers), and let them ask \
               less often, or read status and statm, which hold nothing",
        command: "sudo pagelab record -a --duration 10 -o who.rec --observe syscalls; pagelab show who.rec syscalls --by file",
    }],
};
