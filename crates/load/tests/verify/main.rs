//! `verify`: contents against fio 3.33's own verifying, bytes flipped on every engine and file system, passes that end early, states.
//!
//! Bytes are flipped as a medium would: in the file between two runs, in the page cache or the worker's memory (`/proc/PID/mem`) while
//! a job pauses between writing and verifying.

#[path = "../common/mod.rs"]
mod common;

mod against_fio;
mod engines;
mod host;
mod passes;
mod state;
mod together;

use std::path::Path;
use std::process::Output;

use pagelab_load::JobReport;

/// fio's number for a mismatch.
const EILSEQ: i32 = 84;

/// The words of a job in a directory of its own, where it runs.
fn try_in(place: &Path, words: &str) -> Output {
    common::pagelab()
        .current_dir(place)
        .arg("--output-format=report")
        .arg("--name=j")
        .args(words.split_whitespace())
        .output()
        .expect("pagelab-load starts")
}

/// Runs a job; gives its exit status and report.
fn run_in(place: &Path, words: &str) -> (i32, JobReport) {
    let output = try_in(place, words);
    let status = output.status.code().expect("an exit status");
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{words}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
    (status, report)
}

/// A job whose blocks are all found right; gives how many were compared.
fn verified(place: &Path, words: &str) -> u64 {
    let (status, report) = run_in(place, words);
    let failures: Vec<_> = report.workers.iter().map(|worker| (&worker.failure, &worker.verify)).collect();
    assert_eq!(status, 0, "{words}: {failures:?}");
    assert!(report.workers.iter().all(|worker| worker.mismatches() == 0), "{words}");
    report.workers.iter().filter_map(|worker| worker.verify.as_ref()).map(|verify| verify.blocks).sum()
}

/// A job that finds exactly one block wrong, at `offset`; gives the mismatch in words.
fn detected(place: &Path, words: &str, offset: u64) -> String {
    let (status, report) = run_in(place, words);
    let verify = report.workers[0].verify.as_ref().expect("it verifies");
    let failure = report.workers[0].failure.as_ref();
    assert_eq!((status, verify.mismatches), (1, 1), "{words}: {verify:?} {failure:?}");
    assert_eq!(verify.first[0].offset, offset, "{words}: {verify:?}");
    assert_eq!(failure.map(|failure| failure.errno), Some(EILSEQ), "{words}");
    let told = failure.expect("it failed").message.clone();
    let Some(mismatch) = verify.first.first() else { panic!("{words}") };
    for part in [&mismatch.file, &mismatch.expected, &mismatch.found, &format!("offset {offset}")] {
        assert!(told.contains(part.as_str()), "{told}: {part}");
    }
    told
}

/// Changes one bit of a file.
fn flip(path: &Path, at: u64) {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::options().read(true).write(true).open(path).expect("the file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 0x20], at).expect("write");
}
