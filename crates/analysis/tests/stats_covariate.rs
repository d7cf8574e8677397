//! The tests that are adjusted for a covariate: against statsmodels (reference/make_covariate.py), by identities, and by their level and
//! power in simulated runs of a machine whose speed varies.

#[path = "reference/table.rs"]
#[allow(dead_code)]
mod table;

use pagelab_analysis::stats::{
    Adjusted, Undefined, WithCovariate, log_ratio_adjusted, paired_log_ratios, paired_log_ratios_adjusted, welch,
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
