//! Plans, interleaved runs of their variants, and resuming them.
//!
//! A *plan* (`plan.toml`) names two or more variants: what runs, and under which settings. An *experiment* makes the runs
//! in randomised complete blocks, records each, and compares. It leaves a *set*:
//!
//! ```text
//! SET/set.json                      plan, seed, order, state of each run
//! SET/compare.json                  the verdict
//! SET/variant=good/run=001/         a recording
//! SET/warmup/variant=good/run=001/  recorded, not compared
//! SET/aborted/...                   what was broken off and made again
//! ```
//!
//! The way of a plan:
//!
//! 1. [`Plan::load`] reads it and checks all that can be checked without the host. Mistakes have file and line.
//! 2. [`Plan::fill`] looks at the host: are the settings there, which device is meant, which harmless differences
//!    ([`decoys`]) can be drawn. Still nothing has changed. [`dry_run`] shows what would.
//! 3. [`order::order`] lays out the runs from the seed.
//! 4. [`run`] makes them through a [`Runner`], which stands between this crate's logic and the host: for each run
//!    `prepare`, the steps of `between`, settings through the guard, the recorded run, settings back, `cleanup`.
//!    `set.json` is written before and after each, so that a kill at any instant costs one run, and `resume` makes the
//!    rest in the order that was drawn at first.
//! 5. The first variant (or `base`) is compared with each other one.
//!
//! A plan with `[lab]` is carried out in VMs by a [`LabRunner`]; inside the guest this crate does the work again.
//!
//! A run that fails is shown with its reason, kept, left out of the comparison, and not made again: a variant that fails
//! one time in ten is a finding, and repeating until it works would hide it. The other variants of its round still run.
//!
//! When the user ends an experiment (SIGINT), the run in progress is set aside, settings go back, and nothing is compared:
//! a look before the end, with the choice to stop, would spoil the p value. `resume` goes on to the planned end. Rounds
//! added beyond it (`add_runs`) mark the set `exploratory` for good.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod compare;
mod confirm;
pub mod decoys;
mod device;
pub mod document;
mod dry_run;
mod error;
mod execute;
mod failure;
mod kept;
mod lab;
mod local;
pub mod order;
mod plan;
pub mod random;
mod runner;
mod set;

pub use compare::{About, COMPARE_JSON, Document, FailedRun, Pairing, UnpairedRun, failed_runs, pairing};
pub use confirm::{ConfirmOptions, Subject, confirm};
pub use device::{NoDevice, block_device_of};
pub use document::Place;
pub use dry_run::{DryRound, DryRun, DrySetting, DryVariant, Estimate, dry_run};
pub use error::{ExperimentError, PlanError};
pub use execute::{Event, Executed, Progress, RunOptions, Silent, execute, unchanged};
pub use failure::{Failure, FailureKind};
pub use kept::{KeptSet, one_of_each};
pub use lab::{Answer, BootVm, GUEST_COMMAND, LabRunner, Request, RunningVm, guest_main};
pub use local::{LocalRunner, default_set_dir};
pub use pagelab_recording::set::{ABORTED, WARMUP};
pub use plan::{
    Better, Between, Boot, Decoys, Filled, FilledVariant, LabPlan, Plan, PlannedSetting, PrimaryMetric, Surroundings,
    ValueSpec, Variant, Work,
};
pub use runner::{Change, HostControl, Made, Program, RunError, RunErrorKind, RunOutcome, RunSpec, Runner, Step};
pub use set::{RunDetails, Set, WARMUP_REASON};

/// An experiment that has ended.
#[derive(Debug)]
pub struct Outcome {
    /// The set's directory.
    pub dir: std::path::PathBuf,
    /// What `experiment --json` prints.
    pub document: Document,
    /// The user ended it before all was done; `--resume` goes on.
    pub interrupted: bool,
}

impl Outcome {
    /// Writes the document into the set again, after findings were confirmed.
    ///
    /// # Errors
    /// The set cannot be written.
    pub fn save(&self) -> Result<(), ExperimentError> {
        compare::write(&self.document, &self.dir)
    }
}

/// Makes the runs of the plan and compares them; writes `compare.json` unless the user ended it early.
pub fn run(
    plan: &Plan,
    options: &RunOptions,
    runner: &dyn Runner,
    progress: &mut dyn Progress,
) -> Result<Outcome, ExperimentError> {
    let Executed { set, interrupted } = execute(plan, options, runner, progress)?;
    let document = compare::document(plan, &set, options.alpha, interrupted, &pagelab_analysis::compare::compare)?;
    if !interrupted {
        compare::write(&document, set.dir())?;
    }
    Ok(Outcome { dir: set.dir().to_owned(), document, interrupted })
}
