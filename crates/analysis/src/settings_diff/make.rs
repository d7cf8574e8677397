//! Making the list: what differs, twins joined, ranked.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_vocab::settings::{self, SettingInfo, setting};

use super::collect::{SideSettings, SideValue};
use super::parts::differing;
use super::{SettingDiff, SettingsDiff, VaryingSetting, kernels};
use pagelab_views::run::RunData;

/// What is left of the relevance of a key whose run-time twin is equal on both sides: the decision of build or boot was
/// overruled before the runs.
const OVERRULED: f64 = 0.1;

/// The remaining relevance of a key that the kernel computes from another one that differs.
const DERIVED: f64 = 0.1;

/// Twins of twins are followed this far: kconfig to cmdline to run time.
const MAX_HOPS: usize = 3;

/// What snapshots put before the digest of a value that they do not show.
const MASKED: &str = "masked:";

/// A key that differs.
pub(super) struct Candidate<'a> {
    pub(super) base: Option<&'a str>,
    pub(super) test: Option<&'a str>,
    pub(super) info: Option<SettingInfo>,
    note: Option<String>,
}

/// Compares the settings at the start of the runs of both sides. `symptoms` are the topics of what changed, most telling
/// first; the ranking uses nothing else, no labels and no names of variants.
pub fn settings_diff(base: &[&RunData], test: &[&RunData], symptoms: &[&str]) -> SettingsDiff {
    let (base_side, test_side) = (SideSettings::of(base), SideSettings::of(test));
    let keys: BTreeSet<&str> = base_side.keys().chain(test_side.keys()).collect();
    let mut candidates: BTreeMap<String, Candidate> = BTreeMap::new();
    let mut varying = Vec::new();
    for key in keys {
        let (base, test) = (base_side.value(key), test_side.value(key));
        match (base, test) {
            (SideValue::Unknown, _) | (_, SideValue::Unknown) => {}
            (SideValue::Constant(base), SideValue::Constant(test)) => {
                let info = setting(key);
                if base != test && !is_volatile(info.as_ref()) && !kernels::same_option(key, base, test) {
                    let changed = base_side.changed_during(key) + test_side.changed_during(key);
                    let note = note_of(base, test, changed);
                    candidates.insert(key.to_owned(), Candidate { base, test, info, note });
                }
            }
            (base, test) => varying.extend(varying_entry(key, base, test)),
        }
    }
    let following = kernels::take_following(&mut candidates);
    let twins = Twins::of(&candidates, &base_side, &test_side);
    let mut differing: Vec<SettingDiff> = candidates
        .iter()
        .filter(|(key, _)| !twins.joined.contains_key(*key))
        .map(|(key, candidate)| entry(key, candidate, &candidates, &twins, symptoms))
        .collect();
    raise_sources(&mut differing);
    differing.sort_by(|a, b| b.relevance.total_cmp(&a.relevance).then_with(|| a.key.cmp(&b.key)));
    SettingsDiff { differing: kernels::fold(differing), following, varying }
}

/// A setting affects the same topics as the values that the kernel derives from it.
fn raise_sources(differing: &mut [SettingDiff]) {
    let derived: Vec<(String, f64)> =
        differing.iter().filter_map(|d| Some((d.derived_from.clone()?, d.relevance / DERIVED))).collect();
    for (source, relevance) in derived {
        if let Some(entry) = differing.iter_mut().find(|d| d.key == source) {
            entry.relevance = entry.relevance.max(relevance);
        }
    }
}

fn is_volatile(info: Option<&SettingInfo>) -> bool {
    info.is_some_and(|info| info.def.volatile)
}

fn note_of(base: Option<&str>, test: Option<&str>, changed: usize) -> Option<String> {
    let mut notes = Vec::new();
    let masked = |value: Option<&str>| value.is_some_and(|v| v.starts_with(MASKED));
    if masked(base) || masked(test) {
        notes.push("values are not shown, only that they differ: it may hold a secret".to_owned());
    }
    match (base, test) {
        (None, _) => notes.push("not there in the base".to_owned()),
        (_, None) => notes.push("not there on the test side".to_owned()),
        _ => {}
    }
    if changed > 0 {
        notes.push(format!("changed during {changed} runs"));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn varying_entry(key: &str, base: SideValue, test: SideValue) -> Option<VaryingSetting> {
    let info = setting(key);
    // Readings of the present state vary by nature and would drown the others, and files are written by the runs themselves.
    if info.as_ref().is_some_and(|info| info.def.volatile || info.def.state || info.def.pattern.starts_with("file.")) {
        return None;
    }
    let list = |side: SideValue| match side {
        SideValue::Unknown => Vec::new(),
        SideValue::Constant(value) => vec![value.map(str::to_owned)],
        SideValue::Varying(values) => values.into_iter().map(|v| v.map(str::to_owned)).collect(),
    };
    Some(VaryingSetting { key: key.to_owned(), base: list(base), test: list(test), topics: topics(info.as_ref()) })
}

fn topics(info: Option<&SettingInfo>) -> Vec<String> {
    info.map_or_else(Vec::new, |info| info.def.topics.iter().map(|t| (*t).to_owned()).collect())
}

/// Which keys show the decision of which other key.
#[derive(Default)]
struct Twins {
    /// Key without an entry of its own, and the key whose entry speaks for it.
    joined: BTreeMap<String, String>,
    /// Key with an entry, and the run-time key that it decides, which has none.
    stands_for: BTreeMap<String, String>,
    /// Of `stands_for`, those whose run-time key is known to be equal on both sides, with its value.
    overruled: BTreeMap<String, Option<String>>,
}

impl Twins {
    fn of(candidates: &BTreeMap<String, Candidate>, base: &SideSettings, test: &SideSettings) -> Self {
        let default_size = match base.value("hugetlb.default_size") {
            SideValue::Constant(Some(bytes)) => size_name(bytes),
            _ => None,
        };
        let mut twins = Self::default();
        // Run-time keys without an entry, and the first of their twins, which speaks for the others.
        let mut spokesmen: BTreeMap<String, String> = BTreeMap::new();
        for (key, candidate) in candidates {
            let Some(twin) = run_time_twin(candidate, default_size.as_deref()) else { continue };
            if candidates.contains_key(&twin) {
                twins.joined.insert(key.clone(), twin);
                continue;
            }
            if let Some(spokesman) = spokesmen.get(&twin) {
                twins.joined.insert(key.clone(), spokesman.clone());
                continue;
            }
            spokesmen.insert(twin.clone(), key.clone());
            if let (SideValue::Constant(b), SideValue::Constant(t)) = (base.value(&twin), test.value(&twin))
                && b == t
            {
                twins.overruled.insert(key.clone(), b.map(str::to_owned));
            }
            twins.stands_for.insert(key.clone(), twin);
        }
        twins
    }

    /// The keys that `key` speaks for.
    fn also(&self, key: &str) -> Vec<String> {
        self.joined.iter().filter(|(_, speaker)| *speaker == key).map(|(joined, _)| joined.clone()).collect()
    }
}

/// `2M` of `2M`, `2048 kB` or a number of bytes.
fn size_name(text: &str) -> Option<String> {
    settings::parse_size(text).map(settings::format_size)
}

/// The last of the keys that show the same decision, `None` if there is no other.
fn run_time_twin(candidate: &Candidate, default_size: Option<&str>) -> Option<String> {
    let mut found = None;
    let mut info = candidate.info.clone();
    let value = candidate.test.or(candidate.base);
    for _ in 0..MAX_HOPS {
        let Some(here) = info else { break };
        let twin = match default_size {
            Some(size) => here.equivalent_with(value, size),
            None => here.equivalent(value),
        };
        let Some(twin) = twin else { break };
        info = setting(&twin.key);
        found = Some(twin.key);
    }
    found
}

/// The default huge page size that families of settings are filled with; it only matters for vm.nr_hugepages.
const DEFAULT_HUGE: &str = "2M";

/// The other differing key at whose writing the kernel rewrites `key`.
fn companion_of(key: &str, candidates: &BTreeMap<String, Candidate>) -> Option<String> {
    let rewrites = |other: &str, info: &SettingInfo| {
        other != key
            && info.companion_keys(DEFAULT_HUGE).iter().any(|companion| match companion.split_once('*') {
                Some((start, end)) => key.starts_with(start) && key.ends_with(end),
                None => companion == key,
            })
    };
    let found =
        candidates.iter().find(|(other, candidate)| candidate.info.as_ref().is_some_and(|info| rewrites(other, info)));
    found.map(|(other, _)| other.clone())
}

fn entry(
    key: &str,
    candidate: &Candidate,
    candidates: &BTreeMap<String, Candidate>,
    twins: &Twins,
    symptoms: &[&str],
) -> SettingDiff {
    let info = candidate.info.as_ref();
    let derived_from = info
        .and_then(|info| info.def.derived_from)
        .filter(|source| candidates.contains_key(*source))
        .or_else(|| {
            let kernels_differ = candidates.contains_key(kernels::KERNEL);
            (kernels_differ && kernels::is_derived(key, candidate)).then_some(kernels::KERNEL)
        })
        .map(str::to_owned);
    let mut relevance = settings::relevance(key, symptoms);
    let mut note = candidate.note.clone();
    if derived_from.is_some() {
        relevance *= DERIVED;
    }
    if let (Some(twin), Some(value)) = (twins.stands_for.get(key), twins.overruled.get(key)) {
        relevance *= OVERRULED;
        let value = value.as_deref().unwrap_or("not there");
        let overruled = format!("{twin} is {value} on both sides at run time");
        note = Some(note.map_or(overruled.clone(), |note| format!("{note}; {overruled}")));
    }
    SettingDiff {
        key: key.to_owned(),
        base: candidate.base.map(str::to_owned),
        test: candidate.test.map(str::to_owned),
        relevance,
        equivalent_of: twins.stands_for.get(key).cloned(),
        topics: topics(info),
        also: twins.also(key),
        derived_from,
        companion_of: companion_of(key, candidates),
        state: info.is_some_and(|info| info.def.state),
        note,
        parts: differing(key, candidate.base, candidate.test),
    }
}
