//! `fork.copies`: Pages shared after a fork are copied when they are written.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::evidence::ON_PRESENT_PAGE;
use crate::rules::finding::Reach;
use crate::rules::more_work::{PROGRAMS, READS, THREADS, WRITES};
use crate::rules::quantity::{Quantity, Sign, rises};

/// A fork shares what was left out of it on the other side (MADV_DONTFORK), or there is more of it.
const FORKS_ARE_DEARER: Sign = rises("time in fork", "ns", Quantity::Time(&["run.task.fork"]), 1.2);

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "fork.copies",
    doing: "forking and copying pages",
    signs: &[
        rises("faults on pages that could not be written", "", Quantity::Faults(ON_PRESENT_PAGE), 1.15),
        rises("processes that were forked", "", Quantity::Forks, 1.1).or(&FORKS_ARE_DEARER),
    ],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[],
    needs_lever: NeedsLever::UnlessMoreWork(&[READS, WRITES, THREADS, PROGRAMS]),
    refuters: &[],
    yields_to: &["ksm.separated", "program.starts"],
    remedies: &[
        Remedy {
            reach: Reach::Process,
            text: "start programs without copying the address space",
            command: "posix_spawn(&pid, path, NULL, NULL, argv, envp);   /* or vfork */",
        },
        Remedy {
            reach: Reach::Mapping,
            text: "leave memory that the child does not need out of it",
            command: "madvise(addr, length, MADV_DONTFORK);",
        },
    ],
};
