//! One direction's counters and histograms while a worker runs.

use crate::clock::Clock;
use crate::histogram::Recorder;
use crate::report::{DirectionResult, Interval, Moments};

/// Counters of a moment, for differences.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    at_ns: u64,
    operations: u64,
    bytes: u64,
}

/// Which latencies differ and are recorded apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    /// Nothing happens before an operation is issued: total latency is completion latency.
    One,
    /// Operations are prepared before they are issued.
    Prepared,
    /// And they wait until they are submitted.
    Queued,
}

/// Latencies that wait at most.
const WAITING: usize = 64;

/// One direction.
pub(crate) struct Side {
    /// Operations completed.
    pub operations: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Short operations.
    pub short: u64,
    /// Operations that failed and were passed over.
    pub errors: u64,
    /// Completion latency.
    clat: Recorder,
    /// Completion latencies in ticks that are not in `clat` yet. Everything computed from a stamp waits for it, and the
    /// processor's window for waiting instructions is limited: with the histogram's arithmetic behind every stamp, the
    /// next operation's first cache miss could not start before this one's last was over.
    waiting: [u64; WAITING],
    filled: usize,
    clock: Clock,
    /// Total latency, where it is not the completion latency.
    lat: Recorder,
    /// Submission latency, where there is a queue.
    slat: Recorder,
    kinds: Kinds,
    bandwidth_kib: Moments,
    iops: Moments,
    sampled: Mark,
    interval: Mark,
}

impl Side {
    /// Nothing yet.
    pub(crate) fn new(clock: Clock, kinds: Kinds) -> Self {
        Self {
            operations: 0,
            bytes: 0,
            short: 0,
            errors: 0,
            clat: Recorder::default(),
            waiting: [0; WAITING],
            filled: 0,
            clock,
            lat: Recorder::default(),
            slat: Recorder::default(),
            kinds,
            bandwidth_kib: Moments::default(),
            iops: Moments::default(),
            sampled: Mark::default(),
            interval: Mark::default(),
        }
    }

    /// Counts an operation.
    #[inline(always)]
    pub(crate) fn count(&mut self, bytes: u32) {
        self.operations += 1;
        self.bytes += u64::from(bytes);
    }

    /// Records a completion latency, in ticks.
    #[inline(always)]
    pub(crate) fn completed(&mut self, ticks: u64) {
        if let Some(slot) = self.waiting.get_mut(self.filled) {
            *slot = ticks;
        }
        self.filled += 1;
        if self.filled >= WAITING {
            self.drain();
        }
    }

    /// Records both latencies at once, in ns.
    #[inline(always)]
    pub(crate) fn completed_apart(&mut self, clat_ns: u64, lat_ns: u64) {
        self.clat.record(clat_ns);
        self.lat.record(lat_ns);
    }

    /// Records a submission latency, in ns.
    #[inline(always)]
    pub(crate) fn submitted(&mut self, slat_ns: u64) {
        self.slat.record(slat_ns);
    }

    #[inline(never)]
    fn drain(&mut self) {
        for ticks in self.waiting.iter().take(self.filled) {
            self.clat.record(self.clock.to_ns(*ticks));
        }
        self.filled = 0;
    }

    /// Forgets everything; what follows counts from `now_ns`.
    pub(crate) fn restart(&mut self, now_ns: u64) {
        self.filled = 0;
        self.clat.reset();
        self.lat.reset();
        self.slat.reset();
        (self.operations, self.bytes, self.short, self.errors) = (0, 0, 0, 0);
        (self.bandwidth_kib, self.iops) = (Moments::default(), Moments::default());
        (self.sampled, self.interval) = (self.mark(now_ns), self.mark(now_ns));
    }

    /// Takes a sample of the rates since the last one.
    pub(crate) fn sample(&mut self, now_ns: u64) {
        let seconds = now_ns.saturating_sub(self.sampled.at_ns) as f64 / 1e9;
        // A direction that does nothing has no rate worth a sample, as in fio.
        if seconds > 0.0 && self.operations > self.sampled.operations {
            self.iops.add((self.operations - self.sampled.operations) as f64 / seconds);
            self.bandwidth_kib.add((self.bytes - self.sampled.bytes) as f64 / 1024.0 / seconds);
        }
        self.sampled = self.mark(now_ns);
    }

    /// Closes the interval that is being filled; gives it if anything happened in it.
    pub(crate) fn close_interval(&mut self, now_ns: u64) -> Option<Interval> {
        let operations = self.operations - self.interval.operations;
        self.drain();
        let closed = (operations > 0).then(|| {
            let clat = self.clat.flush();
            Interval {
                start_ns: self.interval.at_ns,
                end_ns: now_ns,
                operations,
                bytes: self.bytes - self.interval.bytes,
                lat: if self.kinds == Kinds::One { clat.clone() } else { self.lat.flush() },
                slat: self.slat.flush(),
                clat,
            }
        });
        self.interval = self.mark(now_ns);
        closed
    }

    fn mark(&self, now_ns: u64) -> Mark {
        Mark { at_ns: now_ns, operations: self.operations, bytes: self.bytes }
    }

    /// The finished figures; the last interval was closed before.
    pub(crate) fn finish(&mut self) -> DirectionResult {
        let clat = self.clat.finish();
        DirectionResult {
            operations: self.operations,
            bytes: self.bytes,
            // Which phases of the job count is the worker's to know.
            runtime_ns: 0,
            errors: self.errors,
            short_operations: self.short,
            slat: (self.kinds == Kinds::Queued).then(|| self.slat.finish()),
            lat: if self.kinds == Kinds::One { clat.clone() } else { self.lat.finish() },
            clat,
            bandwidth_kib: self.bandwidth_kib,
            iops: self.iops,
            intervals: Vec::new(),
        }
    }
}
