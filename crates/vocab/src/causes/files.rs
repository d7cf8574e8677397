//! Causes in files and block devices.

use super::{CauseDef, EventCost};

/// Where the cost of smaller reads shows.
const OF_READS: &[&str] = &[
    "off.read",
    "off.block_queue",
    "run.file.fetch",
    "run.file.read",
    "run.block.",
    "run.interrupt",
    "run.task.switch",
];

/// Where the cost of making data safe shows.
const OF_SYNCING: &[&str] = &[
    "off.flush",
    "off.journal",
    "off.write_back",
    "run.file.journal",
    "run.file.writeback",
    "run.block.",
    "off.block_queue",
];

/// In the order of the documentation.
pub(super) const CAUSES: &[CauseDef] = &[
    CauseDef {
        id: "readahead.reduced",
        title: "files are read ahead in smaller pieces than before",
        topics: &["readahead", "io"],
        settings: &["block.<dev>.read_ahead_kb", "block.<dev>.max_sectors_kb", "sysctl.vm.page-cluster"],
        help: "Sequential reads reach the device in more and smaller requests, and the reader waits for each. It needs a \
               lower bytes-per-request figure on the device that holds the file at the same bytes per operation. It is \
               refuted by random access, by reads served from the page cache, and by O_DIRECT, which read-ahead never \
               touches.",
        event: EventCost {
            what: "read request",
            least_ns: None,
            most_ns: None,
            most_ns_per_kib: 0,
            most_own_ns: None,
            source: "disk.read_ns, which the kernel adds up over the requests of the device",
        },
        components: OF_READS,
    },
    CauseDef {
        id: "readahead.lost",
        title: "files are read ahead less, by what the program does",
        topics: &["readahead", "io"],
        settings: &["block.<dev>.read_ahead_kb"],
        help: "Read-ahead follows the pattern of the reads: random reads, POSIX_FADV_RANDOM, MADV_RANDOM and files in \
               small fragments lose it, whatever the device's limit. It needs smaller and more requests. It is refuted \
               by a limit that is smaller, which is readahead.reduced.",
        event: EventCost::measured("read request"),
        components: OF_READS,
    },
    CauseDef {
        id: "file.fragmented",
        title: "a file lies on its device in more pieces",
        topics: &["io", "readahead", "fs"],
        settings: &["file.<path>.extents"],
        help: "A request cannot go past the end of a piece of the file (an extent), so more and smaller requests move the \
               same bytes, and read-ahead waits for each. It needs a file that is open on both sides and has more pieces \
               on the slower one, and smaller requests. A file in use is defragmented by writing it anew.",
        event: EventCost::measured("request"),
        components: OF_READS,
    },
    CauseDef {
        id: "io.smaller_requests",
        title: "reads and writes move fewer bytes each",
        topics: &["io", "fs"],
        settings: &[],
        help: "Each call has a price of its own: entering the kernel, looking up the file, the lock of the inode. It \
               needs more read and write calls (target.io.syscr, syscw) for the same bytes (rchar, wchar), or, through \
               io_uring and aio past the page cache, which are not counted as calls, more requests of the device.",
        event: EventCost::at_most(
            "read or write call",
            50_000_000,
            "a call that waits for a spinning disk; in the program itself 100 us, for what an interpreter does around it",
        )
        .own_at_most(100_000),
        components: &[
            "run.call.",
            "run.file.",
            "run.uring",
            "off.direct_io",
            "off.async_io",
            "off.read",
            "off.write_back",
            "run.block.",
            "off.block_queue",
            "run.task.switch",
            "run.user",
        ],
    },
    CauseDef {
        id: "reads.more",
        title: "the program reads more from files that are in the page cache",
        topics: &["io", "memory"],
        settings: &[],
        help: "What a program does not keep it reads again, and each read copies from the page cache: a cache of its own that is \
               too small (SQLite's cache_size, PostgreSQL's shared_buffers, InnoDB's buffer pool) shows as more bytes read \
               by calls (target.io.rchar) for the same work. It needs more time in copies from the page cache. Reads from \
               the device are not counted here.",
        event: EventCost::measured("byte read"),
        components: &["run.file.read"],
    },
    CauseDef {
        id: "io.direct",
        title: "reads and writes go past the page cache",
        topics: &["io", "memory"],
        settings: &[],
        help: "With O_DIRECT each call waits for the device, where the cache would have served it or taken it up. It \
               needs time in direct I/O in place of time in the page cache.",
        event: EventCost::measured("direct read or write"),
        components: &[
            "off.direct_io",
            "run.file.direct",
            "run.block.",
            "off.block_queue",
            "off.async_io",
            "run.interrupt",
            "run.task.switch",
        ],
    },
    CauseDef {
        id: "write.partial",
        title: "pages are read from the device before a part of them is written",
        topics: &["io", "memory"],
        settings: &[],
        help: "A write of less than a page, or of less than a block, to a page that is not in the page cache first reads what is \
               around it, and the writer waits for the device. It needs time waiting for reads in calls that write. Writes of whole \
               pages at page boundaries, or pages that are cached, do without.",
        event: EventCost::measured("page read for a write"),
        components: &[
            "off.read",
            "run.file.write",
            "run.file.fetch",
            "run.block.",
            "off.block_queue",
            "run.interrupt",
            "run.task.switch",
        ],
    },
    CauseDef {
        id: "journal.full",
        title: "changes of files wait until the journal has room",
        topics: &["fs", "io", "writeback"],
        settings: &[],
        help: "A journaling file system writes each change of metadata to its journal first. Where that is full, whoever changes \
               anything next waits until old blocks are written to their places (jbd2_log_do_checkpoint, xlog_grant_head_wait). A \
               journal that is small (mkfs.ext4 -J size=, mkfs.xfs -l size=), a slower device, or more changes of metadata bring it \
               about. It needs time waiting there.",
        event: EventCost::measured("wait for room in the journal"),
        components: &["off.journal", "off.flush", "off.write_back", "off.read", "off.block_queue", "run.file.journal", "run.block."],
    },
    CauseDef {
        id: "data.compressed",
        title: "the kernel compresses or decompresses data",
        topics: &["fs", "cpu", "swap"],
        settings: &["mount.<mountpoint>.options", "mm.zswap.compressor"],
        help: "Contents of files and pages that are swapped are kept compressed: squashfs, EROFS, btrfs, zram, zswap. It needs more time in \
               the functions that compress or decompress, in reading, in writing back, or in waiting for the one who does.",
        event: EventCost::measured("block"),
        components: &["run.file.", "run.memory.", "run.block.", "run.other", "run.task.lock", "off.read", "off.kernel_lock"],
    },
    CauseDef {
        id: "overlay.copy_up",
        title: "files of a lower layer are copied before they are changed",
        topics: &["fs", "io", "writeback"],
        settings: &[],
        help: "An overlay, as containers have it, keeps the files of its lower layers as they are. The first open of such a file for \
               writing, and the first change of its owner, mode or name, copies it to the upper layer, with all that is in it unless \
               metacopy=on, and waits until the copy is safe. It needs more time in those copies (ovl_copy_up_flags). What is changed \
               later, and files that are made in the upper layer, cost nothing of that.",
        event: EventCost::measured("copy of a file"),
        components: &[
            "off.flush",
            "off.write_back",
            "off.journal",
            "off.read",
            "off.block_queue",
            "off.dirty_throttling",
            "off.other",
            "run.file.",
            "run.memory.",
            "run.block.",
            "run.other",
        ],
    },
    CauseDef {
        id: "sync.more",
        title: "data are flushed to the device more often",
        topics: &["io", "writeback", "fs"],
        settings: &["mount.<mountpoint>.options", "sysctl.vm.dirty_expire_centisecs"],
        help: "fsync, fdatasync, O_SYNC and msync wait until data are on the medium, mostly by a flush of the device's \
               cache. It needs more flushes (disk.flushes) at about the price of the other side, or, where the device has no \
               cache to flush and with sync_file_range, more writes of the device and waiting for them.",
        event: EventCost::at_most(
            "flush",
            1_000_000_000,
            "a flush of a spinning disk with a full cache takes up to a second",
        ),
        components: OF_SYNCING,
    },
    CauseDef {
        id: "sync.dearer",
        title: "each flush of the device takes longer",
        topics: &["io", "writeback", "fs"],
        settings: &[
            "block.<dev>.write_cache",
            "block.<dev>.fua",
            "mount.<mountpoint>.options",
            "block.<dev>.wbt_lat_usec",
        ],
        help: "The same number of flushes waits longer: a volatile write cache where there was none, data=journal, \
               other writes in the queue, a slower device. It needs a longer mean time of a flush (disk.flush_ns / \
               disk.flushes).",
        event: EventCost::measured("flush"),
        components: OF_SYNCING,
    },
    CauseDef {
        id: "writeback.throttled",
        title: "writers are held back until dirty pages are written",
        topics: &["writeback", "io", "memory"],
        settings: &[
            "sysctl.vm.dirty_ratio",
            "sysctl.vm.dirty_bytes",
            "sysctl.vm.dirty_background_ratio",
            "sysctl.vm.dirty_background_bytes",
        ],
        help: "Above the dirty threshold each write waits in balance_dirty_pages at the pace of the device. It needs \
               time waiting there.",
        event: EventCost::measured("wait for dirty pages"),
        components: &["off.dirty_throttling", "run.file.writeback", "off.write_back"],
    },
    CauseDef {
        id: "writeback.in_the_way",
        title: "reads wait behind writes of the same device",
        topics: &["io", "writeback"],
        settings: &["block.<dev>.wbt_lat_usec", "block.<dev>.scheduler"],
        help: "Write-back fills the device's queue and its cache; a read that comes meanwhile waits behind it. It \
               needs longer reads of the same size while more is written. A scheduler that shares the device among \
               processes (bfq) serves reads meanwhile; write-back throttling (block.<dev>.wbt_lat_usec) is meant to, and \
               holds back buffered writes only.",
        event: EventCost::measured("read"),
        components: &["off.read", "off.direct_io", "off.block_queue", "off.async_io"],
    },
    CauseDef {
        id: "block.queue_settings",
        title: "a setting of the device's queue holds requests back",
        topics: &["io"],
        settings: &[
            "block.<dev>.scheduler",
            "block.<dev>.nr_requests",
            "block.<dev>.nomerges",
            "block.<dev>.rq_affinity",
            "block.<dev>.iosched.<name>",
            "block.<dev>.max_sectors_kb",
            "block.<dev>.io_poll",
        ],
        help: "The scheduler, the number of requests and the rules of merging decide how long a request waits before \
               the device has it. It needs more time waiting for the device and one of these settings changed.",
        event: EventCost::measured("request"),
        components: &[
            "off.block_queue",
            "off.read",
            "off.direct_io",
            "off.write_back",
            "off.flush",
            "off.async_io",
            "off.journal",
            "run.block.",
            "run.file.direct",
            "run.file.async",
        ],
    },
    CauseDef {
        id: "device.other",
        title: "the target's files lie on another device, which takes longer",
        topics: &["io"],
        settings: &[],
        help: "The devices that the target's own files lie on are known from its calls. Where the sides work on two, and a request of \
               the one takes longer than of the other, comparing anything else of the two devices says nothing. It needs longer \
               requests and waiting for the device.",
        event: EventCost::measured("request"),
        components: &[
            "off.read",
            "off.direct_io",
            "off.block_queue",
            "off.async_io",
            "off.write_back",
            "off.flush",
            "off.journal",
        ],
    },
    CauseDef {
        id: "device.slower",
        title: "the device takes longer for the same requests",
        topics: &["io"],
        settings: &["block.<dev>.io_poll"],
        help: "Requests of the same size and number take longer (disk.read_ns / disk.reads): another device, a \
               neighbour on it, a deeper queue, wear. It is refuted by larger requests; settings of the queue, limits \
               and write-back explain it better where they differ.",
        event: EventCost::measured("request"),
        components: &["off.read", "off.direct_io", "off.block_queue", "off.async_io", "off.write_back"],
    },
    CauseDef {
        id: "cgroup.io_limit",
        title: "the control group's share of the device is limited",
        topics: &["io", "limits"],
        settings: &["cgroup.io.max", "cgroup.io.weight", "cgroup.io.latency", "cgroup.io.bfq.weight"],
        help: "Above io.max requests of the group wait before they enter the queue; weights and io.latency do the same \
               while others use the device. It needs more time waiting for the device and a limit that differs.",
        event: EventCost::measured("request held back"),
        components: &[
            "off.read",
            "off.direct_io",
            "off.write_back",
            "off.flush",
            "off.journal",
            "off.block_queue",
            "off.async_io",
            "off.dirty_throttling",
            "off.swap",
        ],
    },
    CauseDef {
        id: "mount.changed",
        title: "the file system is mounted in another way",
        topics: &["fs", "io", "writeback"],
        settings: &["mount.<mountpoint>.options", "mount.<mountpoint>.fs"],
        help: "sync and dirsync make each change wait for the medium, data=journal writes it twice, strictatime writes \
               at each read, discard sends a discard for each block given back. It needs time in these and the option \
               on the slower side.",
        event: EventCost::measured("change of a file"),
        components: &[
            "off.flush",
            "off.journal",
            "off.write_back",
            "off.discard",
            "off.direct_io",
            "off.block_queue",
            "run.file.",
            "run.block.",
        ],
    },
];
