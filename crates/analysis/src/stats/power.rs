//! Power: how often a t test with so many runs finds a change, and how many runs find it often enough.
//!
//! A two-sided t test with df degrees of freedom finds a change whose estimate has the expectation d and the standard
//! error s with probability P(|T| > c), where T has the noncentral t distribution with noncentrality d / s and c is the
//! critical value (J. Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988, chapter 2, with the exact
//! distribution). The spread is taken as that of the runs at hand, which is itself known to a factor of 0.6 to 2.9 from
//! 5 runs and 0.7 to 1.8 from 10 (95 % intervals of a standard deviation): the answer is a plan and not a promise.

use super::{NORMAL, Undefined, critical_value};

/// More runs than this are not proposed.
pub const MOST_RUNS: u64 = 100_000;
/// Points at which the distribution of the standard deviation is taken.
const POINTS: u32 = 600;

/// The spread of the runs from which a change is to be told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RunSpread {
    /// Rounds with one run of either side: the standard deviation of ln(test / base).
    Rounds {
        /// Of one round.
        sd: f64,
    },
    /// Independent runs: the standard deviations of both sides over the mean of the base.
    Unpaired {
        /// Of the base.
        base: f64,
        /// Of the test side.
        test: f64,
    },
}

impl RunSpread {
    /// Degrees of freedom, and the noncentrality for a rise by `change` (0.05 is 5 %), with `runs` of each side. For
    /// unpaired runs they are those of Welch and Satterthwaite at the true spreads.
    fn test(self, change: f64, runs: u64) -> Option<(f64, f64)> {
        let n = runs as f64;
        let (df, noncentrality) = match self {
            Self::Rounds { sd } => (n - 1.0, change.ln_1p() * n.sqrt() / sd),
            Self::Unpaired { base, test } => {
                // Relative to the larger, so that squares of squares neither vanish nor overflow.
                let unit = base.max(test);
                let (b, t) = ((base / unit).powi(2), (test / unit).powi(2));
                let df = (n - 1.0) * (b + t).powi(2) / (b * b + t * t);
                (df, change * n.sqrt() / (unit * (b + t).sqrt()))
            }
        };
        (df > 0.0 && noncentrality.is_finite()).then_some((df, noncentrality))
    }
}

/// The probability that a two-sided t test at `alpha` rejects: P(|T| > c) for a noncentral T.
///
/// T = (Z + delta) / S with S^2 df chi-squared: P(T > c) is the mean of P(Z > c S - delta) over S, taken by the
/// trapezoidal rule in ln S, whose density falls off exponentially to both sides. Absolute error below 1e-6
/// (`tests/stats_equivalence.rs` compares with scipy's `nct`).
pub fn t_power(df: f64, noncentrality: f64, alpha: f64) -> Result<f64, Undefined> {
    if !(df > 0.0 && df.is_finite() && noncentrality.is_finite()) {
        return Err(Undefined::OutOfRange);
    }
    let critical = critical_value(df, 1.0 - alpha)?;
    // The logarithm of the density of u = ln S, from its largest value at u = 0: at most -40 at the ends.
    let ln_density = |u: f64| df * (u - 0.5 * (2.0 * u).exp_m1());
    let end = |sign: f64| {
        let mut u = sign / df.sqrt();
        while ln_density(u) > -40.0 {
            u *= 1.25;
        }
        u
    };
    let (from, to) = (end(-1.0), end(1.0));
    let step = (to - from) / f64::from(POINTS);
    let (mut sum, mut found) = (0.0, 0.0);
    for point in 0..=POINTS {
        let u = from + f64::from(point) * step;
        let weight = ln_density(u).exp();
        let scaled = critical * u.exp();
        sum += weight;
        found += weight * (NORMAL.sf(scaled - noncentrality) + NORMAL.sf(scaled + noncentrality));
    }
    Ok((found / sum).min(1.0))
}

/// The fewest runs of each side (or rounds) with which a rise by `change` (0.05 is 5 %) is found with probability
/// `power` at the two-sided level `alpha`; `None` above [`MOST_RUNS`]. At least 2.
pub fn runs_needed(change: f64, spread: RunSpread, alpha: f64, power: f64) -> Result<Option<u64>, Undefined> {
    if !(change > 0.0 && power > alpha && power < 1.0) {
        return Err(Undefined::OutOfRange);
    }
    let finds = |runs: u64| -> Result<bool, Undefined> {
        let (df, noncentrality) = spread.test(change, runs).ok_or(Undefined::NoVariance)?;
        // Far beyond what any power needs the integral has nothing to add.
        Ok(noncentrality > 1e3 || t_power(df, noncentrality, alpha)? >= power)
    };
    let mut most = 2;
    while !finds(most)? {
        if most >= MOST_RUNS {
            return Ok(None);
        }
        most = (most * 2).min(MOST_RUNS);
    }
    let mut too_few = if most == 2 { 1 } else { most / 2 };
    while most - too_few > 1 {
        let middle = u64::midpoint(too_few, most);
        if finds(middle)? { most = middle } else { too_few = middle }
    }
    Ok(Some(most))
}

/// The probability that a rise by `change` is found with `runs` of each side.
pub fn power_of_runs(change: f64, spread: RunSpread, runs: u64, alpha: f64) -> Result<f64, Undefined> {
    let (df, noncentrality) = spread.test(change, runs).ok_or(Undefined::NoVariance)?;
    t_power(df, noncentrality, alpha)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_effect_power_is_the_level() {
        for df in [1.0, 2.5, 9.0, 1e4] {
            let level = t_power(df, 0.0, 0.05).expect("a level");
            assert!((level - 0.05).abs() < 1e-6, "df {df}: {level}");
        }
    }

    #[test]
    fn fewer_runs_than_needed_find_it_less_often_than_asked() {
        let spread = RunSpread::Unpaired { base: 0.04, test: 0.06 };
        let needed = runs_needed(0.05, spread, 0.05, 0.8).expect("spread").expect("few");
        let power = |runs| power_of_runs(0.05, spread, runs, 0.05).expect("spread");
        assert!(power(needed) >= 0.8 && power(needed - 1) < 0.8, "{needed}");
    }

    #[test]
    fn no_number_of_runs_is_enough_for_every_spread() {
        assert_eq!(runs_needed(0.02, RunSpread::Rounds { sd: 50.0 }, 0.05, 0.8), Ok(None));
        assert_eq!(runs_needed(0.10, RunSpread::Rounds { sd: 1e-9 }, 0.05, 0.8), Ok(Some(2)));
        assert_eq!(
            runs_needed(0.02, RunSpread::Unpaired { base: 0.0, test: 0.0 }, 0.05, 0.8),
            Err(Undefined::NoVariance)
        );
    }
}
