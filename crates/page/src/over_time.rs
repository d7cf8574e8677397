//! What is drawn against time, of one recording: latency, I/O, metrics and counters. Each is binned when it is read.

use std::path::Path;

use pagelab_analysis::AnalysisError;
use pagelab_recording::Recording;
use pagelab_views::metrics::over_time as metrics;
use pagelab_views::view::latency::over_time as latency;
use schemars::JsonSchema;
use serde::Serialize;

use crate::io_map::IoMaps;

/// Points of a line at most.
const MOST_POINTS: usize = 300;

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
    series: metrics::OverTime,
}

impl OverTime {
    /// Reads a recording.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(dir: &Path, notes: &mut Vec<String>) -> Result<Self, AnalysisError> {
        let recording = Recording::open(dir)?;
        let mut series = metrics::collect(&recording, &METRICS, &EVENTS, MOST_POINTS, notes)?;
        // Of parts of a host, such as single CPUs, there would be too many.
        series.courses.retain(|course| course.instance.is_none() && course.values.len() > 1);
        Ok(Self {
            dir: dir.display().to_string(),
            latency: latency::collect(&recording, MOST_POINTS, notes)?,
            io: IoMaps::of(&recording, notes)?,
            series,
        })
    }
}

/// Leaves out lines that are 0 or unknown all the time on all sides.
pub(crate) fn drop_flat<'a>(sides: impl IntoIterator<Item = &'a mut OverTime>) {
    let mut sides: Vec<&mut OverTime> = sides.into_iter().collect();
    let moves = |course: &metrics::Course| course.values.iter().flatten().any(|value| *value != 0.0);
    let all = sides.iter().flat_map(|side| &side.series.courses);
    let kept: Vec<(&'static str, String)> =
        all.filter(|course| moves(course)).map(|course| (course.table, course.name.clone())).collect();
    for side in &mut sides {
        side.series
            .courses
            .retain(|course| kept.iter().any(|(table, name)| (*table, name) == (course.table, &course.name)));
    }
}
