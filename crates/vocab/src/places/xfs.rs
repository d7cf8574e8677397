//! XFS.

pub(super) const PLACES: &[super::Place] = places! {
    ["xfs_file_buffered_write", "xfs_file_write_checks", "xfs_ilock", "xfs_ilock_iocb"]
        what "a write call on XFS, under the lock of the file"
        by "write and pwrite; one writer at a time, and buffered reads wait for it"
        set ["mount.<mountpoint>.options", "program: O_DIRECT"]
        next "waits for a lock below it are of tasks on the same file; direct writes to different ranges share the lock";
    ["xfs_file_dio_write_aligned", "xfs_file_dio_write", "xfs_file_dio_read"]
        what "direct reads and writes on XFS"
        by "O_DIRECT, with offsets and lengths that fit the blocks"
        set ["block.<dev>.logical_block_size", "mount.<mountpoint>.options"]
        next "look below it: mapping of blocks, tags of the device, the device itself";
    ["xfs_file_dio_write_unaligned"]
        what "a direct write that covers only a part of a block of the file system"
        by "O_DIRECT writes that are not aligned to the block size"
        set ["xfs: mkfs -b size", "program: O_DIRECT"]
        next "such writes to one file wait for each other unless they only overwrite: align them";
    ["xfs_file_fsync", "xfs_log_force_seq", "xfs_log_force_inode"]
        what "fsync on XFS: data are written, the log is forced, the device is flushed"
        by "fsync and fdatasync"
        set ["mount.<mountpoint>.options", "block.<dev>.write_cache", "xfs: mkfs -l size"]
        next "split the wait: write-back, the log (xlog_*), flush of the device";
    ["xlog_wait_on_iclog", "xlog_force_and_check_iclog", "xlog_state_get_iclog_space"]
        what "waiting for a buffer of the log to be written"
        by "fsync, and transactions while all buffers of the log are in flight"
        set ["mount.<mountpoint>.options", "block.<dev>.write_cache", "xfs: mount -o logbsize"]
        next "compare the device's write and flush latency; larger and more buffers (logbsize, logbufs) help many small commits";
    ["xlog_cil_push_work", "xlog_cil_force_seq", "xlog_cil_push_now"]
        what "writing collected changes of metadata to the log"
        by "fsync, or enough collected changes"
        set ["mount.<mountpoint>.options", "xfs: mkfs -l size"]
        next "see how many syncs per second there are, and how many metadata changes each one has to wait for";
    ["xlog_cil_commit", "xlog_cil_insert_items"]
        what "entering the changes of a transaction into the list that goes to the log"
        by "each change of metadata"
        set ["xfs: mkfs -l size", "mount.<mountpoint>.options"]
        next "compare metadata operations per unit of work (xs_trans in /proc/fs/xfs/stat)";
    ["xlog_grant_head_wait", "xlog_grant_head_check", "xfs_log_reserve"]
        what "waiting for room in the log"
        by "a log that is full because changed metadata is not written to its place fast enough"
        set ["xfs: mkfs -l size", "sysctl.fs.xfs.xfssyncd_centisecs"]
        next "look at what xfsaild does; a larger log makes it rare";
    ["xfsaild", "xfsaild_push"]
        what "writing changed metadata to its place so that the log can be used again"
        by "age of the changes, and a log that fills up"
        set ["xfs: mkfs -l size", "sysctl.fs.xfs.xfssyncd_centisecs"]
        next "compare push_ail in /proc/fs/xfs/stat, and the latency of small random writes";
    ["xfs_bmapi_read", "xfs_bmapi_write", "xfs_iext_lookup_extent", "xfs_iread_extents"]
        what "looking up or changing the extents of a file"
        by "reads that are not cached, direct I/O and allocation"
        set ["file.<path>.extents", "xfs: extsize hint"]
        next "compare extents per file; the first use of a file reads its whole list of extents";
    ["xfs_buffered_write_iomap_begin", "xfs_bmapi_reserve_delalloc", "xfs_iomap_prealloc_size"]
        what "reserving room for a buffered write, with more at the end of a growing file"
        by "buffered writes beyond what is allocated"
        set ["mount.<mountpoint>.options", "xfs: mount -o allocsize"]
        next "compare bytes per call, and how full the file system is";
    ["xfs_iomap_write_direct", "xfs_iomap_write_unwritten", "xfs_end_io", "xfs_end_ioend"]
        what "allocating blocks for direct writes, and marking blocks as written when the data are there"
        by "writes to holes and to preallocated parts of files"
        set ["xfs: extsize hint", "program: fallocate"]
        next "each such write is a transaction: write the file over once before it is used";
    ["xfs_alloc_ag_vextent_near", "xfs_alloc_vextent_near_bno", "xfs_alloc_vextent", "xfs_alloc_vextent_start_ag", "xfs_alloc_fix_freelist"]
        what "searching an allocation group for free blocks"
        by "write-back of new data, direct writes to holes, growing directories"
        set ["xfs: mkfs -d agcount", "xfs: extsize hint", "mount.<mountpoint>.options"]
        next "see how full and fragmented free space is (xfs_db freesp); waits are for the header of a group that others hold";
    ["xfs_buf_lock", "xfs_buf_get_map", "xfs_buf_find_lock"]
        what "taking a buffer of metadata that others may hold"
        by "changes of the same directory, allocation group or inode cluster from many tasks"
        set ["xfs: mkfs -d agcount", "mount.<mountpoint>.options"]
        next "see which operation stands above it, and whether all tasks work in one directory";
    ["xfs_buf_iowait", "xfs_buf_submit", "xfs_buf_read_map"]
        what "reading or writing a buffer of metadata and waiting for it"
        by "metadata that is not in memory"
        set ["sysctl.vm.vfs_cache_pressure", "xfs: mkfs -m rmapbt"]
        next "compare reads of metadata after the memory ran short, and the device's read latency";
    ["xfs_itruncate_extents_flags", "xfs_inactive", "xfs_inodegc_worker", "xfs_inodegc_queue"]
        what "freeing the blocks of files that were removed"
        by "deleted and truncated files; most of it in a worker in the background"
        set ["mount.<mountpoint>.options", "file.<path>.extents"]
        next "see how many extents the removed files had; the mount option discard adds to it";
    ["xfs_reclaim_inodes_nr", "xfs_reclaim_inode", "xfs_icwalk"]
        what "reclaim of cached inodes of XFS"
        by "shortage of memory on hosts that look at very many files"
        set ["sysctl.vm.vfs_cache_pressure", "sysctl.fs.xfs.xfssyncd_centisecs"]
        next "look at xfs_inode in /proc/slabinfo";
    ["xfs_vm_writepages", "xfs_map_blocks", "xfs_bmapi_convert_delalloc", "xfs_convert_blocks"]
        what "write-back on XFS: turning reserved room into blocks and making requests"
        by "write-back and fsync"
        set ["sysctl.vm.dirty_background_bytes", "xfs: mount -o allocsize"]
        next "compare bytes per request, and transactions per written megabyte";
};
