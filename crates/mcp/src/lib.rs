//! Recordings as tools of the Model Context Protocol: a server on standard input and output, for clients that ask on behalf of a
//! language model.
//!
//! | tool | answers | made by |
//! |---|---|---|
//! | `recordings` | the recordings that may be asked about, by the paths that name them | `recordings.rs` |
//! | `show` | one view of one recording | `show.rs` |
//! | `compare` | two sides of runs: whether they differ, in what, and why | `compare.rs` |
//! | `explain` | causes that one recording shows by itself | `explain.rs` |
//! | `doctor` | the host that the server runs on | `doctor.rs` |
//! | `query` | SQL over the recordings | `query.rs` |
//! | `tables` | the tables of that SQL, with unit and meaning of each column | `tables.rs` |
//!
//! Each tool is one file: its arguments, and a function that makes its answer. `server.rs` has their names and descriptions, and runs
//! them. The figures are those that the commands of the same names print with `--json`.
//!
//! ## What a client cannot do
//!
//! It cannot change anything: no tool writes, and SQL is refused unless it reads. It reads the recordings at and below the paths
//! that the server was started with, and nothing else: a recording is named by the very text that `recordings` lists, compared
//! byte by byte, and no path of a client's is ever opened (`recordings.rs`). SQL knows the tables of those recordings and no
//! files. Of the host it is told what `doctor` says. Arguments that a tool does not have are refused.
//!
//! ## Refusals
//! | refused | test |
//! |---|---|
//! | a recording that is not served, by whatever path | `crates/cli/tests/mcp.rs::wrong_questions_are_refused_with_what_was_found_and_what_is_needed`, `crates/cli/tests/mcp.rs::no_tool_reads_a_file_elsewhere` |
//! | a link to elsewhere in what is served | `crates/cli/tests/mcp.rs::no_tool_reads_a_file_elsewhere` |
//! | SQL that writes or names a file | `crates/cli/tests/mcp.rs::no_tool_reads_a_file_elsewhere`, `crates/cli/tests/mcp.rs::wrong_questions_are_refused_with_what_was_found_and_what_is_needed` |
//! | a tool or an argument that there is none of | `crates/cli/tests/mcp.rs::wrong_questions_are_refused_with_what_was_found_and_what_is_needed`, `src/server.rs::every_tool_says_that_it_only_reads_and_refuses_other_arguments` |
//! | a query beyond its time or memory | `crates/cli/tests/mcp.rs::a_cross_join_ends_at_its_limit_and_the_next_call_is_answered`, `crates/cli/tests/mcp.rs::a_query_ends_at_its_limit_of_memory` |
//! | a query's own writes and reads beside its folder and recordings | `crates/cli/tests/mcp.rs::the_process_of_a_query_writes_to_its_folder_and_reads_its_recordings_alone` |
//! | an answer that is too long | `src/answer.rs::an_answer_is_whole_or_an_error_with_its_length` |
//!
//! ## What an answer is
//!
//! One JSON document as text, of at most 100,000 bytes (`answer.rs`). Units are suffixes of keys (`_ns`, `_bytes`, `_pct`), or
//! stand beside the value. A value that is not known is null, never 0. A longer answer is not cut: it becomes an error that tells its
//! length and the options that make it shorter. Names in it were chosen by the programs recorded; what a terminal would act on is
//! escaped, and the server's instructions say that names are data.
//!
//! ## How it ends
//!
//! At the end of standard input, with status 0. Tools run in threads of their own, four at a time: an error or a panic in one is the
//! answer to its call, and the others go on.
//!
//! A query may need hours and cannot be ended within a process. So [`serve`] is given a [`QueryRunner`] that runs queries where they
//! can be killed: when they reach its limits, when the client cancels the call, and when the client has gone.
//!
//! ## How to add a tool
//!
//! 1. Write its file: a struct of arguments with `deny_unknown_fields`, every field with a line that says what it does, its unit
//!    and its default; and `answer(&Served, &Args) -> Result<String, ToolError>`.
//! 2. Give it a function in `server.rs`.
//! 3. Call it in `crates/cli/tests/mcp.rs`, with right and with wrong arguments, and give it a line in `docs/mcp.md`.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod answer;
mod compare;
mod doctor;
mod explain;
mod query;
mod recordings;
mod server;
mod show;
mod tables;

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::stdio_pipes;

use recordings::Served;
use server::Server;

pub use query::QueryRunner;

/// Why the server does not start, or has ended early.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// There is nothing to serve.
    #[error(transparent)]
    Recording(#[from] pagelab_recording::Error),
    /// The host gives no runtime to serve with.
    #[error("cannot start the server: {0}")]
    Runtime(#[from] std::io::Error),
    /// The client does not speak the protocol.
    #[error("the client does not speak the Model Context Protocol: {0}")]
    Protocol(String),
}

/// Answers the client on standard input and output, until it closes standard input. `dirs` are recordings, or folders of them;
/// `runner` runs the client's queries.
///
/// # Errors
/// A path has no recording at or below it, or the client does not speak the protocol.
pub fn serve(dirs: &[PathBuf], runner: Arc<dyn QueryRunner>) -> Result<(), McpError> {
    let served = Served::new(dirs)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(serve_client(Server::new(served, runner)));
    // A call that still runs ends with the process: nobody waits for its answer.
    runtime.shutdown_background();
    done
}

async fn serve_client(server: Server) -> Result<(), McpError> {
    let calls = server.clone();
    let running = match server.serve(stdio_pipes()).await {
        Ok(running) => running,
        // It ended before it began: nobody asked.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(McpError::Protocol(error.to_string())),
    };
    let done = running.waiting().await;
    calls.calls_end().await;
    match done {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(McpError::Protocol(error.to_string())),
        Ok(_) => Ok(()),
    }
}
