//! Fleets that are invented, with causes that are known: what the statistics are held to.
//!
//! A [`FleetPlan`] says how many hosts, days and runs there are, how far hosts and runs lie apart, which settings make hosts
//! slower and which do nothing, when a kernel is upgraded, and what is missing. [`Fleet::of`] checks it. Values are then a
//! function of the seed and of their place: of metric, host, day and run ([`Fleet::value`]), so that the tables agree with each
//! other and none of them is held in memory. [`Fleet::write`] writes a day at a time, in the order of the files, and holds the
//! list of one day's runs: 10,000 hosts with 24 runs a day take 20 MB.
//!
//! # The model of a value
//! ln value = ln mean + host + group + run + slowdowns, with host ~ N(0, `host_sd`) and run ~ N(0, `run_sd`) drawn for each
//! metric by itself. The components of the budget of time have host and run in common and a little noise of their own; a
//! metric that is the time of an operation is their sum, exactly, so that a difference in time is the sum of the components'
//! differences. A cause adds its per cent of that sum to the component that owns it.
//!
//! Hosts are called `host-00000` and so on; the run of a day `RUN` of a host is the recording `HOST.YYYY-MM-DD.RUN`.

mod draws;
mod plan;
mod write;

use std::sync::Arc;

use pagelab_vocab::metrics::Direction;

use crate::error::Result;
use crate::hosts::RunValue;
use crate::rollup::Text;
use draws::{Draws, Purpose};
use plan::KERNEL_SETTING;

pub use plan::{
    ComponentSeed, FleetPlan, HarmlessSetting, HostGroup, KernelUpgrade, MOST_HOSTS, MetricSeed, Missing, PlantedCause,
    Slowdown,
};
pub use write::Written;

/// Nanoseconds of a day.
const DAY_NS: f64 = 86_400e9;
/// Part of its share of the day in which a run begins, so that runs of a host stand in their order.
const START_SHARE: f64 = 0.8;
/// Place of the draws that all components have in common, behind the indices of metrics.
const TIME: u64 = u64::MAX;

/// The place of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunPlace {
    /// Index of the host.
    pub host: u32,
    /// Day, counted from 0.
    pub day: u32,
    /// Run of the host on that day, counted from 0.
    pub run: u32,
}

impl RunPlace {
    fn ids(self, of: u64) -> [u64; 4] {
        [of, u64::from(self.host), u64::from(self.day), u64::from(self.run)]
    }
}

/// A simulated fleet.
#[derive(Debug, Clone)]
pub struct Fleet {
    plan: FleetPlan,
    draws: Draws,
    names: Vec<Text>,
    /// Index of the group of each host.
    groups: Vec<usize>,
    /// Per cause, whether each host is one of its slow ones.
    slow: Vec<Vec<bool>>,
}

impl Fleet {
    /// Checks the plan and draws what belongs to hosts.
    ///
    /// # Errors
    /// [`crate::FleetError::BadPlan`].
    pub fn of(plan: FleetPlan) -> Result<Self> {
        plan.check()?;
        let draws = Draws::new(plan.seed);
        let names = (0..plan.hosts).map(|host| Arc::from(format!("host-{host:05}"))).collect();
        let weights: Vec<f64> = plan.groups.iter().map(|group| group.weight).collect();
        let groups = (0..u64::from(plan.hosts)).map(|host| pick(&weights, draws.uniform(Purpose::Group, &[host])));
        let groups = groups.collect();
        let slow = plan.causes.iter().enumerate().map(|(at, cause)| slow_hosts(draws, at, cause.hosts, plan.hosts));
        let slow = slow.collect();
        Ok(Self { plan, draws, names, groups, slow })
    }

    /// The plan.
    pub fn plan(&self) -> &FleetPlan {
        &self.plan
    }

    /// Name of a host; empty beyond the last.
    pub fn host_name(&self, host: u32) -> &str {
        self.names.get(host as usize).map_or("", |name| name.as_ref())
    }

    /// Whether a cause, by its index in the plan, is planted on a host.
    pub fn is_slow(&self, cause: usize, host: u32) -> bool {
        self.slow.get(cause).and_then(|slow| slow.get(host as usize)) == Some(&true)
    }

    /// The group of a host.
    pub fn group(&self, host: u32) -> Option<&HostGroup> {
        self.plan.groups.get(*self.groups.get(host as usize)?)
    }

    /// Number of runs of a host on a day.
    pub fn runs_on(&self, host: u32, day: u32) -> u32 {
        let [least, most] = self.plan.runs_per_day;
        let drawn = self.draws.uniform(Purpose::RunsOfDay, &[u64::from(host), u64::from(day)]);
        (least + (drawn * f64::from(most - least + 1)) as u32).min(most)
    }

    /// The runs of a day, by host and time.
    pub fn runs_of_day(&self, day: u32) -> impl Iterator<Item = RunPlace> {
        (0..self.plan.hosts)
            .flat_map(move |host| (0..self.runs_on(host, day)).map(move |run| RunPlace { host, day, run }))
    }

    /// When a run began, ns since the epoch.
    pub fn start_ns(&self, at: RunPlace) -> i64 {
        let most = f64::from(self.plan.runs_per_day[1].max(1));
        let within = START_SHARE * self.draws.uniform(Purpose::StartTime, &at.ids(0));
        let share = (f64::from(at.run) + within) / most;
        self.plan.first_day.after(at.day).start_ns().saturating_add((share * DAY_NS) as i64)
    }

    /// The value of a metric, by its index in the plan, in a run; `None` if it is missing.
    pub fn value(&self, metric: usize, at: RunPlace) -> Option<f64> {
        let seed = self.plan.metrics.get(metric)?;
        let of = metric as u64;
        if self.draws.uniform(Purpose::MissingValue, &at.ids(of)) < self.plan.missing.value_share {
            return None;
        }
        if seed.is_time_of_components {
            return Some(self.component_times(at).iter().sum());
        }
        let host = self.draws.normal(Purpose::HostLevel, &[of, u64::from(at.host)]);
        let run = self.draws.normal(Purpose::RunNoise, &at.ids(of));
        if seed.mean <= 0.0 {
            return Some(seed.mean + seed.sd.unwrap_or(0.0) * (host + run));
        }
        // The logarithm's standard deviation of a log-normal value with this coefficient of variation.
        let run_sd = seed.sd.map_or(self.plan.run_sd, |sd| (sd / seed.mean).powi(2).ln_1p().sqrt());
        let slower = self.slower(at).filter(|slowdown| slowdown.metric == seed.name).map(|slowdown| slowdown.pct);
        let factor: f64 = slower.chain(self.group(at.host).map(|group| group.slower_pct)).map(of_pct).product();
        let factor = if seed.direction == Direction::HigherIsBetter { factor.recip() } else { factor };
        Some(seed.mean * (self.plan.host_sd * host + run_sd * run).exp() * factor)
    }

    /// The time per operation of a component, by its index in the plan, in a run; `None` if it is missing.
    pub fn component(&self, component: usize, at: RunPlace) -> Option<f64> {
        let of = TIME - 1 - component as u64;
        let missing = self.draws.uniform(Purpose::MissingValue, &at.ids(of)) < self.plan.missing.value_share;
        if missing || self.has_old_version(at.host) {
            return None;
        }
        self.component_times(at).get(component).copied()
    }

    /// The times of all components in a run, ns per operation.
    fn component_times(&self, at: RunPlace) -> Vec<f64> {
        let host = self.draws.normal(Purpose::HostLevel, &[TIME, u64::from(at.host)]);
        let run = self.draws.normal(Purpose::RunNoise, &at.ids(TIME));
        let group = self.group(at.host).map_or(1.0, |group| of_pct(group.slower_pct));
        let common = (self.plan.host_sd * host + self.plan.run_sd * run).exp() * group;
        let time = |(index, seed): (usize, &ComponentSeed)| {
            let own = self.draws.normal(Purpose::ComponentNoise, &at.ids(index as u64));
            seed.ns_per_operation * common * (seed.sd * own).exp()
        };
        let mut times: Vec<f64> = self.plan.components.iter().enumerate().map(time).collect();
        let operation: f64 = times.iter().sum();
        for slowdown in self.slower(at) {
            let owner = self.plan.components.iter().position(|component| component.name == slowdown.component);
            if let Some(time) = owner.and_then(|owner| times.get_mut(owner)) {
                *time += operation * slowdown.pct / 100.0;
            }
        }
        times
    }

    /// What makes a run slower.
    fn slower(&self, at: RunPlace) -> impl Iterator<Item = &Slowdown> {
        let causes = self.plan.causes.iter().enumerate();
        let of_causes = causes
            .filter(move |(index, cause)| at.day >= cause.from_day && self.is_slow(*index, at.host))
            .flat_map(|(_, cause)| &cause.slowdowns);
        let upgrade = self.plan.upgrade.as_ref().filter(|_| self.is_upgraded(at.host, at.day));
        of_causes.chain(upgrade.into_iter().flat_map(|upgrade| &upgrade.slowdowns))
    }

    /// Whether a host has the new kernel on a day.
    pub fn is_upgraded(&self, host: u32, day: u32) -> bool {
        self.plan.upgrade.as_ref().is_some_and(|upgrade| {
            let drawn = self.draws.uniform(Purpose::UpgradeDay, &[u64::from(host)]);
            day >= upgrade.day.saturating_add((drawn * f64::from(upgrade.over_days)) as u32)
        })
    }

    /// The kernel of a host on a day.
    pub fn kernel(&self, host: u32, day: u32) -> &str {
        match &self.plan.upgrade {
            Some(upgrade) if self.is_upgraded(host, day) => &upgrade.to,
            Some(upgrade) => &upgrade.from,
            None => "6.12.0",
        }
    }

    fn has_old_version(&self, host: u32) -> bool {
        self.draws.uniform(Purpose::OldVersion, &[u64::from(host)]) < self.plan.missing.old_version_share
    }

    /// The keys of all settings, in the order of the plan: causes, harmless ones, the kernel's release.
    pub fn setting_keys(&self) -> Vec<&str> {
        self.plan.setting_keys().collect()
    }

    /// The value of a setting, by its index in [`Self::setting_keys`], on a host on a day.
    pub fn setting(&self, index: usize, host: u32, day: u32) -> Option<&str> {
        if let Some(cause) = self.plan.causes.get(index) {
            let is_slow = self.is_slow(index, host) && day >= cause.from_day;
            return Some(if is_slow { &cause.value } else { &cause.usual });
        }
        let harmless = index - self.plan.causes.len();
        if let Some(setting) = self.plan.harmless.get(harmless) {
            return self.harmless(setting, harmless as u64, host, day);
        }
        self.plan.setting_keys().nth(index).filter(|key| *key == KERNEL_SETTING).map(|_| self.kernel(host, day))
    }

    fn harmless<'a>(&self, setting: &'a HarmlessSetting, index: u64, host: u32, day: u32) -> Option<&'a str> {
        if setting.follows_group {
            let group = self.groups.get(host as usize).copied().unwrap_or(0);
            return setting.values.get(group % setting.values.len()).map(|(value, _)| value.as_str());
        }
        let host = u64::from(host);
        let changes = if setting.changes_per_day > 0.0 {
            let changes =
                |day: &u64| self.draws.uniform(Purpose::SettingChange, &[index, host, *day]) < setting.changes_per_day;
            (1..=u64::from(day)).filter(changes).count() as u64
        } else {
            0
        };
        let weights: Vec<f64> = setting.values.iter().map(|(_, weight)| *weight).collect();
        let picked = pick(&weights, self.draws.uniform(Purpose::SettingValue, &[index, host, changes]));
        setting.values.get(picked).map(|(value, _)| value.as_str())
    }

    /// All values of a metric, by its index in the plan, with the places of their runs: for statistics without files.
    pub fn values_of(&self, metric: usize) -> Vec<(RunPlace, RunValue<'_>)> {
        let places = (0..self.plan.days).flat_map(|day| self.runs_of_day(day));
        places
            .map(|at| {
                let value = self.value(metric, at);
                (at, RunValue { host: self.host_name(at.host), start_ns: Some(self.start_ns(at)), value })
            })
            .collect()
    }
}

/// The factor of so many per cent more.
fn of_pct(pct: f64) -> f64 {
    1.0 + pct / 100.0
}

/// The index whose part of the weights holds this share of their sum.
fn pick(weights: &[f64], share: f64) -> usize {
    let mut left = share * weights.iter().sum::<f64>();
    for (at, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return at;
        }
    }
    weights.len().saturating_sub(1)
}

/// Which hosts are the slow ones of a cause: those with the smallest draws.
fn slow_hosts(draws: Draws, cause: usize, count: u32, hosts: u32) -> Vec<bool> {
    let mut order: Vec<u32> = (0..hosts).collect();
    order.sort_by_key(|host| (draws.bits(Purpose::CauseHosts, &[cause as u64, u64::from(*host)]), *host));
    let mut slow = vec![false; hosts as usize];
    for host in order.into_iter().take(count as usize) {
        if let Some(slot) = slow.get_mut(host as usize) {
            *slot = true;
        }
    }
    slow
}
