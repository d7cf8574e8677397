//! Jobs as they were read: what is run, planned, and sent to the load process.

use serde::{Deserialize, Serialize};

use crate::engines;
use crate::error::Origin;
use crate::model::Caps;
use crate::options::JobOptions;

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
    /// Its name, which the report gives it: `name=`, else the section's.
    pub name: String,
    /// The section that it stands in: what its files are called after, whatever `name=` says. Empty in workloads of older versions; see
    /// [`JobSpec::section`].
    #[serde(default)]
    pub section: String,
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
    /// The section that it stands in.
    pub fn section(&self) -> &str {
        if self.section.is_empty() { &self.name } else { &self.section }
    }

    /// Most operations in flight at once: 1 for engines that complete each before the next, whatever `iodepth` says.
    pub fn depth(&self) -> u64 {
        match engines::find(&self.options.ioengine.0) {
            Some(engine) if !engine.caps.contains(Caps::SYNCHRONOUS) => self.options.iodepth,
            _ => 1,
        }
    }
}

/// Everything to run: jobs in order. Made by [`parse_files`] or [`parse_args`], sent to the load process as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The jobs in the order written.
    pub jobs: Vec<JobSpec>,
    /// Where they came from: file names, or "command line".
    pub sources: Vec<String>,
    /// Options accepted that deserve a note, for example one that has no effect on a job's engine.
    pub warnings: Vec<String>,
}

impl Workload {
    /// Keeps the jobs of the sections among `names` (fio's `--section`), or that are called so by `name=`; the first of the rest needs
    /// to wait for no other.
    ///
    /// # Errors
    /// A name that no job has, with the nearest that one has.
    pub fn select(&mut self, names: &[String]) -> Result<(), String> {
        if names.is_empty() {
            return Ok(());
        }
        let is = |job: &JobSpec, name: &str| job.section() == name || job.name == name;
        let has = |name: &&String| self.jobs.iter().any(|job| is(job, name));
        if let Some(missing) = names.iter().find(|name| !has(name)) {
            let hint = pagelab_vocab::nearest::hint_for(missing, self.jobs.iter().map(JobSpec::section));
            return Err(format!("--section={missing}: no job has that name{hint}"));
        }
        self.jobs.retain(|job| names.iter().any(|name| is(job, name)));
        Ok(())
    }

    /// The first job that writes by its pattern, whatever it writes to: fio's `--readonly` refuses it. What `verify_only` goes through
    /// is only read; fio refuses that, too.
    pub fn first_writer(&self) -> Option<&JobSpec> {
        let only_reads =
            |job: &&JobSpec| job.options.verify_only || (job.options.rw.0.reads() && !job.options.rw.0.writes());
        self.jobs.iter().find(|job| !only_reads(job))
    }
}
