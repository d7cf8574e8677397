//! Workers aggregated as the output shows them: by group, merged where the job says so.

use pagelab_fiojob::words::UnifiedReporting;
use pagelab_fiojob::{Direction, JobSpec};

use crate::report::{DirectionResult, JobReport, Window, WorkerReport};

/// A job in the output: a worker, or several merged by `group_reporting`.
pub struct Entry<'a> {
    /// The figures; of several workers, merged.
    pub figures: WorkerReport,
    /// The job of the first worker.
    pub job: &'a JobSpec,
    /// How many workers are in it.
    pub workers: u64,
    /// The measured windows of all of them together, ns.
    pub run_ns: u64,
}

impl Entry<'_> {
    /// The measured windows of all workers together in ms, at least 1 where there was one, as fio counts.
    pub fn milliseconds(&self) -> u64 {
        if self.figures.window.is_none() { 0 } else { whole_milliseconds(self.run_ns) }
    }

    /// Share of a CPU in user and kernel mode, percent; 0 where there was no window.
    pub fn cpu_percent(&self) -> (f64, f64) {
        let (Some(usage), true) = (self.figures.usage, self.run_ns > 0) else { return (0.0, 0.0) };
        // As in fio, the time of all merged workers over the time of all merged workers.
        let available = self.run_ns as f64;
        (100.0 * usage.user_ns as f64 / available, 100.0 * usage.system_ns as f64 / available)
    }
}

/// A time in ms, at least 1, as fio counts.
fn whole_milliseconds(ns: u64) -> u64 {
    (ns / 1_000_000).max(1)
}

impl DirectionResult {
    /// How long it was at work in ms, at least 1; 0 if nothing was done.
    pub(super) fn milliseconds(&self) -> u64 {
        if self.operations == 0 { 0 } else { whole_milliseconds(self.runtime_ns) }
    }

    /// How long it was at work in seconds; 0 if nothing was done.
    pub(super) fn seconds(&self) -> f64 {
        if self.operations == 0 { 0.0 } else { self.runtime_ns as f64 / 1e9 }
    }

    /// Bytes per second of the time that it was at work; 0 where there was none.
    pub(super) fn bytes_per_second(&self) -> f64 {
        let seconds = self.seconds();
        if seconds > 0.0 { self.bytes as f64 / seconds } else { 0.0 }
    }
}

/// Figures of a group in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GroupDirection {
    /// Bytes of all workers.
    pub bytes: u64,
    /// Bandwidth of all together, bytes per second.
    pub bandwidth: f64,
    /// The slowest worker's.
    pub bandwidth_min: f64,
    /// The fastest worker's.
    pub bandwidth_max: f64,
    /// Shortest window, ms.
    pub milliseconds_min: u64,
    /// Longest window, ms.
    pub milliseconds_max: u64,
}

/// A group of the report.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Group {
    /// Its number.
    pub number: u32,
    /// Reads; `None` if nobody read.
    pub read: Option<GroupDirection>,
    /// Writes.
    pub write: Option<GroupDirection>,
    /// Trims.
    pub trim: Option<GroupDirection>,
}

/// The report's workers as the output shows them.
pub fn entries(report: &JobReport) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for worker in &report.workers {
        let Some(job) = report.workload.jobs.get(worker.job) else { continue };
        let run_ns = worker.window.map_or(0, Window::duration_ns);
        match entries.last_mut() {
            Some(last)
                if job.options.group_reporting
                    && last.job.options.group_reporting
                    && last.figures.group == worker.group =>
            {
                last.figures.merge(worker);
                last.workers += 1;
                last.run_ns = last.run_ns.saturating_add(run_ns);
            }
            _ => entries.push(Entry { figures: worker.clone(), job, workers: 1, run_ns }),
        }
    }
    entries
}

/// All directions together, for a job that wants them so (`unified_rw_reporting`).
pub(super) fn mixed(entry: &Entry<'_>) -> Option<DirectionResult> {
    if entry.job.options.unified_rw_reporting == UnifiedReporting::None {
        return None;
    }
    let mut all = DirectionResult::default();
    for (_, result) in entry.figures.directions() {
        all.merge(result);
    }
    Some(all)
}

/// The figures of a group, all directions together.
pub(super) fn mixed_group(group: [Option<GroupDirection>; Direction::COUNT]) -> Option<GroupDirection> {
    group.into_iter().flatten().reduce(|a, b| GroupDirection {
        bytes: a.bytes + b.bytes,
        bandwidth: a.bandwidth + b.bandwidth,
        bandwidth_min: a.bandwidth_min + b.bandwidth_min,
        bandwidth_max: a.bandwidth_max + b.bandwidth_max,
        milliseconds_min: a.milliseconds_min.min(b.milliseconds_min),
        milliseconds_max: a.milliseconds_max.max(b.milliseconds_max),
    })
}

/// The groups of the report.
pub fn groups(entries: &[Entry<'_>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for entry in entries {
        let number = entry.figures.group;
        if groups.last().is_none_or(|group| group.number != number) {
            groups.push(Group { number, ..Group::default() });
        }
        if let Some(group) = groups.last_mut() {
            add(&mut group.read, &entry.figures.read);
            add(&mut group.write, &entry.figures.write);
            add(&mut group.trim, &entry.figures.trim);
        }
    }
    groups
}

fn add(slot: &mut Option<GroupDirection>, result: &DirectionResult) {
    if result.operations == 0 {
        return;
    }
    let milliseconds = result.milliseconds();
    let own = result.bytes_per_second();
    let group = slot.get_or_insert(GroupDirection {
        bandwidth_min: f64::INFINITY,
        milliseconds_min: u64::MAX,
        ..GroupDirection::default()
    });
    group.bytes += result.bytes;
    group.bandwidth_min = group.bandwidth_min.min(own);
    group.bandwidth_max = group.bandwidth_max.max(own);
    group.milliseconds_min = group.milliseconds_min.min(milliseconds);
    group.milliseconds_max = group.milliseconds_max.max(milliseconds);
    // As in fio: all bytes over the longest window.
    group.bandwidth = group.bytes as f64 / (group.milliseconds_max as f64 / 1e3);
}
