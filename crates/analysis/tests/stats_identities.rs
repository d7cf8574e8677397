//! What must hold for any data: symmetry, invariance, closed forms, definitions checked by brute force, and the
//! long-run behaviour of tests and intervals in seeded simulation.

#![allow(clippy::float_cmp, reason = "several identities hold to the bit")]
#![allow(clippy::unwrap_used, reason = "a property that meets an error has failed")]

#[path = "reference/normal_draws.rs"]
mod normal_draws;

use normal_draws::Draws;
use pagelab_analysis::stats::{
    Bootstrap, BootstrapKind, Count, NORMAL, StudentT, Summary, benjamini_hochberg, bootstrap_median, clopper_pearson,
    exact_poisson, fieller, fieller_paired, geometric_mean_ratio, hedges_g, log_ratio_summary, one_sample,
    paired_log_ratios, paired_ratio, paired_ratio_median, quantile, time_weighted_mean, welch, welch_of_summaries,
    wilson,
};
use proptest::prelude::*;

fn close(a: f64, b: f64, relative: f64) -> bool {
    a == b || ((a - b) / b).abs() <= relative
}

/// Two to forty values with a spread that is visible at their size.
fn sample() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-1000.0..1000.0_f64, 2..40)
        .prop_filter("values vary", |values| values.iter().any(|v| (v - values[0]).abs() > 1.0))
}

fn positive_pairs() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((0.1..1000.0_f64, 0.1..1000.0_f64), 3..40)
}

proptest! {
    #[test]
    fn welch_changes_sign_with_the_sides(base in sample(), test in sample()) {
        let (there, back) = (welch(&base, &test).unwrap(), welch(&test, &base).unwrap());
        prop_assert_eq!(there.t, -back.t);
        prop_assert_eq!(there.df, back.df);
        prop_assert_eq!(there.ln_p, back.ln_p);
        let negated = |side: &[f64]| side.iter().map(|v| -v).collect::<Vec<_>>();
        prop_assert_eq!(welch(&negated(&base), &negated(&test)).unwrap().t, back.t);
    }

    #[test]
    fn welch_ignores_unit_and_order(base in sample(), test in sample(), power in -300..300_i32, unit in 0.001..1000.0_f64) {
        let plain = welch(&base, &test).unwrap();
        let scaled = |side: &[f64], by: f64| side.iter().map(|v| v * by).collect::<Vec<_>>();
        let exact = welch(&scaled(&base, 2f64.powi(power)), &scaled(&test, 2f64.powi(power))).unwrap();
        prop_assert_eq!((exact.t, exact.df, exact.p), (plain.t, plain.df, plain.p));
        let rounded = welch(&scaled(&base, unit), &scaled(&test, unit)).unwrap();
        prop_assert!((rounded.t - plain.t).abs() < 1e-10 * (1.0 + plain.t.abs()));
        prop_assert!(close(rounded.df, plain.df, 1e-10));
        let mut turned = base.clone();
        turned.reverse();
        prop_assert_eq!(welch(&turned, &test).unwrap().t, plain.t);
    }

    #[test]
    fn welch_ignores_a_shared_offset(
        base in prop::collection::vec(-1000..1000_i32, 3..40),
        test in prop::collection::vec(-1000..1000_i32, 3..40),
        offset in -(1_i64 << 50)..(1_i64 << 50),
    ) {
        prop_assume!(base.iter().any(|v| *v != base[0]) && test.iter().any(|v| *v != test[0]));
        let at = |side: &[i32], offset: f64| side.iter().map(|v| f64::from(*v) + offset).collect::<Vec<_>>();
        let (near, far) = (
            welch(&at(&base, 0.0), &at(&test, 0.0)).unwrap(),
            welch(&at(&base, offset as f64), &at(&test, offset as f64)).unwrap(),
        );
        prop_assert!(close(far.t, near.t, 1e-14) && close(far.df, near.df, 1e-14), "{near:?} {far:?}");
    }

    #[test]
    fn degrees_of_freedom_are_bracketed(base in sample(), test in sample()) {
        let df = welch(&base, &test).unwrap().df;
        let least = base.len().min(test.len()) - 1;
        prop_assert!(df >= least as f64 * (1.0 - 1e-14));
        prop_assert!(df <= (base.len() + test.len() - 2) as f64 * (1.0 + 1e-14));
    }

    /// With equal spreads and sizes Welch's test is Student's.
    #[test]
    fn welch_of_equal_variances(base in sample(), shift in -64..64_i32) {
        let base: Vec<f64> = base.iter().map(|v| v.round()).collect();
        prop_assume!(base.iter().any(|v| *v != base[0]));
        let test: Vec<f64> = base.iter().rev().map(|v| v + f64::from(shift)).collect();
        let got = welch(&base, &test).unwrap();
        prop_assert!(close(got.df, (2 * base.len() - 2) as f64, 1e-14));
        let sd = Summary::of(&base).unwrap().sd().unwrap();
        let t = f64::from(shift) / (sd * (2.0 / base.len() as f64).sqrt());
        prop_assert!(close(got.t, t, 1e-14));
    }

    #[test]
    fn summaries_can_stand_for_samples(base in sample(), test in sample()) {
        let direct = welch(&base, &test).unwrap();
        let rebuilt = |side: &[f64]| {
            let summary = Summary::of(side).unwrap();
            Summary::from_moments(summary.n(), summary.mean(), summary.sd().unwrap()).unwrap()
        };
        let indirect = welch_of_summaries(&rebuilt(&base), &rebuilt(&test)).unwrap();
        prop_assert!((direct.t - indirect.t).abs() < 1e-10 * (1.0 + direct.t.abs()));
        let g = hedges_g(&rebuilt(&base), &rebuilt(&test)).unwrap();
        prop_assert_eq!(g > 0.0, direct.t > 0.0);
    }

    /// The interval holds the estimate, grows with its level, and leaves out 0 exactly if p < 1 - level.
    #[test]
    fn intervals_and_p_values_agree(base in sample(), test in sample(), level in 0.5..0.999_f64) {
        let got = welch(&base, &test).unwrap();
        let [low, high] = got.interval(level).unwrap();
        prop_assert!(low < got.estimate && got.estimate < high);
        let [lower, higher] = got.interval(level + 0.0005).unwrap();
        prop_assert!(lower < low && high < higher);
        if (got.p - (1.0 - level)).abs() > 1e-9 {
            prop_assert_eq!(low > 0.0 || high < 0.0, got.p < 1.0 - level);
        }
        let borderline = got.interval(1.0 - got.p.clamp(1e-12, 0.999_999)).unwrap();
        if (1e-12..0.999).contains(&got.p) {
            let end = if got.t > 0.0 { borderline[0] } else { borderline[1] };
            prop_assert!(end.abs() < 1e-3 * got.se, "the interval of level 1 - p ends at 0: {end}");
        }
    }

    #[test]
    fn what_a_whole_round_shares_cancels(pairs in positive_pairs(), powers in prop::collection::vec(-30..30_i32, 40)) {
        let (base, test): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let shared = |side: &[f64]| side.iter().zip(&powers).map(|(v, p)| v * 2f64.powi(*p)).collect::<Vec<_>>();
        let (plain, disturbed) = (
            paired_log_ratios(&base, &test).unwrap(),
            paired_log_ratios(&shared(&base), &shared(&test)).unwrap(),
        );
        prop_assert_eq!(plain.t, disturbed.t);
        let doubled: Vec<f64> = test.iter().map(|v| v * 2.0).collect();
        let more = paired_log_ratios(&base, &doubled).unwrap();
        prop_assert!((more.estimate - plain.estimate - std::f64::consts::LN_2).abs() < 1e-13);
        prop_assert!(close(more.se, plain.se, 1e-13));
    }

    #[test]
    fn ratios_invert_with_the_sides(pairs in positive_pairs()) {
        let (base, test): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        for ratio in [geometric_mean_ratio, paired_ratio] {
            let (there, back) = (ratio(&base, &test, 0.0, 0.95).unwrap(), ratio(&test, &base, 0.0, 0.95).unwrap());
            prop_assert!(close(there.ratio, 1.0 / back.ratio, 1e-13));
            let (Ok([low, high]), Ok([inverse_low, inverse_high])) = (there.interval, back.interval) else {
                continue;
            };
            prop_assert!(low <= there.ratio && there.ratio <= high);
            prop_assert!(close(low, 1.0 / inverse_high, 1e-11) && close(high, 1.0 / inverse_low, 1e-11));
        }
        let logs = log_ratio_summary(&base, &test).unwrap();
        prop_assert!(close(logs.mean().exp(), paired_ratio(&base, &test, 0.0, 0.95).unwrap().ratio, 1e-13));
    }

    /// Fieller's ends are those ratios r for which the paired test of test - r * base is just significant.
    #[test]
    fn fieller_of_pairs_meets_its_definition(pairs in positive_pairs()) {
        let (base, test): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let got = fieller_paired(&base, &test, 0.95).unwrap();
        if let Ok(ends) = got.interval {
            prop_assert!(ends[0] <= got.ratio && got.ratio <= ends[1]);
            for end in ends {
                let rest: Vec<f64> = base.iter().zip(&test).map(|(b, t)| t - end * b).collect();
                let p = one_sample(&Summary::of(&rest).unwrap(), 0.0).unwrap().p;
                prop_assert!((p - 0.05).abs() < 1e-7, "p {p} at the end {end}");
            }
        }
        let (b, t) = (Summary::of(&base).unwrap(), Summary::of(&test).unwrap());
        if let Ok([low, high]) = fieller(&b, &t, 0.95).unwrap().interval {
            let ratio = t.mean() / b.mean();
            prop_assert!(low < ratio && ratio < high);
        }
    }

    /// q never lies below p, keeps the order of p, does not depend on the order of the tests, and q <= alpha rejects
    /// exactly what the step-up procedure of the paper rejects.
    #[test]
    fn benjamini_hochberg_is_the_step_up_procedure(
        p in prop::collection::vec(prop_oneof![0.0..1.0_f64, 0.0..0.01_f64, Just(0.02)], 1..60),
        alpha in 0.001..0.5_f64,
    ) {
        let q: Vec<f64> =
            benjamini_hochberg(&p.iter().copied().map(Some).collect::<Vec<_>>()).into_iter().map(Option::unwrap).collect();
        for (i, (p_i, q_i)) in p.iter().zip(&q).enumerate() {
            prop_assert!(q_i >= p_i && *q_i <= 1.0);
            for (p_j, q_j) in p.iter().zip(&q).skip(i) {
                prop_assert!((p_i > p_j) || (q_i <= q_j));
                prop_assert!((p_i < p_j) || (q_i >= q_j));
            }
        }
        let mut sorted = p.clone();
        sorted.sort_by(f64::total_cmp);
        let m = p.len() as f64;
        let passing = (1..=p.len()).filter(|k| sorted[k - 1] <= alpha * *k as f64 / m).max().unwrap_or(0);
        // A p on the very edge may fall to either side by rounding.
        let on_edge = (1..=p.len()).any(|k| close(sorted[k - 1], alpha * k as f64 / m, 1e-12));
        if !on_edge {
            prop_assert_eq!(q.iter().filter(|q| **q <= alpha).count(), passing);
        }
        let reversed: Vec<Option<f64>> = p.iter().rev().copied().map(Some).collect();
        let mut q_reversed: Vec<f64> = benjamini_hochberg(&reversed).into_iter().map(Option::unwrap).collect();
        q_reversed.reverse();
        prop_assert_eq!(q_reversed, q);
    }

    #[test]
    fn t_distribution_is_consistent(df in 0.5..1e6_f64, t in 0.0..100.0_f64, step in 1.0001..2.0_f64) {
        let known = StudentT::new(df).unwrap();
        prop_assert!((known.sf(t) + known.cdf(t) - 1.0).abs() < 1e-15);
        prop_assert!(known.sf(-t) == known.cdf(t));
        prop_assert!(t == 0.0 || known.ln_two_sided_p(t * step) < known.ln_two_sided_p(t));
        let p = known.two_sided_p(t);
        prop_assert!(p < 1e-300 || close(p.ln(), known.ln_two_sided_p(t), 1e-9) || p > 0.9);
        // Heavier tails than the normal distribution, in the tail.
        prop_assert!(t < 2.0 || known.ln_two_sided_p(t) > NORMAL.ln_two_sided_p(t));
    }

    #[test]
    fn quantiles_invert_the_distribution(df in 0.5..1e6_f64, p in 1e-12..1.0_f64) {
        let known = StudentT::new(df).unwrap();
        let t = known.inverse_two_sided(p).unwrap();
        prop_assert!((known.two_sided_p(t) - p).abs() < 1e-13, "df {df} p {p} t {t}");
        prop_assert!(close(known.inverse_cdf(0.5 * p).unwrap(), -t, 1e-14));
    }

    /// Cauchy's distribution and df = 2 have closed forms, which share nothing with the expansions used.
    #[test]
    fn closed_forms_of_small_df(exponent in -6.0..100.0_f64) {
        let t = 10f64.powf(exponent);
        let cauchy = StudentT::new(1.0).unwrap().two_sided_p(t);
        prop_assert!(close(cauchy, std::f64::consts::FRAC_2_PI * (1.0 / t).atan(), 1e-13));
        let two = StudentT::new(2.0).unwrap().two_sided_p(t);
        let root = (2.0 + t * t).sqrt();
        prop_assert!(close(two, 2.0 / (root * (root + t)), 1e-13));
    }

    #[test]
    fn rates_compare_symmetrically(
        base in 0..200_u64, test in 0..200_u64, exposure in 0.1..10.0_f64, other in 0.1..10.0_f64, unit in 0.001..1000.0_f64,
    ) {
        prop_assume!(base + test > 0);
        let (b, t) = (Count { events: base, exposure }, Count { events: test, exposure: other });
        let (there, back) = (exact_poisson(b, t, 0.95).unwrap(), exact_poisson(t, b, 0.95).unwrap());
        prop_assert!(close(there.p, back.p, 1e-11), "{} {}", there.p, back.p);
        let rescaled = |c: Count| Count { exposure: c.exposure * unit, ..c };
        prop_assert!(close(exact_poisson(rescaled(b), rescaled(t), 0.95).unwrap().p, there.p, 1e-9));
        if let (Some(ratio), Some([low, high])) = (there.ratio, there.interval) {
            prop_assert!(low <= ratio * (1.0 + 1e-12) && ratio <= high * (1.0 + 1e-12));
        }
        let even = Count { events: base.max(1), exposure };
        prop_assert_eq!(exact_poisson(even, even, 0.95).unwrap().p, 1.0);
    }

    #[test]
    fn a_share_lies_in_its_intervals(n in 1..500_u64, part in 0.0..=1.0_f64, level in 0.5..0.999_f64) {
        let k = (n as f64 * part).round() as u64;
        let exact = clopper_pearson(k, n, level).unwrap();
        let score = wilson(k, n, level).unwrap();
        for interval in [exact, score] {
            prop_assert!(0.0 <= interval.low && interval.low <= interval.estimate);
            prop_assert!(interval.estimate <= interval.high && interval.high <= 1.0);
        }
        let mirrored = clopper_pearson(n - k, n, level).unwrap();
        prop_assert!((exact.low - (1.0 - mirrored.high)).abs() < 1e-14);
    }

    #[test]
    fn quantiles_lie_between_order_statistics(values in sample(), q in 0.0..=1.0_f64) {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let at = quantile(&values, q).unwrap();
        let below = (((values.len() - 1) as f64) * q).floor() as usize;
        let above = (below + 1).min(values.len() - 1);
        prop_assert!(sorted[below] <= at + 1e-9 && at <= sorted[above] + 1e-9);
    }

    /// Cutting a window in two and weighting both halves by their time gives the whole.
    #[test]
    fn time_means_add_up(
        steps in prop::collection::vec((1..1000_i64, -100.0..100.0_f64), 2..50), cut in 0.1..0.9_f64,
    ) {
        let mut at = 0;
        let readings: Vec<(i64, f64)> = steps.iter().map(|(step, value)| { at += step; (at, *value) }).collect();
        let (from, to) = (readings[0].0, at);
        let middle = from + ((to - from) as f64 * cut) as i64;
        prop_assume!(from < middle && middle < to);
        let whole = time_weighted_mean(&readings, from..to).unwrap();
        let parts = [from..middle, middle..to].map(|window| time_weighted_mean(&readings, window).unwrap());
        let sum: f64 = parts.iter().map(|p| p.mean * p.covered_ns as f64).sum();
        prop_assert_eq!(parts[0].covered_ns + parts[1].covered_ns, whole.covered_ns);
        prop_assert!((sum - whole.mean * whole.covered_ns as f64).abs() < 1e-7);
    }
}

/// A straight line has the mean of its ends; a failed reading takes its two neighbouring stretches out of mean and
/// coverage alike instead of being read as 0 or bridged.
#[test]
fn time_means_leave_gaps_out() {
    let line: Vec<(i64, f64)> = [0, 1, 7, 20, 100].iter().map(|t| (*t, 3.0 + 2.0 * *t as f64)).collect();
    let whole = time_weighted_mean(&line, 0..100).unwrap();
    assert!((whole.mean - 103.0).abs() < 1e-12 && whole.covered_ns == 100);
    let part = time_weighted_mean(&line, 10..30).unwrap();
    assert!((part.mean - 43.0).abs() < 1e-12 && part.covered_ns == 20);
    assert_eq!(time_weighted_mean(&line, -50..500).unwrap(), whole, "nothing is extrapolated");
    let gap = [(0, 1.0), (10, 1.0), (20, f64::NAN), (30, 5.0), (40, 5.0)];
    let mean = time_weighted_mean(&gap, 0..40).unwrap();
    assert_eq!((mean.mean, mean.covered_ns), (3.0, 20));
    assert!(time_weighted_mean(&gap, 12..28).is_err());
    assert!(time_weighted_mean(&[(5, 1.0)], 0..10).is_err());
}

/// With every outcome enumerated, the exact test rejects a true null hypothesis at most as often as it says.
#[test]
fn exact_test_keeps_its_level() {
    for (exposure, share) in [(1.0, 0.5), (3.0, 0.75), (0.25, 0.2)] {
        for n in 1..=60_u64 {
            let p_of = |k: u64| {
                let (base, test) = (Count { events: n - k, exposure: 1.0 }, Count { events: k, exposure });
                exact_poisson(base, test, 0.95).unwrap().p
            };
            let mut pmf = (1.0_f64 - share).powi(n as i32);
            let (mut rejected, mut total) = ([0.0; 3], 0.0);
            for k in 0..=n {
                for (sum, alpha) in rejected.iter_mut().zip([0.2, 0.05, 0.001]) {
                    *sum += if p_of(k) <= alpha { pmf } else { 0.0 };
                }
                total += pmf;
                pmf *= (n - k) as f64 / (k + 1) as f64 * share / (1.0 - share);
            }
            assert!((total - 1.0).abs() < 1e-12);
            for (sum, alpha) in rejected.iter().zip([0.2, 0.05, 0.001]) {
                assert!(*sum <= alpha * (1.0 + 1e-9), "n {n} share {share}: {sum} > {alpha}");
            }
        }
    }
}

/// Clopper and Pearson's interval covers every true share at least as often as it says, by enumeration.
#[test]
fn exact_interval_covers() {
    for n in [1, 5, 20, 60] {
        let intervals: Vec<_> = (0..=n).map(|k| clopper_pearson(k, n, 0.9).unwrap()).collect();
        let mut least = 1.0_f64;
        for step in 1..200 {
            let share = f64::from(step) / 200.0;
            let mut pmf = (1.0 - share).powi(n as i32);
            let mut covered = 0.0;
            for (k, interval) in (0..=n).zip(&intervals) {
                covered += if (interval.low..=interval.high).contains(&share) { pmf } else { 0.0 };
                pmf *= (n - k) as f64 / (k + 1) as f64 * share / (1.0 - share);
            }
            assert!(covered >= 0.9 - 1e-12, "n {n} share {share}: {covered}");
            least = least.min(covered);
        }
        assert!(n < 20 || least < 0.95, "the interval is not merely wide: {least}");
    }
}

/// The bootstrap distribution of an odd sample's median is known: P(median* <= x_(j)) = P(Bin(n, j/n) > n/2) (Efron
/// 1979). The percentile interval must end at its quantiles, within the noise of resampling.
#[test]
fn bootstrap_meets_the_exact_distribution() {
    let n = 31_usize;
    let mut draws = Draws::new(5);
    let mut values: Vec<f64> = (0..n).map(|_| draws.normal().exp()).collect();
    let options = Bootstrap { resamples: 40_000, seed: 11, ..Bootstrap::default() };
    let got = bootstrap_median(&values, &options).unwrap();
    values.sort_by(f64::total_cmp);
    let at_most = |j: usize| -> f64 {
        let share = j as f64 / n as f64;
        let mut pmf = (1.0 - share).powi(n as i32);
        let mut above = 0.0;
        for k in 0..=n {
            above += if 2 * k > n { pmf } else { 0.0 };
            pmf *= (n - k) as f64 / (k + 1) as f64 * share / (1.0 - share);
        }
        above
    };
    for (end, tail) in [(got.low, 0.025), (got.high, 0.975)] {
        let j = values.iter().position(|v| *v == end).expect("an end of the interval is one of the values") + 1;
        assert!(at_most(j - 1) < tail + 0.003 && at_most(j) > tail - 0.003, "{j} for {tail}");
    }
    assert_eq!(
        bootstrap_median(&values, &options).unwrap(),
        got,
        "neither the order of values nor a second call matters"
    );
    // The resampled median of two values is 1, 1.5 or 2 with probabilities 1/4, 1/2, 1/4.
    for (level, ends) in [(0.4, (1.5, 1.5)), (0.6, (1.0, 2.0))] {
        let pair = bootstrap_median(&[1.0, 2.0], &Bootstrap { level, ..options }).unwrap();
        assert_eq!((pair.low, pair.high), ends);
    }
    let other = bootstrap_median(&values, &Bootstrap { kind: BootstrapKind::Bca, ..options }).unwrap();
    assert!(other.low <= other.estimate && other.estimate <= other.high);
}

/// Slices of 300 pairs whose true ratio of medians is 1.05: the interval covers it in about 95 % of seeded repetitions,
/// and drift that both slices of a pair share does not widen it.
#[test]
fn overhead_is_covered() {
    let mut draws = Draws::new(77);
    for kind in [BootstrapKind::Percentile, BootstrapKind::Bca] {
        let mut covered = 0;
        for seed in 0..200 {
            let n = 61;
            let drift: Vec<f64> = (0..n).map(|_| draws.normal().exp()).collect();
            let base: Vec<f64> = drift.iter().map(|d| d * (0.02 * draws.normal()).exp()).collect();
            let test: Vec<f64> = drift.iter().map(|d| d * 1.05 * (0.02 * draws.normal()).exp()).collect();
            let options = Bootstrap { resamples: 1000, seed, kind, ..Bootstrap::default() };
            let got = paired_ratio_median(&base, &test, &options).unwrap();
            assert!(got.high - got.low < 0.05, "{got:?}");
            covered += u64::from((got.low..=got.high).contains(&1.05));
        }
        let share = clopper_pearson(covered, 200, 0.999).unwrap();
        assert!(share.low < 0.95 && share.high > 0.95, "{kind:?} {share:?}");
    }
    let same = paired_ratio_median(&[1.0, 2.0, 4.0], &[1.5, 3.0, 6.0], &Bootstrap::default()).unwrap();
    assert_eq!((same.low, same.estimate, same.high), (1.5, 1.5, 1.5));
}

/// Largest distance between the distribution of the values and the uniform one, times sqrt(n).
fn kolmogorov_smirnov(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let distance = values
        .iter()
        .enumerate()
        .fold(0.0_f64, |most, (i, v)| most.max((v - i as f64 / n).abs()).max(((i + 1) as f64 / n - v).abs()));
    distance * n.sqrt()
}

/// Without a difference, p is uniform: exactly for the paired test, nearly for Welch's at ten runs a side. 1.95 is the
/// 0.1 % point of the Kolmogorov distribution.
#[test]
fn p_is_uniform_without_a_difference() {
    let mut draws = Draws::new(1);
    let (mut paired, mut independent) = (Vec::new(), Vec::new());
    for _ in 0..10_000 {
        let rounds: Vec<f64> = (0..5).map(|_| draws.normal()).collect();
        let base: Vec<f64> = rounds.iter().map(|r| (r + 0.1 * draws.normal()).exp()).collect();
        let test: Vec<f64> = rounds.iter().map(|r| (r + 0.3 * draws.normal()).exp()).collect();
        paired.push(paired_log_ratios(&base, &test).unwrap().p);
        let base: Vec<f64> = (0..10).map(|_| draws.normal()).collect();
        let test: Vec<f64> = (0..10).map(|_| draws.normal()).collect();
        independent.push(welch(&base, &test).unwrap().p);
    }
    let (paired, independent) = (kolmogorov_smirnov(paired), kolmogorov_smirnov(independent));
    assert!(paired < 1.95, "paired: {paired}");
    assert!(independent < 1.95, "welch: {independent}");
}

/// A difference of one standard deviation is found in 80.7 % of experiments of 17 a side at the 5 % level (any table of
/// power), and of two standard deviations in nearly all.
#[test]
fn power_is_what_tables_say() {
    let mut draws = Draws::new(2);
    let mut found = [0_u32; 2];
    for _ in 0..4000 {
        for (count, shift) in found.iter_mut().zip([1.0, 2.0]) {
            let base: Vec<f64> = (0..17).map(|_| draws.normal()).collect();
            let test: Vec<f64> = (0..17).map(|_| draws.normal() + shift).collect();
            *count += u32::from(welch(&base, &test).unwrap().p < 0.05);
        }
    }
    let [one, two] = found.map(|count| f64::from(count) / 4000.0);
    assert!((one - 0.807).abs() < 0.025, "{one}");
    assert!(two > 0.995, "{two}");
}
