//! Runs in VMs: one for each distinct boot among the variants, up until the experiment ends.
//!
//! What happens in a guest is done by pagelab itself, started there by the hidden command [`GUEST_COMMAND`] with a folder
//! that host and guest share. It reads `request.json`, has a [`crate::LocalRunner`] do it, and leaves `answer.json`:
//! settings, steps and runs are those of any host. A recording is written in the guest's memory and copied to the
//! shared folder once it is closed: on 9p a recorder pays for every part with a round trip to the host, while the
//! workload runs. The host then moves it into the set.
//!
//! The plan's folder has the same path in the guest as on the host; what is written there stays in the guest, as does
//! everything else but recordings.

mod guest;
mod runner;
mod share;
mod vm;

use serde::{Deserialize, Serialize};

pub use guest::guest_main;
pub use runner::LabRunner;
pub use vm::{BootVm, RunningVm};

use crate::plan::{Between, FilledVariant};
use crate::runner::{Made, RunError, RunSpec, Step};

/// The binary's hidden command that does in a guest what its host asks for: `PROGRAM __guest FOLDER`.
pub const GUEST_COMMAND: &str = "__guest";

/// The request.
const REQUEST: &str = "request.json";
/// What came of it.
const ANSWER: &str = "answer.json";
/// Where the recording of a run is put.
const RECORDING: &str = "recording";

/// The host's request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Can this guest do it?
    Check {
        /// The variant.
        variant: Box<FilledVariant>,
        /// Steps between runs.
        between: Vec<Between>,
    },
    /// Do one step.
    Step(Step),
    /// Make one run under the variant's settings.
    Make {
        /// The variant.
        variant: Box<FilledVariant>,
        /// The run; its directory is the host's.
        spec: Box<RunSpec>,
    },
}

/// The guest's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done, or can be.
    Done,
    /// It is not, or cannot be.
    Failed(RunError),
    /// What became of the run.
    Made(Box<Made>),
}
