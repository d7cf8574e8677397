//! What an experiment's logic needs of the machines that its runs are made on.
//!
//! [`Runner`] is what an experiment asks for: a machine made ready for a variant, steps, runs under settings. Two stand
//! behind it: any [`HostControl`], which changes its own settings and puts them back ([`crate::LocalRunner`] is the real one; tests
//! put another one there that fails or dies wherever they want it to), and [`crate::LabRunner`], which has the same done in
//! VMs, by a pagelab with a [`crate::LocalRunner`] of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureKind};
use crate::plan::{Between, FilledVariant, ValueSpec, Work};

/// One run to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// Variant.
    pub variant: String,
    /// Number within the variant, from 1.
    pub run: u64,
    /// Round, from 1; 0 for warm-up.
    pub round: u64,
    /// Position in the round, from 1.
    pub position: u64,
    /// Directory of the recording; it does not exist yet.
    pub dir: PathBuf,
    /// The recording's name.
    pub label: String,
    /// What runs.
    pub work: Work,
    /// Streams to observe, as `--observe` takes them.
    pub observe: String,
    /// Settings of the started process.
    pub process: BTreeMap<String, String>,
    /// Directory to run in.
    pub workdir: PathBuf,
    /// Longest time it may take.
    pub timeout: Option<Duration>,
    /// Seed of this round; the same for each variant.
    pub seed: u64,
    /// Go on without streams that were asked for by name and refused.
    pub best_effort: bool,
    /// Numbers to look for in the command's output.
    #[serde(default)]
    pub values: Vec<ValueSpec>,
    /// Whether the command's output is kept from the terminal.
    #[serde(default)]
    pub hide_output: bool,
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// Exit code of the workload; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The timeout struck.
    pub timed_out: bool,
    /// The user ended it.
    pub interrupted: bool,
    /// The recording is whole.
    pub complete: bool,
    /// Numbers that the command's output did not hold: the name and why.
    #[serde(default)]
    pub missing_values: Vec<(String, String)>,
    /// The last line of a hidden output.
    #[serde(default)]
    pub last_line: Option<String>,
    /// Why a job failed, where the workload is one.
    #[serde(default)]
    pub job_failure: Option<String>,
    /// Notes for the user.
    pub warnings: Vec<String>,
}

/// Something to do on the host between runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// `prepare` of the plan.
    Prepare(Program),
    /// `cleanup` of the plan.
    Cleanup(Program),
    /// One of `between`.
    Between(Between),
}

impl Step {
    /// Its name in messages and reasons.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Prepare(_) => "prepare",
            Self::Cleanup(_) => "cleanup",
            Self::Between(between) => between.word(),
        }
    }
}

/// A program to run to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Directory to run in.
    pub workdir: PathBuf,
    /// The plan's directory; the program finds it in the environment as `PAGELAB_PLAN_DIR`.
    pub plan_dir: PathBuf,
    /// Longest time it may take.
    pub timeout: Option<Duration>,
}

/// What became of a setting that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The setting.
    pub key: String,
    /// Its value before.
    pub previous: String,
    /// The value requested.
    pub asked: String,
    /// The value read back.
    pub got: String,
}

impl Change {
    /// Whether the value read back is the one requested; white space does not matter.
    pub fn granted(&self) -> bool {
        self.asked.split_whitespace().eq(self.got.split_whitespace())
    }
}

/// Why the host did not carry out a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}")]
pub struct RunError {
    /// What failed.
    pub kind: RunErrorKind,
    /// What was found, what is needed, what to type.
    pub reason: String,
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunErrorKind {
    /// The host lacks something or refused it.
    Host,
    /// The workload could not be started, or a step's program failed.
    Work,
    /// The recording could not be written.
    Recording,
    /// The time was over.
    Timeout,
    /// The user ended it.
    Interrupted,
    /// The VM that it was to be done in did not boot, hung, panicked or ended.
    Guest,
    /// The request is impossible on any host.
    Input,
}

impl RunError {
    /// An error of a kind.
    pub fn new(kind: RunErrorKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into() }
    }
}

/// What became of a run under settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Settings that were changed for it, and the values they got.
    pub changes: Vec<Change>,
    /// Notes for the user: settings that could not be put back.
    pub warnings: Vec<String>,
    /// How the run ended; or why it was not made. `Err(None)`: the user ended it.
    pub result: Result<RunOutcome, Option<Failure>>,
}

/// The meaning of a failed step or run; `otherwise` names the attempted action.
pub(crate) fn failed(otherwise: FailureKind) -> impl FnOnce(RunError) -> Option<Failure> {
    move |error| match error.kind {
        RunErrorKind::Interrupted => None,
        _ => Some(Failure::of_error(&error, otherwise)),
    }
}

/// Makes the runs of an experiment.
pub trait Runner {
    /// Makes ready what this variant runs on; what follows happens there.
    fn ready(&self, variant: &FilledVariant) -> Result<(), RunError>;

    /// Says whether what the experiment needs can be done there, before anything is changed: may the variant's settings be
    /// written, may these steps be done.
    fn check(&self, variant: &FilledVariant, between: &[Between]) -> Result<(), RunError>;

    /// Does one step.
    fn step(&self, step: &Step) -> Result<(), RunError>;

    /// Makes one recorded run under the variant's settings, and restores them.
    fn make(&self, variant: &FilledVariant, spec: &RunSpec) -> Made;

    /// Whether the user asked to end (SIGINT, SIGTERM).
    fn stopped(&self) -> bool;
}

impl<H: HostControl> Runner for H {
    fn ready(&self, _variant: &FilledVariant) -> Result<(), RunError> {
        Ok(())
    }

    fn check(&self, variant: &FilledVariant, between: &[Between]) -> Result<(), RunError> {
        HostControl::check(self, &variant.host, between)
    }

    fn step(&self, step: &Step) -> Result<(), RunError> {
        HostControl::step(self, step)
    }

    fn make(&self, variant: &FilledVariant, spec: &RunSpec) -> Made {
        under(self, &variant.host, Vec::new(), spec)
    }

    fn stopped(&self) -> bool {
        HostControl::stopped(self)
    }
}

/// Makes one run of a host under settings. `before` are changes that were made earlier: those of a boot.
pub(crate) fn under(
    host: &dyn HostControl,
    settings: &BTreeMap<String, String>,
    before: Vec<Change>,
    spec: &RunSpec,
) -> Made {
    let mut made = Made { changes: before, warnings: Vec::new(), result: Err(None) };
    if !settings.is_empty() {
        match host.change_settings(settings) {
            Ok(changes) => made.changes.extend(changes),
            Err(error) => {
                made.result = Err(failed(FailureKind::SettingRefused)(error));
                return made;
            }
        }
    }
    made.result = match Failure::of_changes(&made.changes) {
        Some(failure) => Err(Some(failure)),
        None => host.run(spec).map_err(failed(FailureKind::NotStarted)),
    };
    if !settings.is_empty() {
        made.warnings.extend(host.restore_settings());
    }
    if let Ok(outcome) = &made.result {
        made.warnings.extend(outcome.warnings.iter().cloned());
    }
    made
}

/// A host whose settings this process changes.
pub trait HostControl {
    /// Says whether the host can do what the experiment needs, before anything is changed: may these settings be
    /// written, may these steps be done.
    fn check(&self, settings: &BTreeMap<String, String>, between: &[Between]) -> Result<(), RunError>;

    /// Does one step.
    fn step(&self, step: &Step) -> Result<(), RunError>;

    /// Changes settings of the host, until [`Self::restore_settings`] or the end of this value. On an error nothing stays
    /// changed.
    fn change_settings(&self, settings: &BTreeMap<String, String>) -> Result<Vec<Change>, RunError>;

    /// Puts back what [`Self::change_settings`] changed. Gives a line for each setting that could not be put back, or that
    /// somebody else changed meanwhile and that was left.
    fn restore_settings(&self) -> Vec<String>;

    /// Makes one recorded run.
    fn run(&self, spec: &RunSpec) -> Result<RunOutcome, RunError>;

    /// Whether the user asked to end (SIGINT, SIGTERM).
    fn stopped(&self) -> bool;
}
