//! Making the runs of a set, in their order, and writing down what became of each.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pagelab_output::Folder;
use pagelab_recording::set::{PlannedRun, RunState, SetJson};
use serde_json::{Value, json};

use crate::error::ExperimentError;
use crate::failure::{Failure, FailureKind};
use crate::order::{self, Slot};
use crate::plan::{Between, Filled, Plan, Surroundings};
use crate::random::{fresh_seed, round_seed};
use crate::runner::{Made, Program, RunError, RunErrorKind, RunOutcome, RunSpec, Runner, Step, failed};
use crate::set::{RunDetails, Set, WARMUP_REASON};

/// How a plan is to be carried out.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Directory of the set.
    pub set: PathBuf,
    /// Go on with a set that was started before.
    pub resume: bool,
    /// Seed that goes before the plan's.
    pub seed: Option<u64>,
    /// Rounds to add to a set that is resumed. The result is then exploratory.
    pub add_runs: usize,
    /// Go on without streams that were asked for by name and refused.
    pub best_effort: bool,
    /// Level of the comparison's decisions.
    pub alpha: f64,
    /// Keep the output of commands from the terminal; the reason of a failed run has its last line.
    pub hide_output: bool,
    /// Below which /proc and /sys are looked for; `/` but in tests.
    pub root: PathBuf,
}

impl RunOptions {
    /// The usual options for a new set in `set`.
    pub fn new(set: impl Into<PathBuf>) -> Self {
        Self {
            set: set.into(),
            resume: false,
            seed: None,
            add_runs: 0,
            best_effort: false,
            alpha: 0.05,
            hide_output: false,
            root: PathBuf::from("/"),
        }
    }
}

/// What happens while runs are made; for a progress display.
#[derive(Debug)]
pub enum Event<'a> {
    /// The set is there and the host can do it.
    Ready {
        /// The set.
        dir: &'a Path,
        /// Runs that are still to be made.
        to_do: usize,
        /// Runs in all.
        total: usize,
    },
    /// A run begins.
    Begins {
        /// Which.
        run: &'a PlannedRun,
        /// Its place among all, from 1.
        number: usize,
        /// Runs in all.
        total: usize,
    },
    /// A run is over; its state tells how.
    Ended {
        /// Which.
        run: &'a PlannedRun,
        /// Its place among all, from 1.
        number: usize,
        /// Runs in all.
        total: usize,
    },
    /// Something the user should know.
    Note(&'a str),
}

/// Takes events.
pub trait Progress {
    /// Something happened.
    fn event(&mut self, event: &Event<'_>);
}

/// A display that shows nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn event(&mut self, _event: &Event<'_>) {}
}

/// A set after its runs.
#[derive(Debug)]
pub struct Executed {
    /// The set.
    pub set: Set,
    /// The user ended it before all was done; `--resume` goes on.
    pub interrupted: bool,
}

/// Makes the runs of the plan that are not made yet.
pub fn execute(
    plan: &Plan,
    options: &RunOptions,
    runner: &dyn Runner,
    progress: &mut dyn Progress,
) -> Result<Executed, ExperimentError> {
    let (set, filled) = if options.resume { reopen(plan, options)? } else { start(plan, options, runner)? };
    // A set that is whole needs nothing of the host.
    if options.resume && set.runs().iter().any(|run| run.state == RunState::Planned) {
        check_host(&filled, &plan.between, runner)?;
    }
    let work = Work { plan, filled: &filled, options, runner, told: RefCell::default() };
    work.all(set, progress)
}

/// The order of a plan's runs, warm-up first.
pub(crate) fn whole_order(plan: &Plan, seed: u64, rounds: usize) -> Vec<Slot> {
    let variants = plan.variants.len();
    let mut slots = order::warmup(seed, variants, plan.warmup);
    slots.extend(order::order(seed, variants, rounds));
    slots
}

/// The set's directory as an absolute path, though it may not exist yet.
pub(crate) fn absolute(dir: &Path) -> Result<PathBuf, ExperimentError> {
    std::path::absolute(dir).map_err(ExperimentError::io("resolve", dir))
}

fn start(plan: &Plan, options: &RunOptions, runner: &dyn Runner) -> Result<(Set, Filled), ExperimentError> {
    let seed = options.seed.or(plan.seed).unwrap_or_else(fresh_seed);
    let dir = absolute(&options.set)?;
    let filled = plan.fill(&Surroundings { root: options.root.clone(), set: dir.clone(), seed })?;
    check_host(&filled, &plan.between, runner)?;
    let set = Set::create(&dir, plan, &filled, seed, &whole_order(plan, seed, plan.runs))?;
    make_workdir(&filled.workdir)?;
    Ok((set, filled))
}

fn reopen(plan: &Plan, options: &RunOptions) -> Result<(Set, Filled), ExperimentError> {
    let dir = absolute(&options.set)?;
    let mut set = Set::open(&dir)?;
    same_plan(&dir, plan, set.json())?;
    if let Some(seed) = options.seed
        && seed != set.json().seed
    {
        return Err(ExperimentError::PlanChanged {
            dir,
            what: "seed".to_owned(),
            found: seed.to_string(),
            in_set: set.json().seed.to_string(),
        });
    }
    let filled = plan.fill(&Surroundings { root: options.root.clone(), set: dir.clone(), seed: set.json().seed })?;
    same_meaning(&dir, &filled, &set.filled()?)?;
    set.recover()?;
    if options.add_runs > 0 {
        let rounds = set.runs().iter().map(|run| run.round).max().unwrap_or(0) as usize + options.add_runs;
        let order = whole_order(plan, set.json().seed, rounds);
        set.add_rounds(plan, &order)?;
    }
    make_workdir(&filled.workdir)?;
    Ok((set, filled))
}

fn make_workdir(dir: &Path) -> Result<(), ExperimentError> {
    if !dir.is_dir() {
        Folder::create_new(dir)?;
    }
    Ok(())
}

/// Whether the plan means here what the set says that it meant when the set was started. What is carried out is what the plan
/// says now: the set is a document that others may have changed, and it holds commands.
fn same_meaning(dir: &Path, now: &Filled, in_set: &Filled) -> Result<(), ExperimentError> {
    // Notes are words about the host, and the directory follows a set that was moved.
    let bearing = |filled: &Filled| json!({"variants": filled.variants, "decoys": filled.decoys});
    match first_difference("here", &bearing(now), &bearing(in_set)) {
        None => Ok(()),
        Some((what, found, in_set)) => Err(ExperimentError::PlanChanged { dir: dir.to_owned(), what, found, in_set }),
    }
}

/// Whether the plan is the one that the set was started with, in everything that affects the runs.
fn same_plan(dir: &Path, plan: &Plan, set: &SetJson) -> Result<(), ExperimentError> {
    match first_difference("", &plan.to_json(), &set.plan) {
        None => Ok(()),
        Some((what, found, in_set)) => Err(ExperimentError::PlanChanged { dir: dir.to_owned(), what, found, in_set }),
    }
}

/// Whether the set that is kept was made from this plan.
///
/// # Errors
/// [`ExperimentError::PlanChanged`] if it was made from another one; or the set cannot be read.
pub fn unchanged(plan: &Plan, options: &RunOptions) -> Result<(), ExperimentError> {
    same_plan(&options.set, plan, &SetJson::load(&options.set)?)
}

/// Where and how two documents differ first. Where a job file lies, and on which lines, is no difference.
fn first_difference(at: &str, one: &Value, other: &Value) -> Option<(String, String, String)> {
    const PLACES: [&str; 5] = ["files", "sources", "origin", "given", "inherited"];
    let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
    match (one, other) {
        (Value::Object(left), Value::Object(right)) => {
            let keys = left.keys().chain(right.keys().filter(|key| !left.contains_key(*key)));
            let mut keys = keys.filter(|key| !PLACES.contains(&key.as_str()));
            keys.find_map(|key| {
                let name = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => first_difference(&name, left, right),
                    (left, right) => Some((name, shown(left), shown(right))),
                }
            })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => left
            .iter()
            .zip(right)
            .enumerate()
            .find_map(|(index, (left, right))| first_difference(&format!("{at}[{index}]"), left, right)),
        _ if one == other => None,
        _ => Some((at.to_owned(), one.to_string(), other.to_string())),
    }
}

/// Asks the runner whether the host can do everything that some variant needs.
fn check_host(filled: &Filled, between: &[Between], runner: &dyn Runner) -> Result<(), ExperimentError> {
    for variant in &filled.variants {
        runner.ready(variant)?;
        runner.check(variant, between)?;
    }
    Ok(())
}

/// How one run went.
enum Went {
    Well(RunDetails),
    Badly(Failure, RunDetails),
    Interrupted,
}

struct Work<'a> {
    plan: &'a Plan,
    filled: &'a Filled,
    options: &'a RunOptions,
    runner: &'a dyn Runner,
    /// Warnings that were passed on already.
    told: RefCell<BTreeSet<String>>,
}

impl Work<'_> {
    fn all(&self, mut set: Set, progress: &mut dyn Progress) -> Result<Executed, ExperimentError> {
        let total = set.runs().len();
        let to_do = set.runs().iter().filter(|run| run.state == RunState::Planned).count();
        progress.event(&Event::Ready { dir: set.dir(), to_do, total });
        for note in &self.filled.notes {
            progress.event(&Event::Note(note));
        }
        for index in 0..total {
            let Some(run) = set.runs().get(index).filter(|run| run.state == RunState::Planned).cloned() else {
                continue;
            };
            if self.runner.stopped() {
                return Ok(Executed { set, interrupted: true });
            }
            progress.event(&Event::Begins { run: &run, number: index + 1, total });
            set.mark(index, RunState::Running, None)?;
            let went = self.one(&set, &run, progress);
            match went {
                Went::Interrupted => {
                    set.set_aside(index)?;
                    return Ok(Executed { set, interrupted: true });
                }
                Went::Well(details) if run.round == 0 => {
                    set.mark(index, RunState::Excluded { reason: WARMUP_REASON.to_owned() }, Some(details))?;
                }
                Went::Well(details) => set.mark(index, RunState::Done, Some(details))?,
                Went::Badly(failure, details) => {
                    set.mark(index, RunState::Failed { reason: failure.to_string() }, Some(details))?;
                }
            }
            if let Some(run) = set.runs().get(index) {
                progress.event(&Event::Ended { run, number: index + 1, total });
            }
            give_up_early(set.runs(), index)?;
        }
        Ok(Executed { set, interrupted: false })
    }

    /// Makes one run: prepare, between, settings, the run, settings back, cleanup.
    fn one(&self, set: &Set, run: &PlannedRun, progress: &mut dyn Progress) -> Went {
        let started = Instant::now();
        let mut details = RunDetails::default();
        let result = self.prepared(set, run, &mut details);
        if let Some(argv) = &self.plan.cleanup
            && let Err(error) = self.runner.step(&Step::Cleanup(self.program(argv)))
        {
            // The measurement stands; its readers should know about the leftovers.
            details.warnings.push(format!("cleanup: {error}"));
        }
        for warning in &details.warnings {
            // What every run says is said once; the set keeps it for each.
            if self.told.borrow_mut().insert(warning.clone()) {
                progress.event(&Event::Note(warning));
            }
        }
        details.took_ms = u64::try_from(started.elapsed().as_millis()).ok();
        match result {
            Ok(outcome) if outcome.interrupted => Went::Interrupted,
            Ok(outcome) => match self.failure(&outcome) {
                None => Went::Well(details),
                // A signal to us reaches the workload as well.
                Some(_) if self.runner.stopped() => Went::Interrupted,
                Some(failure) => Went::Badly(failure, details),
            },
            Err(None) => Went::Interrupted,
            Err(Some(_)) if self.runner.stopped() => Went::Interrupted,
            Err(Some(failure)) => Went::Badly(failure, details),
        }
    }

    /// Why a run that has ended is no good.
    fn failure(&self, outcome: &RunOutcome) -> Option<Failure> {
        let deciding = self.plan.deciding_value();
        let missing = || Failure::of_missing_value(outcome, &deciding?.name);
        Failure::of_outcome(outcome, self.plan.timeout).or_else(missing)
    }

    /// Everything up to the end of the run. `Err(None)`: the user ended it.
    fn prepared(&self, set: &Set, run: &PlannedRun, details: &mut RunDetails) -> Result<RunOutcome, Option<Failure>> {
        let Some(variant) = self.filled.variants.iter().find(|variant| variant.name == run.variant) else {
            return Err(Some(Failure::new(
                FailureKind::NotStarted,
                format!("the set's plan has no variant {}", run.variant),
            )));
        };
        self.runner.ready(variant).map_err(failed(FailureKind::Host))?;
        if let Some(argv) = &self.plan.prepare {
            self.runner.step(&Step::Prepare(self.program(argv))).map_err(failed(FailureKind::Prepare))?;
        }
        for between in &self.plan.between {
            self.runner.step(&Step::Between(*between)).map_err(failed(FailureKind::Between))?;
        }
        let spec = RunSpec {
            variant: run.variant.clone(),
            run: run.run,
            round: run.round,
            position: run.position,
            dir: set.dir().join(&run.dir),
            label: if run.round == 0 { format!("{} (warm-up)", run.variant) } else { run.variant.clone() },
            work: variant.work.clone(),
            observe: self.plan.observe.clone(),
            process: variant.process.clone(),
            workdir: self.filled.workdir.clone(),
            timeout: self.plan.timeout,
            seed: round_seed(set.json().seed, run.round),
            best_effort: self.options.best_effort,
            values: self.plan.values.clone(),
            hide_output: self.options.hide_output,
        };
        let Made { changes, warnings, result } = self.runner.make(variant, &spec);
        details.changes = changes;
        details.warnings.extend(warnings);
        result
    }

    fn program(&self, argv: &[String]) -> Program {
        Program {
            argv: argv.to_vec(),
            workdir: self.filled.workdir.clone(),
            plan_dir: self.plan.dir().to_owned(),
            timeout: self.plan.timeout,
        }
    }
}

/// Stops when a whole round (or the whole warm-up) came to nothing and no run has succeeded before: the rest would too.
fn give_up_early(runs: &[PlannedRun], last: usize) -> Result<(), ExperimentError> {
    let Some(round) = runs.get(last).map(|run| run.round) else { return Ok(()) };
    if runs.get(last + 1).is_some_and(|next| next.round == round) {
        return Ok(());
    }
    let made = runs.iter().take(last + 1);
    let mut first = None;
    let mut of_round = 0;
    for run in made {
        match &run.state {
            RunState::Failed { reason } => {
                of_round += usize::from(run.round == round);
                first = first.or(Some((run, reason)));
            }
            _ => return Ok(()),
        }
    }
    match first {
        None => Ok(()),
        Some((run, reason)) => Err(ExperimentError::NothingRuns {
            round,
            runs: of_round,
            first: format!("{} run {}: {reason}", run.variant, run.run),
            host: FailureKind::of(reason).is_some_and(FailureKind::is_host),
        }),
    }
}

impl From<RunError> for ExperimentError {
    fn from(error: RunError) -> Self {
        match error.kind {
            RunErrorKind::Interrupted => Self::Interrupted,
            RunErrorKind::Input => Self::Input { reason: error.reason },
            _ => Self::Host { reason: error.reason },
        }
    }
}
