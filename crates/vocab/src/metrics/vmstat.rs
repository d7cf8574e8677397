//! `/proc/vmstat`: names and meanings after mm/vmstat.c (`vmstat_text`) and Documentation/admin-guide/mm.

use super::Direction::{LowerIsBetter as LOW, Neutral};
use super::MetricKind::{Counter, Gauge};
use super::Unit::{Count, Kibibytes, Pages};
use super::{Direction, FieldRule, Group, Member};

/// An event counter.
const fn c(field: &'static str, direction: Direction, help: &'static str) -> Member {
    Member::new(field, Counter, Count, direction, help)
}

/// A counter of pages.
const fn p(field: &'static str, direction: Direction, help: &'static str) -> Member {
    Member::new(field, Counter, Pages, direction, help)
}

/// A level in pages.
const fn g(field: &'static str, help: &'static str) -> Member {
    Member::new(field, Gauge, Pages, Neutral, help)
}

/// `/proc/vmstat`.
pub(super) const VMSTAT: Group = Group {
    prefix: "vmstat.",
    source: "/proc/vmstat",
    instance: None,
    note: "Of the whole host, not of the target alone. Events are summed over CPUs when the file is read and are exact; \
           the nr_ levels lag by up to one second and a few hundred pages per CPU (mm/vmstat.c folds them every \
           vm.stat_interval).",
    members: MEMBERS,
    rules: RULES,
};

// One line per metric: a table is easier to check against the kernel's than wrapped calls are.
#[rustfmt::skip]
const MEMBERS: &[Member] = &[
    // Faults and allocation.
    c("pgfault", LOW, "Page faults of all processes, minor and major."),
    c("pgmajfault", LOW, "Page faults that had to read from a device."),
    c("pgreuse", Neutral, "Write faults on a private page that had only one user and was reused without a copy."),
    p("pgfree", Neutral, "Pages given back to the page allocator."),
    p("pgactivate", Neutral, "Pages moved to an active list."),
    p("pgdeactivate", Neutral, "Pages moved from an active to an inactive list."),
    p("pglazyfree", Neutral, "Pages marked by MADV_FREE."),
    p("pglazyfreed", Neutral, "Pages marked by MADV_FREE that reclaim then freed."),
    p("pgrefill", LOW, "Pages of active lists that reclaim looked at."),
    p("pgrotated", Neutral, "Pages moved to the tail of an inactive list after write-back."),
    c("oom_kill", LOW, "Processes killed for want of memory."),
    c("drop_pagecache", Neutral, "Times the page cache was dropped by hand (vm.drop_caches)."),
    c("drop_slab", Neutral, "Times the slab caches were dropped by hand (vm.drop_caches)."),
    // Transparent huge pages.
    c("thp_fault_alloc", Neutral, "Page faults answered with a huge page."),
    c("thp_fault_fallback", LOW, "Page faults that should have got a huge page and fell back to small ones; DAX counts here too."),
    c("thp_fault_fallback_charge", LOW, "Of those, the fallbacks because the memory cgroup refused the charge."),
    c("thp_collapse_alloc", Neutral, "Huge pages allocated by khugepaged or MADV_COLLAPSE to replace small ones."),
    c("thp_collapse_alloc_failed", LOW, "Such allocations that failed."),
    c("thp_file_alloc", Neutral, "Huge pages allocated for shared memory or files."),
    c("thp_file_fallback", LOW, "Shared-memory or file allocations that fell back to small pages."),
    c("thp_file_fallback_charge", LOW, "Of those, the fallbacks because the memory cgroup refused the charge."),
    c("thp_file_mapped", Neutral, "Huge pages of files or shared memory mapped by a single PMD entry."),
    c("thp_split_page", LOW, "Huge pages split into small ones."),
    c("thp_split_page_failed", Neutral, "Splits that failed, mostly because the page was pinned."),
    c("thp_deferred_split_page", Neutral, "Huge pages put on the list of those to split when memory gets short: they were unmapped in part."),
    c("thp_underused_split_page", Neutral, "Huge pages split because most of their small pages held only zeros."),
    c("thp_split_pmd", LOW, "PMD entries replaced by a table of small entries; the page itself may stay whole."),
    c("thp_split_pud", LOW, "PUD entries replaced by a table."),
    c("thp_scan_exceed_none_pte", Neutral, "Ranges khugepaged left alone: more than max_ptes_none entries were empty."),
    c("thp_scan_exceed_swap_pte", Neutral, "Ranges khugepaged left alone: more than max_ptes_swap entries were swapped out."),
    c("thp_scan_exceed_share_pte", Neutral, "Ranges khugepaged left alone: more than max_ptes_shared entries were shared."),
    c("thp_zero_page_alloc", Neutral, "Times the huge zero page was allocated."),
    c("thp_zero_page_alloc_failed", LOW, "Times the huge zero page could not be allocated."),
    c("thp_swpout", Neutral, "Huge pages swapped out whole."),
    c("thp_swpout_fallback", LOW, "Huge pages split in order to be swapped out."),
    c("thp_migration_success", Neutral, "Huge pages migrated whole."),
    c("thp_migration_fail", LOW, "Huge pages that could not be migrated."),
    c("thp_migration_split", LOW, "Huge pages split in order to be migrated."),
    g("nr_anon_transparent_hugepages", "Anonymous memory in huge pages mapped whole; vmstat counts huge pages here, one for each.").huge(),
    g("nr_shmem_hugepages", "Shared memory in huge pages, one for each huge page.").huge(),
    g("nr_shmem_pmdmapped", "Shared memory mapped by PMD entries, one for each huge page.").huge(),
    g("nr_file_hugepages", "Page cache in huge pages, one for each huge page.").huge(),
    g("nr_file_pmdmapped", "Page cache mapped by PMD entries, one for each huge page.").huge(),
    // hugetlb.
    c("htlb_buddy_alloc_success", Neutral, "hugetlb pages got from the page allocator (pool growth and surplus)."),
    c("htlb_buddy_alloc_fail", LOW, "hugetlb pages the page allocator could not give."),
    g("nr_hugetlb", "hugetlb pages in use, counted in base pages."),
    // Compaction.
    c("compact_stall", LOW, "Times a task had to compact memory itself to get a large page."),
    c("compact_fail", LOW, "Of those, the times it did not help."),
    c("compact_success", Neutral, "Of those, the times it helped."),
    p("compact_migrate_scanned", LOW, "Pages looked at as candidates to move."),
    p("compact_free_scanned", LOW, "Pages looked at as places to move to."),
    p("compact_isolated", Neutral, "Pages taken off the lists by compaction."),
    c("compact_daemon_wake", LOW, "Times kcompactd was woken."),
    p("compact_daemon_migrate_scanned", LOW, "Pages kcompactd looked at as candidates to move."),
    p("compact_daemon_free_scanned", LOW, "Pages kcompactd looked at as places to move to."),
    c("pgmigrate_success", Neutral, "Pages migrated."),
    c("pgmigrate_fail", LOW, "Pages that could not be migrated."),
    // Reclaim.
    p("pgscan_kswapd", LOW, "Pages looked at by kswapd."),
    p("pgscan_direct", LOW, "Pages looked at by tasks that had to reclaim memory themselves."),
    p("pgscan_khugepaged", LOW, "Pages looked at by khugepaged's reclaim."),
    p("pgscan_proactive", LOW, "Pages looked at because user space asked (memory.reclaim)."),
    c("pgscan_direct_throttle", LOW, "Times a reclaiming task was made to wait for kswapd."),
    p("pgscan_anon", LOW, "Anonymous pages looked at by reclaim."),
    p("pgscan_file", LOW, "File pages looked at by reclaim."),
    p("pgsteal_kswapd", LOW, "Pages reclaimed by kswapd."),
    p("pgsteal_direct", LOW, "Pages reclaimed by tasks that had to do it themselves."),
    p("pgsteal_khugepaged", LOW, "Pages reclaimed by khugepaged's reclaim."),
    p("pgsteal_proactive", LOW, "Pages reclaimed because user space asked (memory.reclaim)."),
    p("pgsteal_anon", LOW, "Anonymous pages reclaimed."),
    p("pgsteal_file", LOW, "File pages reclaimed."),
    c("pginodesteal", LOW, "Pages freed because their inode was reclaimed, by tasks."),
    c("kswapd_inodesteal", LOW, "Pages freed because their inode was reclaimed, by kswapd."),
    c("slabs_scanned", LOW, "Slab objects that shrinkers looked at."),
    c("kswapd_low_wmark_hit_quickly", LOW, "Times kswapd was needed again soon after reaching the low mark."),
    c("kswapd_high_wmark_hit_quickly", LOW, "Times kswapd was needed again soon after reaching the high mark."),
    c("pageoutrun", LOW, "Runs of kswapd."),
    c("zone_reclaim_success", Neutral, "Node-local reclaims that freed enough."),
    c("zone_reclaim_failed", LOW, "Node-local reclaims that did not."),
    // The cache's working set.
    p("workingset_refault_anon", LOW, "Anonymous pages that came back after having been reclaimed."),
    p("workingset_refault_file", LOW, "File pages that came back after having been reclaimed."),
    p("workingset_activate_anon", LOW, "Of the anonymous ones, those that came back so soon that they were made active."),
    p("workingset_activate_file", LOW, "Of the file pages, those that came back so soon that they were made active."),
    p("workingset_restore_anon", LOW, "Of the anonymous ones, those that had been part of the working set."),
    p("workingset_restore_file", LOW, "Of the file pages, those that had been part of the working set."),
    c("workingset_nodereclaim", Neutral, "Shadow nodes of the page cache reclaimed."),
    Member::new("workingset_nodes", Gauge, Count, Neutral, "Page-cache tree nodes that hold shadows of reclaimed pages."),
    // Swap and paging. pgpgin and pgpgout are sectors halved: mm/vmstat.c.
    p("pswpin", LOW, "Pages swapped in."),
    p("pswpout", LOW, "Pages swapped out."),
    p("swap_ra", Neutral, "Pages read ahead from swap."),
    p("swap_ra_hit", Neutral, "Pages read ahead from swap that were then used."),
    p("zswpin", LOW, "Pages brought back from zswap."),
    p("zswpout", LOW, "Pages compressed into zswap."),
    p("zswpwb", LOW, "Pages written from zswap to the swap device."),
    Member::new("pgpgin", Counter, Kibibytes, Neutral, "Data read from block devices.").self_inflicted(),
    Member::new("pgpgout", Counter, Kibibytes, Neutral, "Data written to block devices.").self_inflicted(),
    // NUMA.
    p("numa_hit", Neutral, "Pages allocated on the node that was asked for."),
    p("numa_miss", LOW, "Pages allocated on a node although another was asked for."),
    p("numa_foreign", LOW, "Pages asked of a node and allocated on another."),
    p("numa_interleave", Neutral, "Pages placed as an interleave policy wanted."),
    p("numa_local", Neutral, "Pages allocated on the node of the running CPU."),
    p("numa_other", LOW, "Pages allocated on another node than the running CPU's."),
    c("numa_pte_updates", LOW, "Page-table entries made to fault by NUMA balancing."),
    c("numa_huge_pte_updates", LOW, "Huge entries made to fault by NUMA balancing."),
    c("numa_hint_faults", LOW, "Faults that NUMA balancing provoked."),
    c("numa_hint_faults_local", LOW, "Of those, the faults on memory of the running CPU's node."),
    p("numa_pages_migrated", LOW, "Pages that NUMA balancing moved."),
    // Counters that the kernel names like levels.
    p("nr_dirtied", Neutral, "Pages made dirty since boot.").self_inflicted(),
    p("nr_written", Neutral, "Dirty pages written back since boot.").self_inflicted(),
    p("nr_throttled_written", LOW, "Pages written back while reclaim waited for it."),
    p("nr_vmscan_write", LOW, "Pages that reclaim itself wrote."),
    p("nr_vmscan_immediate_reclaim", LOW, "Pages marked for reclaim as soon as their write-back ends."),
    p("nr_foll_pin_acquired", Neutral, "Pages pinned for device access."),
    p("nr_foll_pin_released", Neutral, "Pins for device access given back."),
    // Levels.
    g("nr_free_pages", "Free pages."),
    g("nr_free_pages_blocks", "Free pages in whole free page blocks (2 MiB on x86): what huge pages can be had from without compaction."),
    g("nr_dirty", "Dirty pages waiting for write-back.").self_inflicted(),
    g("nr_writeback", "Pages under write-back.").self_inflicted(),
    g("nr_zone_write_pending", "Pages dirty or under write-back.").self_inflicted(),
    g("nr_mapped", "Pages of files mapped into processes."),
    g("nr_anon_pages", "Anonymous pages mapped into processes."),
    g("nr_file_pages", "Pages in the page cache."),
    g("nr_page_table_pages", "Pages used for page tables."),
    g("nr_shmem", "Pages of shared memory and tmpfs."),
    g("nr_slab_reclaimable", "Slab pages that can be reclaimed."),
    g("nr_slab_unreclaimable", "Slab pages that cannot be reclaimed."),
    Member::new("nr_kernel_stack", Gauge, Kibibytes, Neutral, "Memory in kernel stacks, in KiB although the file says nr."),
    Member::new("nr_shadow_call_stack", Gauge, Kibibytes, Neutral, "Memory in shadow call stacks, in KiB although the file says nr."),
    g("nr_dirty_threshold", "Dirty pages at which writers are throttled; follows free memory.").always_moves(),
    g("nr_dirty_background_threshold", "Dirty pages at which write-back begins; follows free memory.").always_moves(),
    // x86 direct map.
    c("direct_map_level2_splits", LOW, "2 MiB entries of the kernel's direct map split into 4 KiB ones."),
    c("direct_map_level3_splits", LOW, "1 GiB entries of the kernel's direct map split."),
    c("direct_map_level2_collapses", Neutral, "2 MiB entries of the kernel's direct map put together again."),
    c("direct_map_level3_collapses", Neutral, "1 GiB entries of the kernel's direct map put together again."),
];

#[rustfmt::skip]
const RULES: &[FieldRule] = &[
    FieldRule::new("nr_tlb_", "", Counter, Count, LOW, "TLB flushes of one sort (kernels with CONFIG_DEBUG_TLBFLUSH)."),
    FieldRule::new("nr_", "", Gauge, Pages, Neutral, "A level in pages, named by the kernel."),
    FieldRule::new("thp_", "", Counter, Count, Neutral, "Transparent huge page events of one sort."),
    FieldRule::new("pgscan", "", Counter, Pages, LOW, "Pages looked at by reclaim of one sort."),
    FieldRule::new("pgsteal", "", Counter, Pages, LOW, "Pages reclaimed by reclaim of one sort."),
    FieldRule::new("pgalloc_", "", Counter, Pages, Neutral, "Pages allocated from one zone."),
    FieldRule::new("allocstall", "", Counter, Count, LOW, "Allocations that had to reclaim memory first, of one zone."),
    FieldRule::new("pgskip_", "", Counter, Pages, LOW, "Pages that reclaim passed over as being of the wrong zone."),
    FieldRule::new("pgdemote_", "", Counter, Pages, LOW, "Pages moved to slower memory."),
    FieldRule::new("pgpromote_", "", Counter, Pages, Neutral, "Pages moved to faster memory, or candidates for it."),
    FieldRule::new("workingset_", "", Counter, Pages, LOW, "Returns of reclaimed pages of one sort."),
    FieldRule::new("compact_", "", Counter, Count, LOW, "Compaction events of one sort."),
    FieldRule::new("htlb_", "", Counter, Count, Neutral, "hugetlb events of one sort."),
    FieldRule::new("numa_", "", Counter, Count, LOW, "NUMA events of one sort."),
    FieldRule::new("vma_lock_", "", Counter, Count, Neutral, "Faults under the per-VMA lock, by outcome (CONFIG_PER_VMA_LOCK_STATS)."),
    FieldRule::new("", "", Counter, Count, Neutral, "A counter that the kernel names and pagelab has no words for yet."),
];
