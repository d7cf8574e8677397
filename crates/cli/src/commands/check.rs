//! `pagelab check`: is a recording whole.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pagelab_recording::set::SET_JSON;
use pagelab_recording::{CheckReport, MANIFEST, check_set};
use pagelab_views::mappings::bytes;
use serde_json::{Value, json};

use crate::failure::{BAD, Failure};
use crate::print;

/// Read every part of a recording, or of all recordings of a set, and say whether it is whole.
///
/// Status 0: whole. 1: something is missing or damaged. 2: not a recording, or of a newer format.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pagelab check good.rec")]
pub(crate) struct Args {
    /// The recording, or the set.
    dir: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Checks, and prints what was found.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    if !args.dir.join(MANIFEST).exists() {
        return of_set(args);
    }
    let report = pagelab_recording::check(&args.dir)?;
    let status = if report.complete && report.problems.is_empty() { 0 } else { BAD };
    if args.json {
        print::json(&report)?;
        return Ok(status);
    }
    let mut text = String::new();
    describe(&mut text, &args.dir, &report);
    print::text(&text)?;
    Ok(status)
}

/// Every recording of a set, one after the other.
fn of_set(args: &Args) -> Result<u8, Failure> {
    let report = check_set(&args.dir)?;
    let status = if report.is_whole() { 0 } else { BAD };
    if args.json {
        let one = |(dir, found): (&PathBuf, &Result<CheckReport, String>)| match found {
            Ok(report) => json!({"dir": dir, "report": report}),
            Err(error) => json!({"dir": dir, "error": error}),
        };
        let recordings: Vec<Value> = report.recordings.iter().map(one).collect();
        let whole = report.is_whole();
        let (missing, changed) = (&report.missing, report.changed);
        print::json(&json!({"whole": whole, "recordings": recordings, "missing": missing, "changed": changed}))?;
        return Ok(status);
    }
    let mut text = String::new();
    for (dir, found) in &report.recordings {
        match found {
            Ok(report) => describe(&mut text, dir, report),
            Err(error) => {
                let _ = writeln!(text, "{}: cannot be opened: {error}", dir.display());
            }
        }
    }
    if report.changed {
        let path = args.dir.join(SET_JSON);
        let _ =
            writeln!(text, "{}: changed after it was written: its checksum is not that of its content", path.display());
    }
    for dir in &report.missing {
        let _ = writeln!(text, "{}: missing, although set.json says that this run is done", dir.display());
    }
    print::text(&text)?;
    Ok(status)
}

fn describe(text: &mut String, dir: &Path, report: &CheckReport) {
    let complete = if report.complete && report.is_whole() { "complete" } else { "not complete" };
    let list = if report.complete && !report.listed {
        "; it is of an older pagelab and has no list of its parts: one that is missing as a whole is not found"
    } else {
        ""
    };
    let _ = writeln!(text, "{}: {complete}{list}", dir.display());
    for (name, table) in &report.tables {
        let _ =
            writeln!(text, "  {name:<14} {:>12} rows {:>4} parts {:>12}", table.rows, table.parts, bytes(table.bytes));
    }
    for problem in &report.problems {
        let _ = writeln!(text, "  {}: {}: {}", problem.id, problem.path.display(), problem.message);
    }
}
