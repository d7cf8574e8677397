//! Evidence out of loaded runs and their comparison: what rules may not know is left behind here.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use pagelab_recording::{Manifest, Recording};
use pagelab_vocab::settings::setting;

use super::{Contrast, Evidence, PrimaryEvidence, RunEvidence, SettingChange, SideEvidence, pools, workers};
use crate::compare::{CompareInputs, Comparison, Verdict};
use crate::error::Result;
use crate::mappings::{MappingProfile, ProfileOptions};
use crate::rules::finding::SideName;
use crate::run::{RunData, WindowSource};

/// The evidence of a comparison. Reads the mappings and faults of every run that counts.
pub fn of_comparison(inputs: &CompareInputs<'_>) -> Result<Evidence> {
    let base = side(SideName::Base, inputs.base)?;
    let test = side(SideName::Test, inputs.test)?;
    let contrast = Contrast {
        base,
        primary: primary(inputs.comparison),
        differing: differing(inputs.comparison),
        varying: inputs.comparison.settings_varying.iter().map(|varying| varying.key.clone()).collect(),
        blocks: inputs.comparison.method == "paired_blocks",
        same_work: same_work(inputs.base, inputs.test),
    };
    Ok(Evidence { test, contrast: Some(contrast) })
}

/// The evidence of one recording alone.
pub fn of_run(run: &RunData) -> Result<Evidence> {
    Ok(Evidence { test: SideEvidence { alone: true, ..side(SideName::Test, &[run])? }, contrast: None })
}

fn side(name: SideName, runs: &[&RunData]) -> Result<SideEvidence> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(runs.len()).max(1);
    let share = runs.len().div_ceil(workers).max(1);
    let mut read = Vec::with_capacity(runs.len());
    thread::scope(|scope| {
        let started: Vec<_> = runs
            .chunks(share)
            .map(|runs| scope.spawn(move || runs.iter().map(|run| one_run(run)).collect::<Vec<_>>()))
            .collect();
        for worker in started {
            match worker.join() {
                Ok(found) => read.extend(found),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let (settings, varied) = settings(runs);
    Ok(SideEvidence { name, alone: false, runs: read.into_iter().collect::<Result<_>>()?, settings, varied })
}

fn one_run(run: &RunData) -> Result<RunEvidence> {
    let recording = Recording::open(&run.dir)?;
    let mut unreadable = Vec::new();
    let mut metrics = run.metrics.clone();
    // Instances of `load.*` are names of jobs.
    metrics.retain(|key, _| !(key.name.starts_with("load.") && key.instance.is_some()));
    Ok(RunEvidence {
        profile: or_note(MappingProfile::load(&run.dir, &ProfileOptions::of_run(run)), &mut unreadable).flatten(),
        window_ns: run.window.seconds() * 1e9,
        whole_life: run.window.source == WindowSource::Command,
        operations: run.window.operations,
        metrics,
        workers: or_note(workers::load(&recording), &mut unreadable).flatten(),
        loss: run.loss.clone(),
        pools: or_note(pools::load(&recording), &mut unreadable).unwrap_or_default(),
        unreadable,
    })
}

/// A table that cannot be read leaves a hole in the evidence, with the reason, and no more than that.
fn or_note<T>(read: Result<T>, unreadable: &mut Vec<String>) -> Option<T> {
    read.map_err(|error| unreadable.push(error.to_string())).ok()
}

fn settings(runs: &[&RunData]) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let mut same: BTreeMap<String, String> = BTreeMap::new();
    let mut varied = BTreeSet::new();
    let Some((first, rest)) = runs.split_first() else { return (same, varied) };
    for (key, found) in &first.settings.start {
        let Some(value) = &found.value else { continue };
        if rest.iter().all(|run| run.setting(key) == Some(value)) {
            same.insert(key.clone(), value.clone());
        } else {
            varied.insert(key.clone());
        }
    }
    (same, varied)
}

fn primary(comparison: &Comparison) -> Option<PrimaryEvidence> {
    let primary = comparison.primary.as_ref()?;
    let slower = match primary.verdict {
        Verdict::Better => Some(SideName::Base),
        Verdict::Worse | Verdict::Different => Some(SideName::Test),
        Verdict::NoDifference | Verdict::NotTested => None,
    };
    Some(PrimaryEvidence {
        metric: primary.metric.clone(),
        ratio: primary.ratio,
        ratio_ci95: primary.ratio_ci95,
        p: primary.p,
        significant: slower.is_some(),
        slower,
    })
}

/// The settings that differ, with those marked that follow from others.
pub(crate) fn differing(comparison: &Comparison) -> Vec<SettingChange> {
    let keys: Vec<&str> = comparison.settings.iter().map(|diff| diff.key.as_str()).collect();
    comparison
        .settings
        .iter()
        .map(|diff| SettingChange {
            key: diff.key.clone(),
            base: diff.base.clone(),
            test: diff.test.clone(),
            follows: diff.state || diff.derived_from.is_some() || is_companion(&diff.key, &keys),
        })
        .collect()
}

/// The default huge page size that families of settings are filled with; it only matters for vm.nr_hugepages.
const DEFAULT_HUGE: &str = "2M";

/// Whether the kernel rewrites `key` when one of `others` is written.
fn is_companion(key: &str, others: &[&str]) -> bool {
    others.iter().filter(|other| **other != key).any(|other| {
        setting(other).is_some_and(|info| {
            info.companion_keys(DEFAULT_HUGE).iter().any(|companion| match companion.split_once('*') {
                Some((start, end)) => key.starts_with(start) && key.ends_with(end),
                None => companion == key,
            })
        })
    })
}

/// Whether both sides ran the same thing: commands and jobs are compared whole and looked at no further.
fn same_work(base: &[&RunData], test: &[&RunData]) -> Option<bool> {
    let work = |manifest: &Manifest| (manifest.command.clone(), manifest.job.clone());
    let mut all = base.iter().chain(test).map(|run| work(&run.manifest));
    let first = all.next()?;
    if first == (None, None) {
        return None;
    }
    Some(all.all(|other| other == first))
}
