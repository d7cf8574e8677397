//! The file of a kept case: what rules may look at of three runs a side, as JSON, a line for each run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pagelab_analysis::compare::Moved;
use pagelab_analysis::rules::evidence::{
    Account, Contrast, Devices, Events, Evidence, KernelSamples, PlaceTime, PoolLevels, PrimaryEvidence, RunEvidence,
    SettingChange, SideEvidence, Workers,
};
use pagelab_analysis::rules::{Confidence, SideName};
use pagelab_views::mappings::MappingProfile;
use pagelab_views::metrics::info::info;
use pagelab_views::run::{MetricKey, RunMetric, StreamLoss};
use pagelab_vocab::budget::COMPONENTS;
use pagelab_vocab::causes::cause;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compact::{packed, unpacked};

/// The largest file.
pub(crate) const MOST_BYTES: u64 = 16 << 10;

/// Least part of the time of a run that a place must have to be kept.
const LEAST_PLACE: f64 = 0.01;

/// Runs that are kept of a side.
pub(crate) const RUNS: usize = 3;

/// A case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// What was planted.
    pub(crate) cause: String,
    /// The word that it is named with.
    pub(crate) confidence: Confidence,
    /// The version of pagelab that recorded it, and on which kernel.
    pub(crate) recorded: String,
    /// Components of the account of time at that time: a new one takes time from others.
    pub(crate) components: BTreeSet<String>,
    /// Kind and unit of each metric at that time.
    pub(crate) metrics: BTreeMap<String, String>,
    pub(crate) primary: Option<KeptPrimary>,
    pub(crate) rise: Option<KeptRise>,
    pub(crate) differing: Vec<KeptChange>,
    pub(crate) varying: Vec<String>,
    pub(crate) blocks: bool,
    pub(crate) same_work: Option<bool>,
    pub(crate) base_settings: BTreeMap<String, String>,
    pub(crate) test_settings: BTreeMap<String, String>,
    pub(crate) base_varied: BTreeSet<String>,
    pub(crate) test_varied: BTreeSet<String>,
    pub(crate) base: Vec<KeptRun>,
    pub(crate) test: Vec<KeptRun>,
}

/// The primary metric's verdict, of the whole set.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptPrimary {
    metric: String,
    ratio: Option<f64>,
    ratio_ci95: Option<[f64; 2]>,
    p: Option<f64>,
    significant: bool,
    slower: Option<SideName>,
}

/// Components that rose where the whole shows no difference.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptRise {
    slower: SideName,
    ns: f64,
    causes: Vec<String>,
    components: Vec<String>,
}

/// A setting that differs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptChange {
    pub(crate) key: String,
    pub(crate) base: Option<String>,
    pub(crate) test: Option<String>,
    pub(crate) follows: bool,
}

/// A run. A metric is its value and its events.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptRun {
    window_ns: f64,
    whole_life: bool,
    operations: Option<f64>,
    cpu_speed: Option<f64>,
    pub(crate) account: Option<BTreeMap<String, f64>>,
    /// Component, way into the kernel and functions, with `|` between them; only what is worth a word.
    #[serde(default)]
    places: BTreeMap<String, f64>,
    pub(crate) metrics: BTreeMap<String, [Option<f64>; 2]>,
    calls: Option<BTreeMap<String, f64>>,
    #[serde(default)]
    given_back_bytes: Option<f64>,
    faults: Option<BTreeMap<String, f64>>,
    forks: Option<f64>,
    threads: Option<f64>,
    execs: Option<f64>,
    /// All, in the kernel, in faults.
    kernel_samples: Option<[f64; 3]>,
    /// Runtime, user, system.
    workers: Option<(f64, Option<f64>, Option<f64>)>,
    pub(crate) loss: BTreeMap<String, StreamLoss>,
    /// Least available, first available, most pages, most surplus, by page size.
    pools: BTreeMap<u64, [f64; 4]>,
    pub(crate) unreadable: Vec<String>,
    /// Files of before recordings told have none.
    #[serde(default)]
    devices: Devices,
    pub(crate) profile: Option<MappingProfile>,
}

impl KeptRun {
    /// What rules may look at of a run.
    ///
    /// # Panics
    /// If a part of its account of time is missing: such a run is not worth keeping.
    pub(crate) fn of(run: &RunEvidence) -> Self {
        let account = run.account.as_ref().map(|account| {
            assert_eq!(account.reason(), None, "the account of time has a hole");
            let time = |name: &str| account.time_ns(&[name]).filter(|ns| *ns != 0.0);
            let known = COMPONENTS.iter().map(|component| component.name).chain([pagelab_vocab::budget::IDLE]);
            known.filter_map(|name| Some((name.to_owned(), time(name)?))).collect()
        });
        Self {
            window_ns: run.window_ns,
            whole_life: run.whole_life,
            operations: run.operations,
            cpu_speed: run.cpu_speed,
            account,
            places: run.account.as_ref().map(places).unwrap_or_default(),
            metrics: run.metrics.iter().map(|(key, metric)| (key.to_string(), [metric.value, metric.events])).collect(),
            calls: run.events_by_kind.calls.clone(),
            given_back_bytes: run.events_by_kind.given_back_bytes,
            faults: run.events_by_kind.faults.clone(),
            forks: run.events_by_kind.forks,
            threads: run.events_by_kind.threads,
            execs: run.events_by_kind.execs,
            kernel_samples: run.kernel_samples.map(|samples| [samples.all, samples.kernel, samples.in_faults]),
            workers: run.workers.map(|workers| (workers.runtime_ns, workers.user_ns, workers.system_ns)),
            loss: run.loss.clone(),
            pools: run.pools.iter().map(|(size, of)| (*size, levels(of))).collect(),
            unreadable: run.unreadable.clone(),
            devices: run.devices.clone(),
            profile: run.profile.clone(),
        }
    }

    fn evidence(&self) -> RunEvidence {
        RunEvidence {
            profile: self.profile.clone(),
            window_ns: self.window_ns,
            whole_life: self.whole_life,
            operations: self.operations,
            metrics: self.metrics.iter().map(|(name, of)| metric(name, *of, self.operations)).collect(),
            account: self.account.clone().map(|components| placed(Account::of_components(components), &self.places)),
            cpu_speed: self.cpu_speed,
            events_by_kind: Events {
                calls: self.calls.clone(),
                given_back_bytes: self.given_back_bytes,
                faults: self.faults.clone(),
                forks: self.forks,
                threads: self.threads,
                execs: self.execs,
            },
            kernel_samples: self.kernel_samples.map(|[all, kernel, in_faults]| KernelSamples {
                all,
                kernel,
                in_faults,
            }),
            workers: self.workers.map(|(runtime_ns, user_ns, system_ns)| Workers { runtime_ns, user_ns, system_ns }),
            loss: self.loss.clone(),
            pools: self.pools.iter().map(|(size, of)| (*size, pool(*of))).collect(),
            unreadable: self.unreadable.clone(),
            devices: self.devices.clone(),
        }
    }
}

/// Places of waits are few; of those on CPUs the large ones are kept, each with its entry.
fn places(account: &Account) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    let whole: f64 = account.places().iter().map(|place| place.ns).sum();
    for place in account.places().iter().filter(|place| place.ns >= LEAST_PLACE * whole) {
        let Some(entry) = &place.entry else { continue };
        let function = place.function.as_deref().filter(|_| place.component.starts_with("off."));
        *all.entry(format!("{}|{entry}|{}", place.component, function.unwrap_or_default())).or_default() += place.ns;
    }
    all
}

/// Accounts of files from before there were places have none.
fn placed(account: Account, places: &BTreeMap<String, f64>) -> Account {
    if places.is_empty() {
        return account;
    }
    let place = |(key, ns): (&String, &f64)| {
        let mut words = key.splitn(3, '|').map(|word| (!word.is_empty()).then(|| word.to_owned()));
        let mut next = || words.next().flatten();
        PlaceTime { component: next().unwrap_or_default(), entry: next(), function: next(), module: None, ns: *ns }
    };
    account.placed(places.iter().map(place).collect())
}

fn levels(of: &PoolLevels) -> [f64; 4] {
    [of.least_available, of.first_available, of.most_pages, of.most_surplus]
}

fn pool([least_available, first_available, most_pages, most_surplus]: [f64; 4]) -> PoolLevels {
    PoolLevels { least_available, first_available, most_pages, most_surplus }
}

/// `name` or `name[instance]`.
fn key_of(text: &str) -> MetricKey {
    let with_instance = text.strip_suffix(']').and_then(|rest| rest.split_once('['));
    with_instance.map_or_else(|| MetricKey::new(text, None), |(name, instance)| MetricKey::new(name, Some(instance)))
}

fn metric(text: &str, [value, events]: [Option<f64>; 2], operations: Option<f64>) -> (MetricKey, RunMetric) {
    let key = key_of(text);
    let known = info(&key.name);
    let per_operation = events.zip(operations).filter(|(_, count)| *count > 0.0).map(|(events, count)| events / count);
    let (kind, unit) = (known.kind, known.unit);
    (key, RunMetric { value, kind, unit, per_operation, events, resolution: None, note: None })
}

/// Kind and unit of a metric, as the vocabulary has them now.
pub(crate) fn kind_of(text: &str) -> String {
    let known = info(&key_of(text).name);
    format!("{} {}", known.kind.name(), known.unit.suffix()).trim_end().to_owned()
}

/// The components of the account of time, as the vocabulary has them now.
pub(crate) fn components() -> BTreeSet<String> {
    COMPONENTS.iter().map(|component| component.name.to_owned()).collect()
}

impl From<&PrimaryEvidence> for KeptPrimary {
    fn from(of: &PrimaryEvidence) -> Self {
        let PrimaryEvidence { metric, ratio, ratio_ci95, p, significant, slower } = of.clone();
        Self { metric, ratio, ratio_ci95, p, significant, slower }
    }
}

impl From<&Moved> for KeptRise {
    fn from(of: &Moved) -> Self {
        let causes = of.causes.iter().map(|cause| (*cause).to_owned()).collect();
        Self { slower: of.slower, ns: of.ns, causes, components: of.components.clone() }
    }
}

impl From<&SettingChange> for KeptChange {
    fn from(of: &SettingChange) -> Self {
        let SettingChange { key, base, test, follows } = of.clone();
        Self { key, base, test, follows }
    }
}

impl Kept {
    /// Reads a file.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let document = serde_json::from_str(&text).map(|packed| unpacked(packed, RUNS));
        document.and_then(serde_json::from_value).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Writes it, each key in a line of its own.
    pub(crate) fn save(&self, path: &Path) -> Result<(), String> {
        let document = serde_json::to_value(self).map_err(|error| error.to_string())?;
        let Value::Object(fields) = packed(shorter(&document)) else { return Err("a case is an object".to_owned()) };
        let lines: Vec<String> =
            fields.iter().map(|(key, value)| format!("{}: {value}", Value::from(key.as_str()))).collect();
        let text = format!("{{\n{}\n}}\n", lines.join(",\n"));
        if text.len() as u64 > MOST_BYTES {
            let sizes: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key} {}", value.to_string().len())).collect();
            return Err(format!("found {} bytes, needed at most {MOST_BYTES}: {}", text.len(), sizes.join(", ")));
        }
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// What rules are given.
    pub(crate) fn evidence(&self) -> Evidence {
        let side = |name, runs: &[KeptRun], settings: &BTreeMap<_, _>, varied: &BTreeSet<_>| SideEvidence {
            name,
            alone: false,
            runs: runs.iter().map(KeptRun::evidence).collect(),
            settings: settings.clone(),
            varied: varied.clone(),
        };
        let change = |of: &KeptChange| {
            let KeptChange { key, base, test, follows } = of.clone();
            SettingChange { key, base, test, follows }
        };
        let contrast = Contrast {
            base: side(SideName::Base, &self.base, &self.base_settings, &self.base_varied),
            primary: self.primary.as_ref().map(primary_of),
            rise: self.rise.as_ref().map(rise_of),
            differing: self.differing.iter().map(change).collect(),
            varying: self.varying.clone(),
            blocks: self.blocks,
            same_work: self.same_work,
        };
        let test = side(SideName::Test, &self.test, &self.test_settings, &self.test_varied);
        Evidence { test, contrast: Some(contrast) }
    }

    /// What has changed in what is recorded since the case was kept.
    pub(crate) fn older_than_today(&self) -> impl Iterator<Item = String> + '_ {
        let now = components();
        let moved: Vec<&String> = now.symmetric_difference(&self.components).collect();
        let account = (!moved.is_empty()).then(|| format!("the account of time has other components: {moved:?}"));
        let other = self.metrics.iter().filter(|(name, kind)| kind_of(name) != **kind);
        let metrics: Vec<String> =
            other.map(|(name, kind)| format!("{name} was a {kind} and is a {}", kind_of(name))).collect();
        account.into_iter().chain(metrics)
    }
}

fn primary_of(of: &KeptPrimary) -> PrimaryEvidence {
    let KeptPrimary { metric, ratio, ratio_ci95, p, significant, slower } = of.clone();
    PrimaryEvidence { metric, ratio, ratio_ci95, p, significant, slower }
}

fn rise_of(of: &KeptRise) -> Moved {
    let causes = of.causes.iter().filter_map(|name| cause(name)).map(|def| def.id).collect();
    Moved { slower: of.slower, ns: of.ns, causes, components: of.components.clone() }
}

/// Six digits are more than a measurement has.
fn shorter(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let rounded: f64 = format!("{:.5e}", number.as_f64().unwrap_or_default()).parse().unwrap_or_default();
            if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
                Value::from(rounded as i64)
            } else {
                Value::from(rounded)
            }
        }
        Value::Array(items) => items.iter().map(shorter).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), shorter(value))).collect::<serde_json::Map<_, _>>().into()
        }
        other => other.clone(),
    }
}
