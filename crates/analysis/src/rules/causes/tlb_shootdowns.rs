//! `tlb.shootdowns`: Other CPUs are interrupted to drop mappings.

use crate::rules::component_rule::{ComponentRule, KEEP_FREED, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "tlb.shootdowns",
    doing: "telling other CPUs to drop mappings",
    signs: &[
        rises("interrupts to drop mappings", "", Quantity::Events(&["interrupts[TLB]"]), 1.2),
        rises("time in telling other CPUs", "ns", Quantity::Time(&["run.space.flush"]), 1.05),
    ],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[Lever { pattern: "sysctl.kernel.numa_balancing", worse: Worse::Higher }],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[
        Remedy {
            reach: Reach::Process,
            text: "give memory back in few large pieces, or not at all",
            command: KEEP_FREED,
        },
        Remedy {
            reach: Reach::Process,
            text: "use processes instead of threads where memory is mapped often",
            command: "/* each address space interrupts only the CPUs that it runs on */",
        },
    ],
};
