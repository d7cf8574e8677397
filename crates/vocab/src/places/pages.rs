//! The kernel's allocators: pages, slabs, per-CPU memory; lists of pages; RCU.

pub(super) const PLACES: &[super::Place] = places! {
    ["__alloc_frozen_pages_noprof", "__alloc_pages_noprof", "__alloc_pages", "get_page_from_freelist", "rmqueue", "__rmqueue_pcplist"]
        what "taking pages from the allocator"
        by "faults, files, and the kernel's own needs"
        set ["sysctl.vm.percpu_pagelist_high_fraction", "thp.enabled", "sysctl.vm.zone_reclaim_mode", "cmdline.init_on_alloc"]
        next "compare pgalloc_* in /proc/vmstat: fewer or larger pages cost less";
    ["rmqueue_bulk", "free_pcppages_bulk", "__free_one_page", "free_one_page"]
        what "moving pages between the lists of a CPU and those of the zone, under the zone's lock"
        by "CPUs that take many pages, or give many back, at once"
        set ["sysctl.vm.percpu_pagelist_high_fraction"]
        next "spinning below it says that CPUs fight for the zone: a larger fraction makes it rarer";
    ["__rmqueue_smallest", "steal_suitable_fallback", "try_to_claim_block", "unreserve_highatomic_pageblock", "find_suitable_fallback"]
        what "taking pages from blocks that were meant for another kind of use"
        by "memory that is nearly full or fragmented"
        set ["sysctl.vm.min_free_kbytes", "sysctl.vm.watermark_boost_factor", "sysctl.vm.defrag_mode"]
        next "read /proc/pagetypeinfo; it makes later huge pages harder to get";
    ["free_frozen_pages", "free_unref_page", "free_unref_folios", "free_unref_page_list", "__free_frozen_pages", "__free_pages"]
        what "giving pages back to the allocator"
        by "munmap, truncate, ends of processes, freed buffers"
        set ["cmdline.init_on_free", "sysctl.vm.percpu_pagelist_high_fraction", "env.MALLOC_TRIM_THRESHOLD_"]
        next "compare pgfree in /proc/vmstat; see who gives memory back that is needed again";
    ["folios_put_refs", "release_pages", "__folio_put", "free_pages_and_swap_cache", "free_folio_and_swap_cache"]
        what "dropping references to many pages and freeing those that nobody uses"
        by "unmapping, ends of I/O, dropped caches"
        set ["env.MALLOC_TRIM_THRESHOLD_", "thp.enabled"]
        next "see the caller: the amount of memory that is given back decides";
    ["kernel_init_pages", "post_alloc_hook", "prep_new_page"]
        what "preparing taken pages: zeroing, checks, debugging"
        by "each allocation, dearer with hardening or debugging on"
        set ["cmdline.init_on_alloc", "kconfig.INIT_ON_ALLOC_DEFAULT_ON", "kconfig.DEBUG_PAGEALLOC", "kconfig.PAGE_POISONING"]
        next "compare these options between the kernels";
    ["folio_batch_move_lru", "__folio_batch_add_and_move", "pagevec_lru_move_fn", "folio_add_lru", "lru_add_drain_cpu", "lru_add"]
        what "putting pages on the lists that reclaim works on, in batches"
        by "new pages of programs and files"
        set ["mm.lru_gen.enabled", "cgroup.memory.max", "thp.enabled"]
        next "spinning below it is for the list's lock, one for each cgroup and node: larger pages need fewer entries";
    ["lru_add_drain_all", "__lru_add_drain_all", "lru_add_drain_per_cpu"]
        what "asking every CPU to empty its batches, and waiting for all"
        by "mlock, migration, compaction, memory hotplug, POSIX_FADV_DONTNEED, and pinning for long"
        set ["cpu.isolated", "cmdline.isolcpus"]
        next "one busy real-time CPU makes all wait; find who calls it so often";
    ["lock_page_lruvec_irqsave", "folio_lruvec_lock_irqsave", "folio_lruvec_lock_irq", "folio_lruvec_lock"]
        what "taking the lock of a cgroup's page lists"
        by "many CPUs that add, free or move pages of one cgroup and node"
        set ["thp.enabled", "mm.lru_gen.enabled", "cgroup.memory.max"]
        next "larger pages or several cgroups spread it";
    ["kmem_cache_alloc_noprof", "kmem_cache_alloc", "kmem_cache_alloc_lru_noprof", "kmem_cache_alloc_lru", "kmem_cache_alloc_node_noprof", "__kmalloc_noprof", "__kmalloc", "__kmalloc_cache_noprof", "__kmalloc_node_noprof"]
        what "taking a small object of the kernel"
        by "system calls that make objects: files, names, mappings, requests, packets"
        set ["kconfig.SLUB_DEBUG_ON", "cmdline.slub_debug", "cmdline.init_on_alloc"]
        next "the caller tells which object; compare /proc/slabinfo";
    ["___slab_alloc", "__slab_alloc", "get_partial_node", "allocate_slab", "new_slab", "get_any_partial"]
        what "refilling a CPU's store of objects"
        by "bursts of allocations, and objects freed on other CPUs than they were taken on"
        set ["kconfig.SLUB_CPU_PARTIAL", "slub: cpu_partial", "kconfig.SLUB_DEBUG_ON"]
        next "spinning below it is for the node's list; see which cache it is by the caller";
    ["kmem_cache_free", "kfree", "__kmem_cache_free", "__slab_free", "kmem_cache_free_bulk", "free_to_partial_list", "put_cpu_partial", "__put_partials"]
        what "giving a small object back"
        by "ends of system calls, RCU callbacks"
        set ["kconfig.SLUB_DEBUG_ON", "kconfig.SLUB_CPU_PARTIAL", "cmdline.init_on_free"]
        next "objects freed on another CPU take the slow way: see who frees what others took";
    ["__pcs_replace_empty_main", "__pcs_replace_full_main", "refill_sheaf", "alloc_from_pcs", "free_to_pcs_bulk", "barn_replace_empty_sheaf"]
        what "exchanging a CPU's batch of objects (a sheaf) for a full or empty one"
        by "caches of objects that use sheaves (6.18 and later)"
        set ["cmdline.slab_nomerge", "kconfig.SLUB_DEBUG_ON"]
        next "compare with the same work on the older kernel: this replaced other slow ways";
    ["pcpu_alloc_noprof", "pcpu_alloc", "pcpu_alloc_area", "pcpu_balance_workfn", "free_percpu"]
        what "memory that every CPU has a copy of"
        by "making cgroups, network namespaces, mounts, processes and BPF maps"
        set ["cmdline.percpu_alloc", "sysctl.kernel.threads-max", "cgroup.pids.max"]
        next "count containers or processes that start per second: a mutex is shared by all";
    ["synchronize_rcu", "synchronize_rcu_normal", "__wait_rcu_gp", "rcu_sync_enter"]
        what "waiting until every CPU has left what it was reading: a grace period"
        by "changes that are rare by design: mounts, namespaces, BPF, cgroups, timers of aio, closing sockets of some kinds"
        set ["cmdline.rcupdate.rcu_expedited", "kconfig.HZ", "cmdline.rcu_nocbs"]
        next "tens of milliseconds each: see which call, and whether it is made in a loop";
    ["synchronize_rcu_expedited", "exp_funnel_lock", "wait_rcu_exp_gp", "__rcu_exp_sel_wait_wake", "sync_rcu_exp_select_cpus"]
        what "a grace period that is forced by interrupts to all CPUs"
        by "code that cannot wait for a normal one: network devices, membarrier, device mapper"
        set ["cmdline.rcupdate.rcu_normal", "cmdline.rcupdate.rcu_expedited"]
        next "it disturbs every CPU: find who calls it how often";
    ["synchronize_srcu", "__synchronize_srcu", "rcu_barrier", "srcu_gp_start_if_needed"]
        what "waiting for readers of one subsystem, or for callbacks that are queued"
        by "fsnotify marks, KVM, MMU notifiers, umount, module unloading"
        set ["cmdline.rcupdate.rcu_expedited", "kconfig.HZ"]
        next "the caller tells the subsystem";
    ["rcu_do_batch", "rcu_core", "rcu_nocb_cb_kthread", "kfree_rcu_work", "kfree_rcu_monitor", "kvfree_rcu_bulk"]
        what "freeing what was put off until nobody reads it any more"
        by "closed files, dropped names, unmapped regions, network objects"
        set ["cmdline.rcu_nocbs", "cmdline.rcutree.blimit", "cmdline.nohz_full"]
        next "the callback below it tells which object; bursts follow mass deletes and exits";
    ["call_rcu", "__call_rcu_common", "kvfree_call_rcu", "rcu_gp_kthread", "rcu_note_context_switch"]
        what "keeping account of grace periods, and queueing what waits for them"
        by "each freed object that readers may still see, and each switch of tasks"
        set ["cmdline.rcu_nocbs", "kconfig.HZ"]
        next "see by the caller which objects are freed";
};
