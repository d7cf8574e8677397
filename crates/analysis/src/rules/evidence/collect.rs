//! Evidence out of loaded runs and their comparison: what rules may not know is left behind here.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_recording::Recording;

use super::{
    Account, Contrast, Devices, Evidence, PrimaryEvidence, RunEvidence, SettingChange, SideEvidence, account, events,
    pools, samples, workers,
};
use crate::compare::{CompareInputs, Comparison, ComparisonMethod, Moved, Verdict};
use crate::cpu_speed;
use crate::error::Result;
use crate::parallel;
use crate::rules::finding::SideName;
use crate::settings_diff::SettingDiff;
use pagelab_views::mappings::{MappingProfile, ProfileOptions};
use pagelab_views::run::{RunData, WindowSource};

/// The evidence of a comparison. Reads the mappings and faults of every run that counts.
pub fn of_comparison(inputs: &CompareInputs<'_>) -> Result<Evidence> {
    let base = side(SideName::Base, inputs.base, Some(inputs.base_accounts))?;
    let test = side(SideName::Test, inputs.test, Some(inputs.test_accounts))?;
    let contrast = Contrast {
        base,
        primary: primary(inputs.comparison),
        rise: Moved::of(inputs.comparison),
        differing: differing(inputs.comparison),
        varying: inputs.comparison.settings_varying.iter().map(|varying| varying.key.clone()).collect(),
        blocks: inputs.comparison.method == ComparisonMethod::PairedBlocks,
        same_work: same_work(inputs.base, inputs.test),
    };
    Ok(Evidence { test, contrast: Some(contrast) })
}

/// The evidence of one side without the other, for rules that judge recordings alone.
pub fn of_side(name: SideName, inputs: &CompareInputs<'_>) -> Result<Evidence> {
    let test = match name {
        SideName::Base => side(name, inputs.base, Some(inputs.base_accounts))?,
        SideName::Test => side(name, inputs.test, Some(inputs.test_accounts))?,
    };
    Ok(Evidence { test, contrast: None })
}

/// The evidence of one recording alone.
pub fn of_run(run: &RunData) -> Result<Evidence> {
    Ok(Evidence { test: SideEvidence { alone: true, ..side(SideName::Test, &[run], None)? }, contrast: None })
}

/// The evidence of a side. Accounts of time are read from the recordings where the comparison has not read them already.
fn side(name: SideName, runs: &[&RunData], accounts: Option<&[Option<Account>]>) -> Result<SideEvidence> {
    let read = parallel::map(runs, |run| one_run(run, accounts.is_none()));
    let mut read: Vec<RunEvidence> = read.into_iter().collect::<Result<_>>()?;
    for (run, account) in read.iter_mut().zip(accounts.unwrap_or_default()) {
        run.account.clone_from(account);
    }
    let (settings, varied) = settings(runs);
    Ok(SideEvidence { name, alone: false, runs: read, settings, varied })
}

fn one_run(run: &RunData, with_account: bool) -> Result<RunEvidence> {
    let recording = Recording::open(&run.dir)?;
    let mut unreadable = Vec::new();
    let mut metrics = run.metrics.clone();
    // Instances of `load.*` are names of jobs.
    metrics.retain(|key, _| !(key.name.starts_with("load.") && key.instance.is_some()));
    let window = run.window.start_ns..run.window.end_ns;
    let account = if with_account { or_note(account::load(&recording, run), &mut unreadable).flatten() } else { None };
    let profile = or_note(MappingProfile::load(&run.dir, &ProfileOptions::of_run(run)), &mut unreadable).flatten();
    let counted = events::load(&recording, window.clone(), profile.as_ref());
    Ok(RunEvidence {
        devices: Devices::load(run, &metrics),
        account,
        events_by_kind: or_note(counted, &mut unreadable).unwrap_or_default(),
        profile,
        window_ns: run.window.seconds() * 1e9,
        cpu_speed: cpu_speed::of(run),
        whole_life: run.window.source == WindowSource::Command,
        operations: run.window.operations,
        metrics,
        kernel_samples: or_note(samples::load(&recording, window), &mut unreadable).flatten(),
        workers: or_note(workers::load(&recording), &mut unreadable).flatten(),
        loss: run.loss.clone(),
        pools: or_note(pools::load(&recording), &mut unreadable).unwrap_or_default(),
        unreadable,
    })
}

/// A table that cannot be read leaves a hole in the evidence, with the reason, and no more than that.
fn or_note<T, E: std::fmt::Display>(read: Result<T, E>, unreadable: &mut Vec<String>) -> Option<T> {
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
        Verdict::Worse => Some(SideName::Test),
        // A metric that has no better and worse has no side that suffers.
        Verdict::Different | Verdict::NoDifference | Verdict::NotTested => None,
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
    let change = |diff: &SettingDiff| SettingChange {
        key: diff.key.clone(),
        base: diff.base.clone(),
        test: diff.test.clone(),
        follows: diff.follows_from().is_some(),
    };
    comparison.settings.iter().map(change).collect()
}

/// Whether both sides ran the same thing: commands and jobs are compared whole and looked at no further. `None` where
/// the recordings do not say, or where what ran already varies within a side (names of temporary files).
fn same_work(base: &[&RunData], test: &[&RunData]) -> Option<bool> {
    type Work = (Option<Vec<String>>, Option<serde_json::Value>);
    let work = |run: &&RunData| -> Work { (run.manifest.command.clone(), run.manifest.job.clone()) };
    let one = |runs: &[&RunData]| -> Option<Work> {
        let first = runs.first().map(work).filter(|work| *work != (None, None))?;
        runs.iter().all(|run| work(run) == first).then_some(first)
    };
    Some(one(base)? == one(test)?)
}
