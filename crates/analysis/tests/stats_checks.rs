//! The checks within sides, by simulation: how often clean sides get a note, and how much is found. Everything is seeded;
//! `--nocapture` prints the figures that the documentation of `stats::drift`, `stats::outliers`, `stats::modes` and
//! `stats::check_sides` gives.
//!
//! A note that comes on every tenth comparison of clean runs would be skipped like any other warning, so the rate of false
//! notes is held for both sides and all questions together, at every number of runs.

#[path = "reference/normal_draws.rs"]
mod normal_draws;
#[path = "reference/table.rs"]
#[allow(dead_code)]
mod table;

use normal_draws::Draws;
use pagelab_analysis::stats::{SideValues, check_sides, drift, modes, outliers};
use table::{Errors, rows};

const RUNS: [usize; 10] = [3, 4, 5, 6, 8, 10, 15, 20, 30, 40];
/// The level that seven questions leave to each.
const EACH: f64 = 0.05 / 7.0;

/// `n` clean values around 100.
fn clean(draws: &mut Draws, n: usize, cv: f64, logs: bool) -> Vec<f64> {
    (0..n)
        .map(|_| {
            let z = draws.normal();
            if logs { 100.0 * (cv * z).exp() } else { 100.0 * (1.0 + cv * z) }
        })
        .collect()
}

fn any_note(base: &[f64], test: &[f64]) -> bool {
    let side = |values| SideValues { values, ordered: true };
    check_sides([side(base), side(test)], 0.05, 1).any()
}

/// At most 5 % of clean comparisons get a note, for every number of runs and every shape. Each bound leaves the shares
/// three standard deviations of sampling.
#[test]
fn clean_sides_get_no_note() {
    const REPEATS: usize = 400;
    let mut draws = Draws::new(19);
    let (mut all, mut compared) = (0, 0);
    for n in RUNS {
        let mut of_n = 0;
        let mut of_shape = Vec::new();
        for (cv, logs) in [(0.02, false), (0.10, false), (0.02, true), (0.10, true)] {
            let noted = (0..REPEATS)
                .filter(|_| any_note(&clean(&mut draws, n, cv, logs), &clean(&mut draws, n, cv, logs)))
                .count();
            of_shape.push(noted as f64 / REPEATS as f64);
            of_n += noted;
        }
        let share = of_n as f64 / (4 * REPEATS) as f64;
        println!("{n} runs a side: {:.2} % of clean comparisons get a note; by shape {of_shape:?}", 100.0 * share);
        assert!(share <= 0.05 + 3.0 * (0.05 * 0.95 / (4 * REPEATS) as f64).sqrt(), "{n} runs: {share}");
        let most = 0.05 + 3.0 * (0.05 * 0.95 / REPEATS as f64).sqrt();
        assert!(of_shape.iter().all(|share| *share <= most), "{n} runs: {of_shape:?}");
        (all, compared) = (all + of_n, compared + 4 * REPEATS);
    }
    let share = all as f64 / compared as f64;
    println!("all: {:.2} %", 100.0 * share);
    assert!(share <= 0.05, "{share}");
    // A level that is never used up would be lost power.
    assert!(share >= 0.01, "{share}");
}

/// Sides of unequal size, and sides whose order is not known, keep the level too.
#[test]
fn uneven_and_unordered_sides_get_no_note() {
    const REPEATS: usize = 1000;
    let mut draws = Draws::new(23);
    for (n_base, n_test, ordered) in [(3, 20, true), (5, 40, true), (10, 10, false), (1, 12, true)] {
        let noted = (0..REPEATS).filter(|_| {
            let (base, test) = (clean(&mut draws, n_base, 0.05, true), clean(&mut draws, n_test, 0.05, true));
            check_sides([&base, &test].map(|values| SideValues { values, ordered }), 0.05, 1).any()
        });
        let share = noted.count() as f64 / REPEATS as f64;
        println!("{n_base} and {n_test} runs: {:.2} %", 100.0 * share);
        assert!(share <= 0.05 + 3.0 * (0.05 * 0.95 / REPEATS as f64).sqrt(), "{n_base}, {n_test}: {share}");
    }
}

fn share_of(repeats: usize, mut found: impl FnMut() -> bool) -> f64 {
    (0..repeats).filter(|_| found()).count() as f64 / repeats as f64
}

/// The table of power of drift: the shares for rises of 2, 4 and 8 standard deviations, of one side and of both.
fn power_of_drift(n: usize, repeats: usize) -> Vec<f64> {
    let mut draws = Draws::new(29);
    let mut line =
        |rise: f64| -> Vec<f64> { (0..n).map(|i| 100.0 + rise * i as f64 / (n - 1) as f64 + draws.normal()).collect() };
    let mut cells = Vec::new();
    for rise in [2.0, 4.0, 8.0] {
        cells.push(share_of(repeats, || drift(&[&line(rise)]).is_ok_and(|found| found.p <= EACH)));
        cells.push(share_of(repeats, || drift(&[&line(rise), &line(rise)]).is_ok_and(|found| found.p <= EACH)));
    }
    cells
}

/// That of outliers: one value 4, 6, 10 and 20 standard deviations away.
fn power_of_outliers(n: usize, repeats: usize) -> Vec<f64> {
    let mut draws = Draws::new(31);
    let mut is_found = |out: f64| {
        let mut values = clean(&mut draws, n, 0.01, false);
        values[n / 2] = 100.0 + out;
        outliers(&values, EACH).is_ok_and(|found| found.found.iter().any(|one| one.index == n / 2))
    };
    [4.0, 6.0, 10.0, 20.0].map(|out| share_of(repeats, || is_found(out))).to_vec()
}

/// That of modes: a third of the values 5, 8, 12 and 20 standard deviations away.
fn power_of_modes(n: usize, repeats: usize) -> Vec<f64> {
    let mut draws = Draws::new(37);
    let mut is_found = |apart: f64| {
        let mut values = clean(&mut draws, n, 0.01, false);
        values.iter_mut().take((n / 3).max(2)).for_each(|value| *value += apart);
        modes(&values, 1).is_ok_and(|found| found.p <= EACH)
    };
    [5.0, 8.0, 12.0, 20.0].map(|apart| share_of(repeats, || is_found(apart))).to_vec()
}

/// Prints the tables of the documentation; takes minutes without optimisation.
#[test]
#[ignore = "prints the tables that the documentation holds"]
fn the_tables_of_power() {
    type Power = fn(usize, usize) -> Vec<f64>;
    let tables: [(&str, Power, usize); 3] =
        [("drift", power_of_drift, 2000), ("outliers", power_of_outliers, 2000), ("modes", power_of_modes, 500)];
    for (name, power, repeats) in tables {
        println!("{name}");
        for n in [4, 5, 7, 10, 15, 20, 30] {
            let cells: Vec<String> = power(n, repeats).iter().map(|share| format!("{:.0} %", 100.0 * share)).collect();
            println!("//! | {n} | {} |", cells.join(" | "));
        }
    }
}

/// What must be found is: the corners of those tables.
#[test]
fn what_is_there_is_found() {
    for n in [10, 20] {
        let drifts = power_of_drift(n, 100);
        assert!(drifts[4] > 0.9 && drifts[5] > 0.95, "{n}: {drifts:?}");
        let far = power_of_outliers(n, 100);
        assert!(far[2] > 0.9, "{n}: {far:?}");
        let apart = power_of_modes(n, 40);
        assert!(apart[2] > 0.85 && apart[3] > 0.95, "{n}: {apart:?}");
    }
    let both = power_of_drift(5, 100);
    assert!(both[5] > 0.9, "two short sides that drift alike: {both:?}");
}

/// Values of one broad mode are not two modes more often than the level allows.
#[test]
fn one_mode_is_not_two() {
    const REPEATS: usize = 1000;
    let mut draws = Draws::new(43);
    for n in [5, 10, 20] {
        let found = share_of(REPEATS, || {
            let values: Vec<f64> = (0..n).map(|_| 1000.0 + draws.uniform()).collect();
            modes(&values, 1).is_ok_and(|found| found.p <= EACH)
        });
        println!("{n} uniform values: {:.2} %", 100.0 * found);
        assert!(found <= EACH + 3.5 * (EACH / REPEATS as f64).sqrt(), "{n}: {found}");
    }
}

/// Kendall's test with and without ties against scipy, and the deleted residual against Grubbs' formula computed with
/// scipy's t distribution, see reference/make_checks.py.
#[test]
fn the_tests_are_those_of_the_reference() {
    let mut errors = Errors::default();
    for (line, row) in rows("checks.csv").iter().enumerate() {
        let values = row.list("values");
        let place = format!("row {line}");
        let found = drift(&[&values]).expect("values that differ");
        errors.compare("p of drift", found.p, row.number("drift_p"), 1e-9, &place);
        errors.compare("tau", found.tau, row.number("drift_tau"), 1e-12, &place);
        if let Some(p) = row.optional("outlier_p") {
            let far = outliers(&values, 0.0).expect("values that differ");
            errors.compare("p of outliers", far.p, p, 1e-9, &place);
        }
        if let Some(within) = row.optional("modes_within") {
            let split = modes(&values, 1).expect("values that differ");
            errors.compare("share within modes", split.within, within, 1e-9, &place);
            let p = row.number("modes_p");
            // Both are draws: 1,999 at most here, 200,000 in the reference.
            let error = 4.0 * (p * (1.0 - p) / 1999.0).sqrt() + if split.p > 0.02 { 0.9 * p } else { 0.0007 };
            assert!((split.p - p).abs() <= error, "{place}: p of modes {} wanted {p}", split.p);
        }
    }
    assert!(errors.count("p of drift") >= 60 && errors.count("p of outliers") >= 30, "rows are missing");
}
