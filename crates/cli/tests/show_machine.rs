//! `pagelab show` of what the machine did: counters, disks, DAX, page sizes. On a recording of which every sum is known.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

#[allow(dead_code, reason = "each test file uses a part")]
mod show_fixture;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use show_fixture::machine::{NOT_SUPPORTED, PAGE_FAULTS_PER_SECOND};
use show_fixture::{last, write};
use tempfile::TempDir;

fn whole() -> (TempDir, PathBuf) {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    write(&dir).close(last).unwrap();
    (tmp, dir)
}

fn text(dir: &Path, words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pagelab")).arg("show").arg(dir).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(dir: &Path, words: &[&str]) -> Value {
    let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&text(dir, &words)).unwrap()
}

fn row<'a>(list: &'a Value, key: &str, value: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|row| row[key] == value);
    found.unwrap_or_else(|| panic!("{key} {value} is not in {list:#}"))
}

fn about(found: &Value, wanted: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - wanted).abs() < 1e-9 * wanted.abs(), "{found} for {wanted}");
}

#[test]
fn counts_are_scaled_where_they_took_turns_and_null_where_there_are_none() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["counters"]);
    let event = |name| row(&document["events"], "name", name);
    let faults = event("page-faults");
    assert_eq!((&faults["value"], &faults["multiplexed"]), (&(3 * PAGE_FAULTS_PER_SECOND).into(), &false.into()));
    about(&faults["running_pct"], 100.0);
    let cycles = event("cycles");
    assert_eq!((&cycles["value"], &cycles["multiplexed"]), (&3_000_000.into(), &true.into()));
    about(&cycles["estimate"], 6e6);
    about(&cycles["running_pct"], 50.0);
    let never = event("branch-misses");
    assert_eq!((&never["value"], &never["estimate"]), (&0.into(), &Value::Null), "no turn is not 0");
    assert!(never["reason"].as_str().unwrap().contains("never given a counter"));
    let missing = event("LLC-loads");
    assert_eq!((&missing["value"], &missing["reason"]), (&Value::Null, &NOT_SUPPORTED.into()));
    let lines = text(&dir, &["counters"]);
    assert!(lines.contains("6000000  ~") && lines.contains(NOT_SUPPORTED), "{lines}");
}

#[test]
fn counts_are_per_operation_of_the_measured_time() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["counters"]);
    // The load measured two of the three seconds and counted 100 operations in them.
    about(&document["operations"], 100.0);
    let event = |name| row(&document["events"], "name", name);
    about(&event("page-faults")["per_operation"], 2.0 * PAGE_FAULTS_PER_SECOND as f64 / 100.0);
    about(&event("cycles")["per_operation"], 4e6 / 100.0);
}

#[test]
fn ratios_are_of_events_counted_together() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["counters"]);
    let ratio = |name| row(&document["ratios"], "name", name);
    about(&ratio("insn_per_cycle")["value"], 2.5);
    about(&ratio("page_faults_per_second")["value"], PAGE_FAULTS_PER_SECOND as f64 / 0.9);
    about(&document["cpus_utilized"], 0.9);
    for (name, why) in [
        ("cycles_ghz", "not counted at the same times"),
        ("branch_miss_pct", "not counted at the same times"),
        ("llc_load_miss_pct", "was not counted"),
    ] {
        assert_eq!(ratio(name)["value"], Value::Null, "{name}");
        assert!(ratio(name)["reason"].as_str().unwrap().contains(why), "{name}: {}", ratio(name));
    }
    let some = json(&dir, &["counters", "page-"]);
    assert_eq!(some["events"].as_array().map(Vec::len), Some(1), "{some:#}");
}
