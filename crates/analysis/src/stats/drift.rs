//! Drift: whether values rise or fall in the order in which they were made.
//!
//! The test is Mann's (H. B. Mann, "Nonparametric tests against trend", Econometrica 13 (1945)): Kendall's S, the
//! number of pairs in which the later value is larger less the number in which it is smaller, against its distribution
//! over all orders of these values. Several series are tested together by the sum of their S (R. M. Hirsch, J. R.
//! Slack, "A nonparametric trend test for seasonal data with serial dependence", Water Resources Research 20 (1984),
//! here for series that do not depend on each other).
//!
//! Power at the level of 0.7 % that a comparison leaves to each of its seven tests (see [`super::check_sides`]), for
//! normal values of which the last differs from the first by `rise` standard deviations, in a straight line; one
//! series, and two that drift alike. 2,000 draws each, `the_tables_of_power` of `tests/stats_checks.rs`:
//!
//! | values | rise 2, one | two | rise 4, one | two | rise 8, one | two |
//! |---|---|---|---|---|---|---|
//! | 4 | 0 % | 5 % | 0 % | 28 % | 0 % | 84 % |
//! | 5 | 0 % | 11 % | 0 % | 56 % | 0 % | 99 % |
//! | 7 | 3 % | 20 % | 16 % | 83 % | 66 % | 100 % |
//! | 10 | 9 % | 35 % | 48 % | 96 % | 98 % | 100 % |
//! | 15 | 22 % | 58 % | 85 % | 100 % | 100 % | 100 % |
//! | 20 | 34 % | 78 % | 96 % | 100 % | 100 % | 100 % |
//! | 30 | 59 % | 94 % | 100 % | 100 % | 100 % | 100 % |

use super::{Change, NORMAL, Undefined};

/// Values up to which the distribution of S is counted out; beyond, it is normal.
const EXACT_UP_TO: usize = 60;

/// The outcome of [`drift`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Kendall's tau, S over the number of pairs whose values differ: from -1 (falls throughout) to 1 (rises
    /// throughout).
    pub tau: f64,
    /// Two-sided p value: the share of all orders of these values whose S is at least as far from 0.
    pub p: f64,
    /// The smallest p that any order of these values could have: no decision below it is possible.
    pub least_p: f64,
    /// Which way the values go.
    pub change: Change,
}

/// Tests series of values, each in the order of time, for a drift that all share.
///
/// Exact for series of up to 60 values, ties included: given groups of equal values, the number of inversions has the
/// Gaussian multinomial coefficient as its generating function (G. E. Andrews, "The Theory of Partitions", 1976,
/// theorem 3.6). Longer ones take the normal approximation with the variance for ties and a correction for continuity
/// (M. G. Kendall, "Rank Correlation Methods", 1970).
pub fn drift(series: &[&[f64]]) -> Result<Drift, Undefined> {
    if series.iter().any(|values| values.iter().any(|value| !value.is_finite())) {
        return Err(Undefined::NotFinite);
    }
    if series.iter().all(|values| values.len() < 2) {
        return Err(Undefined::OneValue);
    }
    let s: i64 = series.iter().map(|values| kendall_s(values)).sum();
    let ties: Vec<Vec<usize>> = series.iter().map(|values| groups(values)).collect();
    let pairs: u64 = ties.iter().map(|ties| untied_pairs(ties)).sum();
    if pairs == 0 {
        return Err(Undefined::NoVariance);
    }
    let exact = series.iter().all(|values| values.len() <= EXACT_UP_TO);
    let (p, least_p) = if exact { exact_p(&ties, pairs, s) } else { normal_p(&ties, pairs, s) };
    Ok(Drift { tau: s as f64 / pairs as f64, p, least_p, change: Change::of(s as f64) })
}

/// Pairs in which the later value is larger, less those in which it is smaller.
fn kendall_s(values: &[f64]) -> i64 {
    let after = |(i, value): (usize, &f64)| -> i64 {
        values.iter().skip(i + 1).map(|later| i64::from(later > value) - i64::from(later < value)).sum()
    };
    values.iter().enumerate().map(after).sum()
}

/// Sizes of the groups of equal values.
fn groups(values: &[f64]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a >= b).map(<[f64]>::len).collect()
}

fn untied_pairs(ties: &[usize]) -> u64 {
    let pairs = |n: usize| (n * n.saturating_sub(1) / 2) as u64;
    pairs(ties.iter().sum()) - ties.iter().copied().map(pairs).sum::<u64>()
}

/// p of S and of the largest possible S. S is the number of untied pairs less twice the inversions, and as likely as
/// -S.
fn exact_p(ties: &[Vec<usize>], pairs: u64, s: i64) -> (f64, f64) {
    let shares = ties.iter().fold(vec![1.0], |all, ties| inversions(all, ties));
    // Only the lower tail is summed: there, each share is exact to a few units of its last digit.
    let tail = |distance: u64| -> f64 {
        let most = (pairs.saturating_sub(distance) / 2) as usize;
        if distance == 0 { 1.0 } else { (2.0 * shares.iter().take(most + 1).sum::<f64>()).min(1.0) }
    };
    (tail(s.unsigned_abs()), tail(pairs))
}

/// The shares of all orders by their number of inversions, after a series with these ties is added to those of
/// `shares`.
fn inversions(mut shares: Vec<f64>, ties: &[usize]) -> Vec<f64> {
    let mut placed = 0;
    for &size in ties {
        shares = if size == 1 { inserted(&shares, placed) } else { product(&shares, &merged(placed, size)) };
        placed += size;
    }
    shares
}

/// The shares after one value is put at any of the places among `placed` others: each number of inversions from 0 to
/// `placed` is added equally often. Running sums make it a pass over the shares.
fn inserted(shares: &[f64], placed: usize) -> Vec<f64> {
    let share_at = |place: usize| shares.get(place).copied().unwrap_or(0.0);
    let mut sum = 0.0;
    (0..shares.len() + placed)
        .map(|count| {
            sum += share_at(count);
            if count > placed {
                sum -= share_at(count - placed - 1);
            }
            sum / (placed + 1) as f64
        })
        .collect()
}

/// The shares of all ways to merge `a` values with `b` larger ones, by the number of pairs in which the larger one
/// stands first: the Gaussian binomial coefficient, from its recurrence [a, b] = [a, b - 1] + q^b [a - 1, b], divided
/// by its sum.
fn merged(a: usize, b: usize) -> Vec<f64> {
    // Row for a values, one polynomial for each number of larger ones up to b.
    let mut row: Vec<Vec<f64>> = vec![vec![1.0]; b + 1];
    for smaller in 1..=a {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for (larger, above) in row.iter().enumerate().skip(1) {
            let mut sum = vec![0.0; smaller * larger + 1];
            add(&mut sum, next.last().map_or(&[], Vec::as_slice), 0);
            add(&mut sum, above, larger);
            next.push(sum);
        }
        row = next;
    }
    let ways = row.pop().unwrap_or_default();
    let all: f64 = ways.iter().sum();
    ways.into_iter().map(|count| count / all).collect()
}

/// Adds a polynomial times q^`power`.
fn add(sum: &mut [f64], terms: &[f64], power: usize) {
    for (slot, term) in sum.iter_mut().skip(power).zip(terms) {
        *slot += term;
    }
}

/// The product of two polynomials.
fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; (a.len() + b.len()).saturating_sub(1)];
    for (i, x) in a.iter().enumerate() {
        for (slot, y) in out.iter_mut().skip(i).zip(b) {
            *slot += x * y;
        }
    }
    out
}

fn normal_p(ties: &[Vec<usize>], pairs: u64, s: i64) -> (f64, f64) {
    let cubic = |n: usize| (n * n.saturating_sub(1) * (2 * n + 5)) as f64;
    let variance = |ties: &Vec<usize>| (cubic(ties.iter().sum()) - ties.iter().copied().map(cubic).sum::<f64>()) / 18.0;
    let sd = ties.iter().map(variance).sum::<f64>().sqrt();
    let p = |distance: f64| NORMAL.two_sided_p((distance - 1.0).max(0.0) / sd);
    (p(s.abs() as f64), p(pairs as f64))
}

/// How far a drift has gone from the first value to the last: Sen's slope, the median of the slopes of all pairs, times
/// the number of steps, in the unit of the values (P. K. Sen, "Estimates of the regression coefficient based on
/// Kendall's tau", JASA 63 (1968)). Values are taken as equally spaced in time.
pub fn sen_rise(values: &[f64]) -> Result<f64, Undefined> {
    if values.len() < 2 {
        return Err(Undefined::OneValue);
    }
    let slopes: Vec<f64> = (0..values.len())
        .flat_map(|i| (i + 1..values.len()).map(move |j| (i, j)))
        .filter_map(|(i, j)| Some((values.get(j)? - values.get(i)?) / (j - i) as f64))
        .collect();
    Ok(super::median(&slopes)? * (values.len() - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_by_hand() {
        // 1 of 6 orders of three values rises, and 1 falls, throughout.
        let found = drift(&[&[1.0, 2.0, 3.0]]).expect("values");
        assert!((found.p - 2.0 / 6.0).abs() < 1e-15 && (found.tau - 1.0).abs() < 1e-15, "{found:?}");
        // Two series of four: 2 of 24^2.
        let both = drift(&[&[4.0, 3.0, 2.0, 1.0], &[9.0, 8.0, 7.0, 6.0]]).expect("values");
        assert!((both.p - 2.0 / 576.0).abs() < 1e-15 && both.change == Change::Falls, "{both:?}");
        // a a b: three orders, of which one rises (S = 2), one falls, one has S = 0.
        let tied = drift(&[&[1.0, 1.0, 2.0]]).expect("values");
        assert!((tied.p - 2.0 / 3.0).abs() < 1e-15 && (tied.least_p - tied.p).abs() < 1e-15, "{tied:?}");
        assert_eq!(drift(&[&[1.0, 1.0]]).err(), Some(Undefined::NoVariance));
        assert_eq!(drift(&[&[1.0], &[2.0]]).err(), Some(Undefined::OneValue));
    }

    #[test]
    fn the_rise_of_a_line_with_one_value_off_is_that_of_the_line() {
        let mut values: Vec<f64> = (0..9).map(|i| 100.0 + 2.0 * f64::from(i)).collect();
        values[3] = 500.0;
        assert!((sen_rise(&values).expect("values") - 16.0).abs() < 1e-12);
    }

    /// Where counting ends the normal approximation goes on without a step.
    #[test]
    fn long_series_are_approximated() {
        for ties in [vec![1; 60], vec![3; 20]] {
            let pairs = untied_pairs(&ties);
            for s in (10..600).step_by(100) {
                let (exact, _) = exact_p(std::slice::from_ref(&ties), pairs, s);
                let (normal, _) = normal_p(std::slice::from_ref(&ties), pairs, s);
                assert!((exact / normal - 1.0).abs() < 0.2, "S {s} {ties:?}: {exact} {normal}");
            }
        }
    }
}
