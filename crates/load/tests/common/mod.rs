//! Running jobs in processes of their own, with pagelab and with fio.

#![allow(dead_code)] // Each test file uses some of this.

pub(crate) mod mappings;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use pagelab_load::JobReport;

/// The front end of this crate, to be given arguments.
pub(crate) fn pagelab() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagelab-load"));
    command.stdin(Stdio::null());
    command
}

/// fio, to be given arguments. Told which clock to read, it does not spend half of its start on calibrating the processor's.
pub(crate) fn fio_program() -> Command {
    let mut command = Command::new("fio");
    command.arg("--clocksource=clock_gettime");
    command
}

/// How many draws samples of two programs are compared by: fewer in the short form of the tests.
pub(crate) fn draws() -> u64 {
    if std::env::var_os("PAGELAB_TEST_FULL").is_some() { 2_000_000 } else { 500_000 }
}

/// What the distance of two samples of one distribution, of [`draws`] each, lies below but for one seed in 1500 (Kolmogorov and
/// Smirnov: 2 / sqrt(draws / 2)).
pub(crate) fn near() -> f64 {
    2.0 / (draws() as f64 / 2.0).sqrt()
}

/// Runs a job; gives everything that came out.
pub(crate) fn try_run<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    pagelab().arg("--output-format=report").args(arguments).output().expect("pagelab-load starts")
}

/// Runs a job that must succeed.
pub(crate) fn run<S: AsRef<OsStr>>(arguments: &[S]) -> JobReport {
    let output = try_run(arguments);
    if !output.status.success() {
        let report: Option<JobReport> = serde_json::from_slice(&output.stdout).ok();
        let failures: Vec<_> = report.iter().flat_map(|r| &r.workers).filter_map(|w| w.failure.as_ref()).collect();
        panic!("{}: {failures:?}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).expect("a report")
}

/// Runs a job that must be refused with `status`; gives its words.
pub(crate) fn refused<S: AsRef<OsStr>>(arguments: &[S], status: i32) -> String {
    let output = try_run(arguments);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{words}");
    assert!(output.stdout.is_empty(), "a refused job prints no report");
    words
}

/// The processes that a process has started, as long as they live.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The JSON in a program's output; fio prints notes before it.
pub(crate) fn document(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.get(text.find('{').expect("JSON")..).expect("JSON")).expect("JSON")
}

/// What fio says about the same job: (reads, bytes read, writes, bytes written, flushes), summed over jobs. Flushes are counted by their
/// latencies: fio 3.33 adds fdatasync to `short` instead of `sync.total_ios`.
pub(crate) fn fio(directory: &Path, arguments: &[String]) -> [u64; 5] {
    let output = fio_program()
        .current_dir(directory)
        .arg("--output-format=json")
        .args(arguments)
        .output()
        .expect("fio is installed (apt-get install fio); `make test` does it");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "fio {arguments:?}: {words}");
    let document = document(&output);
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
pub(crate) fn totals(report: &JobReport) -> [u64; 5] {
    let sum = |pick: &dyn Fn(&pagelab_load::report::WorkerReport) -> u64| report.workers.iter().map(pick).sum::<u64>();
    [
        sum(&|w| w.read.operations),
        sum(&|w| w.read.bytes),
        sum(&|w| w.write.operations),
        sum(&|w| w.write.bytes),
        sum(&|w| w.flushes.count),
    ]
}

/// An operation as it stands in a log of `write_iolog`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Logged {
    /// The file's name without its directory.
    pub file: std::sync::Arc<str>,
    /// `read`, `write`, `trim`, `sync` or `datasync`.
    pub act: &'static str,
    pub offset: u64,
    pub bytes: u64,
}

/// The operations of a log, in order; opens and closes are left out. A flush has no offset; fio writes that of the operation before.
pub(crate) fn read_log(path: &Path) -> Vec<Logged> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("fio version 3 iolog"));
    let mut name = "";
    let mut shared: std::sync::Arc<str> = "".into();
    let mut log = Vec::with_capacity(text.len() / 40);
    for line in lines {
        let mut words = line.split(' ').skip(1);
        let (Some(file), Some(act), Some(offset), Some(bytes)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        if file != name {
            name = file;
            shared = file.rsplit('/').next().unwrap_or(file).into();
        }
        let act = ["read", "write", "trim", "sync", "datasync"]
            .into_iter()
            .find(|known| *known == act)
            .expect("an operation");
        let number = |text: &str| text.parse().expect("a number");
        let (offset, bytes) = if act.ends_with("sync") { (0, 0) } else { (number(offset), number(bytes)) };
        log.push(Logged { file: shared.clone(), act, offset, bytes });
    }
    log
}

/// Runs a job under fio and under pagelab, each in a directory of its own; gives both logs (fio's first) and the directories.
/// The job is called `j`; its words come before `--name`, so that a further job can be added by `--name=k`.
pub(crate) fn logs(job: &str) -> ([Vec<Logged>; 2], [tempfile::TempDir; 2]) {
    let places = [tempfile::tempdir().expect("tempdir"), tempfile::tempdir().expect("tempdir")];
    let log_of = |place: &tempfile::TempDir| place.path().join("log");
    for (index, place) in places.iter().enumerate() {
        let mut command = if index == 0 { fio_program() } else { pagelab() };
        let output = command
            .current_dir(place.path())
            .arg(if index == 0 { "--output-format=json" } else { "--output-format=report" })
            .arg("--name=j")
            .arg(format!("--write_iolog={}", log_of(place).display()))
            .args(job.split_whitespace())
            .output()
            .expect("fio is installed (apt-get install fio); `make test` does it");
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{job}: {words}{}", String::from_utf8_lossy(&output.stdout));
    }
    let read = [read_log(&log_of(&places[0])), read_log(&log_of(&places[1]))];
    (read, places)
}

/// Both logs must be the same, operation for operation.
pub(crate) fn same_operations(job: &str) -> Vec<Logged> {
    let ([theirs, ours], places) = logs(job);
    let first = theirs.iter().zip(&ours).position(|(a, b)| a != b);
    assert!(
        theirs == ours,
        "{job}: fio did {}, pagelab {}; first difference at {first:?}: {:?} {:?}",
        theirs.len(),
        ours.len(),
        first.map(|at| &theirs[at]),
        first.map(|at| &ours[at])
    );
    assert!(!ours.is_empty(), "{job}");
    same_files(job, &places, false);
    ours
}

/// Both directories must hold the same files: names, lengths, and contents if asked.
pub(crate) fn same_files(job: &str, places: &[tempfile::TempDir; 2], contents: bool) {
    let list = |place: &tempfile::TempDir| -> std::collections::BTreeMap<String, (u64, Option<Vec<u8>>)> {
        std::fs::read_dir(place.path())
            .expect("directory")
            .filter_map(|entry| {
                let entry = entry.expect("entry");
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with("log") {
                    return None;
                }
                let bytes = contents.then(|| std::fs::read(entry.path()).expect("read"));
                Some((name, (entry.metadata().expect("metadata").len(), bytes)))
            })
            .collect()
    };
    let (theirs, ours) = (list(&places[0]), list(&places[1]));
    let names = |map: &std::collections::BTreeMap<String, (u64, Option<Vec<u8>>)>| {
        map.iter().map(|(name, (length, _))| (name.clone(), *length)).collect::<Vec<_>>()
    };
    assert_eq!(names(&ours), names(&theirs), "names and lengths of the files of: {job}");
    assert!(ours == theirs, "contents of the files of: {job}");
}

/// Distance of Kolmogorov and Smirnov between two samples: the greatest difference of their empirical distributions.
pub(crate) fn ks_distance(mut a: Vec<u64>, mut b: Vec<u64>) -> f64 {
    a.sort_unstable();
    b.sort_unstable();
    let (mut i, mut j, mut distance) = (0, 0, 0.0_f64);
    while i < a.len() && j < b.len() {
        let value = a[i].min(b[j]);
        i += a[i..].partition_point(|x| *x <= value);
        j += b[j..].partition_point(|x| *x <= value);
        distance = distance.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    distance
}
