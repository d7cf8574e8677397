//! t tests of two sides that are adjusted for a covariate: analysis of covariance with one slope.
//!
//! A virtual machine's neighbour takes a fifth of a processor's speed and gives it back within seconds. Neighbouring runs of one program
//! differ by 20 % then, and eight in nine parts of that variance go with the speed of a fixed piece of work that is measured beside the
//! run. Where each run has such a covariate, the sides are compared at equal covariates.
//!
//! The covariate must be one that the program cannot move, else a part of what the program does is taken out with it. That is not assumed:
//! the covariate is tested, too ([`Adjusted::covariate`]), and where it differs between the sides a difference counts only if the test
//! without adjustment shows it as well. Whatever is decided that way is significant in the adjusted test, so the level holds.
//!
//! Both tests work on logarithms: a slower processor multiplies a run's value. R. A. Fisher, "Statistical Methods for Research Workers",
//! 4th ed. (1932), section 49.1; D. R. Cox and P. McCullagh, "Some aspects of analysis of covariance", Biometrics 38 (1982).

use super::Undefined;
use super::welch::{TTest, paired_log_ratios, pairs, welch};

/// A comparison at equal covariates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adjusted {
    /// Test of the difference of logarithms, test - base.
    pub test: TTest,
    /// Change of the value's logarithm for a change of the covariate's by 1.
    pub slope: f64,
    /// Part of the variance within sides, or between rounds, that goes with the covariate: 0 to 1.
    pub explained: f64,
    /// Test of whether the covariate itself differs between the sides, or why there is none.
    pub covariate: Result<TTest, Undefined>,
}

/// Values and covariates of one side, run by run.
#[derive(Debug, Clone, Copy)]
pub struct WithCovariate<'a> {
    /// The values that are compared.
    pub values: &'a [f64],
    /// The covariate of each.
    pub covariates: &'a [f64],
}

/// The paired test of ln(test / base) per round at equal covariates: the intercept of the regression of the values' log ratios on the
/// covariates' log ratios, with n - 2 degrees of freedom. At least three rounds; the slices are aligned.
///
/// # Errors
/// A logarithm does not exist, lengths differ, there are too few rounds, or the covariate's ratios do not vary.
pub fn paired_log_ratios_adjusted(base: WithCovariate, test: WithCovariate) -> Result<Adjusted, Undefined> {
    let value_ratios = log_ratios(base.values, test.values)?;
    let covariate_ratios = log_ratios(base.covariates, test.covariates)?;
    let n = value_ratios.len();
    if covariate_ratios.len() != n {
        return Err(Undefined::Unpaired);
    }
    if n < 3 {
        return Err(Undefined::TooFew { needed: 3 });
    }
    let moments = Moments::of(&value_ratios, &covariate_ratios);
    let line = moments.line((n - 2) as f64)?;
    let estimate = moments.value_mean - line.slope * moments.covariate_mean;
    let se = line.residual_sd * (1.0 / n as f64 + moments.covariate_mean.powi(2) / moments.covariate_squares).sqrt();
    Ok(Adjusted {
        test: TTest::new(estimate, se, (n - 2) as f64)?,
        slope: line.slope,
        explained: line.explained,
        covariate: paired_log_ratios(base.covariates, test.covariates),
    })
}

/// The difference of mean logarithms of two independent samples at equal covariates, with one slope within both sides and
/// n_b + n_t - 3 degrees of freedom. At least two runs a side. The spread within the sides is taken to be one, unlike Welch's.
///
/// # Errors
/// A logarithm does not exist, lengths differ, there are too few runs, or the covariate does not vary within the sides.
pub fn log_ratio_adjusted(base: WithCovariate, test: WithCovariate) -> Result<Adjusted, Undefined> {
    let [base_logs, test_logs] = [logs(base.values)?, logs(test.values)?];
    let [base_covariates, test_covariates] = [logs(base.covariates)?, logs(test.covariates)?];
    let (base_n, test_n) = (base_logs.len(), test_logs.len());
    if base_covariates.len() != base_n || test_covariates.len() != test_n {
        return Err(Undefined::Unpaired);
    }
    if base_n < 2 || test_n < 2 {
        return Err(Undefined::TooFew { needed: 2 });
    }
    let of_base = Moments::of(&base_logs, &base_covariates);
    let of_test = Moments::of(&test_logs, &test_covariates);
    let df = (base_n + test_n - 3) as f64;
    let within = of_base.pooled(&of_test);
    let line = within.line(df)?;
    let apart = of_test.covariate_mean - of_base.covariate_mean;
    let estimate = of_test.value_mean - of_base.value_mean - line.slope * apart;
    let of_means = 1.0 / base_n as f64 + 1.0 / test_n as f64;
    let se = line.residual_sd * (of_means + apart.powi(2) / within.covariate_squares).sqrt();
    Ok(Adjusted {
        test: TTest::new(estimate, se, df)?,
        slope: line.slope,
        explained: line.explained,
        covariate: welch(&base_covariates, &test_covariates),
    })
}

fn logs(values: &[f64]) -> Result<Vec<f64>, Undefined> {
    if values.iter().any(|value| !value.is_finite()) {
        return Err(Undefined::NotFinite);
    }
    if values.iter().any(|value| *value <= 0.0) {
        return Err(Undefined::NotPositive);
    }
    Ok(values.iter().map(|value| value.ln()).collect())
}

fn log_ratios(base: &[f64], test: &[f64]) -> Result<Vec<f64>, Undefined> {
    let (base_logs, test_logs) = (logs(base)?, logs(test)?);
    Ok(pairs(&base_logs, &test_logs)?.map(|(base, test)| test - base).collect())
}

/// Means, and sums of squares and products of the deviations from them.
struct Moments {
    value_mean: f64,
    covariate_mean: f64,
    value_squares: f64,
    covariate_squares: f64,
    products: f64,
}

/// A line through values and covariates.
struct Line {
    slope: f64,
    residual_sd: f64,
    explained: f64,
}

impl Moments {
    /// Of one sample; there is at least one value.
    fn of(values: &[f64], covariates: &[f64]) -> Self {
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let (value_mean, covariate_mean) = (mean(values), mean(covariates));
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            values
                .iter()
                .zip(covariates)
                .map(|(value, covariate)| of(value - value_mean, covariate - covariate_mean))
                .sum()
        };
        Self {
            value_mean,
            covariate_mean,
            value_squares: sum(&|value, _| value * value),
            covariate_squares: sum(&|_, covariate| covariate * covariate),
            products: sum(&|value, covariate| value * covariate),
        }
    }

    /// The deviations of two samples, each from its own means; what is left of the means is this sample's.
    fn pooled(&self, other: &Self) -> Self {
        Self {
            value_squares: self.value_squares + other.value_squares,
            covariate_squares: self.covariate_squares + other.covariate_squares,
            products: self.products + other.products,
            ..*self
        }
    }

    /// The line of least squares; `df` are those of the deviations from it.
    fn line(&self, df: f64) -> Result<Line, Undefined> {
        if self.covariate_squares <= 0.0 || self.value_squares <= 0.0 {
            return Err(Undefined::NoVariance);
        }
        let slope = self.products / self.covariate_squares;
        let residual_squares = (self.value_squares - slope * self.products).max(0.0);
        Ok(Line {
            slope,
            residual_sd: (residual_squares / df).sqrt(),
            explained: 1.0 - residual_squares / self.value_squares,
        })
    }
}
