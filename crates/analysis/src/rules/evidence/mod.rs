//! Everything that a rule may look at.
//!
//! Rules are given [`Evidence`] and nothing else. It holds no label, no variant, no plan and no name of a job, so that
//! a rule cannot read the answer off the names of the runs. The names of threads and files in mappings serve to
//! describe; sides are matched by the kind of memory, not by its name.

mod account;
mod collect;
mod devices;
mod events;
mod pools;
mod samples;
mod workers;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use account::is_of;
pub use account::{Account, PlaceTime};
pub(super) use collect::differing;
pub use collect::{of_comparison, of_run, of_side};
pub use devices::Devices;
pub use events::Events;
pub(crate) use events::{DAX_PAGE, OF_FILE, ON_PRESENT_PAGE};
pub use pools::PoolLevels;
pub use samples::KernelSamples;
pub use workers::Workers;

use super::finding::SideName;
use crate::compare::Moved;
use pagelab_views::mappings::MappingProfile;
use pagelab_views::run::{MetricKey, RunMetric, StreamLoss};
use pagelab_views::share_a_unit;

/// The errno of a request that found no memory.
pub const ENOMEM: i32 = 12;

/// One run, without anything that says what it was meant to show.
#[derive(Debug, Clone, Default)]
pub struct RunEvidence {
    /// Mappings and faults; `None` if they were not recorded.
    pub profile: Option<MappingProfile>,
    /// Length of the measured time.
    pub window_ns: f64,
    /// Whether that is the whole life of the program, from exec to exit.
    pub whole_life: bool,
    /// Operations in it; 1 for a command; `None` if unknown.
    pub operations: Option<f64>,
    /// Metrics, those of single jobs left out.
    pub metrics: BTreeMap<MetricKey, RunMetric>,
    /// The block devices that the target worked on.
    pub devices: Devices,
    /// What the measured time was spent on; `None` if states of tasks were not recorded.
    pub account: Option<Account>,
    /// How fast the CPUs were (`cpu_speed`), calls per second; `None` if that was not measured.
    pub cpu_speed: Option<f64>,
    /// Calls and faults by kind.
    pub events_by_kind: Events,
    /// Samples of the profile in the kernel; `None` without a profile.
    pub kernel_samples: Option<KernelSamples>,
    /// The load's workers together; `None` for a command.
    pub workers: Option<Workers>,
    /// What each stream saw and lost.
    pub loss: BTreeMap<String, StreamLoss>,
    /// Pools of huge pages by page size in bytes, over the whole recording.
    pub pools: BTreeMap<u64, PoolLevels>,
    /// What of the recording could not be read, and why.
    pub unreadable: Vec<String>,
}

impl RunEvidence {
    /// Increase of a counter in the window.
    pub fn events(&self, name: &str, instance: Option<&str>) -> Option<f64> {
        self.metrics.get(&MetricKey::new(name, instance))?.events
    }

    /// Value of a metric without instance.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.metrics.get(&MetricKey::new(name, None))?.value
    }

    /// Time in the kernel, ns, of the measured program: for a load its workers' in their measured time, for a command
    /// the wait4 accounts at its end, else the samples in the window.
    pub fn kernel_ns(&self) -> Option<f64> {
        let sampled = || {
            let own = self.events("target.stat.stime_ns", None)?;
            Some(own + self.events("target.stat.child_stime_ns", None).unwrap_or(0.0))
        };
        let of_workers = self.workers.and_then(|workers| workers.system_ns);
        of_workers.or_else(|| self.value("run.stime_ns")).or_else(sampled)
    }

    /// Time on a CPU, ns, likewise.
    pub fn cpu_ns(&self) -> Option<f64> {
        let of_workers = self.workers.and_then(|workers| Some(workers.user_ns? + workers.system_ns?));
        let of_exit = || Some(self.value("run.utime_ns")? + self.value("run.stime_ns")?);
        let sampled = || {
            let own = self.events("target.stat.utime_ns", None)? + self.events("target.stat.stime_ns", None)?;
            let child = |name| self.events(name, None).unwrap_or(0.0);
            Some(own + child("target.stat.child_utime_ns") + child("target.stat.child_stime_ns"))
        };
        of_workers.or_else(|| self.value("run.cpu_ns")).or_else(of_exit).or_else(sampled)
    }

    /// How many workers were at work at once, on average: known of a load, at least 1.
    pub fn concurrency(&self) -> Option<f64> {
        let workers = self.workers?;
        (self.window_ns > 0.0).then(|| (workers.runtime_ns / self.window_ns).max(1.0))
    }

    /// What the stream lost, as far as the recording says.
    pub fn lost(&self, stream: &str) -> StreamLoss {
        self.loss.get(stream).copied().unwrap_or_default()
    }
}

/// The runs of one side.
#[derive(Debug, Clone)]
pub struct SideEvidence {
    /// Which side.
    pub name: SideName,
    /// It is the only one: a lone recording, which nobody calls base or test.
    pub alone: bool,
    /// Its runs that count.
    pub runs: Vec<RunEvidence>,
    /// Settings at the start that have one value in all runs.
    pub settings: BTreeMap<String, String>,
    /// Settings that had several.
    pub varied: BTreeSet<String>,
}

impl SideEvidence {
    /// What sentences call it.
    pub const fn word(&self) -> &'static str {
        if self.alone { "this recording" } else { self.name.word() }
    }

    /// A setting that has one value in all runs.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// The values that `of` finds in the runs.
    pub fn values<'a>(&'a self, of: impl Fn(&'a RunEvidence) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().filter_map(of).filter(|value| value.is_finite()).collect()
    }

    /// Their median, `None` unless at least half of the runs have one.
    pub fn median<'a>(&'a self, of: impl Fn(&'a RunEvidence) -> Option<f64>) -> Option<f64> {
        let values = self.values(of);
        if values.is_empty() || values.len() * 2 < self.runs.len() {
            return None;
        }
        crate::stats::median(&values).ok()
    }

    /// Whether `holds` in at least four fifths of the runs that can tell; `None` if fewer than half of them can.
    pub fn mostly<'a>(&'a self, holds: impl Fn(&'a RunEvidence) -> Option<bool>) -> Option<bool> {
        let told: Vec<bool> = self.runs.iter().filter_map(holds).collect();
        if told.is_empty() || told.len() * 2 < self.runs.len() {
            return None;
        }
        let yes = told.iter().filter(|yes| **yes).count();
        Some(yes * 5 >= told.len() * 4)
    }
}

/// The primary metric's verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct PrimaryEvidence {
    /// Its name.
    pub metric: String,
    /// test / base.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub ratio_ci95: Option<[f64; 2]>,
    /// p value.
    pub p: Option<f64>,
    /// Whether a difference was shown at the level of the comparison.
    pub significant: bool,
    /// The side that is worse off, if one is.
    pub slower: Option<SideName>,
}

/// A setting that differs between the sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// Key.
    pub key: String,
    /// Value on the base.
    pub base: Option<String>,
    /// Value on the test side.
    pub test: Option<String>,
    /// A reading of the present state, or computed from another key that differs too: no decision of its own.
    pub follows: bool,
}

/// The relation of two sides.
#[derive(Debug, Clone)]
pub struct Contrast {
    /// The base.
    pub base: SideEvidence,
    /// The primary metric.
    pub primary: Option<PrimaryEvidence>,
    /// Where that shows no difference: components whose time differs all the same.
    pub rise: Option<Moved>,
    /// Settings that differ, constant on either side.
    pub differing: Vec<SettingChange>,
    /// Settings that varied within a side.
    pub varying: Vec<String>,
    /// Runs were made in randomised blocks, one of either side in each.
    pub blocks: bool,
    /// Both sides ran the same command or job; `None` if the recordings do not say, or if it varied within a side.
    pub same_work: Option<bool>,
}

/// Everything that a rule may look at.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The side judged, or the lone recording.
    pub test: SideEvidence,
    /// The other side; `None` for a lone recording.
    pub contrast: Option<Contrast>,
}

impl Contrast {
    /// The side that suffers: the slower one by the primary metric, or the one on which components rose.
    pub fn slower(&self) -> Option<SideName> {
        let of_whole = self.primary.as_ref().filter(|primary| primary.significant).and_then(|primary| primary.slower);
        of_whole.or_else(|| self.rise.as_ref().map(|rise| rise.slower))
    }
}

impl Evidence {
    /// The side of that name.
    pub fn side(&self, name: SideName) -> Option<&SideEvidence> {
        if name == self.test.name {
            return Some(&self.test);
        }
        self.contrast.as_ref().map(|contrast| &contrast.base).filter(|base| base.name == name)
    }

    /// Whether every run knows its operations, so that amounts can be given per operation.
    pub fn per_operation(&self) -> bool {
        let base = self.contrast.iter().flat_map(|contrast| &contrast.base.runs);
        share_a_unit(self.test.runs.iter().chain(base).map(|run| run.operations))
    }

    /// The word for the unit that amounts are given per.
    pub fn per(&self) -> &'static str {
        let base = self.contrast.iter().flat_map(|contrast| &contrast.base.runs);
        let commands =
            self.test.runs.iter().chain(base).all(|run| run.operations.is_some_and(|n| (n - 1.0).abs() < 1e-9));
        match (self.per_operation(), commands) {
            (true, true) => "run",
            (true, false) => "operation",
            (false, _) => "second",
        }
    }

    /// An amount of a run per unit of work: per operation if known for all runs, else per second.
    pub fn per_work(&self, run: &RunEvidence, amount: f64) -> Option<f64> {
        let work = if self.per_operation() { run.operations? } else { run.window_ns / 1e9 };
        (work > 0.0).then(|| amount / work)
    }
}
