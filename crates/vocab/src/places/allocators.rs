//! Allocators other than glibc's, and libstdc++.

/// Names that carry their origin: the library may be linked into any program.
const ANY: &[&str] = super::ANYWHERE;
/// jemalloc as a library.
const JEMALLOC: &[&str] = &["libjemalloc.so"];
/// tcmalloc as a library.
const TCMALLOC: &[&str] = &["libtcmalloc.so", "libtcmalloc_minimal.so", "libtcmalloc_and_profiler.so"];
/// mimalloc as a library.
const MIMALLOC: &[&str] = &["libmimalloc.so", "libmimalloc-secure.so"];

pub(super) const PLACES: &[super::Place] = places! {
    ["malloc", "free", "calloc", "realloc", "je_malloc_default", "je_sdallocx_default"] in JEMALLOC
        what "jemalloc: taking and giving back memory by the thread's cache"
        by "malloc, operator new and their kin"
        set ["env.MALLOC_CONF", "env.LD_PRELOAD"]
        next "count allocations per unit of work; what misses the cache shows as je_tcache_* and je_arena_*";
    ["je_tcache_alloc_small_hard", "je_arena_cache_bin_fill_small", "je_arena_tcache_fill_small", "je_arena_malloc_hard", "je_cache_bin_fill*"] in ANY
        what "jemalloc: refilling a thread's cache from its arena"
        by "more objects of a size in use than the cache holds"
        set ["env.MALLOC_CONF"]
        next "lg_tcache_max and the size of the caches, narenas and percpu_arena govern it; see malloc_stats_print";
    ["je_tcache_bin_flush_small", "je_tcache_bin_flush_large", "je_tcache_bin_flush_stashed", "je_tcache_gc_event*", "je_tcache_event_hard"] in ANY
        what "jemalloc: returning objects from a thread's cache to the arenas that they are from"
        by "threads that free what others allocated, full caches, and their periodic cleaning"
        set ["env.MALLOC_CONF"]
        next "see which thread allocates and which frees; percpu_arena or larger caches help";
    ["je_arena_decay*", "arena_decay_*", "je_pac_decay*", "pac_decay_*", "je_pac_maybe_decay_purge", "je_arena_handle_deferred_work"] in ANY
        what "jemalloc: giving unused pages back after a time"
        by "memory that was freed and not used again within dirty_decay_ms or muzzy_decay_ms"
        set ["env.MALLOC_CONF", "thp.enabled"]
        next "count madvise and the faults that follow; a longer dirty_decay_ms or background_thread:true helps";
    ["je_pages_purge_lazy", "je_pages_purge_forced", "je_pages_map", "je_pages_unmap", "je_pages_commit", "je_pages_huge", "os_pages_map", "os_pages_unmap", "je_ehooks_default_*"] in ANY
        what "jemalloc: calls to the kernel for pages"
        by "growth, decay and extents that are returned"
        set ["env.MALLOC_CONF", "thp.enabled", "sysctl.vm.overcommit_memory"]
        next "count mmap, munmap and madvise; retain:true and a longer decay need fewer";
    ["je_extent_*", "je_ecache_*", "je_eset_*", "extent_recycle*", "je_emap_*", "je_edata_*", "je_pa_*", "je_hpa_*"] in ANY
        what "jemalloc: finding, splitting and joining runs of pages"
        by "large allocations, and new slabs for small ones"
        set ["env.MALLOC_CONF"]
        next "count allocations above the size of the thread's cache (lg_tcache_max); hpa:true changes how huge pages are used";
    ["je_malloc_mutex_lock_slow", "je_malloc_mutex_prefork", "je_arena_choose_hard", "je_arena_init"] in ANY
        what "jemalloc: waiting for the lock of an arena or of a size, or choosing an arena"
        by "more threads than arenas, and frees to others' arenas"
        set ["env.MALLOC_CONF"]
        next "see mutex statistics of malloc_stats_print; more narenas or percpu_arena spread them";
    ["je_large_malloc", "je_large_palloc", "je_large_dalloc", "je_large_ralloc", "je_large_salloc"] in ANY
        what "jemalloc: blocks too large for the classes of small ones"
        by "allocations of 16 KiB and more"
        set ["env.MALLOC_CONF"]
        next "count them by size: oversize_threshold puts the largest into an arena that gives back at once";
    ["je_prof_*", "prof_backtrace_impl", "je_prof_sample_threshold_update"] in ANY
        what "jemalloc: its own heap profiler"
        by "prof:true with sampling on"
        set ["env.MALLOC_CONF"]
        next "raise lg_prof_sample or set prof_active:false, and compare";
    ["malloc", "free", "calloc", "realloc", "tc_malloc", "tc_free", "tc_new", "tc_delete", "tcmalloc::malloc_fast_path", "tcmalloc::do_free_with_callback"] in TCMALLOC
        what "tcmalloc: taking and giving back memory by the thread's cache"
        by "malloc, operator new and their kin"
        set ["env.TCMALLOC_<var>", "env.LD_PRELOAD"]
        next "count allocations per unit of work; what misses the cache shows as CentralFreeList";
    ["tcmalloc::ThreadCache::*", "tcmalloc::tcmalloc_internal::cpu_cache_internal::*", "tcmalloc::tcmalloc_internal::ThreadCache::*"] in ANY
        what "tcmalloc: exchanging objects between a thread's or CPU's cache and the central lists"
        by "caches that are too small for what is in use, and threads that free what others allocated"
        set ["env.TCMALLOC_<var>", "tcmalloc: MallocExtension::SetMaxPerCpuCacheSize"]
        next "raise TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES (gperftools) or the per-CPU size, and compare";
    ["tcmalloc::CentralFreeList::*", "tcmalloc::tcmalloc_internal::central_freelist_internal::*", "tcmalloc::tcmalloc_internal::internal_transfer_cache::*"] in ANY
        what "tcmalloc: the central list of a size, under its lock"
        by "caches of threads that fill and empty"
        set ["env.TCMALLOC_<var>", "tcmalloc: MallocExtension::SetMaxPerCpuCacheSize"]
        next "see which threads allocate and which free the same objects";
    ["tcmalloc::PageHeap::*", "tcmalloc::tcmalloc_internal::PageHeap::*", "tcmalloc::tcmalloc_internal::huge_page_allocator_internal::*", "tcmalloc::tcmalloc_internal::HugePageFiller*", "tcmalloc::tcmalloc_internal::PageAllocator::*", "tcmalloc::tcmalloc_internal::HugePageAwareAllocator*"] in ANY
        what "tcmalloc: runs of pages, under one lock"
        by "large blocks and new spans for small ones"
        set ["env.TCMALLOC_<var>", "thp.enabled"]
        next "count large allocations, and compare free against unmapped bytes in its statistics";
    ["TCMalloc_SystemRelease", "TCMalloc_SystemAlloc", "tcmalloc::tcmalloc_internal::SystemRelease", "tcmalloc::tcmalloc_internal::SystemAlloc", "tcmalloc::tcmalloc_internal::SystemAllocator*"] in ANY
        what "tcmalloc: taking pages from the kernel and giving them back"
        by "growth, and the release of free pages at a rate"
        set ["env.TCMALLOC_<var>", "tcmalloc: MallocExtension::SetBackgroundReleaseRate"]
        next "TCMALLOC_RELEASE_RATE (gperftools) of 0 keeps all: compare faults";
    ["SpinLock::SlowLock", "SpinLock::SpinLoop", "base::internal::SpinLockDelay", "absl::base_internal::SpinLock::SlowLock", "AbslInternalSpinLockDelay"] in ANY
        what "spinning and sleeping for a lock of tcmalloc or Abseil"
        by "many threads at one list, or at another structure that uses such locks"
        set ["env.TCMALLOC_<var>", "program: number of threads"]
        next "the caller tells the lock";
    ["malloc", "free", "calloc", "realloc", "_mi_theap_malloc_zero"] in MIMALLOC
        what "mimalloc: taking and giving back memory of the thread's heap"
        by "malloc, operator new and their kin"
        set ["env.MIMALLOC_<var>", "env.LD_PRELOAD"]
        next "count allocations per unit of work; the slow way shows as _mi_malloc_generic";
    ["_mi_malloc_generic", "_mi_page_malloc*", "mi_page_fresh*", "mi_find_page*", "_mi_page_free_collect", "mi_page_queue_find_free_ex", "mi_page_extend_free", "mi_malloc", "mi_free"] in ANY
        what "mimalloc: finding a page with room for a size"
        by "the free list of the current page being empty, which happens regularly by design"
        set ["env.MIMALLOC_<var>"]
        next "count allocations by size";
    ["mi_free_block_mt", "_mi_free_delayed_block", "mi_free_block_delayed_mt", "_mi_free_generic", "mi_free_generic_mt", "_mi_heap_delayed_free*"] in ANY
        what "mimalloc: freeing a block of another thread"
        by "objects that one thread allocates and another frees"
        set ["env.MIMALLOC_<var>", "program: number of threads"]
        next "see which queue between threads carries them";
    ["_mi_segment_*", "mi_segment_*", "_mi_arena_*", "mi_arena_*", "_mi_arenas_*", "mi_arenas_*", "_mi_abandoned_*", "mi_bitmap_*", "_mi_bitmap_*"] in ANY
        what "mimalloc: taking regions for pages, and taking over those of ended threads"
        by "growth of the heap, and threads that come and go"
        set ["env.MIMALLOC_<var>"]
        next "see MIMALLOC_SHOW_STATS=1; keep threads instead of starting new ones";
    ["_mi_os_*", "mi_os_*", "_mi_prim_*", "unix_mmap", "unix_mmap_prim"] in ANY
        what "mimalloc: taking memory from the kernel, giving it back, resetting it"
        by "growth, and pages that were unused for purge_delay"
        set ["env.MIMALLOC_<var>", "thp.enabled"]
        next "a longer MIMALLOC_PURGE_DELAY, or MIMALLOC_ALLOW_LARGE_OS_PAGES=1: compare faults";
    ["operator new", "operator new[]", "operator delete", "operator delete[]", "_Znwm", "_ZdlPv", "_ZdlPvm"] in ANY
        what "C++ objects on the heap: it calls the allocator"
        by "containers, strings, and objects that are made one by one"
        set ["env.LD_PRELOAD", "env.GLIBC_TUNABLES", "env.MALLOC_CONF"]
        next "see the caller: reserve, pools and values in place of pointers need fewer";
    ["std::__cxx11::basic_string", "std::string::*", "std::basic_string", "std::__cxx11::basic_string::*"] in ANY
        what "C++ strings: growing, copying, comparing"
        by "text that is put together piece by piece, and arguments passed by value"
        set ["program: -O2", "env.LD_PRELOAD"]
        next "see the caller; string_view and reserve leave copies out";
    ["std::_Rb_tree", "std::_Rb_tree_increment", "std::_Rb_tree_decrement", "std::_Rb_tree_insert_and_rebalance", "std::_Rb_tree_rebalance_for_erase", "std::map", "std::set"] in ANY
        what "maps and sets of C++ that are trees: each step is a cache miss in a large one"
        by "lookups and insertions"
        set ["program: container choice", "thp.enabled"]
        next "compare elements and lookups; a hash table or a sorted vector has fewer misses";
    ["std::_Hashtable", "std::_Hash_bytes", "std::_Fnv_hash_bytes", "std::__detail::_Prime_rehash_policy::*", "std::unordered_map", "std::__detail::_Map_base"] in ANY
        what "hash tables of C++, with a node for each element"
        by "lookups, insertions, and growth, which moves every node"
        set ["program: reserve", "program: container choice", "thp.enabled"]
        next "compare elements and lookups; reserve saves the growth";
    ["std::vector", "std::deque", "std::vector::*", "std::deque::*"] in ANY
        what "growing arrays and queues of C++"
        by "appending beyond the capacity, and insertions in the middle"
        set ["program: reserve", "env.LD_PRELOAD"]
        next "the template's function is in the full name; reserve saves copies";
    ["std::__introsort_loop", "std::__adjust_heap", "std::__insertion_sort", "std::__unguarded_linear_insert", "std::__merge_sort_with_buffer", "std::__move_merge", "std::sort", "std::stable_sort"] in ANY
        what "sorting in C++"
        by "std::sort and its kin"
        set ["program: comparison function", "program: -O2"]
        next "see the caller and how many elements it sorts how often";
    ["__cxa_throw", "__cxa_allocate_exception", "__cxa_begin_catch", "__gxx_personality_v0", "__cxa_rethrow"] in ANY
        what "throwing and catching exceptions of C++"
        by "errors that are reported so"
        set ["program: exceptions", "env.LD_PRELOAD"]
        next "count them per second: each takes microseconds";
    ["__dynamic_cast", "__cxxabiv1::__si_class_type_info::*", "__cxxabiv1::__vmi_class_type_info::*", "__cxxabiv1::__class_type_info::*"] in ANY
        what "asking for the class of an object, with comparisons of names"
        by "dynamic_cast in inner loops"
        set ["program: dynamic_cast", "program: -fvisibility"]
        next "see the caller; a virtual function is cheaper";
    ["std::ostream::*", "std::ostream::operator", "std::__ostream_insert", "std::basic_ostream", "std::istream::*", "std::locale::*", "std::num_put", "std::num_get", "std::basic_filebuf"] in ANY
        what "streams of C++: formatting and parsing, with a locale that is counted by atomics"
        by "iostreams in inner loops, and std::endl, which flushes"
        set ["program: std::ios::sync_with_stdio", "program: std::endl", "env.LANG"]
        next "compare write calls; a stream made for each line pays for its locale";
    ["std::_Sp_counted_base", "std::_Sp_counted_base::*", "std::__shared_count", "std::__shared_ptr"] in ANY
        what "counting owners of shared objects, by atomics"
        by "shared_ptr that is copied in inner loops or between threads"
        set ["program: shared_ptr", "program: number of threads"]
        next "pass references; the counter's cache line goes from CPU to CPU";
};
