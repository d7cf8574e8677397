//! Causes in memory: huge pages, faults, mappings, placement.

use super::{CauseDef, EventCost};

/// Where the cost of faults by base pages shows: the faults, the pages, and taking them away again.
const OF_FAULTS: &[&str] = &["run.fault.", "run.memory.", "run.space.", "off.mmap_lock"];

/// A fault that a base page is cleared for.
const BASE_PAGE_FAULT: EventCost = EventCost {
    what: "fault of a base page",
    least_ns: Some(125),
    most_ns: Some(4000),
    most_ns_per_kib: 250,
    most_own_ns: None,
    source: "on x86-64 in a VM 0.25 us (256 MiB filled at 0.1 s) to 2.7 us (1 GB in 0.7 s) a fault of 4 KiB, clearing \
             and unmapping included; the first touch of memory that the hypervisor has yet to give takes longer, and \
             says nothing about the guest's settings. Half of the least is clearing the page, which a huge page costs too",
};

/// In the order of the documentation.
pub(super) const CAUSES: &[CauseDef] = &[
    CauseDef {
        id: "thp.disabled",
        title: "memory that used to get transparent huge pages is faulted in by base pages",
        topics: &["thp", "faults", "memory"],
        settings: &["thp.enabled", "mm.thp_disable", "thp.<size>.enabled", "thp.defrag"],
        help: "Anonymous mappings that cover whole huge pages take one fault per base page (512 for each 2 MiB on x86-64) \
               instead of one. It needs all of: more faults per operation inside mappings that could hold a huge page, \
               fewer vmstat.thp_fault_alloc, and a setting that forbids huge pages on the slow side. It is refuted by \
               mappings too small or misaligned for a huge page, and by vmstat.thp_fault_fallback, which says that the \
               kernel tried and had no memory in one piece.",
        event: BASE_PAGE_FAULT,
        components: OF_FAULTS,
    },
    CauseDef {
        id: "hugetlb.pool_exhausted",
        title: "the pool of huge pages is too small for what is asked of it",
        topics: &["hugetlb", "faults", "memory"],
        settings: &[
            "hugetlb.<size>.nr_hugepages",
            "hugetlb.<size>.nr_overcommit_hugepages",
            "hugetlb.<size>.<node>.nr_hugepages",
            "cgroup.hugetlb.<size>.rsvd.max",
            "cmdline.hugepages.<size>",
        ],
        help: "A program that asks for hugetlb pages does not get them (mmap with MAP_HUGETLB fails with ENOMEM) and falls \
               back to base pages, or runs with fewer. It needs the refused mapping, or pools whose free pages reached \
               zero while the faults moved to base pages. It is refuted by free pages left in the pool of that size \
               throughout.",
        event: BASE_PAGE_FAULT,
        components: OF_FAULTS,
    },
    CauseDef {
        id: "map.misaligned",
        title: "mappings no longer start where a huge page can",
        topics: &["faults", "thp", "memory"],
        settings: &["sysctl.vm.legacy_va_layout", "env.GLIBC_TUNABLES", "env.LD_PRELOAD"],
        help: "The mapping is as long as before, but its address (or its address less the file offset) is not a multiple of \
               the huge page size, so that the huge pages it could hold are fewer or none. It needs mappings of equal \
               length whose start differs modulo the huge page size, and faults by base pages in the part that lost its \
               slot. It is refuted by aligned mappings on both sides. Most often the program itself changed, not a setting.",
        event: BASE_PAGE_FAULT,
        components: OF_FAULTS,
    },
    CauseDef {
        id: "thp.fragmented",
        title: "huge pages are allowed, and the kernel finds no memory in one piece for them",
        topics: &["thp", "memory", "reclaim"],
        settings: &["sysctl.vm.compaction_proactiveness", "thp.defrag", "sysctl.vm.min_free_kbytes"],
        help: "Free memory is scattered over pieces smaller than a huge page: a fault asks for a huge page, gets none \
               and takes a base page (vmstat.thp_fault_fallback). It needs more of these and fewer huge pages than on \
               the other side. Setting thp.defrag decides how hard a fault tries.",
        event: EventCost::measured("fault without a huge page"),
        components: OF_FAULTS,
    },
    CauseDef {
        id: "thp.compaction",
        title: "faults wait for pages to be moved together for a huge page",
        topics: &["thp", "reclaim", "memory"],
        settings: &["thp.defrag", "sysctl.vm.extfrag_threshold", "sysctl.vm.compaction_proactiveness"],
        help: "With thp.defrag at always a fault that finds no huge page compacts memory itself (vmstat.compact_stall) \
               before it goes on. It needs more stalls and time in compaction. It is refuted by time that a stall \
               cannot take.",
        event: EventCost::at_most(
            "stall for compaction",
            100_000_000,
            "a pass over a zone of some GiB; the kernel gives up after COMPACT_CLUSTER_MAX pages isolated in vain, mm/compaction.c",
        ),
        components: &["run.memory.compact", "off.reclaim"],
    },
    CauseDef {
        id: "thp.clearing",
        title: "faults clear whole huge pages of which little is used",
        topics: &["thp", "faults", "memory"],
        settings: &["thp.enabled", "thp.<size>.enabled", "mm.thp_disable"],
        help: "A fault that gets a huge page clears all of it (512 base pages for each 2 MiB on x86-64) before the program \
               goes on, whatever part the program then touches. Tables with entries far apart pay for it, and allocators that give \
               memory back and take it again. It needs more time in clearing pages, more huge pages \
               (vmstat.thp_fault_alloc), and a setting that allows them on the slow side alone.",
        event: EventCost::at_most(
            "clearing of a huge page",
            4_000_000,
            "2 MiB at 0.5 GB/s, of memory that the hypervisor has yet to give; 0.1 to 0.4 ms at 5 to 20 GB/s",
        ),
        components: &["run.memory.clear", "run.memory.free"],
    },
    CauseDef {
        id: "thp.split",
        title: "huge pages are split into base pages",
        topics: &["thp", "faults", "memory"],
        settings: &["thp.khugepaged.<name>", "thp.shrink_underused"],
        help: "Unmapping, protecting or swapping a part of a huge page splits it (vmstat.thp_split_pmd, \
               vmstat.thp_split_page); khugepaged may put it together again later. It needs more splits and time in \
               splitting, in faults or in khugepaged.",
        event: EventCost::at_most(
            "split of a huge page",
            2_000_000,
            "512 entries rewritten and 512 pages given references under the lock of the page, mm/huge_memory.c; 20 to 100 us without contention",
        ),
        components: &["run.memory.split", "run.memory.khugepaged", "run.fault.", "run.space.flush"],
    },
    CauseDef {
        id: "shmem.small_pages",
        title: "shared memory or tmpfs is faulted in by base pages",
        topics: &["thp", "faults", "memory", "fs"],
        settings: &[
            "thp.shmem_enabled",
            "thp.<size>.shmem_enabled",
            "mount.<mountpoint>.options",
            "cmdline.transparent_hugepage_shmem",
        ],
        help: "thp.shmem_enabled decides for shared anonymous memory and memfd, the mount option huge= for tmpfs. It \
               needs fewer huge pages of files (vmstat.thp_file_alloc, mthp.shmem_alloc), more time in faults on \
               shared memory, and one of these settings worse.",
        event: BASE_PAGE_FAULT,
        components: &["run.fault.shared", "run.fault.entry", "run.memory.", "run.space.", "off.mmap_lock", "run.file."],
    },
    CauseDef {
        id: "dax.small_pages",
        title: "faults on a DAX file map 4 KiB at a time",
        topics: &["faults", "fs", "memory"],
        settings: &["mount.<mountpoint>.options"],
        help: "A DAX file is mapped by 2 MiB where file, mapping and blocks of the device are aligned to that, else \
               page by page. It needs more faults that got a base page of the device.",
        event: EventCost::at_most(
            "fault on a page of a DAX file",
            20_000,
            "1 to 3 us in VMs with emulated persistent memory, EXPERIMENTS 1",
        ),
        components: &["run.fault.dax", "run.fault.entry", "run.space.", "run.file.blocks"],
    },
    CauseDef {
        id: "faultaround.reduced",
        title: "faults on mapped files map fewer pages at once",
        topics: &["faults", "memory", "readahead"],
        settings: &["mm.fault_around_bytes"],
        help: "A read fault on a mapped file maps all pages of the cache within fault_around_bytes (64 KiB) at once; \
               at 4 KiB each page takes a fault of its own. It needs more faults that got a page of the cache and a \
               smaller value.",
        event: EventCost::at_most(
            "fault on a page of the cache",
            10_000,
            "0.3 to 1 us; FACTS of the lab: 2,049 against 32,769 faults",
        ),
        components: &["run.fault.file", "run.fault.entry", "run.space."],
    },
    CauseDef {
        id: "map.churn",
        title: "memory is mapped and given back again and again",
        topics: &["alloc", "faults", "memory"],
        settings: &[
            "env.MALLOC_<var>",
            "env.GLIBC_TUNABLES",
            "env.LD_PRELOAD",
            "env.TCMALLOC_<var>",
            "env.MIMALLOC_<var>",
        ],
        help: "An allocator that returns memory at once (trim, MADV_DONTNEED, mmap for each large block) has it \
               faulted in and cleared anew each time. It needs more mapping calls per unit of work and time in \
               mapping, unmapping and faults.",
        event: EventCost::measured("mapping call"),
        components: &["run.space.", "run.fault.", "run.memory.", "off.mmap_lock"],
    },
    CauseDef {
        id: "fork.copies",
        title: "pages shared after a fork are copied on the first write",
        topics: &["faults", "memory"],
        settings: &[],
        help: "fork(2) shares all memory; each page written while both processes live is copied, which takes a fault \
               and 4 KiB (or 2 MiB) of copying. It needs more such faults, and forks.",
        event: EventCost::at_most(
            "fault that copies a page",
            20_000,
            "0.5 to 3 us for 4 KiB; a huge page is split before it is copied",
        ),
        components: &[
            "run.fault.copy",
            "run.fault.entry",
            "run.memory.",
            "run.task.fork",
            "run.space.",
            "off.mmap_lock",
        ],
    },
    CauseDef {
        id: "tlb.shootdowns",
        title: "CPUs interrupt each other to drop mappings",
        topics: &["memory", "sched"],
        settings: &["sysctl.kernel.numa_balancing"],
        help: "munmap, mprotect and MADV_DONTNEED in a process whose threads run on several CPUs interrupt all of \
               these, and wait for them. It needs more interrupts of the kind TLB.",
        event: EventCost::at_most(
            "interrupt for the TLB",
            100_000,
            "2 to 10 us on hardware; in a VM the sender waits until the other virtual CPU runs",
        ),
        components: &["run.space.flush", "run.interrupt"],
    },
    CauseDef {
        id: "mmap_lock.contended",
        title: "threads wait for the lock of their address space",
        topics: &["memory", "faults", "sched"],
        settings: &["kconfig.PER_VMA_LOCK"],
        help: "mmap, munmap, mprotect and (before per-VMA locks) faults of all threads of a process take one lock. It \
               needs time waiting for it.",
        event: EventCost::measured("wait for the lock"),
        components: &["off.mmap_lock"],
    },
    CauseDef {
        id: "observed.by_others",
        title: "others hold the lock of the program's address space",
        topics: &["memory", "sched", "tracing"],
        settings: &[],
        help: "Whoever reads /proc/PID/smaps, smaps_rollup or pagemap, or writes to clear_refs, walks the page tables of the process with \
               its lock held, and so does khugepaged: mmap, munmap and faults wait meanwhile. It needs more time waiting for the lock that \
               no task of the program ended.",
        event: EventCost::measured("wait for the lock"),
        components: &["off.mmap_lock"],
    },
    CauseDef {
        id: "ksm.separated",
        title: "pages that KSM had merged are copied when written",
        topics: &["memory", "faults"],
        settings: &["mm.ksm.run", "mm.ksm.<name>"],
        help: "KSM maps equal pages to one; a write to such a page takes a fault that copies it (vmstat.cow_ksm), and \
               ksmd takes CPU time to look for equals. It needs more of these copies.",
        event: EventCost::at_most("copy of a merged page", 20_000, "as any copy on write, 0.5 to 3 us"),
        components: &["run.fault.copy", "run.fault.entry", "run.memory.", "ready.foreign"],
    },
    CauseDef {
        id: "memory.pinned",
        title: "memory is locked, and all of it faulted in at once",
        topics: &["memory", "faults", "limits"],
        settings: &["rlimit.memlock"],
        help: "mlock, mlockall and MAP_LOCKED fault in every page, used or not, and mark it unevictable \
               (vmstat.unevictable_pgs_mlocked). It needs more pages locked.",
        event: BASE_PAGE_FAULT,
        components: &["run.space.", "run.fault.", "run.memory."],
    },
    CauseDef {
        id: "numa.balancing",
        title: "NUMA balancing takes faults to see who uses which page",
        topics: &["numa", "faults"],
        settings: &["sysctl.kernel.numa_balancing"],
        help: "Balancing unmaps pages now and then; the next use takes a fault (vmstat.numa_hint_faults), and pages \
               are moved. It needs more of these faults.",
        event: EventCost::at_most("hinting fault", 50_000, "1 us, and 5 to 20 us where the page is moved"),
        components: &["run.memory.numa", "run.fault.entry", "run.space.flush"],
    },
    CauseDef {
        id: "numa.remote",
        title: "memory comes from another node than the one that uses it",
        topics: &["numa", "memory"],
        settings: &[
            "cgroup.cpuset.mems",
            "task.mems_allowed",
            "task.affinity",
            "sysctl.vm.zone_reclaim_mode",
            "sysctl.kernel.numa_balancing",
        ],
        help: "A page allocated on another node (vmstat.numa_other, vmstat.numa_miss) is slower to read; the time \
               shows in the program's own code. It needs a larger share of such pages and a setting of placement that \
               differs.",
        event: EventCost::measured("page of another node"),
        components: &["run."],
    },
];
