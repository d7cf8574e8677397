//! Processors, scheduler, interrupts and pressure.

use super::Direction::{HigherIsBetter as HIGH, LowerIsBetter as LOW, Neutral};
use super::MetricKind::{Counter, Gauge};
use super::Unit::{Count, Kilohertz, Nanoseconds, PerSecond};
use super::{Direction, FieldRule, Group, Member};

/// Time counted up.
const fn ns(field: &'static str, direction: Direction, help: &'static str) -> Member {
    Member::new(field, Counter, Nanoseconds, direction, help)
}

/// An event counter.
const fn c(field: &'static str, direction: Direction, help: &'static str) -> Member {
    Member::new(field, Counter, Count, direction, help)
}

/// The cpu lines of `/proc/stat`.
#[rustfmt::skip]
pub(super) const CPU: Group = Group {
    prefix: "cpu.",
    source: "/proc/stat",
    instance: Some("cpuN; null for all CPUs together"),
    note: "In steps of one clock tick (10 ms). The null instance is the kernel's own sum: leave it out when adding up the others. \
           With more than 32 CPUs the single ones are read once a second.",
    members: &[
        ns("user_ns", Neutral, "In user mode, guests included."),
        ns("nice_ns", Neutral, "In user mode at low priority, such guests included."),
        ns("system_ns", LOW, "In the kernel on behalf of a task."),
        ns("idle_ns", Neutral, "With nothing to run."),
        ns("iowait_ns", Neutral, "Idle while a task that last ran here waited for a device; may go backwards."),
        ns("irq_ns", LOW, "Serving interrupts."),
        ns("softirq_ns", LOW, "Serving deferred interrupt work."),
        ns("steal_ns", LOW, "Taken away by the hypervisor while there was something to run."),
        ns("guest_ns", Neutral, "Running a guest; also within user_ns."),
        ns("guest_nice_ns", Neutral, "Running a low-priority guest; also within nice_ns."),
    ],
    rules: &[],
};

/// The stream `speed`.
#[rustfmt::skip]
pub(super) const SPEED: Group = Group {
    prefix: "speed.",
    source: "stream speed",
    instance: Some("cpuN"),
    note: "Only with --observe speed. Who else has the CPU in turn does not matter; what makes the CPU itself slower does: a neighbour \
           of the virtual machine, the other thread of the core, its frequency. Where every run has it, compare tests the primary metric \
           at equal speed.",
    members: &[
        Member::new("calls_per_second", Gauge, PerSecond, HIGH, "System calls that do nothing in a second of CPU time, fifty times a second."),
    ],
    rules: &[],
};

/// The other lines of `/proc/stat`.
#[rustfmt::skip]
pub(super) const STAT: Group = Group {
    prefix: "stat.",
    source: "/proc/stat",
    instance: None,
    note: "Of the whole host.",
    members: &[
        c("context_switches", LOW, "Switches from one task to another.").self_inflicted(),
        c("interrupts", LOW, "Interrupts served, of all sorts.").self_inflicted(),
        c("forks", Neutral, "Tasks created, threads included."),
        Member::new("procs_running", Gauge, Count, Neutral, "Tasks that are running or could, the sampler itself among them."),
        Member::new("procs_blocked", Gauge, Count, LOW, "Tasks waiting for a device."),
    ],
    rules: &[],
};

/// `/proc/schedstat`, summed over CPUs.
#[rustfmt::skip]
pub(super) const SCHEDSTAT: Group = Group {
    prefix: "schedstat.",
    source: "/proc/schedstat",
    instance: None,
    note: "Summed over CPUs: per-CPU rows would be most of a recording's volume on a large machine. Only kernels with \
           CONFIG_SCHEDSTATS have the file. The counts are 32 bits wide per CPU in the kernel and wrap there; the times are 64.",
    members: &[
        c("yields", Neutral, "Calls of sched_yield."),
        c("schedules", LOW, "Calls of the scheduler."),
        c("goidle", Neutral, "Calls that found nothing to run."),
        c("wakeups", Neutral, "Tasks woken."),
        c("wakeups_local", Neutral, "Tasks woken by a task on the same CPU."),
        ns("run_ns", Neutral, "Time tasks spent running."),
        ns("wait_ns", LOW, "Time tasks were ready and waited for a CPU."),
        c("timeslices", Neutral, "Times a task was put on a CPU."),
    ],
    rules: &[],
};

/// `/proc/interrupts`, summed over CPUs.
pub(super) const INTERRUPTS: Group = Group {
    prefix: "",
    source: "/proc/interrupts",
    instance: Some("the kernel's label (TLB, LOC, RES), or number:device (36:virtio1-req.0)"),
    note: "Summed over CPUs. TLB shootdowns, RES reschedules and CAL function calls show the cost of unmapping and waking across CPUs.",
    members: &[c("interrupts", LOW, "Interrupts served on one line, all CPUs together.")],
    rules: &[],
};

/// `/proc/softirqs`, summed over CPUs.
#[rustfmt::skip]
pub(super) const SOFTIRQS: Group = Group {
    prefix: "softirqs.",
    source: "/proc/softirqs",
    instance: None,
    note: "Runs of deferred interrupt work by sort, summed over CPUs.",
    members: &[
        c("hi", Neutral, "High-priority tasklets."),
        c("timer", Neutral, "Expired timers of the timer wheel."),
        c("net_tx", Neutral, "Network sending."),
        c("net_rx", Neutral, "Network receiving."),
        c("block", Neutral, "Completions of block I/O."),
        c("irq_poll", Neutral, "Polled completions of block I/O."),
        c("tasklet", Neutral, "Tasklets."),
        c("sched", Neutral, "Load balancing between CPUs."),
        c("hrtimer", Neutral, "Expired high-resolution timers."),
        c("rcu", Neutral, "RCU callbacks."),
    ],
    rules: &[FieldRule::new("", "", Counter, Count, Neutral, "Runs of one sort of deferred interrupt work.")],
};

/// `/proc/loadavg`. Not `load.`: that is what the load generator measured.
#[rustfmt::skip]
pub(super) const LOADAVG: Group = Group {
    prefix: "loadavg.",
    source: "/proc/loadavg",
    instance: None,
    note: "The averages still carry the minutes before the run, so they are left out of every family of tests.",
    members: &[
        Member::new("1min", Gauge, Count, Neutral, "Tasks running or waiting for a device, mean over about 1 minute.").always_moves(),
        Member::new("5min", Gauge, Count, Neutral, "The same over about 5 minutes.").always_moves(),
        Member::new("15min", Gauge, Count, Neutral, "The same over about 15 minutes.").always_moves(),
        Member::new("runnable", Gauge, Count, Neutral, "Tasks that are running or could, the sampler itself among them."),
        Member::new("tasks", Gauge, Count, Neutral, "Tasks that exist, threads included."),
    ],
    rules: &[],
};

/// Clock frequency.
pub(super) const CPUFREQ: Group = Group {
    prefix: "",
    source: "/sys/devices/system/cpu/cpu<N>/cpufreq/scaling_cur_freq",
    instance: Some("cpuN"),
    note: "Virtual machines mostly have no such file.",
    members: &[Member::new(
        "cpufreq_khz",
        Gauge,
        Kilohertz,
        HIGH,
        "Clock frequency: measured over the last moments where the CPU can tell, else the one that was asked for.",
    )],
    rules: &[],
};

/// `/proc/pressure`.
#[rustfmt::skip]
pub(super) const PSI: Group = Group {
    prefix: "psi.",
    source: "/proc/pressure/<resource>",
    instance: None,
    note: "The totals only: the kernel's 10, 60 and 300 s averages follow from them. The kernel counts in microseconds and \
           brings the totals up to date when the file is read. Absent when the kernel was booted with psi=0.",
    members: &[
        ns("cpu.some_ns", LOW, "Time in which at least one task waited for a CPU."),
        ns("cpu.full_ns", LOW, "Time in which all tasks waited for a CPU; always 0 for the whole host."),
        ns("memory.some_ns", LOW, "Time in which at least one task waited for memory: reclaim, swap, refaults."),
        ns("memory.full_ns", LOW, "Time in which all tasks waited for memory."),
        ns("io.some_ns", LOW, "Time in which at least one task waited for a device."),
        ns("io.full_ns", LOW, "Time in which all tasks waited for a device."),
        ns("irq.full_ns", LOW, "Time in which interrupts kept tasks from running (since Linux 6.1)."),
    ],
    rules: &[FieldRule::new("", "_ns", Counter, Nanoseconds, LOW, "Time tasks waited for one resource.")],
};
