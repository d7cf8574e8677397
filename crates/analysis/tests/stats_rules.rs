//! The rules of `test_metric`: which data get which test, and what stands in the result where there is none.

#![allow(clippy::float_cmp, reason = "constant sides are compared exactly")]

use pagelab_analysis::stats::{
    Count, Design, Method, MetricSamples, Observation, Outcome, Summary, TestResult, exact_poisson, fieller,
    settle_alone, settle_family, test_metric, welch,
};

fn runs(values: &[f64]) -> Vec<Observation> {
    values.iter().map(|v| Observation::of(*v)).collect()
}

fn unpaired(base: &[f64], test: &[f64], resolution: Option<f64>) -> TestResult {
    test_metric(&MetricSamples { base: &runs(base), test: &runs(test), design: Design::Unpaired, resolution })
}

/// Runs in rounds 0, 1, ... ; NaN is a run that failed.
fn blocks(base: &[f64], test: &[f64]) -> TestResult {
    let rounds = |side: &[f64]| -> Vec<Observation> {
        (0..).zip(side).map(|(i, v)| Observation { round: Some(i), ..Observation::of(*v) }).collect()
    };
    test_metric(&MetricSamples { base: &rounds(base), test: &rounds(test), design: Design::Blocks, resolution: None })
}

/// Runs of ten seconds, given as events.
fn counted(events: &[u64]) -> Vec<Observation> {
    let of = |events: u64| Observation {
        value: events as f64 / 10.0,
        round: None,
        count: Some(Count { events, exposure: 10.0 }),
    };
    events.iter().map(|events| of(*events)).collect()
}

fn rare(base: &[u64], test: &[u64]) -> TestResult {
    test_metric(&MetricSamples {
        base: &counted(base),
        test: &counted(test),
        design: Design::Unpaired,
        resolution: None,
    })
}

fn note(result: &TestResult) -> &str {
    result.note.as_deref().unwrap_or("")
}

#[test]
fn equal_constants_are_not_tested() {
    let result = unpaired(&[4.0; 5], &[4.0; 6], Some(1.0));
    assert_eq!(result.outcome, Outcome::NotTested);
    assert!(result.p.is_none() && result.t.is_none() && result.ratio.is_none());
    assert!(note(&result).contains("constant and equal"), "{result:?}");
    assert_eq!((result.base.n, result.base.mean, result.test.sd), (5, Some(4.0), Some(0.0)));
}

#[test]
fn different_constants_are_outside_the_family() {
    let mut result = unpaired(&[4.0; 5], &[5.0; 5], Some(1.0));
    assert_eq!(result.outcome, Outcome::DeterministicDifference);
    assert_eq!((result.p, result.ratio, result.difference), (None, Some(1.25), Some(1.0)));
    assert!(note(&result).contains("deterministic_difference"));
    assert_eq!(settle_family([&mut result], 0.05), 0);
    assert_eq!((result.q, result.significant), (None, None));
    // A base of zero has no ratio, and must not get an infinite one, which JSON could not carry.
    assert_eq!(unpaired(&[0.0; 3], &[5.0; 3], None).ratio, None);
}

#[test]
fn one_constant_side_gets_the_error_of_reading() {
    let (constant, varying) = ([10.0; 4], [11.0, 12.0, 10.0, 13.0]);
    let result = unpaired(&constant, &varying, Some(0.6));
    assert_eq!(result.outcome, Outcome::Tested);
    // Four values with the same sd as a uniform reading error: m +- r / sqrt(12) * sqrt(3)/2 twice each.
    let half = 0.6 / 12f64.sqrt() * 0.75f64.sqrt();
    let by_hand = welch(&[10.0 - half, 10.0 - half, 10.0 + half, 10.0 + half], &varying).expect("both vary");
    assert!((result.t.expect("tested") / by_hand.t - 1.0).abs() < 1e-12);
    assert!((result.df.expect("tested") / by_hand.df - 1.0).abs() < 1e-12);
    assert!(note(&result).contains("base is constant"), "{result:?}");
    assert_eq!(result.base.sd, Some(0.0), "the data are shown as they are");
    // The interval of the ratio is of the same test: of means, with the same error of the constant side.
    let level = Summary::from_moments(4, 10.0, 0.6 / 12f64.sqrt()).expect("moments");
    let of_means = fieller(&level, &Summary::of(&varying).expect("values"), 0.95).expect("a ratio");
    for (got, wanted) in result.ratio_ci95.expect("bounded").iter().zip(of_means.interval.expect("bounded")) {
        assert!((got / wanted - 1.0).abs() < 1e-12);
    }
    // Without a resolution the other side's spread alone remains.
    let unknown = unpaired(&constant, &varying, None);
    assert_eq!(unknown.df, Some(3.0));
    assert!(unknown.t.expect("tested") > result.t.expect("tested"));
    assert!(note(&unknown).contains("unknown"));
}

#[test]
fn too_few_runs_are_said_so() {
    for (base, test) in [(&[][..], &[1.0, 2.0][..]), (&[1.0], &[1.0, 2.0]), (&[1.0, 2.0], &[f64::NAN, 3.0])] {
        let result = unpaired(base, test, None);
        assert_eq!((result.outcome, result.p), (Outcome::NotTested, None));
        assert!(note(&result).contains("not tested"), "{result:?}");
    }
    let missing = unpaired(&[1.0, 2.0, f64::NAN], &[1.0, 3.0], None);
    assert_eq!((missing.outcome, missing.base.n), (Outcome::Tested, 2));
    assert!(note(&missing).contains("1 runs without a value"));
}

#[test]
fn unpaired_sets_get_welch() {
    let (base, test) = ([10.0, 11.0, 10.5, 9.5], [7.0, 8.5, 7.5, 8.0, 7.2]);
    let result = unpaired(&base, &test, Some(0.1));
    let direct = welch(&base, &test).expect("both vary");
    assert_eq!(result.method, Some(Method::WelchUnpaired));
    assert_eq!((result.t, result.df, result.p), (Some(direct.t), Some(direct.df), Some(direct.p)));
    assert_eq!(result.welch.map(|w| w.p), result.p);
    let [low, high] = result.ratio_ci95.expect("positive values");
    assert!(low < result.ratio.expect("a ratio") && result.ratio.expect("a ratio") < high && high < 1.0);
    assert!(result.hedges_g.expect("sd") < -2.0 && result.t.expect("t") < 0.0);
    assert_eq!(result.note, None);
}

/// A base that holds 0 in its interval has a ratio, but no bounds for it.
#[test]
fn ratio_without_bounds_is_null() {
    let wide = unpaired(&[-1.0, 1.0, 2.0, -1.5], &[4.0, 5.0, 6.0, 5.0], None);
    assert_eq!((wide.outcome, wide.ratio_ci95), (Outcome::Tested, None));
    assert!(wide.ratio.is_some() && note(&wide).contains("holds 0"), "{wide:?}");
    let zeros = unpaired(&[0.0, 0.0, 0.0], &[4.0, 5.0, 6.0], None);
    assert_eq!((zeros.ratio, zeros.ratio_ci95), (None, None));
    let negative = unpaired(&[-10.0, -11.0, -10.5], &[-20.0, -22.0, -21.0], None);
    let [low, high] = negative.ratio_ci95.expect("well away from 0");
    assert!(low < 2.0 && 2.0 < high);
}

/// What a round shares (a slow phase of the machine) hides the difference from Welch's test and not from the paired one.
#[test]
fn blocks_are_compared_within_rounds() {
    let base = [100.0, 210.0, 52.0, 400.0, 98.0];
    let test: Vec<f64> = base.iter().zip([1.1, 1.12, 1.09, 1.11, 1.1]).map(|(b, f)| b * f).collect();
    let result = blocks(&base, &test);
    assert_eq!((result.method, result.rounds), (Some(Method::PairedBlocks), Some(5)));
    assert!(result.p.expect("tested") < 1e-4);
    assert!(result.welch.expect("printed beside").p > 0.5);
    let [low, high] = result.ratio_ci95.expect("positive values");
    assert!(low > 1.08 && high < 1.13 && (result.ratio.expect("a ratio") - 1.104).abs() < 1e-3);
    // A round that lacks one side is left out of the pairs, and stays in the sides.
    let mut failed = test.clone();
    failed[2] = f64::NAN;
    let fewer = blocks(&base, &failed);
    assert_eq!((fewer.rounds, fewer.base.n, fewer.test.n), (Some(4), 5, 4));
}

#[test]
fn blocks_with_zeros_use_differences() {
    let result = blocks(&[0.0, 5.0, 3.0, 8.0], &[2.0, 7.5, 5.0, 9.0]);
    assert_eq!(result.method, Some(Method::PairedDifferences));
    assert_eq!(result.df, Some(3.0));
    assert!(result.ratio.is_some());
}

/// A constant side hides its reading error in blocks too: differences below one step of the scale are no evidence.
#[test]
fn blocks_with_one_constant_side_get_the_error_of_reading() {
    let (base, test) = ([10.0; 6], [10.0, 10.01, 10.0, 10.01, 10.01, 10.01]);
    let fine = blocks(&base, &test);
    let rounds = |side: &[f64]| -> Vec<Observation> {
        (0..).zip(side).map(|(i, v)| Observation { round: Some(i), ..Observation::of(*v) }).collect()
    };
    let coarse = test_metric(&MetricSamples {
        base: &rounds(&base),
        test: &rounds(&test),
        design: Design::Blocks,
        resolution: Some(1.0),
    });
    // Both sides are read in steps of 1 at a level of 10: sd of a log ratio at least sqrt(2) / sqrt(12) / 10.
    let se = coarse.ratio.expect("positive").ln() / coarse.t.expect("tested");
    assert!((se * 6f64.sqrt() / (6f64.sqrt() / 60.0) - 1.0).abs() < 1e-3, "{se}");
    assert!(fine.p.expect("tested") < 0.03 && coarse.p.expect("tested") > 0.9);
}

#[test]
fn blocks_without_order_are_refused() {
    let loose = runs(&[1.0, 2.0, 3.0]);
    let samples = MetricSamples { base: &loose, test: &loose, design: Design::Blocks, resolution: None };
    let result = test_metric(&samples);
    assert_eq!(result.outcome, Outcome::NotTested);
    assert!(note(&result).contains("has no round"));
    let twice: Vec<Observation> =
        [1.0, 2.0, 3.0].iter().map(|v| Observation { round: Some(1), ..Observation::of(*v) }).collect();
    let result = test_metric(&MetricSamples { base: &twice, test: &twice, ..samples });
    assert_eq!(result.outcome, Outcome::NotTested);
    assert!(note(&result).contains("round 1 holds two runs"));
}

/// A ratio that is the same in every round has no spread to test with.
#[test]
fn equal_rounds_are_not_tested_and_equal_factors_deterministic() {
    let base = [3.0, 5.0, 7.0, 9.0];
    assert_eq!(blocks(&base, &base).outcome, Outcome::NotTested);
    let many: Vec<f64> = (1..200).map(f64::from).collect();
    let sevenfold: Vec<f64> = many.iter().map(|v| v * 7.0).collect();
    let result = blocks(&many, &sevenfold);
    assert_eq!((result.outcome, result.p), (Outcome::DeterministicDifference, None));
    assert!((result.ratio.expect("positive") - 7.0).abs() < 1e-12);
}

#[test]
fn rare_events_get_the_exact_test() {
    let result = rare(&[0, 1, 0, 0, 1], &[4, 3, 5, 4, 4]);
    assert_eq!(result.method, Some(Method::ExactPoisson));
    let count = |events| Count { events, exposure: 50.0 };
    let exact = exact_poisson(count(2), count(20), 0.95).expect("events");
    assert_eq!(result.exact_p, Some(exact.p));
    assert_eq!(result.p, Some(exact.p.max(result.welch.expect("runs vary").p)));
    assert_eq!((result.t, result.df), (None, None));
    // From 20 events on, on both sides, runs are compared as usual.
    assert_eq!(rare(&[3, 5, 4, 4, 4], &[40, 30, 45, 35, 44]).method, Some(Method::WelchUnpaired));
    assert_eq!(rare(&[3, 5, 4, 4, 3], &[40, 30, 45, 35, 44]).method, Some(Method::ExactPoisson));
}

/// Nineteen events in one run of five are one incident, whatever the exact test says.
#[test]
fn a_burst_is_not_evidence() {
    let burst = rare(&[0; 5], &[0, 0, 19, 0, 0]);
    assert!(burst.exact_p.expect("events") < 1e-4);
    assert!(burst.p.expect("tested") > 0.3);
    let steady = rare(&[0; 5], &[4, 3, 4, 4, 4]);
    assert!(steady.p.expect("tested") < 1e-3);
    assert_eq!(steady.ratio, None);
    assert_eq!(rare(&[0; 5], &[0; 5]).outcome, Outcome::NotTested);
    // One event in every run of one side: constant and different, but too few to call it deterministic.
    let single = rare(&[0; 3], &[1; 3]);
    assert_eq!(single.outcome, Outcome::Tested);
    assert!((single.p.expect("tested") - 0.25).abs() < 1e-15, "2 * (1/2)^3");
}

#[test]
fn different_exposures_are_reflected() {
    let side = |events: [u64; 4], exposure: f64| -> Vec<Observation> {
        let of = |events: u64| Observation {
            value: events as f64 / exposure,
            round: None,
            count: Some(Count { events, exposure }),
        };
        events.map(of).to_vec()
    };
    let base = side([2, 3, 2, 3], 10.0);
    let equal_rate = test_metric(&MetricSamples {
        base: &base,
        test: &side([4, 6, 4, 6], 20.0),
        design: Design::Unpaired,
        resolution: None,
    });
    assert_eq!(equal_rate.exact_p, Some(1.0));
    assert!((equal_rate.ratio.expect("a ratio") - 1.0).abs() < 1e-12);
    let doubled = test_metric(&MetricSamples {
        base: &base,
        test: &side([4, 6, 4, 6], 10.0),
        design: Design::Unpaired,
        resolution: None,
    });
    assert!(doubled.exact_p.expect("events") < 0.2);
    assert!((doubled.ratio.expect("a ratio") - 2.0).abs() < 0.2);
}

/// The family is all that was tested; the primary is decided alone and leaves the family's q values untouched.
#[test]
fn families_and_the_primary() {
    let base = [10.0, 10.2, 9.8, 10.1, 9.9];
    let mut family: Vec<TestResult> = (0..20)
        .map(|i| {
            let shift = if i == 7 { 3.0 } else { 0.01 * f64::from(i % 5) };
            unpaired(&base, &base.map(|v| v + shift), None)
        })
        .collect();
    family.push(unpaired(&[1.0; 3], &[1.0; 3], None));
    family.push(unpaired(&[1.0; 3], &[2.0; 3], None));
    assert_eq!(settle_family(&mut family, 0.05), 20);
    let significant: Vec<usize> = (0..family.len()).filter(|i| family[*i].significant == Some(true)).collect();
    assert_eq!(significant, [7]);
    assert!(family[7].q.expect("tested") >= family[7].p.expect("tested"));
    assert_eq!((family[20].q, family[21].q), (None, None));
    // A caller that withdraws a test (loss explains it) takes it out of the family although its p stays to be seen.
    family[7].outcome = Outcome::NotTested;
    assert_eq!(settle_family(&mut family, 0.05), 19);
    assert_eq!((family[7].q, family[7].significant), (None, None));

    let mut primary = unpaired(&base, &[9.0, 9.4, 9.1, 9.6, 9.8], None);
    settle_alone(&mut primary, 0.05);
    assert_eq!((primary.q, primary.significant), (None, Some(true)));
    let strict = primary.p.expect("tested") / 2.0;
    settle_alone(&mut primary, strict);
    assert_eq!(primary.significant, Some(false));
}

/// The document carries p values that a double cannot hold, and null for everything that does not exist.
#[test]
fn results_survive_json() {
    let far = unpaired(
        &(0..200).map(|i| f64::from(i % 3)).collect::<Vec<_>>(),
        &(0..200).map(|i| 1e6 + f64::from(i % 3)).collect::<Vec<_>>(),
        None,
    );
    assert_eq!(far.p, Some(0.0));
    assert!(far.ln_p.expect("tested") < -2000.0);
    for result in [far, unpaired(&[1.0], &[2.0], None), rare(&[0, 0, 0], &[1, 2, 3])] {
        let text = serde_json::to_string(&result).expect("serialises");
        let back: TestResult = serde_json::from_str(&text).expect("parses");
        assert_eq!(
            (back.outcome, back.method, back.base.n, &back.note),
            (result.outcome, result.method, result.base.n, &result.note)
        );
        // serde_json reads a number back to the last digit but one.
        for (a, b) in [(back.p, result.p), (back.ln_p, result.ln_p), (back.t, result.t), (back.ratio, result.ratio)] {
            assert_eq!(a.is_some(), b.is_some());
            assert!(a.zip(b).is_none_or(|(a, b)| (a - b).abs() <= 1e-15 * b.abs()), "{text}");
        }
        let value: serde_json::Value = serde_json::from_str(&text).expect("parses");
        for key in ["base", "test", "t", "df", "p", "q", "hedges_g", "ratio", "ratio_ci95", "significant", "note"] {
            assert!(value.get(key).is_some(), "{key} is missing in {text}");
        }
    }
}
