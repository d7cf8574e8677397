//! The tool `doctor`: the host that the server runs on, as the server's user sees it.

use std::path::Path;

use pagelab_host::doctor::host;
use rmcp::schemars;
use serde_json::json;

use crate::answer::{ToolError, document};

const SMALLER: &str = "ask for it in a shell: pagelab doctor";

/// It takes none.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {}

/// Looks at the host. The document is that of `doctor --json`, which also has files and processes.
pub(crate) fn answer() -> Result<String, ToolError> {
    let report = host::look(Path::new("/"), std::process::id());
    document(&json!({"findings": report.findings, "slots": [], "regions": [], "host": report}), SMALLER)
}
