//! What must hold between the figures of any report.

use crate::common;

use common::run;
use pagelab_load::JobReport;
use pagelab_load::histogram::bounds;
use pagelab_load::report::DirectionResult;

/// Checks every identity that the crate's manual promises; `bytes_per_operation` is what each operation transfers.
fn check(report: &JobReport, bytes_per_operation: u64, timed: bool) {
    let window = report.window.expect("measured");
    assert!(
        window.start_ns < window.end_ns && report.run.start_ns <= window.start_ns && window.end_ns <= report.run.end_ns
    );
    assert_eq!(
        report.operations,
        report.workers.iter().map(pagelab_load::report::WorkerReport::operations).sum::<u64>()
    );
    assert_eq!(report.bytes, report.operations * bytes_per_operation);
    for worker in &report.workers {
        let own = worker.window.expect("measured");
        assert!(own.start_ns >= window.start_ns && own.end_ns <= window.end_ns);
        let mut lat_sum = 0;
        for (name, result) in worker.directions() {
            direction(name, result, own, timed);
            lat_sum += result.lat.sum_ns;
        }
        // One thread does one thing at a time. The counter's calibration is good to 1e-5 and more.
        assert!(lat_sum as f64 <= own.duration_ns() as f64 * 1.001, "{lat_sum} in {}", own.duration_ns());
    }
}

fn direction(name: &str, result: &DirectionResult, window: pagelab_load::report::Window, timed: bool) {
    assert!(result.slat.is_none(), "{name}: engines that wait have no submission latency");
    if timed {
        assert_eq!(result.clat.count, result.operations, "{name}");
        assert_eq!(result.lat.count, result.operations, "{name}");
    }
    assert!(result.lat.sum_ns >= result.clat.sum_ns && result.lat.min_ns >= result.clat.min_ns, "{name}");
    for latencies in [&result.clat, &result.lat] {
        assert_eq!(latencies.buckets.iter().map(|(_, count)| count).sum::<u64>(), latencies.count, "{name}");
        let (Some(first), Some(last)) = (latencies.buckets.first(), latencies.buckets.last()) else { continue };
        let (low, _) = bounds(usize::from(first.0));
        let (_, high) = bounds(usize::from(last.0));
        assert!(
            (Some(low)..=Some(high)).contains(&latencies.min_ns)
                && (Some(low)..=Some(high)).contains(&latencies.max_ns),
            "{name}"
        );
        let mean = latencies.mean().expect("some");
        assert!(
            latencies.min_ns.is_some_and(|m| m as f64 <= mean) && latencies.max_ns.is_some_and(|m| m as f64 >= mean)
        );
    }
    assert_eq!(result.intervals.iter().map(|i| i.operations).sum::<u64>(), result.operations, "{name}");
    assert_eq!(result.intervals.iter().map(|i| i.bytes).sum::<u64>(), result.bytes, "{name}");
    let mut end = window.start_ns;
    for interval in &result.intervals {
        assert!(
            interval.start_ns >= end && interval.end_ns > interval.start_ns && interval.end_ns <= window.end_ns + 1_000,
            "{name}"
        );
        end = interval.end_ns;
        let counted = |buckets: &[(u16, u64)]| buckets.iter().map(|(_, count)| count).sum::<u64>();
        if timed {
            assert_eq!(
                (counted(&interval.clat), counted(&interval.lat)),
                (interval.operations, interval.operations),
                "{name}"
            );
        }
    }
}

fn job(directory: &tempfile::TempDir, options: &str) -> Vec<String> {
    let mut arguments = vec![format!("--directory={}", directory.path().display()), "--name=j".to_owned()];
    arguments.extend(options.split_whitespace().map(str::to_owned));
    arguments
}

#[test]
fn hold_for_every_engine_and_pattern() {
    let directory = tempfile::tempdir().expect("tempdir");
    for engine in ["sync", "psync", "mmap", "anon", "null"] {
        for pattern in ["read", "randwrite", "randrw"] {
            for workers in ["", "--numjobs=2 --thread"] {
                let options = format!("--ioengine={engine} --rw={pattern} --bs=4k --size=2m --loops=3 {workers}");
                check(&run(&job(&directory, &options)), 4096, true);
            }
        }
    }
}

#[test]
fn hold_over_seconds_ramps_and_clocks() {
    let directory = tempfile::tempdir().expect("tempdir");
    for clock in ["auto", "clock_gettime"] {
        let options = format!(
            "--ioengine=psync --rw=randrw --bs=512 --size=1m --time_based --runtime=2300ms --ramp_time=300ms --clocksource={clock}"
        );
        let report = run(&job(&directory, &options));
        check(&report, 512, true);
        let window = report.window.expect("measured");
        assert!(window.duration_ns() >= 2_300_000_000, "the runtime is over before the window is");
        assert!(window.start_ns >= report.run.start_ns + 300_000_000, "the ramp is not in the window");
        assert!(report.workers[0].read.intervals.len() >= 2 && report.workers[0].read.iops.count >= 2);
        assert_eq!(report.clock.source == "clock_gettime", clock == "clock_gettime" || report.clock.tsc_hz.is_none());
    }
}

#[test]
fn hold_where_not_every_operation_is_timed() {
    let directory = tempfile::tempdir().expect("tempdir");
    let report = run(&job(&directory, "--ioengine=anon --rw=read --bs=64 --size=1m --latency_sample=16 --loops=2"));
    check(&report, 64, false);
    let read = &report.workers[0].read;
    assert_eq!(read.operations, 2 * (1 << 20) / 64);
    assert_eq!(read.clat.count, read.operations / 16, "one in sixteen");
    let report = run(&job(&directory, "--ioengine=null --rw=read --bs=64 --size=1m --gtod_reduce=1"));
    check(&report, 64, false);
    assert_eq!(report.workers[0].read.clat.count, 0);
}

#[test]
fn touched_bytes_are_the_bytes() {
    let directory = tempfile::tempdir().expect("tempdir");
    let report = run(&job(&directory, "--ioengine=anon --rw=write --bs=4k --size=1m --map_touch=8 --loops=2"));
    check(&report, 8, true);
    assert_eq!(report.operations, 512, "a pass is a pass over blocks");
}

#[test]
fn rates_are_kept() {
    let directory = tempfile::tempdir().expect("tempdir");
    // 50 operations at 200 per second: the 50th is due 245 ms after the first, whatever the machine does meanwhile.
    let report = run(&job(&directory, "--ioengine=null --rw=read --bs=4k --size=200k --rate_iops=200"));
    check(&report, 4096, true);
    assert!(report.window.expect("measured").duration_ns() >= 245_000_000);
    let report = run(&job(
        &directory,
        "--ioengine=null --rw=read --bs=4k --size=40k --thinktime=10ms --thinktime_spin=1ms --thinktime_blocks=2",
    ));
    assert!(report.window.expect("measured").duration_ns() >= 40_000_000, "four pauses between ten operations");
}

#[test]
fn walls_separate_windows() {
    let directory = tempfile::tempdir().expect("tempdir");
    let report = run(&job(
        &directory,
        "--ioengine=null --size=1m --numjobs=2 --name=k --ioengine=null --size=1m --stonewall --startdelay=50ms",
    ));
    let windows: Vec<_> = report.workers.iter().map(|w| w.window.expect("measured")).collect();
    assert!(windows[2].start_ns >= windows[0].end_ns.max(windows[1].end_ns) + 50_000_000);
    let groups: Vec<u32> = report.workers.iter().map(|w| w.group).collect();
    assert_eq!(groups, [0, 0, 1]);
}

#[test]
fn the_same_seed_goes_the_same_way() {
    let directory = tempfile::tempdir().expect("tempdir");
    let reads = |options: &str| {
        run(&job(&directory, &format!("--ioengine=null --rw=randrw --size=4m {options}"))).workers[0].read.operations
    };
    assert_eq!(reads("--randseed=1"), reads("--randseed=1"));
    // 1024 draws each: equal numbers of reads for five seeds in a row have a chance below 1e-7.
    let counts: std::collections::BTreeSet<u64> = (1..6).map(|seed| reads(&format!("--randseed={seed}"))).collect();
    assert!(counts.len() > 1, "{counts:?}");
}
