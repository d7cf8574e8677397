//! Running jobs in processes of their own, with pagelab and with fio.

#![allow(dead_code)] // Each test file uses some of this.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use pagelab_load::JobReport;

/// The front end of this crate, to be given arguments.
pub fn pagelab() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagelab-load"));
    command.stdin(Stdio::null());
    command
}

/// Runs a job; gives everything that came out.
pub fn try_run<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    pagelab().arg("--output-format=report").args(arguments).output().expect("pagelab-load starts")
}

/// Runs a job that must succeed.
pub fn run<S: AsRef<OsStr>>(arguments: &[S]) -> JobReport {
    let output = try_run(arguments);
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    serde_json::from_slice(&output.stdout).expect("a report")
}

/// Runs a job that must be refused with `status`; gives its words.
pub fn refused<S: AsRef<OsStr>>(arguments: &[S], status: i32) -> String {
    let output = try_run(arguments);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{words}");
    assert!(output.stdout.is_empty(), "a refused job prints no report");
    words
}

/// What fio says about the same job: (reads, bytes read, writes, bytes written, flushes), summed over jobs. Flushes are counted by their
/// latencies: fio 3.33 adds fdatasync to `short` instead of `sync.total_ios`.
pub fn fio(directory: &Path, arguments: &[String]) -> [u64; 5] {
    let output = Command::new("fio")
        .current_dir(directory)
        .arg("--output-format=json")
        .args(arguments)
        .output()
        .expect("fio is installed (apt-get install fio); `make test` does it");
    let text = String::from_utf8_lossy(&output.stdout);
    let document: serde_json::Value =
        serde_json::from_str(text.get(text.find('{').expect("JSON")..).expect("JSON")).expect("JSON");
    let sum = |path: &[&str]| -> u64 {
        document["jobs"]
            .as_array()
            .expect("jobs")
            .iter()
            .map(|job| path.iter().fold(job, |value, key| &value[*key]).as_u64().expect("a number"))
            .sum()
    };
    [
        sum(&["read", "total_ios"]),
        sum(&["read", "io_bytes"]),
        sum(&["write", "total_ios"]),
        sum(&["write", "io_bytes"]),
        sum(&["sync", "lat_ns", "N"]),
    ]
}

/// The same figures of a report.
pub fn totals(report: &JobReport) -> [u64; 5] {
    let sum = |pick: &dyn Fn(&pagelab_load::report::WorkerReport) -> u64| report.workers.iter().map(pick).sum::<u64>();
    [
        sum(&|w| w.read.operations),
        sum(&|w| w.read.bytes),
        sum(&|w| w.write.operations),
        sum(&|w| w.write.bytes),
        sum(&|w| w.flushes.count),
    ]
}
