//! One direction's counters and histograms while a worker runs.

use crate::histogram::Recorder;
use crate::report::{DirectionResult, Interval, Moments};

/// Counters of a moment, for differences.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    at_ns: u64,
    operations: u64,
    bytes: u64,
}

/// One direction.
#[derive(Default)]
pub struct Side {
    /// Operations completed.
    pub operations: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Short operations.
    pub short: u64,
    /// Completion latency.
    pub clat: Recorder,
    /// Total latency.
    pub lat: Recorder,
    bandwidth_kib: Moments,
    iops: Moments,
    sampled: Mark,
    interval: Mark,
    intervals: Vec<Interval>,
}

impl Side {
    /// Counts an operation.
    #[inline(always)]
    pub fn count(&mut self, bytes: u32) {
        self.operations += 1;
        self.bytes += u64::from(bytes);
    }

    /// Forgets everything; what follows counts from `now_ns`.
    pub fn restart(&mut self, now_ns: u64) {
        self.clat.reset();
        self.lat.reset();
        let (clat, lat) = (std::mem::take(&mut self.clat), std::mem::take(&mut self.lat));
        let mark = Mark { at_ns: now_ns, operations: 0, bytes: 0 };
        *self = Self { clat, lat, sampled: mark, interval: mark, ..Self::default() };
    }

    /// Takes a sample of the rates since the last one.
    pub fn sample(&mut self, now_ns: u64) {
        let seconds = now_ns.saturating_sub(self.sampled.at_ns) as f64 / 1e9;
        // A direction that does nothing has no rate worth a sample, as in fio.
        if seconds > 0.0 && self.operations > self.sampled.operations {
            self.iops.add((self.operations - self.sampled.operations) as f64 / seconds);
            self.bandwidth_kib.add((self.bytes - self.sampled.bytes) as f64 / 1024.0 / seconds);
        }
        self.sampled = self.mark(now_ns);
    }

    /// Closes the interval that is being filled.
    pub fn close_interval(&mut self, now_ns: u64) {
        let operations = self.operations - self.interval.operations;
        if operations > 0 {
            self.intervals.push(Interval {
                start_ns: self.interval.at_ns,
                end_ns: now_ns,
                operations,
                bytes: self.bytes - self.interval.bytes,
                clat: self.clat.flush(),
                lat: self.lat.flush(),
            });
        }
        self.interval = self.mark(now_ns);
    }

    fn mark(&self, now_ns: u64) -> Mark {
        Mark { at_ns: now_ns, operations: self.operations, bytes: self.bytes }
    }

    /// The finished figures.
    pub fn finish(&mut self, now_ns: u64) -> DirectionResult {
        self.close_interval(now_ns);
        DirectionResult {
            operations: self.operations,
            bytes: self.bytes,
            short_operations: self.short,
            slat: None,
            clat: self.clat.finish(),
            lat: self.lat.finish(),
            bandwidth_kib: self.bandwidth_kib,
            iops: self.iops,
            intervals: std::mem::take(&mut self.intervals),
        }
    }
}
