//! `pagelab mcp`: recordings as tools of the Model Context Protocol.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pagelab_mcp::{McpError, QueryRunner};
use pagelab_sql::process::{ProcessError, ProcessLimits};
use pagelab_sql::{ShortAnswer, ShortError, ShortQuery};

use crate::failure::Failure;
use crate::options::parse_seconds;

/// Memory of a query's process: four times what it sorts and joins in. The engine itself takes some 50 MB of it.
const RESIDENT_BYTES: u64 = 1 << 30;

/// Answer a client of the Model Context Protocol about recordings, on standard input and output.
///
/// The tools recordings, show, compare, explain, doctor, query and tables only read, and only the recordings at and below DIR. New
/// runs of a set are found as they appear. The server ends when the client closes standard input. docs/mcp.md says how a client is
/// told to start it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  pagelab mcp good.rec bad.rec\n  pagelab mcp set")]
pub(crate) struct Args {
    /// Recordings or sets that may be asked about.
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Kill a query of the client's after S seconds.
    #[arg(long, value_name = "S", default_value = "60", value_parser = parse_seconds)]
    query_timeout: Duration,
}

/// Runs each query in a process of its own: this program, as `pagelab __query`.
#[derive(Debug)]
struct InProcesses {
    limits: ProcessLimits,
}

impl QueryRunner for InProcesses {
    fn run(&self, query: &ShortQuery, cancelled: BorrowedFd<'_>) -> Result<ShortAnswer, ShortError> {
        // The link leads to the running program even after its file was replaced.
        let program = Path::new("/proc/self/exe");
        pagelab_sql::process::run(program, query, self.limits, cancelled).map_err(|error| match error {
            ProcessError::Query(error) => error,
            ProcessError::Late { .. } => ShortError::Unanswered(format!(
                "{error}; or have the server started with a longer limit: pagelab mcp --query-timeout S"
            )),
            other => ShortError::Unanswered(other.to_string()),
        })
    }
}

/// Serves until the client has gone.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let limits = ProcessLimits { time: args.query_timeout, resident_bytes: RESIDENT_BYTES };
    pagelab_mcp::serve(&args.dirs, Arc::new(InProcesses { limits })).map(|()| 0).map_err(|error| match error {
        McpError::Recording(error) => error.into(),
        McpError::Runtime(_) => Failure::host(error),
        McpError::Protocol(_) => Failure::input(error),
    })
}
