//! Causes in memory that runs short: reclaim, limits, the page cache, swap.

use super::{CauseDef, EventCost};

/// In the order of the documentation.
pub(super) const CAUSES: &[CauseDef] = &[
    CauseDef {
        id: "reclaim.direct",
        title: "tasks free memory themselves because the host runs short",
        topics: &["reclaim", "memory"],
        settings: &[
            "sysctl.vm.min_free_kbytes",
            "sysctl.vm.watermark_scale_factor",
            "sysctl.vm.watermark_boost_factor",
            "sysctl.vm.zone_reclaim_mode",
            "mm.lru_gen.enabled",
            "sysctl.vm.vfs_cache_pressure",
        ],
        help: "Below the low watermark an allocation frees pages itself (vmstat.allocstall_*) instead of leaving it to \
               kswapd. It needs more of these stalls. It is refuted by a control group's limit, which has events of \
               its own.",
        event: EventCost::at_most(
            "stall in reclaim",
            1_000_000_000,
            "a task waits at most HZ/10 in reclaim_throttle, several times over, mm/vmscan.c",
        ),
        components: &["run.memory.reclaim", "run.memory.lru", "off.reclaim", "run.memory.compact"],
    },
    CauseDef {
        id: "cgroup.memory_limit",
        title: "the memory limit of the control group is reached",
        topics: &["reclaim", "memory", "limits", "swap"],
        settings: &["cgroup.memory.max", "cgroup.memory.high", "cgroup.memory.max.effective", "cgroup.memory.swap.max"],
        help: "At memory.max an allocation of the group frees pages of the group first, at memory.high it is slowed \
               down as well; what is freed is read or swapped in again. It needs more events of these limits \
               (cgroup.memory.max_events, high_events).",
        event: EventCost::measured("allocation at the limit"),
        components: &[
            "off.memory_cgroup",
            "run.memory.",
            "off.reclaim",
            "off.swap",
            "off.read",
            "off.block_queue",
            "run.fault.",
            "run.file.fetch",
            "run.block.",
        ],
    },
    CauseDef {
        id: "cache.refaults",
        title: "files that were just dropped from the page cache are read again",
        topics: &["reclaim", "io", "memory"],
        settings: &["sysctl.vm.swappiness", "mm.lru_gen.enabled", "cgroup.memory.low"],
        help: "Pages that come back soon after they were dropped count as refaults (vmstat.workingset_refault_file): \
               the cache is smaller than what is in use. It needs more of these and more bytes from the device.",
        event: EventCost::at_most("page read again", 50_000_000, "a read of a spinning disk under load"),
        components: &[
            "off.read",
            "off.block_queue",
            "run.file.fetch",
            "run.block.",
            "run.memory.reclaim",
            "run.memory.lru",
            "off.reclaim",
        ],
    },
    CauseDef {
        id: "cache.cold",
        title: "files are read from the device instead of the page cache",
        topics: &["io", "memory", "readahead"],
        settings: &["sysctl.vm.drop_caches"],
        help: "The program reads the same bytes (target.io.rchar), and more of them come from the device: the cache \
               was dropped, the file is new, or the program advises POSIX_FADV_DONTNEED. It is refuted by refaults, \
               which mean that the cache is too small, and by more bytes that the program reads.",
        event: EventCost::measured("byte from the device"),
        components: &["off.read", "off.block_queue", "run.file.fetch", "run.block.", "run.interrupt"],
    },
    CauseDef {
        id: "swap.traffic",
        title: "memory is fetched from swap",
        topics: &["swap", "reclaim", "memory"],
        settings: &[
            "sysctl.vm.swappiness",
            "mm.swaps",
            "cgroup.memory.swap.max",
            "cgroup.memory.swappiness",
            "sysctl.vm.page-cluster",
        ],
        help: "A fault on a page that was swapped out waits for the swap device (vmstat.pswpin). It needs more pages \
               from swap.",
        event: EventCost::at_most("page from swap", 50_000_000, "a read of a spinning disk under load"),
        components: &[
            "off.swap",
            "run.memory.swap",
            "off.reclaim",
            "run.memory.reclaim",
            "run.fault.entry",
            "run.block.",
            "off.block_queue",
        ],
    },
    CauseDef {
        id: "zswap.traffic",
        title: "memory is compressed and decompressed by zswap",
        topics: &["swap", "reclaim", "cpu"],
        settings: &["mm.zswap.enabled", "mm.zswap.<name>", "cgroup.memory.zswap.max"],
        help: "zswap keeps pages that would be swapped out compressed in memory; each use takes a fault and the time \
               to decompress it (vmstat.zswpin). It needs more of these.",
        event: EventCost::at_most("page decompressed", 100_000, "3 us (lz4) to 30 us (zstd, deflate) for 4 KiB"),
        components: &["run.memory.swap", "off.swap", "run.memory.reclaim", "run.fault.entry"],
    },
];
