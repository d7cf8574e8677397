//! Causes in who has the CPUs, how fast they are, and what a call costs.

use super::{CauseDef, EventCost};

/// In the order of the documentation.
pub(super) const CAUSES: &[CauseDef] = &[
    CauseDef {
        id: "cpu.quota",
        title: "the control group has used up its quota of CPU time",
        topics: &["sched", "cpu", "limits"],
        settings: &["cgroup.cpu.max", "cgroup.cpu.max.burst"],
        help: "A group that has used its quota (cpu.max) waits for the next period, 100 ms by default. It needs time \
               in that wait, which is seen task by task.",
        event: EventCost::measured("period without quota"),
        components: &["ready.throttled"],
    },
    CauseDef {
        id: "cpu.neighbour",
        title: "other programs or other guests have the CPUs",
        topics: &["sched", "cpu"],
        settings: &["task.nice", "task.policy", "cgroup.cpu.weight", "sysctl.kernel.sched_autogroup_enabled"],
        help: "Tasks could run and wait while a program that is not the target's has the CPU, or the hypervisor has \
               taken it. It needs time in these waits.",
        event: EventCost::measured("wait for a CPU"),
        components: &["ready.foreign", "run.stolen", "ready.own"],
    },
    CauseDef {
        id: "cpu.crowded",
        title: "the program's own tasks wait for each other's CPUs",
        topics: &["sched", "cpu", "numa"],
        settings: &["task.affinity", "cgroup.cpuset.cpus", "cpu.online", "irq.default_affinity", "irq.<irq>.affinity"],
        help: "More tasks of the target could run than it has CPUs: it is bound to fewer (affinity, cpuset, CPUs \
               offline), or runs more tasks. It needs time waiting while another task of the target has the CPU.",
        event: EventCost::measured("wait for a CPU"),
        components: &["ready.own"],
    },
    CauseDef {
        id: "cpu.frequency",
        title: "CPUs run at a lower frequency",
        topics: &["cpu"],
        settings: &[
            "cpu.governor",
            "cpu.boost",
            "cpu.no_turbo",
            "cpu.scaling_max_freq",
            "cpu.scaling_min_freq",
            "cpu.energy_performance_preference",
            "cpu.smt.control",
        ],
        help: "All work on CPUs takes longer in proportion, in the program and in the kernel. It needs a setting of \
               frequency or SMT that differs. VMs do not see the frequency.",
        event: EventCost::measured("cycle"),
        components: &["run."],
    },
    CauseDef {
        id: "program.starts",
        title: "more programs are started",
        topics: &["process", "memory"],
        settings: &[],
        help: "A program that is started is forked, mapped, linked and faulted in, and torn down at its end: half a \
               millisecond and more, most of it before its first line runs. It needs more execs of the recorded tasks \
               for the same work, and more time in fork and exec. Their own work is not counted here.",
        event: EventCost::at_most("program", 20_000_000, "40,000 first faults, of a program of 160 MiB"),
        components: &[
            "run.task.fork",
            "run.task.exec",
            "run.task.exit",
            "run.fault.",
            "run.space.",
            "run.memory.",
            "off.other",
            "off.mmap_lock",
        ],
    },
    CauseDef {
        id: "program.changed",
        title: "another build of the program or of a library does more work of its own",
        topics: &["process", "cpu"],
        settings: &["program.build_id", "program.<path>.build_id", "env.LD_PRELOAD", "env.LD_LIBRARY_PATH"],
        help: "The code that runs is not the same: the linker gave the program, or a library that it maps, another \
               build id, or it is made of other bytes. It needs more time in code of the program itself. Which functions \
               take it the profile of the comparison says. Time in the kernel that the new build asks for is not counted \
               here.",
        event: EventCost::measured("operation"),
        components: &["run.user"],
    },
    CauseDef {
        id: "access.checked",
        title: "others check what the program asks the kernel for",
        topics: &["security", "fs"],
        settings: &["cmdline.lsm", "cmdline.apparmor", "cmdline.selinux", "cmdline.audit"],
        help: "Before an open, an exec or another call goes on, the kernel asks those who want to be asked: a scanner of files \
               (fanotify permission events), whose answer the task waits for; security modules (AppArmor, SELinux, Landlock, \
               programs of BPF), programs of the control group and rules of audit, which take time on the task's own CPU. It needs \
               more time in their functions, also beside the time in calls of files, programs and the network: a program that \
               makes more calls is checked more often. Filters of seccomp make each call dearer (`call.dearer`).",
        event: EventCost::measured("check"),
        components: &["off.other", "off.read", "run.file.", "run.memory.", "run.task.", "run.network", "run.other"],
    },
    CauseDef {
        id: "gc.more",
        title: "more garbage is collected",
        topics: &["process", "memory", "cpu"],
        settings: &["env.GOGC", "env.GOMEMLIMIT", "env.JAVA_TOOL_OPTIONS", "env.NODE_OPTIONS", "command.arguments"],
        help: "The runtime of the program (Go, Java, JavaScript, Python) looks for objects that nobody needs: more often where the heap is \
               small for what lives in it, or longer where more lives. It needs more time in the collector's functions.",
        event: EventCost::measured("collection"),
        components: &["run.user"],
    },
    CauseDef {
        id: "call.dearer",
        title: "entering and leaving the kernel costs more",
        topics: &["security", "time", "cpu", "tracing"],
        settings: &[
            "cpu.vulnerabilities.<name>",
            "cmdline.mitigations",
            "task.seccomp",
            "task.seccomp_filters",
            "kernel.clocksource",
            "kconfig.MITIGATION_<param>",
            "sysctl.kernel.task_delayacct",
        ],
        help: "Mitigations of CPU flaws, seccomp filters, tracing and a clock that only the kernel can read make every \
               call dearer, whatever it does. It needs more time in entering and leaving calls or in filters, and a \
               setting that differs.",
        event: EventCost::measured("system call"),
        components: &["run.call.entry", "run.call.filter", "run.fault.entry"],
    },
];
