//! `access.checked`: Others check what the program asks the kernel for.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{Quantity, Way, rises};

/// Components in which checks show, and the functions that make them.
const COMPONENTS: &[&str] =
    &["off.other", "off.read", "run.file.", "run.memory.", "run.task.", "run.network", "run.other"];
const CHECKS: Way = Way::Through(&["fanotify_handle_event", "security_*", "audit_*", "__audit_*", "__cgroup_bpf_*"]);

/// Who makes more calls is checked more often, at the same price.
const IN_CALLS: &[&str] = &["run.file.", "run.task.exec", "run.network", "run.call.entry"];

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "access.checked",
    doing: "in checks of its accesses by others",
    signs: &[rises(
        "time in checks by others, in parts of that in calls of files, programs and the network,",
        "%",
        Quantity::TimeInRatio(COMPONENTS, CHECKS, IN_CALLS),
        1.1,
    )],
    part: Part::DearerBy(Quantity::Time(IN_CALLS)),
    spent: Spent::In(CHECKS),
    levers: &[
        Lever { pattern: "cmdline.lsm", worse: Worse::Any },
        Lever { pattern: "cmdline.apparmor", worse: Worse::Any },
        Lever { pattern: "cmdline.selinux", worse: Worse::Any },
        Lever { pattern: "cmdline.audit", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Never,
    refuters: &[],
    yields_to: &[],
    remedies: &[Remedy {
        reach: Reach::Process,
        text: "find who checks, and leave the program's files or calls out there: scanners, audit rules, security modules",
        command: "sudo grep -l fanotify /proc/[0-9]*/fdinfo/* 2>/dev/null; sudo auditctl -l; cat /proc/PID/attr/current /sys/kernel/security/lsm",
    }],
};
