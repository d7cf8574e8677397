//! `pagelab explain`: what one recording alone shows.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::print;
use crate::verdict;

/// Look for causes in one recording, by the rules that compare uses, without a baseline and so with less confidence.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pagelab explain bad.rec")]
pub struct Args {
    /// The recording.
    dir: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Explains, and prints what was found.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let explanation = pagelab_analysis::explain::explain(&args.dir).map_err(Failure::input)?;
    if args.json { print::json(&explanation) } else { print::text(&verdict::explanation(&explanation)) }.map(|()| 0)
}
