//! Where the difference between two sides is: each component of the wall account, per unit of work.
//!
//! The wall account of a run (`pagelab_views::view::budget`) sums to the time recorded; divided by the operations of the run
//! (by 1 where it is a whole command) its components sum to the time per unit of work, and their differences to its difference.
//! A figure of a side is the mean over its runs, the interval of a difference Welch's, or that of the differences by round where
//! each round has a run of both sides. It holds what sampling adds, because that varies from run to run, too. With one run a
//! side there is no such interval; then it is that of sampling alone, which is too narrow, and says so.
//!
//! A side of which some run lacks a part of the account has no figures of that part: null, never 0, and what is left is a lower
//! bound. What holds the part as a whole is still compared: without samples on one side `run.unsampled` is the time on CPUs of
//! both, less what was stolen.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_views::run::RunData;
use pagelab_views::view::budget::{BudgetView, Missing, OneComponent, Place};
use pagelab_vocab::budget::{Component, IDLE, OTHER, STOLEN, State, UNSAMPLED, USER, component_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accounts::{Accounts, Kernels, per_operation};
use super::design::block_of;
use super::mechanisms::{self, MechanismChange};
use super::places::{self, ComponentPlaces};
use crate::stats::{Design, NORMAL, benjamini_hochberg, critical_value, paired_differences, welch};

const IDLE_ABOUT: &str = "no task ran, could run, or slept for I/O or uninterruptibly";
const LEVEL: f64 = 0.95;

/// Where the difference is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct BudgetComparison {
    /// What the times are of: `operation`, or `run`.
    pub per: String,
    /// Runs of each side that have an account of all states.
    pub runs: [usize; 2],
    /// Time per unit of work in the base, ns.
    pub base_ns: f64,
    /// The same of the test side.
    pub test_ns: f64,
    /// Test less base.
    pub difference_ns: f64,
    /// 95 % interval of the difference; null where it has none.
    pub difference_ci95: Option<[f64; 2]>,
    /// Where the intervals come from: `runs`, `sampling` (one run a side; how much runs vary is not known), or `none`.
    pub intervals_from: String,
    /// Components, the largest difference first.
    pub components: Vec<ComponentChange>,
    /// The same by cause: the components in which it shows, summed and tested as one.
    #[serde(default)]
    pub mechanisms: Vec<MechanismChange>,
    /// Where in programs and kernel the largest differences are.
    #[serde(default)]
    pub places: Vec<ComponentPlaces>,
    /// What is not known, by side.
    pub missing: Vec<MissingPart>,
    /// Something is missing: the components are a lower bound of where the difference is.
    pub is_lower_bound: bool,
    /// Samples of the profile per second and CPU that a side asked for, where the manifests say so.
    pub samples_per_second: [Option<f64>; 2],
}

/// One component on both sides, per unit of work.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ComponentChange {
    /// Its name in the vocabulary, or `idle`.
    pub component: String,
    /// `run`, `ready`, `off` or `idle`.
    pub state: String,
    /// What the time was spent on.
    pub about: String,
    /// Mean of the base, ns; null where the part is missing there.
    pub base_ns: Option<f64>,
    /// Mean of the test side, ns.
    pub test_ns: Option<f64>,
    /// Test less base, ns.
    pub difference_ns: Option<f64>,
    /// Its 95 % interval.
    pub difference_ci95: Option<[f64; 2]>,
    /// Share of the difference of the whole; null where the interval of that holds 0, or has no ends.
    pub share: Option<f64>,
    /// Two-sided p value of the difference; null where it was not tested.
    pub p: Option<f64>,
    /// q value among the components.
    pub q: Option<f64>,
    /// The decision: q is at most the family's level.
    #[serde(default)]
    pub significant: Option<bool>,
}

/// A part of the account that a side lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct MissingPart {
    /// `base` or `test`.
    pub side: String,
    /// `run`, `ready` or `off`.
    pub part: String,
    /// Runs that lack it.
    pub runs: usize,
    /// Why, in the words of the first.
    pub reason: String,
}

/// What of RUN a run cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Untold {
    Nothing,
    /// The kernel's functions have no names.
    Kernel,
    /// There are no samples.
    Run,
}

impl Untold {
    fn of(view: &BudgetView) -> Self {
        match view.missing.iter().any(|missing| missing.part == State::Run.word()) {
            false => Self::Nothing,
            true if view.samples > 0 => Self::Kernel,
            true => Self::Run,
        }
    }

    /// What holds the time of a component where so much is not told; none for what is told all the same.
    fn holder(self, component: &str) -> Option<&'static str> {
        let (told, holder): (&[&str], _) = match self {
            Self::Nothing => return None,
            Self::Kernel => (&[STOLEN, UNSAMPLED, USER, OTHER], OTHER),
            Self::Run => (&[STOLEN, UNSAMPLED], UNSAMPLED),
        };
        let is_run = component_of(component).is_some_and(|known| known.state == State::Run);
        (is_run && !told.contains(&component)).then_some(holder)
    }
}

/// The account of one run, per unit of work.
#[derive(Clone)]
pub(super) struct OfRun {
    block: Option<(Option<String>, u64)>,
    total_ns: f64,
    /// Time and variance by sampling.
    components: BTreeMap<String, (f64, f64)>,
    places: Vec<Place>,
}

impl OfRun {
    /// The places of the run.
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Time of a part of a component, and its variance by sampling: a share of n samples has variance p (1 - p) / n.
    pub(super) fn part_of(&self, component: &str, share: f64, samples: Option<u64>) -> (f64, f64) {
        let (ns, variance) = self.components.get(component).copied().unwrap_or_default();
        let of_share = samples.map_or(0.0, |samples| share * share * (1.0 - share) / samples.max(1) as f64);
        (ns * share, variance * share * share + ns * ns * of_share)
    }

    /// Time and variance of the components chosen.
    pub(super) fn sum_of(&self, is_chosen: impl Fn(&str) -> bool) -> (f64, f64) {
        let chosen = self.components.iter().filter(|(name, _)| is_chosen(name));
        chosen.fold((0.0, 0.0), |sum, (_, one)| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// A side: its runs with a whole account, and what the others lack.
struct OfSide {
    runs: Vec<OfRun>,
    missing: Vec<Missing>,
    lacking: usize,
    untold: Untold,
    samples_per_second: Option<f64>,
}

impl OfSide {
    /// The same runs as if so much could not be told of any of them.
    fn folded(&self, untold: Untold) -> Vec<OfRun> {
        let fold = |run: &OfRun| {
            let mut components: BTreeMap<String, (f64, f64)> = BTreeMap::new();
            for (name, (ns, variance)) in &run.components {
                let holder = untold.holder(name);
                let sum = components.entry(holder.unwrap_or(name).to_owned()).or_default();
                sum.0 += ns;
                // The time on CPUs as a whole is summed up, not sampled.
                sum.1 += if holder == Some(UNSAMPLED) { 0.0 } else { *variance };
            }
            OfRun { components, ..run.clone() }
        };
        self.runs.iter().map(fold).collect()
    }

    /// What was done in the kernel means something else on the other side.
    fn cannot_tell_the_kernel(&mut self, reason: &str) {
        self.untold = self.untold.max(Untold::Kernel);
        self.lacking = self.runs.len();
        self.missing.push(Missing { part: State::Run.word(), reason: reason.to_owned() });
    }

    /// The mean of a component; none if some run cannot tell it.
    fn mean(&self, component: &str) -> Option<f64> {
        let of = |run: &OfRun| run.components.get(component).map_or(0.0, |(ns, _)| *ns);
        let is_told = self.untold.holder(component).is_none();
        is_told.then(|| self.runs.iter().map(of).sum::<f64>() / self.runs.len().max(1) as f64)
    }
}

/// The comparison of the accounts of both sides; none if a side has no run with an account.
pub(super) fn of_sides(
    base: (&[&RunData], &[Accounts]),
    test: (&[&RunData], &[Accounts]),
    design: Design,
    kernels: &Kernels,
) -> Option<BudgetComparison> {
    let per_operation = per_operation(&[base.0, test.0]);
    let (mut base, mut test) = (side(base, per_operation), side(test, per_operation));
    if let Some(reason) = kernels.said().filter(|_| kernels.is_unknown) {
        base.cannot_tell_the_kernel(&reason);
        test.cannot_tell_the_kernel(&reason);
    }
    let is_known = !base.runs.is_empty() && !test.runs.is_empty();
    is_known.then(|| compared(&base, &test, design, per_operation))
}

/// Why there is no comparison of accounts although one side has them, in a sentence.
pub(super) fn why_none(base: &[Accounts], test: &[Accounts]) -> Option<String> {
    let lacks = |side: &[Accounts]| side.iter().all(|accounts| accounts.budget.window_ns.is_none());
    let (side, accounts) = match (lacks(base), lacks(test)) {
        (true, false) => ("base", base),
        (false, true) => ("test", test),
        _ => return None,
    };
    let reason = accounts.iter().flat_map(|accounts| &accounts.budget.missing).find(|missing| missing.part == "off")?;
    Some(format!("where the time went is not compared: on {side}: {}", reason.reason))
}

fn compared(base: &OfSide, test: &OfSide, design: Design, per_operation: bool) -> BudgetComparison {
    let untold = base.untold.max(test.untold);
    let (bases, tests) = (base.folded(untold), test.folded(untold));
    let whole = Difference::of(&bases, &tests, design, |run| (run.total_ns, 0.0));
    let names: BTreeSet<&String> = bases.iter().chain(&tests).flat_map(|run| run.components.keys()).collect();
    let mut components: Vec<ComponentChange> = Vec::new();
    for name in names {
        let of = |run: &OfRun| run.components.get(name.as_str()).copied().unwrap_or_default();
        components.push(change(name, &Difference::of(&bases, &tests, design, of), &whole));
    }
    let all = || base.runs.iter().chain(&test.runs).flat_map(|run| run.components.keys());
    let one_sided: BTreeSet<&String> = all().filter(|name| untold.holder(name).is_some()).collect();
    components.extend(one_sided.into_iter().map(|name| figures(name, base.mean(name), test.mean(name))));
    let q = benjamini_hochberg(&components.iter().map(|component| component.p).collect::<Vec<_>>());
    for (component, q) in components.iter_mut().zip(q) {
        component.q = q;
    }
    let size = |component: &ComponentChange| component.difference_ns.map_or(0.0, f64::abs);
    components.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.component.cmp(&b.component)));
    let mechanisms = mechanisms::of_causes(&bases, &tests, design, &components);
    let places = places::of_largest(&bases, &tests, design, &components, whole.estimate);
    let missing: Vec<MissingPart> = [("base", base), ("test", test)].into_iter().flat_map(missing_of).collect();
    BudgetComparison {
        per: if per_operation { "operation" } else { "run" }.to_owned(),
        runs: [base.runs.len(), test.runs.len()],
        base_ns: whole.base,
        test_ns: whole.test,
        difference_ns: whole.estimate,
        difference_ci95: whole.interval,
        intervals_from: whole.from.to_owned(),
        components,
        mechanisms,
        places,
        is_lower_bound: !missing.is_empty(),
        missing,
        samples_per_second: [base.samples_per_second, test.samples_per_second],
    }
}

fn missing_of((name, side): (&str, &OfSide)) -> Vec<MissingPart> {
    let mut parts: BTreeMap<&str, &Missing> = BTreeMap::new();
    for missing in &side.missing {
        parts.entry(missing.part).or_insert(missing);
    }
    let part = |missing: &&Missing| MissingPart {
        side: name.to_owned(),
        part: missing.part.to_owned(),
        runs: side.lacking,
        reason: missing.reason.clone(),
    };
    parts.values().map(part).collect()
}

/// The accounts of a side's runs.
fn side((runs, accounts): (&[&RunData], &[Accounts]), per_operation: bool) -> OfSide {
    let mut side =
        OfSide { runs: Vec::new(), missing: Vec::new(), lacking: 0, untold: Untold::Nothing, samples_per_second: None };
    for (run, accounts) in runs.iter().zip(accounts) {
        let view = &accounts.budget;
        side.lacking += usize::from(!view.missing.is_empty());
        side.samples_per_second = side.samples_per_second.or_else(|| samples_per_second(run));
        if let Some(account) = account(run, accounts, per_operation) {
            side.untold = side.untold.max(Untold::of(view));
            side.runs.push(account);
        }
        side.missing.extend(view.missing.iter().cloned());
    }
    side
}

fn samples_per_second(run: &RunData) -> Option<f64> {
    let probe = run.manifest.probes.iter().find(|probe| probe.name == "cpu")?;
    probe.extra.get("frequency_hz").and_then(serde_json::Value::as_f64)
}

/// What a run's account says of a unit of work; none if it has no wall account.
fn account(run: &RunData, accounts: &Accounts, per_operation: bool) -> Option<OfRun> {
    let view = &accounts.budget;
    let (window_ns, idle_ns) = (view.window_ns? as f64, view.idle_ns? as f64);
    let units = if per_operation { view.operations.or(run.window.operations)? } else { 1.0 };
    let mut components: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    components.insert(IDLE.to_owned(), (idle_ns / units, 0.0));
    for row in view.components.iter().filter(|row| row.active) {
        components.insert(row.component.to_owned(), of_component(row, units)?);
    }
    let block = block_of(run).map(|(host, round)| (host.map(str::to_owned), round));
    Some(OfRun { block, total_ns: window_ns / units, components, places: accounts.places.clone() })
}

/// Time of a component per unit of work, and its variance by sampling: as much of the wall account as of the task account.
fn of_component(row: &OneComponent, units: f64) -> Option<(f64, f64)> {
    let wall_ns = row.wall_ns? as f64;
    let error_ns = if row.ns == 0 { 0.0 } else { row.error_ns as f64 * wall_ns / row.ns as f64 };
    Some((wall_ns / units, (error_ns / units).powi(2)))
}

/// The difference of one figure.
pub(super) struct Difference {
    pub base: f64,
    pub test: f64,
    pub estimate: f64,
    pub interval: Option<[f64; 2]>,
    pub p: Option<f64>,
    /// Where interval and p come from: see [`BudgetComparison::intervals_from`].
    pub from: &'static str,
}

impl Difference {
    pub(super) fn of(base: &[OfRun], test: &[OfRun], design: Design, of: impl Fn(&OfRun) -> (f64, f64)) -> Self {
        let values = |side: &[OfRun]| side.iter().map(|run| of(run).0).collect::<Vec<f64>>();
        let variance =
            |side: &[OfRun]| side.iter().map(|run| of(run).1).sum::<f64>() / (side.len().max(1) as f64).powi(2);
        let (bases, tests) = (values(base), values(test));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let (base_mean, test_mean) = (mean(&bases), mean(&tests));
        let tested = match (design, by_round(base, test, &of)) {
            (Design::Blocks, Some((bases, tests))) => paired_differences(&bases, &tests).ok(),
            _ => welch(&bases, &tests).ok(),
        };
        let plain = Self {
            base: base_mean,
            test: test_mean,
            estimate: test_mean - base_mean,
            interval: None,
            p: None,
            from: "none",
        };
        if let Some(tested) = tested {
            let interval = tested.interval(LEVEL).ok();
            return Self { estimate: tested.estimate, interval, p: Some(tested.p), from: "runs", ..plain };
        }
        let error = (variance(base) + variance(test)).sqrt();
        let is_alone = bases.len() == 1 || tests.len() == 1;
        match critical_value(f64::INFINITY, LEVEL) {
            Ok(width) if is_alone && error > 0.0 => {
                let p = Some(NORMAL.two_sided_p(plain.estimate / error));
                let interval = Some([plain.estimate - width * error, plain.estimate + width * error]);
                Self { interval, p, from: "sampling", ..plain }
            }
            _ if is_alone => Self { from: "sampling", ..plain },
            _ => plain,
        }
    }
}

/// The values of both sides by round; none unless each round has one of both.
fn by_round(base: &[OfRun], test: &[OfRun], of: &impl Fn(&OfRun) -> (f64, f64)) -> Option<(Vec<f64>, Vec<f64>)> {
    let blocks = |side: &[OfRun]| -> Option<BTreeMap<(Option<String>, u64), f64>> {
        let found: Option<BTreeMap<_, _>> = side.iter().map(|run| Some((run.block.clone()?, of(run).0))).collect();
        found.filter(|found| found.len() == side.len())
    };
    let (base, test) = (blocks(base)?, blocks(test)?);
    let is_whole = base.keys().eq(test.keys());
    is_whole.then(|| (base.into_values().collect(), test.into_values().collect()))
}

/// The figures of a component on both sides, and no difference: what is known where a side cannot tell it.
fn figures(name: &str, base: Option<f64>, test: Option<f64>) -> ComponentChange {
    let known: Option<&Component> = component_of(name);
    ComponentChange {
        component: name.to_owned(),
        state: known.map_or(IDLE, |component| component.state.word()).to_owned(),
        about: known.map_or(IDLE_ABOUT, |component| component.about).to_owned(),
        base_ns: base,
        test_ns: test,
        difference_ns: None,
        difference_ci95: None,
        share: None,
        p: None,
        q: None,
        significant: None,
    }
}

fn change(name: &str, difference: &Difference, whole: &Difference) -> ComponentChange {
    let is_sure = whole.interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0);
    ComponentChange {
        difference_ns: Some(difference.estimate),
        difference_ci95: difference.interval,
        share: is_sure.then(|| difference.estimate / whole.estimate),
        p: difference.p,
        ..figures(name, Some(difference.base), Some(difference.test))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A side whose runs have these times of `run.user` and `off.read`; sampling is off by 10 ns each.
    fn side(runs: &[(f64, f64)]) -> OfSide {
        let of_run = |(round, (user, read)): (u64, &(f64, f64))| OfRun {
            block: Some((None, round)),
            total_ns: user + read,
            components: [("run.user", *user), ("off.read", *read)]
                .map(|(name, ns)| (name.to_owned(), (ns, 100.0)))
                .into_iter()
                .collect(),
            places: Vec::new(),
        };
        let runs = (0..).zip(runs).map(of_run).collect();
        OfSide { runs, missing: Vec::new(), lacking: 0, untold: Untold::Nothing, samples_per_second: Some(97.0) }
    }

    fn found<'a>(budget: &'a BudgetComparison, name: &str) -> &'a ComponentChange {
        budget.components.iter().find(|change| change.component == name).expect("the component")
    }

    /// The components whose difference is not chance.
    fn certain(budget: &BudgetComparison) -> Vec<&str> {
        let is_certain = |change: &&ComponentChange| {
            let leaves_zero = change.difference_ci95.is_some_and(|[low, high]| low > 0.0 || high < 0.0);
            leaves_zero && change.q.is_none_or(|q| q <= 0.05)
        };
        budget.components.iter().filter(is_certain).map(|change| change.component.as_str()).collect()
    }

    #[test]
    fn differences_of_components_sum_to_that_of_the_whole() {
        let base = side(&[(1000.0, 500.0), (1010.0, 520.0), (990.0, 480.0), (1002.0, 505.0)]);
        let test = side(&[(1300.0, 510.0), (1310.0, 490.0), (1290.0, 500.0), (1304.0, 495.0)]);
        for design in [Design::Unpaired, Design::Blocks] {
            let budget = compared(&base, &test, design, true);
            assert_eq!((budget.per.as_str(), budget.intervals_from.as_str()), ("operation", "runs"));
            let sum: f64 = budget.components.iter().filter_map(|change| change.difference_ns).sum();
            assert!((sum - budget.difference_ns).abs() < 1e-9, "{budget:?}");
            let user = found(&budget, "run.user");
            let [low, high] = user.difference_ci95.expect("four runs a side");
            assert!(low < 300.5 && 300.5 < high && low > 250.0, "{user:?}");
            assert!(user.share.is_some_and(|share| (share - 300.5 / budget.difference_ns).abs() < 1e-9), "{user:?}");
            assert_eq!(certain(&budget), ["run.user"]);
            assert_eq!(budget.components[0].component, "run.user", "the largest first");
        }
    }

    #[test]
    fn rounds_take_out_what_both_sides_share() {
        let base = side(&[(1000.0, 0.0), (2000.0, 0.0), (3000.0, 0.0)]);
        let test = side(&[(1101.0, 0.0), (2099.0, 0.0), (3100.0, 0.0)]);
        let width = |design| {
            let [low, high] = compared(&base, &test, design, true).difference_ci95.expect("three runs a side");
            high - low
        };
        assert!(width(Design::Blocks) < 10.0 && width(Design::Unpaired) > 1000.0);
        // A round that one side lacks: no pairs.
        let less = side(&[(1101.0, 0.0), (2099.0, 0.0)]);
        assert!(by_round(&base.runs, &less.runs, &|run: &OfRun| (run.total_ns, 0.0)).is_none());
    }

    #[test]
    fn of_one_run_a_side_the_error_of_sampling_is_all_there_is() {
        let budget = compared(&side(&[(1000.0, 500.0)]), &side(&[(1200.0, 500.0)]), Design::Unpaired, false);
        assert_eq!((budget.per.as_str(), budget.intervals_from.as_str()), ("run", "sampling"));
        let [low, high] = found(&budget, "run.user").difference_ci95.expect("sampled");
        assert!((high - low - 2.0 * 1.96 * 200.0_f64.sqrt()).abs() < 0.1, "{low} {high}");
        assert_eq!(budget.difference_ci95, None, "the whole was not sampled");
        assert_eq!(found(&budget, "run.user").share, None, "whether the whole changed is not known");
    }

    #[test]
    fn a_side_that_lacks_a_part_makes_it_a_lower_bound() {
        let mut test = side(&[(1.0, 1.0), (1.0, 1.0)]);
        test.missing = vec![Missing { part: "run", reason: "cpu was not recorded".to_owned() }; 2];
        test.lacking = 2;
        let budget = compared(&side(&[(1.0, 1.0), (1.0, 1.0)]), &test, Design::Unpaired, true);
        assert!(budget.is_lower_bound);
        let missing = MissingPart {
            side: "test".to_owned(),
            part: "run".to_owned(),
            runs: 2,
            reason: "cpu was not recorded".to_owned(),
        };
        assert_eq!(budget.missing, [missing]);
        assert_eq!(budget.intervals_from, "none", "constant values have no spread");
    }

    #[test]
    fn what_one_side_cannot_tell_is_null_and_its_sum_is_compared() {
        let base = side(&[(1000.0, 500.0), (1010.0, 520.0), (990.0, 480.0)]);
        let mut test = side(&[(1300.0, 510.0), (1310.0, 490.0), (1290.0, 500.0)]);
        for run in &mut test.runs {
            let (ns, _) = run.components.remove("run.user").expect("it is there");
            run.components.insert(UNSAMPLED.to_owned(), (ns, 0.0));
        }
        test.untold = Untold::Run;
        let budget = compared(&base, &test, Design::Unpaired, true);
        let user = found(&budget, "run.user");
        assert_eq!((user.base_ns, user.test_ns, user.difference_ns, user.p), (Some(1000.0), None, None, None));
        let sum: f64 = budget.components.iter().filter_map(|change| change.difference_ns).sum();
        assert!((sum - budget.difference_ns).abs() < 1e-9, "{budget:?}");
        let run = found(&budget, UNSAMPLED);
        assert_eq!((run.base_ns, run.test_ns), (Some(1000.0), Some(1300.0)));
        // Names of the kernel's functions are told by both, or by none.
        assert_eq!(Untold::Kernel.holder("run.fault.entry"), Some(OTHER));
        assert_eq!(Untold::Kernel.holder("run.user"), None);
        assert_eq!(Untold::Run.holder("off.read"), None);
    }
}
