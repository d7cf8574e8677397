//! Ratios test / base with intervals.

use super::welch::{critical_value, log_ratio_summary, one_sample, pairs, welch_error, welch_of_summaries};
use super::{Summary, Undefined};

/// A ratio test / base with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The estimate.
    pub ratio: f64,
    /// Lower and upper end; an error where the interval is not bounded, while the estimate itself exists.
    pub interval: Result<[f64; 2], Undefined>,
}

impl Ratio {
    /// A ratio from an estimate and an interval on the logarithmic scale.
    pub(super) fn from_logs(estimate: f64, interval: [f64; 2]) -> Self {
        let ends = interval.map(f64::exp);
        let bounded = ends.iter().all(|end| end.is_finite());
        Self { ratio: estimate.exp(), interval: if bounded { Ok(ends) } else { Err(Undefined::Unbounded) } }
    }
}

/// Ratio of the geometric means of two independent samples of positive values, with Welch's interval for the
/// difference of the mean logarithms: exp(m_t - m_b +- t_(df) sqrt(v_t + v_b)), see [`super::welch()`].
///
/// `sd_floor` is the smallest believable standard deviation of the values themselves (resolution / sqrt(12), or 0). It
/// is applied to a side that is constant, divided by that side's mean, which is d ln x = dx / x.
pub fn geometric_mean_ratio(base: &[f64], test: &[f64], sd_floor: f64, level: f64) -> Result<Ratio, Undefined> {
    let side = |values: &[f64]| -> Result<Summary, Undefined> {
        let logs = Summary::of_log_ratios(values.iter().map(|v| (1.0, *v)))?;
        let constant = logs.sd().is_some_and(|sd| sd <= 0.0);
        Ok(if constant { logs.with_sd_floor(sd_floor / logs.mean().exp()) } else { logs })
    };
    let test = welch_of_summaries(&side(base)?, &side(test)?)?;
    Ok(Ratio::from_logs(test.estimate, test.interval(level)?))
}

/// Geometric mean of the ratios test / base of paired values, with the t interval of their logarithms.
///
/// `sd_floor` as the standard deviation of one log ratio below which the spread of the ratios is not believed.
pub fn paired_ratio(base: &[f64], test: &[f64], sd_floor: f64, level: f64) -> Result<Ratio, Undefined> {
    let summary = log_ratio_summary(base, test)?.with_sd_floor(sd_floor);
    let test = one_sample(&summary, 0.0)?;
    Ok(Ratio::from_logs(test.estimate, test.interval(level)?))
}

/// Ratio of the means of two independent samples with Fieller's interval; values may be zero or negative.
///
/// The interval is the set of r for which the t test of m_t - r m_b = 0 does not reject. Variances may differ; the
/// degrees of freedom are Welch and Satterthwaite's for r at its estimate. E. C. Fieller, "Some problems in interval
/// estimation", JRSS B 16 (1954); A. C. Tamhane and B. R. Logan, "Finding the maximum safe dose level for
/// heteroscedastic data", Journal of Biopharmaceutical Statistics 14 (2004), for unequal variances.
///
/// The interval is [`Undefined::Unbounded`] where the interval of the base mean holds 0, and there is no ratio at all
/// where the base mean is 0.
pub fn fieller(base: &Summary, test: &Summary, level: f64) -> Result<Ratio, Undefined> {
    let ratio = test.mean() / base.mean();
    if !ratio.is_finite() {
        return Err(Undefined::Unbounded);
    }
    let (_, df) = welch_error(base, test, ratio)?;
    let (Some(base_sd), Some(test_sd)) = (base.sd(), test.sd()) else { return Err(Undefined::OneValue) };
    let v_base = base_sd * base_sd / base.n() as f64;
    let v_test = test_sd * test_sd / test.n() as f64;
    fieller_interval(base.mean(), test.mean(), v_base, v_test, 0.0, critical_value(df, level)?)
}

/// Ratio of the means of paired values with Fieller's interval, which takes the covariance of the pairs into account;
/// n - 1 degrees of freedom.
pub fn fieller_paired(base: &[f64], test: &[f64], level: f64) -> Result<Ratio, Undefined> {
    let (base_side, test_side) = (Summary::of(base)?, Summary::of(test)?);
    let (Some(base_sd), Some(test_sd)) = (base_side.sd(), test_side.sd()) else { return Err(Undefined::OneValue) };
    let n = base.len() as f64;
    let covariance =
        pairs(base, test)?.map(|(b, t)| (b - base_side.mean()) * (t - test_side.mean())).sum::<f64>() / (n - 1.0);
    fieller_interval(
        base_side.mean(),
        test_side.mean(),
        base_sd * base_sd / n,
        test_sd * test_sd / n,
        covariance / n,
        critical_value(n - 1.0, level)?,
    )
}

/// Fieller's interval from means, their variances and covariance, and the critical value c: the roots of
/// (m_t - r m_b)^2 = c^2 (v_t - 2 r cov + r^2 v_b), which are real and enclose m_t / m_b if c^2 v_b < m_b^2.
fn fieller_interval(m_b: f64, m_t: f64, v_b: f64, v_t: f64, cov: f64, c: f64) -> Result<Ratio, Undefined> {
    let ratio = m_t / m_b;
    if !ratio.is_finite() {
        return Err(Undefined::Unbounded);
    }
    // Everything relative to m_b, so that only squares of ratios are formed.
    let (b, t, both) = (c * c * v_b / (m_b * m_b), c * c * v_t / (m_b * m_b), c * c * cov / (m_b * m_b));
    let leading = 1.0 - b;
    if leading.is_nan() || leading <= 0.0 {
        return Ok(Ratio { ratio, interval: Err(Undefined::Unbounded) });
    }
    let middle = ratio - both;
    let root = (t - 2.0 * ratio * both + ratio * ratio * b - (t * b - both * both)).max(0.0).sqrt();
    Ok(Ratio { ratio, interval: Ok([(middle - root) / leading, (middle + root) / leading]) })
}
