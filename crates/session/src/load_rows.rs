//! The report of a load as rows of the tables `jobs` and `latency`.

use pagelab_load::JobReport;
use pagelab_load::histogram::bounds;
use pagelab_load::report::{DirectionResult, Moments, WorkerInterval, WorkerReport};
use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::{JobsRow, LatencyRow};

const BYTES_PER_KIB: f64 = 1024.0;

/// Writes the latencies of a worker's second.
pub(crate) fn push_interval(told: &WorkerInterval, writer: &mut RecordingWriter) {
    let interval = &told.interval;
    for (kind, buckets) in [("slat", &interval.slat), ("clat", &interval.clat), ("lat", &interval.lat)] {
        for (bucket, count) in buckets {
            let (low_ns, high_ns) = bounds(usize::from(*bucket));
            writer.push(&LatencyRow {
                ts: told.interval.end_ns as i64,
                job: &told.name,
                thread: Some(told.clone),
                direction: told.direction.name(),
                kind,
                low_ns,
                high_ns,
                count: *count,
            });
        }
    }
}

/// Writes one row per worker and direction that did something.
pub(crate) fn push(report: Option<&JobReport>, writer: &mut RecordingWriter) {
    let Some(report) = report else { return };
    // Disk statistics cannot be split by job.
    let disks = serde_json::to_string(&report.disks).ok().filter(|_| !report.disks.is_empty());
    for worker in &report.workers {
        // What ended a worker is one error more, said once.
        let mut fatal = u64::from(worker.failure.is_some());
        for (direction, result) in worker.directions() {
            if result.operations == 0 && result.errors == 0 {
                continue;
            }
            push_job(worker, direction, result, std::mem::take(&mut fatal), disks.as_deref(), writer);
        }
    }
}

/// A moment of a series that may have no samples.
fn some(series: &Moments, value: f64) -> Option<f64> {
    (series.count > 0).then_some(value)
}

fn push_job(
    worker: &WorkerReport,
    direction: &'static str,
    result: &DirectionResult,
    fatal: u64,
    disks: Option<&str>,
    writer: &mut RecordingWriter,
) {
    let window_ns = worker.window.map_or(0, pagelab_load::report::Window::duration_ns);
    let percent = |ns: u64| (window_ns > 0).then(|| 100.0 * ns as f64 / window_ns as f64);
    // Engines without a queue complete each operation before the next.
    let depth = worker.depths.map_or([result.operations, 0, 0, 0, 0, 0, 0], |depths| {
        let all = pagelab_fiojob::Direction::ALL.into_iter().zip(depths.level);
        all.filter(|(each, _)| each.name() == direction).map(|(_, level)| level).next().unwrap_or_default()
    });
    let (iops, bandwidth) = (&result.iops, &result.bandwidth_kib);
    writer.push(&JobsRow {
        ts: worker.window.map_or(0, |window| window.end_ns) as i64,
        job: &worker.name,
        thread: Some(worker.clone),
        direction,
        ios: result.operations,
        bytes: result.bytes,
        short: Some(result.short_operations),
        dropped: Some(0),
        errors: Some(result.errors + fatal),
        // Where nothing succeeded the direction has no time of its own.
        runtime_ns: if result.operations > 0 { result.runtime_ns } else { window_ns },
        usr: worker.usage.and_then(|usage| percent(usage.user_ns)),
        sys: worker.usage.and_then(|usage| percent(usage.system_ns)),
        ctx: worker.usage.map(|usage| usage.voluntary_switches + usage.involuntary_switches),
        majf: worker.usage.map(|usage| usage.major_faults),
        minf: worker.usage.map(|usage| usage.minor_faults),
        iops_min: some(iops, iops.min),
        iops_max: some(iops, iops.max),
        iops_mean: some(iops, iops.mean),
        iops_sd: some(iops, iops.standard_deviation()),
        bw_min: some(bandwidth, bandwidth.min * BYTES_PER_KIB),
        bw_max: some(bandwidth, bandwidth.max * BYTES_PER_KIB),
        bw_mean: some(bandwidth, bandwidth.mean * BYTES_PER_KIB),
        bw_sd: some(bandwidth, bandwidth.standard_deviation() * BYTES_PER_KIB),
        depth: Some(&depth),
        disk_stats: disks,
    });
}
