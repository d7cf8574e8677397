//! What is drawn against time, of one recording: latency, I/O, metrics and counters. Each is binned when it is read.

use std::path::Path;

use pagelab_analysis::AnalysisError;
use pagelab_analysis::compare::RunEntry;
use pagelab_recording::Recording;
use pagelab_views::metrics::over_time as metrics;
use pagelab_views::view::latency::over_time as latency;
use schemars::JsonSchema;
use serde::Serialize;

use crate::io_map::IoMaps;

/// Points of a line at most.
const MOST_POINTS: usize = 300;
/// Points of a thin line at most.
const MOST_POINTS_OF_OTHERS: usize = 100;

/// Metrics drawn where they are anything but 0: pressure, tasks, memory of the target and of the host, devices, reclaim.
const METRICS: [&str; 18] = [
    "psi.cpu.some_ns",
    "psi.memory.some_ns",
    "psi.io.some_ns",
    "stat.procs_running",
    "stat.procs_blocked",
    "target.status.vmrss_bytes",
    "target.smaps.anonhugepages_bytes",
    "target.faults",
    "target.io.read_bytes",
    "target.io.write_bytes",
    "meminfo.memfree_bytes",
    "meminfo.dirty_bytes",
    "meminfo.writeback_bytes",
    "vmstat.thp_fault_alloc",
    "vmstat.compact_stall",
    "vmstat.pgscan_direct",
    "cpu.iowait_ns",
    "cpu.steal_ns",
];
/// Events drawn, of those that could be counted.
const EVENTS: [&str; 6] =
    ["cycles", "instructions", "LLC-load-misses", "dTLB-load-misses", "context-switches", "cpu-migrations"];

/// One recording against time.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OverTime {
    /// The recording.
    dir: String,
    latency: Option<latency::OverTime>,
    io: Option<IoMaps>,
    pub(crate) series: metrics::OverTime,
}

/// A run that is drawn as thin lines behind the typical run of its side: of fewer points and fewer digits, because there are up to nine
/// of them on each side.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OtherRun {
    /// The recording.
    dir: String,
    /// Number within its variant.
    run: Option<u64>,
    latency: Option<latency::OverTime>,
    pub(crate) series: metrics::OverTime,
}

impl OtherRun {
    /// Reads a run.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(run: &RunEntry) -> Result<Self, AnalysisError> {
        // What is damaged in one run of many is said by the comparison.
        let notes = &mut Vec::new();
        let recording = Recording::open(Path::new(&run.dir))?;
        let mut series = series(&recording, MOST_POINTS_OF_OTHERS, notes)?;
        for value in series.courses.iter_mut().flat_map(|course| &mut course.values).flatten() {
            *value = rounded(*value);
        }
        let latency = latency::collect(&recording, MOST_POINTS_OF_OTHERS, notes)?;
        Ok(Self { dir: run.dir.clone(), run: run.run, latency, series })
    }
}

/// Three significant digits: half a per cent, which is less than half a pixel of a line's height.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// The metrics and events that are drawn, of which there is one for all of the host or the target.
fn series(recording: &Recording, most: usize, notes: &mut Vec<String>) -> Result<metrics::OverTime, AnalysisError> {
    let mut series = metrics::collect(recording, &METRICS, &EVENTS, most, notes)?;
    // Of parts of a host, such as single CPUs, there would be too many.
    series.courses.retain(|course| course.instance.is_none() && course.values.len() > 1);
    Ok(series)
}

impl OverTime {
    /// Reads a recording.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(dir: &Path, notes: &mut Vec<String>) -> Result<Self, AnalysisError> {
        let recording = Recording::open(dir)?;
        Ok(Self {
            dir: dir.display().to_string(),
            latency: latency::collect(&recording, MOST_POINTS, notes)?,
            io: IoMaps::of(&recording, notes)?,
            series: series(&recording, MOST_POINTS, notes)?,
        })
    }
}

/// Leaves out lines that are 0 or unknown all the time in all runs.
pub(crate) fn drop_flat<'a>(runs: impl IntoIterator<Item = &'a mut metrics::OverTime>) {
    let mut runs: Vec<&mut metrics::OverTime> = runs.into_iter().collect();
    let moves = |course: &metrics::Course| course.values.iter().flatten().any(|value| *value != 0.0);
    let all = runs.iter().flat_map(|run| &run.courses);
    let kept: Vec<(&'static str, String)> =
        all.filter(|course| moves(course)).map(|course| (course.table, course.name.clone())).collect();
    for run in &mut runs {
        let is_kept =
            |course: &metrics::Course| kept.iter().any(|(table, name)| (*table, name) == (course.table, &course.name));
        run.courses.retain(is_kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thin_lines_have_three_digits() {
        let texts = [1_234_567.0, 0.001_234_5, 0.0, -99.96].map(|value| rounded(value).to_string());
        assert_eq!(texts, ["1230000", "0.00123", "0", "-100"]);
    }
}
