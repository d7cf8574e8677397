//! The block layer, and the devices below it: NVMe, virtio, SCSI, device mapper, loop, md.

pub(super) const PLACES: &[super::Place] = places! {
    ["blk_mq_get_tag", "__blk_mq_alloc_requests", "blk_mq_get_new_requests"]
        what "waiting for one of the numbered places (tags) that a queue has for its requests"
        by "more requests in flight than the queue of the device or the scheduler admits"
        set ["block.<dev>.nr_requests", "block.<dev>.scheduler", "program: iodepth"]
        next "compare requests in flight with nr_requests, and the latency of the device under that load";
    ["blk_mq_submit_bio", "submit_bio_noacct", "submit_bio_noacct_nocheck", "blk_mq_insert_request", "blk_mq_insert_requests"]
        what "making a request of a piece of I/O and putting it into a queue"
        by "each read or write that reaches a device"
        set ["block.<dev>.scheduler", "block.<dev>.nomerges", "block.<dev>.iostats"]
        next "compare requests per unit of work and their size";
    ["blk_mq_dispatch_rq_list", "__blk_mq_sched_dispatch_requests", "blk_mq_run_hw_queue", "blk_mq_run_work_fn", "blk_mq_try_issue_directly"]
        what "handing queued requests to the driver"
        by "submitting, and again when the device has room"
        set ["block.<dev>.scheduler", "block.<dev>.nr_requests"]
        next "the driver's own function is below it; much time beside it is the scheduler's";
    ["blk_mq_flush_plug_list", "__blk_flush_plug", "blk_finish_plug"]
        what "sending the requests that a task has collected"
        by "the end of a batch of I/O, and a task that goes to sleep"
        set ["block.<dev>.scheduler", "block.<dev>.nomerges"]
        next "compare requests per batch: larger batches cost less per request";
    ["blk_attempt_plug_merge", "blk_mq_sched_bio_merge", "blk_mq_sched_try_merge", "elv_merge", "blk_attempt_bio_merge", "bfq_bio_merge", "dd_bio_merge"]
        what "trying to join I/O with a request that is not sent yet"
        by "small pieces of I/O that lie beside each other"
        set ["block.<dev>.nomerges", "block.<dev>.scheduler", "block.<dev>.max_sectors_kb"]
        next "compare merges in /proc/diskstats: for random I/O the search finds nothing and nomerges=2 saves it";
    ["bio_split_rw", "bio_split_to_limits", "__bio_split_to_limits", "bio_split", "bio_submit_split"]
        what "cutting I/O into pieces that the device takes"
        by "I/O larger than the limits of the device, or with more scattered pages"
        set ["block.<dev>.max_sectors_kb", "block.<dev>.max_hw_sectors_kb", "thp.enabled"]
        next "compare the size of requests with max_sectors_kb; buffers in huge pages need fewer segments";
    ["bfq_insert_requests", "bfq_dispatch_request", "bfq_select_queue", "bfq_finish_requeue_request"]
        what "the scheduler BFQ: sharing the device between tasks, under one lock"
        by "each request on a device with BFQ"
        set ["block.<dev>.scheduler", "block.<dev>.iosched.<name>", "cgroup.io.bfq.weight"]
        next "on fast devices compare with the scheduler none or mq-deadline; BFQ may let the device idle to be fair";
    ["dd_insert_requests", "dd_dispatch_request", "dd_finish_request"]
        what "the scheduler mq-deadline: sorting requests by place and age"
        by "each request on a device with mq-deadline"
        set ["block.<dev>.scheduler", "block.<dev>.iosched.<name>", "task.io_priority"]
        next "writes may wait behind reads (writes_starved); compare with none on devices that do not seek";
    ["kyber_bio_merge", "kyber_dispatch_request", "kyber_insert_requests", "kyber_get_domain_token"]
        what "the scheduler kyber: holding requests back to keep latencies near its targets"
        by "each request on a device with kyber"
        set ["block.<dev>.scheduler", "block.<dev>.iosched.<name>"]
        next "compare read_lat_nsec and write_lat_nsec with what the device can do";
    ["__blk_throtl_bio", "blk_throtl_bio", "throtl_pending_timer_fn", "blk_throtl_dispatch_work_fn", "tg_may_dispatch", "tg_dispatch_time"]
        what "holding I/O back to the limits of its cgroup"
        by "more bytes or operations per second than io.max allows"
        set ["cgroup.io.max", "block.<dev>.throttle_sample_time"]
        next "compare the cgroup's io.stat with io.max";
    ["wbt_wait", "rq_qos_wait", "__rq_qos_throttle", "wbt_inflight_cb"]
        what "holding writes back so that reads stay fast, or waiting for another limit on requests"
        by "write-back on devices whose reads take longer than the target"
        set ["block.<dev>.wbt_lat_usec", "kconfig.BLK_WBT_MQ", "cgroup.io.latency"]
        next "set wbt_lat_usec=0 and compare; fast writers without readers lose by it";
    ["ioc_rqos_throttle", "ioc_timer_fn", "iocg_kick_waitq"]
        what "holding I/O back by its share of the device (io.cost)"
        by "cgroups that use more of a busy device than their weight gives them"
        set ["cgroup.io.weight", "cgroup: io.cost.qos", "cgroup: io.cost.model"]
        next "compare io.stat (cost.usage) of the cgroups, and whether the model fits the device";
    ["blkcg_iolatency_throttle", "blkcg_iolatency_done_bio", "blkcg_maybe_throttle_current", "blkcg_maybe_throttle_blkg"]
        what "delays for cgroups that disturb others' I/O"
        by "another cgroup with io.latency that misses its target"
        set ["cgroup.io.latency", "cgroup.io.weight"]
        next "find which cgroup has the target, and compare its io.stat";
    ["blk_mq_end_request", "blk_update_request", "blk_mq_complete_request", "blk_mq_end_request_batch", "blk_done_softirq", "bio_endio"]
        what "ending requests: telling the file system, waking those who wait"
        by "each request that the device has done, in an interrupt or a softirq"
        set ["block.<dev>.rq_affinity", "irq.<irq>.affinity", "block.<dev>.io_poll"]
        next "see which CPU does it: rq_affinity and the interrupt's affinity decide, and one CPU may be full";
    ["blk_mq_poll", "bio_poll", "blk_hctx_poll", "iocb_bio_iopoll"]
        what "asking the device again and again whether a request is done"
        by "polled I/O (RWF_HIPRI, IORING_SETUP_IOPOLL)"
        set ["block.<dev>.io_poll", "nvme: poll_queues", "io_uring: IORING_SETUP_IOPOLL"]
        next "it takes a CPU to save an interrupt: compare latency and CPU time per operation";
    ["blk_mq_requeue_work", "blk_mq_requeue_request", "blk_mq_delay_run_hw_queue"]
        what "putting requests back because the device could not take them"
        by "full queues of the device or the bus, and errors"
        set ["block.<dev>.nr_requests", "block.<dev>.scheduler"]
        next "see the kernel's log for errors, and compare the depth of the device with nr_requests";
    ["blk_queue_enter", "__bio_queue_enter", "blk_mq_freeze_queue_wait", "blk_mq_quiesce_queue"]
        what "waiting while a queue is frozen, or until it is"
        by "changes of a queue's settings, of its scheduler, of partitions or device-mapper tables"
        set ["block.<dev>.scheduler", "block.<dev>.nr_requests", "block.<dev>.wbt_lat_usec"]
        next "find what wrote to /sys/block/DEV/queue at that time (udev, tuned, multipath)";
    ["blk_insert_flush", "blk_flush_complete_seq", "mq_flush_data_end_io"]
        what "turning a write that must be safe into flushes and the write"
        by "fsync and journal commits on devices with a volatile cache"
        set ["block.<dev>.write_cache", "block.<dev>.fua"]
        next "a device that supports fua needs no flush after the write; compare flushes per sync";
    ["blk_ioctl_discard", "blkdev_common_ioctl"]
        what "discarding blocks of a device, or having them read as zeroes, and waiting for that"
        by "ioctl(2) with BLKDISCARD, BLKSECDISCARD or BLKZEROOUT on a block device: blkdiscard, mkfs, thin provisioning"
        set ["block.<dev>.discard_max_bytes", "mount.<mountpoint>.options"]
        next "count discards and their bytes (disk.discards, disk.discard_bytes): larger ranges need fewer requests";
    ["blkdev_issue_discard", "__blkdev_issue_discard", "blkdev_issue_zeroout", "ext4_trim_fs", "xfs_ioc_trim", "btrfs_trim_fs"]
        what "telling the device that blocks are unused, or that they are to read as zeroes"
        by "fstrim, the mount option discard, mkfs, hole punching"
        set ["block.<dev>.discard_max_bytes", "mount.<mountpoint>.options"]
        next "compare discards in /proc/diskstats with the time of slow I/O; run fstrim at quiet times";
    ["__blkdev_direct_IO_simple", "__blkdev_direct_IO_async", "blkdev_direct_IO", "__blkdev_direct_IO"]
        what "direct I/O on a block device"
        by "programs that open the device itself with O_DIRECT"
        set ["block.<dev>.logical_block_size", "block.<dev>.max_sectors_kb", "program: iodepth"]
        next "look below it: pinning the buffer, tags, or the device";
    ["__iomap_dio_rw", "iomap_dio_rw", "iomap_dio_bio_iter", "iomap_dio_iter", "iomap_dio_complete"]
        what "direct I/O on a file: mapping ranges to blocks and sending them"
        by "reads and writes with O_DIRECT on ext4, XFS and others"
        set ["mount.<mountpoint>.options", "file.<path>.extents", "program: O_DIRECT"]
        next "compare requests per call: fragmented files and small buffers need several";
    ["inode_dio_wait", "inode_dio_finished"]
        what "waiting until direct I/O on a file is done"
        by "truncate, hole punching, and writes that need the file for themselves"
        set ["program: O_DIRECT", "program: fallocate"]
        next "see which call changes the file while others write to it: preallocate instead of growing";
    ["io_schedule", "io_schedule_timeout", "blk_io_schedule"]
        what "sleeping until I/O is done; it says how a task waits, and not for what"
        by "every wait that the kernel counts as I/O"
        set ["block.<dev>.scheduler", "sysctl.kernel.task_delayacct"]
        next "the functions above it tell what is waited for";
    ["nvme_queue_rq", "nvme_queue_rqs", "nvme_prep_rq", "nvme_map_data", "nvme_setup_cmd"]
        what "writing a command to an NVMe device's queue"
        by "each request to it"
        set ["block.<dev>.scheduler", "cmdline.iommu", "cmdline.swiotlb", "nvme: sgl_threshold"]
        next "time in mapping (dma_map_*, iommu_*) is the IOMMU's; else compare requests per unit of work";
    ["nvme_irq", "nvme_poll", "nvme_poll_cq", "nvme_process_cq", "nvme_pci_complete_batch", "nvme_complete_rq"]
        what "taking ended commands from an NVMe device"
        by "its interrupts, or polling"
        set ["irq.<irq>.affinity", "nvme: poll_queues", "nvme: use_threaded_interrupts"]
        next "see interrupts per operation, and whether all go to one CPU";
    ["nvme_submit_sync_cmd", "__nvme_submit_sync_cmd", "nvme_execute_rq"]
        what "waiting for a management command of an NVMe device"
        by "monitoring (smartctl, nvme-cli), opening and scanning devices"
        set ["nvme: admin_timeout", "smartd: -i"]
        next "find who asks the device for its state how often";
    ["virtio_queue_rq", "virtio_queue_rqs", "virtblk_prep_rq", "virtqueue_add_sgs", "virtqueue_add_split", "virtqueue_add_packed"]
        what "putting a request into the queue of a virtual device"
        by "each request of a guest to a virtio disk"
        set ["block.<dev>.scheduler", "qemu: num-queues", "qemu: queue-size"]
        next "compare requests per unit of work and the number of queues with the CPUs";
    ["virtqueue_notify", "vp_notify", "vm_notify", "virtqueue_kick", "virtqueue_kick_prepare"]
        what "telling the hypervisor that there are requests: the guest leaves its CPU for it"
        by "each batch of requests to a virtual device"
        set ["qemu: iothread", "qemu: ioeventfd", "block.<dev>.nomerges"]
        next "larger batches need fewer; the time is the hypervisor's, so look at the host";
    ["virtblk_done", "vring_interrupt", "vp_interrupt", "vm_interrupt", "virtblk_poll", "virtblk_request_done", "virtblk_complete_batch"]
        what "taking ended requests from a virtual disk"
        by "its interrupts, or polling"
        set ["irq.<irq>.affinity", "qemu: num-queues", "virtio_blk: poll_queues"]
        next "compare interrupts per operation, and which CPU takes them";
    ["scsi_queue_rq", "scsi_dispatch_cmd", "scsi_io_completion", "scsi_complete", "sd_init_command"]
        what "the SCSI layer: commands for SATA, SAS and many virtual disks"
        by "each request to such a device"
        set ["block.<dev>.nr_requests", "block.<dev>.scheduler", "scsi: queue_depth"]
        next "compare queue_depth of the device with requests in flight";
    ["dm_submit_bio", "dm_split_and_process_bio", "__map_bio", "clone_endio"]
        what "passing I/O through device mapper to the devices below"
        by "LVM, multipath, dm-crypt, dm-thin and others"
        set ["block.<dev>.made_of", "lvm: stripes", "lvm: --chunksize"]
        next "compare the same I/O on the device below; thin volumes also look blocks up and allocate them";
    ["crypt_convert", "kcryptd_crypt", "kcryptd_crypt_write_convert", "kcryptd_io_read_work", "dmcrypt_write", "crypt_map"]
        what "encrypting or decrypting blocks of a disk"
        by "reads and writes on dm-crypt (LUKS)"
        set ["cryptsetup: --perf-no_read_workqueue", "cryptsetup: --perf-no_write_workqueue", "cryptsetup: --sector-size"]
        next "compare 'cryptsetup benchmark' with the throughput; the two no_workqueue options cut latency on fast devices";
    ["loop_queue_rq", "loop_process_work", "loop_workfn", "lo_rw_aio", "loop_handle_cmd", "do_req_filebacked"]
        what "turning requests to a loop device into reads and writes of its file"
        by "mounted images, snaps, test file systems"
        set ["losetup: --direct-io", "losetup: --sector-size", "block.<dev>.scheduler"]
        next "without direct I/O the contents are cached twice; look at the file system below";
    ["md_submit_bio", "md_handle_request", "raid0_make_request", "md_write_start", "md_flush_request"]
        what "passing I/O through a software RAID"
        by "reads and writes on /dev/md*"
        set ["block.<dev>.raid_level", "block.<dev>.raid_chunk_bytes", "mdadm: --bitmap"]
        next "compare each member's requests; a resync or check takes its share (/proc/mdstat)";
    ["raid1_write_request", "raid1_make_request", "raid10_make_request", "wait_barrier", "_wait_barrier", "raise_barrier"]
        what "writing to all mirrors, or waiting for a resync to pass"
        by "writes on RAID 1 and 10"
        set ["sysctl.dev.raid.speed_limit_max", "mdadm: --bitmap", "mdadm: --write-mostly"]
        next "see /proc/mdstat for a resync; the slowest mirror decides for writes";
    ["raid5_make_request", "raid5_get_active_stripe", "handle_stripe", "raid5d", "ops_run_io", "raid_run_ops"]
        what "stripes of RAID 5 and 6: reading what is missing, parity, writing"
        by "writes, most of all those that cover only a part of a stripe"
        set ["md: stripe_cache_size", "md: group_thread_cnt", "block.<dev>.raid_chunk_bytes"]
        next "compare reads of the members while the program only writes: partial stripes; align and enlarge the writes";
    ["md_bitmap_startwrite", "bitmap_startwrite", "md_bitmap_unplug", "bitmap_unplug", "md_super_write", "md_super_wait"]
        what "noting in the array's bitmap which regions are being written, before they are"
        by "writes to regions that were clean"
        set ["mdadm: --bitmap", "mdadm: --bitmap-chunk"]
        next "a larger bitmap chunk, or a bitmap on another device, needs fewer of these writes";
    ["pmem_submit_bio", "pmem_do_write", "pmem_do_read", "brd_submit_bio", "brd_do_bvec", "brd_rw_bvec", "null_queue_rq"]
        what "a device in memory: the copy is the I/O"
        by "reads and writes on pmem, brd and null_blk devices"
        set ["mount.<mountpoint>.options", "block.<dev>.dax"]
        next "for file systems on pmem compare with DAX, which leaves the page cache out";
};
