//! From sections to jobs: inheritance, reading of values, checks.

use std::path::Path;

use crate::error::{JobError, Origin};
use crate::file::{self, Section};
use crate::options::{JobOptions, OptionDef, nearest_option, option};
use crate::units::ParseContext;
use crate::value::Extent;
use crate::workload::{Given, JobSpec, Workload};
use crate::{engines, notes, unsupported, validate};

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

/// Defaults that jobs inherit: what was read, and how it was written.
type Defaults = (JobOptions, Vec<Given>);

/// Collects jobs from files and the command line, and everything that is wrong with them.
#[derive(Default)]
pub struct Resolver {
    jobs: Vec<JobSpec>,
    sources: Vec<String>,
    warnings: Vec<String>,
    problems: Vec<JobError>,
    /// The command line's defaults, which the first file takes.
    waiting: Option<Defaults>,
    /// Files read.
    files: usize,
}

impl Resolver {
    /// Adds a mistake.
    pub fn problem(&mut self, problem: JobError) {
        self.problems.push(problem);
    }

    /// Adds the jobs of a file, or of standard input if its name is `-`. The first job of every file but the first waits for all jobs
    /// before it.
    pub fn file(&mut self, path: &Path) {
        let stonewall = self.files > 0;
        self.files += 1;
        let defaults = self.waiting.take().unwrap_or_default();
        let name = path.display().to_string();
        let before = (self.jobs.len(), self.problems.len());
        match file::read_sections(path, &mut self.problems) {
            Ok(sections) => drop(self.sections(sections, Units::Section, defaults, stonewall)),
            Err(error) => self.problems.push(error),
        }
        if (self.jobs.len(), self.problems.len()) == before {
            self.problems.push(JobError::NoJob { source_name: name.clone() });
        }
        self.sources.push(name);
    }

    /// Adds the jobs of the command line; its defaults hold for the first of the files that follow it, if any do.
    pub fn command_line(&mut self, sections: Vec<Section>, files_follow: bool, units: Units) {
        let before = (self.jobs.len(), self.problems.len());
        let defaults = self.sections(sections, units, Defaults::default(), false);
        let nothing = (self.jobs.len(), self.problems.len()) == before;
        if nothing && !files_follow {
            self.problems.push(JobError::NoJob { source_name: "command line".to_owned() });
        }
        if !nothing {
            self.sources.push("command line".to_owned());
        }
        self.waiting = files_follow.then_some(defaults);
    }

    /// Adds the jobs of sections that belong together: `[global]` sections hold for the jobs after them. Gives what holds at the end.
    fn sections(
        &mut self,
        sections: Vec<Section>,
        units: Units,
        (mut defaults, mut inherited): Defaults,
        mut stonewall: bool,
    ) -> Defaults {
        for section in sections {
            if section.is_global() {
                self.apply(&mut defaults, &section.given, units);
                self.drop_name(&mut defaults, &section.given);
                inherited.extend(section.given);
                continue;
            }
            let mut options = defaults.clone();
            let before = self.problems.len();
            self.apply(&mut options, &section.given, units);
            // An option that was not understood would be held against the other options.
            let understood = self.problems.len() == before;
            self.push(section, options, &inherited, stonewall, understood);
            stonewall = false;
        }
        (defaults, inherited)
    }

    /// In fio, too, a section keeps its own name whatever `[global]` says: jobs of one name would share files.
    fn drop_name(&mut self, defaults: &mut JobOptions, given: &[Given]) {
        let named = given.iter().rev().find(|one| one.name == "name");
        if let (Some(name), Some(given)) = (defaults.name.take(), named) {
            self.warnings.push(format!(
                "{}: name={name} has no effect in [global]: jobs are called after their sections",
                given.origin
            ));
        }
    }

    fn push(
        &mut self,
        section: Section,
        mut options: JobOptions,
        inherited: &[Given],
        stonewall: bool,
        understood: bool,
    ) {
        let stonewall = stonewall || options.stonewall;
        let group = match self.jobs.last() {
            Some(last) if stonewall || options.new_group => last.group + 1,
            Some(last) => last.group,
            None => 0,
        };
        let name = options.name.clone().unwrap_or_else(|| section.name.clone());
        // As in fio a size of nothing is no size: the whole file.
        options.size = options.size.filter(|size| *size != Extent::Bytes(0));
        if options.time_based && options.runtime.0 == 0 {
            // fio, too, says so and goes on.
            options.time_based = false;
            self.warnings.push(format!("{}: job '{name}': time_based has no effect without runtime=", section.origin));
        }
        let (given, inherited) = (section.given, inherited.to_vec());
        // What was not understood would be held against the engine that the job does not have.
        let understood = understood && engines::find(&options.ioengine.0).is_some();
        let (section, origin) = (section.name, section.origin);
        let job = JobSpec { name, section, options, given, inherited, origin, stonewall, group };
        if understood {
            validate::check(&job, &mut self.warnings, &mut self.problems);
            if let Err(error) = self.same_steadiness(&job) {
                self.problems.push(error);
            }
        }
        if let Some(awaited) = &job.options.wait_for
            && !self.jobs.iter().any(|earlier| earlier.name == *awaited)
        {
            let names = self.jobs.iter().map(|earlier| earlier.name.as_str());
            let hint = pagelab_vocab::nearest::hint_for(awaited, names);
            let reason = format!("wait_for={awaited}: no job before this one has that name{hint}");
            self.problems.push(JobError::Conflict { origin: job.origin.clone(), job: job.name.clone(), reason });
        }
        self.jobs.push(job);
    }

    /// A group has one criterion of steadiness, as in fio.
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

    /// Reads given options into `options`; each that cannot be read is a mistake of its own.
    fn apply(&mut self, options: &mut JobOptions, given: &[Given], units: Units) {
        let mut context = ParseContext { kb_base: options.kb_base.value() };
        let is_base = |one: &&Given| one.name == "kb_base";
        let first = given.iter().filter(|one| units == Units::Section && is_base(one));
        let rest = given.iter().filter(|one| units == Units::Onwards || !is_base(one));
        for one in first.chain(rest) {
            match assign(options, one, context) {
                Ok(def) => {
                    self.warnings.extend(notes::on(def, one, context));
                    self.warnings.extend(override_share(options, one, given));
                    context.kb_base = options.kb_base.value();
                }
                Err(error) => self.problems.push(error),
            }
        }
    }

    /// The workload, if there is any job and nothing is wrong with one.
    ///
    /// # Errors
    /// Everything that is wrong, or more workers than can run.
    pub fn finish(mut self) -> Result<Workload, JobError> {
        if self.jobs.is_empty() && self.problems.is_empty() {
            let source_name = self.sources.first().cloned().unwrap_or_else(|| "command line".to_owned());
            self.problems.push(JobError::NoJob { source_name });
        }
        let mut workers: u64 = 0;
        for job in &self.jobs {
            workers = workers.saturating_add(job.options.numjobs);
            if workers > MAX_WORKERS && self.problems.is_empty() {
                self.problems.push(JobError::Conflict {
                    origin: job.origin.clone(),
                    job: job.name.clone(),
                    reason: format!(
                        "with it there are {workers} workers; at most {MAX_WORKERS} run, as in fio (numjobs counts)"
                    ),
                });
            }
        }
        match JobError::all(self.problems) {
            Some(error) => Err(error),
            None => Ok(Workload { jobs: self.jobs, sources: self.sources, warnings: self.warnings }),
        }
    }
}

/// Reads one given option; `None` for one that pagelab does not have and whose value asks for nothing.
fn assign(
    options: &mut JobOptions,
    given: &Given,
    context: ParseContext,
) -> Result<Option<&'static OptionDef>, JobError> {
    let Some(def) = option(&given.name) else {
        let asks_nothing = unsupported::is_default(&given.name, given.value.as_deref());
        let asks_nothing = asks_nothing || unsupported::instead(&given.name).is_some();
        return if asks_nothing { Ok(None) } else { Err(unknown(given)) };
    };
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
    let text = if is_switched_on(def, text) { "1" } else { text };
    (def.assign)(options, text, context).map_err(bad)?;
    if def.name == "ioengine" {
        check_engine(&options.ioengine.0, &given.origin)?;
    }
    Ok(Some(def))
}

/// `rwmixread` and `rwmixwrite` say the same: as in fio the one that is read last overrides the other. Gives a note where both stand in
/// one section and contradict each other.
fn override_share(options: &mut JobOptions, one: &Given, section: &[Given]) -> Option<String> {
    let def = option(&one.name)?;
    let (other, before, now) = match def.name {
        "rwmixread" => ("rwmixwrite", options.rwmixwrite.take()?, options.rwmixread?),
        "rwmixwrite" => ("rwmixread", options.rwmixread.take()?, options.rwmixwrite?),
        _ => return None,
    };
    let beside = section.iter().any(|given| option(&given.name).is_some_and(|def| def.name == other));
    if !beside || u32::from(before.0) + u32::from(now.0) == 100 {
        return None;
    }
    let (name, before, now) = (def.name, before.0, now.0);
    Some(format!("{}: {name}={now} overrides {other}={before}, as in fio: together they are not 100", one.origin))
}

/// Options that fio switches on by any number but 0 (`time_based=10` is in public job files).
const SWITCHES: &[&str] = &[
    "time_based",
    "verify_only",
    "exitall",
    "exitall_on_error",
    "stonewall",
    "new_group",
    "thread",
    "group_reporting",
    "zero_buffers",
    "refill_buffers",
    "norandommap",
];

fn is_switched_on(def: &OptionDef, text: &str) -> bool {
    SWITCHES.contains(&def.name) && text.trim().parse::<u32>().is_ok_and(|number| number > 0)
}

fn unknown(given: &Given) -> JobError {
    let origin = given.origin.clone();
    let name = given.name.clone();
    match unsupported::option(&name) {
        Some(reason) => JobError::UnsupportedOption { origin, name, reason: reason.to_owned() },
        None => JobError::UnknownOption { nearest: nearest_option(&name).map(str::to_owned), origin, name },
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
            nearest: pagelab_vocab::nearest::nearest(name, engines::names()).map(str::to_owned),
        },
    })
}
