//! The runner of this host: settings through the guard, runs through `pagelab_session`.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pagelab_host::guard::{Guard, GuardError};
use pagelab_host::process::ProcessSettings;
use pagelab_observe::streams::StreamSet;
use pagelab_session::{Ended, Output, SessionError, SessionOptions, SessionOutcome, Target, ValueFound, signals};
use pagelab_vocab::settings::setting;

use crate::plan::{Between, Plan, Work};
use crate::runner::{Change, HostControl, Program, RunError, RunErrorKind, RunOutcome, RunSpec, Step};

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
const COMPACT: &str = "/proc/sys/vm/compact_memory";

/// How often a step's program is looked at.
const POLL: Duration = Duration::from_millis(10);

/// Makes runs on this host. Settings that are changed when it goes, also by a panic, are put back by its guard.
#[derive(Default)]
pub struct LocalRunner {
    guard: Mutex<Option<Guard>>,
}

impl LocalRunner {
    /// A runner. Installs the handlers of SIGINT and SIGTERM that a session has, so that settings go back before the
    /// process ends.
    pub fn new() -> std::io::Result<Self> {
        signals::install()?;
        Ok(Self::default())
    }

    fn with_guard<T>(&self, act: impl FnOnce(&mut Guard) -> Result<T, GuardError>) -> Result<T, RunError> {
        let mut slot = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let host = |error: GuardError| RunError::new(RunErrorKind::Host, error.to_string());
        let mut guard = match slot.take() {
            Some(guard) => guard,
            None => Guard::open().map_err(host)?,
        };
        let result = act(&mut guard).map_err(host);
        *slot = Some(guard);
        result
    }
}

impl HostControl for LocalRunner {
    fn check(&self, settings: &BTreeMap<String, String>, between: &[Between]) -> Result<(), RunError> {
        for key in settings.keys() {
            let Some(path) = setting(key).and_then(|info| info.path()) else { continue };
            may_write(Path::new(&path), &format!("setting {key}"))?;
        }
        for step in between {
            let path = match step {
                Between::Sync => continue,
                Between::DropCaches => DROP_CACHES,
                Between::Compact => COMPACT,
            };
            may_write(Path::new(path), &format!("between = \"{}\"", step.word()))?;
        }
        // The guard's journal and helper must be available before the first run, not in its middle.
        if settings.is_empty() { Ok(()) } else { self.with_guard(|_| Ok(())) }
    }

    fn step(&self, step: &Step) -> Result<(), RunError> {
        match step {
            Step::Prepare(program) | Step::Cleanup(program) => run_program(program, step.word()),
            Step::Between(Between::Sync) => {
                // SAFETY: sync takes nothing and cannot fail.
                unsafe { libc::sync() };
                Ok(())
            }
            Step::Between(Between::DropCaches) => write_word(DROP_CACHES, "3"),
            Step::Between(Between::Compact) => write_word(COMPACT, "1"),
        }
    }

    fn change_settings(&self, settings: &BTreeMap<String, String>) -> Result<Vec<Change>, RunError> {
        let mut changes = Vec::new();
        for (key, value) in settings {
            let applied = match self.with_guard(|guard| guard.set(key, value)) {
                Ok(applied) => applied,
                Err(error) => {
                    for line in self.restore_settings() {
                        tracing::warn!("{line}");
                    }
                    return Err(error);
                }
            };
            // Two spellings of a number are one value; the guard knows.
            let got = if applied.granted() { applied.requested.clone() } else { applied.got };
            changes.push(Change { key: applied.key, previous: applied.previous, asked: applied.requested, got });
        }
        Ok(changes)
    }

    fn restore_settings(&self) -> Vec<String> {
        let mut slot = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(guard) = slot.as_mut() else { return Vec::new() };
        let report = guard.restore();
        if report.is_clean() { Vec::new() } else { report.to_string().lines().map(str::to_owned).collect() }
    }

    fn run(&self, spec: &RunSpec) -> Result<RunOutcome, RunError> {
        let options = session_options(spec)?;
        let outcome = pagelab_session::run(&options).map_err(|error| session_error(&error))?;
        Ok(outcome_of(&outcome))
    }

    fn stopped(&self) -> bool {
        signals::count() > 0
    }
}

fn session_options(spec: &RunSpec) -> Result<SessionOptions, RunError> {
    let target = match &spec.work {
        Work::Command(argv) => Target::Command(argv.iter().map(Into::into).collect()),
        Work::Job { workload, .. } => Target::Job(workload.clone()),
    };
    let work = |reason: String| RunError::new(RunErrorKind::Work, reason);
    let pairs = spec.process.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let mut options = SessionOptions::new(target, spec.dir.clone());
    options.process_settings = ProcessSettings::from_pairs(pairs).map_err(|error| work(error.to_string()))?;
    options.streams = StreamSet::parse(&spec.observe).map_err(|error| work(error.to_string()))?;
    options.best_effort = spec.best_effort;
    options.label = Some(spec.label.clone());
    options.variant = Some(spec.variant.clone());
    options.run = Some(spec.run);
    options.round = Some(spec.round);
    options.position = Some(spec.position);
    options.seed = Some(spec.seed);
    options.cwd = Some(spec.workdir.clone());
    options.timeout = spec.timeout;
    // Its children end with it when the time is over.
    options.own_group = true;
    options.stdout_to_stderr = true;
    options.output = if spec.hide_output { Output::Hidden } else { Output::Shown };
    options.values.clone_from(&spec.values);
    Ok(options)
}

fn session_error(error: &SessionError) -> RunError {
    let kind = match error {
        SessionError::StreamRefused { .. } | SessionError::Host(_) | SessionError::System { .. } => RunErrorKind::Host,
        SessionError::Recording(_) => RunErrorKind::Recording,
        SessionError::Spawn(_) | SessionError::Load { .. } | SessionError::Target(_) => RunErrorKind::Work,
    };
    RunError::new(kind, error.to_string())
}

fn outcome_of(outcome: &SessionOutcome) -> RunOutcome {
    RunOutcome {
        code: outcome.ended.as_ref().and_then(Ended::code),
        signal: outcome.ended.as_ref().and_then(Ended::signal),
        timed_out: outcome.timed_out,
        interrupted: outcome.interrupted,
        complete: outcome.manifest.complete,
        missing_values: outcome.values.iter().filter_map(missing).collect(),
        last_line: outcome.last_line.clone(),
        job_failure: outcome.report.as_ref().and_then(|report| report.failures().next()),
        warnings: outcome.warnings.clone(),
    }
}

fn missing(found: &ValueFound) -> Option<(String, String)> {
    Some((found.spec.name.clone(), found.note.clone()?))
}

/// Whether a file of /proc or /sys may be written. Opening it changes nothing.
fn may_write(path: &Path, what: &str) -> Result<(), RunError> {
    match OpenOptions::new().write(true).open(path) {
        Ok(_) => Ok(()),
        Err(error) => {
            let found = error.to_string();
            let found = found.split(" (os error").next().unwrap_or(&found);
            let advice = match error.raw_os_error() {
                Some(libc::EROFS) => "a writable file system there; in a container, run on the host",
                _ => "write permission; run as root: sudo pagelab experiment ...",
            };
            Err(RunError::new(
                RunErrorKind::Host,
                format!("{what}: found {}: {found}; needed: {advice}", path.display()),
            ))
        }
    }
}

fn write_word(path: &str, word: &str) -> Result<(), RunError> {
    let written = OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(word.as_bytes()));
    written.map_err(|error| {
        RunError::new(RunErrorKind::Host, format!("cannot write {word} to {path}: {error}; run as root"))
    })
}

/// Runs a program to its end; its output goes to standard error.
fn run_program(program: &Program, what: &str) -> Result<(), RunError> {
    let shown = program.argv.join(" ");
    let work = |reason: String| RunError::new(RunErrorKind::Work, format!("{what}: {shown}: {reason}"));
    let [name, args @ ..] = program.argv.as_slice() else { return Ok(()) };
    let mut command = Command::new(name);
    command.args(args).current_dir(&program.workdir).stdin(Stdio::null()).stdout(std::io::stderr());
    command.env("PAGELAB_PLAN_DIR", &program.plan_dir);
    // A step that runs pagelab is to run this one, not another one that PATH finds.
    if let Ok(pagelab) = pagelab_host::own::program() {
        command.env("PAGELAB", pagelab);
    }
    // A group of its own, so that its children end with it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(|error| work(format!("cannot be started: {error}")))?;
    match wait(&mut child, program.timeout) {
        Waited::Ended(Ok(status)) if status.success() => Ok(()),
        Waited::Ended(Ok(status)) => Err(work(status.to_string())),
        Waited::Ended(Err(error)) => Err(work(error.to_string())),
        Waited::TooLong(limit) => Err(RunError::new(
            RunErrorKind::Timeout,
            format!("{what}: {shown}: not done after {} s; a longer time: `timeout` of the plan", limit.as_secs_f64()),
        )),
        Waited::Interrupted => Err(RunError::new(RunErrorKind::Interrupted, format!("{what}: ended by the user"))),
    }
}

enum Waited {
    Ended(std::io::Result<ExitStatus>),
    TooLong(Duration),
    Interrupted,
}

fn wait(child: &mut Child, timeout: Option<Duration>) -> Waited {
    let started = Instant::now();
    let signals_before = signals::count();
    let waited = loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => return Waited::Ended(Ok(status)),
            Err(error) => return Waited::Ended(Err(error)),
        }
        if signals::count() > signals_before {
            break Waited::Interrupted;
        }
        if let Some(limit) = timeout.filter(|limit| started.elapsed() >= *limit) {
            break Waited::TooLong(limit);
        }
        std::thread::sleep(POLL);
    };
    // SAFETY: kill takes numbers; the child is not reaped, so its group is still its own.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    if let Err(error) = child.wait() {
        tracing::warn!("waiting for an ended program: {error}");
    }
    waited
}

/// Where a set goes if nobody says so: `NAME.set` in the current directory, NAME being the plan's folder if the plan is
/// called `plan.toml`, else the plan's own name.
pub fn default_set_dir(plan: &Plan) -> PathBuf {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let stem = plan.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name = if stem == "plan" { name(plan.dir()).unwrap_or(stem) } else { stem };
    PathBuf::from(format!("{name}.set"))
}
