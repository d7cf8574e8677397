//! `pagelab mark`: puts a mark into running recordings.

use pagelab_session::{MarkError, Marked};

use crate::failure::Failure;
use crate::say;

/// Put a mark into all recordings of yours that run on this host, those made with sudo included.
///
/// The mark is a row of the table `marks`; --from and --to of show take its name. Exit status 3: no recording runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pagelab mark warm\n  pagelab show good.rec faults --from warm")]
pub(crate) struct Args {
    /// Name of the mark; not a number, because --from and --to read numbers as times.
    name: String,
    /// As root, also mark the recordings that other users make with sudo.
    #[arg(short, long)]
    all: bool,
}

/// Sets the mark.
pub(crate) fn run(args: &Args) -> Result<u8, Failure> {
    let marked = if args.all { Marked::All } else { Marked::Own };
    match pagelab_session::mark(&args.name, marked) {
        Ok(taken) => {
            say!("pagelab: {} is marked in {taken} recording{}", args.name, if taken == 1 { "" } else { "s" });
            Ok(0)
        }
        Err(error @ MarkError::Name(_)) => Err(Failure::input(error)),
        Err(error) => Err(Failure::host(error)),
    }
}
