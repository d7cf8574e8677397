//! Few events: the exact conditional comparison of two Poisson rates.

use super::special::ln_binomial;
use super::{Undefined, share};

/// Events counted over an exposure: seconds measured, or operations done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    /// Number of events.
    pub events: u64,
    /// The divisor of the events, in any unit that both sides share; must be positive.
    pub exposure: f64,
}

/// The outcome of [`exact_poisson`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateTest {
    /// Two-sided p value.
    pub p: f64,
    /// Its natural logarithm.
    pub ln_p: f64,
    /// Rate of test / rate of base; `None` if the base has no events.
    pub ratio: Option<f64>,
    /// Interval of the ratio; `None` if it is not bounded above.
    pub interval: Option<[f64; 2]>,
}

/// Exact conditional test that two Poisson rates are equal.
///
/// Given the total n = x_b + x_t, the events of the test side are binomial with probability
/// E_t / (E_b + E_t), E being the exposures, so no rate has to be known (J. Przyborowski and H. Wilenski, "Homogeneity
/// of results in testing samples from Poisson series", Biometrika 31 (1940)). Two-sided p by minimum likelihood: the
/// sum over all outcomes that are not more probable than the one seen, with a relative slack of 1e-7 for ties in
/// floating point. This is what R's `poisson.test` and scipy's `binomtest` compute; scipy's `poisson_means_test` is the
/// unconditional E-test instead, whose level is not guaranteed. The ratio's interval is that of Clopper and Pearson for
/// the binomial share s, taken through s / (1 - s) * E_b / E_t; being built from equal tails it can disagree with p near
/// its ends.
///
/// The level holds exactly if events are independent. It does not hold for events that come in bursts.
pub fn exact_poisson(base: Count, test: Count, level: f64) -> Result<RateTest, Undefined> {
    let exposure = base.exposure + test.exposure;
    let usable = |e: f64| e.is_finite() && e > 0.0;
    if !usable(base.exposure) || !usable(test.exposure) || !exposure.is_finite() {
        return Err(Undefined::OutOfRange);
    }
    let n = base.events.checked_add(test.events).ok_or(Undefined::OutOfRange)?;
    if n == 0 {
        return Err(Undefined::Empty);
    }
    let (ln_p, p) = minimum_likelihood(test.events, n, test.exposure / exposure, base.exposure / exposure);
    let per = base.exposure / test.exposure;
    let ratio = (base.events > 0).then(|| test.events as f64 / base.events as f64 * per);
    let interval = if base.events > 0 {
        let shares = share::clopper_pearson(test.events, n, level)?;
        Some([shares.low / (1.0 - shares.low) * per, shares.high / (1.0 - shares.high) * per])
    } else {
        None
    };
    Ok(RateTest { p, ln_p, ratio, interval: interval.filter(|ends| ends.iter().all(|end| end.is_finite())) })
}

/// (ln p, p) of the two-sided binomial test of k successes in n, by minimum likelihood; q = 1 - p.
fn minimum_likelihood(k: u64, n: u64, p: f64, q: f64) -> (f64, f64) {
    let expected = n as f64 * p;
    if (k as f64 - expected).abs() < 1e-12 * expected {
        return (0.0, 1.0);
    }
    // Seen from the side on which k lies, the tail is always the lower one.
    let (k, p, q) = if (k as f64) < expected { (k, p, q) } else { (n - k, q, p) };
    let seen = ln_binomial(k, n, p, q);
    let limit = seen + 1e-7;
    // The first outcome above the mode that is not more probable than k; probabilities fall from there to n.
    let (mut low, mut high) = ((n as f64 * p).ceil() as u64, n + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if ln_binomial(middle, n, p, q) <= limit {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let near = lower_tail_over_pmf(k, n, p, q);
    let far = if low > n {
        0.0
    } else {
        let first = n - low;
        (ln_binomial(low, n, p, q) - seen).exp() * lower_tail_over_pmf(first, n, q, p)
    };
    let ln_p = (seen + (near + far).ln()).min(0.0);
    (ln_p, ln_p.exp())
}

/// P(X <= k) / P(X = k) for X binomial (n, p), k at or below the mode: the sum of falling positive terms
/// 1 + k q / ((n - k + 1) p) + ..., free of cancellation.
pub(super) fn lower_tail_over_pmf(k: u64, n: u64, p: f64, q: f64) -> f64 {
    let odds = q / p;
    let mut term = 1.0;
    let mut sum = 1.0;
    for j in (1..=k).rev() {
        term *= j as f64 / (n - j + 1) as f64 * odds;
        sum += term;
        if term < 1e-17 * sum {
            break;
        }
    }
    sum
}
