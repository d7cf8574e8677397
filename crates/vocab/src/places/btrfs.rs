//! Btrfs.

pub(super) const PLACES: &[super::Place] = places! {
    ["btrfs_buffered_write", "btrfs_file_write_iter", "btrfs_do_write_iter", "btrfs_direct_write"]
        what "a write call on Btrfs"
        by "write and pwrite"
        set ["mount.<mountpoint>.options", "btrfs: chattr +C"]
        next "look below it: room that is reserved, locks of the file's range, or the copy itself";
    ["btrfs_sync_file", "btrfs_sync_log", "btrfs_log_inode", "btrfs_log_dentry_safe"]
        what "fsync on Btrfs: changes of one file go to a tree of its own"
        by "fsync and fdatasync"
        set ["mount.<mountpoint>.options", "block.<dev>.write_cache"]
        next "see whether the sync falls back to a whole commit (btrfs_commit_transaction above or beside it)";
    ["btrfs_commit_transaction", "btrfs_wait_for_commit", "wait_current_trans", "btrfs_write_and_wait_transaction"]
        what "committing all changes of the file system, or waiting for that"
        by "every 30 s (commit=), sync, snapshots, and syncs that cannot be logged"
        set ["mount.<mountpoint>.options", "btrfs: quota"]
        next "compare commit_stats in /sys/fs/btrfs/UUID; quotas and many snapshots make commits long";
    ["btrfs_search_slot", "btrfs_bin_search", "btrfs_next_old_leaf", "read_block_for_search"]
        what "searching a tree of the file system"
        by "nearly every operation: files, extents, checksums, free space"
        set ["btrfs: mkfs --nodesize", "mount.<mountpoint>.options"]
        next "waits below it are reads of tree blocks (cold metadata) or locks of blocks near the root";
    ["btrfs_tree_lock_nested", "__btrfs_tree_lock", "btrfs_tree_read_lock_nested", "__btrfs_tree_read_lock", "btrfs_lock_root_node", "btrfs_read_lock_root_node"]
        what "waiting for the lock of a block of a tree"
        by "many tasks that change or read one subvolume"
        set ["btrfs: mkfs --nodesize", "btrfs: subvolume create"]
        next "spread busy directories over subvolumes: each has a tree of its own";
    ["btrfs_force_cow_block", "btrfs_cow_block", "__btrfs_cow_block", "btrfs_alloc_tree_block"]
        what "copying a tree block before it is changed"
        by "the first change of each block in a transaction, or after a snapshot"
        set ["mount.<mountpoint>.options", "btrfs: subvolume snapshot"]
        next "compare metadata written per unit of work, and how often snapshots are taken";
    ["btrfs_run_delayed_refs", "__btrfs_run_delayed_refs", "btrfs_delayed_refs_rsv_refill"]
        what "entering collected changes of references to extents"
        by "commits, and operations that have to help because too many are collected"
        set ["btrfs: quota", "mount.<mountpoint>.options"]
        next "look for snapshots that are deleted and for quotas (qgroups), which multiply the work";
    ["btrfs_finish_one_ordered", "btrfs_finish_ordered_io", "insert_ordered_extent_file_extent", "insert_reserved_file_extent"]
        what "entering new extents into the trees after their data were written"
        by "ends of writes that went to a new place"
        set ["btrfs: chattr +C", "mount.<mountpoint>.options"]
        next "small random writes make an extent each: compare with nodatacow for such files";
    ["btrfs_compress_folios", "btrfs_compress_pages", "btrfs_compress_bio", "compress_file_range", "zstd_compress_folios", "zstd_compress_pages", "lzo_compress_folios", "zlib_compress_folios"] time of "data.compressed"
        what "compressing file contents before they are written"
        by "write-back of files with compression"
        set ["mount.<mountpoint>.options", "btrfs: property set compression"]
        next "compare the method and its level; zstd:1 or lzo cost less than zlib";
    ["end_bbio_compressed_read", "btrfs_decompress_bio", "zstd_decompress_bio", "zlib_decompress_bio", "lzo_decompress_bio", "btrfs_decompress_buf2page"] time of "data.compressed"
        what "decompressing file contents that were read"
        by "reads of files that were written with compression"
        set ["mount.<mountpoint>.options", "btrfs: property set compression"]
        next "a read of 4 KiB decompresses up to 128 KiB: compare the size of reads, and whether the cache holds the result";
    ["btrfs_csum_one_bio", "btrfs_lookup_bio_sums", "btrfs_check_data_csum", "btrfs_check_sector_csum", "btrfs_check_block_csum", "btrfs_data_csum_ok"]
        what "making checksums of data, or looking them up and checking them"
        by "writes to and reads from the device, unless checksums are off"
        set ["mount.<mountpoint>.options", "btrfs: mkfs --csum"]
        next "see which checksum it is (crc32c is the cheapest), and whether the lookups wait for cold metadata";
    ["__reserve_bytes", "handle_reserve_ticket", "wait_reserve_ticket", "btrfs_reserve_metadata_bytes", "btrfs_reserve_data_bytes"]
        what "waiting for room that other changes have reserved"
        by "a file system with little space that is not allocated, or many changes at once"
        set ["mount.<mountpoint>.options", "btrfs: balance"]
        next "read 'btrfs filesystem usage': metadata that is nearly full asks for a balance or more space";
    ["find_free_extent", "btrfs_reserve_extent", "btrfs_find_space_for_alloc", "btrfs_cache_block_group", "caching_thread", "load_free_space_tree"]
        what "searching for free space, or loading the map of it"
        by "allocations, most of all after mounting and on full file systems"
        set ["mount.<mountpoint>.options", "btrfs: mkfs -O free-space-tree"]
        next "see how full the file system is, and whether the mount uses space_cache=v2";
    ["read_extent_buffer_pages", "read_extent_buffer_pages_nowait", "btrfs_read_extent_buffer", "btrfs_validate_extent_buffer"]
        what "reading a block of a tree from the device and checking it"
        by "metadata that is not in memory"
        set ["sysctl.vm.vfs_cache_pressure", "btrfs: mkfs --nodesize"]
        next "compare the read latency, and whether memory ran short before";
    ["btrfs_get_extent", "btrfs_lock_and_flush_ordered_range", "btrfs_wait_ordered_range", "btrfs_start_ordered_extent_nowriteback", "btrfs_start_ordered_extent"]
        what "finding the extent of a read or write, after writes to that range that are under way"
        by "reads and direct I/O of ranges that were written a moment ago"
        set ["mount.<mountpoint>.options", "file.<path>.extents"]
        next "look for a program that writes and reads the same range at once, and at extents per file";
};
