//! Making the steps: plans into sets, commands into their outputs. Kept results are not made again.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use pagelab_experiment::{COMPARE_JSON, Plan, RunOptions};
use pagelab_output::{Folder, Sync};
use pagelab_recording::set::{RunState, SET_JSON, SetJson};
use pagelab_vocab::terminal::shell_line;
use serde::{Deserialize, Serialize};

use crate::dates::today;
use crate::error::{ReproduceError, StepFailure};
use crate::measured::MeasuredStep;
use crate::recipe::{Recipe, Step, Work};
use crate::{ReproduceOptions, Tools};

/// How often a command is looked at.
const POLL: Duration = Duration::from_millis(20);
/// What a command has to put the host back and end when it is asked to.
const GRACE: Duration = Duration::from_secs(20);

/// What `OUT/NAME.step.json` holds: written when a step is done, so that it need not be done again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepRecord {
    /// Words of the command, or the plan's file.
    pub words: Vec<String>,
    /// How the command ended.
    pub exit: Option<i32>,
    /// Its duration.
    pub took_s: f64,
    /// The day.
    pub date: String,
    /// The host's kernel.
    pub kernel: String,
    /// Version of pagelab.
    pub pagelab_version: String,
}

impl StepRecord {
    /// Reads the record of a step that is kept.
    pub(crate) fn load(out: &Path, step: &str) -> Option<Self> {
        serde_json::from_slice(&fs::read(record_path(out, step)).ok()?).ok()
    }
}

fn record_path(out: &Path, step: &str) -> PathBuf {
    out.join(format!("{step}.step.json"))
}

/// The steps after all was done.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// What each took, those that were kept too.
    pub steps: Vec<MeasuredStep>,
    /// Those that came to nothing.
    pub failed: Vec<StepFailure>,
    /// Those made in this call.
    pub made: usize,
    /// The user ended it.
    pub interrupted: bool,
}

/// How one step went.
enum Went {
    Kept,
    Made { exit: Option<i32> },
    Failed(StepFailure),
    Interrupted,
}

/// Makes the steps of the recipe that are not kept.
pub(crate) fn make(recipe: &Recipe, options: &ReproduceOptions, tools: &mut dyn Tools) -> Result<Done, ReproduceError> {
    let out = std::path::absolute(&options.out).map_err(ReproduceError::io("resolve", &options.out))?;
    if !out.is_dir() {
        Folder::create_new(&out)?;
    }
    let work = Making { recipe, out, options };
    let mut done = Done::default();
    let mut anew: Vec<String> = Vec::new();
    for step in &recipe.steps {
        if tools.stopped() {
            done.interrupted = true;
            break;
        }
        let started = Instant::now();
        match work.one(step, &anew, tools)? {
            Went::Kept => tools.say(&format!("{}: {}: kept", recipe.name, step.name)),
            Went::Interrupted => {
                done.interrupted = true;
                break;
            }
            Went::Failed(failure) => {
                tools.say(&format!("{}: {} failed: {}", recipe.name, step.name, failure.reason));
                done.failed.push(failure);
                continue;
            }
            Went::Made { exit } => {
                // A set that was resumed took longer than this call.
                let took = started.elapsed().max(runs_took(&work.out.join(step.set())));
                work.record(step, exit, took)?;
                tools.say(&format!("{}: {}: {:.1} s", recipe.name, step.name, took.as_secs_f64()));
                anew.extend(step.makes());
                done.made += 1;
            }
        }
        if let Some(record) = StepRecord::load(&work.out, &step.name) {
            done.steps.push(MeasuredStep::new(step, &record));
        }
    }
    Ok(done)
}

struct Making<'a> {
    recipe: &'a Recipe,
    out: PathBuf,
    options: &'a ReproduceOptions,
}

impl Making<'_> {
    fn one(&self, step: &Step, anew: &[String], tools: &mut dyn Tools) -> Result<Went, ReproduceError> {
        match &step.work {
            Work::Plan(file) => self.plan(step, file, tools),
            Work::Command { words, .. } => {
                let stale = words.iter().any(|word| anew.iter().any(|made| names(word, made)));
                let kept = StepRecord::load(&self.out, &step.name).is_some_and(|record| record.words == *words);
                let there = step.makes().iter().all(|path| self.out.join(path).exists());
                if kept && there && !stale && !self.options.again {
                    return Ok(Went::Kept);
                }
                self.command(step, tools)
            }
        }
    }

    fn plan(&self, step: &Step, file: &Path, tools: &mut dyn Tools) -> Result<Went, ReproduceError> {
        let plan = match Plan::load(&self.recipe.dir.join(file)) {
            Ok(plan) => plan,
            Err(error) => return Ok(Went::Failed(StepFailure::of(&step.name, &error.into()))),
        };
        let set = self.out.join(step.set());
        if self.options.again && set.exists() {
            let old = set.with_extension("set.old");
            if old.exists() {
                fs::remove_dir_all(&old).map_err(ReproduceError::io("remove", &old))?;
            }
            let (folder, name) = Folder::parent_of(&set)?;
            folder.rename(name, old.file_name().unwrap_or_default())?;
        }
        let mut options = RunOptions::new(&set);
        options.resume = set.join(SET_JSON).is_file();
        let unchanged = options.resume.then(|| pagelab_experiment::unchanged(&plan, &options)).transpose();
        match unchanged {
            Err(error) => return Ok(Went::Failed(StepFailure::of(&step.name, &error))),
            Ok(Some(())) if whole(&set) && record_path(&self.out, &step.name).is_file() => return Ok(Went::Kept),
            Ok(_) => {}
        }
        Ok(match tools.make_set(&plan, &options) {
            Ok(true) => Went::Interrupted,
            Ok(false) => Went::Made { exit: None },
            Err(refused) => Went::Failed(StepFailure::refused(&step.name, refused)),
        })
    }

    fn command(&self, step: &Step, tools: &mut dyn Tools) -> Result<Went, ReproduceError> {
        let Work::Command { words, stdout, makes, exit, timeout } = &step.work else { return Ok(Went::Kept) };
        // Leftovers of an earlier call would be taken for this one's results.
        for path in makes {
            remove(&self.out.join(path))?;
        }
        let filled: Vec<String> = words.iter().map(|word| self.fill(word)).collect();
        let mut command = Command::new(&self.options.pagelab);
        command.args(&filled).current_dir(&self.out).stdin(Stdio::null());
        let printed = match stdout {
            None => None,
            Some(name) => {
                let path = self.out.join(name);
                let (folder, name) = Folder::make_parent_of(&path)?;
                let part = folder.writer(&name)?;
                command.stdout(part.file().try_clone().map_err(ReproduceError::io("write", &path))?);
                Some(part)
            }
        };
        if printed.is_none() {
            command.stdout(std::io::stderr());
        }
        // A group of its own, so that its children end with it.
        command.process_group(0);
        let shown = shell_line(&filled);
        let failed = |reason: String, status: u8| {
            Went::Failed(StepFailure { name: step.name.clone(), reason: format!("pagelab {shown}: {reason}"), status })
        };
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(failed(format!("cannot be started: {error}"), 3)),
        };
        let status = match wait(&mut child, *timeout, tools) {
            Waited::Stopped => return Ok(Went::Interrupted),
            Waited::TooLong(limit) => {
                let reason = format!("not done after {} s; a longer time: `timeout` of the step", limit.as_secs_f64());
                return Ok(failed(reason, 3));
            }
            Waited::Ended(status) => status.map_err(ReproduceError::io("wait for", &self.options.pagelab))?,
        };
        let Some(code) = status.code().filter(|code| exit.contains(code)) else {
            // Whose fault it is, the command has said by its status.
            let whose = status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| (1..=3).contains(code));
            return Ok(failed(format!("{status}; needed: exit status {exit:?}"), whose.unwrap_or(3)));
        };
        if let Some(part) = printed {
            part.commit(Sync::No)?;
        }
        match makes.iter().find(|path| !self.out.join(path).exists()) {
            Some(path) => Ok(failed(format!("left no {path}, which `makes` names"), 2)),
            None => Ok(Went::Made { exit: Some(code) }),
        }
    }

    fn fill(&self, word: &str) -> String {
        let dir = |path: &Path| path.display().to_string();
        word.replace("{out}", &dir(&self.out)).replace("{experiment}", &dir(&self.recipe.dir))
    }

    fn record(&self, step: &Step, exit: Option<i32>, took: Duration) -> Result<(), ReproduceError> {
        let words = match &step.work {
            Work::Plan(file) => vec![file.display().to_string()],
            Work::Command { words, .. } => words.clone(),
        };
        let record = StepRecord {
            words,
            exit,
            took_s: (took.as_secs_f64() * 10.0).round() / 10.0,
            date: today(),
            kernel: kernel(),
            pagelab_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let path = record_path(&self.out, &step.name);
        let text = serde_json::to_string_pretty(&record).unwrap_or_default() + "\n";
        crate::write(&path, &text)
    }
}

/// Whether a word of a command names something below `{out}` that a step makes.
fn names(word: &str, made: &str) -> bool {
    word.match_indices(made).any(|(at, _)| {
        let rest = word.get(at + made.len()..).unwrap_or_default();
        rest.is_empty() || rest.starts_with(['/', ' '])
    })
}

/// Whether all runs of a set are made and compared, and their recordings are there.
fn whole(set: &Path) -> bool {
    let Ok(json) = SetJson::load(set) else { return false };
    let settled = |state: &RunState| !matches!(state, RunState::Planned | RunState::Running);
    let there = json.order.iter().all(|run| run.state != RunState::Done || set.join(&run.dir).exists());
    json.order.iter().all(|run| settled(&run.state)) && there && set.join(COMPARE_JSON).is_file()
}

/// What the runs of a set took together, with settings and steps around them; 0 where there is no set.
fn runs_took(set: &Path) -> Duration {
    let Ok(json) = SetJson::load(set) else { return Duration::ZERO };
    let details = json.extra.get("details").and_then(serde_json::Value::as_object);
    let runs = details.into_iter().flat_map(|details| details.values());
    Duration::from_millis(runs.filter_map(|run| run.get("took_ms")?.as_u64()).sum())
}

fn remove(path: &Path) -> Result<(), ReproduceError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(ReproduceError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

enum Waited {
    Ended(std::io::Result<ExitStatus>),
    TooLong(Duration),
    Stopped,
}

/// Waits for a command. When the time is over or the user ends it, it is asked to end first: it may hold settings of the host.
fn wait(child: &mut Child, timeout: Option<Duration>, tools: &dyn Tools) -> Waited {
    let started = Instant::now();
    let mut asked: Option<(Instant, Waited)> = None;
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => return asked.map_or(Waited::Ended(Ok(status)), |(_, why)| why),
            Err(error) => return Waited::Ended(Err(error)),
        }
        let over = match &asked {
            Some((since, _)) if since.elapsed() >= GRACE => {
                signal_group(child, libc::SIGKILL);
                None
            }
            Some(_) => None,
            None if tools.stopped() => Some(Waited::Stopped),
            None => timeout.filter(|limit| started.elapsed() >= *limit).map(Waited::TooLong),
        };
        if let Some(why) = over {
            // Not SIGINT: a shell's background job, and its children, ignore that.
            signal_group(child, libc::SIGTERM);
            asked = Some((Instant::now(), why));
        }
        std::thread::sleep(POLL);
    }
}

fn signal_group(child: &Child, signal: i32) {
    // SAFETY: kill takes numbers; the child is not reaped, so its group is still its own.
    let sent = unsafe { libc::kill(-(child.id() as i32), signal) };
    if sent != 0 {
        // It has just ended: the next look finds it.
        let _ = writeln!(std::io::stderr(), "pagelab: a command of a step could not be ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_a_set_only_with_its_whole_name() {
        assert!(names("{out}/main.set", "main.set"));
        assert!(names("{out}/main.set/variant=a/run=001", "main.set"));
        assert!(!names("{out}/main.sets", "main.set"));
        assert!(names("{out}/pool.json", "pool.json"));
    }
}
