//! t tests: Welch's for two independent samples, and the one-sample test that paired designs come down to.

use super::special::half_gamma_ratio;
use super::student::StudentT;
use super::{Summary, Undefined};

/// A t test: an estimate, its standard error, and what follows from the two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TTest {
    /// The estimate tested against 0: a difference of means (test - base), or the mean of differences or log ratios.
    pub estimate: f64,
    /// Standard error of the estimate.
    pub se: f64,
    /// estimate / se.
    pub t: f64,
    /// Degrees of freedom, in general not an integer.
    pub df: f64,
    /// Two-sided p value; 0 only if it is below the smallest f64, see `ln_p`.
    pub p: f64,
    /// Natural logarithm of the two-sided p value.
    pub ln_p: f64,
}

impl TTest {
    pub(super) fn new(estimate: f64, se: f64, df: f64) -> Result<Self, Undefined> {
        let t = estimate / se;
        if se <= 0.0 || !t.is_finite() {
            return Err(Undefined::NoVariance);
        }
        let distribution = StudentT::new(df)?;
        Ok(Self { estimate, se, t, df, p: distribution.two_sided_p(t), ln_p: distribution.ln_two_sided_p(t) })
    }

    /// The interval of the given level (0.95 for 95 %): estimate +- t_(1 - (1 - level)/2, df) * se.
    pub fn interval(&self, level: f64) -> Result<[f64; 2], Undefined> {
        let half = critical_value(self.df, level)? * self.se;
        Ok([self.estimate - half, self.estimate + half])
    }
}

/// The half-width in standard errors of a two-sided interval of `level` with `df` degrees of freedom.
pub fn critical_value(df: f64, level: f64) -> Result<f64, Undefined> {
    if !(level > 0.0 && level < 1.0) {
        return Err(Undefined::OutOfRange);
    }
    StudentT::new(df)?.inverse_two_sided(1.0 - level)
}

/// Welch's unequal-variance t test of the difference test - base.
///
/// t = (m_t - m_b) / sqrt(v_t + v_b), v = s^2 / n, with the degrees of freedom of Welch and Satterthwaite,
/// df = (v_t + v_b)^2 / (v_t^2 / (n_t - 1) + v_b^2 / (n_b - 1)), which lie between min(n) - 1 and n_t + n_b - 2.
/// B. L. Welch, "The generalization of 'Student's' problem when several different population variances are involved",
/// Biometrika 34 (1947); F. E. Satterthwaite, Biometrics Bulletin 2 (1946).
///
/// For normal data the true level at nominal 5 % is 4.5 to 5.5 % from n = 5 on, whatever the variances, and between 2.4
/// and 6.3 % at n = 2 and 3. Far out the approximation is coarser: at nominal 0.1 % and n = 5 it is 0.07 % for equal
/// spreads and up to 0.3 % for spreads that differ threefold and more (simulated, 400,000 draws for each case).
///
/// Used for the values of runs and, in the same form, for the per-run cost of one frame of a profile.
pub fn welch(base: &[f64], test: &[f64]) -> Result<TTest, Undefined> {
    welch_of_summaries(&Summary::of(base)?, &Summary::of(test)?)
}

/// As [`welch`], from summaries.
pub fn welch_of_summaries(base: &Summary, test: &Summary) -> Result<TTest, Undefined> {
    let (se, df) = welch_error(base, test, 1.0)?;
    TTest::new(test.mean_difference(base), se, df)
}

/// Standard error of m_t - weight * m_b, and its Welch-Satterthwaite degrees of freedom.
pub(super) fn welch_error(base: &Summary, test: &Summary, weight: f64) -> Result<(f64, f64), Undefined> {
    let (Some(base_sd), Some(test_sd)) = (base.sd(), test.sd()) else { return Err(Undefined::OneValue) };
    let error_base = weight.abs() * base_sd / (base.n() as f64).sqrt();
    let error_test = test_sd / (test.n() as f64).sqrt();
    // In units of the larger error nothing over- or underflows when squared and squared again.
    let unit = error_base.max(error_test);
    if unit <= 0.0 || !unit.is_finite() {
        return Err(Undefined::NoVariance);
    }
    let v_base = (error_base / unit).powi(2);
    let v_test = (error_test / unit).powi(2);
    let sum = v_base + v_test;
    let df = sum * sum / (v_base * v_base / (base.n() - 1) as f64 + v_test * v_test / (test.n() - 1) as f64);
    Ok((unit * sum.sqrt(), df))
}

/// One-sample t test of a mean against `expected`: t = (m - expected) / (s / sqrt n) with n - 1 degrees of freedom.
pub fn one_sample(summary: &Summary, expected: f64) -> Result<TTest, Undefined> {
    let sd = summary.sd().ok_or(Undefined::OneValue)?;
    TTest::new(summary.mean_minus(expected), sd / (summary.n() as f64).sqrt(), (summary.n() - 1) as f64)
}

/// Paired t test of the differences test - base; the two slices are aligned.
pub fn paired_differences(base: &[f64], test: &[f64]) -> Result<TTest, Undefined> {
    one_sample(&Summary::of_differences(pairs(base, test)?)?, 0.0)
}

/// Paired t test of ln(test / base), the primary analysis of randomised complete blocks: one pair is one round, and
/// whatever multiplies both values of a round cancels.
///
/// exp of the estimate and of its interval are the geometric mean ratio and its interval. Logarithms of ratios are
/// taken to 30 digits, so no accuracy is lost where a ratio is next to 1 or hardly varies.
pub fn paired_log_ratios(base: &[f64], test: &[f64]) -> Result<TTest, Undefined> {
    one_sample(&log_ratio_summary(base, test)?, 0.0)
}

/// Number, mean and spread of ln(test / base).
pub fn log_ratio_summary(base: &[f64], test: &[f64]) -> Result<Summary, Undefined> {
    Summary::of_log_ratios(pairs(base, test)?)
}

pub(super) fn pairs<'a>(
    base: &'a [f64],
    test: &'a [f64],
) -> Result<impl Iterator<Item = (f64, f64)> + Clone + 'a, Undefined> {
    if base.len() != test.len() {
        return Err(Undefined::Unpaired);
    }
    Ok(base.iter().copied().zip(test.iter().copied()))
}

/// Hedges' g: the difference of means in pooled standard deviations, corrected for small samples.
///
/// g = J(v) (m_t - m_b) / s, s^2 = ((n_t - 1) s_t^2 + (n_b - 1) s_b^2) / v, v = n_t + n_b - 2, with the exact factor
/// J(v) = Gamma(v/2) / (sqrt(v/2) Gamma((v - 1)/2)), not its approximation 1 - 3/(4v - 1). L. V. Hedges,
/// "Distribution theory for Glass's estimator of effect size", Journal of Educational Statistics 6 (1981).
pub fn hedges_g(base: &Summary, test: &Summary) -> Result<f64, Undefined> {
    let (Some(base_sd), Some(test_sd)) = (base.sd(), test.sd()) else { return Err(Undefined::OneValue) };
    let unit = base_sd.max(test_sd);
    if unit <= 0.0 {
        return Err(Undefined::NoVariance);
    }
    let v = (base.n() + test.n() - 2) as f64;
    let squares = (base.n() - 1) as f64 * (base_sd / unit).powi(2) + (test.n() - 1) as f64 * (test_sd / unit).powi(2);
    Ok(small_sample_factor(v) * test.mean_difference(base) / (unit * (squares / v).sqrt()))
}

/// J(v) of [`hedges_g`], with a = (v - 1)/2: J = Gamma(a + 1/2) / (Gamma(a) sqrt(v/2)).
fn small_sample_factor(v: f64) -> f64 {
    half_gamma_ratio(0.5 * (v - 1.0)) * ((v - 1.0) / v).sqrt()
}
