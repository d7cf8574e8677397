//! Address spaces: mapping, unmapping, protection, their lock, and TLB flushes.

pub(super) const PLACES: &[super::Place] = places! {
    ["do_mmap", "mmap_region", "__mmap_region", "vm_mmap_pgoff"]
        what "making a mapping"
        by "mmap, and loading programs and libraries"
        set ["sysctl.vm.max_map_count", "sysctl.vm.overcommit_memory", "env.MALLOC_MMAP_THRESHOLD_"]
        next "count mmap and munmap calls: an allocator that maps each large block pays for calls, faults and clearing";
    ["do_brk_flags", "__do_sys_brk"]
        what "growing or shrinking the heap"
        by "brk, which glibc's malloc calls when its main arena is full, or gives memory back"
        set ["env.MALLOC_TOP_PAD_", "env.MALLOC_TRIM_THRESHOLD_", "env.GLIBC_TUNABLES"]
        next "count the calls; a larger top_pad and trim_threshold make them rare";
    ["do_vmi_munmap", "do_vmi_align_munmap", "do_mas_align_munmap", "__vm_munmap", "vms_complete_munmap_vmas", "vms_gather_munmap_vmas"]
        what "taking a mapping out of the address space"
        by "munmap, mmap over an old mapping, mremap, and shrinking the heap"
        set ["env.MALLOC_MMAP_THRESHOLD_", "env.MALLOC_TRIM_THRESHOLD_", "env.MALLOC_CONF"]
        next "see what is unmapped and made again: each round costs faults and TLB flushes";
    ["unmap_vmas", "unmap_page_range", "zap_pte_range", "zap_page_range_single", "zap_page_range_single_batched", "tlb_finish_mmu", "tlb_flush_mmu"]
        what "removing page table entries and giving their pages back"
        by "munmap, MADV_DONTNEED, truncate of mapped files, and the end of a process"
        set ["thp.enabled", "env.MALLOC_TRIM_THRESHOLD_", "env.MALLOC_CONF", "env.GODEBUG"]
        next "compare how much memory is given back and touched again";
    ["free_pgtables", "free_pgd_range", "unlink_file_vma_batch_process", "unlink_anon_vmas"]
        what "giving page tables back and unhooking mappings from files and shared lists"
        by "munmap and the end of a process"
        set ["thp.enabled", "sysctl.vm.max_map_count"]
        next "many processes that map the same file share the lock of its list: see how many start and end per second";
    ["exit_mmap", "__mmput", "mmput", "exit_mm"]
        what "taking a whole address space down"
        by "the end of a process, exec, and the last thread that leaves"
        set ["thp.enabled", "hugetlb.<size>.nr_hugepages"]
        next "it grows with the process's memory in pages: compare RSS and the number of short-lived processes";
    ["mprotect_fixup", "change_protection", "change_pte_range", "do_mprotect_pkey"]
        what "changing the rights of mapped pages, entry by entry"
        by "mprotect: JIT compilers, garbage collectors, guard pages of new thread stacks"
        set ["thp.enabled", "env.GLIBC_TUNABLES", "nodejs: --jitless"]
        next "count the calls and the bytes of each; small changes split mappings and huge pages";
    ["move_page_tables", "move_vma", "mremap_to", "move_ptes", "move_huge_pmd", "do_mremap"]
        what "moving a mapping to another address by moving its page table entries"
        by "mremap, which realloc of large blocks uses"
        set ["env.MALLOC_MMAP_THRESHOLD_", "thp.enabled"]
        next "see whether a large array grows in small steps";
    ["do_madvise", "madvise_vma_behavior", "madvise_walk_vmas", "madvise_dontneed_single_vma"]
        what "advice of a program on a range of memory"
        by "madvise: allocators that give memory back, garbage collectors, databases"
        set ["env.MALLOC_CONF", "env.GODEBUG", "env.TCMALLOC_<var>", "env.MIMALLOC_<var>"]
        next "see which advice and how often; memory given back costs a fault and clearing when it is used again";
    ["madvise_free_pte_range", "madvise_free_single_vma", "madvise_free_huge_pmd"]
        what "marking pages as free to take, if the program does not write to them before"
        by "MADV_FREE: jemalloc, Go, and others"
        set ["env.MALLOC_CONF", "env.GODEBUG", "sysctl.vm.swappiness"]
        next "look at LazyFree in smaps; RSS stays high until reclaim takes the pages";
    ["madvise_cold_or_pageout_pte_range", "madvise_cold", "madvise_pageout", "reclaim_folio_list"]
        what "making pages cold or writing them out because a program asked for it"
        by "MADV_COLD and MADV_PAGEOUT, also from another process (process_madvise)"
        set ["sysctl.vm.swappiness", "mm.zswap.enabled", "cgroup.memory.swap.max"]
        next "find who calls it, and whether the pages come back soon";
    ["find_vma", "mas_walk", "mtree_load", "find_extend_vma_locked"]
        what "finding the mapping of an address"
        by "faults and memory calls"
        set ["sysctl.vm.max_map_count", "kconfig.PER_VMA_LOCK"]
        next "count the lines of /proc/PID/maps: very many mappings make each search longer";
    ["lock_vma_under_rcu", "lock_next_vma"]
        what "taking the lock of one mapping, so that the whole address space need not be locked"
        by "page faults on kernels with locks per mapping (6.4 and later)"
        set ["kconfig.PER_VMA_LOCK"]
        next "vma_lock_* in /proc/vmstat, where the kernel counts them, tells how often it fails and falls back";
    ["lock_mm_and_find_vma", "mmap_read_lock_killable"]
        what "taking the lock of the address space for a fault, and finding the mapping"
        by "faults that could not use the lock of the mapping alone, or kernels without such locks"
        set ["kconfig.PER_VMA_LOCK", "thp.enabled"]
        next "if it waits, find the thread that maps, unmaps or protects memory meanwhile";
    ["__vma_start_write", "vma_start_write", "__vma_enter_locked"]
        what "waiting until faults in a mapping are over before it is changed"
        by "munmap, mprotect, mmap and fork while other threads fault in that mapping"
        set ["kconfig.PER_VMA_LOCK", "env.MALLOC_ARENA_MAX"]
        next "see which thread changes mappings; separate arenas or fewer changes help";
    ["rwsem_down_read_slowpath", "down_read_killable", "down_read"]
        what "waiting to take a lock for reading, while somebody has it or waits for it for writing"
        by "the lock of an address space, of a file or of a directory, from several tasks"
        set ["kconfig.PER_VMA_LOCK", "kconfig.LOCK_STAT"]
        next "the caller tells which lock it is: above it stands a fault, a file system or a walk of /proc/PID";
    ["rwsem_down_write_slowpath", "down_write_killable", "down_write", "rwsem_spin_on_owner"]
        what "waiting, or spinning, to take a lock for writing"
        by "changes of one address space or one file from several tasks"
        set ["env.MALLOC_ARENA_MAX", "kconfig.LOCK_STAT"]
        next "the caller tells which lock it is; see how long its holders keep it";
    ["__split_vma", "split_vma", "vma_expand", "vma_modify", "vma_merge", "vma_merge_existing_range", "vma_merge_new_range", "vma_complete", "__vma_adjust"]
        what "splitting a mapping in two, or joining neighbours"
        by "munmap, mprotect and madvise of parts of mappings"
        set ["sysctl.vm.max_map_count", "env.MALLOC_CONF"]
        next "count the lines of /proc/PID/maps over time";
    ["anon_vma_clone", "anon_vma_fork", "__anon_vma_prepare", "vma_interval_tree_insert", "vma_interval_tree_remove"]
        what "keeping the lists by which a page finds the mappings that it is in"
        by "fork, splits of mappings, and the first touch of anonymous mappings"
        set ["sysctl.vm.max_map_count", "thp.enabled"]
        next "deep chains of forks and libraries that thousands of processes map make these lists long";
    ["do_mlock", "apply_vma_lock_flags", "mlock_fixup", "mlock_folio", "mlock_drain_local", "mlock_folio_batch", "mlock_pte_range"]
        what "locking memory into RAM"
        by "mlock, mlockall, MAP_LOCKED"
        set ["rlimit.memlock", "sysctl.vm.compact_unevictable_allowed"]
        next "with mlockall(MCL_FUTURE) every new mapping is populated at once: see whether this is wanted";
    ["arch_get_unmapped_area_topdown", "arch_get_unmapped_area", "vm_unmapped_area", "thp_get_unmapped_area_vmflags", "thp_get_unmapped_area"]
        what "searching for free room in the address space"
        by "mmap without a fixed address"
        set ["sysctl.vm.max_map_count", "sysctl.vm.legacy_va_layout", "sysctl.vm.mmap_rnd_bits"]
        next "count the lines of /proc/PID/maps and the mmap calls";
    ["flush_tlb_mm_range", "flush_tlb_func", "flush_tlb_one_user", "native_flush_tlb_one_user"]
        what "dropping entries from the TLBs of the CPUs that run this address space"
        by "munmap, mprotect, MADV_DONTNEED, copies on write, and reclaim"
        set ["env.MALLOC_TRIM_THRESHOLD_", "env.MALLOC_CONF", "thp.enabled", "cmdline.pti"]
        next "compare nr_tlb_remote_flush in /proc/vmstat where it is counted, and TLB lines in /proc/interrupts";
    ["native_flush_tlb_multi", "kvm_flush_tlb_multi", "hyperv_flush_tlb_multi", "smp_call_function_many_cond", "on_each_cpu_cond_mask", "generic_exec_single", "smp_call_function_single"]
        what "telling other CPUs by interrupt to do something, mostly to flush their TLB, and waiting for them"
        by "changes of mappings in programs whose threads run on many CPUs; also membarrier and changes of code"
        set ["task.affinity", "env.MALLOC_CONF", "cpu.smt.control"]
        next "a CPU that is slow to answer (interrupts off, or a guest's CPU that is not running) makes all wait";
    ["arch_tlbbatch_flush", "try_to_unmap_flush"]
        what "flushing TLBs once for many pages that reclaim has unmapped"
        by "reclaim and migration of mapped pages"
        set ["sysctl.vm.swappiness", "sysctl.kernel.numa_balancing"]
        next "compare pgsteal_* and pgmigrate_success in /proc/vmstat";
    ["flush_tlb_kernel_range", "__purge_vmap_area_lazy", "purge_vmap_area_lazy", "vm_unmap_aliases", "remove_vm_area", "vfree"]
        what "freeing the kernel's own mappings, for which all CPUs flush their TLBs now and then"
        by "short-lived kernel stacks of threads, BPF programs, modules, large buffers"
        set ["sysctl.net.core.bpf_jit_enable", "kconfig.VMAP_STACK"]
        next "see what makes and frees so many: threads per second, filters that are attached again and again";
    ["sysvec_call_function", "__sysvec_call_function", "__flush_smp_call_function_queue", "sysvec_call_function_single", "asm_sysvec_call_function"]
        what "answering a call of another CPU"
        by "TLB flushes and other work that one CPU asks of all"
        set ["cpu.isolated", "task.affinity"]
        next "find who calls: the sender has smp_call_function_many_cond in its stack";
    ["switch_mm_irqs_off", "load_new_mm_cr3"]
        what "changing to another address space"
        by "switches between processes, more than between threads of one"
        set ["cmdline.pti", "cmdline.mitigations", "task.affinity"]
        next "compare context switches between processes; barriers against speculation (IBPB) add to each";
};
