//! Huge pages: transparent ones, khugepaged, compaction, hugetlb.

pub(super) const PLACES: &[super::Place] = places! {
    ["khugepaged", "hpage_collapse_scan_pmd", "khugepaged_scan_pmd"]
        what "the search for small pages that could become a huge one"
        by "the kernel thread khugepaged, in rounds over memory that may have huge pages, and MADV_COLLAPSE"
        set ["thp.enabled", "thp.khugepaged.pages_to_scan", "thp.khugepaged.scan_sleep_millisecs", "thp.khugepaged.max_ptes_none"]
        next "compare thp_collapse_alloc in /proc/vmstat with the CPU time of khugepaged";
    ["collapse_huge_page"]
        what "copying small pages into a huge one while the lock of the address space is held for writing"
        by "khugepaged or MADV_COLLAPSE, for memory that did not get huge pages when it was touched"
        set ["thp.khugepaged.max_ptes_none", "thp.khugepaged.max_ptes_swap", "thp.khugepaged.max_ptes_shared", "thp.khugepaged.defrag", "thp.defrag"]
        next "see whether other threads wait for the lock of the address space at the same time";
    ["collapse_file", "hpage_collapse_scan_file", "khugepaged_scan_file"]
        what "making huge pages of the cached pages of a file or of shared memory"
        by "khugepaged or MADV_COLLAPSE on mapped files, tmpfs and memfd"
        set ["thp.shmem_enabled", "kconfig.READ_ONLY_THP_FOR_FS", "thp.khugepaged.max_ptes_none"]
        next "look at thp_file_alloc in /proc/vmstat, and whether the text of large programs is what is collapsed";
    ["madvise_collapse"]
        what "collapsing memory into huge pages because the program asked for it"
        by "madvise(MADV_COLLAPSE)"
        set ["thp.enabled", "tcmalloc: TCMALLOC_USE_COLLAPSE"]
        next "see who calls it, how often, and how many calls find nothing to do or no free huge page";
    ["__split_huge_pmd", "__split_huge_pmd_locked", "split_huge_pmd_locked"]
        what "replacing the one entry of a huge page by entries for each of its small pages"
        by "munmap, mprotect, madvise or copies on write that touch only a part of a huge page, and reclaim"
        set ["thp.enabled", "env.MALLOC_CONF", "env.GODEBUG", "thp.shrink_underused"]
        next "compare thp_split_pmd in /proc/vmstat, and look for MADV_DONTNEED of pieces below the size of a huge page";
    ["__folio_split", "split_huge_page_to_list_to_order", "split_huge_page_to_list"]
        what "breaking a huge page up into small pages"
        by "reclaim, swapping out, truncation, migration, and pages that were unmapped in part"
        set ["thp.enabled", "thp.shrink_underused", "sysctl.vm.swappiness"]
        next "look at thp_split_page and thp_split_page_failed in /proc/vmstat, and at who gives back parts of huge pages";
    ["deferred_split_scan", "thp_underused"]
        what "splitting huge pages whose parts are no longer mapped, or are mostly zeroes, to free memory"
        by "reclaim, when memory runs short"
        set ["thp.shrink_underused", "thp.khugepaged.max_ptes_none", "cgroup.memory.high"]
        next "look at thp_deferred_split_page and thp_underused_split_page in /proc/vmstat";
    ["__alloc_pages_direct_compact", "try_to_compact_pages"]
        what "moving pages about in the faulting task itself so that a huge page becomes free"
        by "allocations of huge pages while free memory is in small pieces"
        set ["thp.defrag", "thp.enabled", "sysctl.vm.defrag_mode", "sysctl.vm.extfrag_threshold", "sysctl.vm.compaction_proactiveness"]
        next "compare compact_stall and compact_fail in /proc/vmstat; thp.defrag=defer leaves the work to kcompactd";
    ["compact_zone", "kcompactd", "kcompactd_do_work", "proactive_compact_node"]
        what "compacting a zone: used pages are moved to one end, free ones are left at the other"
        by "allocations of many pages in one piece, and kcompactd in the background"
        set ["sysctl.vm.compaction_proactiveness", "sysctl.vm.defrag_mode", "thp.defrag", "sysctl.vm.compact_unevictable_allowed", "sysctl.vm.watermark_boost_factor"]
        next "see /proc/buddyinfo for what is free in which size, and who asks for large pieces";
    ["isolate_migratepages_block", "isolate_migratepages"]
        what "scanning memory for pages that compaction could move"
        by "compaction, most of all where many pages cannot be moved"
        set ["sysctl.vm.compact_unevictable_allowed", "sysctl.vm.extfrag_threshold", "thp.defrag"]
        next "compare compact_migrate_scanned with compact_isolated in /proc/vmstat: much scanned for little moved is wasted";
    ["isolate_freepages_block", "isolate_freepages", "compaction_alloc"]
        what "scanning memory for free pages that compaction can move others to"
        by "compaction while little memory is free"
        set ["sysctl.vm.min_free_kbytes", "sysctl.vm.watermark_scale_factor", "thp.defrag"]
        next "compare compact_free_scanned in /proc/vmstat; with more free memory the search is shorter";
    ["hugetlb_fault", "hugetlb_no_page"]
        what "a fault on hugetlb memory, without clearing the page"
        by "the first touch of a mapping with MAP_HUGETLB, of a file in hugetlbfs, or of SHM_HUGETLB memory"
        set ["hugetlb.<size>.nr_hugepages", "hugetlb.default_size", "hugetlb.<size>.nr_overcommit_hugepages"]
        next "see whether two threads fault on one page (a mutex is held per page), and whether the mapping could be populated first";
    ["hugetlb_wp", "hugetlb_cow"]
        what "copying a hugetlb page because it is written while it is shared"
        by "a write after fork to private hugetlb memory"
        set ["hugetlb.<size>.nr_hugepages", "hugetlb.<size>.nr_overcommit_hugepages"]
        next "look for fork in the program; each copy moves 2 MiB or 1 GiB and needs a free page of the pool";
    ["alloc_hugetlb_folio", "alloc_huge_page", "hugetlb_reserve_pages", "hugetlb_acct_memory"]
        what "taking pages from the pool of huge pages, or promising them to a mapping"
        by "mmap of hugetlb memory and its first touches"
        set ["hugetlb.<size>.nr_hugepages", "hugetlb.<size>.nr_overcommit_hugepages", "cgroup.hugetlb.<size>.max"]
        next "look at free_hugepages and resv_hugepages of the pool";
    ["alloc_surplus_hugetlb_folio", "alloc_surplus_huge_page", "only_alloc_fresh_hugetlb_folio", "alloc_buddy_hugetlb_folio", "alloc_buddy_huge_page", "alloc_fresh_huge_page"]
        what "making a new huge page for the pool out of free memory"
        by "growing nr_hugepages, or taking more pages than the pool has where surplus pages are allowed"
        set ["hugetlb.<size>.nr_overcommit_hugepages", "hugetlb.<size>.nr_hugepages", "sysctl.vm.hugetlb_optimize_vmemmap"]
        next "reserve the pool at boot (cmdline.hugepages.<size>), before memory is in small pieces";
    ["hugetlb_vmemmap_optimize_folio", "hugetlb_vmemmap_optimize", "hugetlb_vmemmap_restore_folio", "hugetlb_vmemmap_restore", "vmemmap_remap_range"]
        what "giving back, or making again, the kernel's descriptors of the small pages of a huge page"
        by "huge pages that enter or leave the pool while this saving is on"
        set ["sysctl.vm.hugetlb_optimize_vmemmap", "cmdline.hugetlb_free_vmemmap", "kconfig.HUGETLB_PAGE_OPTIMIZE_VMEMMAP_DEFAULT_ON"]
        next "see whether surplus pages come and go while the program runs; a fixed pool pays once";
    ["__unmap_hugepage_range", "copy_hugetlb_page_range", "hugetlb_change_protection"]
        what "walking hugetlb mappings for munmap, fork or mprotect"
        by "those calls on hugetlb memory, and the end of a process that has it"
        set ["hugetlb.<size>.nr_hugepages", "hugetlb.default_size"]
        next "compare how much memory is in such mappings, and how often the program forks";
};
