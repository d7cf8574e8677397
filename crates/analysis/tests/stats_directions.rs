//! The direction of a verdict, its p value and the interval of its ratio are of one estimate.
//!
//! The direction was once the sign of the difference of the means of all runs, while p and ratio came from complete rounds
//! or from logarithms. One run of the test side in a fast phase of the machine, in a round whose base run had failed, made a
//! side that was 10 % slower in every round "better".

#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "values that must be equal exactly")]

use pagelab_analysis::stats::{
    Change, Count, Design, Method, MetricSamples, Observation, Outcome, TestResult, settle_alone, test_censored,
    test_metric,
};
use proptest::prelude::*;

fn observations(values: &[f64], rounds: bool) -> Vec<Observation> {
    (0..).zip(values).map(|(i, v)| Observation { round: rounds.then_some(i), ..Observation::of(*v) }).collect()
}

fn tested(base: &[f64], test: &[f64], design: Design) -> TestResult {
    let rounds = design == Design::Blocks;
    let (base, test) = (observations(base, rounds), observations(test, rounds));
    test_metric(&MetricSamples { base: &base, test: &test, design, resolution: None })
}

fn note(result: &TestResult) -> &str {
    result.note.as_deref().unwrap_or("")
}

/// The base run of the fifth round failed, and the test run of that round met a fast phase.
#[test]
fn a_lone_fast_run_does_not_turn_the_verdict() {
    let base = [100.0, 101.0, 99.0, 100.0, f64::NAN];
    let result = tested(&base, &[90.0, 91.5, 88.8, 90.2, 200.0], Design::Blocks);
    assert!(result.difference.unwrap() > 12.0, "the means of all runs point the other way");
    assert!((result.ratio.unwrap() - 0.901).abs() < 1e-3 && result.p.unwrap() < 1e-4);
    assert_eq!(result.change, Some(Change::Falls));
    assert!(note(&result).contains("the other way"), "{result:?}");
}

/// No run failed; one round of ten is ten times as fast on both sides, and weighs as one round in logs.
#[test]
fn a_fast_round_does_not_turn_the_verdict() {
    let mut base = [100.0; 10];
    base[9] = 1000.0;
    let test = [95.0, 90.0, 99.0, 93.0, 97.0, 94.0, 96.0, 92.0, 99.0, 1090.0];
    let result = tested(&base, &test, Design::Blocks);
    assert!(result.difference.unwrap() > 0.0 && result.t.unwrap() < -2.0, "{result:?}");
    assert_eq!(result.change, Some(Change::Falls));
}

/// Bimodal runs without rounds: the mean rises while the geometric mean falls. Test and interval are of the mean.
#[test]
fn unpaired_sides_have_one_scale() {
    let base = [100.0, 100.0, 100.0, 100.0, 100.0, 101.0];
    let test = [60.0, 60.0, 60.0, 60.0, 250.0, 260.0];
    let result = tested(&base, &test, Design::Unpaired);
    assert_eq!(result.method, Some(Method::WelchUnpaired));
    let [low, high] = result.ratio_ci95.unwrap();
    assert!((result.ratio.unwrap() - 750.0 / 601.0).abs() < 1e-12);
    assert!(low < 1.0 && high > 1.0 && result.change == Some(Change::Rises), "{result:?}");
}

/// Constant sides that differ fall apart by chance in one of three cases at n = 2, and in one of ten at n = 3.
#[test]
fn a_deterministic_difference_needs_four_runs_a_side() {
    for n in [2, 3] {
        for design in [Design::Unpaired, Design::Blocks] {
            let result = tested(&vec![0.0; n], &vec![1.0; n], design);
            assert_eq!((result.outcome, result.change), (Outcome::NotTested, None), "{n} {design:?}");
            assert!(note(&result).contains("at least 4 are needed"), "{result:?}");
        }
    }
    let result = tested(&[0.0; 4], &[1.0; 4], Design::Blocks);
    assert_eq!((result.outcome, result.change), (Outcome::DeterministicDifference, Some(Change::Rises)));
    // Rounds that all differ by the same factor.
    let (base, test) = ([100.0, 200.0, 300.0, 400.0], [50.0, 100.0, 150.0, 200.0]);
    assert_eq!(tested(&base[..3], &test[..3], Design::Blocks).outcome, Outcome::NotTested);
    let result = tested(&base, &test, Design::Blocks);
    assert_eq!((result.outcome, result.change), (Outcome::DeterministicDifference, Some(Change::Falls)));
}

/// 32 TiB of address space, averaged over windows of different lengths: the sums round differently.
#[test]
fn what_differs_by_rounding_is_equal() {
    let tib32 = 35_184_372_087_808.0;
    let (up, down) = (tib32 * (1.0 + 2e-16), tib32 * (1.0 - 3e-16));
    for design in [Design::Unpaired, Design::Blocks] {
        let result = tested(&[tib32, up, tib32, up, tib32], &[down, tib32, down, down, tib32], design);
        assert_eq!((result.outcome, result.change), (Outcome::NotTested, Some(Change::Equal)), "{result:?}");
        assert_eq!(result.p, None);
    }
    // A real difference next to it is one.
    let other = tib32 * 1.001;
    let result = tested(&[tib32, up, tib32, up], &[other; 4], Design::Unpaired);
    assert_eq!(result.outcome, Outcome::DeterministicDifference);
}

/// A sparse counter keeps the t of its runs where that is the larger p, and shows nothing where the totals contradict it.
#[test]
fn events_and_runs_must_point_one_way() {
    let counted = |values: &[(u64, f64)]| -> Vec<Observation> {
        (0..)
            .zip(values)
            .map(|(i, (events, exposure))| Observation {
                value: *events as f64 / exposure,
                round: Some(i),
                count: Some(Count { events: *events, exposure: *exposure }),
            })
            .collect()
    };
    // Per second the test side has more in every round but one; over all, that one outweighs them.
    let base = counted(&[(1, 10.0), (1, 10.0), (1, 10.0), (1, 10.0), (400, 100.0)]);
    let test = counted(&[(2, 10.0), (2, 10.1), (2, 9.9), (2, 10.0), (8, 100.0)]);
    let result = test_metric(&MetricSamples { base: &base, test: &test, design: Design::Blocks, resolution: None });
    assert_eq!(result.method, Some(Method::ExactPoisson));
    let both = result.t.is_some() == (result.p != result.exact_p);
    assert!(both, "t stands where p is of the runs: {result:?}");
}

/// Eight of ten runs took longer than the timeout, and the two that did not were quick.
#[test]
fn runs_that_the_timeout_ended_rank_as_the_slowest() {
    let base = [5.0, 5.1, 4.9, 5.0, 5.2, 5.1, 5.0, 4.8, 5.0, 5.1];
    let mut result = tested(&base, &[4.7, 4.6], Design::Unpaired);
    assert_eq!(result.change, Some(Change::Falls), "the survivors alone are faster");
    test_censored(&base, 0, &[4.7, 4.6], 8, &mut result);
    settle_alone(&mut result, 0.05);
    assert_eq!((result.method, result.change), (Some(Method::RankSumCensored), Some(Change::Rises)));
    assert_eq!(result.significant, Some(true), "{result:?}");
    assert!(note(&result).contains("ended by the timeout"));
    // The same share on both sides is no difference.
    let mut alike = tested(&base, &base, Design::Unpaired);
    test_censored(&base, 3, &base, 3, &mut alike);
    settle_alone(&mut alike, 0.05);
    assert_eq!(alike.significant, Some(false));
}

/// Values with heavy tails, in pairs or not, with rounds that lack a run.
fn sides() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    let value = prop_oneof![
        6 => 90.0..110.0f64,
        1 => 1.0..10_000.0f64,
        1 => Just(100.0),
        1 => Just(f64::NAN),
        1 => (-9.0..9.0f64).prop_map(|e| e.exp() * 100.0),
    ];
    (2usize..12, 0.5..2.0f64, any::<bool>()).prop_flat_map(move |(n, factor, spiky)| {
        let spike = if spiky { 50.0 } else { 1.0 };
        (prop::collection::vec(value.clone(), n), prop::collection::vec(value.clone(), n)).prop_map(
            move |(base, mut test)| {
                for value in &mut test {
                    *value *= factor;
                }
                if let Some(last) = test.last_mut() {
                    *last *= spike;
                }
                (base, test)
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever the data: a direction that an interval of the ratio excludes is never reported.
    #[test]
    fn no_direction_contradicts_the_interval((base, test) in sides(), blocks in any::<bool>()) {
        let design = if blocks { Design::Blocks } else { Design::Unpaired };
        let result = tested(&base, &test, design);
        if let (Some([low, high]), Some(change)) = (result.ratio_ci95, result.change) {
            prop_assert!(!(change == Change::Rises && high < 1.0), "{result:?}");
            prop_assert!(!(change == Change::Falls && low > 1.0), "{result:?}");
        }
        if let (Some(ratio), Some(change)) = (result.ratio, result.change)
            && result.outcome == Outcome::Tested
        {
            prop_assert!(!(change == Change::Rises && ratio < 1.0), "{result:?}");
            prop_assert!(!(change == Change::Falls && ratio > 1.0), "{result:?}");
        }
        if result.outcome != Outcome::NotTested {
            prop_assert!(result.change.is_some(), "{result:?}");
        }
    }
}
