//! Hosts that differ from the fleet in a metric.
//!
//! # The model
//! The mean m_j of a host's n_j runs is mu + h_j + e_j: the fleet's centre, the host's own deviation with variance tau^2, and
//! what runs leave over with variance sigma^2 / n_j. Of most hosts h_j is normal, on the scale of logarithms where values are
//! positive; an outlier's is not. A host with one noisy run lies far out without being different, so each host is held to
//!
//! z_j = (m_j - mu) / sqrt(tau^2 + s_j^2 / n_j).
//!
//! # The estimates
//! They must not be moved by the outliers that are looked for, of which up to half of the hosts may be some:
//!
//! * sigma^2 is the weighted median of the hosts' variances, each divided by the median of chi^2_d / d, (1 - 2 / (9 d))^3 with
//!   d = n_j - 1 (E. B. Wilson and M. M. Hilferty, PNAS 17, 1931), weights d;
//! * tau^2 solves median |z_j| = 0.6745, the median of a normal distribution's absolute values, with s_j = sigma; 0 if even
//!   that is too large. This is the equation of R. C. Paule and J. Mandel ("Consensus values and weighting factors", Journal of
//!   Research of the NBS 87, 1982) with the median in the place of the mean of squares, as the MAD has it (F. R.
//!   Hampel, JASA 69, 1974);
//! * mu is the median weighted by the inverse of the standard deviations, in turns with tau.
//!
//! In z_j itself s_j^2 is the larger of sigma^2 and the host's own variance: a host whose runs scatter widely is not sure to have
//! another level.
//!
//! # The test
//! Two-sided p of z_j by Student's t with 0.37 (k - 1) degrees of freedom for k hosts: a scale by the median is as uncertain
//! as a standard deviation of 0.37 times as many values (P. J. Rousseeuw and C. Croux, "Alternatives to the median absolute
//! deviation", JASA 88, 1993). Benjamini and Hochberg's q over all hosts; outliers are those with q <= alpha.
//!
//! In fleets of normal hosts without an outlier one is found in at most alpha of them (`tests/false_findings.rs`), in fewer the
//! fewer hosts there are. An outlier is seen against the spread of the fleet: call this for each group of hosts that differ
//! by design, such as instance types, or their difference is that spread.

use pagelab_analysis::stats::{Outcome, StudentT, benjamini_hochberg, median};
use pagelab_analysis::trend::Scale;
use pagelab_vocab::absence::Absence;
use serde::Serialize;

use crate::hosts::{HostLevel, RunValue, ScaleChoice, back, levels_of, rounding};
use crate::model::Method;

/// Fewest hosts of which one can be called an outlier.
pub const LEAST_HOSTS_FOR_OUTLIERS: usize = 8;

/// Share of the degrees of freedom of a standard deviation that a scale by the median has: its asymptotic efficiency.
const EFFICIENCY: f64 = 0.37;
/// The median of a standard normal variable's absolute value.
const NORMAL_MEDIAN: f64 = 0.674_489_750_196_081_7;
/// Turns between centre and scale. They change by less than a thousandth of tau after three.
const TURNS: usize = 6;
/// Halvings of the interval in which tau^2 lies.
const HALVINGS: usize = 60;

/// The test.
pub const ROBUST_DISTANCE: Method = Method {
    name: "robust_distance_of_host_means",
    about: "Distance of the host's mean from the weighted median of all, in robust standard deviations of hosts and of the mean's own \
            error; Student's t with 0.37 (k - 1) degrees of freedom, Benjamini and Hochberg over hosts.",
    source: "R. C. Paule and J. Mandel, Journal of Research of the NBS 87 (1982); F. R. Hampel, JASA 69 (1974); P. J. Rousseeuw and \
             C. Croux, JASA 88 (1993); Y. Benjamini and Y. Hochberg, JRSS B 57 (1995)",
};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutlierOptions {
    /// False discovery rate: the share of hosts without a difference among those that are called outliers.
    pub alpha: f64,
    /// The scale.
    pub scale: ScaleChoice,
}

impl Default for OutlierOptions {
    fn default() -> Self {
        Self { alpha: 0.05, scale: ScaleChoice::FromData }
    }
}

/// One host against the fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostDeviation {
    /// Name of the host.
    pub host: String,
    /// Runs that have a value.
    pub runs: usize,
    /// Mean of its runs in the metric's unit, the geometric one on a log scale.
    pub mean: f64,
    /// Mean over the fleet's centre; null on a linear scale.
    pub ratio: Option<f64>,
    /// Mean less the fleet's centre, in the metric's unit; null on a log scale.
    pub difference: Option<f64>,
    /// Distance from the centre in standard deviations, positive above; null if there is no scale.
    pub z: Option<f64>,
    /// Two-sided p value.
    pub p: Option<f64>,
    /// Its value corrected for all hosts.
    pub q: Option<f64>,
    /// Whether q is at most alpha.
    pub is_outlier: bool,
}

/// The hosts of a fleet in one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetOutliers {
    /// Whether hosts were tested.
    pub outcome: Outcome,
    /// The test; null if none was made.
    pub method: Option<Method>,
    /// Whether ratios or differences are tested.
    pub scale: Scale,
    /// Number of hosts that have a value.
    pub hosts: usize,
    /// Number of their runs.
    pub runs: usize,
    /// The fleet's centre in the metric's unit; null without hosts.
    pub centre: Option<f64>,
    /// Robust standard deviation of hosts, tau, on the scale: of natural logarithms, or in the unit.
    pub sd_between_hosts: Option<f64>,
    /// Robust standard deviation of runs within a host, sigma, on the scale; null if no host has two runs, and tau then has
    /// both in it.
    pub sd_within_hosts: Option<f64>,
    /// Degrees of freedom of the test.
    pub df: Option<f64>,
    /// The false discovery rate asked for.
    pub alpha: f64,
    /// Number of outliers.
    pub outliers: usize,
    /// All hosts, the farthest out first.
    pub deviations: Vec<HostDeviation>,
    /// What a reader must know, and why a value is null.
    pub notes: Vec<String>,
}

/// Holds each host to the fleet.
pub fn outliers(runs: &[RunValue], options: &OutlierOptions) -> FleetOutliers {
    let scale = options.scale.scale_of(runs.iter().filter_map(RunValue::finite));
    let levels = levels_of(runs, scale);
    let mut found = FleetOutliers {
        outcome: Outcome::NotTested,
        method: None,
        scale,
        hosts: levels.len(),
        runs: levels.iter().map(|level| level.runs).sum(),
        centre: None,
        sd_between_hosts: None,
        sd_within_hosts: None,
        df: None,
        alpha: options.alpha,
        outliers: 0,
        deviations: Vec::new(),
        notes: Vec::new(),
    };
    let without_value = runs.len() - found.runs;
    if without_value > 0 {
        found.notes.push(format!("{without_value} runs without a value are left out"));
    }
    let within = variance_within(&levels);
    let centre = Centre::of(&levels, within.unwrap_or(0.0));
    found.centre = centre.map(|centre| back(scale, centre.mu)).filter(|centre| centre.is_finite());
    let Some(centre) = centre else {
        found.not_tested("no host has a value".to_owned());
        return found;
    };
    found.deviations = levels.iter().map(|level| deviation(level, &centre, scale)).collect();
    found.sd_between_hosts = Some(centre.variance_between.sqrt());
    found.sd_within_hosts = within.map(f64::sqrt);
    if within.is_none() {
        found.notes.push("no host has two runs: the spread of hosts has that of runs in it".to_owned());
    }
    found.test(&levels, &centre, within);
    found.deviations.sort_by(|a, b| {
        let distance = |one: &HostDeviation| one.z.or(one.ratio.map(f64::ln)).or(one.difference).map_or(0.0, f64::abs);
        distance(b).total_cmp(&distance(a)).then_with(|| a.host.cmp(&b.host))
    });
    found
}

fn deviation(level: &HostLevel, centre: &Centre, scale: Scale) -> HostDeviation {
    let distance = level.level - centre.mu;
    HostDeviation {
        host: level.host.to_owned(),
        runs: level.runs,
        mean: back(scale, level.level),
        ratio: (scale == Scale::Log).then(|| distance.exp()).filter(|ratio| ratio.is_finite()),
        difference: (scale == Scale::Linear).then_some(distance),
        z: None,
        p: None,
        q: None,
        is_outlier: false,
    }
}

impl FleetOutliers {
    /// Says why there is no test.
    fn not_tested(&mut self, reason: String) {
        self.notes.push(Absence::not_tested(reason).to_string());
    }

    /// Fills z, p, q and the decision.
    fn test(&mut self, levels: &[HostLevel], centre: &Centre, within: Option<f64>) {
        if levels.len() < LEAST_HOSTS_FOR_OUTLIERS {
            self.not_tested(format!(
                "{} hosts have a value; at least {LEAST_HOSTS_FOR_OUTLIERS} are needed to know how far hosts of this \
                 fleet lie apart",
                levels.len()
            ));
            return;
        }
        let rounding = rounding(self.scale, levels.iter().map(|level| level.level));
        let errors: Vec<f64> = levels.iter().map(|level| centre.error(level, within)).collect();
        if errors.iter().any(|error| *error <= rounding) {
            let others = levels.iter().filter(|level| (level.level - centre.mu).abs() > rounding).count();
            self.not_tested(format!(
                "at least half of the hosts have one value and their runs do not vary, so nothing says how far apart hosts \
                 may lie; {others} hosts have another value"
            ));
            return;
        }
        let df = EFFICIENCY * (levels.len() - 1) as f64;
        let Ok(distribution) = StudentT::new(df) else { return };
        for ((one, level), error) in self.deviations.iter_mut().zip(levels).zip(&errors) {
            let z = (level.level - centre.mu) / error;
            one.z = Some(z);
            one.p = Some(distribution.two_sided_p(z));
        }
        let p: Vec<Option<f64>> = self.deviations.iter().map(|one| one.p).collect();
        for (one, q) in self.deviations.iter_mut().zip(benjamini_hochberg(&p)) {
            one.q = q;
            one.is_outlier = q.is_some_and(|q| q <= self.alpha);
        }
        self.outcome = Outcome::Tested;
        self.method = Some(ROBUST_DISTANCE);
        self.df = Some(df);
        self.outliers = self.deviations.iter().filter(|one| one.is_outlier).count();
    }
}

/// The robust variance of runs within hosts; `None` if no host has two runs.
fn variance_within(levels: &[HostLevel]) -> Option<f64> {
    let weighted = levels.iter().filter_map(|level| {
        let d = (level.runs - 1) as f64;
        Some((level.variance()? / (1.0 - 2.0 / (9.0 * d)).powi(3), d))
    });
    weighted_median(weighted.collect())
}

/// The smallest value with at least half of the weight at or below it; the mean with the next one where that half is exact.
fn weighted_median(mut weighted: Vec<(f64, f64)>) -> Option<f64> {
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = 0.5 * weighted.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut sum = 0.0;
    for (at, (value, weight)) in weighted.iter().enumerate() {
        sum += weight;
        if sum > half * (1.0 + 1e-12) {
            return Some(*value);
        }
        if sum >= half * (1.0 - 1e-12) {
            let next = weighted.get(at + 1).map_or(*value, |(next, _)| *next);
            return Some(f64::midpoint(*value, next));
        }
    }
    weighted.last().map(|(value, _)| *value)
}

/// Centre and spread of hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Centre {
    mu: f64,
    /// tau^2.
    variance_between: f64,
}

impl Centre {
    /// Estimates both in turns; `None` without hosts.
    fn of(levels: &[HostLevel], within: f64) -> Option<Self> {
        let means: Vec<f64> = levels.iter().map(|level| level.level).collect();
        let errors: Vec<f64> = levels.iter().map(|level| within / level.runs as f64).collect();
        let mut centre = Self { mu: median(&means).ok()?, variance_between: 0.0 };
        for _ in 0..TURNS {
            centre.variance_between = variance_between(&means, &errors, centre.mu);
            let variance = |error: f64| centre.variance_between + error;
            if errors.iter().any(|error| variance(*error) <= 0.0) {
                // More than half of the hosts are equal, and so is the median.
                break;
            }
            let weighted = means.iter().zip(&errors).map(|(mean, error)| (*mean, variance(*error).sqrt().recip()));
            centre.mu = weighted_median(weighted.collect())?;
        }
        Some(centre)
    }

    /// The standard deviation that a host's mean is held to.
    fn error(&self, level: &HostLevel, within: Option<f64>) -> f64 {
        let of_fleet = within.unwrap_or(0.0);
        let of_runs = level.variance().map_or(of_fleet, |own| own.max(of_fleet));
        (self.variance_between + of_runs / level.runs as f64).sqrt()
    }
}

/// The tau^2 at which the median distance is that of a normal distribution.
fn variance_between(means: &[f64], errors: &[f64], mu: f64) -> f64 {
    let is_too_far = |variance: f64| {
        let distances: Vec<f64> = means
            .iter()
            .zip(errors)
            .map(|(mean, error)| (mean - mu).abs() / (variance + error).sqrt())
            // A host on the centre, without any error.
            .map(|distance| if distance.is_nan() { 0.0 } else { distance.min(f64::MAX) })
            .collect();
        median(&distances).is_ok_and(|median| median > NORMAL_MEDIAN)
    };
    if !is_too_far(0.0) {
        return 0.0;
    }
    let farthest = means.iter().map(|mean| (mean - mu).abs()).fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, (farthest / NORMAL_MEDIAN).powi(2));
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if is_too_far(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weighted_median_is_the_median_of_as_many_values() {
        assert_eq!(weighted_median(vec![(3.0, 1.0), (1.0, 1.0), (2.0, 1.0)]), Some(2.0));
        assert_eq!(weighted_median(vec![(4.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]), Some(2.5));
        assert_eq!(weighted_median(vec![(1.0, 1.0), (5.0, 3.0)]), Some(5.0));
        assert_eq!(weighted_median(Vec::new()), None);
    }

    /// Of hosts without an error of their own, tau is the MAD over 0.6745.
    #[test]
    fn tau_is_the_mad_where_runs_do_not_vary() {
        let means = [1.0, 2.0, 3.0, 4.0, 100.0];
        let variance = variance_between(&means, &[0.0; 5], 3.0);
        assert!((variance.sqrt() - 1.0 / NORMAL_MEDIAN).abs() < 1e-9, "{variance}");
        // Errors that explain the spread leave nothing to hosts.
        assert_eq!(variance_between(&[1.0, 2.0, 3.0], &[100.0; 3], 2.0).to_bits(), 0.0_f64.to_bits());
    }
}
