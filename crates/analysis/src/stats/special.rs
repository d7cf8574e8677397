//! The few special functions that distributions need, with relative accuracy over their whole range.

/// s(a) = Gamma(a + 1/2) / (Gamma(a) sqrt(a)) for a > 0; 1 at infinity.
///
/// Differences of log-gamma values lose all that is asked for here: at a = 5e5 they are 6e6, whose last digit is 1e-9.
/// For a >= 16 the expansion ln s(a) = sum_k (2^(1-2k) - 2) B_2k / (2k (2k-1)) a^(1-2k)
/// = -1/(8a) + 1/(192 a^3) - 1/(640 a^5) + 17/(14336 a^7) - ... is used (difference of two Stirling series, DLMF
/// 5.11.8 at h = 1/2 and h = 0); the first term left out is below 1e-17. Smaller arguments are lifted with
/// Gamma(a + 1) = a Gamma(a). Relative error below 5e-15.
pub(super) fn half_gamma_ratio(a: f64) -> f64 {
    let mut lifted = a;
    let mut factor = 1.0;
    while lifted < 16.0 {
        factor *= lifted / (lifted + 0.5);
        lifted += 1.0;
    }
    let u = 1.0 / lifted;
    let v = u * u;
    let series = -1.0 / 8.0
        + v * (1.0 / 192.0
            + v * (-1.0 / 640.0
                + v * (17.0 / 14336.0 + v * (-31.0 / 18432.0 + v * (691.0 / 180_224.0 + v * (-5461.0 / 425_984.0))))));
    // An argument that was not lifted must not go through sqrt(lifted / a): infinity / infinity is no number.
    let root = if lifted > a { (lifted / a).sqrt() } else { 1.0 };
    factor * root * (u * series).exp()
}

/// The error of Stirling's formula, d(n) = ln n! - [(n + 1/2) ln n - n + ln(2 pi) / 2], for n > 0.
///
/// Series 1/(12n) - 1/(360n^3) + ... for n >= 16 (DLMF 5.11.1), below that
/// d(n) = d(n + 1) + (n + 1/2) ln(1 + 1/n) - 1. Absolute error below 1e-14.
fn stirling_error(n: f64) -> f64 {
    let mut lifted = n;
    let mut sum = 0.0;
    while lifted < 16.0 {
        sum += (lifted + 0.5) * (1.0 / lifted).ln_1p() - 1.0;
        lifted += 1.0;
    }
    let v = 1.0 / (lifted * lifted);
    let series = 1.0 / 12.0
        + v * (-1.0 / 360.0 + v * (1.0 / 1260.0 + v * (-1.0 / 1680.0 + v * (1.0 / 1188.0 + v * (-691.0 / 360_360.0)))));
    sum + series / lifted
}

/// x ln(x / m) + m - x, the deviance of x events where m are expected; x, m > 0.
///
/// Near x = m the terms cancel, so the series 2 x sum v^(2k+1) / (2k+1) - (x - m)(1 - v), v = (x - m) / (x + m), is
/// used there (C. Loader, "Fast and accurate computation of binomial probabilities", 2000).
fn deviance(x: f64, m: f64) -> f64 {
    let difference = x - m;
    if difference.abs() >= 0.1 * (x + m) {
        return x * (x / m).ln() - difference;
    }
    let v = difference / (x + m);
    let mut sum = difference * v;
    let mut power = 2.0 * x * v;
    for k in 1..1000_u32 {
        power *= v * v;
        let next = sum + power / f64::from(2 * k + 1);
        if next.to_bits() == sum.to_bits() {
            break;
        }
        sum = next;
    }
    sum
}

/// ln of the binomial probability C(n, k) p^k q^(n-k), where q = 1 - p is given apart so that neither is rounded off.
///
/// Saddle-point form of C. Loader (2000): the large terms of the three factorials cancel analytically. Absolute error
/// of the logarithm near 1e-15 * (1 + n p q |ln odds ratio|), so well below 1e-12 for counts up to 1e6.
pub(super) fn ln_binomial(k: u64, n: u64, p: f64, q: f64) -> f64 {
    let (kf, nf, rest) = (k as f64, n as f64, (n - k) as f64);
    if k == 0 {
        return nf * ln_complement(q, p);
    }
    if k == n {
        return nf * ln_complement(p, q);
    }
    stirling_error(nf) - stirling_error(kf) - stirling_error(rest) - deviance(kf, nf * p) - deviance(rest, nf * q)
        + 0.5 * (nf / (std::f64::consts::TAU * kf * rest)).ln()
}

/// ln x for x = 1 - y, taken from whichever of the two is the more precise.
fn ln_complement(x: f64, y: f64) -> f64 {
    if y < 0.5 { (-y).ln_1p() } else { x.ln() }
}
