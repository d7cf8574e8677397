//! Making the document.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pagelab_recording::set::{SET_JSON, SetJson, discover_readable};
use pagelab_recording::{Bounds, isolated};
use pagelab_vocab::metrics::Direction;
use pagelab_vocab::nearest::nearest;

use super::accounts::{Accounts, Kernels};
use super::assemble::{Sides, Tested};
use super::caveats::{detectable, guards, largest_changes, power_notes};
use super::design::design;
use super::facts::facts;
use super::options::{CompareOptions, DesignChoice, PrimaryChoice};
use super::stability::stability;
use super::{
    BudgetComparison, COMPARE_FORMAT, CompareInputs, Comparison, ComparisonMethod, Exclusions, Failures, Family,
    MetricComparison, NothingShown, Primary, ProfileFrame, RunEntry, SideRuns, Verdict,
};
use super::{at_equal_speed, budget, by_time, claims, latency, levels, profile, speed};
use crate::error::{AnalysisError, Result};
use crate::parallel;
use crate::rules;
use crate::rules::evidence::Account;
use crate::settings_diff::{settings_diff, symptoms};
use crate::stats::{Change, Design, Outcome, settle_alone, settle_family, test_censored};
use pagelab_views::ViewError;
use pagelab_views::metrics::values;
use pagelab_views::run::{Exclusion, MetricKey, RunData};

/// The default primary metric of jobs and of commands, the first that all runs have.
const DEFAULT_PRIMARIES: [&str; 2] = ["load.iops", ELAPSED];
/// The time that a command took, which a timeout cuts off: a run that was ended would have had a larger one than all that
/// finished.
pub(super) const ELAPSED: &str = "run.elapsed_ns";

/// Loads the recordings at and below the paths of both sides and compares them.
pub fn compare(base: &[PathBuf], test: &[PathBuf], options: &CompareOptions) -> Result<Comparison> {
    options.check()?;
    let base_runs = load_side_within("base", base, &options.bounds)?;
    let test_runs = load_side_within("test", test, &options.bounds)?;
    if let Some(run) = base_runs.iter().find(|run| test_runs.iter().any(|other| other.dir == run.dir)) {
        return Err(AnalysisError::BothSides { dir: run.dir.clone() });
    }
    let mut options = options.clone();
    options.exploratory |= base_runs.iter().chain(&test_runs).any(|run| set_is_exploratory(&run.dir));
    of_loaded(base_runs, test_runs, &options)
}

/// Compares runs. If that panics, one of them is damaged in a way that nothing found: those that can be read alone are compared.
fn of_loaded(mut base: Vec<RunData>, mut test: Vec<RunData>, options: &CompareOptions) -> Result<Comparison> {
    let panic = match isolated(|| compare_runs(&all(&base), &all(&test), options)) {
        Ok(compared) => return compared,
        Err(panic) => panic,
    };
    let mut left_out = 0;
    for run in base.iter_mut().chain(&mut test).filter(|run| run.excluded.is_none()) {
        // Alone on both sides: everything that is read for a comparison is read.
        let alone = isolated(|| compare_runs(&[&*run], &[&*run], options).map(drop));
        if let Err(panic) = alone {
            run.excluded = Some(Exclusion::Damaged { detail: panic });
            left_out += 1;
        }
    }
    if left_out == 0 {
        return Err(AnalysisError::GaveUp { reason: panic });
    }
    compare_runs(&all(&base), &all(&test), options)
}

fn all(runs: &[RunData]) -> Vec<&RunData> {
    runs.iter().collect()
}

/// Loads all recordings at and below `paths`, in the order of host, variant and run, a few at a time.
pub fn load_side(side: &'static str, paths: &[PathBuf]) -> Result<Vec<RunData>> {
    load_side_within(side, paths, &Bounds::default())
}

/// As [`load_side`], for a part of each recording's time.
fn load_side_within(side: &'static str, paths: &[PathBuf], bounds: &Bounds) -> Result<Vec<RunData>> {
    if paths.is_empty() {
        return Err(AnalysisError::NoRuns { side });
    }
    let (found, unreadable) = discover_readable(paths)?;
    let dirs: Vec<PathBuf> = found.into_iter().map(|found| found.dir).collect();
    let loaded = parallel::map(&dirs, |dir| isolated(|| RunData::load_within(dir, bounds)));
    let mut runs = Vec::with_capacity(loaded.len());
    let mut first = None;
    for (dir, loaded) in dirs.iter().zip(loaded) {
        match loaded {
            Ok(Ok(run)) => runs.push(run),
            Ok(Err(ViewError::Recording(error))) if is_of_recording(&error) => {
                runs.push(RunData::unreadable(dir, error.to_string()));
                first.get_or_insert(error);
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(panic) => runs.push(RunData::unreadable(dir, panic)),
        }
    }
    // If there is nothing beside it, the reason is the answer.
    if let Some(error) = first
        && runs.iter().all(|run| matches!(run.excluded, Some(Exclusion::Damaged { .. })))
    {
        return Err(error.into());
    }
    runs.extend(unreadable.into_iter().map(|(dir, error)| RunData::unreadable(&dir, error.to_string())));
    Ok(runs)
}

/// Whether an error is about what a recording holds, and not about what was asked of it.
fn is_of_recording(error: &pagelab_recording::Error) -> bool {
    use pagelab_recording::Error as E;
    error.is_damage()
        || matches!(error, E::BadJson { .. } | E::EmptyManifest { .. } | E::NewerFormat { .. } | E::Output(_))
}

/// Whether the set that a recording belongs to says that runs were added after looking.
fn set_is_exploratory(dir: &Path) -> bool {
    let set = dir.ancestors().skip(1).take(4).find(|d| d.join(SET_JSON).is_file());
    let document = set.and_then(|set| SetJson::load(set).ok());
    document.is_some_and(|set| set.extra.get("exploratory").and_then(serde_json::Value::as_bool) == Some(true))
}

/// Compares runs that are loaded already. Excluded ones are listed and left out of every number.
pub fn compare_runs(base: &[&RunData], test: &[&RunData], options: &CompareOptions) -> Result<Comparison> {
    options.check()?;
    let (design, why) = match options.design {
        DesignChoice::FromRuns => design(base, test),
        DesignChoice::Unpaired => (Design::Unpaired, "unpaired: asked for".to_owned()),
    };
    let base_counted: Vec<&RunData> = base.iter().copied().filter(|run| run.excluded.is_none()).collect();
    let test_counted: Vec<&RunData> = test.iter().copied().filter(|run| run.excluded.is_none()).collect();
    let sides = Sides::new(&base_counted, &test_counted, design);
    let keys = sides.keys();
    let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
    if let Some(unknown) = options.unknown(&names) {
        return Err(unknown_metric(unknown, &names));
    }
    let chosen = choose_primary(options, &sides, &keys)?;
    let primary_key = chosen.as_ref().map(|choice| key_of(&choice.metric));
    let failures = Failures::of(base, test, options.alpha);
    let primary = chosen.map(|choice| test_primary(&choice, &sides, &failures, options.alpha));
    let others = keys.iter().copied().filter(|key| Some(*key) != primary_key.as_ref());
    let level = levels::of_families(primary.as_ref(), options.alpha);
    let (metrics, size) = test_family(&sides, others, level);
    let diff = settings_diff(&base_counted, &test_counted, &symptoms(&metrics));
    let spent = spent(&base_counted, &test_counted, design, &options.bounds, level)?;
    let mut comparison = Comparison {
        format: COMPARE_FORMAT,
        method: ComparisonMethod::of(design),
        base: side_runs(base, primary_key.as_ref()),
        test: side_runs(test, primary_key.as_ref()),
        notes: notes(&sides, base, test, why),
        largest_changes: Vec::new(),
        unexplained: None,
        unknown: None,
        failures,
        primary,
        families: [Family { name: "metrics".to_owned(), size, level }].into_iter().chain(spent.families).collect(),
        metrics,
        budget: spent.budget,
        profile: spent.profile,
        settings: diff.differing,
        findings: Vec::new(),
        alpha: options.alpha,
        exploratory: options.exploratory,
        settings_varying: diff.varying,
        settings_following: diff.following,
        considered: Vec::new(),
        facts: None,
        stability: None,
        latency: Vec::new(),
        error_rates: rules::error_rates(),
        recorder: None,
        no_cause: None,
        no_primary: None,
        limits: Vec::new(),
    };
    comparison.no_primary = comparison.primary.is_none().then(|| why_no_primary(&sides));
    speed::mark(&mut comparison);
    comparison.facts = Some(facts(&comparison, base, test));
    comparison.stability = stability(&comparison, base, test, design);
    let n = [base_counted.len(), test_counted.len()];
    let guards = guards(&base_counted, &test_counted, design);
    comparison.notes.extend(spent.notes.into_iter().chain(comparison.failures.note()).chain(guards));
    comparison.notes.extend(power_notes(comparison.primary.as_ref(), size, n, level));
    if n.contains(&1) {
        comparison.largest_changes = largest_changes(&comparison.metrics, &base_counted, &test_counted);
    }
    diagnose(&mut comparison, [&base_counted, &test_counted], &spent.accounts, options)?;
    latency::add(&mut comparison, &base_counted, &test_counted, design, &options.bounds)?;
    comparison.metrics.retain(|metric| options.shows(&metric.name));
    Ok(comparison)
}

/// Tests the metrics beside the primary one as a family, the most certain first; with the size of the family.
fn test_family<'a>(
    sides: &Sides<'_>,
    keys: impl Iterator<Item = &'a MetricKey>,
    alpha: f64,
) -> (Vec<MetricComparison>, usize) {
    let mut tested: Vec<Tested> = keys.map(|key| sides.compare(key)).collect();
    let family = tested.iter_mut().filter(|t| t.in_family()).map(|t| &mut t.result);
    let size = settle_family(family, alpha);
    let mut metrics: Vec<MetricComparison> = tested.into_iter().map(Tested::into_comparison).collect();
    metrics.sort_by(by_certainty);
    (metrics, size)
}

/// Looks for causes, and holds what they claim to the account of time.
fn diagnose(
    comparison: &mut Comparison,
    [base, test]: [&[&RunData]; 2],
    accounts: &[Vec<Option<Account>>; 2],
    options: &CompareOptions,
) -> Result<()> {
    if !options.diagnose {
        return Ok(());
    }
    let [base_accounts, test_accounts] = accounts;
    let diagnosis = rules::diagnose(&CompareInputs { base, test, base_accounts, test_accounts, comparison })?;
    comparison.findings = diagnosis.findings;
    comparison.considered = diagnosis.considered;
    comparison.unexplained = diagnosis.unexplained;
    claims::settle(comparison);
    comparison.no_cause = why_no_cause(comparison);
    Ok(())
}

/// What the time of both sides was spent on: by component, and by function with the family of its tests.
struct Spent {
    budget: Option<BudgetComparison>,
    /// Of each run, base and test.
    accounts: [Vec<Option<Account>>; 2],
    profile: Vec<ProfileFrame>,
    families: Vec<Family>,
    notes: Vec<String>,
}

fn spent(base: &[&RunData], test: &[&RunData], design: Design, bounds: &Bounds, level: f64) -> Result<Spent> {
    let kernels = Kernels::of(base.iter().chain(test).copied());
    let of_side = |runs: &[&RunData]| Accounts::of_side(runs, bounds, &kernels.places_untold);
    let (base_accounts, test_accounts) = (of_side(base)?, of_side(test)?);
    let notes = [budget::why_none(&base_accounts, &test_accounts), kernels.said()].into_iter().flatten().collect();
    let (base, test) = ((base, &base_accounts[..]), (test, &test_accounts[..]));
    let (mut profile, family) = profile::of_sides(base, test);
    let accounts = [base, test].map(|(runs, accounts)| {
        let of_run = |(run, one): (&&RunData, &Accounts)| {
            let account = Account::of_view(&one.budget, run.window.seconds() * 1e9)?;
            Some(account.with_places(&one.places))
        };
        runs.iter().zip(accounts).map(of_run).collect()
    });
    let mut budget = budget::of_sides(base, test, design, &kernels);
    let of_budget = levels::decide(budget.as_mut(), &mut profile, level);
    let of_profile = family.map(|family| Family { level, ..family });
    let families = of_budget.into_iter().chain(of_profile).collect();
    Ok(Spent { budget, accounts, profile, families, notes })
}

/// `name` or `name[instance]`.
pub(super) fn key_of(text: &str) -> MetricKey {
    match text.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        Some((name, instance)) => MetricKey::new(name, Some(instance)),
        None => MetricKey::new(text, None),
    }
}

fn unknown_metric(name: &str, names: &[&str]) -> AnalysisError {
    let nearest = nearest(name, names.iter().copied()).map(str::to_owned);
    AnalysisError::UnknownMetric { name: name.to_owned(), nearest }
}

/// The metric asked for, which some run must have, or the default, which all runs must have.
pub(super) fn choose_primary(
    options: &CompareOptions,
    sides: &Sides,
    keys: &BTreeSet<&MetricKey>,
) -> Result<Option<PrimaryChoice>> {
    if let Some(choice) = &options.primary {
        if keys.contains(&key_of(&choice.metric)) || keys.is_empty() {
            return Ok(Some(choice.with_direction_of(sides.base.iter().chain(sides.test).copied())));
        }
        // A number of the command's own may be called as `--value` calls it.
        let printed = PrimaryChoice { metric: values::metric_of(&choice.metric), ..choice.clone() };
        if keys.contains(&key_of(&printed.metric)) {
            return Ok(Some(printed.with_direction_of(sides.base.iter().chain(sides.test).copied())));
        }
        let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        return Err(unknown_metric(&choice.metric, &names));
    }
    let runs = || sides.base.iter().chain(sides.test);
    if let Some(choice) = PrimaryChoice::of_values(runs().copied()) {
        return Ok(Some(choice));
    }
    let in_all = |name: &&str| runs().count() > 0 && runs().all(|run| run.value(name).is_some());
    let default = DEFAULT_PRIMARIES.iter().copied().find(in_all);
    let says_nothing = default == Some(ELAPSED) && by_time::duration_s(&runs().copied()).is_some();
    Ok(default.filter(|_| !says_nothing).map(PrimaryChoice::of))
}

fn test_primary(choice: &PrimaryChoice, sides: &Sides, failures: &Failures, alpha: f64) -> Primary {
    let key = key_of(&choice.metric);
    let mut tested = sides.compare(&key);
    let [base_ended, test_ended] = failures.timed_out();
    if key.name == ELAPSED && base_ended + test_ended > 0 {
        let values =
            |runs: &[&RunData]| -> Vec<f64> { runs.iter().filter_map(|run| run.metrics.get(&key)?.value).collect() };
        test_censored(&values(sides.base), base_ended, &values(sides.test), test_ended, &mut tested.result);
    }
    at_equal_speed::test(sides, alpha, &mut tested);
    settle_alone(&mut tested.result, alpha);
    if let Some(lossy) = &tested.lossy {
        tested.result.significant = Some(false);
        tested.result.note = Some(lossy.clone());
    }
    let result = tested.result;
    let verdict = verdict(&result, choice.direction);
    Primary {
        metric: choice.metric.clone(),
        unit: tested.unit,
        base_mean: result.base.mean,
        test_mean: result.test.mean,
        ratio: result.ratio,
        ratio_ci95: result.ratio_ci95,
        p: result.p,
        direction: choice.direction.name().to_owned(),
        significant: result.significant,
        verdict,
        detectable: detectable(&result, alpha),
        nothing_shown: NothingShown::of(&result, verdict, tested.lossy.is_some(), alpha),
        result,
    }
}

/// What a test says about the side that was tested, in the direction of the estimate that was tested. A deterministic
/// difference needs no test to be one, and sides that are equal in every run need none to show no difference.
fn verdict(result: &crate::stats::TestResult, direction: Direction) -> Verdict {
    let differs = match (result.outcome, result.significant) {
        (Outcome::DeterministicDifference, _) | (_, Some(true)) => true,
        (Outcome::Tested, _) => false,
        (Outcome::NotTested, _) if result.change == Some(Change::Equal) => false,
        (Outcome::NotTested, _) => return Verdict::NotTested,
    };
    let rises = match result.change {
        Some(Change::Rises) => true,
        Some(Change::Falls) => false,
        Some(Change::Equal) | None => return Verdict::NoDifference,
    };
    match (differs, direction) {
        (false, _) => Verdict::NoDifference,
        (true, Direction::Neutral) => Verdict::Different,
        (true, Direction::HigherIsBetter) if rises => Verdict::Better,
        (true, Direction::LowerIsBetter) if !rises => Verdict::Better,
        (true, Direction::HigherIsBetter | Direction::LowerIsBetter) => Verdict::Worse,
    }
}

/// Tested metrics by p, then those that differ without chance, then the rest; equals by name.
fn by_certainty(a: &MetricComparison, b: &MetricComparison) -> Ordering {
    let class = |m: &MetricComparison| match m.outcome {
        Outcome::Tested => 0,
        Outcome::DeterministicDifference => 1,
        Outcome::NotTested => 2,
    };
    let ln_p = |m: &MetricComparison| m.ln_p.unwrap_or(0.0);
    class(a)
        .cmp(&class(b))
        .then_with(|| ln_p(a).total_cmp(&ln_p(b)))
        .then_with(|| (&a.name, &a.instance).cmp(&(&b.name, &b.instance)))
}

fn side_runs(runs: &[&RunData], primary: Option<&MetricKey>) -> SideRuns {
    SideRuns {
        label: label(runs),
        runs: runs
            .iter()
            .map(|run| RunEntry {
                dir: run.dir.display().to_string(),
                run: run.manifest.run,
                round: run.manifest.round,
                excluded: run.excluded.clone(),
                primary: primary.and_then(|key| run.metrics.get(key)?.value),
                notes: run.notes.clone(),
            })
            .collect(),
        n: runs.iter().filter(|run| run.excluded.is_none()).count(),
    }
}

/// A name for display: the labels or variants of the runs, each once, else their directories.
fn label(runs: &[&RunData]) -> String {
    let named = |run: &&&RunData| run.manifest.label.clone().or_else(|| run.manifest.variant.clone());
    let mut labels: Vec<String> =
        runs.iter().map(|run| named(&run).unwrap_or_else(|| run.dir.display().to_string())).collect();
    labels.sort();
    labels.dedup();
    match labels.as_slice() {
        [first, _, _, _, ..] => format!("{first} and {} more", labels.len() - 1),
        few => few.join(", "),
    }
}

/// Why there is no cause, or that there is none.
fn why_no_cause(comparison: &Comparison) -> Option<String> {
    if !comparison.findings.is_empty() {
        return None;
    }
    let verdict = comparison.primary.as_ref().map_or(Verdict::NotTested, |primary| primary.verdict);
    let part = "A part of the time differs beyond doubt, and no cause of that was found.";
    Some(match (verdict, &comparison.unknown) {
        (Verdict::Better | Verdict::Worse | Verdict::Different, _) => "No cause was found.".to_owned(),
        (_, Some(_)) => part.to_owned(),
        (Verdict::NotTested, None) => "Nothing was tested, so no cause is named.".to_owned(),
        (Verdict::NoDifference, None) => "No difference was shown, so causes were not analysed.".to_owned(),
    })
}

fn why_no_primary(sides: &Sides) -> String {
    if sides.base.is_empty() && sides.test.is_empty() {
        return "neither base nor test runs count".to_owned();
    }
    let by_time = by_time::duration_s(&sides.base.iter().chain(sides.test).copied()).map(by_time::note);
    by_time
        .unwrap_or_else(|| format!("not all runs have one of {}; name one with --metric", DEFAULT_PRIMARIES.join(", ")))
}

fn notes(sides: &Sides, base: &[&RunData], test: &[&RunData], design: String) -> Vec<String> {
    let mut notes = vec![design];
    for (name, all, counted) in [("base", base, sides.base), ("test", test, sides.test)] {
        let reasons = Exclusions::of(name, all.iter().map(|run| (run.dir.as_path(), run.excluded.as_ref())));
        notes.extend(reasons.map(|reasons| reasons.to_string()));
        if counted.len() < 2 {
            notes.push(format!("{} {name} runs count; at least 2 are needed for any test", counted.len()));
        }
    }
    if !sides.per_operation && sides.base.iter().chain(sides.test).any(|run| run.window.operations.is_some()) {
        notes.push(
            "not every run knows its operations, or some are whole commands: counters are compared per second"
                .to_owned(),
        );
    }
    notes.extend(sides.losses.notes());
    notes
}
