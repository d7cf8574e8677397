//! `call.dearer`: Entering the kernel costs more.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, Sign, rises};

/// A program that installs filters itself does so after its settings were read.
static FILTERS: Sign = rises(
    "time in seccomp filters in parts of that of other entering and leaving",
    "%",
    Quantity::TimeRatio(&["run.call.filter"], &["run.call.entry"]),
    1.5,
);

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "call.dearer",
    doing: "entering and leaving the kernel",
    signs: &[rises(
        "time entering and leaving calls",
        "ns",
        Quantity::Time(&["run.call.entry", "run.call.filter"]),
        1.05,
    )],
    part: Part::All,
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "task.seccomp_filters", worse: Worse::Higher },
        Lever { pattern: "task.seccomp", worse: Worse::To(&["filter", "strict"]) },
        Lever { pattern: "cmdline.mitigations", worse: Worse::Any },
        Lever { pattern: "cpu.vulnerabilities.<name>", worse: Worse::Any },
        Lever { pattern: "kernel.clocksource", worse: Worse::Any },
        Lever { pattern: "kconfig.MITIGATION_<param>", worse: Worse::Any },
        Lever { pattern: "sysctl.kernel.task_delayacct", worse: Worse::Higher },
    ],
    needs_lever: NeedsLever::AlwaysUnless(&FILTERS),
    refuters: &[],
    yields_to: &["io.smaller_requests"],
    remedies: &[Remedy {
        reach: Reach::Process,
        text: "call less often: batch, io_uring, a vDSO clock",
        command: "pagelab record -o again.rec --observe default,syscalls -- COMMAND; pagelab show again.rec syscalls",
    }],
};
