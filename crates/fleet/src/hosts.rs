//! Runs gathered by host: the level of each host, and how much runs vary within hosts and between them.

use std::collections::BTreeMap;

use pagelab_analysis::stats::Summary;
use pagelab_analysis::trend::Scale;
use serde::Serialize;

/// Fewest hosts on a side, or with one value of a setting: a spread from two is known by its order of magnitude only (the
/// quantile of t for 95 % is 12.7 with one degree of freedom, and 4.3 with two).
pub const LEAST_HOSTS: usize = 3;

/// What is left of the rounding of logarithms and sums, relative to the values: spread below it is none.
const ROUNDING: f64 = 1e-12;

/// One run's value of a metric, and where and when it was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunValue<'a> {
    /// Name of the host.
    pub host: &'a str,
    /// When the run began, ns since the epoch; `None` if not known.
    pub start_ns: Option<i64>,
    /// The value; `None` where it was not measured. NaN and infinite values count as not measured.
    pub value: Option<f64>,
}

impl RunValue<'_> {
    /// The value, if it is a number.
    pub(crate) fn finite(&self) -> Option<f64> {
        self.value.filter(|value| value.is_finite())
    }
}

/// On which scale values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScaleChoice {
    /// Logarithms if all values are positive, so that sizes are ratios; else the values as they are.
    #[default]
    FromData,
    /// The values as they are.
    Linear,
}

impl ScaleChoice {
    /// The scale for these values.
    pub(crate) fn scale_of(self, mut values: impl Iterator<Item = f64>) -> Scale {
        if self == Self::FromData && values.all(|value| value > 0.0) { Scale::Log } else { Scale::Linear }
    }
}

/// A value on the scale on which it is compared.
pub(crate) fn onto(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Log => value.ln(),
        Scale::Linear => value,
    }
}

/// A value on the scale, in the metric's unit again.
pub(crate) fn back(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Log => value.exp(),
        Scale::Linear => value,
    }
}

/// Spread that rounding can make, of values on the scale.
pub(crate) fn rounding(scale: Scale, values: impl Iterator<Item = f64>) -> f64 {
    match scale {
        // Differences of logarithms are relative to the values already.
        Scale::Log => ROUNDING,
        Scale::Linear => ROUNDING * values.fold(0.0, |most: f64, value| most.max(value.abs())),
    }
}

/// The runs of one host that have a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HostLevel<'a> {
    pub host: &'a str,
    /// Number of runs, at least 1.
    pub runs: usize,
    /// Mean of the runs on the scale.
    pub level: f64,
    /// Sum of squares of the runs about that mean.
    pub squares: f64,
}

impl HostLevel<'_> {
    /// Variance of the runs; `None` for one run.
    pub(crate) fn variance(&self) -> Option<f64> {
        (self.runs > 1).then(|| self.squares / (self.runs - 1) as f64)
    }
}

/// The hosts that have a value, by name.
pub(crate) fn levels_of<'a>(runs: &[RunValue<'a>], scale: Scale) -> Vec<HostLevel<'a>> {
    let mut by_host: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for run in runs {
        if let Some(value) = run.finite() {
            by_host.entry(run.host).or_default().push(onto(scale, value));
        }
    }
    let levels = by_host.into_iter().filter_map(|(host, values)| {
        let summary = Summary::of(&values).ok()?;
        let squares = summary.sd().map_or(0.0, |sd| sd * sd * (values.len() - 1) as f64);
        Some(HostLevel { host, runs: values.len(), level: summary.mean(), squares })
    });
    levels.collect()
}

/// How much values vary within hosts and between them, on the scale of the comparison (on a log scale: of natural logarithms,
/// so that a standard deviation of 0.05 is about 5 %).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct VarianceComponents {
    /// Variance of runs within a host; null if no host has two runs.
    pub within_hosts: Option<f64>,
    /// Variance of hosts about the mean of their side, without what runs add to it; null if it cannot be told from that.
    pub between_hosts: Option<f64>,
    /// Intraclass correlation: between / (between + within), the correlation of two runs of one host. 0: runs are
    /// independent, 1: a second run of a host says nothing new.
    pub intraclass_correlation: Option<f64>,
}

/// The components of variance of hosts nested in sides, whose means may differ.
///
/// The analysis-of-variance estimates of unbalanced one-way designs, pooled over the sides: within = SSE / sum (n_j - 1);
/// between = (MSB - within) / n0, MSB = sum n_j (m_j - M)^2 / sum (k - 1), n0 = sum (N - sum n_j^2 / N) / sum (k - 1), at least
/// 0, where N, M and k are runs, mean and hosts of a side. S. R. Searle, G. Casella and C. E. McCulloch, "Variance
/// Components" (1992), 3.6. They need no iteration and no distribution, and are the estimates of restricted maximum likelihood
/// where each host has as many runs (and between is positive).
pub(crate) fn variance_components(sides: &[&[HostLevel]]) -> VarianceComponents {
    let (mut squares_within, mut df_within) = (0.0, 0.0);
    let (mut squares_between, mut df_between, mut weight) = (0.0, 0.0, 0.0);
    for side in sides.iter().filter(|side| !side.is_empty()) {
        let runs: f64 = side.iter().map(|host| host.runs as f64).sum();
        let mean = side.iter().map(|host| host.runs as f64 * host.level).sum::<f64>() / runs;
        squares_within += side.iter().map(|host| host.squares).sum::<f64>();
        df_within += runs - side.len() as f64;
        squares_between += side.iter().map(|host| host.runs as f64 * (host.level - mean).powi(2)).sum::<f64>();
        df_between += side.len() as f64 - 1.0;
        weight += runs - side.iter().map(|host| (host.runs as f64).powi(2)).sum::<f64>() / runs;
    }
    if df_within <= 0.0 {
        return VarianceComponents::default();
    }
    let within = squares_within / df_within;
    let between = (weight > 0.0).then(|| ((squares_between / df_between - within) / (weight / df_between)).max(0.0));
    let total = between.map(|between| between + within).filter(|total| *total > 0.0);
    VarianceComponents {
        within_hosts: Some(within),
        between_hosts: between,
        intraclass_correlation: between.zip(total).map(|(between, total)| between / total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(host: &str, value: Option<f64>) -> RunValue<'_> {
        RunValue { host, start_ns: None, value }
    }

    #[test]
    fn runs_without_a_number_are_of_no_host() {
        let runs = [run("b", Some(4.0)), run("a", None), run("b", Some(6.0)), run("c", Some(f64::NAN))];
        let levels = levels_of(&runs, Scale::Linear);
        let [b] = levels.as_slice() else { panic!("one host: {levels:?}") };
        assert_eq!((b.host, b.runs), ("b", 2));
        assert!((b.level - 5.0).abs() < 1e-12 && (b.squares - 2.0).abs() < 1e-12, "{b:?}");
        assert_eq!(ScaleChoice::FromData.scale_of([1.0, 0.0].into_iter()), Scale::Linear);
        assert_eq!(ScaleChoice::FromData.scale_of([1.0, 2.0].into_iter()), Scale::Log);
        assert_eq!(ScaleChoice::Linear.scale_of([1.0, 2.0].into_iter()), Scale::Linear);
    }

    #[test]
    fn one_run_a_host_leaves_the_components_unknown() {
        let runs = [run("a", Some(4.0)), run("b", Some(6.0)), run("c", Some(5.0))];
        let levels = levels_of(&runs, Scale::Linear);
        assert_eq!(variance_components(&[&levels]), VarianceComponents::default());
        // One host alone says what runs do, and nothing of hosts.
        let alone = levels_of(&[run("a", Some(4.0)), run("a", Some(6.0))], Scale::Linear);
        let components = variance_components(&[&alone]);
        assert!(components.within_hosts.is_some_and(|within| (within - 2.0).abs() < 1e-12), "{components:?}");
        assert_eq!(components.between_hosts, None);
    }
}
