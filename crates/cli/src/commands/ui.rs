//! `pagelab ui`: the page of `pagelab report`, served on this machine, with pictures to zoom into.

use std::path::PathBuf;

use pagelab_analysis::compare::CompareOptions;
use pagelab_page::Page;
use pagelab_recording::set::{discover_readable, reference};
use pagelab_report::view::table::clean;
use pagelab_ui::{Server, Source, UiError};

use super::{compare, page};
use crate::failure::Failure;
use crate::print;
use crate::say;

/// Serve the page of recordings, a set or a comparison on this machine, with pictures that can be zoomed into.
///
/// The page is that of `pagelab report`. Below it stand all faults of any of its recordings, from the whole down to single events. A
/// set that is being made shows its runs as they come. It listens on the loopback address only, and answers the address that it
/// prints and nothing else. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  pagelab ui run.rec\n  pagelab ui good.rec bad.rec\n  pagelab ui set --port 8080")]
pub(crate) struct Args {
    /// A recording, a set, or two recordings or folders of recordings, the base first.
    #[arg(value_name = "DIR", num_args = 1..=2, required = true)]
    paths: Vec<PathBuf>,
    /// Port of the loopback address; 0 for any that is free.
    #[arg(long, default_value_t = 0)]
    port: u16,
}

struct Paths(Vec<PathBuf>);

impl Source for Paths {
    fn page(&self) -> Result<String, String> {
        let page = match self.0.as_slice() {
            [one] if reference(one).is_ok() => {
                Page::of_recordings(one.display().to_string(), std::slice::from_ref(one))
            }
            paths => match compare::of_paths(paths, &CompareOptions::default()) {
                Ok(comparisons) => return html(page::of_comparisons(&comparisons)),
                // A set that has just been begun: what there is of it.
                Err(why) => match self.recordings().last() {
                    Some(newest) => {
                        let title = format!("{}, the newest recording so far ({why})", newest.display());
                        Page::of_recordings(title, std::slice::from_ref(newest))
                    }
                    None => return Err(why.to_string()),
                },
            },
        };
        html(page)
    }

    fn recordings(&self) -> Vec<PathBuf> {
        discover_readable(&self.0)
            .map_or_else(|_| Vec::new(), |(found, _)| found.into_iter().map(|one| one.dir).collect())
    }
}

fn html(page: Result<Page<'_>, pagelab_page::PageError>) -> Result<String, String> {
    page.and_then(|page| page.served().html()).map_err(|error| error.to_string())
}

/// Serves until it is ended.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    page::can_be_written()?;
    let (_, unreadable) = discover_readable(&args.paths).map_err(Failure::input)?;
    for (dir, error) in unreadable {
        say!("pagelab: left out: {}: {error}", clean(&dir.to_string_lossy()));
    }
    let server = Server::listen(Paths(args.paths.clone()), args.port).map_err(|error| match error {
        UiError::Listen { .. } => Failure::input(error),
        UiError::Server(_) => Failure::host(error),
    })?;
    say!("pagelab: open this address; Ctrl-C ends it");
    print::text(&format!("{}\n", server.url()))?;
    server.serve().map_err(Failure::host).map(|()| 0)
}
