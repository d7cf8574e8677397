//! Statistics: from the values of runs to a claim.
//!
//! A run is the unit: n is the number of runs, and nothing within a run makes n larger. All functions here are pure;
//! random choices come from a seed that is passed in. What cannot be computed is an [`Undefined`] with the reason.
//!
//! | question | function |
//! |---|---|
//! | are two sets of runs different in one metric, by the rules for all kinds of data | [`test_metric`] |
//! | which of many metrics differ | [`settle_family`]; the primary alone: [`settle_alone`] |
//! | two independent samples | [`welch()`], [`hedges_g`], [`geometric_mean_ratio`], [`fieller`] |
//! | randomised complete blocks | [`paired_log_ratios`], [`paired_ratio`], [`paired_differences`], [`fieller_paired`] |
//! | either, where each run has a covariate | [`log_ratio_adjusted`], [`paired_log_ratios_adjusted`] |
//! | few events | [`exact_poisson`] |
//! | which side fails more often; times cut off by a timeout | [`fisher_exact`], [`rank_sum`] |
//! | do the runs of one side drift, hold outliers, fall into two modes | [`check_sides`]: [`drift()`], [`outliers()`], [`modes()`] |
//! | how large a difference is excluded; how many runs would find one | [`equivalence_margin_pct`], [`runs_needed`] |
//! | a share of n | [`clopper_pearson`], [`wilson`] |
//! | the cost of a tool, from paired slices | [`paired_ratio_median`] |
//! | one sample | [`Summary`], [`mean`], [`geometric_mean`], [`quantile`], [`time_weighted_mean`] |
//! | distributions | [`StudentT`], [`NORMAL`] |
//!
//! Accuracy: t, degrees of freedom and p agree with 50-digit arithmetic to 1e-10 relative for n from 2 to 1000, df from
//! 1 to 1e6 and p down to 1e-300, whatever offset the values carry; below that ln p does. `tests/stats_reference.rs`
//! holds the module to values made by mpmath, scipy and statsmodels (`tests/reference/make_*.py`).

mod bootstrap;
mod checks;
mod counts;
mod covariate;
mod descriptive;
mod double;
mod drift;
mod equivalence;
mod family;
mod metric;
mod modes;
mod outliers;
mod power;
mod ranks;
mod ratio;
mod share;
mod special;
mod student;
mod undefined;
mod welch;

pub use bootstrap::{Bootstrap, BootstrapKind, bootstrap_median, paired_ratio_median};
pub use checks::{Checks, SideChecks, SideValues, check_sides};
pub use counts::{Count, RateTest, exact_poisson};
pub use covariate::{Adjusted, WithCovariate, log_ratio_adjusted, paired_log_ratios_adjusted};
pub use descriptive::{
    Summary, TimeMean, geometric_mean, mean, median, quantile, quantile_of_sorted, standard_deviation,
    time_weighted_mean,
};
pub use drift::{Drift, drift, sen_rise};
pub use equivalence::{EQUIVALENCE_LEVEL, MOST_MARGIN, equivalence_margin_pct};
pub use family::benjamini_hochberg;
pub use metric::{
    AtEqualCovariates, Change, Design, LEAST_ADJUSTED, LEAST_DETERMINISTIC, Method, MetricSamples, Observation,
    Outcome, SPARSE_EVENTS, Side, TestResult, WelchResult, settle_alone, settle_family, test_at_equal_covariates,
    test_censored, test_metric,
};
pub use modes::{LEAST_FOR_MODES, LEAST_P_OF_MODES, Modes, modes};
pub use outliers::{LEAST_FOR_OUTLIERS, Outlier, Outliers, outliers};
pub use power::{MOST_RUNS, RunSpread, power_of_runs, runs_needed, t_power};
pub use ranks::{RankTest, fisher_exact, rank_sum};
pub use ratio::{Ratio, fieller, fieller_paired, geometric_mean_ratio, paired_ratio};
pub use share::{clopper_pearson, wilson};
pub use student::{NORMAL, StudentT};
pub use undefined::Undefined;
pub use welch::{
    TTest, critical_value, hedges_g, log_ratio_summary, one_sample, paired_differences, paired_log_ratios, welch,
    welch_of_summaries,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An estimate with an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Interval {
    /// The estimate.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Level, 0.95 for 95 %.
    pub level: f64,
    /// Number of independent values behind it.
    pub n: usize,
}
