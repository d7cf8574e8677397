//! `pagelab mcp`: recordings as tools of the Model Context Protocol.

use std::path::PathBuf;

use pagelab_mcp::McpError;

use crate::failure::Failure;

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
}

/// Serves until the client has gone.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    pagelab_mcp::serve(&args.dirs).map(|()| 0).map_err(|error| match error {
        McpError::Recording(error) => error.into(),
        McpError::Runtime(_) => Failure::host(error),
        McpError::Protocol(_) => Failure::input(error),
    })
}
