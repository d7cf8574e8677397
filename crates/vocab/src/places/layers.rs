//! Layers over other file systems: overlayfs, FUSE; compressed images; names of files.

pub(super) const PLACES: &[super::Place] = places! {
    ["ovl_copy_up_flags", "ovl_copy_up_one", "ovl_copy_up_file", "ovl_copy_up_data", "ovl_copy_up", "ovl_maybe_copy_up"]
        what "copying a whole file from a lower layer to the upper one"
        by "the first time that a container opens a file of its image for writing, or changes its attributes"
        set ["mount.<mountpoint>.options", "overlay: metacopy", "overlay: redirect_dir"]
        next "see which files of the image are written: put them on a volume; metacopy=on spares changes of attributes the data";
    ["ovl_lookup", "ovl_lookup_layer", "ovl_lookup_single"]
        what "looking a name up in every layer"
        by "opening files in containers whose images have many layers; names that do not exist search all of them"
        set ["mount.<mountpoint>.options", "sysctl.vm.vfs_cache_pressure"]
        next "count the layers (lowerdir) and lookups of missing names";
    ["ovl_read_iter", "ovl_write_iter", "ovl_open", "ovl_permission", "backing_file_read_iter", "backing_file_write_iter"]
        what "passing a call of overlayfs on to the file system below"
        by "reads, writes and opens in a container's root"
        set ["mount.<mountpoint>.options", "docker: --volume"]
        next "compare with the same work on a volume: the difference is the layer's own cost";
    ["ovl_iterate", "ovl_dir_read_merged", "ovl_dir_read", "ovl_fill_merge"]
        what "merging the listings of a directory over the layers"
        by "the first listing of a directory that exists in several layers"
        set ["mount.<mountpoint>.options"]
        next "see which large directory is listed again and again, and whether it could lie in one layer";
    ["ovl_fsync", "ovl_sync_fs"]
        what "passing a sync on to the upper layer"
        by "fsync and syncfs in a container"
        set ["mount.<mountpoint>.options", "overlay: volatile"]
        next "for throw-away containers the mount option volatile leaves syncs out; else see the file system below";
    ["squashfs_readahead", "squashfs_read_folio", "squashfs_read_data", "squashfs_bio_read", "squashfs_readpage_block"]
        what "reading a compressed image"
        by "files of snaps, live systems, AppImages and mounted images that are not in the page cache"
        set ["squashfs: mksquashfs -b", "squashfs: threads=", "block.<dev>.read_ahead_kb"]
        next "see whether the cache is dropped between uses; a smaller block of the image costs less per random read";
    ["squashfs_decompress", "zlib_uncompress", "zstd_uncompress", "lz4_uncompress", "lzo_uncompress", "squashfs_xz_uncompress"] time of "data.compressed"
        what "decompressing a block of a squashfs image"
        by "reads that the page cache does not serve"
        set ["squashfs: mksquashfs -comp", "squashfs: threads=", "kconfig.SQUASHFS_DECOMP_MULTI_PERCPU"]
        next "compare the method (lz4 and zstd are far faster than xz), and whether decompression may run on several CPUs";
    ["squashfs_cache_get", "squashfs_read_metadata", "squashfs_get_fragment"]
        what "waiting for, or filling, the small cache of decompressed blocks"
        by "many tasks that read small files or metadata of one image"
        set ["kconfig.SQUASHFS_FRAGMENT_CACHE_SIZE", "squashfs: mksquashfs -no-fragments"]
        next "see whether the tasks wait for each other here: the cache holds a few blocks";
    ["z_erofs_decompress_queue", "z_erofs_decompress_pcluster", "z_erofs_readahead", "z_erofs_read_folio", "z_erofs_runqueue"]
        what "reading and decompressing an EROFS image"
        by "files of such an image that are not in the page cache"
        set ["erofs: mkfs.erofs -z", "erofs: mkfs.erofs -C", "block.<dev>.read_ahead_kb"]
        next "compare the method and the cluster size of the image";
    ["zlib_inflate", "inflate_fast", "xz_dec_run", "xz_dec_lzma2_run", "lzma_main", "zstd_decompress_stream", "ZSTD_decompressBlock_internal", "ZSTD_decompressSequences_bmi2"] time of "data.compressed"
        what "decompression inside the kernel"
        by "compressed file systems, images, firmware, modules and swap"
        set ["squashfs: mksquashfs -comp", "mount.<mountpoint>.options", "mm.zswap.compressor"]
        next "the caller tells whose data it is; compare bytes decompressed with bytes used";
    ["fuse_simple_request", "__fuse_simple_request", "__fuse_request_send", "request_wait_answer"]
        what "waiting until the program behind a FUSE mount has answered"
        by "every call on that mount that caches do not serve"
        set ["mount.<mountpoint>.options", "fuse: max_background", "fuse: attr_timeout"]
        next "profile the program behind the mount; longer timeouts and writeback_cache make calls rarer";
    ["fuse_readahead", "fuse_send_readpages", "fuse_read_folio", "fuse_file_read_iter", "fuse_cache_read_iter"]
        what "reads on a FUSE mount"
        by "files of that mount that are not cached"
        set ["fuse: max_read", "fuse: max_pages", "mount.<mountpoint>.options"]
        next "compare bytes per request to the program behind it, and whether opening a file drops its cache";
    ["fuse_dev_do_read", "fuse_dev_do_write", "fuse_copy_fill", "fuse_copy_page"]
        what "handing requests and data to the program behind a FUSE mount, and back"
        by "that program's reads and writes of /dev/fuse"
        set ["fuse: max_pages", "fuse: splice_read"]
        next "compare bytes per request; passthrough or a kernel file system saves the copies";
    ["match_exception", "match_exception_partial", "devcgroup_legacy_check_permission", "devcgroup_check_permission"]
        what "comparing a device with the rules of the control group, one by one"
        by "opening device files in a group of version 1 that has many rules in devices.allow or devices.deny"
        set ["docker: --device", "docker: --device-cgroup-rule"]
        next "count the lines of devices.list of the group: a container runtime that adds them again and again leaves thousands";
    ["link_path_walk", "path_lookupat", "path_openat", "walk_component", "lookup_fast", "__d_lookup_rcu", "__d_lookup"]
        what "walking a path, component by component, through cached names"
        by "open, stat, access and other calls that take a path"
        set ["sysctl.vm.vfs_cache_pressure", "mount.<mountpoint>.options"]
        next "count the calls: long search paths (PATH, LD_LIBRARY_PATH, module paths) look for names that do not exist";
    ["lookup_slow", "__lookup_slow", "d_alloc_parallel", "d_alloc"]
        what "asking the file system for a name that is not cached"
        by "first lookups, and names dropped by reclaim"
        set ["sysctl.vm.vfs_cache_pressure", "sysctl.fs.dentry-state"]
        next "compare sysctl.fs.dentry-state, and look for names that are never found";
    ["dput", "lockref_get_not_dead", "lockref_put_return", "lockref_get"]
        what "counting users of a cached name"
        by "many CPUs that open, stat or close under the same directory or file at once"
        set ["mount.<mountpoint>.options", "program: openat"]
        next "the counter's cache line goes from CPU to CPU: see which path they share";
    ["iterate_dir", "filldir64", "dcache_readdir"]
        what "listing a directory"
        by "getdents64"
        set ["sysctl.vm.vfs_cache_pressure", "mount.<mountpoint>.options"]
        next "see how large the directory is and who lists it again and again";
    ["do_dentry_open", "do_filp_open", "alloc_empty_file", "alloc_fd", "expand_files"]
        what "opening a file: its object, its descriptor, the file system's own part"
        by "open, openat, socket, and others that return a descriptor"
        set ["rlimit.nofile", "sysctl.fs.file-max"]
        next "count opens per unit of work; files kept open save it";
    ["__fput", "____fput", "filp_flush", "filp_close", "close_files", "__close_range"]
        what "closing a file: locks, what the file system does at the last close, its object"
        by "close, close_range, and the end of a process"
        set ["rlimit.nofile", "mount.<mountpoint>.options"]
        next "programs that close every possible descriptor after fork pay for a large rlimit.nofile: close_range is one call";
    ["posix_lock_inode", "fcntl_setlk", "flock_lock_inode_wait", "locks_lock_inode_wait", "__break_lease"]
        what "locks of files between processes"
        by "fcntl and flock, and opens of files with leases"
        set ["sqlite: PRAGMA locking_mode", "sysctl.fs.lease-break-time"]
        next "read /proc/locks for who holds it; many locked ranges in one file make each call search longer";
    ["evict", "iput", "dispose_list", "new_inode", "alloc_inode", "inode_sb_list_add"]
        what "making and dropping inodes in memory"
        by "files that are made, deleted or looked at for the first time, and reclaim"
        set ["sysctl.vm.vfs_cache_pressure", "mount.<mountpoint>.options"]
        next "compare sysctl.fs.inode-nr; sockets and pipes have inodes as well";
};
