//! The tool `explain`: causes that one recording shows by itself.

use pagelab_analysis::explain::explain;
use rmcp::schemars;

use crate::answer::{ToolError, document};
use crate::recordings::Served;

const SMALLER: &str = "ask `show` for its parts: the views summary, budget and faults";

/// The recording.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The recording, by its path in `recordings`.
    recording: String,
}

/// Looks for causes.
pub(crate) fn answer(served: &Served, args: &Args) -> Result<String, ToolError> {
    document(&explain(&served.named(&args.recording)?)?, SMALLER)
}
