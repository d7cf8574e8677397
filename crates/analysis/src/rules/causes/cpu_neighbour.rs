//! `cpu.neighbour`: Other programs, or other guests, have the CPUs.

use crate::rules::component_rule::{ComponentRule, NeedsLever, Part, Refuter, Remedy, Spent};
use crate::rules::finding::Reach;
use crate::rules::lever::{Lever, Worse};
use crate::rules::quantity::{DEVICE_BYTES, Quantity, Sign, Way, rises, rises_to, stays_below};

/// Bytes of a run from which the hypervisor's work for a device is a part of the time that it takes.
const MUCH_BYTES: f64 = 16.0 * 1024.0 * 1024.0;

/// Has no other reason than the cause.
const OTHERS_HAVE_THE_CPUS: Sign = rises_to(
    "time waiting while other programs have the CPU, in parts of the time on CPUs,",
    "%",
    Quantity::TimeRatio(&["ready.foreign"], &["run."]),
    1.2,
    0.01,
);

/// A task that is woken waits for a CPU each time, beside whomever, and one that sleeps more often waits more often.
const AS_LONG_EACH_TIME: Sign = stays_below(
    "time waiting for CPUs that others have, for each time that a task slept,",
    "ns",
    Quantity::TimePer(&["ready.foreign", "run.stolen"], &["run.voluntary_switches"]),
    1.05,
);

/// The rule.
pub(super) static RULE: ComponentRule = ComponentRule {
    cause: "cpu.neighbour",
    doing: "waiting for CPUs that are shared with others",
    signs: &[rises(
        "time waiting for CPUs that others have, in parts of the time on CPUs,",
        "%",
        Quantity::TimeRatio(&["ready.foreign", "run.stolen"], &["run."]),
        1.05,
    )],
    part: Part::DearerBy(Quantity::Time(&["run."])),
    spent: Spent::Anyhow,
    levers: &[
        Lever { pattern: "task.nice", worse: Worse::Higher },
        Lever { pattern: "task.policy", worse: Worse::Any },
        Lever { pattern: "cgroup.cpu.weight", worse: Worse::Lower },
        Lever { pattern: "sysctl.kernel.sched_autogroup_enabled", worse: Worse::Any },
    ],
    needs_lever: NeedsLever::Never,
    // Beside others a program's tasks wait for each other, too, but not more than for the others.
    refuters: &[
        Refuter {
            sign: rises_to(
                "the program's own tasks in the time waiting for a CPU",
                "%",
                Quantity::TimeRatio(&["ready.own"], &["ready.own", "ready.foreign", "run.stolen"]),
                1.2,
                0.5,
            ),
            means: "its own tasks have the CPUs",
        },
        // Who is asked runs in place of the task that waits for the answer, and often still when that is woken.
        Refuter {
            sign: rises_to(
                "time until accesses are allowed, in parts of the time waiting for a CPU,",
                "%",
                Quantity::TimeInRatio(
                    &["off.other"],
                    Way::Through(&["fanotify_handle_event"]),
                    &["ready.own", "ready.foreign", "run.stolen"],
                ),
                1.2,
                0.25,
            ),
            means: "those have the CPUs who are asked about accesses",
        },
        Refuter { sign: AS_LONG_EACH_TIME, means: "tasks are woken more often, and wait no longer each time" },
        Refuter {
            sign: rises_to("bytes read from and written to devices", "bytes", DEVICE_BYTES, 1.5, MUCH_BYTES)
                .unless(&OTHERS_HAVE_THE_CPUS),
            means: "the hypervisor works for the devices in time that it takes from these CPUs",
        },
    ],
    // ksmd merges pages of the program, and takes a CPU for it.
    yields_to: &["ksm.separated"],
    remedies: &[
        Remedy {
            reach: Reach::Process,
            text: "give the program more weight than its neighbours",
            // Nice values count within an autogroup only.
            command: "echo -10 | sudo tee /proc/PID/autogroup; sudo renice -n -10 -p PID",
        },
        Remedy {
            reach: Reach::System,
            text: "see who the neighbours are",
            command: "pagelab record -o again.rec --all --observe default,sched -- sleep 10; pagelab show again.rec tasks",
        },
    ],
};
