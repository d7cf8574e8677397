//! `pagelab report`: recordings, sets and comparisons as one HTML page.

use std::path::PathBuf;

use pagelab_analysis::compare::CompareOptions;
use pagelab_page::Page;
use pagelab_recording::set::reference;
use pagelab_vocab::terminal::shell_path;

use super::{compare, page};
use crate::failure::Failure;
use crate::say;

/// Draw recordings, a set or a comparison as one HTML page.
///
/// The page holds all that it shows and asks for nothing: it opens offline, in any browser, and can be sent as it is. Two paths are
/// compared, the base first; of a set the variants are compared with its base; one recording is shown by itself. What each section shows,
/// and what records it: docs/report.md.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pagelab report good.rec bad.rec -o why.html\n  pagelab report set -o set.html\n  \
                        pagelab report run.rec -o run.html"
)]
pub(crate) struct Args {
    /// A recording, a set, or two recordings or folders of recordings, the base first.
    #[arg(value_name = "DIR", num_args = 1..=2, required = true)]
    paths: Vec<PathBuf>,
    /// Write the page to this file.
    #[arg(short, long = "output", value_name = "FILE", required = true)]
    output: PathBuf,
}

/// Writes the page.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    page::can_be_written()?;
    match args.paths.as_slice() {
        [one] if reference(one).is_ok() => {
            page::write(&args.output, Page::of_recordings(one.display().to_string(), std::slice::from_ref(one)))?;
        }
        paths => page::write_comparisons(&args.output, &compare::of_paths(paths, &CompareOptions::default())?)?,
    }
    say!("pagelab: the page is {}", shell_path(&args.output));
    Ok(0)
}
