//! What the load generator and the runner of a command measure.

use super::Direction::{HigherIsBetter as HIGH, LowerIsBetter as LOW, Neutral};
use super::MetricKind::{Counter, Gauge, Histogram};
use super::Unit::{Bytes, BytesPerSecond, Count, Nanoseconds, PerSecond};
use super::{Direction, FieldRule, Group, Member, Unit};

/// One value per run, taken as it is.
const fn g(field: &'static str, unit: Unit, direction: Direction, help: &'static str) -> Member {
    Member::new(field, Gauge, unit, direction, help)
}

/// A load of `pagelab run`.
#[rustfmt::skip]
pub(super) const LOAD: Group = Group {
    prefix: "load.",
    source: "pagelab run",
    instance: Some("job/direction: reader/read; null for all jobs together"),
    note: "In the measurement window: ramp and tear-down are left out.",
    members: &[
        Member::new("ops", Counter, Count, HIGH, "Operations done: what the per-operation form of every counter divides by."),
        Member::new("bytes", Counter, Bytes, HIGH, "Bytes moved."),
        g("iops", PerSecond, HIGH, "Operations per second."),
        g("bw_bytes", BytesPerSecond, HIGH, "Bytes moved per second."),
        Member::new("lat_ns", Histogram, Nanoseconds, LOW, "From starting an operation to its end: slat + clat."),
        Member::new("slat_ns", Histogram, Nanoseconds, LOW, "From starting an operation to its having been issued; not defined for synchronous engines."),
        Member::new("clat_ns", Histogram, Nanoseconds, LOW, "From issuing an operation to its end."),
        Member::new("short", Counter, Count, LOW, "Operations that moved fewer bytes than asked."),
        Member::new("errors", Counter, Count, LOW, "Operations that failed."),
    ],
    rules: &[],
};

/// A command of `pagelab record` and of `compare -- 'A' 'B'`.
#[rustfmt::skip]
pub(super) const RUN: Group = Group {
    prefix: "run.",
    source: "wait4 of the command",
    instance: None,
    note: "One value per run: the total over the command and the children it waited for, taken as it is and not as a rate.",
    members: &[
        g("elapsed_ns", Nanoseconds, LOW, "Wall time from just before exec to the end."),
        g("utime_ns", Nanoseconds, LOW, "Time in user mode."),
        g("stime_ns", Nanoseconds, LOW, "Time in the kernel."),
        g("cpu_ns", Nanoseconds, LOW, "Time in user mode and in the kernel."),
        g("minor_faults", Count, LOW, "Page faults answered without a device."),
        g("major_faults", Count, LOW, "Page faults that had to read from a device."),
        g("max_rss_bytes", Bytes, LOW, "Largest resident memory of any one process."),
        g("voluntary_switches", Count, LOW, "Times a task gave up the CPU."),
        g("involuntary_switches", Count, LOW, "Times a task was made to give up the CPU."),
        g("in_blocks", Count, Neutral, "512-byte blocks read from devices."),
        g("out_blocks", Count, Neutral, "512-byte blocks written to devices."),
    ],
    rules: &[],
};

/// Numbers that the command itself prints.
#[rustfmt::skip]
pub(super) const VALUE: Group = Group {
    prefix: "value.",
    source: "the output of the command",
    instance: None,
    note: "One value per run: what `--value NAME=REGEX` (in plans `value.NAME`) finds in the command's output, stored as it was printed. Which way is better is said there, and kept in the manifest's `values`.",
    members: &[],
    rules: &[
        FieldRule::new("", "", Gauge, Count, Neutral, "A number of the user's own, such as transactions per second."),
    ],
};
