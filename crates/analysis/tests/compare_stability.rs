//! Drift, outliers and modes within a side, on recordings written by the real writer.
//!
//! The story: ten runs of one program on a fresh virtual machine, split in two sides. The first runs touch memory that the
//! hypervisor must fetch and take three times as long; where more of them are on one side than on the other, that side is
//! `worse`. The comparison must say that the runs are of two kinds, which they are, and what goes with them.

#![allow(clippy::unwrap_used)]

#[path = "../../views/tests/run_support/mod.rs"]
mod run_support;

use std::path::PathBuf;

use pagelab_analysis::compare::{CompareOptions, Comparison, Verdict, compare};
use run_support::{SECOND, command, record, sample, setting};
use tempfile::TempDir;

/// One run of a command: how long it took, and what it counted.
#[derive(Clone, Copy)]
struct Run {
    seconds: f64,
    /// Time in the kernel, which the slow runs need.
    system_ns: f64,
    thp: &'static str,
    /// Excluded, for it failed.
    failed: bool,
}

fn run(seconds: f64) -> Run {
    Run { seconds, system_ns: 1e8, thp: "always", failed: false }
}

/// Writes the runs of a side; `at` gives the second in which each began, or no time at all.
fn side(tmp: &TempDir, name: &str, runs: &[Run], at: impl Fn(usize) -> Option<i64>) -> Vec<PathBuf> {
    runs.iter()
        .enumerate()
        .map(|(i, run)| {
            let end = (run.seconds * SECOND as f64) as i64;
            let mut manifest = command(0, end);
            manifest.variant = Some(name.to_owned());
            if at(i).is_none() {
                manifest.run = None;
            }
            manifest.clock.realtime_at_start_ns = at(i).map(|second| second * SECOND);
            manifest.clock.realtime_at_end_ns = at(i).map(|second| second * SECOND + end);
            if run.failed {
                manifest.exit.as_mut().unwrap().code = Some(1);
            }
            record(&tmp.path().join(format!("{name}-{i:02}")), manifest, |w| {
                setting(w, "thp.enabled", run.thp);
                for tenth in 0..=10 {
                    let part = f64::from(tenth) / 10.0;
                    let ts = (end as f64 * part) as i64;
                    sample(w, ts, "cpu.system_ns", 5e9 + run.system_ns * part);
                    // Noise without any relation to the modes, and a clock.
                    sample(w, ts, "vmstat.pgfault", 1e6 + f64::from([900, 400, 700, 200, 800, 300][i % 6]) * part);
                    sample(w, ts, "meminfo.memfree_bytes", 1e9 + 1e6 * f64::from([3, 9, 1, 7, 5, 2, 8][i % 7]));
                }
            })
        })
        .collect()
}

fn compared(base: &[PathBuf], test: &[PathBuf]) -> Comparison {
    compare(base, test, &CompareOptions { diagnose: false, ..CompareOptions::default() }).unwrap()
}

/// Values that vary by about 1 %, without any pattern.
const NOISE: [f64; 10] = [1.003, 0.991, 1.008, 0.996, 1.001, 0.988, 1.011, 0.999, 0.994, 1.006];

fn steady(n: usize, level: f64) -> Vec<Run> {
    (0..n).map(|i| run(level * NOISE[(i * 7) % 10])).collect()
}

#[test]
fn slow_first_runs_are_two_modes_with_what_goes_with_them() {
    let tmp = TempDir::new().unwrap();
    let mut slow_first = steady(10, 1.0);
    for run in &mut slow_first[..3] {
        *run = Run { seconds: run.seconds * 3.0, system_ns: 2.1e9 * run.seconds, ..*run };
    }
    let base = side(&tmp, "a", &slow_first, |i| Some(1000 + 100 * i as i64));
    let test = side(&tmp, "b", &steady(10, 1.0), |i| Some(5000 + 100 * i as i64));
    let document = compared(&base, &test);
    let found = document.stability.as_ref().unwrap();
    assert_eq!(found.base.order.as_deref(), Some("time"));
    assert_eq!((found.base.modes.found, found.test.modes.found), (Some(true), Some(false)), "{found:?}");
    let (lower, upper) = (found.base.modes.lower.as_ref().unwrap(), found.base.modes.upper.as_ref().unwrap());
    assert_eq!((lower.n, upper.n, upper.place.as_deref(), lower.place.as_deref()), (7, 3, Some("first"), Some("last")));
    assert!((upper.mean / lower.mean - 3.0).abs() < 0.05, "{upper:?} {lower:?}");
    let separators = found.base.modes.separators.as_ref().unwrap();
    assert_eq!(separators.metrics[0].name, "cpu.system_ns", "{separators:?}");
    assert!(separators.metrics[0].within < 0.01 && separators.settings.is_empty(), "{separators:?}");
    assert!(separators.metrics.iter().all(|metric| metric.name != "vmstat.pgfault"), "{separators:?}");
    assert!((separators.by_chance - separators.looked_at as f64 * 2.0 / 120.0).abs() < 1e-9, "{separators:?}");
    let said = found.notes.join("\n");
    for part in
        ["the base runs have two modes: 7 near", "3 first", "cpu.system_ns", "--warmup 3", "leave no run out by hand"]
    {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    assert!(!said.contains("the test runs"), "{said}");
    assert!(found.questions == 7 && (found.threshold - 0.05 / 7.0).abs() < 1e-12, "{found:?}");
}

#[test]
fn a_setting_that_goes_with_the_modes_is_named() {
    let tmp = TempDir::new().unwrap();
    let mut mixed = steady(12, 1.0);
    for run in mixed.iter_mut().skip(1).step_by(3) {
        *run = Run { seconds: run.seconds * 1.5, thp: "never", ..*run };
    }
    let base = side(&tmp, "a", &mixed, |i| Some(1000 + 100 * i as i64));
    let test = side(&tmp, "b", &steady(12, 1.0), |i| Some(1050 + 100 * i as i64));
    let found = compared(&base, &test).stability.unwrap();
    let separators = found.base.modes.separators.as_ref().unwrap();
    let [setting] = separators.settings.as_slice() else { panic!("{separators:?}") };
    assert_eq!(
        (setting.key.as_str(), setting.lower.as_deref(), setting.upper.as_deref()),
        ("thp.enabled", Some("always"), Some("never"))
    );
    assert!(found.base.modes.upper.as_ref().unwrap().place.is_none(), "{found:?}");
    assert!(found.notes.iter().any(|note| note.contains("find what sets the mode")), "{:?}", found.notes);
}

#[test]
fn a_drift_of_both_sides_is_found_where_neither_has_enough_runs() {
    let tmp = TempDir::new().unwrap();
    let falling = |level: f64| -> Vec<Run> { (0..5).map(|i| run(level * (1.0 - 0.05 * f64::from(i)))).collect() };
    // The last directory was made first: time puts runs in order, and not their names.
    let base = side(&tmp, "a", &falling(1.0), |i| Some(2000 - 100 * i as i64));
    let test = side(&tmp, "b", &falling(1.01), |i| Some(2050 - 100 * i as i64));
    let document = compared(&base, &test);
    let found = document.stability.as_ref().unwrap();
    assert_eq!((found.base.drift.found, found.both.found), (Some(false), Some(true)), "{found:?}");
    assert!((found.base.drift.p.unwrap() - 2.0 / 120.0).abs() < 1e-12, "{found:?}");
    assert!((found.base.drift.change_pct.unwrap() - 100.0 * 0.2 / 0.9).abs() < 0.1, "{found:?}");
    let said = found.notes.join("\n");
    assert!(said.contains("the runs of both sides drift: they rise") && said.contains("interleave"), "{said}");
    assert_eq!(document.primary.unwrap().verdict, Verdict::NoDifference, "the verdict stays as it is");
}

#[test]
fn an_outlier_is_named_by_its_recording() {
    let tmp = TempDir::new().unwrap();
    let mut one_far = steady(8, 1.0);
    one_far[4].seconds = 1.6;
    let base = side(&tmp, "a", &steady(8, 1.0), |i| Some(1000 + 100 * i as i64));
    let test = side(&tmp, "b", &one_far, |i| Some(1050 + 100 * i as i64));
    let found = compared(&base, &test).stability.unwrap();
    let [far] = found.test.outliers.runs.as_slice() else { panic!("{found:?}") };
    assert!(far.dir.ends_with("b-04") && far.p < 1e-4 && far.deviations > 20.0, "{far:?}");
    assert!(found.notes[0].contains("of 8 test runs 1 is an outlier") && found.notes[0].contains("b-04"), "{found:?}");
    assert_eq!(found.test.modes.found, Some(false), "one value is no mode");
}

#[test]
fn clean_sides_have_no_notes_and_what_is_not_tested_says_why() {
    let tmp = TempDir::new().unwrap();
    let base = side(&tmp, "a", &steady(4, 1.0), |_| None);
    let mut runs = steady(3, 1.0);
    runs.push(Run { failed: true, ..run(9.0) });
    let test = side(&tmp, "b", &runs, |_| None);
    let document = compared(&base, &test);
    let found = document.stability.as_ref().unwrap();
    assert_eq!((found.base.n, found.test.n), (4, 3), "a run that failed is no value");
    assert!(found.notes.is_empty(), "{found:?}");
    assert_eq!((found.base.order.as_deref(), found.base.drift.p), (None, None));
    assert!(found.base.drift.note.as_deref().unwrap().contains("in which order"), "{found:?}");
    assert!(found.base.modes.note.as_deref().unwrap().contains("at least 5 are needed"), "{found:?}");
    assert_eq!(found.questions, 2, "outliers of either side");
    let json = serde_json::to_value(&document).unwrap();
    assert!(json["stability"]["base"]["modes"]["p"].is_null(), "not 0: {json}");
    let back: Comparison = serde_json::from_value(json).unwrap();
    assert_eq!(&back, &document);
}
