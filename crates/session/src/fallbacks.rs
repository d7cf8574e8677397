//! Fallbacks: what fills each stream's tables where BPF programs cannot be loaded, and what is missing then.
//!
//! A stream works through the first of its means that the kernel gives, found by trying. [`FALLBACKS`] is the one list: tests hold
//! recordings to it, and `docs/ladder.md` is made from it.

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
pub struct Fallback {
    /// The stream.
    pub stream: Stream,
    /// The rung.
    pub rung: Rung,
    /// Tables and columns that the stream fills where it lacks nothing.
    full: Columns,
    /// Columns that are null throughout, though a higher rung fills them.
    pub null: Columns,
    /// Columns that need not have values here, though not all of them are null throughout.
    unsure: Columns,
    /// The missing features, besides the null columns.
    pub lacks: &'static str,
}

impl Fallback {
    /// A stream on its highest rung.
    const fn first(stream: Stream, rung: Rung, full: Columns) -> Self {
        Self { stream, rung, full, null: &[], unsure: &[], lacks: "" }
    }

    /// Tables that have rows, and the columns that have values, if the target causes such events.
    pub fn fills(&self) -> Vec<(&'static str, Vec<&'static str>)> {
        let holds = |columns: Columns, table: &str, column: &str| {
            columns.iter().any(|(name, listed)| *name == table && listed.contains(&column))
        };
        let tables = self.full.iter().map(|(table, columns)| {
            let missing = |column: &str| holds(self.null, table, column) || holds(self.unsure, table, column);
            (*table, columns.iter().copied().filter(|column| !missing(column)).collect::<Vec<_>>())
        });
        tables.filter(|(_, columns)| !columns.is_empty()).collect()
    }
}

const METRICS: Columns = &[("metrics", &["ts", "name", "value"])];
const SETTINGS: Columns = &[("settings", &["ts", "key", "value", "source", "at"])];
#[rustfmt::skip]
const TASKS: Columns = &[("tasks", &[
    "ts", "op", "task_id", "tid", "pid", "parent_task_id", "mm_id", "comm", "exe", "cgroup_id", "exit_code", "min_flt",
    "maj_flt", "utime_ns", "stime_ns", "recorded_faults",
])];
const FAULTS: Columns = &[("faults", &["ts", "task_id", "mm_id", "addr", "ip", "error_code", "mapping_id"])];
#[rustfmt::skip]
const MAPPINGS: Columns = &[("mappings", &[
    "ts", "task_id", "mm_id", "mapping_id", "op", "kind", "addr", "len", "prot", "flags", "fd", "offset", "dev", "ino",
    "path", "advice", "ret", "ustack_id",
])];
const SYSCALLS: Columns = &[
    ("syscalls", &["ts", "dur", "task_id", "name", "args", "fd", "requested", "ret", "cpu_ns"]),
    ("files", &["file_id", "path"]),
];
const OFFCPU: Columns = &[("offcpu", &["ts", "dur", "task_id", "state", "runqueue_ns", "iowait"])];
const WAITS: Columns = &[
    ("waits", &["ts", "task_id", "state", "off_state", "iowait", "call", "by", "times", "ns"]),
    ("wait_stacks", &["ts", "task_id", "off_state", "iowait", "call", "by", "kstack_id", "samples", "weight_ns"]),
];
const SAMPLES: Columns = &[
    ("samples", &["ts", "task_id", "cpu", "event", "ustack_id", "weight"]),
    ("stacks", &["stack_id", "frame_ids"]),
    ("frames", &["frame_id", "symbol", "module"]),
];
const COUNTERS: Columns = &[("counters", &["ts", "name", "value", "enabled_ns", "running_ns"])];
const REGIONS: Columns = &[("region_pages", &["ts", "mm_id", "start", "end", "page_size_bytes", "bytes", "asked"])];
const SPEED: Columns = &[("metrics", &["ts", "name", "instance", "value"])];

/// Every stream on every rung that it can stand on, the highest first.
pub const FALLBACKS: &[Fallback] = &[
    Fallback::first(Stream::Metrics, Rung::Procfs, METRICS),
    Fallback::first(Stream::Settings, Rung::Procfs, SETTINGS),
    Fallback::first(Stream::Tasks, Rung::Bpf, TASKS),
    Fallback {
        null: &[("tasks", &["cgroup_id"])],
        lacks: "exit status, faults and CPU times only of the command's first thread, the times in clock ticks; a child made by \
                vfork counts as one with a copy of the memory until it executes a program",
        ..Fallback::first(Stream::Tasks, Rung::Perf, TASKS)
    },
    Fallback {
        null: &[("tasks", &["parent_task_id", "cgroup_id", "recorded_faults"])],
        unsure: &[("tasks", &["exe"])],
        lacks: "only the target's own processes, their start and the command's end: no threads, no children, no exec; CPU times \
                in clock ticks",
        ..Fallback::first(Stream::Tasks, Rung::Procfs, TASKS)
    },
    Fallback::first(Stream::Faults, Rung::Bpf, FAULTS),
    Fallback {
        null: &[("faults", &["error_code", "major", "dur", "got"])],
        lacks: "not known whether a fault wrote, fetched an instruction or found the page there",
        ..Fallback::first(Stream::Faults, Rung::Perf, FAULTS)
    },
    Fallback::first(Stream::Maps, Rung::Bpf, MAPPINGS),
    Fallback {
        unsure: &[("mappings", &["fd", "advice", "ustack_id"])],
        lacks: "mmap, brk and mprotect as the memory areas that they leave: not the descriptor, not the address asked for, and not \
                those that fail; munmap, mremap, madvise, mlock, shmdt and prctl only where syscalls can be had on this rung",
        ..Fallback::first(Stream::Maps, Rung::Perf, MAPPINGS)
    },
    Fallback {
        null: &[("mappings", &["fd", "advice", "ret", "old_addr", "old_len", "ustack_id"])],
        lacks: "only what was there at one of ten looks a second, of the target's own processes and not of their children",
        ..Fallback::first(Stream::Maps, Rung::Procfs, MAPPINGS)
    },
    Fallback::first(Stream::Dax, Rung::Bpf, &[]),
    Fallback::first(Stream::Syscalls, Rung::Bpf, SYSCALLS),
    Fallback {
        null: &[("syscalls", &["cpu_ns", "blocked_ns", "file_id"])],
        unsure: &[("files", &["file_id", "path"])],
        lacks: "only where tracefs can be read and perf_event_paranoid is at most 1; not known which file a descriptor is, where in \
                the file a call without an offset worked, and what a vector of buffers held together; not seen is a call by \
                which seccomp ends one of several threads",
        ..Fallback::first(Stream::Syscalls, Rung::Perf, SYSCALLS)
    },
    Fallback::first(Stream::Waits, Rung::Bpf, WAITS),
    Fallback::first(Stream::Sched, Rung::Bpf, OFFCPU),
    Fallback::first(Stream::Cpu, Rung::Bpf, SAMPLES),
    Fallback {
        lacks: "8 KiB of stack are followed; deeper ones by frame pointers, or cut",
        ..Fallback::first(Stream::Cpu, Rung::Perf, SAMPLES)
    },
    Fallback::first(Stream::Counters, Rung::Perf, COUNTERS),
    Fallback {
        lacks: "only where the stream is not asked for by its own name: the software events from the kernel's accounts of its \
                tasks, the processor's from perf; of the whole system no events of the processor",
        ..Fallback::first(Stream::Counters, Rung::Bpf, COUNTERS)
    },
    Fallback::first(Stream::Block, Rung::Bpf, &[]),
    Fallback::first(Stream::Regions, Rung::Procfs, REGIONS),
    Fallback::first(Stream::Speed, Rung::Procfs, SPEED),
];

/// What a stream has on a rung; none if it cannot stand there.
pub fn fallback(stream: Stream, rung: Rung) -> Option<&'static Fallback> {
    FALLBACKS.iter().find(|one| one.stream == stream && one.rung == rung)
}

/// The document.
pub fn markdown() -> String {
    let mut out = String::from(HEAD);
    for one in FALLBACKS {
        let list = |tables: Vec<(&str, Vec<&str>)>| {
            let tables = tables.into_iter().map(|(table, columns)| format!("`{table}`: {}", columns.join(", ")));
            tables.collect::<Vec<_>>().join("; ")
        };
        let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
        let fills = or(list(one.fills()), "what the host has");
        let null = one.null.iter().map(|(table, columns)| (*table, columns.to_vec())).collect();
        let (null, lacks) = (or(list(null), "-"), or(one.lacks.to_owned(), "-"));
        // Writing into a string cannot fail.
        let _ = writeln!(out, "| {} | {} | {fills} | {null} | {lacks} |", one.stream, one.rung.name());
    }
    out
}

const HEAD: &str = "# Fallbacks: what is recorded without BPF

Made from `crates/session/src/fallbacks.rs`; do not edit. After a change there: `PAGELAB_BLESS=1 cargo test -p pagelab-session --test integration docs_page`.

Each stream uses the first of these mechanisms that works on the host (its *rung*). The recorder tries them; it does not go by the
kernel's version:

- `bpf`: BPF programs on raw tracepoints. Needs root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF.
- `perf`: perf events on the target's own tasks. Needs `kernel.perf_event_paranoid` at most 2 (or CAP_PERFMON), and no seccomp
  filter that refuses `perf_event_open`. With 2, as an ordinary user, only what happens in user mode is seen: faults that the kernel
  takes on the program's memory (a `read` into fresh memory), and kernel stacks, are not; the manifest says `user_mode_only`.
- `procfs`: files of `/proc` and `/sys`. Needs to be the target's user.

Tracefs and debugfs are not needed, with one exception: on the rung `perf`, `syscalls` and a part of `maps` use the tracepoints
raw_syscalls:sys_enter and sys_exit. Their numbers stand in tracefs alone, and they need `kernel.perf_event_paranoid` at most 1 or
CAP_PERFMON; without them the manifest gives the reason as `areas_only_because` of `maps`.

`probes` in the manifest names the rung of each stream; below the highest rung also the reason and what to do about it. A stream
for which no rung works is refused, with the reason. A column listed as filled has values if the target does what the column is
about; null means that the value could not be measured.

| stream | rung | filled | null there | and missing |
|---|---|---|---|---|
";
