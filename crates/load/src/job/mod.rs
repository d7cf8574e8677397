//! The job language: from job files or fio-style arguments to a [`Workload`].
//!
//! Reading goes in steps, each with a type of its own: text becomes [`file::Section`]s (or arguments), those become
//! [`JobSpec`]s with every option read, defaulted and checked against the others. What depends on the machine (does the file exist,
//! is the pool large enough) is decided later, when the job is planned.

pub mod args;
pub mod blocks;
pub mod chances;
pub mod contents;
pub mod docs;
pub mod file;
pub mod options;
pub mod registry;
pub mod resolve;
pub mod steady;
pub mod units;
pub mod unsupported;
mod validate;
pub mod value;
pub mod verify;
pub mod words;
pub mod zones;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use options::JobOptions;

use crate::error::{JobError, LoadError, Origin};

/// An option as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Its name, as written (aliases are kept).
    pub name: String,
    /// Its value with the environment and reserved words put in; `None` if it stood alone.
    pub value: Option<String>,
    /// Where it was written.
    pub origin: Origin,
}

/// One job: a name and every option with a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Its name.
    pub name: String,
    /// All options: given, inherited from `[global]`, or default.
    pub options: JobOptions,
    /// Those written in the job itself, in order.
    pub given: Vec<Given>,
    /// Those inherited from `[global]`, in order.
    pub inherited: Vec<Given>,
    /// Where the job begins.
    pub origin: Origin,
    /// Wait for all earlier jobs to be done (`stonewall`, or the first job of a further file).
    pub stonewall: bool,
    /// Which group of the report it belongs to, from 0.
    pub group: u32,
}

impl JobSpec {
    /// Most operations in flight at once: 1 for engines that complete each before the next, whatever `iodepth` says.
    pub fn depth(&self) -> u64 {
        match crate::engines::find(&self.options.ioengine.0) {
            Some(engine) if !engine.caps.contains(crate::engines::Caps::SYNCHRONOUS) => self.options.iodepth,
            _ => 1,
        }
    }
}

impl JobOptions {
    /// Share of reads in percent: 100 or 0 for pure patterns.
    pub fn read_percent(&self) -> u8 {
        let pattern = self.rw.0;
        if !pattern.is_mixed() {
            return if pattern.reads() { 100 } else { 0 };
        }
        match (self.rwmixread, self.rwmixwrite) {
            (Some(read), _) => read.0,
            (None, Some(write)) => 100 - write.0,
            (None, None) => 50,
        }
    }

    /// Whether the page cache is to be bypassed.
    pub fn is_direct(&self) -> bool {
        self.direct || self.buffered == Some(false)
    }
}

/// Everything to run: jobs in order. Made by [`parse_files`] or [`parse_args`], sent to the load process as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The jobs in the order written.
    pub jobs: Vec<JobSpec>,
    /// Where they came from: file names, or "command line".
    pub sources: Vec<String>,
    /// What was accepted but deserves a word, for example an option that has no effect on a job's engine.
    pub warnings: Vec<String>,
}

impl Workload {
    /// Keeps the jobs whose names are among `names` (fio's `--section`); of what is left the first needs to wait for nobody.
    ///
    /// # Errors
    /// A name that no job has, with the nearest that one has.
    pub fn select(&mut self, names: &[String]) -> Result<(), String> {
        if names.is_empty() {
            return Ok(());
        }
        let has = |name: &&String| self.jobs.iter().any(|job| job.name == **name);
        if let Some(missing) = names.iter().find(|name| !has(name)) {
            let hint = pagelab_vocab::nearest::hint_for(missing, self.jobs.iter().map(|job| job.name.as_str()));
            return Err(format!("--section={missing}: no job has that name{hint}"));
        }
        self.jobs.retain(|job| names.contains(&job.name));
        Ok(())
    }

    /// Refuses jobs that write, as fio's `--readonly` does: by their pattern, whatever they write to. What `verify_only` goes through is
    /// only read; fio refuses that, too.
    ///
    /// # Errors
    /// The jobs that write.
    pub fn must_not_write(&self) -> Result<(), LoadError> {
        let only_reads =
            |job: &&JobSpec| job.options.verify_only || (job.options.rw.0.reads() && !job.options.rw.0.writes());
        let Some(job) = self.jobs.iter().find(|job| !only_reads(job)) else { return Ok(()) };
        Err(LoadError::Target {
            job: job.name.clone(),
            reason: format!("it writes (rw={}), and --readonly forbids that", value::Choice::word(job.options.rw.0)),
        })
    }
}

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
