//! The stream `speed`: each CPU is looked at fifty times a second, in CPU time of the looking thread's own.

use std::collections::BTreeMap;

use pagelab_observe::streams::StreamSet;
use pagelab_recording::Recording;
use pagelab_recording::tables::MetricsRow;
use pagelab_session::{SessionOptions, Target};

/// Speeds of each CPU while a script runs, with when they were looked at.
fn speeds(script: &str) -> BTreeMap<String, Vec<(i64, f64)>> {
    let tmp = tempfile::tempdir().expect("a directory");
    let target = Target::Command(["/usr/bin/python3", "-c", script].map(Into::into).to_vec());
    let mut options = SessionOptions::new(target, tmp.path().join("rec"));
    options.streams = StreamSet::parse("tasks,speed").expect("streams");
    let outcome = pagelab_session::run(&options).expect("recorded");
    assert_eq!(outcome.ended.expect("it ended").shell_status(), 0, "{:?}", outcome.warnings);
    let recording = Recording::open(&outcome.dir).expect("a recording");
    let mut found: BTreeMap<String, Vec<(i64, f64)>> = BTreeMap::new();
    recording
        .for_each::<MetricsRow<'_>>(|row| {
            if row.name == "speed.calls_per_second" {
                let cpu = row.instance.expect("a CPU").to_owned();
                found.entry(cpu).or_default().push((row.ts, row.value.expect("a value")));
            }
        })
        .expect("metrics");
    let said = &outcome.manifest.extra["speed"];
    let looks: usize = found.values().map(Vec::len).sum();
    assert_eq!(said["looks"].as_u64(), u64::try_from(looks).ok());
    // The threads have ended, and what they took is little.
    let cpu_ns = said["cpu_ns"].as_u64().expect("they have ended");
    assert!(cpu_ns > 0 && cpu_ns < looks as u64 * 2_000_000, "{cpu_ns} ns for {looks} looks");
    found
}

fn median(values: &[(i64, f64)]) -> f64 {
    let mut sorted: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Four others on each CPU take four fifths of its time, and nothing of its speed but what another thread of the core takes.
#[test]
fn who_else_has_the_cpu_in_turn_does_not_matter() {
    let alone = speeds("import time; time.sleep(1.5)");
    let crowded = speeds(
        "import os, time
for i in range(4 * os.cpu_count()):
    if os.fork() == 0:
        end = time.time() + 1.5
        while time.time() < end: sum(range(10000))
        os._exit(0)
for i in range(4 * os.cpu_count()): os.wait()",
    );
    let cpus = std::thread::available_parallelism().expect("CPUs").get();
    for (found, least) in [(&alone, 20), (&crowded, 5)] {
        assert_eq!(found.len(), cpus, "{:?}", found.keys());
        for (cpu, looks) in found {
            let times: Vec<i64> = looks.iter().map(|(ts, _)| *ts).collect();
            assert!(times.is_sorted(), "{cpu}");
            let seconds = (times[times.len() - 1] - times[0]) as f64 / 1e9;
            assert!(
                looks.len() >= least && looks.len() as f64 <= seconds * 51.0 + 2.0,
                "{cpu}: {} in {seconds} s",
                looks.len()
            );
        }
    }
    for (cpu, looks) in &alone {
        let [alone, crowded] = [median(looks), median(&crowded[cpu])];
        assert!(crowded > 0.4 * alone, "{cpu}: {alone} alone, {crowded} among four others");
    }
}
