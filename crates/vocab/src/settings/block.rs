//! `block.<dev>.*`: the queue of each block device. Meanings follow Documentation/ABI/stable/sysfs-block.

use super::{Companions, Form, SettingDef, settings};

/// Another scheduler gets its own default for the number of requests, throws the old one's tunables away, and bfq
/// switches write-back throttling off (block/elevator.c, block/blk-wbt.c).
const SCHEDULER: Companions =
    Companions::Rewritten(&["block.<dev>.nr_requests", "block.<dev>.wbt_lat_usec", "block.<dev>.iosched.*"]);

/// The scheduler works its depth for asynchronous requests out anew (blk_mq_update_nr_requests, block/blk-mq.c; dd_depth_updated,
/// block/mq-deadline.c).
const DEPTH: Companions = Companions::Rewritten(&["block.<dev>.iosched.async_depth"]);

pub(super) const DEFS: &[SettingDef] = settings! {
    Host "block.<dev>.read_ahead_kb" at "/sys/block/<dev>/queue/read_ahead_kb", High ["readahead", "io", "fs"]
        : "KiB read ahead of a sequential reader of the page cache.";
    Host "block.<dev>.scheduler" at "/sys/block/<dev>/queue/scheduler", High ["io", "writeback"]
        { form: Form::Choice, companions: SCHEDULER } : "I/O scheduler.";
    Host "block.<dev>.nr_requests" at "/sys/block/<dev>/queue/nr_requests", Some ["io", "writeback"]
        { companions: DEPTH } : "Requests that may wait in the scheduler.";
    Host "block.<dev>.max_sectors_kb" at "/sys/block/<dev>/queue/max_sectors_kb", Some ["io", "readahead"]
        : "Largest request that the kernel makes, KiB.";
    Host "block.<dev>.nomerges" at "/sys/block/<dev>/queue/nomerges", Some ["io"] : "0: neighbouring requests are merged; 1: only the cheap cases; 2: never.";
    Host "block.<dev>.rq_affinity" at "/sys/block/<dev>/queue/rq_affinity", Some ["io", "cpu"] : "Which processor completes a request.";
    Host "block.<dev>.rotational" at "/sys/block/<dev>/queue/rotational", Some ["io"] : "Whether the device is taken for a spinning disk.";
    Host "block.<dev>.wbt_lat_usec" at "/sys/block/<dev>/queue/wbt_lat_usec", Some ["writeback", "io"]
        : "Read latency that write-back throttling aims at, us; 0: off.";
    Host "block.<dev>.io_poll" at "/sys/block/<dev>/queue/io_poll", Some ["io", "cpu"] : "Whether completions may be polled for.";
    Host "block.<dev>.io_poll_delay" at "/sys/block/<dev>/queue/io_poll_delay", Low ["io", "cpu"] : "How polling waits (no effect in newer kernels).";
    Host "block.<dev>.iostats" at "/sys/block/<dev>/queue/iostats", Low ["io", "tracing"] : "Whether requests are counted.";
    Host "block.<dev>.iostats_passthrough" at "/sys/block/<dev>/queue/iostats_passthrough", Nil ["io", "tracing"] : "Whether passthrough requests are counted.";
    Host "block.<dev>.add_random" at "/sys/block/<dev>/queue/add_random", Low ["io"] : "Whether completions feed the entropy pool.";
    Host "block.<dev>.write_cache" at "/sys/block/<dev>/queue/write_cache", High ["io", "writeback"]
        : "`write back` or `write through`: whether flushes are sent.";
    Host "block.<dev>.discard_max_bytes" at "/sys/block/<dev>/queue/discard_max_bytes", Low ["io"] : "Largest discard request.";
    Host "block.<dev>.throttle_sample_time" at "/sys/block/<dev>/queue/throttle_sample_time", Low ["io"] : "Window of the blk-throttle controller.";
    Host "block.<dev>.iosched.<name>" at "/sys/block/<dev>/queue/iosched/<name>", Some ["io", "writeback"] : "A tunable of the scheduler in use.";
    ReadOnly "block.<dev>.fua" at "/sys/block/<dev>/queue/fua", Some ["io", "writeback"] : "Whether single writes can be forced to the medium.";
    ReadOnly "block.<dev>.dax" at "/sys/block/<dev>/queue/dax", High ["io", "faults"] : "Whether the device can be mapped directly.";
    ReadOnly "block.<dev>.logical_block_size" at "/sys/block/<dev>/queue/logical_block_size", Some ["io"] : "Smallest unit the device addresses, bytes.";
    ReadOnly "block.<dev>.physical_block_size" at "/sys/block/<dev>/queue/physical_block_size", Some ["io"] : "Smallest unit it writes without reading, bytes.";
    ReadOnly "block.<dev>.max_hw_sectors_kb" at "/sys/block/<dev>/queue/max_hw_sectors_kb", Low ["io"] : "Largest request that the device takes, KiB.";
    ReadOnly "block.<dev>.zoned" at "/sys/block/<dev>/queue/zoned", Some ["io"] : "Zone model.";
    ReadOnly "block.<dev>.made_of" at "the folder /sys/block/<dev>/slaves", Some ["io"] : "Devices below a mapped device or an array.";
    ReadOnly "block.<dev>.mapped_name" at "/sys/block/<dev>/dm/name", Low ["io"] : "Name of a mapped device.";
    ReadOnly "block.<dev>.mapped_uuid" at "/sys/block/<dev>/dm/uuid", Some ["io"] : "Its number; begins with who made it: `LVM-`, `CRYPT-`, `mpath-`.";
    ReadOnly "block.<dev>.raid_level" at "/sys/block/<dev>/md/level", Some ["io"] : "Kind of an array.";
    ReadOnly "block.<dev>.raid_disks" at "/sys/block/<dev>/md/raid_disks", Some ["io"] : "Devices that it spreads over.";
    ReadOnly "block.<dev>.raid_chunk_bytes" at "/sys/block/<dev>/md/chunk_size", Some ["io", "readahead"] : "Bytes on one device before the next one's turn.";
    ReadOnly "block.<dev>.partition.<name>" at "start and size in /sys/block/<dev>/<name>", Some ["io"] : "Where a partition begins and how long it is, sectors of 512 bytes.";
    ReadOnly "block.<dev>.<name>" at "/sys/block/<dev>/queue/<name>", Low ["io"] { catch_all: true } : "Any other figure of the queue that the kernel has.";
};
