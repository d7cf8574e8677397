//! What belongs to the measured process: `mm.thp_disable`, `task.*`, `env.*`, `rlimit.*`, `cgroup.*`, and what it is: `command.*`,
//! `job.*`, `program.*`, `file.*`.

use super::{Reading, SettingDef, settings};

const ENV: &str = "environment of the process, /proc/<pid>/environ";
const LIMITS: &str = "/proc/<pid>/limits";

pub(super) const DEFS: &[SettingDef] = settings! {
    Process "mm.thp_disable" at "THP_enabled in /proc/<pid>/status; set by prctl(PR_SET_THP_DISABLE)", High ["thp", "faults", "memory"]
        : "1: no transparent huge pages for the process whatever the host says; 0: as the host says; `except-advised` (6.18 and later): only where madvise asked. Inherited by children.";

    Process "task.nice" at "nice in /proc/<pid>/stat; set by setpriority(2)", High ["sched", "cpu"]
        : "Nice value, -20 (most of a contended processor) to 19 (least). Inherited by children.";
    Process "task.policy" at "policy and rt_priority in /proc/<pid>/stat; set by sched_setscheduler(2)", High ["sched", "cpu"]
        : "Scheduling policy: `other`, `batch`, `idle`, `fifo:PRIORITY`, `rr:PRIORITY`, `deadline`. Inherited by children.";
    Process "task.affinity" at "Cpus_allowed_list in /proc/<pid>/status; set by sched_setaffinity(2)", High ["sched", "cpu", "numa"]
        : "Processors that the process may run on, `0-3,8`. Inherited by children.";
    Process "task.io_priority" at "ioprio_get(2); set by ioprio_set(2)", Some ["io", "sched"]
        : "Priority of its requests: `none` (follows from nice and policy), `realtime:LEVEL`, `best-effort:LEVEL` (0 first, 7 last) or `idle`. Obeyed by bfq and mq-deadline. Inherited by children.";
    ReadOnly "task.mems_allowed" at "Mems_allowed_list in /proc/<pid>/status", Some ["numa", "memory"] : "NUMA nodes that it may have memory of.";
    ReadOnly "task.seccomp" at "Seccomp in /proc/<pid>/status", Some ["security", "process"]
        : "Whether its system calls are filtered: `off`, `strict` or `filter`. A filter runs at every call.";
    ReadOnly "task.seccomp_filters" at "Seccomp_filters in /proc/<pid>/status", Some ["security", "process"] : "Filters that each call passes.";
    ReadOnly "task.timer_slack_ns" at "/proc/<pid>/timerslack_ns", Low ["time", "sched"] : "How much later than asked a sleep may end.";

    Process "env.GLIBC_TUNABLES" at ENV, High ["alloc", "thp", "hugetlb", "faults", "memory", "cpu"] : "Tunables of glibc, among them glibc.malloc.hugetlb and the choice of string functions.";
    Process "env.MALLOC_ARENA_MAX" at ENV, High ["alloc", "memory", "faults"] : "Most arenas that malloc makes.";
    Process "env.MALLOC_CONF" at ENV, High ["alloc", "thp", "memory", "faults"] : "Configuration of jemalloc.";
    Process "env.MALLOC_TOP_PAD_" at ENV, High ["alloc", "memory", "faults"] : "Bytes that malloc asks for beyond the need.";
    Process "env.MALLOC_TRIM_THRESHOLD_" at ENV, High ["alloc", "memory", "faults"] : "Free bytes at the top of the heap that malloc gives back.";
    Process "env.MALLOC_MMAP_THRESHOLD_" at ENV, High ["alloc", "memory", "faults"] : "Size from which malloc maps each block by itself.";
    Process "env.MALLOC_MMAP_MAX_" at ENV, High ["alloc", "memory", "faults"] : "Most blocks that malloc maps by themselves.";
    Process "env.MALLOC_<var>" at ENV, Some ["alloc", "memory", "faults"] : "Any other variable of an allocator.";
    Process "env.TCMALLOC_<var>" at ENV, Some ["alloc", "memory", "faults"] : "Variables of tcmalloc.";
    Process "env.MIMALLOC_<var>" at ENV, Some ["alloc", "memory", "faults", "thp"] : "Variables of mimalloc.";
    Process "env.HUGETLB_<var>" at ENV, High ["hugetlb", "thp", "faults", "memory"] : "Variables of libhugetlbfs.";
    Process "env.LD_PRELOAD" at ENV, High ["alloc", "process", "memory", "faults"] : "Libraries loaded before all others; often another allocator.";
    Process "env.LD_LIBRARY_PATH" at ENV, Some ["process"] : "Where libraries are looked for first.";
    Process "env.LD_BIND_NOW" at ENV, Low ["process"] : "Whether symbols are bound at start.";
    Process "env.OMP_<var>" at ENV, Some ["cpu", "sched", "numa"] : "OpenMP: threads, placement, waiting.";
    Process "env.KMP_<var>" at ENV, Some ["cpu", "sched", "numa"] : "Intel and LLVM OpenMP.";
    Process "env.GOMP_<var>" at ENV, Some ["cpu", "sched", "numa"] : "GNU OpenMP.";
    Process "env.MKL_<var>" at ENV, Some ["cpu", "sched"] : "Intel MKL.";
    Process "env.OPENBLAS_<var>" at ENV, Some ["cpu", "sched"] : "OpenBLAS.";
    Process "env.GOGC" at ENV, High ["alloc", "memory", "cpu"] : "How often Go collects garbage.";
    Process "env.GOMEMLIMIT" at ENV, High ["alloc", "memory", "cpu"] : "Memory that Go tries to stay below.";
    Process "env.GOMAXPROCS" at ENV, High ["cpu", "sched"] : "Threads that run Go code at once.";
    Process "env.GODEBUG" at ENV, Some ["alloc", "memory", "thp"] : "Switches of the Go runtime.";
    Process "env.GOEXPERIMENT" at ENV, Low ["process"] : "Experiments of the Go tool chain.";
    Process "env.JAVA_TOOL_OPTIONS" at ENV, High ["alloc", "memory", "thp", "hugetlb", "cpu"] : "Options of the Java virtual machine.";
    Process "env._JAVA_OPTIONS" at ENV, High ["alloc", "memory", "thp", "hugetlb", "cpu"] : "The same.";
    Process "env.JDK_JAVA_OPTIONS" at ENV, High ["alloc", "memory", "thp", "hugetlb", "cpu"] : "The same, for the java launcher.";
    Process "env.PYTHONMALLOC" at ENV, Some ["alloc", "memory"] : "Allocator of Python.";
    Process "env.PYTHONHASHSEED" at ENV, Low ["process"] : "Seed of Python's hashes; decides the order of sets.";
    Process "env.NODE_OPTIONS" at ENV, Some ["alloc", "memory", "cpu"] : "Options of Node.js.";
    Process "env.RUST_MIN_STACK" at ENV, Low ["memory"] : "Stack of Rust threads.";
    Process "env.RUST_BACKTRACE" at ENV, Low ["process"] : "Whether Rust records backtraces.";
    Process "env.RUST_LOG" at ENV, Low ["process"] : "Log level of Rust programs.";
    Process "env.RAYON_NUM_THREADS" at ENV, Some ["cpu", "sched"] : "Threads of Rayon.";
    Process "env.MAKEFLAGS" at ENV, Some ["cpu", "sched"] : "Options of make, among them the number of jobs.";
    Process "env.PATH" at ENV, Low ["process"] : "Where programs are looked for.";
    Process "env.TZ" at ENV, Low ["time"] : "Time zone; unset, glibc looks at /etc/localtime each time.";
    Process "env.LANG" at ENV, Low ["process"] : "Language and character set.";
    Process "env.LANGUAGE" at ENV, Low ["process"] : "Languages of messages.";
    Process "env.LC_<var>" at ENV, Low ["process"] : "Parts of the language setting; collation can slow down sorting.";
    Process "env.TMPDIR" at ENV, Low ["io", "fs"] : "Where temporary files go.";
    Process "env.PWD" at ENV, Nil ["process"] { volatile: true } : "Working directory as the shell last knew it.";
    Process "env.OLDPWD" at ENV, Nil ["process"] { volatile: true } : "The one before.";
    Process "env.SHLVL" at ENV, Nil ["process"] { volatile: true } : "Depth of shells.";
    Process "env._" at ENV, Nil ["process"] { volatile: true } : "What the shell last ran.";
    Process "env.TERM" at ENV, Nil ["process"] { volatile: true } : "Terminal.";
    Process "env.COLUMNS" at ENV, Nil ["process"] { volatile: true } : "Width of the terminal.";
    Process "env.LINES" at ENV, Nil ["process"] { volatile: true } : "Height of the terminal.";
    Process "env.WINDOWID" at ENV, Nil ["process"] { volatile: true, reading: Reading::Masked } : "Window of the terminal.";
    Process "env.SSH_<var>" at ENV, Nil ["process"] { volatile: true, reading: Reading::Masked } : "The session's connection and agent.";
    Process "env.XDG_<var>" at ENV, Nil ["process"] { volatile: true, reading: Reading::Masked } : "The login session.";
    Process "env.DBUS_SESSION_BUS_ADDRESS" at ENV, Nil ["process"] { volatile: true, reading: Reading::Masked } : "The login session's bus.";
    Process "env.INVOCATION_ID" at ENV, Nil ["process"] { volatile: true, reading: Reading::Masked } : "The start of a systemd unit.";
    Process "env.JOURNAL_STREAM" at ENV, Nil ["process"] { volatile: true, reading: Reading::Masked } : "Its log.";
    Process "env.TMUX<var>" at ENV, Nil ["process"] { volatile: true, reading: Reading::Masked } : "The tmux session.";
    Process "env.PAGELAB_<var>" at ENV, Nil ["process"] { volatile: true } : "What pagelab tells its children about the run.";
    Process "env.<var>" at ENV, Low ["process"] { catch_all: true, reading: Reading::Masked }
        : "Any other variable. Snapshots show a digest of 16 bits (`masked:3fa2`) unless the plan set it: enough to see that it differs, too little to find the value.";

    Process "rlimit.as" at LIMITS, Low ["limits", "memory"] : "Address space, bytes.";
    Process "rlimit.core" at LIMITS, Nil ["limits"] : "Size of a core file, bytes.";
    Process "rlimit.cpu" at LIMITS, Nil ["limits"] : "CPU time, seconds.";
    Process "rlimit.data" at LIMITS, Low ["limits", "memory"] : "Heap and private writable mappings, bytes.";
    Process "rlimit.fsize" at LIMITS, Nil ["limits"] : "Size of a file, bytes.";
    Process "rlimit.locks" at LIMITS, Nil ["limits"] : "File locks.";
    Process "rlimit.memlock" at LIMITS, Some ["limits", "memory", "hugetlb"] : "Locked memory, bytes; also bounds io_uring, BPF and SHM_HUGETLB of ordinary users.";
    Process "rlimit.msgqueue" at LIMITS, Nil ["limits"] : "Bytes in POSIX message queues.";
    Process "rlimit.nice" at LIMITS, Low ["limits", "sched"] : "Best nice value allowed, as 20 less the value.";
    Process "rlimit.nofile" at LIMITS, Low ["limits"] : "Open files.";
    Process "rlimit.nproc" at LIMITS, Low ["limits"] : "Processes of the user.";
    Process "rlimit.rss" at LIMITS, Nil ["limits"] : "Without effect since Linux 2.4.30.";
    Process "rlimit.rtprio" at LIMITS, Low ["limits", "sched"] : "Highest real-time priority allowed.";
    Process "rlimit.rttime" at LIMITS, Nil ["limits", "sched"] : "Time in a real-time class without blocking, us.";
    Process "rlimit.sigpending" at LIMITS, Nil ["limits"] : "Queued signals.";
    Process "rlimit.stack" at LIMITS, Some ["limits", "memory"] : "Stack, bytes; also decides where mmap puts mappings (unlimited: legacy layout).";

    Process "cgroup.memory.max" at "memory.max (v1: memory.limit_in_bytes) of the process's group", High ["memory", "reclaim", "swap"] : "Memory limit, bytes or `max`.";
    ReadOnly "cgroup.memory.max.effective" at "the least memory.max from the process's group up to the root", High ["memory", "reclaim", "swap"] { derived_from: Some("cgroup.memory.max") } : "The limit that binds.";
    Process "cgroup.memory.high" at "memory.high", High ["memory", "reclaim"] : "Memory above which the group is slowed down.";
    Process "cgroup.memory.low" at "memory.low", Some ["memory", "reclaim"] : "Memory protected if others have enough.";
    Process "cgroup.memory.min" at "memory.min", Some ["memory", "reclaim"] : "Memory protected always.";
    Process "cgroup.memory.swap.max" at "memory.swap.max (v1: memory.memsw.limit_in_bytes less the memory limit)", Some ["swap", "reclaim"] : "Swap limit.";
    ReadOnly "cgroup.memory.zswap.max" at "memory.zswap.max", Low ["swap"] : "Limit of compressed swap in memory.";
    ReadOnly "cgroup.memory.oom.group" at "memory.oom.group", Nil ["memory"] : "Whether the whole group is killed when it runs out.";
    ReadOnly "cgroup.memory.soft_limit" at "memory.soft_limit_in_bytes (v1 only)", Some ["memory", "reclaim"] : "Memory to which the group is pushed back first.";
    ReadOnly "cgroup.memory.swappiness" at "memory.swappiness (v1 only)", Some ["swap", "reclaim"] : "The group's own vm.swappiness.";
    Process "cgroup.cpu.max" at "cpu.max (v1: cpu.cfs_quota_us and cpu.cfs_period_us)", High ["cpu", "sched"] : "Quota and period, us; `max` without a quota.";
    ReadOnly "cgroup.cpu.max.burst" at "cpu.max.burst (v1: cpu.cfs_burst_us)", Some ["cpu", "sched"] : "Unused quota that may be saved up, us.";
    Process "cgroup.cpu.weight" at "cpu.weight (v1: cpu.shares times 100 / 1024, as the kernel converts)", Some ["cpu", "sched"] : "Share of the processor when it is contended; 100 is usual.";
    ReadOnly "cgroup.cpu.idle" at "cpu.idle", Some ["cpu", "sched"] : "1 if the group runs only when nothing else wants to.";
    Process "cgroup.cpuset.cpus" at "cpuset.cpus", Some ["cpu", "sched"] : "Processors asked for.";
    ReadOnly "cgroup.cpuset.cpus.effective" at "cpuset.cpus.effective (v1: cpuset.effective_cpus)", High ["cpu", "sched"] { derived_from: Some("cgroup.cpuset.cpus") } : "Processors got.";
    Process "cgroup.cpuset.mems" at "cpuset.mems", Some ["numa", "memory"] : "NUMA nodes asked for.";
    ReadOnly "cgroup.cpuset.mems.effective" at "cpuset.mems.effective (v1: cpuset.effective_mems)", High ["numa", "memory"] { derived_from: Some("cgroup.cpuset.mems") } : "NUMA nodes got.";
    Process "cgroup.io.max" at "io.max (v1: blkio.throttle.*_device)", High ["io", "readahead", "writeback"] : "Limits per device, one per line: `8:0 rbps=max wbps=1048576 riops=max wiops=max`; `max` if no device has one.";
    Process "cgroup.io.weight" at "io.weight (v1: blkio.weight)", Some ["io"] : "Share of the device when it is contended.";
    ReadOnly "cgroup.io.bfq.weight" at "io.bfq.weight (v1: blkio.bfq.weight)", Some ["io"] : "The same under bfq.";
    ReadOnly "cgroup.io.latency" at "io.latency", Some ["io"] : "Latency that the group is to see.";
    Process "cgroup.pids.max" at "pids.max", Nil ["limits"] : "Most tasks.";
    Process "cgroup.hugetlb.<size>.max" at "hugetlb.<size>.max (v1: hugetlb.<size>.limit_in_bytes)", High ["hugetlb", "faults", "memory"] : "Bytes of huge pages of that size that may be faulted in.";
    ReadOnly "cgroup.hugetlb.<size>.rsvd.max" at "hugetlb.<size>.rsvd.max (v1: hugetlb.<size>.rsvd.limit_in_bytes)", High ["hugetlb", "memory"] : "Bytes of huge pages of that size that may be reserved.";
    ReadOnly "command.program" at "the manifest", Some ["process"] : "The program that was run.";
    ReadOnly "command.arguments" at "the manifest", Some ["process"] : "Its arguments, as a shell takes them.";
    ReadOnly "job.<path>" at "the manifest", Some ["process", "io"] : "An option of a job: `job.JOB.OPTION`, as it is written in the job file or inherited from `[global]`.";
    ReadOnly "file.<path>.extents" at "FS_IOC_FIEMAP of the files open a tenth of a second after the start, of the process and its children", Some ["io", "readahead", "fs"]
        : "Pieces in which a file lies on its device.";
    ReadOnly "file.<path>.bytes" at "fstat(2) of the same files", Low ["io", "fs"] : "Its size.";
    ReadOnly "program.build_id" at "the note .note.gnu.build-id of /proc/<pid>/exe, a tenth of a second after the start", Some ["process"]
        : "The build of the program: its build id; of a file of 4 MiB at most that has none, SHA-256 of its bytes; of a larger one, its size and when it was written.";
    ReadOnly "program.<path>.build_id" at "the note .note.gnu.build-id of the ELF file, a tenth of a second after the start; of what was mapped later, at the end", Some ["process"]
        : "The same of each library that it has mapped, and, where stacks are recorded, of all code that its descendants map. Another one is another program, whatever its name.";

    ReadOnly "cgroup.<controller>.version" at "/proc/<pid>/cgroup and /proc/<pid>/mountinfo", Low ["kernel"] : "1 or 2: the hierarchy that the controller is on.";
};
