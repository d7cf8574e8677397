//! `write_hist_log`: histograms of completion latency as text, in fio's format, for fio's `fiologparser_hist.py`.
//!
//! A line is `time, direction, block size, count, count, ...`: the operations of a direction since its line before, by bucket of
//! [`crate::histogram`], as many as fio has; what is beyond fio's last bucket counts there. As in fio a line comes with the operation that
//! ends its stretch (`log_hist_msec`), with that operation's size, and what is left at the end is not written.

use std::fmt::Write as _;

use pagelab_fiojob::Operation;

use crate::histogram::bucket;

/// fio's buckets: 29 powers of two, in 64 parts each.
const BUCKETS: usize = 29 * 64;

/// One direction.
struct Counts {
    counts: Vec<u64>,
    /// When the present stretch began, ms; 0 before the first operation.
    since_ms: u64,
}

/// The histograms of a worker.
pub(super) struct Histograms {
    directions: Vec<Counts>,
    every_ms: u64,
    /// Number of buckets that are merged into one.
    stride: usize,
}

impl Histograms {
    /// Writes a line every `every_ms` (0: none), of 1856 >> `coarseness` counts.
    pub(super) fn new(every_ms: u64, coarseness: u64) -> Self {
        let counts = || Counts { counts: vec![0; BUCKETS], since_ms: 0 };
        let directions = pagelab_fiojob::Direction::ALL.map(|_| counts()).into();
        Self { directions, every_ms, stride: 1 << coarseness.min(6) }
    }

    /// An operation took `clat_ns`; gives the line that ends with it.
    pub(super) fn record(&mut self, ms: u64, operation: Operation, clat_ns: u64) -> Option<String> {
        let direction = operation.direction as usize;
        let side = self.directions.get_mut(direction)?;
        if let Some(count) = side.counts.get_mut(bucket(clat_ns).min(BUCKETS - 1)) {
            *count += 1;
        }
        if side.since_ms == 0 {
            side.since_ms = ms;
        }
        let stretch = ms - side.since_ms;
        if stretch < self.every_ms || self.every_ms == 0 {
            return None;
        }
        side.since_ms = ms - (stretch - self.every_ms);
        let mut line = format!("{ms}, {direction}, {}", operation.bytes);
        for counts in side.counts.chunks(self.stride) {
            // Writing to a String cannot fail.
            let _ = write!(line, ", {}", counts.iter().sum::<u64>());
        }
        line.push('\n');
        side.counts.fill(0);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagelab_fiojob::Direction;

    #[test]
    fn lines_hold_what_came_since_the_one_before() {
        let mut histograms = Histograms::new(100, 6);
        let operation = Operation { direction: Direction::Write, offset: 0, bytes: 512 };
        assert_eq!(histograms.record(5, operation, 10), None);
        assert_eq!(histograms.record(104, operation, 70), None);
        let line = histograms.record(120, operation, u64::MAX).expect("a line");
        let numbers: Vec<u64> = line.trim().split(", ").map(|word| word.parse().expect("a number")).collect();
        assert_eq!((&numbers[..3], numbers.len()), (&[120, 1, 512][..], 3 + 29));
        assert_eq!((numbers[3], numbers[4], numbers[31]), (1, 1, 1));
        // The stretch went on at 105: the next line is due at 205.
        assert_eq!(histograms.record(204, operation, 10), None);
        assert_eq!(histograms.record(205, operation, 10).map(|line| line.matches(", 2").count()), Some(1));
    }
}
