//! `pagelab trend` on nights of recordings: the night at which a benchmark got slower, in text, in JSON and as a gate.

use crate::common;

use std::path::{Path, PathBuf};

use common::{json, pagelab, run, scratch, stderr};
use pagelab_recording::{Clock, Exit, Manifest, RecordingWriter, WriterOptions};

/// Recordings of a command that took these many milliseconds, one a night; `after` the night of this number it takes longer by a
/// tenth.
fn nights(dir: &Path, n: i64, after: i64) -> Vec<PathBuf> {
    let one = |night: i64| {
        let ms = 1000 + (night * 5) % 13 + if night > after { 100 } else { 0 };
        let path = dir.join(format!("night-{night:02}"));
        let measured =
            serde_json::json!({"start_ns": 0, "end_ns": ms * 1_000_000, "operations": null, "source": "command"});
        let manifest = Manifest {
            command: Some(vec!["work".to_owned()]),
            exit: Some(Exit { code: Some(0), ..Exit::default() }),
            clock: Clock {
                id: "CLOCK_MONOTONIC".to_owned(),
                realtime_at_start_ns: Some(night * 86_400_000_000_000),
                ..Clock::default()
            },
            extra: [("measured".to_owned(), measured)].into_iter().collect(),
            ..Manifest::default()
        };
        let options = WriterOptions { compact: false, ..WriterOptions::default() };
        RecordingWriter::create(&path, manifest, options).expect("a recording").close(|_| {}).expect("a clean end");
        path
    };
    (1..=n).map(one).collect()
}

#[test]
fn the_night_of_a_regression_is_named() {
    let dir = scratch();
    let mut all = nights(dir.path(), 24, 15);
    all.reverse();
    let said = run(pagelab().arg("trend").args(&all), 0);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    for part in [
        "for the worse: run.elapsed_ns, 1 change point, no drift (24 points",
        "night-15",
        "night-16",
        "+10",
        "a change point",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let found = json(&run(pagelab().arg("trend").args(&all).arg("--json"), 0));
    assert_eq!((found["format"].as_u64(), found["change_points"][0]["after"].as_u64()), (Some(1), Some(15)), "{found}");
    let check = |words: &[&str], status| stderr(&run(pagelab().arg("trend").args(&all).args(words), status));
    let why = check(&["--check"], 1);
    assert!(why.contains("run.elapsed_ns is worse: +") && why.contains("since") && why.contains("night-16"), "{why}");
    check(&["--check", "--threshold", "20"], 0);
    check(&["--check", "--order", "given"], 0);
}

#[test]
fn no_history_is_an_error_and_a_short_one_is_no_all_clear() {
    let dir = scratch();
    let all = nights(dir.path(), 24, 99);
    let text = run(pagelab().arg("trend").args(&all).arg("--check"), 0).stdout;
    assert!(String::from_utf8_lossy(&text).contains("No change shown: run.elapsed_ns (24 points"));
    let why = stderr(&run(pagelab().arg("trend").arg(dir.path()), 2));
    assert!(why.contains("found one point") && why.contains("pagelab trend nights/*"), "{why}");
    let why = stderr(&run(pagelab().arg("trend").args(&all[..5]).arg("--check"), 1));
    assert!(why.contains("5 points have a value; at least 10 are needed"), "{why}");
    run(pagelab().arg("trend").args(&all[..5]), 0);
    run(pagelab().arg("trend").arg(&all[0]).arg(dir.path().join("nowhere")), 2);
    run(pagelab().args(["trend", "--threshold", "x", "--check"]).args(&all), 2);
}
