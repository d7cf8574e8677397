//! `sysctl.*` outside the network: /proc/sys/{vm,kernel,fs,dev,...}.
//!
//! Meanings follow Documentation/admin-guide/sysctl of the kernel; companions were read in mm/page-writeback.c,
//! mm/util.c and kernel/watchdog.c.

use super::{Companions, Reading, SettingDef, Twin, settings};

/// Every sysctl is found by its name.
pub(super) const FILE: &str = "/proc/sys/<path>";

/// Default-sized pool under its older name.
const POOL: Companions = Companions::Rewritten(&["hugetlb.<default>.nr_hugepages"]);

pub(super) const DEFS: &[SettingDef] = settings! {
    Host "sysctl.vm.swappiness" at FILE, High ["reclaim", "swap", "memory"] : "How readily anonymous memory is swapped rather than page cache dropped.";
    Host "sysctl.vm.page-cluster" at FILE, Some ["swap", "readahead"] : "Pages read from swap at once, as a power of two.";
    Host "sysctl.vm.min_free_kbytes" at FILE, Some ["reclaim", "memory"]
        { derived_from: Some("thp.enabled") } : "Memory kept free for the kernel. Recomputed when khugepaged starts or stops.";
    Host "sysctl.vm.watermark_scale_factor" at FILE, Some ["reclaim", "memory"] : "Distance between the marks at which kswapd wakes and rests.";
    Host "sysctl.vm.watermark_boost_factor" at FILE, Some ["reclaim", "memory", "thp"] : "How much more is reclaimed when kinds of pages mix.";
    Host "sysctl.vm.vfs_cache_pressure" at FILE, Some ["reclaim", "fs"] : "How readily cached names and inodes are dropped.";
    Host "sysctl.vm.vfs_cache_pressure_denom" at FILE, Low ["reclaim", "fs"] : "What vfs_cache_pressure is a fraction of.";
    Host "sysctl.vm.zone_reclaim_mode" at FILE, High ["numa", "reclaim", "memory"] : "Whether a node reclaims its own memory before it takes another's.";
    Host "sysctl.vm.min_unmapped_ratio" at FILE, Low ["numa", "reclaim"] : "Unmapped page cache from which zone reclaim starts, per cent.";
    Host "sysctl.vm.min_slab_ratio" at FILE, Low ["numa", "reclaim"] : "Reclaimable slab from which zone reclaim starts, per cent.";
    Host "sysctl.vm.overcommit_memory" at FILE, Some ["memory", "limits"] : "0: refuse obvious excess; 1: grant everything; 2: never more than swap plus a share of memory.";
    Host "sysctl.vm.overcommit_ratio" at FILE, Some ["memory", "limits"]
        { companions: Companions::Exclusive(&["sysctl.vm.overcommit_kbytes"]) } : "That share, per cent.";
    Host "sysctl.vm.overcommit_kbytes" at FILE, Some ["memory", "limits"]
        { companions: Companions::Exclusive(&["sysctl.vm.overcommit_ratio"]) } : "That share, KiB.";
    Host "sysctl.vm.max_map_count" at FILE, Low ["memory", "limits"] : "Most mappings of a process; beyond it mmap fails.";
    Host "sysctl.vm.mmap_min_addr" at FILE, Nil ["security"] : "Lowest address that may be mapped.";
    Host "sysctl.vm.mmap_rnd_bits" at FILE, Low ["memory", "security"] : "Bits of randomness in the place of mappings.";
    Host "sysctl.vm.mmap_rnd_compat_bits" at FILE, Nil ["memory", "security"] : "The same for 32-bit programs.";
    Host "sysctl.vm.legacy_va_layout" at FILE, Some ["memory", "thp"] : "Whether mappings grow upwards from a low address.";
    Host "sysctl.vm.dirty_ratio" at FILE, High ["writeback", "io", "memory"]
        { companions: Companions::Exclusive(&["sysctl.vm.dirty_bytes"]) } : "Dirty share of memory at which writers must write back themselves, per cent.";
    Host "sysctl.vm.dirty_bytes" at FILE, High ["writeback", "io", "memory"]
        { companions: Companions::Exclusive(&["sysctl.vm.dirty_ratio"]) } : "The same in bytes; only one of the two is in force.";
    Host "sysctl.vm.dirty_background_ratio" at FILE, High ["writeback", "io", "memory"]
        { companions: Companions::Exclusive(&["sysctl.vm.dirty_background_bytes"]) } : "Dirty share at which write-back starts in the background, per cent.";
    Host "sysctl.vm.dirty_background_bytes" at FILE, High ["writeback", "io", "memory"]
        { companions: Companions::Exclusive(&["sysctl.vm.dirty_background_ratio"]) } : "The same in bytes; only one of the two is in force.";
    Host "sysctl.vm.dirty_expire_centisecs" at FILE, Some ["writeback", "io"] : "Age at which a dirty page must be written.";
    Host "sysctl.vm.dirty_writeback_centisecs" at FILE, Some ["writeback", "io"] : "Interval at which the flushers wake.";
    Host "sysctl.vm.dirtytime_expire_seconds" at FILE, Low ["writeback", "fs"] : "Age at which a dirty time stamp is written.";
    Host "sysctl.vm.laptop_mode" at FILE, Some ["writeback", "io"] : "Write everything back when a disk is awake anyway.";
    Host "sysctl.vm.compaction_proactiveness" at FILE, Some ["thp", "memory", "cpu"] : "How hard kcompactd works ahead of need.";
    Host "sysctl.vm.compact_unevictable_allowed" at FILE, Low ["thp", "memory"] : "Whether locked pages may be moved.";
    Host "sysctl.vm.defrag_mode" at FILE, Some ["thp", "memory", "reclaim"] : "Whether the allocator keeps blocks of one kind whole at the price of reclaim.";
    Host "sysctl.vm.extfrag_threshold" at FILE, Some ["thp", "memory", "reclaim"] : "Fragmentation from which compaction is preferred to reclaim.";
    Host "sysctl.vm.percpu_pagelist_high_fraction" at FILE, Low ["memory", "cpu"] : "Share of a zone that per-processor free lists may hold.";
    Host "sysctl.vm.lowmem_reserve_ratio" at FILE, Low ["memory", "reclaim"] : "Memory of lower zones kept from requests that could use higher ones.";
    Host "sysctl.vm.page_lock_unfairness" at FILE, Low ["memory", "sched"] : "How often a waiter may be overtaken at a page lock.";
    Host "sysctl.vm.numa_stat" at FILE, Low ["numa", "tracing"] : "Whether NUMA hits and misses are counted.";
    Host "sysctl.vm.stat_interval" at FILE, Low ["tracing"] : "Seconds between updates of the VM counters.";
    Host "sysctl.vm.hugetlb_optimize_vmemmap" at FILE, Some ["hugetlb", "memory"] : "Whether the descriptors of a huge page's inner pages are freed.";
    Host "sysctl.vm.hugetlb_shm_group" at FILE, Nil ["hugetlb", "limits"] : "Group that may make SysV segments of huge pages.";
    Host "sysctl.vm.nr_hugepages" at FILE, High ["hugetlb", "faults", "memory"]
        { companions: POOL, twins: &[Twin { when: None, key: "hugetlb.<default>.nr_hugepages", value: None }] }
        : "The pool of the default size, under its older name.";
    ReadOnly "sysctl.vm.nr_hugepages_mempolicy" at FILE, Low ["hugetlb", "numa"]
        { twins: &[Twin { when: None, key: "hugetlb.<default>.nr_hugepages", value: None }] }
        : "The same; writing it would spread the pages by the writer's memory policy.";
    Host "sysctl.vm.nr_overcommit_hugepages" at FILE, High ["hugetlb", "faults", "memory"]
        { companions: Companions::Rewritten(&["hugetlb.<default>.nr_overcommit_hugepages"]),
          twins: &[Twin { when: None, key: "hugetlb.<default>.nr_overcommit_hugepages", value: None }] }
        : "Surplus allowed to the pool of the default size, under its older name.";
    Host "sysctl.vm.admin_reserve_kbytes" at FILE, Nil ["memory", "limits"] : "Memory kept for root under strict overcommit.";
    Host "sysctl.vm.user_reserve_kbytes" at FILE, Nil ["memory", "limits"] { derived_from: Some("mm.total_bytes") } : "Memory kept for other programs under strict overcommit.";
    Host "sysctl.vm.oom_kill_allocating_task" at FILE, Nil ["memory"] : "Who is killed when memory runs out.";
    Host "sysctl.vm.oom_dump_tasks" at FILE, Nil ["tracing"] : "Whether tasks are listed then.";
    Host "sysctl.vm.panic_on_oom" at FILE, Nil ["memory"] : "Whether the host panics then.";
    Host "sysctl.vm.unprivileged_userfaultfd" at FILE, Low ["faults", "security"] : "Who may handle kernel faults in user space.";
    ReadOnly "sysctl.vm.compact_memory" at FILE, Nil ["memory"] { reading: Reading::Never } : "Write-only: compacts all memory. A plan asks for it by `between`.";
    ReadOnly "sysctl.vm.drop_caches" at FILE, Nil ["memory"] { reading: Reading::Never } : "Drops clean caches. A plan asks for it by `between`.";
    ReadOnly "sysctl.vm.stat_refresh" at FILE, Nil ["tracing"] { reading: Reading::Never } : "Reading it folds the counters of all processors.";
    ReadOnly "sysctl.vm.memfd_noexec" at FILE, Nil ["security"] : "Whether memfds may be executed. Not offered for writing: it can only be raised.";
    Host "sysctl.vm.<path>" at FILE, Low ["memory"] { catch_all: true } : "Any other sysctl of memory management.";

    Host "sysctl.kernel.numa_balancing" at FILE, High ["numa", "faults", "memory"] : "Whether pages follow the threads that use them, found out by hinting faults.";
    Host "sysctl.kernel.numa_balancing_promote_rate_limit_MBps" at FILE, Low ["numa", "memory"] : "Limit of promotion from slower memory.";
    Host "sysctl.kernel.randomize_va_space" at FILE, Some ["memory", "security"] : "Address space randomisation: 0 none, 1 without the heap, 2 full.";
    Host "sysctl.kernel.sched_autogroup_enabled" at FILE, Some ["sched", "cpu"] : "Whether each session is a scheduling group.";
    Host "sysctl.kernel.sched_cfs_bandwidth_slice_us" at FILE, Some ["sched", "cpu"] : "Piece of a quota that a processor takes at once.";
    Host "sysctl.kernel.sched_rt_runtime_us" at FILE, Low ["sched"] : "Time of each period that real-time tasks may take.";
    Host "sysctl.kernel.sched_schedstats" at FILE, Low ["sched", "tracing"] : "Whether waiting times are counted.";
    Host "sysctl.kernel.sched_energy_aware" at FILE, Some ["sched", "cpu"] : "Whether placement saves energy.";
    Host "sysctl.kernel.sched_<path>" at FILE, Some ["sched", "cpu"] : "Any other sysctl of the scheduler.";
    Host "sysctl.kernel.timer_migration" at FILE, Low ["time", "sched"] : "Whether timers move to busy processors.";
    Host "sysctl.kernel.task_delayacct" at FILE, Low ["sched", "tracing"] : "Whether delays of tasks are counted.";
    Host "sysctl.kernel.split_lock_mitigate" at FILE, Some ["cpu", "security"] : "Whether a task that locks across cache lines is slowed down.";
    Host "sysctl.kernel.watchdog" at FILE, Low ["tracing", "cpu"]
        { companions: Companions::Rewritten(&["sysctl.kernel.nmi_watchdog", "sysctl.kernel.soft_watchdog"]) } : "Both lockup detectors at once.";
    Host "sysctl.kernel.nmi_watchdog" at FILE, Low ["tracing", "cpu"]
        { companions: Companions::Rewritten(&["sysctl.kernel.watchdog"]) } : "The hard lockup detector; takes a hardware counter.";
    Host "sysctl.kernel.soft_watchdog" at FILE, Low ["tracing", "cpu"]
        { companions: Companions::Rewritten(&["sysctl.kernel.watchdog"]) } : "The soft lockup detector.";
    Host "sysctl.kernel.perf_event_paranoid" at FILE, Nil ["tracing"] : "Who may measure what.";
    Host "sysctl.kernel.perf_event_max_sample_rate" at FILE, Nil ["tracing"] { state: true } : "Ceiling of the sampling rate; the kernel lowers it itself.";
    Host "sysctl.kernel.perf_<path>" at FILE, Nil ["tracing"] : "Any other sysctl of perf events.";
    Host "sysctl.kernel.ftrace_enabled" at FILE, Low ["tracing"] : "Whether functions can be traced.";
    Host "sysctl.kernel.bpf_stats_enabled" at FILE, Low ["tracing"] : "Whether run times of BPF programs are counted.";
    Host "sysctl.kernel.io_uring_disabled" at FILE, Low ["io", "security"] : "Who may use io_uring.";
    Host "sysctl.kernel.kptr_restrict" at FILE, Nil ["security", "tracing"] : "Who sees kernel addresses.";
    Host "sysctl.kernel.hung_task_<path>" at FILE, Nil ["tracing"] : "Detection of tasks that hang.";
    ReadOnly "sysctl.kernel.hung_task_detect_count" at FILE, Nil ["tracing"] { volatile: true } : "Tasks found hanging since boot.";
    Host "sysctl.kernel.panic<path>" at FILE, Nil ["kernel"] : "What happens at a panic.";
    Host "sysctl.kernel.panic" at FILE, Nil ["kernel"] : "Seconds from a panic to the restart.";
    Host "sysctl.kernel.printk<path>" at FILE, Nil ["kernel"] : "Limits of kernel messages.";
    Host "sysctl.kernel.printk" at FILE, Low ["kernel"] : "Which kernel messages reach the console.";
    Host "sysctl.kernel.core_<path>" at FILE, Nil ["kernel"] : "What becomes of a core dump.";
    Host "sysctl.kernel.pid_max" at FILE, Nil ["limits"] : "Highest process id.";
    Host "sysctl.kernel.threads-max" at FILE, Nil ["limits"] { derived_from: Some("mm.total_bytes") } : "Most tasks of the host.";
    Host "sysctl.kernel.shmmax" at FILE, Low ["memory", "limits"] : "Largest SysV segment.";
    Host "sysctl.kernel.shmall" at FILE, Low ["memory", "limits"] : "Pages in all SysV segments.";
    Host "sysctl.kernel.shmmni" at FILE, Nil ["memory", "limits"] : "Most SysV segments.";
    Host "sysctl.kernel.msgmax" at FILE, Nil ["limits"] : "Largest SysV message, bytes.";
    Host "sysctl.kernel.keys.maxkeys" at FILE, Nil ["limits"] : "Most keys of an ordinary user.";
    Host "sysctl.kernel.sem" at FILE, Nil ["limits"] : "Limits of SysV semaphores.";
    ReadOnly "sysctl.kernel.hostname" at FILE, Nil ["identity"] : "Name of the host.";
    ReadOnly "sysctl.kernel.domainname" at FILE, Nil ["identity"] : "NIS domain.";
    ReadOnly "sysctl.kernel.osrelease" at FILE, Low ["identity", "kernel"]
        { twins: &[Twin { when: None, key: "kernel.release", value: None }] } : "The running kernel.";
    ReadOnly "sysctl.kernel.version" at FILE, Low ["identity", "kernel"]
        { twins: &[Twin { when: None, key: "kernel.version", value: None }] } : "Its build.";
    ReadOnly "sysctl.kernel.arch" at FILE, Low ["identity", "cpu"]
        { twins: &[Twin { when: None, key: "kernel.arch", value: None }] } : "Machine architecture.";
    ReadOnly "sysctl.kernel.tainted" at FILE, Nil ["kernel"] { state: true } : "What has happened to the kernel since boot, a bit mask; never cleared.";
    ReadOnly "sysctl.kernel.ns_last_pid" at FILE, Nil ["kernel"] { volatile: true } : "Process id given last.";
    ReadOnly "sysctl.kernel.pty.nr" at FILE, Nil ["kernel"] { volatile: true } : "Pseudo terminals in use.";
    ReadOnly "sysctl.kernel.random.<path>" at FILE, Nil ["kernel"] { volatile: true } : "State of the random number generator, and the id of this boot.";
    ReadOnly "sysctl.kernel.msg_next_id" at FILE, Nil ["kernel"] { state: true } : "Id for the next message queue.";
    ReadOnly "sysctl.kernel.sem_next_id" at FILE, Nil ["kernel"] { state: true } : "Id for the next semaphore set.";
    ReadOnly "sysctl.kernel.shm_next_id" at FILE, Nil ["kernel"] { state: true } : "Id for the next segment.";
    ReadOnly "sysctl.kernel.cad_pid" at FILE, Nil ["kernel"] { state: true } : "Who gets the restart key.";
    ReadOnly "sysctl.kernel.unprivileged_bpf_disabled" at FILE, Low ["security", "tracing"] : "Who may use BPF. Not offered for writing: 1 cannot be taken back.";
    ReadOnly "sysctl.kernel.modules_disabled" at FILE, Nil ["security"] : "Whether modules may be loaded. Cannot be taken back.";
    ReadOnly "sysctl.kernel.kexec_load_disabled" at FILE, Nil ["security"] : "Whether another kernel may be loaded. Cannot be taken back.";
    ReadOnly "sysctl.kernel.yama.ptrace_scope" at FILE, Nil ["security", "tracing"] : "Who may trace whom. 3 cannot be taken back.";
    ReadOnly "sysctl.kernel.kexec_load_limit_panic" at FILE, Nil ["security"] : "How often a crash kernel may still be loaded. Not offered for writing: it can only be lowered.";
    ReadOnly "sysctl.kernel.kexec_load_limit_reboot" at FILE, Nil ["security"] : "How often another kernel may still be loaded. Not offered for writing: it can only be lowered.";
    ReadOnly "sysctl.kernel.core_pattern" at FILE, Nil ["kernel"] : "Where core dumps go. Not offered for writing: it names a program that the kernel runs as root.";
    ReadOnly "sysctl.kernel.modprobe" at FILE, Nil ["kernel"] : "The program that loads modules. Not offered for writing: the kernel runs it as root.";
    ReadOnly "sysctl.kernel.hotplug" at FILE, Nil ["kernel"] : "The program that is told of devices. Not offered for writing: the kernel runs it as root.";
    ReadOnly "sysctl.kernel.poweroff_cmd" at FILE, Nil ["kernel"] : "The program that switches off. Not offered for writing: the kernel runs it as root.";
    ReadOnly "sysctl.kernel.usermodehelper.<path>" at FILE, Nil ["security"] : "Capabilities of programs that the kernel runs. Not offered for writing: they can only be taken away.";
    ReadOnly "sysctl.kernel.firmware_config.<path>" at FILE, Nil ["kernel"] : "Who supplies firmware. Not offered for writing: it lets a program hand code to devices.";
    ReadOnly "sysctl.kernel.loadpin.<path>" at FILE, Nil ["security"] : "Where modules may come from. Not offered for writing: on most hosts it cannot be taken back.";
    ReadOnly "sysctl.kernel.sysrq" at FILE, Nil ["security"] : "What the system request key may do. Not offered for writing: it opens the way to restarting and killing everything.";
    ReadOnly "sysctl.kernel.ctrl-alt-del" at FILE, Nil ["kernel"] : "What that key does. Not offered for writing: it may restart the host at once, without writing anything back.";
    ReadOnly "sysctl.fs.suid_dumpable" at FILE, Nil ["security"] : "Core dumps of privileged programs. Not offered for writing: they hold secrets, and stay.";
    Host "sysctl.kernel.<path>" at FILE, Low ["kernel"] { catch_all: true } : "Any other sysctl of the kernel.";

    ReadOnly "sysctl.fs.dentry-state" at FILE, Nil ["fs"] { volatile: true } : "Cached names now.";
    ReadOnly "sysctl.fs.inode-nr" at FILE, Nil ["fs"] { volatile: true } : "Inodes now.";
    ReadOnly "sysctl.fs.inode-state" at FILE, Nil ["fs"] { volatile: true } : "Inodes now.";
    ReadOnly "sysctl.fs.file-nr" at FILE, Nil ["fs"] { volatile: true } : "Open files now.";
    ReadOnly "sysctl.fs.aio-nr" at FILE, Nil ["io"] { volatile: true } : "Asynchronous requests allowed for now.";
    ReadOnly "sysctl.fs.quota.<path>" at FILE, Nil ["fs"] { volatile: true } : "Counters of the quota code.";
    ReadOnly "sysctl.fs.binfmt_misc.<path>" at FILE, Nil ["fs"] : "Registered program formats.";
    ReadOnly "sysctl.fs.xfs.stats_clear" at FILE, Nil ["fs"] { reading: Reading::Never } : "Clears the counters of XFS.";
    Host "sysctl.fs.aio-max-nr" at FILE, Low ["io", "limits"] : "Most asynchronous requests.";
    Host "sysctl.fs.lease-break-time" at FILE, Nil ["fs"] : "Seconds until a lease on a file is taken back.";
    Host "sysctl.fs.inotify.max_queued_events" at FILE, Nil ["fs", "limits"] : "Events that wait in an inotify instance.";
    Host "sysctl.fs.inotify.max_user_instances" at FILE, Nil ["fs", "limits"] : "Most inotify instances of a user.";
    Host "sysctl.fs.inotify.max_user_watches" at FILE, Nil ["fs", "limits"] { derived_from: Some("mm.total_bytes") } : "Most inotify watches of a user.";
    Host "sysctl.fs.mqueue.msg_max" at FILE, Nil ["limits"] : "Most messages in a POSIX message queue.";
    Host "sysctl.fs.file-max" at FILE, Nil ["limits"] { derived_from: Some("mm.total_bytes") } : "Most open files of the host.";
    Host "sysctl.fs.pipe-max-size" at FILE, Low ["fs", "limits"] : "Largest pipe that an ordinary user may ask for.";
    Host "sysctl.fs.pipe-user-pages-soft" at FILE, Some ["fs", "limits"] : "Pipe pages of a user beyond which new pipes hold one page.";
    Host "sysctl.fs.<path>" at FILE, Low ["fs"] { catch_all: true } : "Any other sysctl of file systems.";
    Host "sysctl.user.<path>" at FILE, Nil ["limits"] { catch_all: true, derived_from: Some("mm.total_bytes") } : "Most namespaces and watches of a user.";
    Host "sysctl.dev.<path>" at FILE, Nil ["kernel"] { catch_all: true } : "Sysctls of devices.";
    Host "sysctl.abi.<path>" at FILE, Nil ["kernel"] { catch_all: true } : "Sysctls of binary interfaces.";
    Host "sysctl.debug.<path>" at FILE, Nil ["tracing"] { catch_all: true } : "Sysctls for debugging.";
    Host "sysctl.<path>" at FILE, Low ["kernel"] { catch_all: true } : "Any other sysctl.";
};
