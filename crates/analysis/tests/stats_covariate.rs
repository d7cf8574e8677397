//! The tests that are adjusted for a covariate: against statsmodels (reference/make_covariate.py), by identities, and by their level and
//! power in simulated runs of a machine whose speed varies.

#[path = "reference/table.rs"]
#[allow(dead_code)]
mod table;

use pagelab_analysis::stats::{
    Adjusted, Design, LEAST_ADJUSTED, Method, MetricSamples, Observation, TestResult, Undefined, WithCovariate,
    log_ratio_adjusted, paired_log_ratios, paired_log_ratios_adjusted, test_at_equal_covariates, test_metric, welch,
};
use table::{Errors, draw, rows};

const BOUND: f64 = 1e-8;

type Test = fn(WithCovariate, WithCovariate) -> Result<Adjusted, Undefined>;

fn side<'a>(values: &'a [f64], covariates: &'a [f64]) -> WithCovariate<'a> {
    WithCovariate { values, covariates }
}

#[test]
fn both_designs_agree_with_statsmodels() {
    let mut errors = Errors::default();
    for (line, row) in rows("covariate.csv").iter().enumerate() {
        let test: Test = if row.text("design") == "blocks" { paired_log_ratios_adjusted } else { log_ratio_adjusted };
        let [base, test_values] = [row.list("base"), row.list("test")];
        let [base_covariates, test_covariates] = [row.list("base_covariates"), row.list("test_covariates")];
        let found = test(side(&base, &base_covariates), side(&test_values, &test_covariates)).expect("it varies");
        let place = format!("row {line}");
        for (quantity, got) in [
            ("estimate", found.test.estimate),
            ("se", found.test.se),
            ("df", found.test.df),
            ("p", found.test.p),
            ("slope", found.slope),
            ("explained", found.explained),
            ("covariate_p", found.covariate.expect("it varies").p),
        ] {
            errors.compare(quantity, got, row.number(quantity), BOUND, &place);
        }
    }
    assert!(errors.count("p") >= 120, "rows are missing");
}

/// Numbers of a round: like those of a machine whose speed goes up and down by a tenth, near normal.
fn speeds(seed: u64, n: usize) -> Vec<f64> {
    draw(seed, n as u64, 0.0, 0.1, 0.0).into_iter().map(f64::exp).collect()
}

/// Values that follow the speed to the power of `slope`, with a noise of their own.
fn values(seed: u64, speeds: &[f64], slope: f64, noise: f64, effect: f64) -> Vec<f64> {
    let noises = draw(seed, speeds.len() as u64, 0.0, noise, 0.0);
    speeds.iter().zip(noises).map(|(speed, noise)| speed.powf(slope) * (noise + effect).exp()).collect()
}

/// What goes with the covariate to any power is taken out: only the slope shows it.
#[test]
fn what_follows_the_covariate_changes_the_slope_alone() {
    let covariates = [speeds(1, 9), speeds(2, 9)];
    let plain = [values(3, &covariates[0], 0.0, 0.02, 0.0), values(4, &covariates[1], 0.0, 0.02, 0.05)];
    let following: Vec<Vec<f64>> = plain
        .iter()
        .zip(&covariates)
        .map(|(values, speeds)| values.iter().zip(speeds).map(|(value, speed)| value * speed.powf(1.7)).collect())
        .collect();
    for test in [paired_log_ratios_adjusted as Test, log_ratio_adjusted] {
        let of = |sides: &[Vec<f64>]| {
            test(side(&sides[0], &covariates[0]), side(&sides[1], &covariates[1])).expect("it varies")
        };
        let (without, with) = (of(&plain), of(&following));
        for (what, a, b) in [
            ("estimate", without.test.estimate, with.test.estimate),
            ("se", without.test.se, with.test.se),
            ("slope", without.slope + 1.7, with.slope),
        ] {
            assert!((a - b).abs() < 1e-12, "{what}: {a} {b}");
        }
        assert!(with.explained > without.explained);
    }
}

/// On a machine whose speed alone makes a fifth of difference the level is what it is said to be, and a twentieth is found where the tests
/// without the covariate do not find it.
#[test]
fn the_level_holds_and_the_power_is_that_of_the_noise_left() {
    const DRAWS: u64 = 4000;
    for (test, plain) in [
        (paired_log_ratios_adjusted as Test, paired_log_ratios as fn(&[f64], &[f64]) -> Result<_, _>),
        (log_ratio_adjusted, welch),
    ] {
        let [mut false_ones, mut found, mut found_plainly] = [0; 3];
        for draw in 0..DRAWS {
            let seed = draw * 10;
            let covariates = [speeds(seed + 1, 8), speeds(seed + 2, 8)];
            let base = values(seed + 3, &covariates[0], 2.0, 0.02, 0.0);
            let same = values(seed + 4, &covariates[1], 2.0, 0.02, 0.0);
            let slower = values(seed + 4, &covariates[1], 2.0, 0.02, -0.05);
            let p = |sides: &[f64]| {
                test(side(&base, &covariates[0]), side(sides, &covariates[1])).expect("it varies").test.p
            };
            false_ones += u64::from(p(&same) <= 0.05);
            found += u64::from(p(&slower) <= 0.05);
            found_plainly += u64::from(plain(&base, &slower).expect("it varies").p <= 0.05);
        }
        let share = |count: u64| count as f64 / DRAWS as f64;
        println!(
            "level {:.3}, power {:.3}, without the covariate {:.3}",
            share(false_ones),
            share(found),
            share(found_plainly)
        );
        let error = 3.5 * (0.05 * 0.95 / DRAWS as f64).sqrt();
        assert!((share(false_ones) - 0.05).abs() <= error, "level {}", share(false_ones));
        assert!(share(found) > 0.7 && share(found_plainly) < 0.2, "{} {}", share(found), share(found_plainly));
    }
}

#[test]
fn what_cannot_be_adjusted_says_why() {
    let [values, covariates] = [[1.0, 1.1, 0.9, 1.2], [1.0, 1.2, 0.8, 1.1]];
    let same = [2.0; 4];
    for test in [paired_log_ratios_adjusted as Test, log_ratio_adjusted] {
        let refused = |base, other| test(base, other).expect_err("it is refused");
        assert_eq!(refused(side(&values, &same), side(&covariates, &same)), Undefined::NoVariance);
        assert_eq!(refused(side(&values, &covariates[..3]), side(&covariates, &same)), Undefined::Unpaired);
        assert_eq!(refused(side(&[0.0; 4], &covariates), side(&values, &values)), Undefined::NotPositive);
        assert_eq!(refused(side(&[f64::NAN; 4], &covariates), side(&values, &values)), Undefined::NotFinite);
    }
    let few = side(&values[..2], &covariates[..2]);
    assert_eq!(paired_log_ratios_adjusted(few, few).expect_err("two rounds"), Undefined::TooFew { needed: 3 });
    let one = side(&values[..1], &covariates[..1]);
    assert_eq!(log_ratio_adjusted(few, one).expect_err("one run"), Undefined::TooFew { needed: 2 });
}

fn runs(values: &[f64]) -> Vec<Observation> {
    (0..).zip(values).map(|(i, value)| Observation { round: Some(i), ..Observation::of(*value) }).collect()
}

/// The result for sides of these values and covariates.
fn compared(design: Design, values: [&[f64]; 2], covariates: [&[f64]; 2]) -> [TestResult; 2] {
    let [base, test] = values.map(runs);
    let samples = MetricSamples { base: &base, test: &test, design, resolution: None };
    let unadjusted = test_metric(&samples);
    let mut adjusted = unadjusted.clone();
    test_at_equal_covariates(&samples, covariates, "speed", 0.05, &mut adjusted);
    [unadjusted, adjusted]
}

/// The document has the numbers of the adjusted test, over the complete rounds.
#[test]
fn results_are_those_of_the_adjusted_tests() {
    let covariates = [speeds(11, 9), speeds(12, 9)];
    let mut base = values(13, &covariates[0], 2.0, 0.02, 0.0);
    let test = values(14, &covariates[1], 2.0, 0.02, -0.05);
    for (design, method) in
        [(Design::Blocks, Method::PairedBlocksAdjusted), (Design::Unpaired, Method::UnpairedAdjusted)]
    {
        base[3] = f64::NAN;
        let [unadjusted, adjusted] = compared(design, [&base, &test], [&covariates[0], &covariates[1]]);
        let without = |values: &[f64]| -> Vec<f64> {
            values.iter().enumerate().filter(|(i, _)| *i != 3).map(|(_, value)| *value).collect()
        };
        let of_base = [without(&base), without(&covariates[0])];
        let all = design == Design::Unpaired;
        let of_test = [&test, &covariates[1]].map(|values| if all { values.clone() } else { without(values) });
        let direct = if all { log_ratio_adjusted } else { paired_log_ratios_adjusted };
        let direct = direct(side(&of_base[0], &of_base[1]), side(&of_test[0], &of_test[1])).expect("it varies");
        assert_eq!(adjusted.method, Some(method));
        assert_eq!(
            (adjusted.p, adjusted.t, adjusted.df),
            (Some(direct.test.p), Some(direct.test.t), Some(direct.test.df))
        );
        assert_eq!(adjusted.ratio, Some(direct.test.estimate.exp()));
        let [low, high] = adjusted.ratio_ci95.expect("an interval");
        let [inner_low, inner_high] = adjusted.ratio_ci90.expect("an interval");
        assert!(low < inner_low && inner_low < inner_high && inner_high < high);
        let held = adjusted.adjusted.expect("what it was adjusted for");
        assert_eq!((held.slope, held.explained), (direct.slope, direct.explained));
        assert_eq!(held.unadjusted_p, unadjusted.p);
        assert_eq!((adjusted.base, adjusted.test), (unadjusted.base, unadjusted.test), "means are those of the runs");
    }
}

#[test]
fn too_few_runs_and_runs_without_a_covariate_are_compared_as_they_are() {
    let covariates = [speeds(21, 8), speeds(22, 8)];
    let of = |seed, side: usize| values(seed, &covariates[side], 2.0, 0.02, 0.0);
    let (base, test) = (of(23, 0), of(24, 1));
    let few = LEAST_ADJUSTED - 1;
    let [unadjusted, adjusted] =
        compared(Design::Blocks, [&base[..few], &test[..few]], [&covariates[0][..few], &covariates[1][..few]]);
    assert_eq!((adjusted.p, adjusted.method), (unadjusted.p, unadjusted.method));
    assert!(adjusted.note.expect("a reason").contains("4 runs a side"));
    let mut holes = covariates[0].clone();
    holes[2] = f64::NAN;
    let [unadjusted, adjusted] = compared(Design::Unpaired, [&base, &test], [&holes, &covariates[1]]);
    assert_eq!((adjusted.p, adjusted.method, adjusted.adjusted), (unadjusted.p, unadjusted.method, None));
    assert!(adjusted.note.expect("a reason").contains("1 of 16 runs do not know it"));
    // A result that is no t test stays what it is.
    let zeros = [0.0; 8];
    let [unadjusted, adjusted] = compared(Design::Blocks, [&zeros, &test], [&covariates[0], &covariates[1]]);
    assert_eq!(unadjusted, adjusted);
}

/// What moves the covariate itself is no effect at equal covariates alone: both tests must show it, and the same way.
#[test]
fn a_covariate_that_the_side_moved_is_held_to_both_tests() {
    let base_speeds = speeds(31, 9);
    let test_speeds: Vec<f64> = speeds(32, 9).into_iter().map(|speed| speed * 0.7).collect();
    let base = values(33, &base_speeds, 1.0, 0.02, 0.0);
    let covariates = [&base_speeds[..], &test_speeds[..]];
    for design in [Design::Blocks, Design::Unpaired] {
        // The side is faster by as much as its processor is slower.
        let even: Vec<f64> = values(34, &test_speeds, 1.0, 0.02, 0.0).into_iter().map(|value| value / 0.7).collect();
        let [unadjusted, adjusted] = compared(design, [&base, &even], covariates);
        assert!(unadjusted.p.expect("tested") > 0.05, "{unadjusted:?}");
        assert!(adjusted.p >= unadjusted.p, "{adjusted:?}");
        assert!(adjusted.adjusted.expect("adjusted").covariate_p.expect("tested") < 0.05);
        // It loses a fifth, and at equal speed it wins.
        let opposite: Vec<f64> =
            values(34, &test_speeds, 1.0, 0.02, 0.0).into_iter().map(|value| value / 0.875).collect();
        let [unadjusted, adjusted] = compared(design, [&base, &opposite], covariates);
        assert!(unadjusted.p.expect("tested") < 0.05, "{unadjusted:?}");
        assert_eq!(adjusted.p, Some(1.0), "{adjusted:?}");
    }
}
