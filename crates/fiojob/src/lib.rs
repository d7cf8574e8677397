//! fio's job language: from job files or fio-style arguments to a [`Workload`], with every option read, defaulted and checked.
//!
//! Nothing is run here, and nothing of the machine is looked at but what the language itself names (`$ncpus`, `$pagesize`, files
//! of patterns). Does the file exist, is the pool large enough: whoever plans the job decides that.
//!
//! # How a job is read
//! ```text
//! file, args     Section      text taken apart: names and values with their places, includes and environment put in
//! resolve        JobSpec      what is inherited from [global], each value read by its option's declaration; notes on values
//! validate       problems     options of a job against each other and against its engine's capabilities
//! workload       Workload     the jobs in order, as they are planned and sent to the load process
//! ```
//! # What is declared once
//! [`options`] declares each option: its field, type, help, default and the capability that an engine needs for it. Parsing, help,
//! `docs/job-options.md` and validation follow from it. [`engines`] declares each engine with its capabilities; the crate that
//! runs jobs implements them. [`unsupported`] lists what fio has and pagelab refuses, with reasons.
//!
//! How to add an option: see [`options`]. How to add an engine: declare it in [`engines`], then follow `pagelab_load::engines`.

pub mod args;
mod arithmetic;
pub mod blocks;
pub mod chances;
pub mod contents;
pub mod docs;
pub mod engines;
pub mod error;
pub mod file;
pub mod model;
mod notes;
pub mod options;
mod resolve;
pub mod steady;
pub mod units;
pub mod unsupported;
mod validate;
pub mod value;
pub mod verify;
pub mod words;
pub mod workload;
pub mod zones;

use std::path::PathBuf;

pub use error::{JobError, Origin};
pub use model::{Caps, Direction, Lengths, Operation};
pub use options::JobOptions;
pub use workload::{Given, JobSpec, Workload};

/// Reads job files. The first job of every file but the first waits for all jobs before it, as in fio.
///
/// # Errors
/// Every mistake found, with file and line.
pub fn parse_files(paths: &[PathBuf]) -> Result<Workload, JobError> {
    let mut resolver = resolve::Resolver::default();
    for path in paths {
        resolver.file(path);
    }
    resolver.finish()
}

/// Reads fio's command-line form: `--name=x --rw=randread ...`; arguments without dashes are job files.
///
/// # Errors
/// Every mistake found, with the number of the argument or file and line.
pub fn parse_args(arguments: &[String]) -> Result<Workload, JobError> {
    let mut resolver = resolve::Resolver::default();
    args::read(arguments, &mut resolver);
    resolver.finish()
}
