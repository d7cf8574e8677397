//! `show DIR latency`: the distribution of the operations' latency, per job, direction and kind.

pub mod over_time;

use std::collections::BTreeMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::LatencyRow;
use serde::Serialize;

use crate::absence;
use crate::answer::Answer;
use crate::error::Result;
use crate::read;
use crate::selection::Selection;

/// The percentiles shown.
const PERCENTILES: [(&str, f64); 4] = [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p99_9_ns", 0.999)];

/// Operations by bucket; both bounds belong to it.
type Buckets = BTreeMap<(u64, u64), u64>;

/// Latency of one job, direction and kind.
#[derive(Debug, Serialize)]
pub struct Histogram {
    /// Name of the job.
    pub job: String,
    /// `read`, `write` or `trim`.
    pub direction: String,
    /// `slat`, `clat` or `lat`.
    pub kind: String,
    /// Operations.
    pub count: u64,
    /// Lower bound of the lowest bucket that is not empty.
    pub min_ns: Option<u64>,
    /// With every operation in the middle of its bucket.
    pub mean_ns: Option<f64>,
    /// The upper bounds of the buckets in which these operations are: none was slower than that.
    #[serde(flatten)]
    pub percentiles: BTreeMap<&'static str, Option<u64>>,
    /// Upper bound of the highest bucket that is not empty.
    pub max_ns: Option<u64>,
}

/// Latency of a load's operations, one row per job, direction and kind.
#[derive(Debug, Serialize)]
pub struct LatencyView {
    /// Rows, by job, direction and kind.
    pub histograms: Vec<Histogram>,
}

/// Makes the view.
pub fn collect(recording: &Recording, _: &Selection) -> Result<Answer<LatencyView>> {
    let mut notes = Vec::new();
    // The rows of the job as a whole, and those of its threads: a writer of both writes every operation twice.
    let mut found: BTreeMap<(String, String, String), (Buckets, Buckets)> = BTreeMap::new();
    read::each::<LatencyRow>(recording, &mut notes, |row| {
        let key = (row.job.to_owned(), row.direction.to_owned(), row.kind.to_owned());
        let (whole, threads) = found.entry(key).or_default();
        let buckets = if row.thread.is_none() { whole } else { threads };
        *buckets.entry((row.low_ns, row.high_ns)).or_default() += row.count;
    })?;
    if found.is_empty() {
        let otherwise = "no latency was recorded: pagelab run records it, of the operations of its jobs".to_owned();
        absence::no_rows_of(recording, "latency", "latency", otherwise, &mut notes)?;
    }
    let histograms = found.into_iter().map(|((job, direction, kind), (whole, threads))| {
        let buckets = if whole.is_empty() { threads } else { whole };
        histogram(job, direction, kind, &buckets)
    });
    let data = LatencyView { histograms: histograms.collect() };
    Ok(Answer::new("latency", recording, notes, data))
}

fn histogram(job: String, direction: String, kind: String, buckets: &Buckets) -> Histogram {
    let count = buckets.values().sum::<u64>();
    let filled = || buckets.iter().filter(|(_, count)| **count > 0).map(|(bounds, _)| bounds);
    let sum: f64 =
        buckets.iter().map(|((low, high), count)| f64::midpoint(*low as f64, *high as f64) * *count as f64).sum();
    Histogram {
        job,
        direction,
        kind,
        count,
        min_ns: filled().next().map(|(low, _)| *low),
        mean_ns: (count > 0).then(|| sum / count as f64),
        percentiles: PERCENTILES.iter().map(|(name, share)| (*name, upper_bound(buckets, count, *share))).collect(),
        max_ns: filled().map(|(_, high)| *high).max(),
    }
}

/// The upper bound of the bucket of the operation that `share` of all, itself included, are not slower than.
fn upper_bound(buckets: &Buckets, count: u64, share: f64) -> Option<u64> {
    let rank = ((share * count as f64).ceil() as u64).max(1);
    let mut below = 0_u64;
    buckets.iter().find_map(|((_, high), count)| {
        below = below.saturating_add(*count);
        (below >= rank).then_some(*high)
    })
}
