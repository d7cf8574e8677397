//! From sections to jobs: inheritance, reading of values, checks.

use std::path::Path;

use super::file::{self, Section};
use super::options::JobOptions;
use super::registry::{self, OptionDef};
use super::units::{ParseContext, has_swapped_prefix};
use super::{Given, JobSpec, Workload, unsupported, validate};
use crate::engines;
use crate::error::{JobError, Origin};

/// Most workers of a run: each is a process or thread with buffers and histograms. fio has the same bound.
const MAX_WORKERS: u64 = 4096;

/// How far the units of a section reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// `kb_base` rules the whole section, wherever it stands: job files.
    Section,
    /// `kb_base` rules what comes after it: the command line, which fio reads argument by argument.
    Onwards,
}

/// Collects jobs from files and the command line.
#[derive(Default)]
pub struct Resolver {
    jobs: Vec<JobSpec>,
    sources: Vec<String>,
    warnings: Vec<String>,
}

impl Resolver {
    /// Adds the jobs of a file.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn file(&mut self, path: &Path) -> Result<(), JobError> {
        let sections = file::read_sections(path)?;
        self.sections(&path.display().to_string(), sections, Units::Section)
    }

    /// Adds the jobs of sections that belong together: `[global]` sections hold for the jobs after them.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn sections(&mut self, source: &str, sections: Vec<Section>, units: Units) -> Result<(), JobError> {
        let mut defaults = JobOptions::default();
        let mut inherited: Vec<Given> = Vec::new();
        // A further file starts when everything before it is done.
        let mut stonewall = !self.sources.is_empty();
        let before = self.jobs.len();
        for section in sections {
            if section.is_global() {
                self.apply(&mut defaults, &section.given, units)?;
                inherited.extend(section.given);
                continue;
            }
            let mut options = defaults.clone();
            self.apply(&mut options, &section.given, units)?;
            self.push(section, options, &inherited, stonewall)?;
            stonewall = false;
        }
        self.sources.push(source.to_owned());
        if self.jobs.len() == before {
            return Err(JobError::NoJob { source_name: source.to_owned() });
        }
        Ok(())
    }

    fn push(
        &mut self,
        section: Section,
        options: JobOptions,
        inherited: &[Given],
        stonewall: bool,
    ) -> Result<(), JobError> {
        let stonewall = stonewall || options.stonewall;
        let group = match self.jobs.last() {
            Some(last) if stonewall || options.new_group => last.group + 1,
            Some(last) => last.group,
            None => 0,
        };
        let job = JobSpec {
            name: options.name.clone().unwrap_or_else(|| section.name.clone()),
            options,
            given: section.given,
            inherited: inherited.to_vec(),
            origin: section.origin,
            stonewall,
            group,
        };
        validate::check(&job, &mut self.warnings)?;
        self.same_steadiness(&job)?;
        if let Some(awaited) = &job.options.wait_for
            && !self.jobs.iter().any(|earlier| earlier.name == *awaited)
        {
            let names = self.jobs.iter().map(|earlier| earlier.name.as_str());
            let hint = super::nearest::hint(super::nearest::nearest(awaited, names));
            return Err(JobError::Conflict {
                origin: job.origin,
                job: job.name,
                reason: format!("wait_for={awaited}: no job before this one has that name{hint}"),
            });
        }
        self.jobs.push(job);
        Ok(())
    }

    /// What a group is steady by must be one thing, as in fio.
    fn same_steadiness(&self, job: &JobSpec) -> Result<(), JobError> {
        let steadiness = |o: &JobOptions| {
            let looked_at = o.steadystate_duration.0 > 0;
            looked_at.then_some((o.steadystate, o.steadystate_duration, o.steadystate_ramp_time))
        };
        let other = self.jobs.iter().find(|other| other.group == job.group);
        match other.filter(|other| steadiness(&other.options) != steadiness(&job.options)) {
            None => Ok(()),
            Some(other) => Err(JobError::Conflict {
                origin: job.origin.clone(),
                job: job.name.clone(),
                reason: format!(
                    "its steadystate options are others than those of job '{}' of the same group; add new_group or stonewall",
                    other.name
                ),
            }),
        }
    }

    /// Reads given options into `options`.
    fn apply(&mut self, options: &mut JobOptions, given: &[Given], units: Units) -> Result<(), JobError> {
        let mut context = ParseContext { kb_base: options.kb_base.value() };
        let is_base = |one: &&Given| one.name == "kb_base";
        let first = given.iter().filter(|one| units == Units::Section && is_base(one));
        let rest = given.iter().filter(|one| units == Units::Onwards || !is_base(one));
        for one in first.chain(rest) {
            let def = assign(options, one, context)?;
            context.kb_base = options.kb_base.value();
            self.warn_swapped_prefix(def, one, context);
        }
        Ok(())
    }

    fn warn_swapped_prefix(&mut self, def: &OptionDef, given: &Given, context: ParseContext) {
        let value = given.value.as_deref().unwrap_or("");
        let is_size = def.kind.starts_with("size");
        if context.kb_base == 1024 && is_size && value.split([',', '/']).any(has_swapped_prefix) {
            self.warnings.push(format!(
                "{}: {}={value}: with kb_base=1024 the i forms are powers of ten, as in fio (4KiB is 4000 bytes); write 4k for 4096",
                given.origin, given.name
            ));
        }
    }

    /// The workload, if there is any job.
    ///
    /// # Errors
    /// [`JobError::NoJob`], or more workers than can run.
    pub fn finish(self) -> Result<Workload, JobError> {
        if self.jobs.is_empty() {
            return Err(JobError::NoJob {
                source_name: self.sources.first().cloned().unwrap_or_else(|| "command line".to_owned()),
            });
        }
        let mut workers: u64 = 0;
        for job in &self.jobs {
            workers = workers.saturating_add(job.options.numjobs);
            if workers > MAX_WORKERS {
                return Err(JobError::Conflict {
                    origin: job.origin.clone(),
                    job: job.name.clone(),
                    reason: format!(
                        "with it there are {workers} workers; at most {MAX_WORKERS} run, as in fio (numjobs counts)"
                    ),
                });
            }
        }
        Ok(Workload { jobs: self.jobs, sources: self.sources, warnings: self.warnings })
    }
}

/// Reads one given option.
fn assign(options: &mut JobOptions, given: &Given, context: ParseContext) -> Result<&'static OptionDef, JobError> {
    let def = registry::option(&given.name).ok_or_else(|| unknown(given))?;
    let bad = |reason: String| JobError::BadValue {
        origin: given.origin.clone(),
        name: given.name.clone(),
        value: given.value.clone().unwrap_or_default(),
        reason,
    };
    let text = match given.value.as_deref() {
        Some(text) => text,
        None if def.flag => "1",
        None => return Err(bad("a value is needed".to_owned())),
    };
    (def.assign)(options, text, context).map_err(bad)?;
    if def.name == "ioengine" {
        check_engine(&options.ioengine.0, &given.origin)?;
    }
    Ok(def)
}

fn unknown(given: &Given) -> JobError {
    let origin = given.origin.clone();
    let name = given.name.clone();
    match unsupported::option(&name) {
        Some(reason) => JobError::UnsupportedOption { origin, name, reason: reason.to_owned() },
        None => JobError::UnknownOption { nearest: registry::nearest_option(&name).map(str::to_owned), origin, name },
    }
}

fn check_engine(name: &str, origin: &Origin) -> Result<(), JobError> {
    if engines::find(name).is_some() {
        return Ok(());
    }
    let known = engines::names().collect::<Vec<_>>().join(", ");
    let origin = origin.clone();
    Err(match unsupported::engine(name) {
        Some(reason) => JobError::UnsupportedEngine { origin, name: name.to_owned(), reason: reason.to_owned(), known },
        None => JobError::UnknownEngine {
            origin,
            name: name.to_owned(),
            known,
            nearest: super::nearest::nearest(name, engines::names()).map(str::to_owned),
        },
    })
}
