//! Outliers: single values that lie far from all others.
//!
//! The test is Grubbs' in the form of the deleted residual (F. E. Grubbs, "Sample criteria for testing outlying
//! observations", Annals of Mathematical Statistics 21 (1950)): the value farthest from the mean is set against mean m
//! and standard deviation s of the n - 1 others,
//!
//! t = (x - m) / (s sqrt(1 + 1 / (n - 1))), p = min(1, n P(|T| > |t|)) with n - 2 degrees of freedom.
//!
//! n P is an upper bound, by Bonferroni, and exact where no two values can be that far out at once. Positive values are
//! tested as they are and as logarithms, and p is the larger: what one of the two shapes explains is no outlier. So the
//! level holds for normal and for log-normal values.
//!
//! A found outlier is taken out and the rest tested again. Two values that lie far out on one side hide each other; two
//! or more that lie together are two modes, see [`super::modes()`].
//!
//! Power at the level of 0.7 %: one of n normal values put `out` standard deviations away, 2,000 draws each,
//! `the_tables_of_power` of `tests/stats_checks.rs`:
//!
//! | values | out 4 | out 6 | out 10 | out 20 |
//! |---|---|---|---|---|
//! | 4 | 2 % | 4 % | 12 % | 37 % |
//! | 5 | 3 % | 10 % | 37 % | 89 % |
//! | 7 | 7 % | 30 % | 87 % | 100 % |
//! | 10 | 13 % | 63 % | 99 % | 100 % |
//! | 15 | 20 % | 87 % | 100 % | 100 % |
//! | 20 | 25 % | 96 % | 100 % | 100 % |
//! | 30 | 29 % | 99 % | 100 % | 100 % |

use super::{StudentT, Summary, Undefined};

/// Fewest values of which one can be called an outlier.
pub const LEAST_FOR_OUTLIERS: usize = 3;

/// An outlier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlier {
    /// Its place in the slice that was tested.
    pub index: usize,
    /// p value of its own step.
    pub p: f64,
    /// How far it lies from the mean of the others, in their standard deviations; positive above.
    pub deviations: f64,
}

/// The outcome of [`outliers`].
#[derive(Debug, Clone, PartialEq)]
pub struct Outliers {
    /// p value of the value farthest out: the probability that a clean set has one so far out.
    pub p: f64,
    /// Outliers at the level asked for, the farthest first.
    pub found: Vec<Outlier>,
}

/// Tests whether single values are outliers, at the given level for the whole set. At most a quarter of the values, and
/// one in any case, are taken out.
///
/// Where values are equal they were rounded, and the smallest distance between two that differ is taken as the step:
/// the spread of the others is at least step / sqrt(12), so that one step is not an outlier among equals.
pub fn outliers(values: &[f64], level: f64) -> Result<Outliers, Undefined> {
    if values.len() < LEAST_FOR_OUTLIERS {
        return Err(Undefined::TooFew { needed: LEAST_FOR_OUTLIERS });
    }
    let mut left: Vec<usize> = (0..values.len()).collect();
    let first = farthest(values, &left)?;
    let mut out = Outliers { p: first.p, found: Vec::new() };
    let mut next = Some(first);
    while let Some(one) = next.filter(|one| one.p <= level) {
        out.found.push(one);
        left.retain(|index| *index != one.index);
        let may_go_on = out.found.len() < values.len() / 4 && left.len() >= LEAST_FOR_OUTLIERS;
        next = if may_go_on { farthest(values, &left).ok() } else { None };
    }
    Ok(out)
}

/// The value farthest out among those at `places`, by the scale on which it is less conspicuous.
fn farthest(values: &[f64], places: &[usize]) -> Result<Outlier, Undefined> {
    let raw: Vec<f64> = places.iter().filter_map(|place| values.get(*place).copied()).collect();
    let as_is = residual(&raw)?;
    let found = if raw.iter().all(|value| *value > 0.0) {
        let logs: Vec<f64> = raw.iter().map(|value| value.ln()).collect();
        // Where the scales disagree on which value it is, neither is an outlier on both.
        match residual(&logs)? {
            same if same.index == as_is.index && same.p > as_is.p => Outlier { p: same.p, ..as_is },
            other if other.index != as_is.index => Outlier { p: 1.0, ..as_is },
            _ => as_is,
        }
    } else {
        as_is
    };
    let index = places.get(found.index).copied().unwrap_or(found.index);
    Ok(Outlier { index, ..found })
}

/// The largest deleted residual with its p.
fn residual(values: &[f64]) -> Result<Outlier, Undefined> {
    let all = Summary::of(values)?;
    let distance = |value: f64| (value - all.mean()).abs();
    let (index, value) = values
        .iter()
        .copied()
        .enumerate()
        .max_by(|a, b| distance(a.1).total_cmp(&distance(b.1)))
        .ok_or(Undefined::Empty)?;
    let rest: Vec<f64> = values.iter().enumerate().filter(|(i, _)| *i != index).map(|(_, v)| *v).collect();
    let rest = Summary::of(&rest)?.with_sd_floor(step(values) / 12_f64.sqrt());
    let sd = rest.sd().filter(|sd| *sd > 0.0).ok_or(Undefined::NoVariance)?;
    let deviations = (value - rest.mean()) / sd;
    let n = values.len() as f64;
    let t = deviations / (1.0 + 1.0 / (n - 1.0)).sqrt();
    let p = (n * StudentT::new(n - 2.0)?.two_sided_p(t)).min(1.0);
    Ok(Outlier { index, p, deviations })
}

/// The step to which values with ties were rounded: the smallest distance between two that differ; 0 without ties.
pub(super) fn step(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let distances: Vec<f64> = sorted.windows(2).filter_map(|pair| Some(pair.get(1)? - pair.first()?)).collect();
    if distances.iter().all(|distance| *distance > 0.0) {
        return 0.0;
    }
    distances.into_iter().filter(|distance| *distance > 0.0).reduce(f64::min).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_far_value_is_found_and_two_steps_of_rounding_are_not() {
        let found = outliers(&[10.0, 10.2, 9.9, 14.0, 10.1, 9.8], 0.01).expect("values");
        assert_eq!(found.found.iter().map(|one| one.index).collect::<Vec<_>>(), [3]);
        assert!(outliers(&[10.0, 10.0, 10.0, 10.0, 11.0, 10.0], 0.01).expect("values").found.is_empty());
        let far = outliers(&[10.0, 10.0, 10.0, 11.0, 10.0, 500.0], 0.01).expect("values");
        assert_eq!(far.found.iter().map(|one| one.index).collect::<Vec<_>>(), [5]);
        assert_eq!(outliers(&[1.0, 2.0], 0.01).err(), Some(Undefined::TooFew { needed: 3 }));
        assert_eq!(outliers(&[2.0, 2.0, 2.0], 0.01).err(), Some(Undefined::NoVariance));
    }

    /// 1.2 among values near 1 is far out; 100 among values that spread over four decades is not, whatever its size.
    #[test]
    fn what_the_shape_explains_is_no_outlier() {
        let decades = [0.01, 0.1, 0.03, 1.0, 0.3, 100.0, 10.0, 0.02];
        assert!(outliers(&decades, 0.01).expect("values").found.is_empty());
    }

    #[test]
    fn several_are_taken_out_one_by_one() {
        let mut values: Vec<f64> = (0..12).map(|i| 100.0 + f64::from(i % 5)).collect();
        (values[2], values[7]) = (1000.0, 160.0);
        let places: Vec<usize> = outliers(&values, 0.01).expect("values").found.iter().map(|one| one.index).collect();
        assert_eq!(places, [2, 7]);
    }
}
