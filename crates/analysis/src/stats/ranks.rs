//! Tests that need no size of a value: of ranks, and of shares of runs.

use super::{Change, Undefined};

/// Runs of both sides together up to which the distribution of the rank sum is counted out; beyond, it is normal.
const EXACT_UP_TO: usize = 60;

/// The outcome of [`rank_sum`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankTest {
    /// Two-sided p value.
    pub p: f64,
    /// Which way the test side lies.
    pub change: Change,
}

/// The rank-sum test of Wilcoxon (Biometrics Bulletin 1 (1945)) with middle ranks for ties; values may be infinite.
///
/// Two-sided p is the share of all ways of dealing the ranks out to the sides whose sum lies at least as far from its
/// mean. It is counted exactly up to 60 values, ties and all; beyond that it is the normal approximation with the
/// variance of the ranks as they are.
pub fn rank_sum(base: &[f64], test: &[f64]) -> Result<RankTest, Undefined> {
    if base.is_empty() || test.is_empty() {
        return Err(Undefined::Empty);
    }
    let ranks = doubled_ranks(base, test);
    let of_test: u64 = ranks.iter().skip(base.len()).sum();
    let all: u64 = ranks.iter().sum();
    // Everything times 2 n, so that the mean is a whole number too.
    let n = ranks.len() as u64;
    let mean = all * test.len() as u64;
    let distance = (of_test * n).abs_diff(mean);
    let change = Change::of(of_test as f64 * n as f64 - mean as f64);
    let p = if ranks.len() <= EXACT_UP_TO {
        let sums = sums_of_subsets(&ranks, test.len());
        let total: f64 = sums.iter().sum();
        let far = sums.iter().enumerate().filter(|(sum, _)| (*sum as u64 * n).abs_diff(mean) >= distance);
        far.map(|(_, ways)| ways).sum::<f64>() / total
    } else {
        let average = all as f64 / n as f64;
        let spread: f64 = ranks.iter().map(|rank| (*rank as f64 - average).powi(2)).sum();
        let (n_b, n_t) = (base.len() as f64, test.len() as f64);
        let variance = n_b * n_t / (n as f64 * (n as f64 - 1.0)) * spread;
        if variance <= 0.0 {
            return Ok(RankTest { p: 1.0, change: Change::Equal });
        }
        super::NORMAL.two_sided_p(distance as f64 / n as f64 / variance.sqrt())
    };
    Ok(RankTest { p: p.min(1.0), change })
}

/// Twice the middle ranks of the values, base first.
fn doubled_ranks(base: &[f64], test: &[f64]) -> Vec<u64> {
    let values: Vec<f64> = base.iter().chain(test).copied().collect();
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let alike = values.iter().filter(|other| other.total_cmp(value).is_eq()).count();
        (2 * below + alike + 1) as u64
    };
    values.iter().map(rank).collect()
}

/// In how many ways `size` of the ranks add up to each sum.
fn sums_of_subsets(ranks: &[u64], size: usize) -> Vec<f64> {
    let most: u64 = ranks.iter().sum();
    let width = most as usize + 1;
    let mut ways = vec![vec![0.0; width]; size + 1];
    if let Some(none) = ways.first_mut().and_then(|row| row.first_mut()) {
        *none = 1.0;
    }
    for rank in ranks {
        let rank = *rank as usize;
        for taken in (1..=size).rev() {
            let (before, after) = ways.split_at_mut(taken);
            let (Some(from), Some(to)) = (before.last(), after.first_mut()) else { continue };
            for (sum, count) in from.iter().enumerate() {
                if let Some(slot) = to.get_mut(sum + rank) {
                    *slot += count;
                }
            }
        }
    }
    ways.pop().unwrap_or_default()
}

/// Fisher's exact test that two shares, k of n, are equal (R. A. Fisher, "The logic of inductive inference", JRSS 98
/// (1935)): two-sided p by minimum likelihood, given both margins, as R's `fisher.test` and scipy's `fisher_exact` give it.
pub fn fisher_exact(base: (usize, usize), test: (usize, usize)) -> Result<f64, Undefined> {
    let ((k_b, n_b), (k_t, n_t)) = (base, test);
    if n_b == 0 || n_t == 0 {
        return Err(Undefined::Empty);
    }
    if k_b > n_b || k_t > n_t {
        return Err(Undefined::OutOfRange);
    }
    let ln_factorial = |n: usize| (2..=n).map(|i| (i as f64).ln()).sum::<f64>();
    let ln_choose = |n: usize, k: usize| ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    let k = k_b + k_t;
    let weight = |of_test: usize| ln_choose(n_t, of_test) + ln_choose(n_b, k - of_test);
    let seen = weight(k_t);
    let ways = k.saturating_sub(n_b)..=k.min(n_t);
    let far: f64 = ways.map(weight).filter(|w| *w <= seen + 1e-7).map(f64::exp).sum();
    Ok((far / ln_choose(n_b + n_t, k).exp()).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-9, "{found}, wanted {wanted}");
    }

    #[test]
    fn shares_of_runs_as_r_gives_them() {
        // R: fisher.test(matrix(c(0, 10, 8, 2), 2))$p.value
        near(fisher_exact((0, 10), (8, 10)).expect("runs"), 0.000_714_455_822_814_955_9);
        near(fisher_exact((0, 2), (2, 2)).expect("runs"), 1.0 / 3.0);
        near(fisher_exact((1, 4), (1, 4)).expect("runs"), 1.0);
        near(fisher_exact((3, 10), (1, 15)).expect("runs"), 0.266_798_418_972_332_03);
        assert!(fisher_exact((0, 0), (1, 2)).is_err());
    }

    #[test]
    fn rank_sums_by_hand() {
        // Only two of the C(6, 3) = 20 ways to deal six ranks lie that far out.
        let apart = rank_sum(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).expect("values");
        near(apart.p, 0.1);
        assert_eq!(apart.change, Change::Rises);
        let ended = rank_sum(&[5.0; 10], &[4.9, 4.9, f64::INFINITY, f64::INFINITY, f64::INFINITY]).expect("values");
        assert_eq!(ended.change, Change::Rises);
        let alike = rank_sum(&[f64::INFINITY; 3], &[f64::INFINITY; 4]).expect("values");
        near(alike.p, 1.0);
        assert_eq!(alike.change, Change::Equal);
    }

    /// Where counting ends the normal approximation goes on without a step.
    #[test]
    fn many_runs_are_approximated() {
        let side = |n: usize, shift: f64| (0..n).map(|i| i as f64 + shift).collect::<Vec<_>>();
        let exact = rank_sum(&side(30, 0.0), &side(30, 7.5)).expect("values").p;
        let normal = rank_sum(&side(31, 0.0), &side(31, 7.5)).expect("values").p;
        assert!((exact / normal - 1.0).abs() < 0.2, "{exact} {normal}");
    }
}
