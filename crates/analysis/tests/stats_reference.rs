//! The module `stats` against values made by mpmath at 50 digits, scipy and statsmodels, see
//! reference/make_reference.py. `--nocapture` prints the largest errors.
//!
//! Most of these numbers are easy for data of middling size. The rows are chosen for where programs go wrong: tails of
//! 1e-300, a million degrees of freedom, a shared offset of 1e15, squares that overflow, ratios next to 1.

#![allow(clippy::float_cmp, reason = "q values must agree to the bit, and 0 is exact")]

#[path = "reference/table.rs"]
mod table;

use pagelab_analysis::stats::{
    Count, NORMAL, StudentT, Summary, Undefined, benjamini_hochberg, clopper_pearson, exact_poisson, fieller,
    geometric_mean, geometric_mean_ratio, hedges_g, mean, median, paired_differences, paired_log_ratios, paired_ratio,
    quantile, welch, wilson,
};
use table::{Errors, Row, checksum, draw, other_seed, rows};

/// A hundredth of what is promised (1e-10), and five times what is seen: rounding differs between maths libraries.
const BOUND: f64 = 1e-12;
/// p values below this are compared as logarithms.
const SMALLEST_P: f64 = 1e-300;

fn distribution(df: f64) -> StudentT {
    StudentT::new(df).expect("positive degrees of freedom")
}

#[test]
fn student_t_and_normal_tails() {
    let mut errors = Errors::default();
    for (line, row) in rows("student_t.csv").iter().enumerate() {
        let (df, t, p, ln_p) = (row.number("df"), row.number("t"), row.number("p"), row.number("ln_p"));
        let place = format!("row {line}: df {df} t {t}");
        let known = distribution(df);
        errors.compare("ln p", known.ln_two_sided_p(t), ln_p, BOUND, &place);
        if p >= SMALLEST_P {
            errors.compare("p", known.two_sided_p(t), p, BOUND, &place);
            let (tail, other) = if t > 0.0 { (known.sf(t), known.cdf(t)) } else { (known.cdf(t), known.sf(t)) };
            errors.compare("one tail", tail, 0.5 * p, BOUND, &place);
            errors.compare("its complement", other, 1.0 - 0.5 * p, BOUND, &place);
        }
        if df.is_infinite() && p >= SMALLEST_P {
            errors.compare("normal p", NORMAL.two_sided_p(t), p, BOUND, &place);
        }
        // Where p is near 1, ln p is near 0 and says little about t.
        if ln_p < -0.01 && (t.abs() < 1e290) {
            let back = known.inverse_ln_two_sided(ln_p).expect("a probability");
            errors.compare("t from ln p", back, t.abs(), BOUND, &place);
        }
    }
    assert!(errors.count("p") > 1000 && errors.count("normal p") > 50);
}

#[test]
fn student_t_quantiles() {
    let mut errors = Errors::default();
    for (line, row) in rows("quantiles.csv").iter().enumerate() {
        let (df, p, t) = (row.number("df"), row.number("two_sided_p"), row.number("t"));
        let place = format!("row {line}: df {df} p {p}");
        let known = distribution(df);
        errors.compare("t", known.inverse_two_sided(p).expect("a probability"), t, BOUND, &place);
        errors.compare("t from upper tail", known.inverse_sf(0.5 * p).expect("a probability"), t, BOUND, &place);
        errors.compare("t from lower tail", -known.inverse_cdf(0.5 * p).expect("a probability"), t, BOUND, &place);
    }
}

/// Both sides of a row, proven to be the doubles that the reference was computed from.
fn sides(row: &Row, base: [&str; 3], test_center: f64, test_n: &str) -> (Vec<f64>, Vec<f64>) {
    let [n, center, step] = base;
    let step = if step.is_empty() { 0.0 } else { row.number(step) };
    let seed = row.integer("seed");
    let base = draw(seed, row.integer(n), row.number(center), row.number("scale_b"), step);
    let test = draw(other_seed(seed), row.integer(test_n), test_center, row.number("scale_t"), step);
    let all: Vec<f64> = base.iter().chain(&test).copied().collect();
    assert_eq!(checksum(&all), row.text("checksum"), "the samples are not those of the reference");
    (base, test)
}

#[test]
fn welch_of_random_samples() {
    let mut errors = Errors::default();
    let rows = rows("samples.csv");
    assert!(rows.len() >= 1000);
    for (line, row) in rows.iter().enumerate() {
        let (base, test) = sides(row, ["n_b", "center", "step"], row.number("center") + row.number("shift"), "n_t");
        let place = format!("row {line}, {}", row.text("kind"));
        let got = welch(&base, &test).expect("both sides vary");
        errors.compare("t", got.t, row.number("t"), BOUND, &place);
        errors.compare("df", got.df, row.number("df"), BOUND, &place);
        errors.compare("ln p", got.ln_p, row.number("ln_p"), BOUND, &place);
        if row.number("p") >= SMALLEST_P {
            errors.compare("p", got.p, row.number("p"), BOUND, &place);
        }
        let (base, test) = (Summary::of(&base).expect("values"), Summary::of(&test).expect("values"));
        errors.compare("sd", base.sd().expect("n > 1"), row.number("sd_b"), BOUND, &place);
        errors.compare("sd", test.sd().expect("n > 1"), row.number("sd_t"), BOUND, &place);
        errors.compare("hedges g", hedges_g(&base, &test).expect("variance"), row.number("hedges_g"), BOUND, &place);
    }
    assert!(errors.count("p") > 1000);
}

#[test]
fn ratios_of_pairs_and_of_independent_samples() {
    let mut errors = Errors::default();
    for (line, row) in rows("paired.csv").iter().enumerate() {
        let (base, test) = sides(row, ["n", "center_b", ""], row.number("center_t"), "n");
        let place = format!("row {line}");
        let got = paired_log_ratios(&base, &test).expect("ratios vary");
        errors.compare("t of log ratios", got.t, row.number("t"), BOUND, &place);
        errors.compare("ln p of log ratios", got.ln_p, row.number("ln_p"), BOUND, &place);
        let paired = paired_ratio(&base, &test, 0.0, 0.95).expect("ratios vary");
        let unpaired = geometric_mean_ratio(&base, &test, 0.0, 0.95).expect("logs vary");
        errors.compare("ratio", paired.ratio, row.number("ratio"), BOUND, &place);
        errors.compare("ratio", unpaired.ratio, row.number("ratio"), BOUND, &place);
        let ends = [paired.interval.expect("bounded"), unpaired.interval.expect("bounded")].concat();
        for (end, column) in ends.iter().zip(["low", "high", "welch_low", "welch_high"]) {
            // The ends of an interval from two runs may lie at e^-500: what counts is their logarithm.
            let wanted = row.number(column);
            let bound = BOUND * (1.0 + wanted.ln().abs());
            errors.compare("interval of the ratio", *end, wanted, bound, &format!("{place} {column}"));
        }
        let differences = paired_differences(&base, &test).expect("differences vary");
        errors.compare("t of differences", differences.t, row.number("t_difference"), BOUND, &place);
    }
}

#[test]
fn fieller_intervals() {
    let mut errors = Errors::default();
    for (line, row) in rows("fieller.csv").iter().enumerate() {
        let side = |s: &str| {
            let n = row.integer(&format!("n_{s}")) as usize;
            Summary::from_moments(n, row.number(&format!("mean_{s}")), row.number(&format!("sd_{s}")))
        };
        let got = fieller(&side("b").expect("moments"), &side("t").expect("moments"), 0.95).expect("a ratio");
        let place = format!("row {line}");
        errors.compare("ratio", got.ratio, row.number("ratio"), BOUND, &place);
        if let (Some(low), Some(high)) = (row.optional("low"), row.optional("high")) {
            let ends = got.interval.expect("the base interval does not hold 0");
            // An end near 0 is a difference of larger numbers; it is held to the size of the interval.
            let size = (high - low).abs();
            errors.compare("low end", ends[0] + size, low + size, BOUND, &place);
            errors.compare("high end", ends[1] + size, high + size, BOUND, &place);
        } else {
            assert_eq!(got.interval, Err(Undefined::Unbounded), "{place}");
        }
    }
    assert!(errors.count("low end") > 40 && errors.count("low end") < 120);
}

#[test]
fn q_values_to_the_bit() {
    let mut compared = 0;
    for row in rows("family.csv") {
        let p: Vec<Option<f64>> = row.list("p").into_iter().map(Some).collect();
        let q = benjamini_hochberg(&p);
        for (got, wanted) in q.iter().zip(row.list("q")) {
            assert_eq!(got.expect("p was given"), wanted);
            compared += 1;
        }
        // Holes in the family neither get a value nor change those of the others.
        let mut holed = p.clone();
        holed.insert(0, None);
        holed.push(Some(f64::NAN));
        let again = benjamini_hochberg(&holed);
        assert_eq!(again.first(), Some(&None));
        assert_eq!(again.last(), Some(&None));
        assert_eq!(again.get(1..=p.len()), Some(q.as_slice()));
    }
    assert!(compared > 2000, "{compared}");
}

#[test]
fn exact_test_of_two_rates() {
    let mut errors = Errors::default();
    for (line, row) in rows("poisson.csv").iter().enumerate() {
        let count = |s: &str| Count {
            events: row.integer(&format!("events_{s}")),
            exposure: row.number(&format!("exposure_{s}")),
        };
        let (base, test) = (count("b"), count("t"));
        let got = exact_poisson(base, test, 0.95).expect("events");
        let place = format!("row {line}: {base:?} {test:?}");
        if row.number("p") >= SMALLEST_P {
            errors.compare("p", got.p, row.number("p"), BOUND, &place);
        }
        // A p next to 1 has a logarithm next to 0.
        errors.compare("ln p", got.ln_p - 1.0, row.number("ln_p") - 1.0, BOUND, &place);
    }
}

#[test]
fn intervals_of_shares() {
    let mut errors = Errors::default();
    for row in rows("shares.csv") {
        let (k, n, level) = (row.integer("k"), row.integer("n"), row.number("level"));
        let place = format!("{k} of {n} at {level}");
        let exact = clopper_pearson(k, n, level).expect("k <= n");
        errors.compare("low end", exact.low, row.number("low"), BOUND, &place);
        errors.compare("high end", exact.high, row.number("high"), BOUND, &place);
        errors.compare("1 - high end", 1.0 - exact.high, 1.0 - row.number("high"), 1e-11, &place);
        let score = wilson(k, n, level).expect("k <= n");
        // statsmodels does not set the ends at k = 0 and k = n to 0 and 1 exactly.
        errors.compare("wilson low", score.low + 1.0, row.number("wilson_low") + 1.0, BOUND, &place);
        errors.compare("wilson high", score.high, row.number("wilson_high"), BOUND, &place);
    }
}

#[test]
fn means_and_quantiles() {
    let mut errors = Errors::default();
    for (line, row) in rows("descriptive.csv").iter().enumerate() {
        let values =
            draw(row.integer("seed"), row.integer("n"), row.number("center"), row.number("scale"), row.number("step"));
        assert_eq!(checksum(&values), row.text("checksum"));
        let place = format!("row {line}");
        errors.compare("mean", mean(&values).expect("values"), row.number("mean"), 1e-15, &place);
        let geometric = geometric_mean(&values).expect("positive values");
        errors.compare("geometric mean", geometric, row.number("geometric_mean"), 1e-14, &place);
        let at = quantile(&values, row.number("level")).expect("values");
        errors.compare("quantile", at, row.number("quantile"), 1e-14, &place);
        errors.compare("median", median(&values).expect("values"), row.number("median"), 1e-14, &place);
    }
}
