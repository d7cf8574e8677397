//! The declarations. Columns follow the contract of format 1: add freely, never rename or drop.
//!
//! A line reads `name: req|opt type "unit" "help";`, with `as "name"` where the column's name is a Rust keyword.
//! `text_of(path)` in a table's head adds the column `path_text` at its end; producers fill in `path` alone.
//! `rollup(1; faults, tasks)` there makes a table a rollup of these, in version 1.

use arrow::array::{ArrayRef, RecordBatch};

use super::columns::{BytesColumn, ListColumn, OptColumn, StrColumn};
use super::value::ColumnBuffer;
use super::view::{BoolView, BytesView, ListView, PrimitiveView, StrView, WordsView};
use super::{ColType, ColumnDef, RollupDef, Row, TableColumns, TableDef, TableView, order};
use crate::error::{Error, Result};
use crate::writer::RecordingWriter;

tables! {
    /// Life of the recorded tasks: one row per fork, exec, exit, change of name, and per task present at the start.
    tasks (push_tasks) TasksRow['a] TasksColumns TasksView text_of(exe) {
        ts: req i64 "ns" "When it happened, on the recording's clock.";
        op: req str "" "`fork`, `exec`, `exit`, `comm`, `snapshot` (present when recording began, or moved into the recorded cgroup), `leave` (moved out of it) or `alive` (has not ended when recording did).";
        task_id: req u32 "" "The task; unique in a recording, while pids recur.";
        tid: req i32 "" "Thread id in the initial pid namespace.";
        pid: req i32 "" "Process id (thread group) in the initial pid namespace.";
        parent_task_id: opt u32 "" "Who forked it; null if unknown.";
        mm_id: opt u32 "" "Address space after this event; changes at exec and at a fork that does not share memory. Null for kernel threads.";
        comm: opt str "" "Name of the task after this event.";
        exe: opt bytes "" "Path of the executable.";
        build_id: opt str "" "Build id of the executable, in hexadecimal.";
        cgroup_id: opt u64 "" "Cgroup (v2) id.";
        exit_code: opt i32 "" "Wait status as the kernel keeps it: code in bits 8 to 15, signal in bits 0 to 6. Exit rows only.";
        min_flt: opt u64 "" "Minor faults of the task so far, as getrusage counts them. Null but at `exit`, `alive` and `snapshot`.";
        maj_flt: opt u64 "" "Major faults of the task so far, as getrusage counts them. Null but at `exit`, `alive` and `snapshot`.";
        utime_ns: opt u64 "ns" "User time of the task so far. Null but at `exit`, `alive` and `snapshot`.";
        stime_ns: opt u64 "ns" "System time of the task so far. Null but at `exit`, `alive` and `snapshot`.";
        recorded_faults: opt u64 "" "Faults of the task in `faults`. min_flt + maj_flt differ from it by faults that the kernel takes on the task's behalf without an exception (get_user_pages, exec before recording), and by repeats. Null but at `exit` and `alive`.";
    }

    /// Page faults on user addresses, from user and kernel mode, one row each.
    faults (push_faults) FaultsRow['a] FaultsColumns FaultsView {
        ts: req i64 "ns" "Entry into the fault, on the recording's clock.";
        task_id: req u32 "" "Who faulted.";
        mm_id: req u32 "" "Address space faulted on.";
        addr: req u64 "" "Exact faulting address, not rounded to a page.";
        ip: req u64 "" "Instruction that faulted.";
        error_code: opt u32 "" "The architecture's error code (x86: 1 protection, 2 write, 4 user, 16 instruction fetch). Null where the probe cannot know it (perf events, see docs/ladder.md); whether it was user mode is then told by `ip`.";
        major: opt bool "" "Whether it needed I/O, or waiting and another attempt, as getrusage counts it; null unless known. All major faults are told, and one in N of the minor ones where that was asked for.";
        dur: opt i64 "ns" "From entry to the end of its handling, the way back to the program left out; null unless measured: where `major` is null.";
        mapping_id: opt u32 "" "The mapping faulted on. Filled at a clean end; null before that and where no mapping was known.";
        got: opt str "" "What it got: `new` (a fresh page), `zero` (the page of zeros), `cow` (a page of its own, copied or taken over), `page_cache`, `mkwrite` (leave to write to a shared page), `swap` (read from swap), `hugetlb`, `dax`, `device`; `huge_` before it where one entry maps 2 MiB or more. Null where `major` is, and where it is not known.";
    }

    /// Mapping actions, and the mappings present at attach, made by the kernel or inherited by fork.
    ///  A row that makes a mapping carries its mapping_id; a failed call makes none.
    mappings (push_mappings) MappingsRow['a] MappingsColumns MappingsView text_of(path) {
        ts: req i64 "ns" "When it took effect: for actions that make a mapping the return of the call, for those that remove one its entry.";
        task_id: req u32 "" "Who did it; for snapshots a task of that address space.";
        mm_id: req u32 "" "Address space it changed.";
        mapping_id: opt u32 "" "The mapping made; null for actions that make none.";
        op: req str "" "`mmap`, `munmap`, `mremap`, `brk`, `madvise`, `process_madvise`, `mprotect`, `mlock`, `shmat`, `shmdt` or `prctl_thp`.";
        kind: req str "" "`call`, `kernel` (ELF segments, stack, vdso), `snapshot` (present at attach) or `fork` (inherited).";
        addr: opt u64 "" "Address asked for (`call`) or start of the mapping (other kinds). For brk the break asked for.";
        len: opt u64 "bytes" "Length asked for, or of the mapping; for mremap the new length. Null for brk.";
        old_addr: opt u64 "" "mremap: the old address. brk: the break before the call, null if unknown.";
        old_len: opt u64 "bytes" "mremap: the old length.";
        prot: opt u32 "" "PROT_ bits.";
        flags: opt u32 "" "MAP_, MREMAP_ or SHM_ bits of the call.";
        fd: opt i32 "" "Descriptor mapped; null for none.";
        offset: opt u64 "bytes" "Offset in the file.";
        dev: opt u64 "" "Device of the file, as st_dev.";
        ino: opt u64 "" "Inode of the file.";
        path: opt bytes "" "Path of the file, or the kernel's name such as `[heap]`, `[stack]`, `[vdso]`.";
        advice: opt i32 "" "MADV_ or PR_ value of the call.";
        ret: opt i64 "" "Result of the call: an address, 0, or a negative errno. For brk the break after the call. Null for other kinds.";
        ustack_id: opt u64 "" "User stack of the call; of those that map 2 MiB or more, of advice about huge pages for as much, and of `prctl_thp`. Null for all others, and if stacks were not taken or were lost (streams `maps_stacks` and `sched_stacks` of `loss`).";
    }

    /// Faults on DAX files, by page table level.
    dax_faults (push_dax_faults) DaxFaultsRow['a] DaxFaultsColumns DaxFaultsView {
        ts: req i64 "ns" "Completion of the fault.";
        task_id: req u32 "" "Who faulted.";
        kind: req str "" "`pmd` or `pte`.";
        dev: req u64 "" "Device of the file.";
        ino: req u64 "" "Inode of the file.";
        addr: req u64 "" "Faulting address.";
        vm_start: req u64 "" "Start of the memory area.";
        vm_end: req u64 "" "End of the memory area.";
        vm_flags: req u64 "" "VM_ flags of the area.";
        pgoff: req u64 "pages" "Page of the file faulted on.";
        max_pgoff: opt u64 "pages" "Last page of the file; pmd only.";
        flags: req u32 "" "FAULT_FLAG_ bits.";
        result: req u32 "" "VM_FAULT_ value as the kernel gave it; its meaning differs between kernels.";
        outcome: opt str "" "The result decoded for this kernel: `NOPAGE`, `FALLBACK`, ...";
        reason: opt str "" "Why a pmd fault fell back, as far as the fault itself tells: `not_aligned`, `copied_on_write`, `leaves_mapping`, `file_ends_inside`, else `extents_or_entries`.";
    }

    /// System calls.
    syscalls (push_syscalls) SyscallsRow['a] SyscallsColumns SyscallsView {
        ts: req i64 "ns" "Entry of the call; of one that was refused the time when it was.";
        dur: opt i64 "ns" "Time until it returned; null if it never did, and where a filter (seccomp) or a tracer refused it: nobody sees when such a call begins.";
        task_id: req u32 "" "Who called.";
        name: req str "" "Name of the call; `syscall_470` where only its number is known.";
        args: req words6 "" "The six argument registers.";
        fd: opt i32 "" "Descriptor, where the call has one.";
        file_id: opt u32 "" "File behind the descriptor.";
        offset: opt u64 "bytes" "Offset of the transfer.";
        offset_kind: opt str "" "`explicit` (an argument), `implied` (the file position) or null.";
        requested: opt u64 "bytes" "Bytes asked for.";
        ret: opt i64 "" "Result; null if it never returned, or seccomp answered it with a signal.";
        cpu_ns: opt u64 "ns" "CPU time spent in the call.";
        blocked_ns: opt u64 "ns" "Time asleep in the call; null unless the stream `sched` runs.";
    }

    /// Files behind descriptors and mappings.
    files (push_files) FilesRow['a] FilesColumns FilesView text_of(path) {
        ts: req i64 "ns" "First sight of the file by this name.";
        file_id: req u32 "" "The file by this name; unique in a recording. A file that was renamed, or opened by several names, has one for each.";
        dev: req u64 "" "Device, as st_dev.";
        ino: req u64 "" "Inode.";
        fs: opt str "" "Type of the file system.";
        file_type as "type": opt str "" "`regular`, `dir`, `block`, `char`, `fifo`, `socket` or `anon`.";
        path: opt bytes "" "Path as /proc/PID/fd shows it, without ` (deleted)`: `/tmp/x`, `/memfd:name`, `pipe:[7]`, `anon_inode:[eventfd]`; `...` in front where the beginning is missing. Null if it was renamed again and again while it was read.";
    }

    /// Time off the CPU.
    offcpu (push_offcpu) OffcpuRow['a] OffcpuColumns OffcpuView {
        ts: req i64 "ns" "When it left the CPU.";
        dur: opt i64 "ns" "Time until it ran again; null if it never did.";
        task_id: req u32 "" "Who slept.";
        state: opt str "" "Scheduler state: `S`, `D`, `R` (preempted), ...";
        kstack_id: opt u64 "" "Kernel stack; null if it was preempted, and if stacks were not taken or were lost (stream `sched_stacks` of `loss`).";
        ustack_id: opt u64 "" "User stack; null in the same cases, for tasks without memory of their own, and where there was no room for it.";
        waker_task_id: opt u32 "" "The recorded task that ran on the CPU where it was woken; null for interrupts and tasks that are not recorded.";
        runqueue_ns: opt u64 "ns" "How long of `dur` it could have run and waited for a CPU.";
        ustack_end: opt str "" "How the user stack ended, as in `samples`.";
        iowait: opt bool "" "Whether the kernel counted it as waiting for I/O; null in recordings made before this was noted.";
    }

    /// States of tasks, summed up over about a second each. The states `run`, `ready` and `off` of a task sum to its life.
    ///  A row holds what was added since the one before of the same task and kind; a state that lasted longer than that is told
    ///  whole when it is over, those that are not over at the end as far as they went.
    waits (push_waits) WaitsRow['a] WaitsColumns WaitsView {
        ts: req i64 "ns" "End of the interval, or of the task. There is a row of state `idle` for each end of an interval.";
        task_id: opt u32 "" "Whose; null for `idle`, which is of all tasks together.";
        state: req str "" "`run` (had a CPU), `ready` (could run and waited for one), `off` (from leaving the CPU until woken), `idle` (no task ran, could run, or slept for I/O or uninterruptibly), `kernel_run` and `kernel_ready` (what the kernel itself counted: sum_exec_runtime, and run_delay of schedstat).";
        off_state: opt str "" "For `off`: scheduler state, `S`, `D`, ...";
        iowait: opt bool "" "For `off`: whether the kernel counted it as waiting for I/O.";
        call: opt str "" "For `off`: the system call that it was in, or `page_fault`; null for neither.";
        by: opt str "" "For `off`, who woke it: `own` (a recorded task), `foreign`, `softirq`, `irq`, `timer`. For `ready`, who had the CPU at the end: `own`, `foreign`, `nobody`, `throttled` (cpu.max), or `wakeup` (it was not queued yet: the CPU had to take an interrupt, or to wake up). Null if that was not seen, or it is not over.";
        times: opt u64 "" "How often the state ended; null where that is not counted.";
        ns: req u64 "ns" "How long.";
    }

    /// Where in the kernel waits were: samples of the rows of `waits` with state `off`.
    wait_stacks (push_wait_stacks) WaitStacksRow['a] WaitStacksColumns WaitStacksView {
        ts: req i64 "ns" "End of the interval, as in `waits`.";
        task_id: req u32 "" "Who waited.";
        off_state: req str "" "As in `waits`.";
        iowait: req bool "" "As in `waits`.";
        call: opt str "" "As in `waits`.";
        by: opt str "" "As in `waits`.";
        kstack_id: opt u64 "" "Kernel stack at the end of the wait; null if the kernel gave none.";
        samples: req u64 "" "Stacks that were taken.";
        weight_ns: req u64 "ns" "The time off the CPU that they stand for. The sum of many is unbiased; of few it is a rough estimate.";
    }

    /// Profile samples.
    samples (push_samples) SamplesRow['a] SamplesColumns SamplesView {
        ts: req i64 "ns" "When it was taken.";
        task_id: req u32 "" "Who ran.";
        cpu: req u32 "" "Where.";
        event: req str "" "Event that was sampled, as it really was opened.";
        kstack_id: opt u64 "" "Kernel stack.";
        ustack_id: opt u64 "" "User stack.";
        weight: req u64 "" "Events that this sample stands for (ns for clocks).";
        ustack_end: opt str "" "How the user stack ended: `entry` (the thread's first function), `cut` (it is longer than what was followed) or `broken` (it could not be followed further). Null without a user stack, and where only frame pointers were followed, which do not say.";
        returned_from: opt str "" "What the kernel had just returned from to user space, where nothing had run since: `fault` or `call`. A timer's samples that fall due on that way out, where interrupts are off, are taken there. Null for all other samples, and where it is not told: samples of cycles, or taken without BPF; `fault` also needs the stream `faults`.";
    }

    /// Stacks. The id is a hash of the content, equal across parts, runs and hosts; a reader may meet a row twice.
    stacks (push_stacks) StacksRow['a] StacksColumns StacksView {
        stack_id: req u64 "" "Content hash of the frame ids.";
        frame_ids: req u64list "" "Frames, innermost first.";
    }

    /// Frames of stacks. The id is a hash of the content; a reader may meet a row twice.
    frames (push_frames) FramesRow['a] FramesColumns FramesView text_of(module) {
        frame_id: req u64 "" "Content hash of the other columns.";
        symbol: opt str "" "Function; null if it could not be resolved.";
        module: opt bytes "" "Path of the binary, or `[kernel]`.";
        build_id: opt str "" "Build id of the binary, in hexadecimal.";
        module_offset: opt u64 "bytes" "Offset in the binary.";
        kernel: req bool "" "Whether it is kernel code.";
        inlined: req bool "" "Whether the compiler inlined it into the next frame.";
    }

    /// Hardware and software counters.
    counters (push_counters) CountersRow['a] CountersColumns CountersView {
        ts: req i64 "ns" "When it was read.";
        task_id: opt u32 "" "Whose; null for all recorded tasks together.";
        name: req str "" "Name of the event.";
        value: opt u64 "" "Count since the start, unscaled; null if the event could not be counted.";
        enabled_ns: opt u64 "ns" "Time the counter was enabled.";
        running_ns: opt u64 "ns" "Time it really counted; less than enabled_ns if it was multiplexed.";
        group_id: opt u32 "" "Events of the same number were counted at the same times, and only these may be divided by one another.";
    }

    /// Samples of the metrics that `vocab` declares (kind, unit and direction are there).
    metrics (push_metrics) MetricsRow['a] MetricsColumns MetricsView {
        ts: req i64 "ns" "When it was sampled.";
        name: req str "" "Name of the metric.";
        instance: opt str "" "Device, CPU, node, ...; null where there is one for all.";
        value: opt f64 "" "The raw value, in the unit that `vocab` gives; null if it could not be measured.";
    }

    /// Instants that somebody gave a name to, with `pagelab mark` or by other means.
    marks (push_marks) MarksRow['a] MarksColumns MarksView {
        ts: req i64 "ns" "When it was set.";
        name: req str "" "Its name; a name may come more than once.";
        source: req str "" "Who set it: `mark`, or a part of the recorder such as `budget`.";
    }

    /// Settings of host and target.
    settings (push_settings) SettingsRow['a] SettingsColumns SettingsView {
        ts: req i64 "ns" "When it was read.";
        key: req str "" "Name in the vocabulary of settings.";
        value: opt str "" "Value as the source gives it; null if it could not be read.";
        source: req str "" "Where it was read: a path, or the name of the call.";
        at: req str "" "`start` or `end`. A command that has changed its own settings 0.1 s after it began (taskset, nice, a shell that enters a control group) has a second row of `start` for each of these, which holds.";
    }

    /// Results of load jobs, per job, thread and direction.
    jobs (push_jobs) JobsRow['a] JobsColumns JobsView {
        ts: req i64 "ns" "End of the job.";
        job: req str "" "Name of the job.";
        thread: opt u32 "" "Thread of the job, from 0; null for the whole job.";
        direction: req str "" "`read`, `write` or `trim`.";
        ios: req u64 "" "Operations completed.";
        bytes: req u64 "bytes" "Bytes transferred.";
        short: opt u64 "" "Operations that transferred less than was asked.";
        dropped: opt u64 "" "Operations dropped.";
        errors: opt u64 "" "Operations that failed.";
        runtime_ns: req u64 "ns" "Measured time.";
        usr: opt f64 "pct" "User CPU time of the job.";
        sys: opt f64 "pct" "System CPU time of the job.";
        ctx: opt u64 "" "Context switches.";
        majf: opt u64 "" "Major faults.";
        minf: opt u64 "" "Minor faults.";
        iops_min: opt f64 "1/s" "Smallest interval's operations per second.";
        iops_max: opt f64 "1/s" "Largest interval's operations per second.";
        iops_mean: opt f64 "1/s" "Mean of the intervals' operations per second.";
        iops_sd: opt f64 "1/s" "Standard deviation of the same.";
        bw_min: opt f64 "bytes/s" "Smallest interval's bandwidth.";
        bw_max: opt f64 "bytes/s" "Largest interval's bandwidth.";
        bw_mean: opt f64 "bytes/s" "Mean of the intervals' bandwidth.";
        bw_sd: opt f64 "bytes/s" "Standard deviation of the same.";
        depth: opt u64list "" "Operations issued at queue depth 1, 2, 4, 8, 16, 32 and 64 or more.";
        disk_stats: opt str "" "JSON array with one object per disk: name, ios, merges, ticks, in_queue, util, as fio reports them.";
    }

    /// Latency histograms of load jobs, one row per bucket that is not empty, per second.
    latency (push_latency) LatencyRow['a] LatencyColumns LatencyView {
        ts: req i64 "ns" "End of the second.";
        job: req str "" "Name of the job.";
        thread: opt u32 "" "Thread of the job, from 0; null for the whole job.";
        direction: req str "" "`read`, `write` or `trim`.";
        kind: req str "" "`slat` (submission), `clat` (completion) or `lat` (both).";
        low_ns: req u64 "ns" "Lower end of the bucket, inclusive.";
        high_ns: req u64 "ns" "Upper end of the bucket, inclusive.";
        count: req u64 "" "Operations in it.";
    }

    /// Block layer requests.
    block_ios (push_block_ios) BlockIosRow['a] BlockIosColumns BlockIosView {
        ts: req i64 "ns" "Issue to the device.";
        dur: opt i64 "ns" "Time in the device; null if it never completed.";
        queue_ns: opt u64 "ns" "Time in the queue before issue.";
        task_id: opt u32 "" "Who submitted it; null if no recorded task did.";
        dev: req u64 "" "Device, as st_dev.";
        sector: req u64 "sectors" "First sector (512 bytes).";
        bytes: req u64 "bytes" "Length.";
        op: req str "" "`read`, `write`, `discard`, `flush`, ...";
        merged: opt u32 "" "Requests merged into it.";
        status: opt i32 "" "0 or a negative errno; null if it never completed.";
        device: opt str "" "Name of the device in /sys/block when it was met first; null if it was gone by then.";
    }

    /// Page sizes that regions of memory really have.
    region_pages (push_region_pages) RegionPagesRow['a] RegionPagesColumns RegionPagesView text_of(path) {
        ts: req i64 "ns" "When it was looked at.";
        mm_id: req u32 "" "Address space.";
        start: req u64 "" "Start of the region.";
        end: req u64 "" "End of the region.";
        path: opt bytes "" "File or kernel's name of the region.";
        page_size_bytes: req u64 "bytes" "Size of the pages counted in this row.";
        bytes: req u64 "bytes" "Memory of the region in pages of that size.";
        asked: opt str "" "What the program asked for: `madvise`, `hugetlb`, `always`, ...; null if nothing.";
        reason: opt str "" "Why it is not what was asked.";
    }

    /// What khugepaged and MADV_COLLAPSE did about making huge pages of small ones: one row per piece of memory of the size of
    ///  a huge page that they tried or turned down. Splits are not here: the kernel counts them (metrics `thp_split_*`) and
    ///  does not say whose they were.
    khugepaged (push_khugepaged) KhugepagedRow['a] KhugepagedColumns KhugepagedView {
        ts: req i64 "ns" "When it was done.";
        mm_id: opt u32 "" "Address space; null for files that are looked at for all who map them.";
        task_id: opt u32 "" "A task of that address space: its owner as the kernel keeps it, or who called.";
        op: req str "" "`collapse` (tried) or `scan` (looked at and turned down).";
        kind: req str "" "`anon`, `file` or `shmem`.";
        by_whom: req str "" "`khugepaged`, or `madvise` for MADV_COLLAPSE.";
        addr: opt u64 "" "Start of the piece; null unless known. For anonymous memory it is where the memory was before any mremap.";
        pgoff: opt u64 "pages" "For files: page of the file.";
        dev: opt u64 "" "For files: device, as st_dev.";
        ino: opt u64 "" "For files: inode.";
        result: req str "" "The kernel's word: `SUCCEED`, `EXCEED_NONE_PTE`, `PAGE_RO`, ... (its enum scan_result without SCAN_); a number where it has none.";
        pages: opt u32 "pages" "Small pages that became one huge page; null unless it succeeded.";
        filled: opt u32 "pages" "Of these, the ones for which there was no memory before; null unless known.";
    }

    /// What a stream saw, lost and filtered since the previous row of the same stream and cpu.
    loss (push_loss) LossRow['a] LossColumns LossView {
        ts: req i64 "ns" "End of the interval.";
        stream: req str "" "Name of the stream.";
        cpu: opt u32 "" "CPU; null where the stream counts for all together.";
        seen: req u64 "" "Events that happened as far as the probe knows, lost and filtered ones included.";
        lost: req u64 "" "Events that should be in the recording and are not.";
        filtered: req u64 "" "Events left out on purpose (other processes, the recorder itself).";
    }

    /// Rollup: page faults by what the processor said of them.
    rollup_faults (push_rollup_faults) RollupFaultsRow[] RollupFaultsColumns RollupFaultsView
    rollup(1; faults, mappings, tasks, settings) {
        error_code: opt u32 "" "As in `faults`.";
        major: opt bool "" "As in `faults`.";
        kernel_ip: req bool "" "Whether the instruction that faulted is the kernel's.";
        measured: req bool "" "Whether the faults lie in the measured time of the manifest; true where it names none.";
        faults: req u64 "" "Faults.";
    }

    /// Rollup: page faults by task.
    rollup_fault_tasks (push_rollup_fault_tasks) RollupFaultTasksRow[] RollupFaultTasksColumns RollupFaultTasksView
    rollup(1; faults, mappings, tasks, settings) {
        task_id: req u32 "" "Who faulted.";
        faults: req u64 "" "Faults.";
    }

    /// Rollup: page faults by the mapping faulted on.
    rollup_fault_mappings (push_rollup_fault_mappings) RollupFaultMappingsRow[] RollupFaultMappingsColumns
    RollupFaultMappingsView rollup(1; faults, mappings, tasks, settings) {
        mapping_id: opt u32 "" "The mapping; null for faults on none that is known.";
        faults: req u64 "" "Faults.";
        protection_faults: req u64 "" "Of those, faults on a page that was there (x86).";
        slots: req u64 "" "Slots of the huge page size in which a page was missing.";
        ascending: req u64 "" "Faults that found no page, a little above the one before on this mapping.";
        descending: req u64 "" "A little below it.";
        other: req u64 "" "Elsewhere, or on the same page.";
    }

    /// Rollup: page faults by instruction.
    rollup_fault_ips (push_rollup_fault_ips) RollupFaultIpsRow[] RollupFaultIpsColumns RollupFaultIpsView
    rollup(1; faults, mappings, tasks, settings) {
        mapping_id: opt u32 "" "The mapping that the instruction lies in; null for the kernel's, and where none is known.";
        ip: req u64 "" "Instruction that faulted.";
        faults: req u64 "" "Faults.";
    }

    /// Rollup: page faults of which it was recorded how they ended.
    rollup_fault_ends (push_rollup_fault_ends) RollupFaultEndsRow['a] RollupFaultEndsColumns RollupFaultEndsView
    rollup(1; faults, mappings, tasks, settings) {
        major: req bool "" "As in `faults`.";
        got: opt str "" "As in `faults`.";
        faults: req u64 "" "Faults.";
        p50_ns: req i64 "ns" "The smallest duration that half of them do not exceed.";
        p99_ns: req i64 "ns" "The smallest duration that 99 % of them do not exceed.";
        total_ns: req i64 "ns" "Sum of their durations.";
    }

    /// Rollup: what the mappings and faults of the whole recording come to; one row.
    rollup_mappings (push_rollup_mappings) RollupMappingsRow[] RollupMappingsColumns RollupMappingsView
    rollup(1; faults, mappings, tasks, settings) {
        huge_bytes: req u64 "bytes" "Size of a slot: what a huge page covers.";
        page_bytes: req u64 "bytes" "Size of a base page.";
        faults: req u64 "" "Page faults.";
        window_faults: req u64 "" "Of those, faults in the measured time of the manifest; all where it names none.";
        unattributed: req u64 "" "Of all, faults on no mapping known.";
        classes_folded: req u64 "" "Classes that were put together under a key without path and thread, because there were too many.";
    }

    /// Rollup: mappings by class, with the faults on them. A slot is an aligned piece of the huge page size; it is whole if
    ///  it lay in one memory area when it was first touched.
    rollup_mapping_classes (push_rollup_mapping_classes) RollupMappingClassesRow['a] RollupMappingClassesColumns
    RollupMappingClassesView rollup(1; faults, mappings, tasks, settings) {
        kind: req str "" "What stands behind the mappings: `anonymous`, `shared_anonymous`, `file`, `hugetlb`, `stack`, `heap` or `kernel`.";
        path: opt str "" "File; bytes that are not UTF-8 replaced.";
        size_bytes: req u64 "bytes" "Lengths from this power of two up to, not including, the next; 0 where the length tells nothing.";
        comm: opt str "" "Name of the thread that mapped them.";
        advice: req str "" "What the program said about huge pages: `none`, `huge`, `no_huge` or `prctl`.";
        mappings: req u64 "" "Mappings made.";
        mapped_bytes: req u64 "bytes" "Bytes mapped, each mapping at its length when made.";
        prior: req u64 "" "Mappings that were there before recording began, or were inherited.";
        address_asked: req u64 "" "Mappings for which the program asked for an address.";
        after_refusal: req u64 "" "Mappings made just after a request for hugetlb memory of that length was refused.";
        eligible_slots: req u64 "" "Whole slots that making these mappings brought about.";
        slots_if_aligned: req u64 "" "Slots they would hold if each began at a slot's start.";
        misalignments: req u64list "bytes" "Starts modulo the slot size, of mappings at least a slot long; the most frequent.";
        misalignment_mappings: req u64list "" "Mappings with each of these.";
        misalignment_others: req u64 "" "Mappings with other values.";
        faults: req u64 "" "Faults that found no page.";
        window_faults: req u64 "" "Of those, faults in the measured time.";
        protection_faults: req u64 "" "Faults on a page that was there.";
        ascending: req u64 "" "Faults a little above the one before on their mapping.";
        descending: req u64 "" "A little below it.";
        other: req u64 "" "Elsewhere, or on the same page.";
        step_pages: opt i64 "pages" "The most frequent distance between successive faults.";
        whole_touched: req u64 "" "Whole slots in which a page was missing.";
        whole_few: req u64 "" "Of those, slots with so few pages faulted that a huge page was put there.";
        whole_many: req u64 "" "Of those, slots that were filled page by page.";
        whole_faults: req u64 "" "Faults that found no page, in whole slots.";
        whole_window_faults: req u64 "" "Of those, faults in the measured time.";
        whole_window_faults_in_many: req u64 "" "Of those, faults in slots that were filled page by page.";
        whole_by_pages: req u64list "" "Whole slots by distinct pages faulted: 1, 2, 3-4, 5-8, ...";
        partial_touched: req u64 "" "Slots that were not whole, in which a page was missing.";
        partial_few: req u64 "" "As `whole_few`.";
        partial_many: req u64 "" "As `whole_many`.";
        partial_faults: req u64 "" "As `whole_faults`.";
        partial_window_faults: req u64 "" "As `whole_window_faults`.";
        partial_window_faults_in_many: req u64 "" "As `whole_window_faults_in_many`.";
        partial_by_pages: req u64list "" "As `whole_by_pages`.";
        failed_errnos: req u64list "" "Errors of calls that would have made such a mapping.";
        failed_calls: req u64list "" "Calls that failed with each of these.";
        example_mm_id: opt u32 "" "The mapping with most faults: its address space. Null, like the columns that follow, if there is none.";
        example_mapping_id: opt u32 "" "Its number; null if it has none.";
        example_start: opt u64 "" "Its start.";
        example_len: opt u64 "bytes" "Its length when it was made.";
        example_mapped_ts: opt i64 "ns" "When it was made.";
        example_ended_ts: opt i64 "ns" "When it went; null if it was there at the end.";
        example_faults: opt u64 "" "Faults on it.";
    }

    /// Rollup: requests for hugetlb memory that the kernel refused.
    rollup_hugetlb_refusals (push_rollup_hugetlb_refusals) RollupHugetlbRefusalsRow['a] RollupHugetlbRefusalsColumns
    RollupHugetlbRefusalsView rollup(1; faults, mappings, tasks, settings) {
        page_bytes: opt u64 "bytes" "Page size asked for; null for the default.";
        errno: req i32 "" "The error.";
        count: req u64 "" "Requests.";
        asked_bytes: req u64 "bytes" "Bytes asked for in all of them.";
        smallest_bytes: req u64 "bytes" "The smallest request.";
        largest_bytes: req u64 "bytes" "The largest request.";
        first_ts: req i64 "ns" "When the first came.";
        last_ts: req i64 "ns" "When the last came.";
        comm: opt str "" "Name of the thread that asked first.";
    }

    /// Rollup: system calls by name, by task, by the task's name and by file. Groups of the last three are left out if there are
    ///  very many.
    rollup_calls (push_rollup_calls) RollupCallsRow['a] RollupCallsColumns RollupCallsView rollup(2; syscalls, tasks) {
        group_id: req u32 "" "The group, unique in the table.";
        by: req str "" "What the group is put together by: `name`, `task`, `comm` or `file`.";
        name: opt str "" "`name`: the call's. `comm`: the task's at the time; null if it is not known.";
        id: opt u32 "" "`task`: the task. `file`: the file; null for calls on none.";
        calls: req u64 "" "Calls.";
        errors: req u64 "" "Of those, calls that failed.";
        unfinished: req u64 "" "Calls that never returned.";
        refused: req u64 "" "Calls that were refused before they began: they have a result and no duration.";
        total_ns: req u64 "ns" "Durations of those that have one.";
        max_ns: req u64 "ns" "The longest of them.";
        cpu_calls: req u64 "" "Calls whose time on a CPU is known.";
        cpu_ns: req u64 "ns" "Time on a CPU of those.";
        split_calls: req u64 "" "Calls of which it is known how long they ran and slept.";
        split_ns: req u64 "ns" "Their durations.";
        split_cpu_ns: req u64 "ns" "Of that, on a CPU.";
        split_blocked_ns: req u64 "ns" "Of that, asleep.";
    }

    /// Rollup: durations of the groups of `rollup_calls`: as they were for up to 256 calls, beyond that within 1 %.
    rollup_call_durations (push_rollup_call_durations) RollupCallDurationsRow[] RollupCallDurationsColumns
    RollupCallDurationsView rollup(1; syscalls, tasks) {
        group_id: req u32 "" "The group.";
        duration_ns: req u64 "ns" "Duration.";
        calls: req u64 "" "Calls with it.";
    }

    /// Rollup: profile samples by stacks, event, name of the task and CPU.
    rollup_samples (push_rollup_samples) RollupSamplesRow['a] RollupSamplesColumns RollupSamplesView
    rollup(1; samples, tasks) {
        event: req str "" "Event that was sampled.";
        comm: opt str "" "Name of the task at the time; null if it is not known.";
        cpu: req u32 "" "Where.";
        kstack_id: opt u64 "" "Kernel stack.";
        ustack_id: opt u64 "" "User stack.";
        ustack_end: opt str "" "How the user stack ended, as in `samples`.";
        measured: req bool "" "Whether the samples lie in the measured time of the manifest.";
        samples: req u64 "" "Samples.";
        weight: req u64 "" "Events that they stand for (ns for clocks).";
    }
}
