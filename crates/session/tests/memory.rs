//! The recorder's memory stays below its bound and does not grow with the recording.

use std::process::Command;

use pagelab_observe::streams::StreamSet;
use pagelab_session::{SessionOptions, Target};

/// What the recorder may take at most, whatever it records and for how long.
const BOUND_BYTES: u64 = 150 << 20;
/// What a recording of four times the calls may take more: how full the rings were when they were emptied differs from run
/// to run.
const GROWTH_BYTES: u64 = 20 << 20;
/// Tells the test how many calls to record, in a process of its own: the largest resident size is the process's.
const CALLS: &str = "PAGELAB_TEST_CALLS";

/// Two tasks that call as fast as they can, `sys.argv[1]` reads and as many writes each, along with threads that sleep
/// in calls of some seconds: such a call is older than most others of the part that it is written in.
const WORKLOAD: &str = r#"
import subprocess, sys, threading, time
def sleep(seconds):
    while True:
        time.sleep(seconds)
for number in range(24):
    threading.Thread(target=sleep, args=(0.6 + number / 8,), daemon=True).start()
dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=16", "count=" + sys.argv[1], "status=none"]
for one in [subprocess.Popen(dd) for _ in range(2)]:
    one.wait()
"#;

/// Records `calls` calls, at least; the recorder's largest resident size, as the manifest has it.
fn peak_of(calls: u64) -> u64 {
    let tmp = tempfile::tempdir().expect("a directory");
    let count = (calls / 4).to_string();
    let command = ["python3", "-c", WORKLOAD, &count];
    let target = Target::Command(command.iter().map(Into::into).collect());
    let mut options = SessionOptions::new(target, tmp.path().join("rec"));
    options.streams = StreamSet::parse("default,syscalls,sched").expect("streams");
    let outcome = pagelab_session::run(&options).expect("recorded");
    assert_eq!(outcome.ended.expect("it ended").shell_status(), 0);
    let seen = |name: &str| outcome.manifest.probes.iter().find(|probe| probe.name == name)?.events_seen;
    let recorded = seen("syscalls").expect("calls are recorded");
    assert!(recorded >= calls, "{recorded} calls of at least {calls}");
    outcome.manifest.self_cost.max_rss_bytes.expect("the recorder measures itself")
}

/// The same in a process of its own.
fn peak_of_another(calls: u64) -> u64 {
    let mut again = Command::new(std::env::current_exe().expect("this test"));
    let output = again.arg("--nocapture").env(CALLS, calls.to_string()).output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let peak = out.lines().find_map(|line| line.split_once("peak ")?.1.parse().ok());
    peak.unwrap_or_else(|| panic!("no peak was printed: {out}{err}"))
}

#[test]
fn memory_stays_below_its_bound_and_does_not_grow_with_the_recording() {
    if let Ok(calls) = std::env::var(CALLS) {
        println!("\npeak {}", peak_of(calls.parse().expect("a number")));
        return;
    }
    let (first, four_times) = (peak_of_another(1_200_000), peak_of_another(4_800_000));
    println!("{first} bytes, four times the calls: {four_times}");
    assert!(four_times <= BOUND_BYTES, "{four_times} bytes, at most {BOUND_BYTES} are allowed");
    assert!(four_times <= first + GROWTH_BYTES, "{first} bytes grew to {four_times}");
}
