//! Block devices, network interfaces and open files.

use super::Direction::{LowerIsBetter as LOW, Neutral};
use super::MetricKind::{Counter, Gauge};
use super::Unit::{Bytes, Count, Nanoseconds};
use super::{Group, Member, Unit};

/// A counter that is neither good nor bad.
const fn n(field: &'static str, unit: Unit, help: &'static str) -> Member {
    Member::new(field, Counter, unit, Neutral, help)
}

/// A counter of which less is better.
const fn l(field: &'static str, unit: Unit, help: &'static str) -> Member {
    Member::new(field, Counter, unit, LOW, help)
}

/// `/proc/diskstats`, fields after Documentation/admin-guide/iostats.rst.
#[rustfmt::skip]
pub(super) const DISK: Group = Group {
    prefix: "disk.",
    source: "/proc/diskstats",
    instance: Some("block device, partitions too: leave those out when adding up"),
    note: "Times are kept by the kernel in ms and stored in ns. Discards exist since Linux 4.18, flushes since 5.5.",
    members: &[
        n("reads", Count, "Reads completed."),
        n("reads_merged", Count, "Reads merged into a neighbour before they were issued."),
        n("read_bytes", Bytes, "Bytes read."),
        l("read_ns", Nanoseconds, "Time of all reads added up, waiting in the queue included."),
        n("writes", Count, "Writes completed.").self_inflicted(),
        n("writes_merged", Count, "Writes merged into a neighbour before they were issued.").self_inflicted(),
        n("write_bytes", Bytes, "Bytes written.").self_inflicted(),
        l("write_ns", Nanoseconds, "Time of all writes added up, waiting in the queue included.").self_inflicted(),
        Member::new("in_flight", Gauge, Count, Neutral, "Requests issued and not completed.").self_inflicted(),
        n("busy_ns", Nanoseconds, "Time with at least one request in flight.").self_inflicted(),
        l("weighted_ns", Nanoseconds, "Time multiplied by requests in flight: divided by the requests, the mean time of one.").self_inflicted(),
        n("discards", Count, "Discards completed."),
        n("discards_merged", Count, "Discards merged into a neighbour."),
        n("discard_bytes", Bytes, "Bytes discarded."),
        l("discard_ns", Nanoseconds, "Time of all discards added up."),
        n("flushes", Count, "Flushes completed; not counted for partitions."),
        l("flush_ns", Nanoseconds, "Time of all flushes added up."),
    ],
    rules: &[],
};

/// `/proc/net/dev`.
#[rustfmt::skip]
pub(super) const NET: Group = Group {
    prefix: "net.",
    source: "/proc/net/dev",
    instance: Some("network interface"),
    note: "Of the recorder's own network namespace.",
    members: &[
        n("rx_bytes", Bytes, "Bytes received."),
        n("rx_packets", Count, "Packets received."),
        l("rx_errs", Count, "Packets received in error."),
        l("rx_drop", Count, "Received packets dropped."),
        l("rx_fifo", Count, "Received packets lost to a full buffer."),
        l("rx_frame", Count, "Received packets with a framing error."),
        n("rx_compressed", Count, "Compressed packets received."),
        n("rx_multicast", Count, "Multicast packets received."),
        n("tx_bytes", Bytes, "Bytes sent."),
        n("tx_packets", Count, "Packets sent."),
        l("tx_errs", Count, "Packets sent in error."),
        l("tx_drop", Count, "Packets dropped instead of sent."),
        l("tx_fifo", Count, "Packets not sent for a full buffer."),
        l("tx_colls", Count, "Collisions."),
        l("tx_carrier", Count, "Packets not sent for want of a carrier."),
        n("tx_compressed", Count, "Compressed packets sent."),
    ],
    rules: &[],
};

/// `/proc/sys/fs/file-nr`.
pub(super) const FS: Group = Group {
    prefix: "fs.",
    source: "/proc/sys/fs/file-nr",
    instance: None,
    note: "Open file descriptions of the whole host; the counter behind it is approximate by a few per CPU.",
    members: &[Member::new("file_nr", Gauge, Count, Neutral, "Open files of the host.")],
    rules: &[],
};
