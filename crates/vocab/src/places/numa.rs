//! Placement of pages: NUMA balancing, migration, tiering, KSM.

pub(super) const PLACES: &[super::Place] = places! {
    ["task_numa_work", "change_prot_numa", "task_numa_placement", "task_numa_fault"]
        what "marking memory so that its next use shows which node uses it, and keeping account of that"
        by "NUMA balancing, in the running task itself"
        set ["sysctl.kernel.numa_balancing", "cmdline.numa_balancing"]
        next "compare numa_pte_updates and numa_hint_faults in /proc/vmstat; with pinned threads and memory turn it off";
    ["do_numa_page", "do_huge_pmd_numa_page"]
        what "a fault that NUMA balancing brought about to see who uses a page"
        by "the first use of a page after it was marked"
        set ["sysctl.kernel.numa_balancing", "task.mems_allowed", "task.affinity"]
        next "compare numa_hint_faults_local with numa_hint_faults in /proc/vmstat";
    ["migrate_misplaced_folio", "migrate_misplaced_page", "should_numa_migrate_memory", "mpol_misplaced", "numamigrate_isolate_folio", "migrate_misplaced_folio_prepare"]
        what "moving a page to the node that uses it"
        by "NUMA balancing that found remote use"
        set ["sysctl.kernel.numa_balancing", "sysctl.kernel.numa_balancing_promote_rate_limit_MBps", "task.mems_allowed"]
        next "compare numa_pages_migrated in /proc/vmstat: pages that go back and forth are shared by nodes, so interleave them";
    ["task_numa_migrate", "task_numa_find_cpu", "numa_migrate_preferred"]
        what "looking for a CPU near the memory of a task"
        by "NUMA balancing that would rather move the task than its memory"
        set ["sysctl.kernel.numa_balancing", "task.affinity", "cgroup.cpuset.cpus"]
        next "see whether threads move between nodes during the run";
    ["migrate_pages", "migrate_pages_batch", "migrate_folio_move", "migrate_folio_unmap", "unmap_and_move", "remove_migration_pte"]
        what "moving pages: unmapping, copying, mapping again"
        by "compaction, NUMA balancing, move_pages, changes of cpusets, memory that goes offline"
        set ["sysctl.kernel.numa_balancing", "thp.defrag", "sysctl.vm.compaction_proactiveness", "cgroup.cpuset.mems"]
        next "the caller tells why; compare pgmigrate_success and pgmigrate_fail in /proc/vmstat";
    ["migration_entry_wait", "migration_entry_wait_on_locked", "pmd_migration_entry_wait"]
        what "waiting until a page that is being moved has arrived"
        by "a touch of a page during its migration"
        set ["sysctl.kernel.numa_balancing", "thp.defrag", "sysctl.vm.compaction_proactiveness"]
        next "find what moves pages meanwhile: compaction or NUMA balancing";
    ["folio_migrate_copy", "folio_mc_copy", "folio_copy", "copy_highpage"]
        what "the copy of a page's contents to its new place"
        by "migration"
        set ["sysctl.kernel.numa_balancing", "thp.enabled"]
        next "compare bytes moved per second with the bandwidth between nodes";
    ["do_pages_move", "do_move_pages_to_node", "move_pages_and_store_status", "kernel_move_pages", "do_migrate_pages", "do_mbind", "migrate_to_node"]
        what "moving pages between nodes on request"
        by "move_pages, migrate_pages, mbind with MPOL_MF_MOVE, and cpusets with memory_migrate"
        set ["cgroup.cpuset.mems", "task.mems_allowed", "numactl: --membind"]
        next "find who calls; placing memory at its first touch needs no moves";
    ["demote_folio_list", "alloc_demote_folio", "alloc_migrate_folio"]
        what "moving cold pages to a slower node in place of dropping or swapping them"
        by "reclaim on hosts with tiers of memory"
        set ["mm.numa.demotion_enabled", "sysctl.kernel.numa_balancing", "sysctl.vm.swappiness"]
        next "compare pgdemote_* with pgpromote_success in /proc/vmstat: both high is thrashing between tiers";
    ["ksm_scan_thread", "ksm_do_scan", "scan_get_next_rmap_item", "cmp_and_merge_page"]
        what "looking for equal pages"
        by "the kernel thread ksmd, over memory that was marked as mergeable"
        set ["mm.ksm.run", "mm.ksm.pages_to_scan", "mm.ksm.sleep_millisecs", "mm.ksm.advisor_mode", "mm.ksm.smart_scan"]
        next "compare mm.ksm.general_profit with the CPU time of ksmd";
    ["stable_tree_search", "unstable_tree_search_insert", "memcmp_pages", "calc_checksum"]
        what "comparing pages with those that are known"
        by "KSM"
        set ["mm.ksm.pages_to_scan", "mm.ksm.max_page_sharing", "mm.ksm.merge_across_nodes", "mm.ksm.use_zero_pages"]
        next "compare pages_volatile and pages_unshared with pages_sharing: contents that change are compared for nothing";
    ["try_to_merge_with_ksm_page", "try_to_merge_one_page", "write_protect_page", "replace_page"]
        what "merging two equal pages into one that is read-only"
        by "KSM that has found a pair"
        set ["mm.ksm.run", "mm.ksm.max_page_sharing"]
        next "look for pages that are merged and written again: ksm_swpin_copy and cow_ksm in /proc/vmstat";
    ["break_ksm", "unmerge_ksm_pages", "unmerge_and_remove_all_rmap_items", "ksm_might_need_to_copy"]
        what "giving every user of a merged page its own again"
        by "writes to mm.ksm.run, MADV_UNMERGEABLE, and pages that come back from swap"
        set ["mm.ksm.run"]
        next "see who switches KSM off, and whether memory suffices for the copies";
};
