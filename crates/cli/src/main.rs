//! The command line of pagelab: flags and glue. One file per command in `commands/`; what a command does lies in the
//! crates it calls.
//!
//! Exit status: 0 done; 1 measured, and the answer is bad; 2 the input is wrong; 3 the host cannot do it. `record`
//! returns the status of the command it ran, and 125 for its own failures.
//!
//! # Refusals
//! Those of the crates stand in their manuals. Of the commands themselves:
//!
//! | refused | test |
//! |---|---|
//! | an output that cannot be | `tests/record.rs::an_output_that_cannot_be_is_refused_with_words`, `tests/status.rs::an_output_below_a_file_is_a_wrong_input` |
//! | an output that a neighbour replaces | `tests/planted_links.rs::nothing_elsewhere_changes_whatever_a_neighbour_plants` |
//! | names of a recording that a terminal acts on | `tests/escapes.rs::no_name_in_a_recording_reaches_the_terminal_raw` |
//! | a recording that is damaged or newer | `tests/bad_input.rs::recordings_that_are_damaged_or_newer` |
//! | a change of anything with `--readonly` | `tests/run.rs::readonly_forbids_every_change` |
//! | a port that is taken | `tests/ui.rs::a_set_that_grows_is_seen_and_wrong_words_are_refused` |

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod cluster;
mod commands;
mod companion;
mod failure;
mod options;
mod print;
#[cfg(test)]
mod printed;
mod progress;
mod spool;
mod stores;
mod verdict;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use failure::Failure;
use pagelab_host::own_limits;

/// Find out why a Linux memory or storage workload got slower.
#[derive(Debug, Parser)]
#[command(
    name = "pagelab",
    version,
    about,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    /// Say more: of a comparison the evidence and all that differs, and messages on standard error; twice: debug messages, those of
    /// libbpf included.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, display_order = 1000)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

// Options of the commands that were not typed are not built: they take half of the time that `--version` runs.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum Command {
    /// Run fio jobs with built-in engines, and record them.
    Run(commands::run::Args),
    /// Record a command, or running processes.
    Record(commands::record::Args),
    /// Show once a second what a target does.
    Watch(commands::watch::Args),
    /// Put a named mark into the recordings that are running.
    Mark(commands::mark::Args),
    /// Show a recording: its summary, or one view of it.
    Show(commands::show::Args),
    /// Run a plan's variants interleaved, then compare them.
    Experiment(commands::experiment::Args),
    /// Repeat published experiments and put published and measured figures side by side.
    Reproduce(commands::reproduce::Args),
    /// Test whether two sets of runs differ, in which metrics, and why.
    Compare(commands::compare::Args),
    /// Draw recordings, a set or a comparison as one HTML page.
    Report(commands::report::Args),
    /// Serve the page of recordings on this machine, to zoom into.
    Ui(commands::ui::Args),
    /// Find where the level of a benchmark changed in a history of recordings.
    Trend(commands::trend::Args),
    /// Ask many hosts one question: compare them by a label, find outliers, drift and changes.
    Fleet(commands::fleet::Args),
    /// Record this host continuously: short windows, a flight recorder on triggers, retention, upload.
    Agent(Box<commands::agent::Args>),
    /// Look for causes in one recording, without a baseline.
    Explain(commands::explain::Args),
    /// Query recordings with SQL.
    Query(commands::query::Args),
    /// Answer a client of the Model Context Protocol about recordings.
    Mcp(commands::mcp::Args),
    /// Convert a recording to the format of another tool.
    Export(commands::export::Args),
    /// Check whether a recording is complete and undamaged.
    Check(commands::check::Args),
    /// Rebuild the rollups of a recording: the small tables of sums that views read instead of events.
    Rollup(commands::rollup::Args),
    /// Diagnose huge pages and DAX: of the host, of a file, or of a process.
    Doctor(commands::doctor::Args),
    /// Manage huge page pools and mounts, and run programs on huge pages.
    Hugepages(commands::hugepages::Args),
    /// Boot a disposable VM: other kernels, boot parameters, emulated persistent memory.
    Lab(commands::lab::Args),
    /// Undo changes to the host that a killed pagelab left behind.
    Restore(commands::restore::Args),
    /// Write shell completions or manual pages.
    #[command(name = "help-files")]
    HelpFiles(commands::help_files::Args),
    /// Runs a workload in a process of its own.
    #[command(name = "__load", hide = true)]
    Load(commands::hidden::Words),
    /// Runs one case of the conformance suite.
    #[command(name = "__conformance", hide = true)]
    Case(commands::hidden::Words),
    /// Starts a lab's QEMU and looks after it.
    #[command(name = "__lab", hide = true)]
    Supervisor(commands::hidden::Words),
    /// Does in a lab's guest what its host asks for.
    #[command(name = "__guest", hide = true)]
    Guest(commands::hidden::Words),
    /// Runs one query of a client of `mcp`.
    #[command(name = "__query", hide = true)]
    QueryProcess(commands::hidden::Words),
    /// Undoes changes to the host when pagelab dies.
    #[command(name = "__guard", hide = true)]
    Guard(commands::hidden::Words),
}

impl Command {
    /// Whether a user types it, and expects it to tidy up. `restore` looks for leftovers itself, pagelab's own commands are part of one
    /// that did, and a client of `mcp` was promised that nothing is changed.
    fn is_typed(&self) -> bool {
        !matches!(
            self,
            Command::Restore(_)
                | Command::Mcp(_)
                | Command::Load(_)
                | Command::Case(_)
                | Command::Supervisor(_)
                | Command::Guest(_)
                | Command::QueryProcess(_)
                | Command::Guard(_)
        )
    }
}

fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => tracing::Level::WARN,
        1 => tracing::Level::INFO,
        _ => tracing::Level::DEBUG,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(print::stderr)
        .without_time()
        .with_target(verbose > 0)
        .init();
}

/// What was typed, as clap understands it. Wrong words are status 2, as for every command; for `record`, which keeps
/// all others for the command it runs, 125.
fn parse(words: Vec<OsString>) -> Result<Cli, ExitCode> {
    let words = commands::run::own_options_first(words.into_iter());
    let words = commands::show::view_first(words.into_iter()).map_err(|failure| status_of(&failure))?;
    Cli::try_parse_from(words).map_err(|error| {
        // Printing fails only if the terminal is gone; then nobody reads it.
        let _ = error.print();
        if error.exit_code() == 0 { ExitCode::SUCCESS } else { of_recorder(ExitCode::from(2)) }
    })
}

/// The status of a failure of our own: of `record`, which keeps all others for the command it runs, 125.
fn of_recorder(status: ExitCode) -> ExitCode {
    let is_record = std::env::args_os().nth(1).is_some_and(|word| word == "record");
    if is_record { ExitCode::from(125) } else { status }
}

/// Says what went wrong, and gives the status that says whose fault it is.
fn status_of(failure: &Failure) -> ExitCode {
    say!("pagelab: {failure}");
    ExitCode::from(failure.status())
}

fn main() -> ExitCode {
    own_limits::take_file_size_signal();
    let Some(bytes) = own_limits::stack_for_a_thread() else { return work() };
    let worker = std::thread::Builder::new().name("pagelab".to_owned()).stack_size(bytes).spawn(work);
    match worker.map(std::thread::JoinHandle::join) {
        Ok(Ok(status)) => status,
        // The panic has said what happened.
        Ok(Err(_)) => of_recorder(ExitCode::from(101)),
        // No room for a thread: the stack that there is may do.
        Err(_) => work(),
    }
}

fn work() -> ExitCode {
    let stores::Words { words, upload } = match stores::without_urls(&std::env::args_os().collect::<Vec<_>>()) {
        Ok(words) => words,
        Err(failure) => return of_recorder(status_of(&failure)),
    };
    let status = match parse(words) {
        Ok(cli) => run(cli),
        Err(status) => status,
    };
    match upload.map(stores::Upload::finish) {
        Some(Err(failure)) => of_recorder(status_of(&failure)),
        _ => status,
    }
}

fn run(cli: Cli) -> ExitCode {
    start_logging(cli.verbose);
    if cli.command.is_typed() {
        commands::restore::leftovers_first();
    }
    let done: Result<u8, Failure> = match cli.command {
        Command::Run(args) => commands::run::run(&args),
        Command::Record(args) => return commands::record::run(&args),
        Command::Watch(args) => commands::watch::run(&args),
        Command::Mark(args) => commands::mark::run(&args),
        Command::Show(args) => commands::show::run(&args),
        Command::Experiment(args) => commands::experiment::run(&args, cli.verbose > 0),
        Command::Reproduce(args) => commands::reproduce::run(&args),
        Command::Compare(args) => commands::compare::run(&args, cli.verbose > 0),
        Command::Report(args) => commands::report::run(&args),
        Command::Ui(args) => commands::ui::run(&args),
        Command::Trend(args) => commands::trend::run(&args),
        Command::Fleet(args) => commands::fleet::run(&args, cli.verbose > 0),
        Command::Agent(args) => commands::agent::run(*args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Query(args) => commands::query::run(&args),
        Command::Mcp(args) => commands::mcp::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Rollup(args) => commands::rollup::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Hugepages(args) => commands::hugepages::run(&args),
        Command::Lab(args) => commands::lab::run(&args),
        Command::Restore(args) => commands::restore::run(&args),
        Command::HelpFiles(args) => commands::help_files::run(&args, Cli::command()),
        Command::Load(args) => return commands::hidden::load(&args),
        Command::Case(args) => return commands::hidden::case(&args),
        Command::Supervisor(args) => return commands::hidden::lab(&args),
        Command::Guest(args) => return commands::hidden::guest(&args),
        Command::QueryProcess(_) => return commands::hidden::query(),
        Command::Guard(args) => return commands::hidden::guard(&args),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(failure) => status_of(&failure),
    }
}
