//! The ladder: what fills each stream's tables where BPF programs cannot be loaded, and what is missing then.
//!
//! A stream stands on the highest rung that the kernel gives, found by trying. [`LADDER`] is the one list: tests hold recordings
//! to it, and `docs/ladder.md` is made from it.

use std::fmt::Write as _;

use pagelab_observe::streams::Stream;

/// What a probe works through; the words are those of the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// BPF programs.
    Bpf,
    /// Perf events on the target's tasks.
    Perf,
    /// Files of `/proc` and `/sys`, which need no right but to be the target's user.
    Procfs,
}

impl Rung {
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bpf => "bpf",
            Self::Perf => "perf",
            Self::Procfs => "procfs",
        }
    }
}

/// Columns by table.
pub type Columns = &'static [(&'static str, &'static [&'static str])];

/// What a stream has on a rung.
#[derive(Debug)]
pub struct Step {
    /// The stream.
    pub stream: Stream,
    /// The rung.
    pub rung: Rung,
    /// Tables that have rows, and the columns that have values, if the target does what they are about.
    pub fills: Columns,
    /// Columns that are null throughout, though a higher rung fills them.
    pub null: Columns,
    /// What is missing, beside the null columns.
    pub lacks: &'static str,
}

/// Every stream on every rung that it can stand on.
pub const LADDER: &[Step] = &[
    Step {
        stream: Stream::Metrics,
        rung: Rung::Procfs,
        fills: &[("metrics", &["ts", "name", "value"])],
        null: &[],
        lacks: "",
    },
    Step {
        stream: Stream::Settings,
        rung: Rung::Procfs,
        fills: &[("settings", &["ts", "key", "value", "source", "at"])],
        null: &[],
        lacks: "",
    },
    Step {
        stream: Stream::Tasks,
        rung: Rung::Bpf,
        fills: &[(
            "tasks",
            &[
                "ts",
                "op",
                "task_id",
                "tid",
                "pid",
                "parent_task_id",
                "mm_id",
                "comm",
                "exe",
                "cgroup_id",
                "exit_code",
                "min_flt",
                "maj_flt",
                "utime_ns",
                "stime_ns",
                "recorded_faults",
            ],
        )],
        null: &[],
        lacks: "",
    },
    Step {
        stream: Stream::Tasks,
        rung: Rung::Perf,
        fills: &[(
            "tasks",
            &[
                "ts",
                "op",
                "task_id",
                "tid",
                "pid",
                "parent_task_id",
                "mm_id",
                "comm",
                "exe",
                "exit_code",
                "min_flt",
                "maj_flt",
                "utime_ns",
                "stime_ns",
                "recorded_faults",
            ],
        )],
        null: &[("tasks", &["cgroup_id"])],
        lacks: "exit status, faults and CPU times only of the command's first thread, the times in clock ticks; a child made by \
                vfork counts as one with a copy of the memory until it executes a program",
    },
    Step {
        stream: Stream::Tasks,
        rung: Rung::Procfs,
        fills: &[(
            "tasks",
            &[
                "ts",
                "op",
                "task_id",
                "tid",
                "pid",
                "mm_id",
                "comm",
                "exit_code",
                "min_flt",
                "maj_flt",
                "utime_ns",
                "stime_ns",
            ],
        )],
        null: &[("tasks", &["parent_task_id", "cgroup_id", "recorded_faults"])],
        lacks: "only the target's own processes, their start and the command's end: no threads, no children, no exec; CPU times \
                in clock ticks",
    },
    Step {
        stream: Stream::Faults,
        rung: Rung::Bpf,
        fills: &[("faults", &["ts", "task_id", "mm_id", "addr", "ip", "error_code", "mapping_id"])],
        null: &[],
        lacks: "",
    },
    Step {
        stream: Stream::Faults,
        rung: Rung::Perf,
        fills: &[("faults", &["ts", "task_id", "mm_id", "addr", "ip", "mapping_id"])],
        null: &[("faults", &["error_code", "major", "dur", "got"])],
        lacks: "not known whether a fault wrote, fetched an instruction or found the page there",
    },
    Step {
        stream: Stream::Maps,
        rung: Rung::Bpf,
        fills: &[(
            "mappings",
            &[
                "ts",
                "task_id",
                "mm_id",
                "mapping_id",
                "op",
                "kind",
                "addr",
                "len",
                "prot",
                "flags",
                "fd",
                "offset",
                "dev",
                "ino",
                "path",
                "advice",
                "ret",
                "ustack_id",
            ],
        )],
        null: &[],
        lacks: "",
    },
    Step {
        stream: Stream::Maps,
        rung: Rung::Perf,
        fills: &[(
            "mappings",
            &[
                "ts",
                "task_id",
                "mm_id",
                "mapping_id",
                "op",
                "kind",
                "addr",
                "len",
                "prot",
                "flags",
                "offset",
                "dev",
                "ino",
                "path",
                "ret",
            ],
        )],
        null: &[],
        lacks: "mmap, brk and mprotect as the memory areas that they leave: not the descriptor, not the address asked for, and not \
                those that fail; munmap, mremap, madvise, mlock, shmdt and prctl only where syscalls can be had on this rung",
    },
    Step {
        stream: Stream::Maps,
        rung: Rung::Procfs,
        fills: &[(
            "mappings",
            &[
                "ts",
                "task_id",
                "mm_id",
                "mapping_id",
                "op",
                "kind",
                "addr",
                "len",
                "prot",
                "flags",
                "offset",
                "dev",
                "ino",
                "path",
            ],
        )],
        null: &[("mappings", &["fd", "advice", "ret", "old_addr", "old_len", "ustack_id"])],
        lacks: "only what was there at one of ten looks a second, of the target's own processes and not of their children",
    },
    Step { stream: Stream::Dax, rung: Rung::Bpf, fills: &[], null: &[], lacks: "" },
    Step {
        stream: Stream::Syscalls,
        rung: Rung::Bpf,
        fills: &[
            ("syscalls", &["ts", "dur", "task_id", "name", "args", "ret", "cpu_ns"]),
            ("files", &["file_id", "path"]),
        ],
        null: &[],
        lacks: "",
    },
    Step {
        stream: Stream::Syscalls,
        rung: Rung::Perf,
        fills: &[("syscalls", &["ts", "dur", "task_id", "name", "args", "fd", "requested", "ret"])],
        null: &[("syscalls", &["cpu_ns", "blocked_ns", "file_id"])],
        lacks: "only where tracefs can be read and perf_event_paranoid is at most 1; not known which file a descriptor is, where in \
                the file a call without an offset worked, and what a vector of buffers held together",
    },
    Step {
        stream: Stream::Sched,
        rung: Rung::Bpf,
        fills: &[("offcpu", &["ts", "dur", "task_id", "state", "runqueue_ns"])],
        null: &[],
        lacks: "",
    },
    Step {
        stream: Stream::Cpu,
        rung: Rung::Bpf,
        fills: &[
            ("samples", &["ts", "task_id", "cpu", "event", "ustack_id", "weight"]),
            ("stacks", &["stack_id", "frame_ids"]),
            ("frames", &["frame_id", "symbol", "module"]),
        ],
        null: &[],
        lacks: "",
    },
    Step {
        stream: Stream::Cpu,
        rung: Rung::Perf,
        fills: &[
            ("samples", &["ts", "task_id", "cpu", "event", "ustack_id", "weight"]),
            ("stacks", &["stack_id", "frame_ids"]),
            ("frames", &["frame_id", "symbol", "module"]),
        ],
        null: &[],
        lacks: "8 KiB of stack are followed; deeper ones by frame pointers, or cut",
    },
    Step {
        stream: Stream::Counters,
        rung: Rung::Perf,
        fills: &[("counters", &["ts", "name", "value", "enabled_ns", "running_ns"])],
        null: &[],
        lacks: "",
    },
    Step {
        stream: Stream::Counters,
        rung: Rung::Bpf,
        fills: &[("counters", &["ts", "name", "value", "enabled_ns", "running_ns"])],
        null: &[],
        lacks: "only where the stream is not asked for by its own name: the software events from the kernel's accounts of its \
                tasks, the processor's from perf; of the whole system no events of the processor",
    },
    Step { stream: Stream::Block, rung: Rung::Bpf, fills: &[], null: &[], lacks: "" },
    Step {
        stream: Stream::Regions,
        rung: Rung::Procfs,
        fills: &[("region_pages", &["ts", "mm_id", "start", "end", "page_size_bytes", "bytes", "asked"])],
        null: &[],
        lacks: "",
    },
];

/// What a stream has on a rung; none if it cannot stand there.
pub fn step(stream: Stream, rung: Rung) -> Option<&'static Step> {
    LADDER.iter().find(|step| step.stream == stream && step.rung == rung)
}

/// The document.
pub fn markdown() -> String {
    let mut out = String::from(HEAD);
    for step in LADDER {
        let list = |columns: Columns| {
            let tables = columns.iter().map(|(table, columns)| format!("`{table}`: {}", columns.join(", ")));
            tables.collect::<Vec<_>>().join("; ")
        };
        let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        let fills = if step.fills.is_empty() { "what the host has".to_owned() } else { list(step.fills) };
        let (null, lacks) = (or_dash(list(step.null)), or_dash(step.lacks.to_owned()));
        // Writing into a string cannot fail.
        let _ = writeln!(out, "| {} | {} | {fills} | {null} | {lacks} |", step.stream, step.rung.name());
    }
    out
}

const HEAD: &str = "# The ladder: what is recorded where BPF is not to be had

Made from `crates/session/src/ladder.rs`; do not edit. After a change there: `PAGELAB_BLESS=1 cargo test -p pagelab-session --test integration docs_page`.

Every stream stands on the highest rung that the kernel gives, found by trying and never by version:

- `bpf`: BPF programs on raw tracepoints. Needs root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF.
- `perf`: perf events on the target's own tasks. Needs `kernel.perf_event_paranoid` at most 2 (or CAP_PERFMON), and no seccomp
  filter that refuses `perf_event_open`. With 2, as an ordinary user, only what happens in user mode is seen: faults that the kernel
  takes on the program's memory (a `read` into fresh memory), and kernel stacks, are not; the manifest says `user_mode_only`.
- `procfs`: files of `/proc` and `/sys`. Needs to be the target's user.

Neither tracefs nor debugfs is needed on any rung, but for `syscalls` and a part of `maps` on `perf`: there system calls are seen
by the tracepoints raw_syscalls:sys_enter and sys_exit, whose numbers only tracefs tells, and only with `kernel.perf_event_paranoid`
at most 1 or CAP_PERFMON; without, the manifest says `areas_only_because` of `maps`. The manifest's `probes` have the rung of each stream and, below the highest,
the reason and what would mend it. A stream that can stand on none of the rungs given is refused with the reason.
Columns named as filled are so if the target does what they are about; a null is a value that could not be measured.

| stream | rung | filled | null there | and missing |
|---|---|---|---|---|
";
