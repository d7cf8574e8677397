//! `compare --check` is a gate: it passes metrics that were tested and found no worse, and nothing else. It once passed
//! everything it could not test, even a test side whose every run had crashed.

use crate::common;

use std::path::{Path, PathBuf};

use common::{pagelab, run, scratch, stderr};
use pagelab_recording::{Clock, Exit, Manifest, RecordingWriter, WriterOptions};
use serde_json::json;

const SECOND: i64 = 1_000_000_000;

/// Recordings of a command that took these many milliseconds and ended with these statuses.
fn side(dir: &Path, name: &str, runs: &[(i64, i32)]) -> Vec<PathBuf> {
    let one = |(number, (ms, code)): (usize, &(i64, i32))| {
        let path = dir.join(format!("{name}{number}"));
        let measured = json!({"start_ns": 0, "end_ns": ms * 1_000_000, "operations": null, "source": "command"});
        let manifest = Manifest {
            command: Some(vec!["work".to_owned()]),
            exit: Some(Exit { code: Some(*code), ..Exit::default() }),
            clock: Clock { id: "CLOCK_MONOTONIC".to_owned(), ..Clock::default() },
            extra: [("measured".to_owned(), measured)].into_iter().collect(),
            ..Manifest::default()
        };
        let options = WriterOptions { compact: false, ..WriterOptions::default() };
        RecordingWriter::create(&path, manifest, options).expect("a recording").close(|_| {}).expect("a clean end");
        path
    };
    assert!(runs.iter().all(|(ms, _)| *ms * 1_000_000 < 100 * SECOND));
    runs.iter().enumerate().map(one).collect()
}

/// The status of `compare --check`, and its output.
#[track_caller]
fn check(base: &[(i64, i32)], test: &[(i64, i32)], status: i32) -> String {
    limited(base, test, &[], status)
}

/// The same with more options.
#[track_caller]
fn limited(base: &[(i64, i32)], test: &[(i64, i32)], options: &[&str], status: i32) -> String {
    let dir = scratch();
    let (base, test) = (side(dir.path(), "base", base), side(dir.path(), "test", test));
    let mut command = pagelab();
    command.arg("compare").arg("--base").args(base).arg("--test").args(test).arg("--check").args(options);
    stderr(&run(&mut command, status))
}

#[test]
fn a_gate_passes_only_what_was_tested() {
    let good = [(1000, 0), (1010, 0), (990, 0), (1005, 0)];
    assert_eq!(check(&good, &[(1001, 0), (1011, 0), (992, 0), (1004, 0)], 0), "");
    assert_eq!(check(&good, &[(900, 0), (910, 0), (905, 0), (899, 0)], 0), "");
    let said = check(&good, &[(2000, 0), (2010, 0), (1990, 0), (2005, 0)], 1);
    assert!(said.contains("test is worse in run.elapsed_ns"), "{said}");
    // One run a side, ten times slower: there is no test, and no all-clear.
    let said = check(&good[..1], &[(10_000, 0)], 1);
    assert!(said.contains("nothing was tested") && said.contains("at least 2"), "{said}");
    // Every run crashed.
    let said = check(&good, &[(10, 139), (11, 139), (12, 139), (9, 139)], 1);
    assert!(said.contains("all 4 test runs failed"), "{said}");
    // Those that did not crash are as quick as ever.
    let six = [(1000, 0), (1010, 0), (990, 0), (1005, 0), (1000, 0), (1003, 0)];
    let said = check(&six, &[(1000, 0), (1006, 0), (12, 1), (9, 1), (9, 1), (8, 1), (7, 1)], 1);
    assert!(said.contains("more test runs failed"), "{said}");
}

#[test]
fn a_limit_is_broken_only_where_the_whole_interval_is_beyond_it() {
    let base = [(1000, 0), (1010, 0), (990, 0), (1005, 0)];
    // 8 % worse, within a per cent or so.
    let test = [(1080, 0), (1090, 0), (1072, 0), (1084, 0)];
    let said = limited(&base, &test, &["--limit", "3"], 1);
    assert!(said.contains("breaks the limit of 3 %") && said.contains("loss within"), "{said}");
    let said = limited(&base, &test, &["--limit", "20"], 0);
    assert!(said.contains("keeps the limit of 20 %"), "{said}");
    // Worse for sure, and perhaps beyond the limit: no noise is let pass.
    let said = limited(&base, &test, &["--limit", "8"], 1);
    assert!(said.contains("more runs would tell"), "{said}");
    // Perhaps not even worse.
    let noisy = [(1000, 0), (1200, 0), (900, 0), (1100, 0)];
    let said = limited(&noisy, &[(1050, 0), (1180, 0), (950, 0), (1090, 0)], &["--limit", "8"], 0);
    assert!(said.contains("more runs would tell"), "{said}");
    let said = limited(&base, &test, &["--limit", "run.elapsed_ns=3"], 1);
    assert!(said.contains("run.elapsed_ns") && said.contains("breaks"), "{said}");
    let said = limited(&base, &test, &["--limit", "target.faults=3"], 2);
    assert!(said.contains("found no metric target.faults"), "{said}");
    let said = limited(&base, &test, &["--limit", "three"], 2);
    assert!(said.contains("needed a loss in per cent"), "{said}");
    // A limit on one metric says nothing of runs that crash.
    let said = limited(&base, &[(10, 139), (11, 139), (12, 139), (9, 139)], &["--limit", "50"], 1);
    assert!(said.contains("all 4 test runs failed"), "{said}");
}

#[test]
fn a_summary_in_markdown_says_what_the_gate_says() {
    let dir = scratch();
    let base = side(dir.path(), "base", &[(1000, 0), (1010, 0), (990, 0), (1005, 0)]);
    let test = side(dir.path(), "test", &[(2000, 0), (2010, 0), (1990, 0), (2005, 0)]);
    let file = dir.path().join("summary.md");
    let mut command = pagelab();
    command.arg("compare").arg("--base").args(&base).arg("--test").args(&test).args(["--check", "--limit", "5"]);
    run(command.arg("--markdown").arg(&file), 1);
    let text = std::fs::read_to_string(&file).expect("a summary");
    assert!(text.starts_with("### Worse: `run.elapsed_ns`"), "{text}");
    assert!(text.contains("| `run.elapsed_ns` | 5 % |") && text.contains("**broken**"), "{text}");
}

/// The page holds all that it shows, and what recordings say stays text in it.
#[test]
fn a_page_is_one_file_that_asks_for_nothing() {
    let dir = scratch();
    let base = side(dir.path(), "base", &[(1000, 0), (1010, 0), (990, 0), (1005, 0)]);
    let test = side(dir.path(), "<script>", &[(2000, 0), (2010, 0), (1990, 0), (2005, 0)]);
    let file = dir.path().join("why.html");
    let mut command = pagelab();
    command.arg("compare").arg("--base").args(&base).arg("--test").args(&test).arg("--html").arg(&file);
    run(&mut command, 0);
    let html = std::fs::read_to_string(&file).expect("a page");
    assert!(html.starts_with("<!doctype html>") && html.contains("default-src 'none'"), "{}", &html[..400]);
    assert_eq!(html.matches("</script>").count(), 2, "one of the document, one of the script");
    let (_, rest) = html.split_once("id=\"pagelab-document\">").expect("a document");
    let (document, _) = rest.split_once("</script>").expect("its end");
    let document: serde_json::Value = serde_json::from_str(document).expect("JSON");
    assert_eq!(document["comparisons"][0]["primary"]["verdict"], "worse");
    for address in ["http://", "https://", "//cdn", "@import", "url("] {
        let script = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!script.contains(address), "{address}");
    }
}
