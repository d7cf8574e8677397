//! Intervals for a share: k of n.

use super::counts::lower_tail_over_pmf;
use super::special::ln_binomial;
use super::student::NORMAL;
use super::{Interval, Undefined};

/// The exact interval of Clopper and Pearson for a share k / n.
///
/// Its ends are the shares at which k would just be the (1 - level)/2 extreme of either tail, that is, quantiles of
/// Beta(k, n - k + 1) and Beta(k + 1, n - k). C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial
/// limits illustrated in the case of the binomial", Biometrika 26 (1934). It covers the true share with at least the
/// stated level, always. Relative error of the ends below 1e-12 (of 1 - high, where that is small, absolute).
pub fn clopper_pearson(k: u64, n: u64, level: f64) -> Result<Interval, Undefined> {
    check(k, n, level)?;
    let tail = 0.5 * (1.0 - level);
    let low = if k == 0 { 0.0 } else { lower_end(k, n, tail) };
    let high = if k == n { 1.0 } else { 1.0 - lower_end(n - k, n, tail) };
    Ok(Interval { estimate: k as f64 / n as f64, low, high, level, n: n as usize })
}

/// Wilson's score interval for a share k / n: (k + z^2/2 +- z sqrt(k (n - k) / n + z^2 / 4)) / (n + z^2).
///
/// Narrower than [`clopper_pearson`], with the stated level on average over shares but not for each. E. B. Wilson,
/// "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
pub fn wilson(k: u64, n: u64, level: f64) -> Result<Interval, Undefined> {
    check(k, n, level)?;
    let (kf, nf) = (k as f64, n as f64);
    let z = NORMAL.inverse_two_sided(1.0 - level)?;
    let middle = kf + 0.5 * z * z;
    let half = z * (kf * (nf - kf) / nf + 0.25 * z * z).sqrt();
    let low = if k == 0 { 0.0 } else { (middle - half) / (nf + z * z) };
    let high = if k == n { 1.0 } else { (middle + half) / (nf + z * z) };
    Ok(Interval { estimate: kf / nf, low, high, level, n: n as usize })
}

fn check(k: u64, n: u64, level: f64) -> Result<(), Undefined> {
    if n == 0 {
        return Err(Undefined::Empty);
    }
    if k > n || !(level > 0.0 && level < 1.0) {
        return Err(Undefined::OutOfRange);
    }
    Ok(())
}

/// The share p at which P(X >= k) = tail, for k >= 1.
///
/// Newton's method on ln P(X >= k) against u = logit p. P is the distribution function of a Beta variable, whose
/// logit has a log-concave density, so the curve is concave and the iteration converges from any start.
fn lower_end(k: u64, n: u64, tail: f64) -> f64 {
    let target = tail.ln();
    let (kf, nf) = (k as f64, n as f64);
    let mut logit = (kf / (nf - kf + 1.0)).ln();
    for _ in 0..200 {
        let p = 1.0 / (1.0 + (-logit).exp());
        let q = 1.0 / (1.0 + logit.exp());
        // P(X >= k) is the lower tail n - k of the failures. Right of the mode its sum would grow before it falls, but
        // the root lies left of k / n and the iterates stay at or left of the start.
        let pmf = ln_binomial(k, n, p, q);
        let over = lower_tail_over_pmf(n - k, n, q, p);
        // d ln P / d logit = k q P(X = k) / P(X >= k).
        let step = (target - pmf - over.ln()) / (kf * q / over);
        logit += step;
        if step.abs() < 1e-15 * (1.0 + logit.abs()) {
            break;
        }
    }
    1.0 / (1.0 + (-logit).exp())
}
