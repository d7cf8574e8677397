//! A host made of files, and a runner that fails, stops or dies wherever a test wants it to.
#![allow(dead_code, clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pagelab_experiment::{
    Between, Change, Event, HostControl, Plan, Progress, RunError, RunErrorKind, RunOptions, RunOutcome, RunSpec, Step,
};

/// What a killed process leaves by.
pub(crate) struct Killed;

/// A directory with a host below `root`, a plan and room for sets.
pub(crate) struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        place.host("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        place.host("proc/sys/vm/swappiness", "60\n");
        place.host("proc/sys/net/core/somaxconn", "4096\n");
        place.host("sys/block/vda/queue/read_ahead_kb", "128\n");
        place.host("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
        place.host("sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages", "0\n");
        place
    }

    pub(crate) fn host(&self, path: &str, text: &str) {
        let file = self.root().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    pub(crate) fn set(&self) -> PathBuf {
        self.dir.path().join("set")
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.dir.path().join(name);
        fs::write(&file, text).unwrap();
        file
    }

    pub(crate) fn plan(&self, text: &str) -> Plan {
        Plan::load(&self.write("plan.toml", text)).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn options(&self) -> RunOptions {
        RunOptions { root: self.root(), ..RunOptions::new(self.set()) }
    }

    pub(crate) fn resume(&self) -> RunOptions {
        RunOptions { resume: true, ..self.options() }
    }
}

/// A plan of two variants that differ in one setting.
pub(crate) const TWO: &str = r#"
title = "two"
runs = 4
seed = 11
between = "sync drop_caches"
prepare = "true"
cleanup = ["true"]
timeout = "5s"
command = "work"

[variant.good]
settings = { "thp.enabled" = "always" }

[variant.bad]
settings = { "thp.enabled" = "never", "env.WHO" = "bad" }
"#;

type Script = Box<dyn Fn(&RunSpec) -> Result<RunOutcome, RunError>>;
type StepScript = Box<dyn Fn(&Step, usize) -> Result<(), RunError>>;

/// A runner whose host is a map of settings.
pub(crate) struct FakeRunner {
    pub log: RefCell<Vec<String>>,
    pub values: Rc<RefCell<BTreeMap<String, String>>>,
    /// What is changed at present.
    pub changes: RefCell<Vec<Change>>,
    pub script: Script,
    pub steps: StepScript,
    /// What the host makes of a value.
    pub grants: fn(&str) -> String,
    /// Ask to stop once this many runs have begun.
    pub stop_at_run: Option<usize>,
    pub runs: Cell<usize>,
    pub steps_done: Cell<usize>,
    /// Die at the n-th look at this clock.
    pub clock: Rc<Clock>,
}

/// Counts the instants at which a process could die.
#[derive(Default)]
pub(crate) struct Clock {
    pub now: Cell<usize>,
    pub kill_at: Cell<Option<usize>>,
}

impl Clock {
    pub(crate) fn tick(&self) {
        self.now.set(self.now.get() + 1);
        if self.kill_at.get() == Some(self.now.get()) {
            // As a kill does, but for destructors; the panic hook is not called.
            std::panic::resume_unwind(Box::new(Killed));
        }
    }
}

pub(crate) fn good() -> RunOutcome {
    RunOutcome { code: Some(0), complete: true, ..RunOutcome::default() }
}

impl Default for FakeRunner {
    fn default() -> Self {
        Self {
            log: RefCell::default(),
            values: Rc::default(),
            changes: RefCell::default(),
            script: Box::new(|_| Ok(good())),
            steps: Box::new(|_, _| Ok(())),
            grants: str::to_owned,
            stop_at_run: None,
            runs: Cell::new(0),
            steps_done: Cell::new(0),
            clock: Rc::default(),
        }
    }
}

impl FakeRunner {
    pub(crate) fn scripted(script: impl Fn(&RunSpec) -> Result<RunOutcome, RunError> + 'static) -> Self {
        Self { script: Box::new(script), ..Self::default() }
    }

    fn note(&self, line: String) {
        self.log.borrow_mut().push(line);
    }

    pub(crate) fn ran(&self) -> Vec<String> {
        self.log.borrow().iter().filter_map(|line| line.strip_prefix("run ").map(str::to_owned)).collect()
    }
}

impl HostControl for FakeRunner {
    fn check(&self, settings: &BTreeMap<String, String>, _between: &[Between]) -> Result<(), RunError> {
        self.clock.tick();
        self.note(format!("check {}", settings.len()));
        Ok(())
    }

    fn step(&self, step: &Step) -> Result<(), RunError> {
        self.clock.tick();
        self.note(step.word().to_owned());
        let number = self.steps_done.get();
        self.steps_done.set(number + 1);
        (self.steps)(step, number)
    }

    fn change_settings(&self, settings: &BTreeMap<String, String>) -> Result<Vec<Change>, RunError> {
        self.clock.tick();
        let mut changes = Vec::new();
        for (key, asked) in settings {
            let got = (self.grants)(asked);
            let previous = self.values.borrow_mut().insert(key.clone(), got.clone()).unwrap_or("before".to_owned());
            changes.push(Change { key: key.clone(), previous, asked: asked.clone(), got });
        }
        self.clock.tick();
        self.changes.borrow_mut().clone_from(&changes);
        Ok(changes)
    }

    fn restore_settings(&self) -> Vec<String> {
        self.clock.tick();
        for change in self.changes.take() {
            self.values.borrow_mut().insert(change.key, change.previous);
        }
        Vec::new()
    }

    fn run(&self, spec: &RunSpec) -> Result<RunOutcome, RunError> {
        assert!(!spec.dir.exists(), "{} is not fresh", spec.dir.display());
        self.runs.set(self.runs.get() + 1);
        self.clock.tick();
        let thp = self.values.borrow().get("thp.enabled").cloned().unwrap_or_default();
        self.note(format!("run {} {} round {} thp={thp}", spec.variant, spec.run, spec.round));
        fs::create_dir_all(&spec.dir).unwrap();
        self.clock.tick();
        let outcome = (self.script)(spec)?;
        if outcome.complete {
            manifest(spec);
        }
        self.clock.tick();
        let interrupted = self.stop_at_run == Some(self.runs.get());
        Ok(RunOutcome { interrupted, ..outcome })
    }

    fn stopped(&self) -> bool {
        self.stop_at_run.is_some_and(|stop| self.runs.get() >= stop)
    }
}

/// A manifest as a recorder leaves it, complete.
pub(crate) fn manifest(spec: &RunSpec) {
    let text = serde_json::json!({
        "format": 1, "variant": spec.variant, "run": spec.run, "round": spec.round, "complete": true,
    });
    fs::write(spec.dir.join("manifest.json"), text.to_string()).unwrap();
}

pub(crate) fn broken(kind: RunErrorKind, reason: &str) -> RunError {
    RunError::new(kind, reason)
}

/// A progress display that dies by the same clock.
pub(crate) struct Ticking(pub Rc<Clock>);

impl Progress for Ticking {
    fn event(&mut self, _event: &Event<'_>) {
        self.0.tick();
    }
}

/// Every file below a directory with its text.
pub(crate) fn tree(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            out.extend(tree(&path));
        } else {
            out.insert(path.clone(), fs::read_to_string(&path).unwrap_or_default());
        }
    }
    out
}
