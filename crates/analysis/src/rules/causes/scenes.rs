//! Evidence for tests: two sides, each given by the figures of one run, from which eight runs with a little noise are made.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_views::run::{MetricKey, RunMetric};
use pagelab_vocab::metrics::{MetricKind, Unit};

use crate::rules::evidence::{
    Account, Contrast, Devices, Events, Evidence, PlaceTime, PrimaryEvidence, RunEvidence, SettingChange, SideEvidence,
};
use crate::rules::finding::SideName;

/// Time of a run of the fast side, and of the cause's components in it.
pub(super) const FAST_NS: f64 = 1e9;
pub(super) const OWN_NS: f64 = 1e8;
pub(super) const RUNS: usize = 8;

/// One side of a scene, before noise.
#[derive(Debug, Clone, Default)]
pub(super) struct Side {
    pub(super) components: BTreeMap<String, f64>,
    pub(super) metrics: BTreeMap<MetricKey, f64>,
    pub(super) calls: BTreeMap<String, f64>,
    pub(super) faults: BTreeMap<String, f64>,
    pub(super) given_back_bytes: f64,
    pub(super) forks: f64,
    pub(super) threads: f64,
    pub(super) execs: f64,
    pub(super) cpu_speed: f64,
    pub(super) settings: BTreeMap<String, String>,
    /// The way into the kernel in which all time is spent, and the function that puts tasks to sleep.
    pub(super) entry: Option<String>,
    pub(super) function: Option<String>,
    /// Components whose time is spent in another function.
    pub(super) functions: BTreeMap<String, String>,
    /// The target's block device, where that is known.
    pub(super) device: Option<String>,
    /// No stacks were recorded: nothing is known of that.
    pub(super) has_no_stacks: bool,
}

pub(super) fn key(name: &str) -> MetricKey {
    let (name, instance) = match name.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        Some((name, instance)) => (name, Some(instance)),
        None if name.starts_with("disk.") => (name, Some("vda")),
        None => (name, None),
    };
    MetricKey::new(name, instance)
}

impl Side {
    /// Lets the figures of `vda` be those of the target's own device, where that is another one.
    pub(super) fn move_to_own_device(&mut self) {
        let Some(own) = self.device.clone().filter(|own| own != "vda") else { return };
        let of_vda = self.metrics.extract_if(.., |key, _| key.instance.as_deref() == Some("vda"));
        let moved: Vec<_> = of_vda.map(|(of, value)| (key(&format!("{}[{own}]", of.name)), value)).collect();
        self.metrics.extend(moved);
    }
}

pub(super) struct Noise(pub(super) u64);

impl Noise {
    /// A factor within 0.5 % of 1.
    fn factor(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        1.0 + (self.0 % 1001) as f64 / 1e5 - 0.005
    }
}

fn run(side: &Side, noise: &mut Noise) -> RunEvidence {
    let metric = |value: f64| RunMetric {
        value: Some(value),
        kind: MetricKind::Counter,
        unit: Unit::Count,
        per_operation: Some(value),
        events: Some(value),
        resolution: None,
        note: None,
    };
    let components: BTreeMap<String, f64> =
        side.components.iter().map(|(name, ns)| (name.clone(), ns * noise.factor())).collect();
    let place = |(component, ns): (&String, &f64)| {
        let named = side.functions.get(component).or(side.function.as_ref());
        let named = named.map_or("schedule_timeout", String::as_str);
        let (module, function) =
            named.split_once('!').map_or((None, named), |(module, function)| (Some(module.to_owned()), function));
        PlaceTime {
            component: component.clone(),
            entry: side.entry.clone().or_else(|| Some("fsync".to_owned())),
            function: Some(function.to_owned()),
            module,
            ns: *ns,
        }
    };
    let places = components.iter().map(place).collect();
    let account = Account::of_components(components.clone());
    let names: Vec<String> = side.device.iter().cloned().collect();
    RunEvidence {
        devices: Devices { are_known: side.device.is_some(), main: side.device.clone(), main_is: None, names },
        window_ns: components.values().sum::<f64>() + FAST_NS - OWN_NS - 6e8,
        whole_life: true,
        operations: Some(1.0),
        metrics: side.metrics.iter().map(|(key, value)| (key.clone(), metric(value * noise.factor()))).collect(),
        account: Some(if side.has_no_stacks { account } else { account.placed(places) }),
        cpu_speed: Some(side.cpu_speed),
        events_by_kind: Events {
            calls: Some(side.calls.clone()),
            given_back_bytes: Some(side.given_back_bytes),
            faults: Some(side.faults.clone()),
            forks: Some(side.forks),
            threads: Some(side.threads),
            execs: Some(side.execs),
        },
        ..RunEvidence::default()
    }
}

pub(super) fn side_evidence(name: SideName, side: &Side, noise: &mut Noise, alone: bool) -> SideEvidence {
    SideEvidence {
        name,
        alone,
        runs: (0..RUNS).map(|_| run(side, noise)).collect(),
        settings: side.settings.clone(),
        varied: BTreeSet::new(),
    }
}

/// Evidence in which test is the slow side.
pub(super) fn evidence(fast: &Side, slow: &Side) -> Evidence {
    evidence_of(fast, slow, SideName::Test)
}

/// Evidence in which `slower` is the slow side.
pub(super) fn evidence_of(fast: &Side, slow: &Side, slower: SideName) -> Evidence {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let [base, test] = if slower == SideName::Test { [fast, slow] } else { [slow, fast] };
    let keys: BTreeSet<&String> = base.settings.keys().chain(test.settings.keys()).collect();
    let differing = keys.into_iter().filter(|key| base.settings.get(*key) != test.settings.get(*key));
    let contrast = Contrast {
        rise: None,
        base: side_evidence(SideName::Base, base, &mut noise, false),
        primary: Some(PrimaryEvidence {
            metric: "run.elapsed_ns".to_owned(),
            ratio: Some(1.5),
            ratio_ci95: Some([1.45, 1.55]),
            p: Some(1e-6),
            significant: true,
            slower: Some(slower),
        }),
        differing: differing
            .map(|key| SettingChange {
                key: key.clone(),
                base: base.settings.get(key).cloned(),
                test: test.settings.get(key).cloned(),
                follows: false,
            })
            .collect(),
        varying: Vec::new(),
        blocks: false,
        same_work: Some(true),
    };
    Evidence { test: side_evidence(SideName::Test, test, &mut noise, false), contrast: Some(contrast) }
}
