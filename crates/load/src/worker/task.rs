//! What a worker gets and gives.

use std::path::Path;

use crate::clock::Clock;
use crate::job::JobSpec;
use crate::plan::WorkerPlan;
use crate::report::WorkerReport;
use crate::worker::shared::Shared;

/// Everything a worker needs to know.
pub struct Task<'a> {
    /// Its plan.
    pub plan: &'a WorkerPlan,
    /// Its job.
    pub job: &'a JobSpec,
    /// The clock that times its operations.
    pub clock: Clock,
    /// What it shares with the supervisor and the other workers.
    pub shared: &'a Shared,
    /// Where files made by pagelab are remembered if the file system cannot.
    pub state_dir: &'a Path,
}

/// What a worker gives back: its report, and whether it ended before its work could begin.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct WorkerResult {
    /// The report.
    pub report: WorkerReport,
    /// Set if it could not get ready: the exit status that the reason deserves.
    pub not_ready: Option<u8>,
}
