//! Settings that differ among the hosts of a fleet, and what goes with them.
//!
//! # Which settings
//! A host has a value of a setting if it had that one value throughout. A host on which it changed meanwhile is counted
//! ([`DriftingKey::hosts_changed`]) and has none, like a host whose value could not be read. A setting is listed if hosts have
//! at least two values of it.
//!
//! # One test for settings that divide the hosts alike
//! Settings with the same partition of hosts (each host that differs in one differs in the other) cannot be told apart by any
//! metric: they are one entry with several keys, and one test. An entry may also follow from a label: if all hosts of each
//! instance type have one value, the setting cannot be told from the instance type ([`DriftingSettings::follows`]).
//!
//! # Association
//! The means of hosts of a metric, one per host as in [`crate::model`], are compared between the values that at least
//! [`LEAST_HOSTS`] hosts have:
//!
//! * two values that at least [`LEAST_HOSTS_FOR_WELCH`] hosts have each: Welch's test;
//! * two values, one of them on fewer hosts: the permutation test of the mean of the fewer hosts;
//! * more values: the rank test of Kruskal and Wallis.
//!
//! Welch's test alone would not do, because settings mostly drift on a few hosts and the smallest p of many settings decides. Its
//! degrees of freedom come from the spread of the few, which is by chance too small at times: of 3 hosts against 37 alike it
//! finds 7.6 % at nominal 5 %, 3.4 % at 1 % and 1.2 % at 0.05 %; of 5 against 37 still 0.3 % at 0.05 %; of 20 it holds (simulated,
//! 200,000 draws). Welch's analysis of variance for more values has the same flaw (100, 5 and 3 hosts: 3.4 % at 1 %), Kruskal
//! and Wallis's test errs on the cautious side. Benjamini and Hochberg's q over all entries that were tested.
//!
//! An association is not a cause: hosts that differ in one setting differ in others, in age and in what runs on them. It says
//! where to look; an experiment that toggles the setting says whether it is the cause.

mod partition;
mod permutation;
mod ranks;

use std::collections::{BTreeMap, BTreeSet};

use pagelab_analysis::stats::{Outcome, Summary, benjamini_hochberg, critical_value, welch_of_summaries};
use pagelab_analysis::trend::Scale;
use serde::Serialize;

use crate::hosts::{LEAST_HOSTS, RunValue, ScaleChoice, back, levels_of, rounding};
use crate::model::Method;
use partition::{Partition, partitions};
use permutation::permuted_means;

pub use ranks::{chi_squared_sf, kruskal_wallis};

/// Level of all intervals.
const INTERVAL_LEVEL: f64 = 0.95;

/// Fewest hosts with either of two values for Welch's test.
pub const LEAST_HOSTS_FOR_WELCH: usize = 20;

/// The test of two values that many hosts have.
pub const TWO_VALUES: Method = Method {
    name: "welch_of_host_means",
    about: "Welch's t test of the means of hosts with one value against those with the other.",
    source: "B. L. Welch, Biometrika 34 (1947)",
};

/// The test of two values of which few hosts have one.
pub const FEW_HOSTS: Method = Method {
    name: "permutation_of_host_means",
    about: "Share of random choices of as many hosts whose mean lies as far from that of all; the interval is Student's with one spread \
            for all hosts.",
    source: "E. J. G. Pitman, JRSS Supplement 4 (1937); J. Besag and P. Clifford, Biometrika 78 (1991)",
};

/// The test of more values.
pub const SEVERAL_VALUES: Method = Method {
    name: "kruskal_wallis_of_host_means",
    about: "Rank test of the means of hosts between all values; p by the chi-squared distribution.",
    source: "W. H. Kruskal and W. A. Wallis, JASA 47 (1952)",
};

/// A setting of a host, or a label of it, from some time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSetting<'a> {
    /// Name of the host.
    pub host: &'a str,
    /// Name of the setting or label.
    pub key: &'a str,
    /// Its value; `None` if it could not be read.
    pub value: Option<&'a str>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriftOptions {
    /// False discovery rate of associations.
    pub alpha: f64,
    /// The scale of the metric.
    pub scale: ScaleChoice,
    /// Seed of the random choices of hosts.
    pub seed: u64,
}

impl Default for DriftOptions {
    fn default() -> Self {
        Self { alpha: 0.05, scale: ScaleChoice::FromData, seed: 1 }
    }
}

/// One setting of an entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriftingKey {
    /// Its name.
    pub key: String,
    /// Its values, in the order of [`DriftingSettings::classes`]: the first is the majority's.
    pub values: Vec<String>,
    /// Hosts on which it changed meanwhile.
    pub hosts_changed: usize,
    /// Hosts whose value is not known.
    pub hosts_unknown: usize,
}

/// The hosts with one value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ValueFigures {
    /// Hosts.
    pub hosts: usize,
    /// Hosts that have a value of the metric.
    pub hosts_with_metric: usize,
    /// Mean of their means in the metric's unit, the geometric one on a log scale; null without hosts.
    pub mean: Option<f64>,
    /// Whether the test looks at them: they are at least [`LEAST_HOSTS`].
    pub is_tested: bool,
}

/// Settings that divide the hosts in the same way, and what goes with that.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriftingSettings {
    /// The settings, by name. Several cannot be told apart.
    pub keys: Vec<DriftingKey>,
    /// The hosts with each value, most hosts first.
    pub classes: Vec<ValueFigures>,
    /// Labels from which the values follow: all hosts with one value of the label have one value of the setting, so that the
    /// two cannot be told apart.
    pub follows: Vec<String>,
    /// Whether the association was tested.
    pub outcome: Outcome,
    /// The test; null if none was made.
    pub method: Option<Method>,
    /// The other value's mean over the majority's; where two values were tested, on a log scale.
    pub ratio: Option<f64>,
    /// Its 95 % interval.
    pub ratio_ci95: Option<[f64; 2]>,
    /// The other value's mean less the majority's, in the metric's unit; where two values were tested, on a linear scale.
    pub difference: Option<f64>,
    /// Its 95 % interval.
    pub difference_ci95: Option<[f64; 2]>,
    /// p value of no association.
    pub p: Option<f64>,
    /// Its value corrected for all entries tested.
    pub q: Option<f64>,
    /// Whether q is at most alpha: associated with the metric, which is not to say its cause.
    pub is_associated: Option<bool>,
    /// Why there is no test.
    pub reason: Option<String>,
}

/// The settings of a fleet that differ among hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingsDrift {
    /// Hosts that have any setting.
    pub hosts: usize,
    /// Settings looked at.
    pub keys: usize,
    /// Settings that differ among hosts, in entries; associated ones first, then by p, then untested ones.
    pub settings: Vec<DriftingSettings>,
    /// Entries tested: the size of the family.
    pub tested: usize,
    /// Scale of the metric; null without one.
    pub scale: Option<Scale>,
    /// False discovery rate asked for.
    pub alpha: f64,
    /// Seed of the random choices of hosts.
    pub seed: u64,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Finds the settings that differ among hosts, and tests whether `metric` goes with them.
///
/// `settings` has a row for each value that a host had in the time looked at: two rows of one host and key with different
/// values say that it changed. `labels` is of the same form: what hosts are grouped by, such as their instance type (a label
/// that is made of a setting would follow from itself). Without runs of a metric nothing is tested.
pub fn drift(
    settings: &[HostSetting],
    labels: &[HostSetting],
    metric: &[RunValue],
    options: &DriftOptions,
) -> SettingsDrift {
    let hosts: Vec<&str> = settings.iter().map(|setting| setting.host).collect::<BTreeSet<_>>().into_iter().collect();
    let found = partitions(settings, &hosts);
    let labels = partitions(labels, &hosts);
    let keys = found.len();
    let mut entries: BTreeMap<Vec<u32>, Vec<Partition>> = BTreeMap::new();
    for partition in found.into_iter().filter(|partition| partition.values.len() > 1) {
        entries.entry(partition.class_of_host.clone()).or_default().push(partition);
    }
    let scale = (!metric.is_empty()).then(|| options.scale.scale_of(metric.iter().filter_map(RunValue::finite)));
    let means = means_of(metric, &hosts, scale.unwrap_or(Scale::Linear));
    let scaled = Means { of_host: &means, scale, seed: options.seed };
    let mut drift = SettingsDrift {
        hosts: hosts.len(),
        keys,
        settings: entries.into_values().map(|alike| scaled.entry(&alike, &labels)).collect(),
        tested: 0,
        scale,
        alpha: options.alpha,
        seed: options.seed,
        notes: Vec::new(),
    };
    drift.settle();
    drift.remark(metric, &means);
    drift
}

/// The mean of each host's runs, on the scale.
fn means_of(metric: &[RunValue], hosts: &[&str], scale: Scale) -> Vec<Option<f64>> {
    let levels: BTreeMap<&str, f64> =
        levels_of(metric, scale).into_iter().map(|level| (level.host, level.level)).collect();
    hosts.iter().map(|host| levels.get(host).copied()).collect()
}

impl SettingsDrift {
    fn settle(&mut self) {
        let p: Vec<Option<f64>> = self.settings.iter().map(|entry| entry.p).collect();
        self.tested = p.iter().flatten().count();
        for (entry, q) in self.settings.iter_mut().zip(benjamini_hochberg(&p)) {
            entry.q = q;
            entry.is_associated = q.map(|q| q <= self.alpha);
        }
        self.settings.sort_by(|a, b| {
            let p = |entry: &DriftingSettings| entry.p.unwrap_or(f64::INFINITY);
            p(a).total_cmp(&p(b)).then_with(|| a.name().cmp(b.name()))
        });
    }

    fn remark(&mut self, metric: &[RunValue], means: &[Option<f64>]) {
        if metric.is_empty() {
            self.notes.push("no metric was given: nothing is tested".to_owned());
            return;
        }
        let without = means.iter().filter(|mean| mean.is_none()).count();
        if without > 0 {
            self.notes.push(format!("{without} hosts have settings and no value of the metric: no test looks at them"));
        }
        if self.settings.iter().any(|entry| entry.is_associated == Some(true)) {
            let caution = "associated is not caused: hosts that differ in a setting differ in other things; an experiment that toggles \
                           it tells";
            self.notes.push(caution.to_owned());
        }
    }
}

impl DriftingSettings {
    fn name(&self) -> &str {
        self.keys.first().map_or("", |key| key.key.as_str())
    }
}

/// The means of hosts that settings are held to.
struct Means<'a> {
    of_host: &'a [Option<f64>],
    /// `None` without a metric.
    scale: Option<Scale>,
    seed: u64,
}

impl Means<'_> {
    /// The entry of settings that divide the hosts alike.
    fn entry(&self, alike: &[Partition], labels: &[Partition]) -> DriftingSettings {
        let Some(partition) = alike.first() else { return DriftingSettings::default() };
        let order = partition.classes_by_size();
        let groups: Vec<(usize, Vec<f64>)> = order.iter().map(|class| self.group(partition, *class)).collect();
        let keys = alike.iter().map(|one| DriftingKey {
            key: one.key.to_owned(),
            values: order.iter().filter_map(|class| one.values.get(*class as usize)).map(|v| (*v).to_owned()).collect(),
            hosts_changed: one.hosts_changed,
            hosts_unknown: one.hosts_unknown,
        });
        let mut entry = DriftingSettings {
            keys: keys.collect(),
            classes: groups.iter().map(|(hosts, means)| self.figures(*hosts, means)).collect(),
            follows: labels
                .iter()
                .filter(|label| partition.follows_from(label))
                .map(|label| label.key.to_owned())
                .collect(),
            ..DriftingSettings::default()
        };
        let tested: Vec<Vec<f64>> =
            groups.into_iter().map(|(_, means)| means).filter(|means| means.len() >= LEAST_HOSTS).collect();
        if let Err(why) = self.test(&tested, &mut entry) {
            entry.reason = Some(why);
        }
        entry
    }

    /// Number of hosts of a class, and their means.
    fn group(&self, partition: &Partition, class: u32) -> (usize, Vec<f64>) {
        let of_class = partition.class_of_host.iter().zip(self.of_host).filter(|(of, _)| **of == class + 1);
        let means: Vec<Option<f64>> = of_class.map(|(_, mean)| *mean).collect();
        (means.len(), means.into_iter().flatten().collect())
    }

    fn figures(&self, hosts: usize, means: &[f64]) -> ValueFigures {
        let scale = self.scale.unwrap_or(Scale::Linear);
        ValueFigures {
            hosts,
            hosts_with_metric: means.len(),
            mean: Summary::of(means).ok().map(|summary| back(scale, summary.mean())).filter(|mean| mean.is_finite()),
            is_tested: means.len() >= LEAST_HOSTS,
        }
    }

    /// Tests the groups that are large enough, or says why not.
    fn test(&self, groups: &[Vec<f64>], entry: &mut DriftingSettings) -> Result<(), String> {
        let scale = self.scale.ok_or("no metric was given")?;
        let p = match groups {
            [] | [_] => return Err(too_few(&entry.classes)),
            [majority, other] => self.test_two(scale, majority, other, entry)?,
            several => {
                entry.method = Some(SEVERAL_VALUES);
                kruskal_wallis(several).map_err(|why| why.to_string())?
            }
        };
        entry.outcome = Outcome::Tested;
        entry.p = Some(p);
        Ok(())
    }

    fn test_two(
        &self,
        scale: Scale,
        majority: &[f64],
        other: &[f64],
        entry: &mut DriftingSettings,
    ) -> Result<f64, String> {
        let summary = |means: &[f64]| Summary::of(means).map_err(|why| why.to_string());
        let (of_majority, of_other) = (summary(majority)?, summary(other)?);
        let rounding = rounding(scale, self.of_host.iter().flatten().copied());
        if [&of_majority, &of_other].iter().all(|side| side.sd().is_none_or(|sd| sd <= rounding)) {
            return Err("the means of hosts do not vary, so a test would divide by zero".to_owned());
        }
        if majority.len().min(other.len()) >= LEAST_HOSTS_FOR_WELCH {
            let tested = welch_of_summaries(&of_majority, &of_other).map_err(|why| why.to_string())?;
            entry.method = Some(TWO_VALUES);
            entry.set_estimate(scale, tested.estimate, tested.interval(INTERVAL_LEVEL).ok());
            return Ok(tested.p);
        }
        entry.method = Some(FEW_HOSTS);
        let estimate = of_other.mean_difference(&of_majority);
        let half = pooled_half_width(&of_majority, &of_other);
        entry.set_estimate(scale, estimate, half.map(|half| [estimate - half, estimate + half]));
        let (few, others) = if other.len() <= majority.len() { (other, majority) } else { (majority, other) };
        Ok(permuted_means(few, others, self.seed))
    }
}

/// Half of Student's 95 % interval for a difference of means with one spread on both sides: what the permutation test supposes.
fn pooled_half_width(a: &Summary, b: &Summary) -> Option<f64> {
    let squares = |side: &Summary| Some(side.sd()?.powi(2) * (side.n() - 1) as f64);
    let df = (a.n() + b.n()).checked_sub(2)? as f64;
    let variance = (squares(a)? + squares(b)?) / df;
    let error = (variance * (1.0 / a.n() as f64 + 1.0 / b.n() as f64)).sqrt();
    Some(critical_value(df, INTERVAL_LEVEL).ok()? * error)
}

impl DriftingSettings {
    /// Fills what the other value is to the majority's, from a difference on the scale.
    fn set_estimate(&mut self, scale: Scale, estimate: f64, interval: Option<[f64; 2]>) {
        match scale {
            Scale::Log => {
                self.ratio = Some(estimate.exp()).filter(|ratio| ratio.is_finite());
                let ends = interval.map(|ends| ends.map(f64::exp));
                self.ratio_ci95 = ends.filter(|ends| ends.iter().all(|end| end.is_finite()));
            }
            Scale::Linear => {
                self.difference = Some(estimate);
                self.difference_ci95 = interval;
            }
        }
    }
}

fn too_few(classes: &[ValueFigures]) -> String {
    let on: Vec<String> = classes.iter().skip(1).take(5).map(|class| class.hosts_with_metric.to_string()).collect();
    let more = if classes.len() > 6 { " and fewer" } else { "" };
    let majority = classes.first().map_or(0, |class| class.hosts_with_metric);
    format!(
        "beside the {majority} hosts of the majority the other values are on {}{more} hosts that have the metric; at least \
         {LEAST_HOSTS} hosts with each of two values are needed",
        on.join(", ")
    )
}

impl Default for DriftingSettings {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            classes: Vec::new(),
            follows: Vec::new(),
            outcome: Outcome::NotTested,
            method: None,
            ratio: None,
            ratio_ci95: None,
            difference: None,
            difference_ci95: None,
            p: None,
            q: None,
            is_associated: None,
            reason: None,
        }
    }
}
