//! Buffered writes, write-back, fsync.

pub(super) const PLACES: &[super::Place] = places! {
    ["generic_perform_write", "iomap_file_buffered_write", "iomap_write_iter", "iomap_write_begin"]
        what "copying a program's bytes into the page cache and marking pages dirty"
        by "write and pwrite without O_DIRECT"
        set ["mount.<mountpoint>.options", "sysctl.vm.dirty_background_bytes", "cgroup.memory.max"]
        next "compare bytes per call; writes of parts of a page that is not cached read it first";
    ["copy_folio_from_iter_atomic", "copy_page_from_iter_atomic", "_copy_from_iter"]
        what "the copy of written bytes out of the program's buffer"
        by "buffered writes, and sends on pipes and sockets"
        set ["cmdline.mitigations", "program: O_DIRECT"]
        next "compare bytes written; if these are equal look at bytes per call and at cache misses";
    ["balance_dirty_pages", "balance_dirty_pages_ratelimited", "balance_dirty_pages_ratelimited_flags"]
        what "holding a writer back because too many pages are dirty"
        by "writing faster than the device takes the data, for longer than the limits absorb"
        set ["sysctl.vm.dirty_bytes", "sysctl.vm.dirty_ratio", "sysctl.vm.dirty_background_bytes", "sysctl.vm.dirty_background_ratio", "cgroup.memory.high"]
        next "compare Dirty and Writeback in /proc/meminfo with the limits, and the device's write speed";
    ["wb_workfn", "wb_writeback", "writeback_sb_inodes", "__writeback_inodes_wb", "__writeback_single_inode", "writeback_single_inode"]
        what "choosing dirty files and writing them back, in a worker of the kernel"
        by "age or amount of dirty pages, sync, and shortage of memory"
        set ["sysctl.vm.dirty_writeback_centisecs", "sysctl.vm.dirty_expire_centisecs", "sysctl.vm.dirty_background_bytes", "sysctl.vm.dirty_background_ratio"]
        next "see which device and which files are written, and whether readers wait at the same time";
    ["do_writepages", "write_cache_pages", "writeback_iter", "iomap_writepages", "folio_clear_dirty_for_io", "clear_page_dirty_for_io"]
        what "walking the dirty pages of a file and handing them to the device"
        by "write-back, fsync, msync and sync_file_range"
        set ["sysctl.vm.dirty_background_bytes", "mount.<mountpoint>.options", "block.<dev>.max_sectors_kb"]
        next "compare bytes per write request: scattered dirty pages make small requests";
    ["folio_wait_writeback", "folio_wait_stable", "wait_on_page_writeback"]
        what "waiting until a page that is being written is written"
        by "fsync, or a write to a page that is on its way to a device which needs it unchanged"
        set ["sysctl.vm.dirty_expire_centisecs", "block.<dev>.scheduler", "mount.<mountpoint>.options"]
        next "above it stands who waits: a sync, or a writer that hits stable pages (checksums, RAID 5, btrfs)";
    ["__filemap_fdatawait_range", "filemap_fdatawait_range", "file_write_and_wait_range", "filemap_write_and_wait_range"]
        what "waiting for the data of a file to be written"
        by "fsync, fdatasync, msync(MS_SYNC), sync_file_range and O_SYNC writes"
        set ["block.<dev>.write_cache", "block.<dev>.scheduler", "sysctl.vm.dirty_background_bytes"]
        next "compare bytes written per sync; then the latency of a write on the device";
    ["__folio_mark_dirty", "filemap_dirty_folio", "__set_page_dirty_nobuffers", "block_dirty_folio", "mark_buffer_dirty", "folio_account_dirtied"]
        what "marking a page dirty and counting it"
        by "buffered writes, write faults and changes of metadata"
        set ["sysctl.vm.dirty_background_bytes", "cmdline.cgroup_disable", "mount.<mountpoint>.options"]
        next "compare pages dirtied per byte written (nr_dirtied in /proc/vmstat): one page dirtied many times costs each time";
    ["__folio_start_writeback", "__test_set_page_writeback", "folio_end_writeback", "__folio_end_writeback", "folio_end_writeback_no_dropbehind"]
        what "marking pages as being written, and as written again"
        by "write-back, and the ends of its requests"
        set ["sysctl.vm.dirty_background_bytes", "mount.<mountpoint>.options"]
        next "the cost is per page: large folios need fewer";
    ["__mark_inode_dirty", "inode_io_list_move_locked", "locked_inode_to_wb_and_lock_list"]
        what "putting a file on the list of those that have something to write"
        by "writes, changes of times and attributes"
        set ["mount.<mountpoint>.options", "sysctl.vm.dirtytime_expire_seconds"]
        next "compare with noatime and lazytime; many files written by many CPUs share that list's lock";
    ["vfs_fsync_range", "do_fsync", "ksys_sync_file_range", "sync_file_range"]
        what "the entry to making one file safe on its device"
        by "fsync, fdatasync, sync_file_range"
        set ["postgresql: synchronous_commit", "mysql: innodb_flush_log_at_trx_commit", "sqlite: PRAGMA synchronous", "block.<dev>.write_cache"]
        next "count syncs per unit of work: committing in groups needs fewer";
    ["ksys_sync", "iterate_supers", "sync_inodes_sb", "sync_filesystem", "wait_sb_inodes", "wb_wait_for_completion"]
        what "writing back all files of one file system or of all, and waiting for it"
        by "sync and syncfs, umount, snapshots, and some package managers and container tools"
        set ["sysctl.vm.dirty_background_bytes", "sysctl.vm.dirty_expire_centisecs", "mount.<mountpoint>.options"]
        next "find who called sync: its wait includes everybody's dirty data";
    ["__sync_dirty_buffer", "fsync_buffers_list", "sync_mapping_buffers", "__wait_on_buffer"]
        what "reading or writing single blocks of metadata and waiting for each"
        by "file systems without a journal in the way, superblocks, and metadata that is not cached"
        set ["mount.<mountpoint>.options", "sysctl.vm.vfs_cache_pressure", "block.<dev>.write_cache"]
        next "see the file system above it; reads here mean cold metadata";
    ["blkdev_issue_flush", "submit_bio_wait"]
        what "waiting for one request, most often a flush of the device's own cache"
        by "fsync on devices with a volatile write cache, journal commits, and discards"
        set ["block.<dev>.write_cache", "block.<dev>.fua", "mount.<mountpoint>.options"]
        next "count flushes per sync and their latency (fields 16 and 17 of /proc/diskstats); devices with power-loss protection need none";
    ["blkdev_fsync", "generic_file_fsync", "__generic_file_fsync"]
        what "fsync of a block device, or of a file on a simple file system"
        by "programs that write to the raw device, mkfs, and FAT or ext2"
        set ["block.<dev>.write_cache", "sysctl.vm.dirty_background_bytes"]
        next "compare bytes per sync and the flush latency of the device";
};
