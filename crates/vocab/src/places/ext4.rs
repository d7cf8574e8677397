//! ext4 and its journal, jbd2.

pub(super) const PLACES: &[super::Place] = places! {
    ["ext4_map_blocks", "ext4_ext_map_blocks", "ext4_map_query_blocks", "ext4_map_create_blocks"]
        what "finding the blocks of a piece of a file, or giving it some"
        by "reads that are not cached, direct I/O, and write-back of new data"
        set ["mount.<mountpoint>.options", "file.<path>.extents", "ext4: mkfs -O extent"]
        next "compare extents per file: each extent is looked up, and each I/O ends where one ends";
    ["ext4_es_lookup_extent", "ext4_es_insert_extent", "ext4_es_cache_extent", "ext4_find_extent"]
        what "looking up extents in memory or in the file's tree"
        by "each mapping of blocks"
        set ["file.<path>.extents", "sysctl.vm.vfs_cache_pressure"]
        next "compare extents of the files; fragmented files have deep trees";
    ["ext4_es_scan", "es_reclaim_extents", "es_do_reclaim_extents"]
        what "reclaim that walks cached extents of ext4"
        by "shortage of memory on hosts with many cached extents"
        set ["sysctl.vm.vfs_cache_pressure", "file.<path>.extents"]
        next "look at ext4_extent_status in /proc/slabinfo";
    ["ext4_mb_new_blocks", "ext4_mb_regular_allocator", "ext4_mb_scan_aligned", "ext4_mb_complex_scan_group", "ext4_mb_good_group"]
        what "searching block groups for free blocks"
        by "write-back or direct writes of new data, and fallocate"
        set ["mount.<mountpoint>.options", "ext4: mb_max_to_scan", "ext4: mb_group_prealloc"]
        next "see how full and fragmented the file system is (e2freefrag, mb_groups in /proc/fs/ext4/DEV)";
    ["ext4_mb_load_buddy_gfp", "ext4_mb_init_cache", "ext4_mb_init_group", "ext4_read_block_bitmap", "ext4_wait_block_bitmap"]
        what "reading the map of free blocks of a group"
        by "the first allocations after mount, and searches that reach groups not looked at yet"
        set ["mount.<mountpoint>.options", "ext4: prefetch_block_bitmaps", "ext4: mb_prefetch"]
        next "see whether the time is only in the first minutes after mounting, and how many groups there are";
    ["ext4_da_write_begin", "ext4_write_begin", "ext4_da_get_block_prep", "ext4_da_reserve_space"]
        what "preparing a page of a file for a buffered write"
        by "buffered writes; new blocks are only reserved, unless delayed allocation is off"
        set ["mount.<mountpoint>.options", "file.<path>.extents"]
        next "compare bytes per call; nodelalloc or data=journal make it dearer";
    ["ext4_buffered_write_iter", "ext4_file_write_iter"]
        what "a write call on ext4, under the lock of the file"
        by "write and pwrite"
        set ["mount.<mountpoint>.options"]
        next "waits for a lock below it are of writers to the same file: they go one after another";
    ["ext4_dio_write_iter", "ext4_dio_write_checks", "ext4_overwrite_io"]
        what "direct writes on ext4 and the checks of what they may do beside each other"
        by "writes with O_DIRECT"
        set ["mount.<mountpoint>.options", "program: O_DIRECT", "program: fallocate"]
        next "writes that extend the file or are not aligned to its blocks exclude all others: preallocate and align";
    ["ext4_writepages", "ext4_do_writepages", "mpage_prepare_extent_to_map", "mpage_map_and_submit_extent"]
        what "write-back of dirty pages on ext4: allocating blocks for them and making requests"
        by "write-back and fsync"
        set ["sysctl.vm.dirty_background_bytes", "mount.<mountpoint>.options"]
        next "see whether allocation or the journal is below it; overwriting in place needs neither";
    ["ext4_sync_file", "ext4_fsync_journal"]
        what "fsync on ext4: data are written, the journal is committed, the device is flushed"
        by "fsync and fdatasync"
        set ["mount.<mountpoint>.options", "block.<dev>.write_cache", "ext4: mkfs -O fast_commit"]
        next "split the wait: write-back, commit (jbd2_log_wait_commit), flush of the device; fdatasync on preallocated files needs no commit";
    ["ext4_fc_commit", "ext4_fc_perform_commit", "jbd2_fc_begin_commit"]
        what "a fast commit: only what changed of single files goes to the journal"
        by "fsync on file systems with the feature fast_commit"
        set ["ext4: mkfs -O fast_commit", "mount.<mountpoint>.options"]
        next "read fc_info in /proc/fs/ext4/DEV: the reasons of ineligible commits say what falls back to full ones";
    ["ext4_end_io_rsv_work", "ext4_convert_unwritten_extents", "ext4_convert_unwritten_io_end_vec"]
        what "marking blocks as written after their data have reached the device"
        by "ends of writes to blocks that were preallocated or newly allocated"
        set ["mount.<mountpoint>.options", "program: fallocate"]
        next "writing zeroes over a file once, before it is used, saves it; see the journal's load";
    ["ext4_truncate", "ext4_ext_truncate", "ext4_ext_remove_space", "ext4_free_blocks", "ext4_evict_inode"]
        what "giving the blocks of a file back"
        by "deleting or truncating files, at the last close"
        set ["mount.<mountpoint>.options", "file.<path>.extents"]
        next "with the mount option discard each commit also discards the blocks; fstrim at quiet times is cheaper";
    ["__ext4_find_entry", "ext4_search_dir", "ext4_add_entry", "ext4_dx_find_entry", "ext4_dx_add_entry", "ext4_htree_fill_tree"]
        what "searching a directory for a name, or for room for one"
        by "opening, making, renaming and removing files whose names are not cached"
        set ["sysctl.vm.vfs_cache_pressure", "ext4: mkfs -O dir_index"]
        next "see how many entries the directory has, and whether the names it looks for exist at all";
    ["__ext4_get_inode_loc", "__ext4_iget"]
        what "reading an inode from the device"
        by "the first look at a file since its inode was dropped from memory"
        set ["sysctl.vm.vfs_cache_pressure", "ext4: inode_readahead_blks"]
        next "compare ext4_inode_cache in /proc/slabinfo before and after the memory ran short";
    ["__ext4_mark_inode_dirty", "ext4_dirty_inode", "ext4_do_update_inode"]
        what "putting a changed inode into the running transaction"
        by "writes that change size or time, and changes of attributes"
        set ["mount.<mountpoint>.options"]
        next "compare with lazytime and noatime";
    ["ext4_discard_preallocations", "ext4_mb_discard_preallocations"]
        what "giving back blocks that were set aside for a file"
        by "closing files that were written, and a file system that is nearly full"
        set ["ext4: mb_group_prealloc", "ext4: mb_max_inode_prealloc", "mount.<mountpoint>.options"]
        next "see how full the file system is";
    ["jbd2__journal_start", "start_this_handle", "add_transaction_credits"]
        what "joining the running transaction of the journal, or waiting for room in it"
        by "every change of metadata on ext4"
        set ["ext4: mkfs -J size", "mount.<mountpoint>.options"]
        next "waits here mean a full journal or a commit that locks the transaction: read /proc/fs/jbd2/DEV/info";
    ["wait_transaction_locked", "wait_transaction_switching", "jbd2_journal_wait_updates"]
        what "waiting while a transaction closes and its last users finish"
        by "a commit that begins while other tasks change metadata"
        set ["mount.<mountpoint>.options", "ext4: mkfs -J size"]
        next "read the line 'running transaction' in /proc/fs/jbd2/DEV/info; frequent fsync makes frequent commits";
    ["do_get_write_access", "jbd2_journal_get_write_access", "jbd2_journal_dirty_metadata"]
        what "taking a block of metadata into the running transaction"
        by "changes of metadata; it waits if the commit before is still writing that block"
        set ["mount.<mountpoint>.options", "block.<dev>.scheduler"]
        next "see which block many tasks share (a bitmap, a directory, one file's inode), and how long commits take";
    ["jbd2_journal_commit_transaction", "kjournald2", "jbd2_submit_inode_data", "journal_submit_commit_record"]
        what "writing a transaction to the journal, in the thread of the journal"
        by "fsync, the age of a transaction (commit=), or a full one"
        set ["mount.<mountpoint>.options", "block.<dev>.write_cache", "block.<dev>.fua"]
        next "data=ordered writes the data of new blocks first: see how much was dirty, and the flush latency";
    ["jbd2_log_wait_commit", "jbd2_complete_transaction", "jbd2_log_start_commit"]
        what "waiting for the commit of a transaction"
        by "fsync of a file whose metadata changed"
        set ["mount.<mountpoint>.options", "ext4: mkfs -O fast_commit", "block.<dev>.write_cache"]
        next "look at what the journal's thread does at that time; fdatasync without a change of size needs no commit";
    ["__jbd2_log_wait_for_space", "jbd2_log_do_checkpoint", "jbd2_journal_shrink_checkpoint_list"]
        what "making room in the journal by writing its old blocks to their places"
        by "a journal that is full, because it is small or the device is slow"
        set ["ext4: mkfs -J size", "sysctl.vm.dirty_writeback_centisecs", "sysctl.vm.dirty_expire_centisecs"]
        next "compare the size of the journal (dumpe2fs -h) with metadata written per second; a larger journal makes it rare";
};
