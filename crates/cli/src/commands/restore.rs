//! `pagelab restore`: undoes what a dead pagelab left changed.

use pagelab_host::guard::restore_leftovers;

use crate::failure::{BAD, Failure};
use crate::print;
use crate::say;

/// Undo changes to the host that a killed pagelab left behind.
///
/// A helper process does this by itself within a second, and every command of pagelab does it before anything else; this
/// one does nothing besides, and lists the pagelabs that are alive. Settings that somebody else has changed since are left
/// and listed. Status 1 if something could not be put back.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sudo pagelab restore")]
pub(crate) struct Args {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Restores, and prints what was done.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let report = restore_leftovers();
    if args.json {
        print::json(&report)?;
    } else {
        let text = report.to_string();
        print::text(if text.is_empty() { "nothing to restore\n" } else { &text })?;
    }
    Ok(if report.is_clean() { 0 } else { BAD })
}

/// What every other command does first: puts back what dead pagelabs left changed, and says so. Nothing is measured
/// silently under settings that nobody chose.
pub(crate) fn leftovers_first() {
    let report = restore_leftovers().without_the_living();
    for line in report.to_string().lines() {
        say!("pagelab: {line}");
    }
}
