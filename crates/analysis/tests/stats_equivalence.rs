//! Equivalence and power: against statsmodels and scipy (reference/make_power.py), and by simulation what a claim of
//! equivalence is worth. `--nocapture` prints the rates.

#[path = "reference/normal_draws.rs"]
mod normal_draws;
#[path = "reference/table.rs"]
#[allow(dead_code)]
mod table;

use normal_draws::Draws;
use pagelab_analysis::stats::{
    Design, MetricSamples, Observation, RunSpread, TestResult, equivalence_margin_pct, power_of_runs, runs_needed,
    test_metric,
};
use table::rows;

fn tested(base: &[f64], test: &[f64], design: Design) -> TestResult {
    let side = |values: &[f64]| -> Vec<Observation> {
        let run = |(round, value): (u32, &f64)| Observation { round: Some(round), ..Observation::of(*value) };
        (0..).zip(values).map(run).collect()
    };
    let (base, test) = (side(base), side(test));
    test_metric(&MetricSamples { base: &base, test: &test, design, resolution: None })
}

/// Two one-sided tests reject at 5 % exactly where the 90 % interval lies within the margins.
#[test]
fn intervals_and_the_two_tests_agree() {
    let (mut inside, mut outside) = (0, 0);
    for (line, row) in rows("equivalence.csv").iter().enumerate() {
        let (base, test) = (row.list("base"), row.list("test"));
        for (design, column) in [(Design::Blocks, "paired_p"), (Design::Unpaired, "unpaired_p")] {
            let [low, high] = tested(&base, &test, design).ratio_ci90.expect("values well away from 0");
            let is_within = low > row.number("low") && high < row.number("high");
            let p = row.number(column);
            assert_eq!(is_within, p < 0.05, "row {line}, {design:?}: {low} to {high}, p {p}");
            if is_within { inside += 1 } else { outside += 1 }
        }
    }
    assert!(inside > 20 && outside > 20, "{inside} {outside}");
}

/// The noncentral t distribution, and the fewest runs with a power of 80 %, to the run.
#[test]
fn power_and_runs_are_those_of_the_reference() {
    let mut runs = 0;
    for (line, row) in rows("power.csv").iter().enumerate() {
        let test = row.number("test");
        let spread =
            row.optional("base").map_or(RunSpread::Rounds { sd: test }, |base| RunSpread::Unpaired { base, test });
        let (change, alpha) = (row.number("change"), row.number("alpha"));
        let power = power_of_runs(change, spread, row.integer("runs"), alpha).expect("spread");
        let wanted = row.number("power");
        assert!((power - wanted).abs() < 2e-6, "row {line}: power {power}, wanted {wanted}");
        if let Some(needed) = row.optional("needed") {
            let found = runs_needed(change, spread, alpha, 0.8).expect("spread");
            assert_eq!(found, Some(needed as u64), "row {line}: {spread:?}");
            runs += 1;
        }
    }
    assert!(runs > 300, "{runs}");
}

/// The rate at which a margin is claimed that is smaller than the true difference, over all comparisons.
#[test]
fn false_claims_of_equivalence_are_rare() {
    const REPEATS: usize = 6000;
    let mut draws = Draws::new(41);
    let bound = 0.05 + 3.0 * (0.05 * 0.95 / REPEATS as f64).sqrt();
    for (design, n) in [Design::Blocks, Design::Unpaired].into_iter().flat_map(|d| [3, 5, 10, 30].map(|n| (d, n))) {
        let mut rates = Vec::new();
        for (cv_base, cv_test, change) in
            [(0.02, 0.02, 0.01), (0.02, 0.02, -0.02), (0.05, 0.05, 0.05), (0.02, 0.08, 0.03), (0.10, 0.10, -0.10)]
        {
            let mut side =
                |center: f64, cv: f64| -> Vec<f64> { (0..n).map(|_| center * (cv * draws.normal()).exp()).collect() };
            let wrong = (0..REPEATS).filter(|_| {
                let (base, test) = (side(100.0, cv_base), side(100.0 * (1.0 + change), cv_test));
                // The ratio of means where the logarithms of the sides spread differently.
                let truth = match design {
                    Design::Blocks => change,
                    Design::Unpaired => (1.0 + change) * f64::exp((cv_test.powi(2) - cv_base.powi(2)) / 2.0) - 1.0,
                };
                let margin = tested(&base, &test, design).ratio_ci90.and_then(equivalence_margin_pct);
                margin.is_some_and(|pct| pct < 100.0 * truth.abs())
            });
            rates.push(wrong.count() as f64 / REPEATS as f64);
        }
        println!("{design:?}, {n} runs a side: margins below the true difference in {rates:?}");
        // Welch's approximation is coarser for so few runs, as documented there.
        let most = if n == 3 { bound + 0.007 } else { bound };
        assert!(rates.iter().all(|rate| *rate <= most), "{design:?} {n}: {rates:?}");
        assert!(rates.iter().any(|rate| *rate > 0.01), "{design:?} {n}: the test says too little: {rates:?}");
    }
}
