//! Latency histograms with a bounded error, mergeable over threads and runs.
//!
//! # Layout and error bound
//! Values below 128 ns have a bucket each. Above, every power of two is cut into 64 equal buckets: a value `v` whose highest bit is
//! bit `b >= 7` falls into a bucket of width `2^(b-6)`. All values of a bucket lie within half its width of its middle, and the
//! bucket starts at `2^b` or above, so the middle differs from any of them by at most `2^(b-7) / 2^b = 1/128`, 0.8 percent. Percentiles
//! are middles of buckets (limited to the exact minimum and maximum), so they carry that error and no other. Counts, sums, minimum and maximum are exact.
//!
//! These are the buckets that fio 3 uses, so that histograms of both can be laid side by side; fio's last bucket ends at 17 s, here
//! they go on to 2^64 ns. A bucket's index comes from a leading-zero count, a shift and an add, which is why this is not the
//! `hdrhistogram` crate: that one costs several times as much per value and has other buckets.

use serde::{Deserialize, Serialize};

/// Buckets per power of two, as a power of two.
const SUB_BITS: u32 = 6;

/// Number of buckets for all of `u64`.
pub(crate) const BUCKETS: usize = ((64 - SUB_BITS as usize) << SUB_BITS) + (1 << SUB_BITS);

/// The bucket of a value.
#[inline(always)]
pub fn bucket(value: u64) -> usize {
    let high_bit = (value | (1 << SUB_BITS)).ilog2();
    let shift = high_bit - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// Lowest and highest value of a bucket, both included.
pub fn bounds(index: usize) -> (u64, u64) {
    let linear = 2 << SUB_BITS;
    if index < linear {
        return (index as u64, index as u64);
    }
    let shift = (index >> SUB_BITS) - 1;
    let low = (((index & ((1 << SUB_BITS) - 1)) | (1 << SUB_BITS)) as u64) << shift;
    (low, low + ((1 << shift) - 1))
}

/// The middle of a bucket.
pub fn middle(index: usize) -> u64 {
    let (low, high) = bounds(index);
    low + (high - low).div_ceil(2)
}

/// Counts of one bucket: (index, count).
pub type BucketCount = (u16, u64);

/// A finished set of latencies: exact moments and the histogram's filled buckets in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Latencies {
    /// Number of values.
    pub count: u64,
    /// Least, ns; null if there is none.
    pub min_ns: Option<u64>,
    /// Greatest, ns; null if there is none.
    pub max_ns: Option<u64>,
    /// Sum, ns.
    pub sum_ns: u64,
    /// Sum of squares, ns^2, as (high, low) halves of 128 bits.
    pub sum_squares: (u64, u64),
    /// Filled buckets.
    pub buckets: Vec<BucketCount>,
}

impl Latencies {
    /// Arithmetic mean, ns; `None` of nothing.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    fn squares(&self) -> u128 {
        (u128::from(self.sum_squares.0) << 64) | u128::from(self.sum_squares.1)
    }

    /// Sample standard deviation, ns: `sqrt((sum x^2 - (sum x)^2 / n) / (n - 1))`, computed in 128-bit integers before the division,
    /// so that nothing cancels. `None` of fewer than two values.
    pub fn standard_deviation(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let n = u128::from(self.count);
        // n * sum x^2 - (sum x)^2 is never negative (Cauchy-Schwarz) and exact unless it leaves 128 bits.
        let scatter =
            match (n.checked_mul(self.squares()), u128::from(self.sum_ns).checked_mul(u128::from(self.sum_ns))) {
                (Some(a), Some(b)) => a.saturating_sub(b) as f64,
                _ => (self.squares() as f64 * n as f64 - (self.sum_ns as f64).powi(2)).max(0.0),
            };
        Some((scatter / n as f64 / (n as f64 - 1.0)).sqrt())
    }

    /// The value below or at which `percent` of the values lie, within 1/128; `None` of nothing.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let (min, max) = (self.min_ns?, self.max_ns?);
        let rank = (percent / 100.0 * self.count as f64).ceil().clamp(1.0, self.count as f64) as u64;
        let mut seen = 0;
        for (index, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return Some(middle(usize::from(*index)).clamp(min, max));
            }
        }
        Some(max)
    }

    /// How many values lie in `[low, high)`, ns; values in a bucket that a bound cuts are counted where the bucket's middle lies.
    pub fn count_between(&self, low: u64, high: u64) -> u64 {
        self.buckets
            .iter()
            .filter(|(index, _)| (low..high).contains(&middle(usize::from(*index))))
            .map(|(_, count)| count)
            .sum()
    }

    /// Adds another set; the result is as if all values had been recorded in one.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.min_ns = self.min_ns.into_iter().chain(other.min_ns).min();
        self.max_ns = self.max_ns.into_iter().chain(other.max_ns).max();
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        let squares = self.squares().saturating_add(other.squares());
        self.sum_squares = ((squares >> 64) as u64, squares as u64);
        self.buckets = merge_buckets(&self.buckets, &other.buckets);
    }
}

fn merge_buckets(a: &[BucketCount], b: &[BucketCount]) -> Vec<BucketCount> {
    let mut out = Vec::with_capacity(a.len().max(b.len()));
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if x.0 == y.0 => {
                let sum = (x.0, x.1 + y.1);
                a.next();
                b.next();
                sum
            }
            (Some(x), Some(y)) if x.0 < y.0 => {
                let x = *x;
                a.next();
                x
            }
            (_, Some(y)) => {
                let y = *y;
                b.next();
                y
            }
            (Some(x), None) => {
                let x = *x;
                a.next();
                x
            }
            (None, None) => return out,
        };
        out.push(next);
    }
}

/// A histogram being filled. Values go into the counts of the present interval; [`Recorder::flush`] closes the interval.
pub struct Recorder {
    /// Counts since the last flush. 32 bits hold an interval of a second at four times 10^9 operations.
    interval: Box<[u32]>,
    total: Box<[u64]>,
    /// Values in `total`.
    count: u64,
    min: u64,
    max: u64,
    sum: u64,
    squares: u128,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            interval: vec![0; BUCKETS].into_boxed_slice(),
            total: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            min: u64::MAX,
            max: 0,
            sum: 0,
            squares: 0,
        }
    }
}

impl Recorder {
    /// Adds a value.
    #[inline(always)]
    pub fn record(&mut self, ns: u64) {
        if let Some(slot) = self.interval.get_mut(bucket(ns)) {
            *slot += 1;
        }
        // New extremes are rare: a branch that is seldom taken costs less than two stores.
        if ns < self.min {
            self.min = ns;
        }
        if ns > self.max {
            self.max = ns;
        }
        self.sum = self.sum.wrapping_add(ns);
        self.squares = self.squares.wrapping_add(u128::from(ns) * u128::from(ns));
    }

    /// Closes the interval and gives its filled buckets.
    pub fn flush(&mut self) -> Vec<BucketCount> {
        let mut filled = Vec::new();
        for (index, (interval, total)) in self.interval.iter_mut().zip(self.total.iter_mut()).enumerate() {
            if *interval > 0 {
                filled.push((index as u16, u64::from(*interval)));
                *total += u64::from(*interval);
                self.count += u64::from(*interval);
                *interval = 0;
            }
        }
        filled
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.interval.fill(0);
        self.total.fill(0);
        (self.count, self.min, self.max, self.sum, self.squares) = (0, u64::MAX, 0, 0, 0);
    }

    /// Everything recorded, for keeping.
    pub fn finish(&mut self) -> Latencies {
        self.flush();
        Latencies {
            count: self.count,
            min_ns: (self.count > 0).then_some(self.min),
            max_ns: (self.count > 0).then_some(self.max),
            sum_ns: self.sum,
            sum_squares: ((self.squares >> 64) as u64, self.squares as u64),
            buckets: self
                .total
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0)
                .map(|(index, count)| (index as u16, *count))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recorded(values: &[u64]) -> Latencies {
        let mut recorder = Recorder::default();
        for value in values {
            recorder.record(*value);
        }
        recorder.finish()
    }

    #[test]
    fn buckets_tile_the_numbers() {
        let mut expected = 0_u64;
        for index in 0..BUCKETS {
            let (low, high) = bounds(index);
            assert_eq!(low, expected, "bucket {index} starts where the one before ended");
            assert_eq!((bucket(low), bucket(high)), (index, index));
            if index + 1 < BUCKETS {
                expected = high + 1;
            } else {
                assert_eq!(high, u64::MAX);
            }
        }
    }

    #[test]
    fn nothing_has_no_statistics() {
        let nothing = Latencies::default();
        assert_eq!(
            (nothing.mean(), nothing.percentile(50.0), nothing.standard_deviation(), nothing.min_ns),
            (None, None, None, None)
        );
    }

    #[test]
    fn intervals_sum_to_the_whole() {
        let mut recorder = Recorder::default();
        let mut flushed = Vec::new();
        for chunk in (0..10_000_u64).collect::<Vec<_>>().chunks(777) {
            for value in chunk {
                recorder.record(value * 37);
            }
            flushed = merge_buckets(&flushed, &recorder.flush());
        }
        assert_eq!(recorder.finish().buckets, flushed);
    }

    proptest! {
        #[test]
        fn middles_are_within_the_bound(value: u64) {
            let middle = middle(bucket(value));
            prop_assert!(middle.abs_diff(value) as f64 <= value as f64 / 128.0 + 0.5);
        }

        #[test]
        fn percentiles_match_sorting(mut values in proptest::collection::vec(0_u64..10_000_000_000, 1..400), percent in 0.0_f64..100.0) {
            let latencies = recorded(&values);
            values.sort_unstable();
            let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            let got = latencies.percentile(percent).expect("some") as f64;
            prop_assert!((got - exact).abs() <= exact / 128.0 + 0.5, "{got} against {exact}");
        }

        #[test]
        fn moments_match_the_definition(values in proptest::collection::vec(0_u64..4_000_000_000, 2..200)) {
            let latencies = recorded(&values);
            let n = values.len() as f64;
            let mean = values.iter().map(|v| *v as f64).sum::<f64>() / n;
            let sd = (values.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
            prop_assert!((latencies.mean().expect("some") - mean).abs() <= mean * 1e-12 + 1e-9);
            prop_assert!((latencies.standard_deviation().expect("some") - sd).abs() <= sd * 1e-9 + 1e-6);
        }

        #[test]
        fn merging_is_recording_together(a in proptest::collection::vec(any::<u32>(), 0..100), b in proptest::collection::vec(any::<u32>(), 0..100)) {
            let a: Vec<u64> = a.into_iter().map(u64::from).collect();
            let b: Vec<u64> = b.into_iter().map(u64::from).collect();
            let mut merged = recorded(&a);
            merged.merge(&recorded(&b));
            prop_assert_eq!(merged, recorded(&[a, b].concat()));
        }
    }
}
