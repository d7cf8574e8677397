//! `gc.more`: More garbage is collected.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::more_work::{PROCESSES, PROGRAMS, THREADS, WRITES};
use crate::rules::quantity::{Quantity, Way, rises};

const COLLECTING: Way = Way::InPlacesOf("gc.more");

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "gc.more",
    doing: "collecting garbage",
    signs: &[rises("time collecting garbage", "ns", Quantity::TimeIn(&["run.user"], COLLECTING), 1.05)],
    part: Part::All,
    spent: Spent::In(COLLECTING),
    levers: &[],
    needs_lever: NeedsLever::UnlessMoreWork(&[WRITES, PROCESSES, THREADS, PROGRAMS]),
    refuters: &[],
    yields_to: &[],
    remedies: &[
        Remedy {
            reach: Reach::Process,
            text: "give the heap more room than what lives in it, so that it is looked through less often",
            command: "GOGC=200 COMMAND   # Go; java -XX:MaxRAMPercentage=75, node --max-semi-space-size=64, Python gc.set_threshold(50000)",
        },
        Remedy {
            reach: Reach::Process,
            text: "see how often and why it collects",
            command: "GODEBUG=gctrace=1 COMMAND   # Go; java -Xlog:gc, node --trace-gc, Python gc.set_debug(gc.DEBUG_STATS)",
        },
    ],
};
