//! `program.starts`: More programs are started.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::quantity::{Quantity, rises};

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "program.starts",
    doing: "starting and ending programs, and in their first faults",
    // Starts are counted exactly. The time of exits is left out: it follows the memory that is given back.
    signs: &[
        rises("programs that were started", "", Quantity::Execs, 1.03),
        rises("time in fork and exec", "ns", Quantity::Time(&["run.task.fork", "run.task.exec"]), 1.03),
    ],
    // All faults of the program are in these components: a wrapper that starts one program more takes no part of them.
    part: Part::MoreOf(Quantity::Execs),
    spent: Spent::Anyhow,
    levers: &[],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[
        Remedy {
            reach: Reach::Process,
            text: "do it within one program, or give one program more to do at once",
            command: "xargs -n 1000 COMMAND   /* or the shell's own commands in place of /bin ones */",
        },
        Remedy {
            reach: Reach::Process,
            text: "see which programs are started",
            command: "pagelab record -o again.rec -- COMMAND; pagelab query again.rec \"SELECT exe_text, count(*) FROM tasks WHERE op = 'exec' GROUP BY 1 ORDER BY 2 DESC\"",
        },
    ],
};
