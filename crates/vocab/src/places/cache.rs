//! The page cache: reading, reading ahead, dropping; tmpfs; persistent memory.

pub(super) const PLACES: &[super::Place] = places! {
    ["filemap_read", "generic_file_read_iter"]
        what "copying cached contents of a file to the reader, page by page"
        by "read and pread without O_DIRECT"
        set ["block.<dev>.read_ahead_kb", "mount.<mountpoint>.options", "cmdline.mitigations"]
        next "compare bytes per call; small reads pay per call, and large folios make a read touch fewer pages";
    ["filemap_get_pages", "filemap_get_read_batch"]
        what "finding the pages of a read in the page cache, or having them fetched"
        by "buffered reads"
        set ["block.<dev>.read_ahead_kb", "cgroup.memory.max", "sysctl.vm.page_lock_unfairness"]
        next "waiting below it says that the page was not there: compare read requests and hits in the cache";
    ["filemap_fault"]
        what "a fault on a mapped file whose page has to be found or fetched"
        by "a touch of a page of a mapping that fault-around has not mapped"
        set ["mm.fault_around_bytes", "block.<dev>.read_ahead_kb", "cgroup.memory.max"]
        next "compare major faults (pgmajfault) and where in the file they are; MADV_RANDOM and MADV_SEQUENTIAL change read-ahead";
    ["filemap_read_folio", "filemap_update_page"]
        what "reading one page of a file because read-ahead did not bring it, and waiting for it"
        by "random reads, disabled read-ahead, or pages dropped before they were used"
        set ["block.<dev>.read_ahead_kb", "sysctl.vm.page_lock_unfairness", "cgroup.memory.max"]
        next "compare the size of read requests, and the offsets that the program reads";
    ["folio_wait_bit_common", "__folio_lock", "__folio_lock_killable", "__folio_lock_or_retry", "folio_wait_bit", "folio_wait_bit_killable"]
        what "waiting until a page is unlocked, which mostly means read"
        by "a read or a fault on a page that is on its way from the device, or that another task works on"
        set ["sysctl.vm.page_lock_unfairness", "block.<dev>.read_ahead_kb", "block.<dev>.scheduler"]
        next "the functions above it tell what is waited for: a read, write-back, or migration";
    ["page_cache_ra_unbounded", "page_cache_ra_order", "do_page_cache_ra"]
        what "adding pages to the cache and asking the device for them ahead of their use"
        by "sequential reads, and faults on mapped files"
        set ["block.<dev>.read_ahead_kb", "mount.<mountpoint>.options", "block.<dev>.max_sectors_kb"]
        next "compare bytes per read request with read_ahead_kb";
    ["page_cache_sync_ra", "page_cache_async_ra", "ondemand_readahead"]
        what "deciding how much to read ahead"
        by "reads that miss the cache, or reach a page that is marked as the next trigger"
        set ["block.<dev>.read_ahead_kb", "program: posix_fadvise"]
        next "see the pattern of offsets: short sequential runs make windows start small again and again";
    ["force_page_cache_ra", "generic_fadvise", "ksys_readahead"]
        what "reading a range into the cache because a program asked for it"
        by "readahead, POSIX_FADV_WILLNEED, MADV_WILLNEED, and random-mode reads of many pages"
        set ["block.<dev>.read_ahead_kb", "block.<dev>.max_sectors_kb", "postgresql: effective_io_concurrency"]
        next "compare how much is asked for with how much is used before it is dropped";
    ["mpage_readahead", "ext4_mpage_readpages", "iomap_readahead", "btrfs_readahead", "extent_readahead", "xfs_vm_readahead"]
        what "the file system turning pages to be read into requests"
        by "read-ahead and faults on files"
        set ["block.<dev>.read_ahead_kb", "mount.<mountpoint>.options"]
        next "compare the file's extents with the size of requests: each piece of the file is a request of its own";
    ["filemap_add_folio", "__filemap_add_folio", "add_to_page_cache_lru"]
        what "entering a new page into the page cache"
        by "reads and writes of parts of files that are not cached"
        set ["cgroup.memory.max", "block.<dev>.read_ahead_kb", "thp.shmem_enabled"]
        next "compare cached bytes of the file before and after; the lock of one file's cache is shared by all its readers";
    ["__filemap_get_folio", "pagecache_get_page", "filemap_get_entry", "find_get_entry"]
        what "looking a page up in the page cache, and making it if asked to"
        by "writes to files, metadata buffers and swap"
        set ["cgroup.memory.max", "sysctl.vm.vfs_cache_pressure"]
        next "see the caller: for writes compare bytes per call, for metadata the size of the file system's working set";
    ["copy_page_to_iter", "_copy_to_iter", "copy_folio_to_iter", "rep_movs_alternative", "copy_user_enhanced_fast_string", "copy_user_generic_string", "copy_user_generic_unrolled"]
        what "copying between the kernel and the program's memory"
        by "buffered reads and writes, pipes, sockets and other calls that move bytes"
        set ["cmdline.mitigations", "thp.enabled", "program: O_DIRECT"]
        next "faults below it mean that the buffer is new memory; else compare bytes per call and cache misses";
    ["folio_mark_accessed", "mark_page_accessed", "workingset_activation"]
        what "noting that a cached page was used"
        by "reads of cached files"
        set ["mm.lru_gen.enabled"]
        next "it costs a little per page: compare the number of pages per call";
    ["truncate_inode_pages_range", "truncate_inode_partial_folio", "delete_from_page_cache_batch", "truncate_cleanup_folio"]
        what "removing the cached pages of a file, or of its end"
        by "truncate, unlink of the last name, umount, and block devices that are closed"
        set ["sysctl.vm.dirty_background_bytes", "mount.<mountpoint>.options"]
        next "see how large the files are that are deleted, and whether their pages were dirty";
    ["mapping_try_invalidate", "invalidate_mapping_pagevec", "invalidate_inode_pages2_range", "kiocb_invalidate_pages"]
        what "dropping clean pages of a file from the cache"
        by "POSIX_FADV_DONTNEED, vm.drop_caches, and direct I/O on a file that is also cached"
        set ["sysctl.vm.drop_caches", "program: O_DIRECT"]
        next "look for a program that mixes cached and direct access to one file";
    ["filemap_splice_read", "generic_file_splice_read", "copy_splice_read"]
        what "moving pages of a file into a pipe without copying them"
        by "splice and sendfile"
        set ["sysctl.fs.pipe-max-size", "block.<dev>.read_ahead_kb"]
        next "compare bytes per call with the size of the pipe";
    ["shmem_fault", "shmem_get_folio_gfp", "shmem_getpage_gfp"]
        what "finding or making a page of shared memory or tmpfs"
        by "faults on shared anonymous mappings, memfd, SysV segments and tmpfs files, and writes to them"
        set ["thp.shmem_enabled", "mount.<mountpoint>.options", "cgroup.memory.max", "sysctl.vm.swappiness"]
        next "see ShmemHugePages and ShmemPmdMapped in /proc/meminfo, and whether segments are made anew";
    ["shmem_alloc_and_add_folio", "shmem_alloc_and_acct_folio", "shmem_alloc_and_acct_page", "shmem_add_to_page_cache", "shmem_inode_acct_blocks"]
        what "taking and accounting a new page of shared memory"
        by "the first touch of each part of a segment or tmpfs file"
        set ["thp.shmem_enabled", "thp.<size>.shmem_enabled", "mount.<mountpoint>.options"]
        next "huge pages (huge= of the mount) need fewer; see also the size limit of the mount";
    ["shmem_undo_range", "shmem_evict_inode", "shmem_fallocate"]
        what "freeing or preparing a range of shared memory"
        by "unlink, truncate, hole punching and fallocate on tmpfs, and segments that are removed"
        set ["thp.shmem_enabled", "mount.<mountpoint>.options"]
        next "see how often segments are made and removed, and how large they are";
    ["shmem_swapin_folio", "shmem_swapin_page"]
        what "bringing a page of shared memory back from swap"
        by "a touch of shared memory or tmpfs that was swapped out"
        set ["sysctl.vm.swappiness", "cgroup.memory.swap.max", "mm.zswap.enabled"]
        next "compare Shmem and SwapCached in /proc/meminfo, and the cgroup's limit";
    ["shmem_file_read_iter", "shmem_file_write_iter", "shmem_file_splice_read"]
        what "read and write calls on tmpfs"
        by "files in tmpfs, /dev/shm and memfd"
        set ["thp.shmem_enabled", "mount.<mountpoint>.options"]
        next "compare bytes per call; mapping the file saves the calls and takes faults instead";
    ["dax_iomap_fault", "dax_iomap_pte_fault", "dax_iomap_pmd_fault", "dax_insert_entry", "grab_mapping_entry"]
        what "mapping a piece of persistent memory into the program"
        by "the first touch of a page of a file that is mapped with DAX"
        set ["mount.<mountpoint>.options", "block.<dev>.dax", "file.<path>.extents"]
        next "see whether faults are of 2 MiB or fall back to 4 KiB: file extents and the mapping both have to be aligned";
    ["dax_iomap_rw", "dax_iomap_iter", "dax_copy_to_iter", "dax_copy_from_iter", "_copy_from_iter_flushcache", "__copy_user_flushcache"]
        what "copying between the program and persistent memory"
        by "read and write calls on a file with DAX"
        set ["mount.<mountpoint>.options", "module.ext4.dax_read"]
        next "compare bytes per call; the medium itself is waited for in the copy";
    ["dax_writeback_mapping_range", "dax_flush", "arch_wb_cache_pmem", "clean_cache_range"]
        what "flushing CPU caches so that writes reach persistent memory"
        by "fsync and msync on a file with DAX, and writes with O_SYNC"
        set ["mount.<mountpoint>.options", "program: MAP_SYNC"]
        next "MAP_SYNC and flushing from user space avoid the calls; compare how many pages a sync finds dirty";
    ["dax_layout_busy_page", "dax_layout_busy_page_range", "dax_break_layout", "get_next_unlocked_entry"]
        what "waiting until nobody holds pages of a DAX file whose blocks are to change"
        by "truncate or hole punching of such a file while I/O to its pages is in flight"
        set ["mount.<mountpoint>.options", "file.<path>.extents"]
        next "look for long-lived pins of the file's memory (RDMA, io_uring buffers)";
};
