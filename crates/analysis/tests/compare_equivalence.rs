//! What a comparison says where nothing was shown: within what the sides are equivalent, and how many runs would show more.

#![allow(clippy::unwrap_used)]

#[path = "../../views/tests/run_support/mod.rs"]
mod run_support;

use std::path::PathBuf;

use pagelab_analysis::compare::{CompareOptions, Comparison, Verdict, compare};
use run_support::{SECOND, command, record};
use tempfile::TempDir;

/// Runs of a command that took these seconds; in rounds if `rounds`.
fn side(tmp: &TempDir, name: &str, seconds: &[f64], rounds: bool) -> Vec<PathBuf> {
    let run = |(i, seconds): (usize, &f64)| {
        let end = (seconds * SECOND as f64) as i64;
        let mut manifest = command(0, end);
        manifest.variant = Some(name.to_owned());
        manifest.round = rounds.then_some(i as u64 + 1);
        record(&tmp.path().join(format!("{name}-{i:02}")), manifest, |_| {})
    };
    seconds.iter().enumerate().map(run).collect()
}

fn compared(base: &[f64], test: &[f64], rounds: bool) -> Comparison {
    let tmp = TempDir::new().unwrap();
    let (base, test) = (side(&tmp, "a", base, rounds), side(&tmp, "b", test, rounds));
    compare(&base, &test, &CompareOptions { diagnose: false, ..CompareOptions::default() }).unwrap()
}

const BASE: [f64; 8] = [1.003, 0.991, 1.008, 0.996, 1.001, 0.988, 1.011, 0.999];
const TEST: [f64; 8] = [0.998, 1.004, 0.992, 1.010, 0.995, 1.002, 1.007, 0.990];

#[test]
fn like_sides_are_equivalent_within_what_the_interval_allows() {
    for rounds in [false, true] {
        let document = compared(&BASE, &TEST, rounds);
        let primary = document.primary.as_ref().unwrap();
        assert_eq!(primary.verdict, Verdict::NoDifference);
        let within = primary.nothing_shown.equivalent_within_pct.unwrap();
        let [low, high] = primary.result.ratio_ci90.unwrap();
        let farthest = 100.0 * (1.0 - low).max(high - 1.0);
        assert!(farthest <= within && within < farthest + 0.1 + 1e-9, "{within} {farthest}");
        let [outer_low, outer_high] = primary.ratio_ci95.unwrap();
        assert!(outer_low < low && high < outer_high, "the 95 % interval holds the 90 % one");
        let json = serde_json::to_value(&document).unwrap();
        assert_eq!(json["primary"]["equivalent_within_pct"].as_f64(), Some(within));
        assert_eq!(json["primary"]["runs_needed"].as_array().unwrap().len(), 3);
        assert_eq!(json["primary"]["runs_needed"][0]["change_pct"].as_f64(), Some(2.0));
        let back: Comparison = serde_json::from_value(json).unwrap();
        assert_eq!(back, document);
    }
}

/// More runs for smaller changes, and for the change that these runs just detect about as many as there are.
#[test]
fn runs_needed_agree_with_what_is_detectable() {
    for rounds in [false, true] {
        let spread = |values: &[f64]| -> Vec<f64> { values.iter().map(|v| 1.0 + 5.0 * (v - 1.0)).collect() };
        let document = compared(&spread(&BASE), &spread(&TEST), rounds);
        let primary = document.primary.as_ref().unwrap();
        let needed: Vec<u64> = primary.nothing_shown.runs_needed.iter().map(|one| one.runs.unwrap()).collect();
        assert!(needed[0] > needed[1] && needed[1] > needed[2], "{needed:?}");
        let detectable = 100.0 * primary.detectable.unwrap();
        assert!(detectable > 5.0, "{detectable}");
        assert!(needed[1] > 8, "5 % is not found by 8 runs that find {detectable} %: {needed:?}");
        // The runs grow with the square of the spread over the change; more of them have a smaller critical value.
        let share = needed[0] as f64 / (8.0 * (detectable / 2.0).powi(2));
        assert!((0.7..1.0).contains(&share), "{needed:?} {detectable} {share}");
        assert_eq!(document.facts.unwrap().power.unwrap().runs_for_5_pct, Some(needed[1]));
    }
}

#[test]
fn what_differs_and_what_was_not_tested_is_not_equivalent() {
    let slower: Vec<f64> = TEST.iter().map(|seconds| seconds * 1.05).collect();
    let document = compared(&BASE, &slower, false);
    let primary = document.primary.unwrap();
    assert_eq!((primary.verdict, primary.nothing_shown.equivalent_within_pct), (Verdict::Worse, None));
    assert!(primary.nothing_shown.equivalent_note.unwrap().contains("verdict"));
    assert_eq!(primary.nothing_shown.runs_needed.len(), 3);
    let alone = compared(&BASE[..1], &TEST[..1], false).primary.unwrap();
    assert_eq!((alone.verdict, alone.nothing_shown.equivalent_within_pct), (Verdict::NotTested, None));
    assert!(alone.nothing_shown.runs_needed.is_empty());
    assert_eq!(alone.nothing_shown.runs_needed_note.as_deref(), Some("no t test was made"));
    let wide = compared(&[1.0, 9.0, 2.0], &[8.0, 1.5, 3.0], false).primary.unwrap();
    assert_eq!((wide.verdict, wide.nothing_shown.equivalent_within_pct), (Verdict::NoDifference, None));
    assert!(wide.nothing_shown.equivalent_note.is_some());
}
