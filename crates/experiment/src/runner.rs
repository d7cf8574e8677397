//! The door between an experiment's logic and the host: settings, steps between runs, recorded runs.
//!
//! [`crate::LocalRunner`] stands behind it on a real host; tests put another one there that fails or dies wherever they
//! want it to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::plan::{Between, Work};

/// One run to make.
#[derive(Debug, Clone, PartialEq)]
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
    /// What the recording is called.
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
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Something to do on the host between runs.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// What was asked for.
    pub asked: String,
    /// What was read back.
    pub got: String,
}

impl Change {
    /// Whether what was read back is what was asked for; white space does not matter.
    pub fn granted(&self) -> bool {
        self.asked.split_whitespace().eq(self.got.split_whitespace())
    }
}

/// Why the host did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct RunError {
    /// What failed.
    pub kind: RunErrorKind,
    /// What was found, what is needed, what to type.
    pub reason: String,
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl RunError {
    /// An error of a kind.
    pub fn new(kind: RunErrorKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into() }
    }
}

/// Settings while they are in force.
pub trait InForce {
    /// What was asked for, and what was got.
    fn changes(&self) -> &[Change];

    /// Puts back what was there. Says what could not be put back, or was changed by somebody else meanwhile and left.
    fn undo(self: Box<Self>) -> Vec<String>;
}

/// Makes runs on a host.
pub trait Runner {
    /// Says whether the host can do what the experiment needs, before anything is changed: may these settings be
    /// written, may these steps be done.
    fn check(&self, settings: &BTreeMap<String, String>, between: &[Between]) -> Result<(), RunError>;

    /// Does one step.
    fn step(&self, step: &Step) -> Result<(), RunError>;

    /// Changes settings of the host. On an error nothing stays changed.
    fn apply(&self, settings: &BTreeMap<String, String>) -> Result<Box<dyn InForce + '_>, RunError>;

    /// Makes one recorded run.
    fn run(&self, spec: &RunSpec) -> Result<RunOutcome, RunError>;

    /// Whether the user asked to end (SIGINT, SIGTERM).
    fn stopped(&self) -> bool;
}
