//! The rank test of several groups.

use pagelab_analysis::stats::{NORMAL, Undefined};

/// p of the rank test of Kruskal and Wallis that all groups are of one distribution.
///
/// H = 12 / (N (N + 1)) sum R_i^2 / n_i - 3 (N + 1), with middle ranks for ties and divided by 1 - sum (t^3 - t) / (N^3 - N);
/// p by the chi-squared distribution with one degree of freedom less than there are groups. W. H. Kruskal and W. A.
/// Wallis, "Use of ranks in one-criterion variance analysis", JASA 47 (1952). With few hosts in all groups it is cautious:
/// of three groups of three values p is at least 0.027.
///
/// # Errors
/// Fewer than two groups, an empty one, values that are no numbers, or values that are all equal.
pub fn kruskal_wallis(groups: &[Vec<f64>]) -> Result<f64, Undefined> {
    if groups.len() < 2 {
        return Err(Undefined::TooFew { needed: 2 });
    }
    if groups.iter().any(Vec::is_empty) {
        return Err(Undefined::Empty);
    }
    let mut values: Vec<(f64, usize)> =
        groups.iter().enumerate().flat_map(|(group, values)| values.iter().map(move |value| (*value, group))).collect();
    if values.iter().any(|(value, _)| !value.is_finite()) {
        return Err(Undefined::NotFinite);
    }
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let n = values.len() as f64;
    let mut sums = vec![0.0; groups.len()];
    let mut ties = 0.0;
    let mut before = 0.0;
    for equal in values.chunk_by(|a, b| a.0 >= b.0) {
        let size = equal.len() as f64;
        for (_, group) in equal {
            if let Some(sum) = sums.get_mut(*group) {
                *sum += before + 0.5 * (size + 1.0);
            }
        }
        ties += size * size * size - size;
        before += size;
    }
    let correction = 1.0 - ties / (n * n * n - n);
    if correction <= 0.0 {
        return Err(Undefined::NoVariance);
    }
    let squares: f64 = sums.iter().zip(groups).map(|(sum, group)| sum * sum / group.len() as f64).sum();
    let statistic = (12.0 / (n * (n + 1.0)) * squares - 3.0 * (n + 1.0)) / correction;
    Ok(chi_squared_sf(statistic.max(0.0), groups.len() as u32 - 1))
}

/// P(X > x) of a chi-squared variable X with `df` degrees of freedom, x >= 0.
///
/// The finite sums of M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions" (1964), 26.4.4 and 26.4.5, all of whose
/// terms are positive: exp(-x/2) sum_(i < df/2) (x/2)^i / i! for an even df; for an odd one two tails of the normal distribution and
/// the same sum over halves. 1 for no degree of freedom.
pub fn chi_squared_sf(x: f64, df: u32) -> f64 {
    if df == 0 || x <= 0.0 {
        return 1.0;
    }
    let half = 0.5 * x;
    let is_odd = df % 2 == 1;
    let first = if is_odd { NORMAL.two_sided_p(x.sqrt()) } else { 0.0 };
    // The first term: (x/2)^0 / 0!, or (x/2)^(1/2) / Gamma(3/2).
    let (mut power, mut term) =
        if is_odd { (0.5, half.sqrt() / (0.5 * std::f64::consts::PI.sqrt())) } else { (0.0, 1.0) };
    let mut sum = 0.0;
    for _ in 0..df / 2 {
        sum += term;
        power += 1.0;
        term *= half / power;
    }
    (first + (-half).exp() * sum).min(1.0)
}
