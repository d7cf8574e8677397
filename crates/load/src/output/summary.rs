//! Workers aggregated as the output shows them: by group, merged where the job says so.

use pagelab_fiojob::JobSpec;

use crate::report::{DirectionResult, JobReport, Window, WorkerReport};

/// A job in the output: a worker, or several merged by `group_reporting`.
pub struct Entry<'a> {
    /// The figures; of several workers, merged.
    pub figures: WorkerReport,
    /// The job of the first worker.
    pub job: &'a JobSpec,
    /// How many workers are in it.
    pub workers: u64,
}

impl Entry<'_> {
    /// Length of the measured window in seconds; 0 if there was none.
    pub fn seconds(&self) -> f64 {
        self.figures.window.map_or(0.0, |window| window.duration_ns() as f64 / 1e9)
    }

    /// Length of the measured window in ms, at least 1 where there was one, as fio counts.
    pub fn milliseconds(&self) -> u64 {
        self.figures.window.map_or(0, |window| (window.duration_ns() / 1_000_000).max(1))
    }

    /// Share of a CPU in user and kernel mode, percent; 0 where there was no window.
    pub fn cpu_percent(&self) -> (f64, f64) {
        let (Some(usage), Some(window)) = (self.figures.usage, self.figures.window) else { return (0.0, 0.0) };
        // As in fio, the time of all merged workers over the time of all merged workers.
        let available = (window.duration_ns().saturating_mul(self.workers)).max(1) as f64;
        (100.0 * usage.user_ns as f64 / available, 100.0 * usage.system_ns as f64 / available)
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
        match entries.last_mut() {
            Some(last)
                if job.options.group_reporting
                    && last.job.options.group_reporting
                    && last.figures.group == worker.group =>
            {
                last.figures.merge(worker);
                last.workers += 1;
            }
            _ => entries.push(Entry { figures: worker.clone(), job, workers: 1 }),
        }
    }
    entries
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
            add(&mut group.read, &entry.figures.read, entry.figures.window);
            add(&mut group.write, &entry.figures.write, entry.figures.window);
            add(&mut group.trim, &entry.figures.trim, entry.figures.window);
        }
    }
    groups
}

fn add(slot: &mut Option<GroupDirection>, result: &DirectionResult, window: Option<Window>) {
    let (Some(window), true) = (window, result.operations > 0) else { return };
    let milliseconds = (window.duration_ns() / 1_000_000).max(1);
    let own = bandwidth(result.bytes, Some(window));
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

/// Bytes per second over a window; 0 where there was none.
pub(super) fn bandwidth(bytes: u64, window: Option<Window>) -> f64 {
    match window.map(Window::duration_ns) {
        None | Some(0) => 0.0,
        Some(ns) => bytes as f64 / (ns as f64 / 1e9),
    }
}
