//! `pagelab rollup`: the small tables that views read instead of events, made anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pagelab_recording::rollup::Outcome;
use pagelab_recording::set;
use pagelab_views::rollup;
use serde_json::{Value, json};

use crate::failure::{BAD, Failure};
use crate::print;

/// Make the rollups of recordings, or of all recordings of sets: small tables from which views read their sums.
///
/// Recording writes them at its end; this is for recordings of older versions. A recording that is incomplete or damaged is
/// left as it is. Status 0: all written. 1: some recording was left. 2: not a recording, or of a newer format.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pagelab rollup good.rec")]
pub(crate) struct Args {
    /// Recordings, or sets.
    #[arg(required = true, value_name = "RECORDING|SET")]
    dirs: Vec<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Makes them, and prints a line per recording.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let dirs: Vec<&Path> = args.dirs.iter().map(PathBuf::as_path).collect();
    let (mut status, mut text, mut recordings) = (0, String::new(), Vec::new());
    let folders = set::folders(&dirs)?;
    for dir in &folders {
        let outcome = match rollup::write(dir) {
            // One that cannot be read does not keep the others of a set back.
            Err(error) if folders.len() > 1 && !error.is_hosts_fault() => Outcome::Left(error.to_string()),
            outcome => outcome?,
        };
        if matches!(outcome, Outcome::Left(_)) {
            status = BAD;
        }
        describe(&mut text, dir, &outcome);
        recordings.push(document(dir, &outcome));
    }
    if args.json {
        print::json(&json!({ "recordings": recordings }))?;
    } else {
        print::text(&text)?;
    }
    Ok(status)
}

fn describe(text: &mut String, dir: &Path, outcome: &Outcome) {
    let _ = match outcome {
        Outcome::Written(tables) => {
            let rows: u64 = tables.values().sum();
            writeln!(text, "{}: {} rollups of {rows} rows written", dir.display(), tables.len())
        }
        Outcome::Left(reason) => writeln!(text, "{}: left as it is: {reason}", dir.display()),
    };
}

fn document(dir: &Path, outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Written(tables) => json!({"dir": dir, "written": tables, "left_because": null}),
        Outcome::Left(reason) => json!({"dir": dir, "written": {}, "left_because": reason}),
    }
}
