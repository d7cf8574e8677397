//! What a simulated fleet is like.

use std::collections::BTreeSet;

use pagelab_vocab::metrics::Direction;

use crate::error::{FleetError, Result};
use crate::rollup::Day;

/// Hosts of a fleet at most.
pub const MOST_HOSTS: u32 = 10_000;
/// Days of a fleet at most: ten years.
const MOST_DAYS: u32 = 3_660;
/// Runs of a host on a day at most: one a minute.
const MOST_RUNS: u32 = 1_440;

/// A fleet to simulate. The same plan gives the same fleet, on every machine.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetPlan {
    /// Seed of all draws.
    pub seed: u64,
    /// Number of hosts, 1 to [`MOST_HOSTS`].
    pub hosts: u32,
    /// The first day.
    pub first_day: Day,
    /// Number of days, at least 1.
    pub days: u32,
    /// Runs of a host on a day: uniformly from the first number to the second, both included. 0 is possible.
    pub runs_per_day: [u32; 2],
    /// Standard deviation of the natural logarithm of hosts' levels: 0.1 is about 10 %. Each metric has its own.
    pub host_sd: f64,
    /// The same of runs within a host, for metrics whose seed has none.
    pub run_sd: f64,
    /// Groups of hosts, at least one.
    pub groups: Vec<HostGroup>,
    /// Metrics, at least one.
    pub metrics: Vec<MetricSeed>,
    /// Components of the budget of time.
    pub components: Vec<ComponentSeed>,
    /// Settings that make hosts slower.
    pub causes: Vec<PlantedCause>,
    /// Settings that differ and do nothing.
    pub harmless: Vec<HarmlessSetting>,
    /// A new kernel, if there is one.
    pub upgrade: Option<KernelUpgrade>,
    /// What is missing.
    pub missing: Missing,
}

/// Hosts of one kind: its name and its instance type go together, so that neither can be told from the other if each group has
/// a type of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct HostGroup {
    /// Value of the label `host_group`.
    pub name: String,
    /// Value of the label `instance_type`.
    pub instance_type: String,
    /// Weight: the share of hosts is the weight over the sum of all.
    pub weight: f64,
    /// By how many per cent it is slower than the first group's hosts would be; times longer, rates lower.
    pub slower_pct: f64,
}

/// A metric to draw values of, from figures of real recordings or invented.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSeed {
    /// Name, of the vocabulary.
    pub name: String,
    /// Instance.
    pub instance: Option<String>,
    /// Unit of its values.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Level of a host in the middle of the fleet, in the unit. Of a positive one values are log-normal about it; else they are
    /// normal, with `sd` between hosts and within them.
    pub mean: f64,
    /// Standard deviation of runs within a host, in the unit; the plan's `run_sd` if `None`.
    pub sd: Option<f64>,
    /// It is the time of an operation: the sum of the components of the run, in place of `mean`.
    pub is_time_of_components: bool,
}

/// A component of the budget of time to draw values of.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentSeed {
    /// Name, of the vocabulary.
    pub name: String,
    /// Time per operation of a host in the middle of the fleet.
    pub ns_per_operation: f64,
    /// Standard deviation of the logarithm of its part in a run, beside what all components have in common.
    pub sd: f64,
}

/// What a cause does.
#[derive(Debug, Clone, PartialEq)]
pub struct Slowdown {
    /// Name of the metric that becomes worse by `pct`: larger, or divided by as much if higher is better.
    pub metric: String,
    /// The component that owns it: it grows by `pct` of the time of an operation, so that the sum of all components is slower by
    /// `pct`. Metrics that are the time of components are slower by that.
    pub component: String,
    /// By how many per cent.
    pub pct: f64,
}

/// A setting that makes the hosts that have it slower.
#[derive(Debug, Clone, PartialEq)]
pub struct PlantedCause {
    /// The setting.
    pub key: String,
    /// Its value on the slow hosts, and on the others.
    pub value: String,
    /// The value on all other hosts.
    pub usual: String,
    /// Number of slow hosts, drawn from all.
    pub hosts: u32,
    /// Day from which on they have it, counted from 0.
    pub from_day: u32,
    /// What it does; several for a cause that shows in several metrics.
    pub slowdowns: Vec<Slowdown>,
}

/// A setting that differs among hosts and does nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct HarmlessSetting {
    /// The setting.
    pub key: String,
    /// Its values with their weights.
    pub values: Vec<(String, f64)>,
    /// Each group of hosts has one value, so that the setting cannot be told from the group.
    pub follows_group: bool,
    /// Chance that it is drawn anew on a host on a day.
    pub changes_per_day: f64,
}

/// A new kernel that hosts get.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelUpgrade {
    /// The first day of it, counted from 0.
    pub day: u32,
    /// Days over which hosts get it, each on one of them; 1 for all at once.
    pub over_days: u32,
    /// Kernel release before.
    pub from: String,
    /// Kernel release behind.
    pub to: String,
    /// What it does.
    pub slowdowns: Vec<Slowdown>,
}

/// What is missing of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Missing {
    /// Chance that a value of a metric or component is null.
    pub value_share: f64,
    /// Share of hosts whose older pagelab recorded neither components nor the number of CPUs: null throughout.
    pub old_version_share: f64,
    /// Chance that the file of a day lacks a column that questions can do without.
    pub column_share: f64,
}

impl FleetPlan {
    /// A fleet of hosts that are alike but for chance: one group, one to three runs a day, hosts 10 % and runs 5 % apart, the
    /// time of an operation with four components, and a rate.
    pub fn new(seed: u64, hosts: u32, days: u32) -> Self {
        let metric = |name: &str, unit: &str, direction, mean, is_time_of_components| MetricSeed {
            name: name.to_owned(),
            instance: None,
            unit: unit.to_owned(),
            direction,
            mean,
            sd: None,
            is_time_of_components,
        };
        let component =
            |name: &str, ns_per_operation| ComponentSeed { name: name.to_owned(), ns_per_operation, sd: 0.02 };
        Self {
            seed,
            hosts,
            // 2026-03-01.
            first_day: Day::of_ns(1_772_323_200_000_000_000),
            days,
            runs_per_day: [1, 3],
            host_sd: 0.1,
            run_sd: 0.05,
            groups: vec![HostGroup {
                name: "all".to_owned(),
                instance_type: "m1".to_owned(),
                weight: 1.0,
                slower_pct: 0.0,
            }],
            metrics: vec![
                metric("load.iops", "1/s", Direction::HigherIsBetter, 90_000.0, false),
                metric("run.elapsed_ns", "ns", Direction::LowerIsBetter, 0.0, true),
                metric("vmstat.pgfault", "", Direction::LowerIsBetter, 120_000.0, false),
            ],
            components: vec![
                component("run.user", 4_000.0),
                component("run.memory.clear", 1_500.0),
                component("run.fault.entry", 1_000.0),
                component("off.read", 3_500.0),
            ],
            causes: Vec::new(),
            harmless: Vec::new(),
            upgrade: None,
            missing: Missing::default(),
        }
    }

    /// Checks every option.
    ///
    /// # Errors
    /// [`FleetError::BadPlan`] with the option and the range that it must be in.
    pub fn check(&self) -> Result<()> {
        in_range("the number of hosts", self.hosts, 1, MOST_HOSTS, "1 to 10000")?;
        in_range("the number of days", self.days, 1, MOST_DAYS, "1 to 3660")?;
        let [least, most] = self.runs_per_day;
        in_range("the number of runs a day", most, least.max(1), MOST_RUNS, "least and most runs, the most 1 to 1440")?;
        let sds = [self.host_sd, self.run_sd].into_iter().chain(self.components.iter().map(|one| one.sd));
        for sd in sds.chain(self.metrics.iter().filter_map(|metric| metric.sd)) {
            needed("a standard deviation", &sd, sd >= 0.0 && sd.is_finite(), "a finite number, 0 or more")?;
        }
        let figures = self.metrics.iter().map(|metric| metric.mean);
        for figure in figures.chain(self.components.iter().map(|component| component.ns_per_operation)) {
            needed("a level of a metric or component", &figure, figure.is_finite(), "a finite number")?;
        }
        for share in [self.missing.value_share, self.missing.old_version_share, self.missing.column_share] {
            needed("a share of what is missing", &share, (0.0..=1.0).contains(&share), "0 to 1")?;
        }
        let weights = self.groups.iter().map(|group| group.weight);
        check_weights("the weights of host groups", weights)?;
        for harmless in &self.harmless {
            check_weights("the weights of a setting's values", harmless.values.iter().map(|(_, weight)| *weight))?;
            let chance = harmless.changes_per_day;
            needed("the chance that a setting changes", &chance, (0.0..=1.0).contains(&chance), "0 to 1")?;
        }
        needed("the number of metrics", &self.metrics.len(), !self.metrics.is_empty(), "at least 1")?;
        for cause in &self.causes {
            in_range("the number of slow hosts of a cause", cause.hosts, 0, self.hosts, "0 to the number of hosts")?;
        }
        if let Some(upgrade) = &self.upgrade {
            in_range("the days of an upgrade", upgrade.over_days, 1, MOST_DAYS, "1 to 3660")?;
        }
        self.check_slowdowns()?;
        let keys: Vec<&str> = self.setting_keys().collect();
        let distinct: BTreeSet<&str> = keys.iter().copied().collect();
        needed("the list of settings", &keys.join(" "), distinct.len() == keys.len(), "each setting once")
    }

    fn check_slowdowns(&self) -> Result<()> {
        let of_causes = self.causes.iter().flat_map(|cause| &cause.slowdowns);
        for slowdown in of_causes.chain(self.upgrade.iter().flat_map(|upgrade| &upgrade.slowdowns)) {
            let has_metric = self.metrics.iter().any(|metric| metric.name == slowdown.metric);
            needed("the metric of a slowdown", &slowdown.metric, has_metric, "one of the fleet's metrics")?;
            let has_component = self.components.iter().any(|component| component.name == slowdown.component);
            needed("the component of a slowdown", &slowdown.component, has_component, "one of the fleet's components")?;
            let is_size = slowdown.pct > -100.0 && slowdown.pct.is_finite();
            needed("the size of a slowdown", &slowdown.pct, is_size, "per cent, above -100")?;
        }
        for group in &self.groups {
            let is_size = group.slower_pct > -100.0 && group.slower_pct.is_finite();
            needed("the size of a host group's slowness", &group.slower_pct, is_size, "per cent, above -100")?;
        }
        Ok(())
    }

    /// The settings of hosts, in the order of the plan.
    pub(super) fn setting_keys(&self) -> impl Iterator<Item = &str> {
        let of_causes = self.causes.iter().map(|cause| cause.key.as_str());
        let harmless = self.harmless.iter().map(|setting| setting.key.as_str());
        of_causes.chain(harmless).chain(self.upgrade.iter().map(|_| KERNEL_SETTING))
    }
}

/// The setting in which an upgrade of the kernel shows.
pub(super) const KERNEL_SETTING: &str = "sysctl.kernel.osrelease";

fn needed(option: &'static str, found: &impl ToString, is_right: bool, needed: &'static str) -> Result<()> {
    if is_right {
        return Ok(());
    }
    Err(FleetError::BadPlan { option, found: found.to_string(), needed })
}

fn in_range(option: &'static str, found: u32, least: u32, most: u32, range: &'static str) -> Result<()> {
    needed(option, &found, (least..=most).contains(&found), range)
}

fn check_weights(option: &'static str, weights: impl Iterator<Item = f64> + Clone) -> Result<()> {
    let sum: f64 = weights.clone().sum();
    let is_right = weights.clone().all(|weight| weight >= 0.0) && sum > 0.0 && sum.is_finite();
    needed(option, &format!("{:?}", weights.collect::<Vec<_>>()), is_right, "0 or more each, and more than 0 in all")
}
