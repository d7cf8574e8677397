//! Making a kept case out of a set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pagelab_analysis::compare::{CompareInputs, CompareOptions, compare_runs, load_side};
use pagelab_analysis::rules::evidence::{Account, Evidence, of_comparison, of_run};
use pagelab_analysis::rules::{Confidence, Diagnosis, consider};
use pagelab_views::mappings::ClassKey;
use pagelab_views::run::RunData;

use super::file::{Kept, KeptChange, KeptRun, RUNS, components, kind_of};

/// The case of a set whose cause is known.
///
/// # Panics
/// If the set cannot be compared.
pub(crate) fn of_set(cause: &str, set: &Path) -> Kept {
    let load = |side: &'static str| {
        let found =
            std::fs::read_dir(set.join(side)).unwrap_or_else(|error| panic!("{}/{side}: {error}", set.display()));
        let mut paths: Vec<PathBuf> = found.map(|run| run.unwrap().path()).collect();
        paths.sort();
        load_side(side, &paths).unwrap()
    };
    let (base, test) = (load("base"), load("test"));
    let (base, test) = (counted(&base), counted(&test));
    let comparison =
        compare_runs(&base, &test, &CompareOptions { diagnose: false, ..CompareOptions::default() }).unwrap();
    let (base_accounts, test_accounts) = (accounts(&base), accounts(&test));
    let inputs = CompareInputs {
        base: &base,
        test: &test,
        base_accounts: &base_accounts,
        test_accounts: &test_accounts,
        comparison: &comparison,
    };
    let kernel = base[0].manifest.kernel.as_deref().unwrap_or("an unknown kernel");
    let recorded = format!("format {} on Linux {kernel}", base[0].manifest.format);
    let mut kept = kept(cause, recorded, &of_comparison(&inputs).unwrap());
    kept.confidence = word(&consider(&kept.evidence()), cause);
    leave_out_what_changes_nothing(&mut kept);
    kept.metrics = kept
        .base
        .iter()
        .chain(&kept.test)
        .flat_map(|run| run.metrics.keys())
        .map(|name| (name.clone(), kind_of(name)))
        .collect();
    kept
}

fn counted(runs: &[RunData]) -> Vec<&RunData> {
    runs.iter().filter(|run| run.excluded.is_none()).collect()
}

fn accounts(runs: &[&RunData]) -> Vec<Option<Account>> {
    runs.iter().map(|run| of_run(run).unwrap().test.runs[0].account.clone()).collect()
}

fn word(found: &Diagnosis, cause: &str) -> Confidence {
    let finding = found.findings.iter().find(|finding| finding.cause == cause);
    finding.map_or(Confidence::Correlated, |finding| finding.confidence)
}

fn kept(cause: &str, recorded: String, evidence: &Evidence) -> Kept {
    let contrast = evidence.contrast.as_ref().unwrap();
    Kept {
        cause: cause.to_owned(),
        confidence: Confidence::Correlated,
        recorded,
        components: components(),
        metrics: BTreeMap::default(),
        primary: contrast.primary.as_ref().map(Into::into),
        rise: contrast.rise.as_ref().map(Into::into),
        differing: contrast.differing.iter().map(KeptChange::from).collect(),
        varying: contrast.varying.clone(),
        blocks: contrast.blocks,
        same_work: contrast.same_work,
        base_settings: contrast.base.settings.clone(),
        test_settings: evidence.test.settings.clone(),
        base_varied: contrast.base.varied.clone(),
        test_varied: evidence.test.varied.clone(),
        base: contrast.base.runs.iter().take(RUNS).map(KeptRun::of).collect(),
        test: evidence.test.runs.iter().take(RUNS).map(KeptRun::of).collect(),
    }
}

/// Leaves out the metrics, settings, streams and classes of mappings without which every rule says the same, word for word.
fn leave_out_what_changes_nothing(kept: &mut Kept) {
    let answer = consider(&kept.evidence());
    let names = Names::of(kept);
    leave_out(kept, &answer, &names.metrics, |less, name| each_run(less, |run| _ = run.metrics.remove(name)));
    leave_out(kept, &answer, &names.settings, |less, key| {
        less.base_settings.remove(key);
        less.test_settings.remove(key);
        less.differing.retain(|change| change.key != *key);
    });
    leave_out(kept, &answer, &names.varied, |less, key| {
        less.base_varied.remove(key);
        less.test_varied.remove(key);
        less.varying.retain(|other| other != key);
    });
    leave_out(kept, &answer, &names.streams, |less, stream| each_run(less, |run| _ = run.loss.remove(stream)));
    leave_out(kept, &answer, &names.components, |less, name| {
        each_run(less, |run| _ = run.account.as_mut().and_then(|account| account.remove(name)));
    });
    leave_out(kept, &answer, &names.classes, |less, class| each_run(less, |run| drop_class(run, class)));
}

/// Leaves out as many of these as can be: all at once, else either half.
fn leave_out<T>(kept: &mut Kept, answer: &Diagnosis, names: &[T], drop_one: impl Fn(&mut Kept, &T) + Copy) {
    let mut less = kept.clone();
    for name in names {
        drop_one(&mut less, name);
    }
    if consider(&less.evidence()) == *answer {
        *kept = less;
    } else if names.len() > 1 {
        let (one, other) = names.split_at(names.len() / 2);
        leave_out(kept, answer, one, drop_one);
        leave_out(kept, answer, other, drop_one);
    }
}

fn each_run(kept: &mut Kept, mut change: impl FnMut(&mut KeptRun)) {
    kept.base.iter_mut().chain(&mut kept.test).for_each(&mut change);
}

fn drop_class(run: &mut KeptRun, class: &ClassKey) {
    if let Some(profile) = &mut run.profile {
        profile.classes.retain(|other| other.key != *class);
    }
}

/// What a case can be tried without.
struct Names {
    metrics: Vec<String>,
    settings: Vec<String>,
    varied: Vec<String>,
    streams: Vec<String>,
    components: Vec<String>,
    classes: Vec<ClassKey>,
}

impl Names {
    fn of(kept: &Kept) -> Self {
        let runs = || kept.base.iter().chain(&kept.test);
        let differing = kept.differing.iter().map(|change| &change.key);
        let settings = kept.base_settings.keys().chain(kept.test_settings.keys()).chain(differing);
        let varied = kept.base_varied.iter().chain(&kept.test_varied).chain(&kept.varying);
        let mut classes: Vec<ClassKey> = Vec::new();
        for class in runs().filter_map(|run| run.profile.as_ref()).flat_map(|profile| &profile.classes) {
            if !classes.contains(&class.key) {
                classes.push(class.key.clone());
            }
        }
        Self {
            metrics: distinct(runs().flat_map(|run| run.metrics.keys())),
            settings: distinct(settings),
            varied: distinct(varied),
            streams: distinct(runs().flat_map(|run| run.loss.keys())),
            components: distinct(runs().filter_map(|run| run.account.as_ref()).flat_map(BTreeMap::keys)),
            classes,
        }
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    names.collect::<BTreeSet<_>>().into_iter().cloned().collect()
}
