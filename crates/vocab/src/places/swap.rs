//! Swap, zswap, zram.

pub(super) const PLACES: &[super::Place] = places! {
    ["do_swap_page"]
        what "bringing a page back that was swapped out"
        by "a touch of memory that reclaim has written to swap"
        set ["sysctl.vm.swappiness", "cgroup.memory.max", "cgroup.memory.swap.max", "sysctl.vm.page-cluster"]
        next "compare pswpin and pswpout in /proc/vmstat, and VmSwap of the processes";
    ["swap_read_folio", "swap_readpage", "swap_read_folio_bdev_sync", "swap_readpage_bdev_sync"]
        what "reading one page from the swap device"
        by "faults on swapped memory, and read-ahead of swap"
        set ["mm.swaps", "mm.zswap.enabled", "sysctl.vm.swappiness"]
        next "see what the swap is on (mm.swaps) and how long a read takes there";
    ["swapin_readahead", "swap_cluster_readahead", "swap_vma_readahead", "read_swap_cache_async"]
        what "reading neighbours of a swapped page along with it"
        by "faults on swapped memory where swap is on a device with read-ahead"
        set ["sysctl.vm.page-cluster", "mm.swap.vma_ra_enabled"]
        next "compare swap_ra with swap_ra_hit in /proc/vmstat; few hits ask for a smaller vm.page-cluster";
    ["swap_writeout", "swap_writepage", "__swap_writepage", "shmem_writeout", "shmem_writepage"]
        what "writing a page to swap so that its memory can be freed"
        by "reclaim of anonymous memory and of shared memory"
        set ["sysctl.vm.swappiness", "mm.zswap.enabled", "cgroup.memory.swap.max", "mm.swaps"]
        next "compare pswpout in /proc/vmstat with what the program needs, and the device's write latency";
    ["folio_alloc_swap", "get_swap_pages", "get_swap_page", "scan_swap_map_slots", "cluster_alloc_swap_entry", "add_to_swap", "swap_reclaim_full_clusters"]
        what "finding a free slot in swap"
        by "reclaim that is about to swap a page out"
        set ["mm.swaps", "sysctl.vm.swappiness", "thp.<size>.enabled"]
        next "a nearly full or fragmented swap makes the search long: compare used and total in mm.swaps";
    ["free_swap_and_cache_nr", "free_swap_and_cache", "swap_entries_free", "swap_free_nr"]
        what "giving slots in swap back"
        by "munmap, madvise or the end of a process whose memory is swapped out, and pages that came back"
        set ["mm.swaps", "sysctl.vm.swappiness"]
        next "look at VmSwap of the process that ended or unmapped";
    ["try_to_unuse", "unuse_pte_range", "shmem_unuse"]
        what "reading everything back from a swap area"
        by "swapoff"
        set ["mm.swaps"]
        next "find who called swapoff; it may take minutes and needs the memory";
    ["zswap_store", "zswap_frontswap_store", "zswap_compress"]
        what "compressing a page that is swapped out, to keep it in memory"
        by "swapping out while zswap is on"
        set ["mm.zswap.enabled", "mm.zswap.compressor", "mm.zswap.max_pool_percent", "cgroup.memory.zswap.max"]
        next "compare zswpout with pswpout in /proc/vmstat, and try a faster compressor (lz4)";
    ["zswap_load", "zswap_frontswap_load", "zswap_decompress"]
        what "decompressing a page that zswap kept"
        by "a touch of memory that was swapped out into zswap"
        set ["mm.zswap.enabled", "mm.zswap.compressor", "sysctl.vm.swappiness"]
        next "compare zswpin in /proc/vmstat; much of it says that the working set does not fit";
    ["zswap_writeback_entry", "shrink_memcg_cb", "shrink_worker", "zswap_shrinker_scan"]
        what "moving compressed pages from zswap to the swap device"
        by "a full pool of zswap, or cold pages in it"
        set ["mm.zswap.max_pool_percent", "mm.zswap.shrinker_enabled", "mm.swaps"]
        next "look at zswpwb in /proc/vmstat and at written_back_pages in debugfs";
    ["zram_submit_bio", "zram_bio_read", "zram_bio_write", "zram_bvec_rw", "zram_bvec_read", "zram_bvec_write", "__zram_bvec_read", "zram_read_page", "zram_write_page"]
        what "storing pages in, or fetching them from, a compressed device in memory"
        by "swap on zram, or a file system on zram"
        set ["mm.swaps", "sysctl.vm.page-cluster", "zram: comp_algorithm", "zram: disksize"]
        next "read mm_stat of the device; with zram vm.page-cluster=0 saves needless decompression";
    ["zs_malloc", "zs_free", "obj_malloc", "zs_obj_read_begin", "zs_obj_write", "zs_map_object"]
        what "finding and freeing room for compressed pages"
        by "zram and zswap"
        set ["mm.zswap.enabled", "zram: disksize"]
        next "look at the share of compression below and beside it; compaction of the pool shows as zs_compact";
    ["zs_compact", "__zs_compact", "zs_shrinker_scan"]
        what "moving compressed pages together to free whole pages of the pool"
        by "reclaim, and writes to zram's compact file"
        set ["zram: compact", "mm.zswap.max_pool_percent"]
        next "compare pages_compacted in zram's mm_stat";
    ["lzo1x_decompress_safe", "lzo1x_1_do_compress", "lzo1x_1_compress", "lzorle1x_1_compress", "LZ4_compress_fast_extState", "LZ4_compress_fast"] time of "data.compressed"
        what "compressing or decompressing with a fast method inside the kernel"
        by "zram, zswap, btrfs, squashfs and others that compress"
        set ["mm.zswap.compressor", "zram: comp_algorithm", "mount.<mountpoint>.options"]
        next "the caller tells who compresses; compare the ratio with that of another method";
    ["obj_cgroup_charge_zswap", "obj_cgroup_may_zswap", "obj_cgroup_uncharge_zswap"]
        what "accounting compressed pages to the memory cgroup that they are from"
        by "zswap in a cgroup with limits"
        set ["cgroup.memory.zswap.max", "mm.zswap.enabled"]
        next "compare zswap.current with zswap.max of the cgroup; a check may flush its statistics";
};
