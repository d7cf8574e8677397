//! Reclaim and memory cgroups.

pub(super) const PLACES: &[super::Place] = places! {
    ["try_to_free_pages", "__alloc_pages_slowpath"]
        what "freeing memory in the task that asked for it, before it may go on"
        by "allocations while free memory is below the low mark and kswapd does not keep up"
        set ["sysctl.vm.min_free_kbytes", "sysctl.vm.watermark_scale_factor", "sysctl.vm.swappiness", "cgroup.memory.max"]
        next "compare allocstall_* and pgscan_direct with pgscan_kswapd in /proc/vmstat; a larger watermark_scale_factor wakes kswapd earlier";
    ["try_to_free_mem_cgroup_pages"]
        what "freeing memory of one memory cgroup because it has reached a limit"
        by "charges above memory.max or memory.high, writes to memory.reclaim, and lowered limits"
        set ["cgroup.memory.max", "cgroup.memory.high", "cgroup.memory.swap.max", "cgroup.memory.swappiness"]
        next "look at max and high in the cgroup's memory.events, and at the page cache in its memory.stat";
    ["__mem_cgroup_handle_over_high", "mem_cgroup_handle_over_high"]
        what "a delay that the kernel puts on a task whose cgroup is above memory.high"
        by "use of memory above memory.high faster than reclaim gets it below again"
        set ["cgroup.memory.high"]
        next "look at high in memory.events and raise the limit, or cut the working set";
    ["kswapd", "balance_pgdat"]
        what "freeing memory in the background, in the kernel thread of a node"
        by "free memory of a node below its low mark"
        set ["sysctl.vm.watermark_scale_factor", "sysctl.vm.min_free_kbytes", "sysctl.vm.watermark_boost_factor", "sysctl.vm.swappiness"]
        next "compare pgsteal_kswapd with pgscan_kswapd in /proc/vmstat: a low share says that pages are in use or dirty";
    ["shrink_node", "shrink_lruvec", "shrink_one", "shrink_many"]
        what "choosing which lists of a node and cgroup are reclaimed from, and how much"
        by "reclaim, whether by kswapd, by the allocating task or for a cgroup's limit"
        set ["sysctl.vm.swappiness", "mm.lru_gen.enabled", "cgroup.memory.low", "cgroup.memory.min"]
        next "compare anonymous and file pages scanned (pgscan_anon, pgscan_file in /proc/vmstat)";
    ["shrink_folio_list", "shrink_page_list", "shrink_inactive_list"]
        what "looking at single pages: is it in use, dirty, mapped; and freeing those that are not"
        by "reclaim that has chosen pages of the lists"
        set ["sysctl.vm.swappiness", "mm.lru_gen.enabled", "sysctl.vm.dirty_background_bytes"]
        next "look below it: unmapping, swapping out, waiting for write-back; each points elsewhere";
    ["shrink_active_list"]
        what "moving pages from the list of those in use to that of those that may go"
        by "reclaim without the multi-generational LRU, when the inactive lists are short"
        set ["mm.lru_gen.enabled", "sysctl.vm.swappiness"]
        next "compare workingset_refault_* in /proc/vmstat: pages that were dropped and were needed after all";
    ["evict_folios", "isolate_folios", "scan_folios", "try_to_shrink_lruvec"]
        what "taking the oldest generation of pages and reclaiming them"
        by "reclaim with the multi-generational LRU"
        set ["mm.lru_gen.enabled", "mm.lru_gen.min_ttl_ms", "sysctl.vm.swappiness"]
        next "compare workingset_refault_* in /proc/vmstat between the runs, and the working set with the memory there is";
    ["walk_mm", "walk_pud_range", "lru_gen_look_around", "try_to_inc_max_seq", "lru_gen_age_node"]
        what "reading accessed bits in page tables to learn which pages are in use"
        by "the multi-generational LRU when it opens a new generation"
        set ["mm.lru_gen.enabled", "mm.lru_gen.min_ttl_ms"]
        next "the time grows with mapped memory; compare with mm.lru_gen.enabled=0";
    ["folio_referenced", "folio_referenced_one", "folio_check_references"]
        what "asking all mappings of a page whether it was used lately"
        by "reclaim of mapped pages"
        set ["mm.lru_gen.enabled", "sysctl.vm.swappiness"]
        next "see whether many processes map the same pages (RssFile and RssShmem against Pss): each mapping is asked";
    ["try_to_unmap", "try_to_unmap_one", "rmap_walk_anon", "rmap_walk_file", "__rmap_walk_file"]
        what "taking a page out of every page table that maps it"
        by "reclaim, and pages that are poisoned or truncated"
        set ["sysctl.vm.swappiness", "mm.lru_gen.enabled", "mm.ksm.max_page_sharing"]
        next "look for TLB flushes below it and for pages that fault in again soon after (pgmajfault)";
    ["pageout"]
        what "reclaim that writes a page out by itself before it can free it"
        by "shortage of memory while most reclaimable pages are anonymous or dirty shared memory"
        set ["sysctl.vm.swappiness", "mm.zswap.enabled", "sysctl.vm.dirty_background_bytes"]
        next "look at pswpout in /proc/vmstat and at the speed of the swap device";
    ["reclaim_throttle", "throttle_direct_reclaim", "consider_reclaim_throttle"]
        what "a short sleep of a reclaiming task because reclaim makes no progress"
        by "pages under write-back, too many tasks that reclaim at once, or nothing left to free"
        set ["sysctl.vm.dirty_bytes", "sysctl.vm.dirty_background_bytes", "sysctl.vm.min_free_kbytes", "sysctl.vm.swappiness"]
        next "the tracepoint mm_vmscan_throttled says which reason; compare the device's write speed";
    ["shrink_slab", "do_shrink_slab", "shrink_slab_memcg"]
        what "asking caches of the kernel (names, inodes, extents) to give memory back"
        by "reclaim, in step with what it takes from the page lists"
        set ["sysctl.vm.vfs_cache_pressure", "sysctl.vm.min_slab_ratio", "sysctl.vm.drop_caches"]
        next "look at slabs_scanned in /proc/vmstat and at the largest caches in /proc/slabinfo";
    ["super_cache_scan", "prune_dcache_sb", "prune_icache_sb", "shrink_dentry_list", "inode_lru_isolate"]
        what "dropping cached names and inodes of a file system"
        by "reclaim on hosts that have looked at very many files"
        set ["sysctl.vm.vfs_cache_pressure", "sysctl.vm.vfs_cache_pressure_denom"]
        next "look at sysctl.fs.dentry-state, and for a job that walks large trees (backup, updatedb)";
    ["out_of_memory", "oom_kill_process", "mem_cgroup_out_of_memory", "mem_cgroup_oom_synchronize"]
        what "choosing and killing a process because no memory could be freed"
        by "a host or a cgroup that is out of memory"
        set ["cgroup.memory.max", "sysctl.vm.overcommit_memory", "cgroup.memory.oom.group", "sysctl.vm.oom_kill_allocating_task"]
        next "read oom_kill in memory.events and the kernel's log";
    ["node_reclaim", "__node_reclaim"]
        what "reclaiming on the local node before memory of another node is used"
        by "allocations on a full node while vm.zone_reclaim_mode is set"
        set ["sysctl.vm.zone_reclaim_mode", "sysctl.vm.min_unmapped_ratio", "sysctl.vm.min_slab_ratio"]
        next "set vm.zone_reclaim_mode=0 and compare";
    ["workingset_refault", "lru_gen_refault"]
        what "noting that a page comes back that was reclaimed a short time ago"
        by "a working set that is larger than the memory that the host or cgroup allows"
        set ["cgroup.memory.max", "cgroup.memory.high", "sysctl.vm.swappiness", "mm.lru_gen.enabled"]
        next "compare workingset_refault_file and _anon in the cgroup's memory.stat";
    ["drain_all_pages", "__drain_all_pages", "drain_pages_zone"]
        what "collecting the free pages that each CPU keeps for itself"
        by "direct reclaim that found nothing, and operations on memory blocks"
        set ["sysctl.vm.percpu_pagelist_high_fraction", "sysctl.vm.min_free_kbytes"]
        next "it is a sign of direct reclaim: look at allocstall_* first";
    ["__mem_cgroup_charge", "charge_memcg", "mem_cgroup_from_task"]
        what "accounting a new page to the memory cgroup of its task"
        by "each page that a fault, a file or the kernel takes for a task in a cgroup"
        set ["cgroup.memory.max", "cmdline.cgroup_disable", "thp.enabled"]
        next "the cost is per page: fewer and larger pages make it smaller";
    ["try_charge_memcg", "page_counter_try_charge", "page_counter_cancel", "page_counter_uncharge", "refill_stock", "drain_stock"]
        what "counting pages against the limits of a cgroup and of all above it"
        by "charges that the CPU's reserve of already counted pages does not cover"
        set ["cgroup.memory.max", "cgroup.memory.high"]
        next "see how deep the cgroup lies, and how many CPUs charge to it at the same time: they share the counters' cache lines";
    ["__css_rstat_updated", "cgroup_rstat_updated", "mod_memcg_lruvec_state", "__mod_memcg_lruvec_state", "__mod_memcg_state", "mod_memcg_state", "count_memcg_events", "__count_memcg_events"]
        what "keeping the statistics of a memory cgroup"
        by "each page or object that is charged, moved between lists or given back"
        set ["cmdline.cgroup_disable", "cgroup.memory.max"]
        next "compare with the same work outside of a memory cgroup, or with larger pages";
    ["css_rstat_flush", "cgroup_rstat_flush", "cgroup_rstat_flush_locked", "mem_cgroup_css_rstat_flush", "__mem_cgroup_flush_stats", "mem_cgroup_flush_stats", "do_flush_stats"]
        what "adding up the statistics of all CPUs for a tree of cgroups"
        by "readers of memory.stat and other files of cgroups, and reclaim"
        set ["cmdline.cgroup_disable", "kubelet: --housekeeping-interval", "cadvisor: --housekeeping_interval"]
        next "find who reads memory.stat how often; its cost grows with CPUs and with cgroups";
    ["__memcg_slab_post_alloc_hook", "memcg_slab_post_alloc_hook", "obj_cgroup_charge", "obj_cgroup_charge_pages", "obj_cgroup_charge_account", "refill_obj_stock", "drain_obj_stock"]
        what "accounting an object of the kernel to the memory cgroup that caused it"
        by "system calls that make objects: files, names, sockets, mappings, pipes"
        set ["cmdline.cgroup.memory", "cmdline.cgroup_disable"]
        next "cgroup.memory=nokmem on the command line leaves it out; compare, and look for what makes so many objects";
    ["__mem_cgroup_uncharge_folios", "__mem_cgroup_uncharge_list", "__mem_cgroup_uncharge", "uncharge_folio", "uncharge_batch"]
        what "taking freed pages off the account of their memory cgroup"
        by "unmapping, truncation and the ends of processes"
        set ["cmdline.cgroup_disable", "thp.enabled"]
        next "it goes with how much memory is freed: look for allocators that give memory back and take it again";
};
