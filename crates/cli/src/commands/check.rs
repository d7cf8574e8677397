//! `pagelab check`: is a recording whole.

use std::fmt::Write as _;
use std::path::PathBuf;

use pagelab_analysis::mappings::bytes;

use crate::failure::{BAD, Failure};
use crate::print;

/// Read every part of a recording and say whether it is whole.
///
/// Status 0: whole. 1: something is missing or damaged. 2: not a recording, or of a newer format.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pagelab check good.rec")]
pub struct Args {
    /// The recording.
    dir: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Checks, and prints what was found.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let report = pagelab_recording::check(&args.dir)?;
    let status = if report.complete && report.problems.is_empty() { 0 } else { BAD };
    if args.json {
        print::json(&report)?;
        return Ok(status);
    }
    let mut text = String::new();
    let complete = if report.complete { "complete" } else { "not complete" };
    let _ = writeln!(text, "{}: {complete}", args.dir.display());
    for (name, table) in &report.tables {
        let _ =
            writeln!(text, "  {name:<14} {:>12} rows {:>4} parts {:>12}", table.rows, table.parts, bytes(table.bytes));
    }
    for problem in &report.problems {
        let _ = writeln!(text, "  {}: {}: {}", problem.id, problem.path.display(), problem.message);
    }
    print::text(&text)?;
    Ok(status)
}
