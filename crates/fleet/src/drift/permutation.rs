//! The test of few hosts against the others, by dealing the hosts out anew.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A test ends early when this number of deals were as extreme as the data.
const ENOUGH: u32 = 20;
/// Deals at most.
const MOST_DEALS: u32 = 99_999;

/// p of the hypothesis that the hosts of `few` are any of all hosts: the share of deals of as many hosts out of `few` and
/// `others` together whose mean lies as far from the mean of all.
///
/// The permutation test of E. J. G. Pitman, "Significance tests which may be applied to samples from any populations", JRSS
/// Supplement 4 (1937). It holds for any distribution of hosts as long as each is as likely to be one of `few`. Deals end early
/// when 20 were as extreme, which keeps p a valid one (J. Besag and P. Clifford, "Sequential Monte Carlo p-values",
/// Biometrika 78, 1991); else p = (1 + extreme) / (1 + deals), at least 1e-5. A deal takes as many steps as `few` are.
pub(super) fn permuted_means(few: &[f64], others: &[f64], seed: u64) -> f64 {
    let mut all: Vec<f64> = few.iter().chain(others).copied().collect();
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    for value in &mut all {
        *value -= mean;
    }
    let found = all.iter().take(few.len()).sum::<f64>().abs();
    // Deals of equal values must count as equal although their sums are rounded in another order.
    let limit = found * (1.0 - 1e-9);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut extreme = 0;
    for deal in 1..=MOST_DEALS {
        // The first steps of the shuffle of Fisher and Yates: the first places are a random choice of all.
        for at in 0..few.len() {
            let other = random.random_range(at..all.len());
            all.swap(at, other);
        }
        if all.iter().take(few.len()).sum::<f64>().abs() >= limit {
            extreme += 1;
        }
        if extreme == ENOUGH {
            return f64::from(extreme) / f64::from(deal);
        }
    }
    f64::from(extreme + 1) / f64::from(MOST_DEALS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the C(8, 2) = 28 pairs only one lies as far above, and one as far below.
    #[test]
    fn few_deals_are_counted_right() {
        let p = permuted_means(&[7.0, 8.0], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 1);
        assert!((p - 2.0 / 28.0).abs() < 0.04, "{p}");
        let middle = permuted_means(&[4.0, 5.0], &[1.0, 2.0, 3.0, 6.0, 7.0, 8.0], 1);
        assert!((middle - 1.0).abs() < 1e-9, "{middle}");
        let alike = permuted_means(&[1.0; 3], &[1.0; 9], 1);
        assert!((alike - 1.0).abs() < 1e-9, "{alike}");
    }

    #[test]
    fn far_hosts_reach_the_least_p_and_a_seed_gives_one_p() {
        let others: Vec<f64> = (0..200).map(|at| (f64::from(at) * 0.7).sin()).collect();
        let p = permuted_means(&[10.0, 11.0, 12.0], &others, 3);
        assert!(p < 3e-5, "{p}");
        let near = |seed| permuted_means(&[0.9, 0.8, 0.7], &others, seed);
        assert_eq!(near(3).to_bits(), near(3).to_bits());
        assert!((near(3) / near(4) - 1.0).abs() < 1.0);
    }
}
