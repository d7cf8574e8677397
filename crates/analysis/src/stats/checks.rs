//! The checks of both sides of a comparison together, under one level.
//!
//! Seven questions: drift of each side, drift of both together, outliers of each side, two modes of each side. They
//! share the level: each is decided at level / k, where k is the number of questions that some data could answer yes at
//! that level (R. E. Tarone, "A modified Bonferroni method for discrete data", Biometrics 46 (1990)). Five values have
//! only 120 orders, so that a question about their drift would cost the others power and gain none.
//!
//! Measured on clean sides of 3 to 40 values, normal and log-normal, at coefficients of variation of 2 and 10 %
//! (16,000 comparisons of each number, `tests/stats_checks.rs`): 3.1 % get any yes at the level of 5 %; 4.8 % with 3
//! values a side, 3.6 % with 4, 3.3 % with 5, and 2.4 to 3.0 % with more.

use super::{Drift, LEAST_P_OF_MODES, Modes, Outliers, Undefined, drift, modes, outliers};

/// The values of one side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SideValues<'a> {
    /// One value a run; in the order of time if `ordered`.
    pub values: &'a [f64],
    /// Whether the order is that of time.
    pub ordered: bool,
}

/// The checks of one side; an error says why a question was not asked.
#[derive(Debug, Clone, PartialEq)]
pub struct SideChecks {
    /// Whether the values rise or fall.
    pub drift: Result<Drift, Undefined>,
    /// Whether single values lie far out; those found at the threshold are listed.
    pub outliers: Result<Outliers, Undefined>,
    /// Whether the values fall into two groups.
    pub modes: Result<Modes, Undefined>,
}

/// The checks of both sides of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Checks {
    /// Questions among which the level is divided, 1 at least.
    pub questions: usize,
    /// p value up to which an answer is yes: level / questions.
    pub threshold: f64,
    /// Whether both sides drift alike.
    pub both: Result<Drift, Undefined>,
    /// The base and the test side.
    pub sides: [SideChecks; 2],
}

/// Asks the seven questions at one level for all. One seed gives one answer, on every machine.
pub fn check_sides(sides: [SideValues; 2], level: f64, seed: u64) -> Checks {
    let [base, test] = sides;
    let both = if base.ordered && test.ordered { drift(&[base.values, test.values]) } else { Err(Undefined::NoOrder) };
    let mut checks = Checks { questions: 1, threshold: level, both, sides: sides.map(|side| check(&side, seed)) };
    (checks.questions, checks.threshold) = share(&checks.least_p(), level);
    for (side, values) in checks.sides.iter_mut().zip(sides) {
        if side.outliers.is_ok() {
            side.outliers = outliers(values.values, checks.threshold);
        }
    }
    checks
}

fn check(side: &SideValues, seed: u64) -> SideChecks {
    SideChecks {
        drift: if side.ordered { drift(&[side.values]) } else { Err(Undefined::NoOrder) },
        outliers: outliers(side.values, 0.0),
        modes: modes(side.values, seed),
    }
}

/// The number of questions that can be answered yes when the level is divided by it, and that quotient.
fn share(least_p: &[f64], level: f64) -> (usize, f64) {
    let able = |k: usize| least_p.iter().filter(|least| **least <= level / k as f64).count();
    let k = (1..=least_p.len()).find(|k| able(*k) <= *k).unwrap_or(1);
    (k, level / k as f64)
}

impl Checks {
    /// The smallest p value that each question could have; that of outliers has no lower bound.
    fn least_p(&self) -> Vec<f64> {
        let of_drift = |drift: &Result<Drift, Undefined>| drift.as_ref().ok().map(|drift| drift.least_p);
        let of_side = |side: &SideChecks| {
            let of_outliers = side.outliers.as_ref().ok().map(|_| 0.0);
            let of_modes = side.modes.as_ref().ok().map(|_| LEAST_P_OF_MODES);
            [of_drift(&side.drift), of_outliers, of_modes]
        };
        let all = self.sides.iter().flat_map(of_side).chain([of_drift(&self.both)]);
        all.flatten().collect()
    }

    /// Whether any question was answered yes.
    pub fn any(&self) -> bool {
        let is_yes = |p: Option<f64>| p.is_some_and(|p| p <= self.threshold);
        let of_drift = |drift: &Result<Drift, Undefined>| is_yes(drift.as_ref().ok().map(|drift| drift.p));
        let of_side = |side: &SideChecks| {
            of_drift(&side.drift)
                || is_yes(side.outliers.as_ref().ok().map(|found| found.p))
                || is_yes(side.modes.as_ref().ok().map(|found| found.p))
        };
        of_drift(&self.both) || self.sides.iter().any(of_side)
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    /// Questions that no data can answer yes do not take part in dividing the level.
    #[test]
    fn the_level_is_divided_among_questions_that_can_be_answered() {
        assert_eq!(share(&[0.0; 4], 0.05), (4, 0.0125));
        assert_eq!(share(&[0.0, 0.0, 0.0002, 0.0002, 2.0 / 120.0, 2.0 / 120.0, 0.0001], 0.05), (5, 0.01));
        assert_eq!(share(&[0.3, 0.3], 0.05), (1, 0.05));
        assert_eq!(share(&[], 0.05), (1, 0.05));
    }
}
