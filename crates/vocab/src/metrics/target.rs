//! The recorded processes: added up from their directories in `/proc`, and what the BPF probes count.

use super::Direction::{LowerIsBetter as LOW, Neutral};
use super::MetricKind::{Counter, Gauge};
use super::Unit::{Bytes, Count, Nanoseconds, Pages};
use super::{FieldRule, Group, Member, Unit};

/// A counter that is neither good nor bad.
const fn n(field: &'static str, unit: Unit, help: &'static str) -> Member {
    Member::new(field, Counter, unit, Neutral, help)
}

/// A counter of which less is better.
const fn l(field: &'static str, unit: Unit, help: &'static str) -> Member {
    Member::new(field, Counter, unit, LOW, help)
}

/// A level in bytes.
const fn b(field: &'static str, help: &'static str) -> Member {
    Member::new(field, Gauge, Bytes, Neutral, help)
}

/// `/proc/PID/io`.
#[rustfmt::skip]
pub(super) const IO: Group = Group {
    prefix: "target.io.",
    source: "/proc/<pid>/io",
    instance: None,
    note: "Of all processes of the target with all their threads, ended ones included. A process that nobody of the target \
           waited for counts as far as it was last read.",
    members: &[
        n("rchar", Bytes, "Bytes returned by read calls, from the cache or not. Mapped reads are not in it."),
        n("wchar", Bytes, "Bytes passed to write calls."),
        n("syscr", Count, "Read calls."),
        n("syscw", Count, "Write calls."),
        n("read_bytes", Bytes, "Bytes this process caused to be read from devices."),
        n("write_bytes", Bytes, "Bytes this process made dirty or wrote directly."),
        n("cancelled_write_bytes", Bytes, "Dirty bytes dropped before they were written (truncated, deleted)."),
    ],
    rules: &[FieldRule::new("", "", Counter, Count, Neutral, "An I/O counter of the kernel.")],
};

/// `/proc/PID/stat`.
#[rustfmt::skip]
pub(super) const STAT: Group = Group {
    prefix: "target.stat.",
    source: "/proc/<pid>/stat",
    instance: None,
    note: "Of all processes of the target with all their threads, ended ones included. The child_ metrics are of the rest: \
           children that came and went between two samples. Times come in steps of one clock tick (10 ms).",
    members: &[
        l("minor_faults", Count, "Page faults answered without a device."),
        l("major_faults", Count, "Page faults that had to read from a device."),
        l("child_minor_faults", Count, "Minor page faults of ended children."),
        l("child_major_faults", Count, "Major page faults of ended children."),
        n("utime_ns", Nanoseconds, "Time in user mode."),
        l("stime_ns", Nanoseconds, "Time in the kernel."),
        n("child_utime_ns", Nanoseconds, "Time of ended children in user mode."),
        l("child_stime_ns", Nanoseconds, "Time of ended children in the kernel."),
    ],
    rules: &[],
};

/// `/proc/PID/status`.
#[rustfmt::skip]
pub(super) const STATUS: Group = Group {
    prefix: "target.status.",
    source: "/proc/<pid>/status",
    instance: None,
    note: "The sum over the target's living processes, so that memory that they share counts once for each. The kernel's \
           field in lower case, kB turned into bytes.",
    members: &[
        b("vmpeak_bytes", "Largest address space that one of the processes has had so far."),
        b("vmsize_bytes", "Address space mapped, touched or not."),
        b("vmlck_bytes", "Memory locked by mlock."),
        b("vmpin_bytes", "Memory pinned for devices."),
        b("vmhwm_bytes", "Largest resident memory that one of the processes has had so far."),
        b("vmrss_bytes", "Resident memory; approximate by a few pages per thread since Linux 6.2. hugetlb pages are not in it."),
        b("rssanon_bytes", "Resident anonymous memory."),
        b("rssfile_bytes", "Resident file memory."),
        b("rssshmem_bytes", "Resident shared memory."),
        b("vmdata_bytes", "Private writable mappings."),
        b("vmstk_bytes", "Stack of the main thread."),
        b("vmexe_bytes", "Program text."),
        b("vmlib_bytes", "Library text."),
        b("vmpte_bytes", "Page tables."),
        b("vmswap_bytes", "Anonymous memory swapped out."),
        b("hugetlbpages_bytes", "hugetlb memory mapped."),
        Member::new("threads", Gauge, Count, Neutral, "Threads."),
        Member::new("processes", Gauge, Count, Neutral, "Processes that are added up."),
        l("voluntary_ctxt_switches", Count, "Times the main thread gave up the CPU; other threads are not in it."),
        l("nonvoluntary_ctxt_switches", Count, "Times the main thread was made to give up the CPU; other threads are not in it."),
    ],
    rules: &[FieldRule::new("", "_bytes", Gauge, Bytes, Neutral, "A level that the kernel gives in kB.")],
};

/// `/proc/PID/smaps_rollup`.
#[rustfmt::skip]
pub(super) const SMAPS: Group = Group {
    prefix: "target.smaps.",
    source: "/proc/<pid>/smaps_rollup",
    instance: None,
    note: "The sum over the target's living processes, read once a second. The kernel walks their page tables meanwhile, and they \
           can map and unmap no memory. So there are no values while one of them has more pages than are \
           walked in 0.75 ms (45 MiB of small ones); `record --observe default,metrics:smaps` reads them all the same.",
    members: &[
        b("rss_bytes", "Resident memory."),
        b("pss_bytes", "Resident memory, shared pages divided by their users."),
        b("pss_dirty_bytes", "Of that, dirty pages."),
        b("pss_anon_bytes", "Of that, anonymous pages."),
        b("pss_file_bytes", "Of that, file pages."),
        b("pss_shmem_bytes", "Of that, shared memory."),
        b("shared_clean_bytes", "Clean pages that others map too."),
        b("shared_dirty_bytes", "Dirty pages that others map too."),
        b("private_clean_bytes", "Clean pages nobody else maps."),
        b("private_dirty_bytes", "Dirty pages nobody else maps."),
        b("referenced_bytes", "Pages marked as used."),
        b("anonymous_bytes", "Pages that belong to no file."),
        b("lazyfree_bytes", "Pages marked by MADV_FREE and not yet freed."),
        b("anonhugepages_bytes", "Anonymous memory in huge pages that one PMD entry maps: how much of the request for 2 MiB was met."),
        b("shmempmdmapped_bytes", "Shared memory mapped by PMD entries."),
        b("filepmdmapped_bytes", "Page cache mapped by PMD entries; DAX is not counted, 0 there proves nothing."),
        b("shared_hugetlb_bytes", "hugetlb memory mapped and shared."),
        b("private_hugetlb_bytes", "hugetlb memory mapped by this process alone."),
        b("swap_bytes", "Memory swapped out."),
        b("swappss_bytes", "Memory swapped out, shared pages divided by their users."),
        b("locked_bytes", "Memory locked by mlock, shared pages divided by their users."),
    ],
    rules: &[FieldRule::new("", "_bytes", Gauge, Bytes, Neutral, "A level that the kernel gives in kB.")],
};

/// The control group of the target's first process.
#[rustfmt::skip]
pub(super) const CGROUP: Group = Group {
    prefix: "cgroup.",
    source: "/sys/fs/cgroup/<group>",
    instance: None,
    note: "Of the group that the target works in, with all that is in it, whoever started it: that of its first process, or the one to \
           which that, or a process that it starts, moves. Counted since the group was made; after a move counters go on from where \
           they were. Version 1 has no pressure and counts one kind of event of memory. Limits are settings.",
    members: &[
        n("cpu.periods", Count, "Periods of the quota (cpu.max) in which something could run."),
        l("cpu.throttled_periods", Count, "Of those, the periods in which the quota was used up."),
        l("cpu.throttled_ns", Nanoseconds, "Time that processors kept tasks of the group waiting for the next period, added up over the processors."),
        n("cpu.bursts", Count, "Periods in which saved quota (cpu.max.burst) was used."),
        n("cpu.burst_ns", Nanoseconds, "Time that was taken of it."),
        n("cpu.usage_ns", Nanoseconds, "Time that the group had a processor (version 2)."),
        n("cpu.user_ns", Nanoseconds, "Of that, in user mode (version 2)."),
        n("cpu.system_ns", Nanoseconds, "Of that, in the kernel (version 2)."),
        l("cpu.force_idle_ns", Nanoseconds, "Time that sibling threads were kept idle for the group's sake (core scheduling)."),
        b("memory.current_bytes", "Memory charged to the group, page cache and slabs included."),
        l("memory.low_events", Count, "Times that memory was taken although it was under memory.low."),
        l("memory.high_events", Count, "Times that tasks were slowed down because memory.high was reached."),
        l("memory.max_events", Count, "Times that the limit stood in the way of more memory (version 1: failcnt)."),
        l("memory.oom_events", Count, "Times that the group ran out of memory."),
        l("memory.oom_kill_events", Count, "Processes killed because of that."),
        l("memory.oom_group_kill_events", Count, "Times that the whole group was killed because of that."),
        b("memory.anon_bytes", "Anonymous memory."),
        b("memory.file_bytes", "Page cache, shared memory included."),
        b("memory.shmem_bytes", "Shared memory and tmpfs."),
        b("memory.file_mapped_bytes", "Page cache that is mapped."),
        b("memory.file_dirty_bytes", "Page cache to be written."),
        b("memory.file_writeback_bytes", "Page cache being written."),
        b("memory.swapcached_bytes", "Swapped memory that is also in memory."),
        b("memory.anon_thp_bytes", "Anonymous memory in huge pages."),
        b("memory.file_thp_bytes", "Page cache in huge pages (version 2)."),
        b("memory.shmem_thp_bytes", "Shared memory in huge pages (version 2)."),
        b("memory.kernel_bytes", "Memory of the kernel's own (version 2)."),
        b("memory.pagetables_bytes", "Of that, page tables."),
        b("memory.slab_bytes", "Of that, slabs: inodes, dentries and other objects."),
        l("memory.pgfault", Count, "Page faults of the group."),
        l("memory.pgmajfault", Count, "Of those, the faults that had to read from a device."),
        l("memory.pgscan", Pages, "Pages that reclaim looked at (version 2)."),
        l("memory.pgscan_direct", Pages, "Of those, the pages looked at by tasks that needed memory themselves."),
        l("memory.pgsteal", Pages, "Pages that reclaim took (version 2)."),
        l("memory.pgsteal_direct", Pages, "Of those, the pages taken by tasks that needed memory themselves."),
        l("memory.workingset_refault_anon", Pages, "Anonymous pages that were needed again soon after they had been swapped out."),
        l("memory.workingset_refault_file", Pages, "Pages of files that were needed again soon after they had been dropped."),
        n("memory.thp_fault_alloc", Count, "Page faults answered with a huge page (version 2)."),
        n("memory.thp_collapse_alloc", Count, "Huge pages allocated to replace small ones (version 2)."),
        n("io.read_bytes", Bytes, "Bytes read from devices, added up over devices: one on top of another counts beside it."),
        n("io.write_bytes", Bytes, "Bytes written to devices, likewise."),
        n("io.discard_bytes", Bytes, "Bytes discarded, likewise."),
        n("io.reads", Count, "Requests that read."),
        n("io.writes", Count, "Requests that wrote."),
        n("io.discards", Count, "Requests that discarded."),
        l("psi.cpu.some_ns", Nanoseconds, "Time in which at least one task of the group waited for a CPU, its quota included."),
        l("psi.cpu.full_ns", Nanoseconds, "Time in which all tasks of the group waited for a CPU."),
        l("psi.memory.some_ns", Nanoseconds, "Time in which at least one task of the group waited for memory."),
        l("psi.memory.full_ns", Nanoseconds, "Time in which all tasks of the group waited for memory."),
        l("psi.io.some_ns", Nanoseconds, "Time in which at least one task of the group waited for a device."),
        l("psi.io.full_ns", Nanoseconds, "Time in which all tasks of the group waited for a device."),
    ],
    rules: &[FieldRule::new("", "_events", Counter, Count, LOW, "An event of memory that the kernel counts for groups.")],
};

/// What calls on descriptors tell of the files that the target works on.
#[rustfmt::skip]
pub(super) const USED: Group = Group {
    prefix: "used.",
    source: "stream waits",
    instance: None,
    note: "Of the whole recorded tree, from its start to its end.",
    members: &[
        l("syncs", Count, "Calls on a descriptor that asked for data to be made safe: fsync, fdatasync, sync_file_range, syncfs."),
    ],
    rules: &[],
};

/// What the fault probe counts.
#[rustfmt::skip]
pub(super) const FAULTS: Group = Group {
    prefix: "target.",
    source: "stream faults",
    instance: None,
    note: "Of the whole recorded tree, children included. Counted by the probe, so they hold even where rows were lost.",
    members: &[
        l("faults", Count, "Page faults on user addresses, from user and kernel mode."),
        l("faults_user", Count, "Of those, the faults from user mode."),
        l("faults_kernel", Count, "Of those, the faults that the kernel took on the target's behalf."),
    ],
    rules: &[],
};
