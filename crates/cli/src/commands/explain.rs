//! `pagelab explain`: what recordings alone show, without another side.

use std::fmt::Write as _;
use std::path::PathBuf;

use pagelab_analysis::explain::{Explanation, explain};
use pagelab_experiment::one_of_each;
use pagelab_recording::isolated;
use pagelab_recording::set::reference;
use pagelab_report::view::table::clean;
use pagelab_vocab::terminal::shell_path;
use serde::Serialize;

use crate::failure::Failure;
use crate::print;
use crate::say;
use crate::verdict;

/// Look for causes in one recording, by the rules that compare uses, without a baseline and so with less confidence.
///
/// Of a set one run of each variant is looked at, the one of median length.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  pagelab explain bad.rec\n  pagelab explain set")]
pub(crate) struct Args {
    /// Recording, or set.
    dir: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// What `explain SET --json` prints.
#[derive(Serialize)]
struct OfSet {
    format: u32,
    set: PathBuf,
    explanations: Vec<Explanation>,
}

/// Explains, and prints what was found.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    // A directory that is neither gets the message about a recording.
    let is_set = reference(&args.dir).is_err() && pagelab_recording::set::discover(&[&args.dir]).is_ok();
    if is_set {
        return of_set(args);
    }
    let explanation = explain(&args.dir).map_err(Failure::input)?;
    if args.json { print::json(&explanation) } else { print::text(&verdict::explanation(&explanation)) }.map(|()| 0)
}

fn of_set(args: &Args) -> Result<u8, Failure> {
    let mut explanations = Vec::new();
    let mut text = String::new();
    for (dir, among) in one_of_each(&args.dir).map_err(verdict::plan_failure)? {
        let explanation = match isolated(|| explain(&dir)).map(|said| said.map_err(|error| error.to_string())) {
            Ok(Ok(explanation)) => explanation,
            Ok(Err(reason)) | Err(reason) => {
                say!("pagelab: left out: {}: {reason}", clean(&dir.to_string_lossy()));
                continue;
            }
        };
        let _ = writeln!(text, "One run of {among}:");
        text.push_str(&verdict::explanation(&explanation));
        text.push('\n');
        explanations.push(explanation);
    }
    if args.json {
        let format = pagelab_analysis::explain::EXPLAIN_FORMAT;
        print::json(&OfSet { format, set: args.dir.clone(), explanations })?;
        return Ok(0);
    }
    let _ = writeln!(text, "What differs between the variants: pagelab compare {}", shell_path(&args.dir));
    print::text(&text)?;
    Ok(0)
}
