//! What a run reports: everything measured, in exact units, mergeable; the layouts of fio are made from it.

use std::fmt;

use pagelab_fiojob::steady::SteadyGoal;
use pagelab_fiojob::{Direction, Workload};
use serde::{Deserialize, Serialize};

use crate::clock::ClockReport;
use crate::disks::DiskUse;
use crate::engines::MapReport;
use crate::histogram::{BucketCount, Latencies};

/// A stretch of time on `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its start.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

impl Window {
    /// Its length, ns.
    pub fn duration_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// The smallest window that holds both.
    pub fn hull(self, other: Self) -> Self {
        Self { start_ns: self.start_ns.min(other.start_ns), end_ns: self.end_ns.max(other.end_ns) }
    }
}

/// Mean, spread and extremes of a series of samples, by Welford's updating formulas (1962).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// Number of samples.
    pub count: u64,
    /// Least; 0 if there is none.
    pub min: f64,
    /// Greatest; 0 if there is none.
    pub max: f64,
    /// Mean; 0 if there is none.
    pub mean: f64,
    /// Sum of squared distances from the mean.
    pub scatter: f64,
}

impl Moments {
    /// Adds a sample.
    pub fn add(&mut self, value: f64) {
        (self.min, self.max) =
            if self.count == 0 { (value, value) } else { (self.min.min(value), self.max.max(value)) };
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.scatter += delta * (value - self.mean);
    }

    /// Sample standard deviation; 0 for fewer than two samples, as fio prints it.
    pub fn standard_deviation(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.scatter / (self.count as f64 - 1.0)).sqrt() }
    }

    /// Adds the series of a worker that ran in parallel: rates of both together. As in fio the parts are added,
    /// extremes and scatter too, although extremes of the parts need not coincide: the result bounds the sum's.
    pub fn add_parallel(&mut self, other: &Self) {
        self.count += other.count;
        self.min += other.min;
        self.max += other.max;
        self.mean += other.mean;
        self.scatter += other.scatter;
    }

    /// Adds another series of the same quantity (Chan, Golub, LeVeque 1983).
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let delta = other.mean - self.mean;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.mean += delta * m / (n + m);
        self.scatter += other.scatter + delta * delta * n * m / (n + m);
        self.count += other.count;
    }
}

/// The operations in one direction during an interval of about a second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Its start, ns of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Operations completed.
    pub operations: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Submission latencies: (bucket, count), buckets as in [`crate::histogram`]. Empty where there is no queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slat: Vec<BucketCount>,
    /// Completion latencies.
    pub clat: Vec<BucketCount>,
    /// Total latencies.
    pub lat: Vec<BucketCount>,
}

/// An interval and its worker, as reported while the run goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerInterval {
    /// The worker, by place among all.
    pub worker: usize,
    /// Its job's name.
    pub name: String,
    /// Its number within the job, from 0.
    pub clone: u32,
    /// Which way.
    pub direction: Direction,
    /// The operations.
    pub interval: Interval,
}

/// One direction of one worker, or of several merged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionResult {
    /// Operations completed.
    pub operations: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// How long this direction was at work, ns: the measured window, but for jobs that verify what they wrote, which write and read in
    /// turn. Of several workers the longest. 0 if nothing was done.
    #[serde(default)]
    pub runtime_ns: u64,
    /// Operations that failed and that the job went on after; they are in no other figure.
    #[serde(default)]
    pub errors: u64,
    /// Operations whose first transfer was short; the rest was transferred after it.
    pub short_operations: u64,
    /// Submission latency; null: engines that complete each operation before the next have none.
    pub slat: Option<Latencies>,
    /// Completion latency: from handing the operation to the kernel (or starting the copy) to its end.
    pub clat: Latencies,
    /// Total latency: from the moment the operation was begun to be made to its end.
    pub lat: Latencies,
    /// Bandwidth in KiB/s, sampled every half second, as fio does.
    pub bandwidth_kib: Moments,
    /// Operations per second, sampled every half second.
    pub iops: Moments,
    /// About a second each. They are reported while the run goes on; the report's collector adds them here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
}

impl DirectionResult {
    /// Adds another worker's figures. Intervals are not merged: workers do not share their boundaries.
    pub fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.runtime_ns = self.runtime_ns.max(other.runtime_ns);
        self.errors += other.errors;
        self.short_operations += other.short_operations;
        self.clat.merge(&other.clat);
        self.lat.merge(&other.lat);
        self.bandwidth_kib.add_parallel(&other.bandwidth_kib);
        self.iops.add_parallel(&other.iops);
        match (&mut self.slat, &other.slat) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
            (_, None) => {}
        }
    }
}

/// CPU time and events of a worker's thread within its window, from getrusage(2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode, ns.
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub system_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary ones.
    pub involuntary_switches: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
}

impl Usage {
    /// Adds another worker's.
    pub fn merge(&mut self, other: &Self) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
    }

    /// The increase since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
        }
    }
}

/// Why a worker ended before its work was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Error number, as in `errno.h`; the nearest one where there is no system call behind it.
    pub errno: i32,
    /// In words: found, needed, command.
    pub message: String,
}

/// How deep a queue was, counted in classes that double, as fio counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Depths {
    /// Reads, writes and trims submitted while 1, 2 to 3, 4 to 7, ... 64 or more were under way.
    pub level: [[u64; 7]; Direction::COUNT],
    /// Submissions of 0, up to 4, 8, 16, 32, 64 and more operations at once.
    pub submit: [u64; 7],
    /// The same of completions taken at once.
    pub complete: [u64; 7],
}

impl Depths {
    /// `count` operations were submitted, `reads` of them reads, with which `under_way` were under way.
    #[inline(always)]
    pub fn submitted(&mut self, under_way: u32, count: u32, reads: u32) {
        let class = under_way.max(1).ilog2().min(6);
        self.level[0][class as usize] += u64::from(reads);
        self.level[1][class as usize] += u64::from(count - reads);
        self.submit[Self::batch(count)] += 1;
    }

    /// A trim was done while `under_way` operations were under way, itself among them.
    pub fn trimmed(&mut self, under_way: u32) {
        self.level[2][under_way.max(1).ilog2().min(6) as usize] += 1;
        self.submit[Self::batch(1)] += 1;
        self.complete[Self::batch(1)] += 1;
    }

    /// Completions of `count` operations were taken.
    #[inline(always)]
    pub fn completed(&mut self, count: u32) {
        self.complete[Self::batch(count)] += 1;
    }

    fn batch(count: u32) -> usize {
        match count {
            0 => 0,
            1..=4 => 1,
            5..=8 => 2,
            9..=16 => 3,
            17..=32 => 4,
            33..=64 => 5,
            _ => 6,
        }
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: &Self) {
        let [reads, writes, trims] = &mut self.level;
        for (mine, theirs) in [
            (reads, other.level[0]),
            (writes, other.level[1]),
            (trims, other.level[2]),
            (&mut self.submit, other.submit),
            (&mut self.complete, other.complete),
        ] {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
    }
}

/// Whether a job became steady (`steadystate`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteadyReport {
    /// The criterion.
    pub goal: SteadyGoal,
    /// Window in seconds, which is also the number of samples that are looked at.
    pub duration_s: u64,
    /// It did hold, which ended the job.
    pub attained: bool,
    /// The criterion's last value: slope or distance, with a percent goal in percent of the mean. 0 if there were too
    /// few samples.
    #[serde(with = "finite")]
    pub criterion: f64,
    /// Greatest distance from the mean; 0 where the goal is a slope.
    #[serde(with = "finite")]
    pub max_deviation: f64,
    /// Slope per second; 0 where the goal is a distance.
    #[serde(with = "finite")]
    pub slope: f64,
    /// The last samples of operations per second, from the oldest on; 0 for those that are not there.
    pub iops: Vec<u64>,
    /// The same of bytes per second.
    pub bandwidth: Vec<u64>,
}

/// Numbers that JSON has no word for: nothing was done, and a share of nothing is none. They come back as 0.
mod finite {
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(if value.is_finite() { *value } else { 0.0 })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        f64::deserialize(deserializer)
    }
}

/// One worker's result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// The job, by place in the workload.
    pub job: usize,
    /// The job's name.
    pub name: String,
    /// Its number within the job, from 0.
    pub clone: u32,
    /// Group of the report.
    pub group: u32,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The measured window; null if it was never reached.
    pub window: Option<Window>,
    /// Reads.
    pub read: DirectionResult,
    /// Writes.
    pub write: DirectionResult,
    /// Trims.
    #[serde(default)]
    pub trim: DirectionResult,
    /// Flushes issued by `fsync=`, `fdatasync=` or `sync_file_range=`.
    pub flushes: Latencies,
    /// Of these, the ones that fio's reports do not count: those of fdatasync(2) and sync_file_range(2).
    #[serde(default)]
    pub flushes_of_data: u64,
    /// CPU time and events within the window; null if it was never reached.
    pub usage: Option<Usage>,
    /// How deep its queue was; null for engines that complete each operation before the next.
    #[serde(default)]
    pub depths: Option<Depths>,
    /// The mappings; null for engines that do not map.
    pub mapped: Option<MapReport>,
    /// The results of verifying; null for jobs without `verify`.
    #[serde(default)]
    pub verify: Option<VerifyReport>,
    /// The queue depth that `latency_target` came to; null without.
    #[serde(default)]
    pub latency_depth: Option<u32>,
    /// Whether it became steady; of workers that are looked at together, with the last. Null for jobs that are not looked at.
    #[serde(default)]
    pub steady: Option<SteadyReport>,
    /// Passes over the region that were begun.
    pub passes: u64,
    /// Blocks that verifying found wrong and that the job went on after.
    #[serde(default)]
    pub forgiven_mismatches: u64,
    /// The operation that ended it early is an error of those that `continue_on_error` counts.
    #[serde(default)]
    pub fatal_error_counts: bool,
    /// Error number of the first operation that failed and that the job went on after, `EILSEQ` if it was a block with other contents
    /// than written; null if there is none.
    #[serde(default)]
    pub first_error: Option<i32>,
    /// Why it ended early; null if it did not.
    pub failure: Option<Failure>,
}

impl WorkerReport {
    /// The results in this direction.
    pub fn of(&self, direction: Direction) -> &DirectionResult {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
            Direction::Trim => &self.trim,
        }
    }

    /// All directions, with fio's names.
    pub fn directions(&self) -> [(&'static str, &DirectionResult); Direction::COUNT] {
        Direction::ALL.map(|direction| (direction.name(), self.of(direction)))
    }

    /// Operations of all directions.
    pub fn operations(&self) -> u64 {
        self.read.operations + self.write.operations + self.trim.operations
    }

    /// Bytes of all directions.
    pub fn bytes(&self) -> u64 {
        self.read.bytes + self.write.bytes + self.trim.bytes
    }

    /// Operations of all directions that failed and that the job went on after (`continue_on_error`).
    pub fn errors(&self) -> u64 {
        self.read.errors + self.write.errors + self.trim.errors
    }

    /// The errors of jobs that go on after some, as fio counts them: failed operations, blocks with other contents than written if
    /// the job goes on after them, and the error that it did not go on after.
    pub fn total_errors(&self) -> u64 {
        self.errors() + self.forgiven_mismatches + u64::from(self.fatal_error_counts)
    }

    /// The error number of the whole job: why it ended early, else the first error that it went on after; 0 for none.
    pub fn error(&self) -> i32 {
        self.failure.as_ref().map(|failure| failure.errno).or(self.first_error).unwrap_or(0)
    }

    /// Flushes as fio counts them.
    pub fn fsyncs(&self) -> u64 {
        self.flushes.count.saturating_sub(self.flushes_of_data)
    }

    /// Blocks that verifying found wrong.
    pub fn mismatches(&self) -> u64 {
        self.verify.as_ref().map_or(0, |verify| verify.mismatches)
    }

    /// Adds another worker of the same group, as `group_reporting` shows them.
    pub fn merge(&mut self, other: &Self) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.trim.merge(&other.trim);
        self.flushes.merge(&other.flushes);
        self.flushes_of_data += other.flushes_of_data;
        match (&mut self.verify, &other.verify) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine @ None, theirs) => mine.clone_from(theirs),
            (_, None) => {}
        }
        self.latency_depth = self.latency_depth.max(other.latency_depth);
        if self.steady.is_none() {
            self.steady.clone_from(&other.steady);
        }
        self.passes += other.passes;
        self.forgiven_mismatches += other.forgiven_mismatches;
        self.fatal_error_counts |= other.fatal_error_counts;
        self.first_error = self.first_error.or(other.first_error);
        self.window = match (self.window, other.window) {
            (Some(a), Some(b)) => Some(a.hull(b)),
            (a, b) => a.or(b),
        };
        match (&mut self.usage, &other.usage) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine @ None, theirs) => *mine = *theirs,
            (_, None) => {}
        }
        match (&mut self.depths, &other.depths) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine @ None, theirs) => *mine = *theirs,
            (_, None) => {}
        }
        MapReport::merge_into(&mut self.mapped, other.mapped.as_ref());
        if self.failure.is_none() {
            self.failure.clone_from(&other.failure);
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// Format of this document.
    pub format: u32,
    /// pagelab's version.
    pub pagelab_version: String,
    /// When the run started, ns since 1970.
    pub started_realtime_ns: u64,
    /// The run from the start of preparations to the last worker's end.
    pub run: Window,
    /// The measured window: from the first worker's measured start to the last worker's measured end, without preparation,
    /// ramps at its edges and tear-down; null if no worker got that far.
    pub window: Option<Window>,
    /// Operations within the window, of all workers.
    pub operations: u64,
    /// Bytes within the window, of all workers.
    pub bytes: u64,
    /// Statistics of the disks under the jobs' files while workers worked.
    #[serde(default)]
    pub disks: Vec<DiskUse>,
    /// The clock that timed operations.
    pub clock: ClockReport,
    /// The base seed of each job.
    pub seeds: Vec<u64>,
    /// The jobs as they were run.
    pub workload: Workload,
    /// One for each worker, in order of jobs.
    pub workers: Vec<WorkerReport>,
    /// Options accepted and events that the user should know of.
    pub warnings: Vec<String>,
    /// The signal that ended the run early; null if none did.
    pub interrupted_by: Option<i32>,
    /// The heading of fio's text was printed with a report of what was measured before.
    #[serde(default)]
    pub heading_printed: bool,
    /// In a report of what was measured so far: seconds until the run ends. Null when it has ended.
    #[serde(default)]
    pub eta_s: Option<u64>,
}

impl JobReport {
    /// Whether every worker did its work and every block verified has the contents written.
    pub fn succeeded(&self) -> bool {
        self.workers.iter().all(|worker| worker.failure.is_none() && worker.mismatches() == 0)
    }

    /// Why workers failed, a line each.
    pub fn failures(&self) -> impl Iterator<Item = String> + '_ {
        self.workers.iter().filter_map(|worker| {
            let failure = worker.failure.as_ref()?;
            Some(format!("job '{}' worker {}: {}", worker.name, worker.clone, failure.message))
        })
    }

    /// Whether contents are all that went wrong: every operation was done, and some blocks differ from what was
    /// written.
    pub fn only_mismatched(&self) -> bool {
        let other =
            |worker: &WorkerReport| worker.failure.as_ref().is_some_and(|failure| failure.errno != libc::EILSEQ);
        !self.succeeded() && !self.workers.iter().any(other)
    }
}

/// Mismatches of a worker that are kept and printed; the others are counted.
pub(crate) const MISMATCHES_KEPT: usize = 10;

/// A block that differs from what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The file; empty for memory.
    pub file: String,
    /// Where the block begins, bytes from the start of the file.
    pub offset: u64,
    /// Its length, bytes.
    pub bytes: u64,
    /// The method.
    pub method: String,
    /// The item compared.
    pub what: String,
    /// Its expected value. A checksum's is the one stored with the data.
    pub expected: String,
    /// Its actual value. A checksum's is the one of the data.
    pub found: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, bytes, method, what, expected, found } = self;
        let file = if file.is_empty() { "memory" } else { file };
        write!(f, "verify={method}: {file} offset {offset}, {bytes} bytes: {what}: expected {expected}, found {found}")
    }
}

/// The results of verifying.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// The method.
    pub method: String,
    /// Blocks read and compared.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Blocks that differ from what was written.
    pub mismatches: u64,
    /// The first of them.
    pub first: Vec<Mismatch>,
}

impl VerifyReport {
    /// Adds another worker's.
    pub fn merge(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
        self.mismatches += other.mismatches;
        let room = MISMATCHES_KEPT.saturating_sub(self.first.len());
        self.first.extend(other.first.iter().take(room).cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merged_moments_are_those_of_all_samples(a in proptest::collection::vec(-1e6_f64..1e6, 0..50), b in proptest::collection::vec(-1e6_f64..1e6, 0..50)) {
            let of = |values: &[f64]| { let mut m = Moments::default(); for value in values { m.add(*value); } m };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let all = of(&[a, b].concat());
            prop_assert_eq!(merged.count, all.count);
            prop_assert!((merged.mean - all.mean).abs() < 1e-6);
            prop_assert!((merged.standard_deviation() - all.standard_deviation()).abs() < 1e-6 * (1.0 + all.standard_deviation()));
            prop_assert_eq!((merged.min, merged.max), (all.min, all.max));
        }
    }
}
