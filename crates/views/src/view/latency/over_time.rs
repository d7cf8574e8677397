//! Latency over time: quantiles of the operations of each interval of the time that a load measured, all jobs together.

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::LatencyRow;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Buckets, upper_bound};
use crate::error::Result;
use crate::read;
use crate::window::Window;

/// Latency is recorded once a second.
const SECOND_NS: i64 = 1_000_000_000;
/// Threads write their second up to this long after it has ended.
const LATE_NS: i64 = SECOND_NS / 4;

/// Operations that completed in one interval; times are upper bounds, as in the view `latency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "LatencyInterval")]
pub struct Interval {
    /// Its end, ns since the measured time began.
    pub end_ns: i64,
    /// Operations.
    pub count: u64,
    /// Half of them took no longer, ns.
    pub p50_ns: u64,
    /// 99 % of them took no longer, ns.
    pub p99_ns: u64,
    /// The slowest, ns.
    pub max_ns: u64,
}

/// One direction.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "LatencyCourse")]
pub struct Course {
    /// `read`, `write` or `trim`.
    pub direction: String,
    /// Intervals with operations, in order of time.
    pub intervals: Vec<Interval>,
}

/// Latency over the measured time.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "LatencyOverTime")]
pub struct OverTime {
    /// When the measured time began, on the recording's clock.
    pub start_ns: i64,
    /// Length of an interval, whole seconds.
    pub interval_ns: i64,
    /// `lat`, or `clat` where only that was recorded.
    pub kind: &'static str,
    /// By direction.
    pub courses: Vec<Course>,
}

/// Operations of one interval, and when it ended last.
#[derive(Default)]
struct Counted {
    end_ns: i64,
    buckets: Buckets,
}

/// Intervals of a job in one direction: the rows of the whole job, and those of its threads.
type OneJob = [BTreeMap<i64, Counted>; 2];

/// Reads the latency in at most `most` intervals; none where none was recorded. The ramp is left out.
pub fn collect(recording: &Recording, most: usize, notes: &mut Vec<String>) -> Result<Option<OverTime>> {
    let window = Window::of(recording)?;
    let seconds = (window.seconds().ceil() as i64).max(1);
    let width_ns = (seconds as u64).div_ceil(most.max(1) as u64) as i64 * SECOND_NS;
    let mut jobs: BTreeMap<(bool, String, String), OneJob> = BTreeMap::new();
    read::each::<LatencyRow>(recording, notes, |row| {
        if row.ts <= window.start_ns || !["lat", "clat"].contains(&row.kind) {
            return;
        }
        let of_threads = usize::from(row.thread.is_some());
        let job = jobs.entry((row.kind == "lat", row.direction.to_owned(), row.job.to_owned())).or_default();
        let since_ns = row.ts - window.start_ns;
        let Some(intervals) = job.get_mut(of_threads) else { return };
        let counted = intervals.entry(interval_of(since_ns, width_ns)).or_default();
        counted.end_ns = counted.end_ns.max(since_ns);
        *counted.buckets.entry((row.low_ns, row.high_ns)).or_default() += row.count;
    })?;
    let has_lat = jobs.keys().any(|(is_lat, ..)| *is_lat);
    let mut directions: BTreeMap<String, BTreeMap<i64, Counted>> = BTreeMap::new();
    for ((is_lat, direction, _), [whole, threads]) in jobs {
        if is_lat == has_lat {
            merge(directions.entry(direction).or_default(), if whole.is_empty() { threads } else { whole });
        }
    }
    let courses: Vec<Course> =
        directions.into_iter().map(|(direction, intervals)| course(direction, intervals)).collect();
    let kind = if has_lat { "lat" } else { "clat" };
    Ok((!courses.is_empty()).then_some(OverTime { start_ns: window.start_ns, interval_ns: width_ns, kind, courses }))
}

/// The number of the interval, from 1, whose rows have this time.
fn interval_of(since_ns: i64, width_ns: i64) -> i64 {
    ((since_ns - LATE_NS).max(1) + width_ns - 1) / width_ns
}

fn merge(into: &mut BTreeMap<i64, Counted>, from: BTreeMap<i64, Counted>) {
    for (number, counted) in from {
        let sum = into.entry(number).or_default();
        sum.end_ns = sum.end_ns.max(counted.end_ns);
        for (bounds, count) in counted.buckets {
            *sum.buckets.entry(bounds).or_default() += count;
        }
    }
}

fn course(direction: String, intervals: BTreeMap<i64, Counted>) -> Course {
    let one = |counted: Counted| {
        let count = counted.buckets.values().sum();
        Some(Interval {
            end_ns: counted.end_ns,
            count,
            p50_ns: upper_bound(&counted.buckets, count, 0.5)?,
            p99_ns: upper_bound(&counted.buckets, count, 0.99)?,
            max_ns: counted.buckets.iter().filter(|(_, count)| **count > 0).map(|((_, high), _)| *high).max()?,
        })
    };
    Course { direction, intervals: intervals.into_values().filter_map(one).collect() }
}
