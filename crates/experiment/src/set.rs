//! The set on disk: its directory, `set.json`, and what every step changes in them.
//!
//! `set.json` is written anew before and after every run, by a temporary name and a rename, so that whoever reads it
//! (another process, or this one after a kill) meets a state that was true. A run is `running` in it before its
//! directory exists, and `done` after its recording is closed: a kill in between leaves `running`, and that run is made
//! again. Both are forced to the device each time: after a power cut `done` stands for a recording that is there.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Component, Path, PathBuf};

use pagelab_host::seal::Sealer;
use pagelab_output::{Folder, Lock};
use pagelab_recording::FORMAT;
use pagelab_recording::set::{ABORTED, PlannedRun, RunState, SET_JSON, SetJson, WARMUP, run_dir};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ExperimentError;
use crate::order::Slot;
use crate::plan::{Filled, Plan};
use crate::runner::Change;

/// What `state` of a warm-up run says once it has ended well.
pub const WARMUP_REASON: &str = "warmup: made before the first round, not to be compared";

/// What `set.json` keeps about one run besides its state; under `details`, by the run's directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunDetails {
    /// Settings of the host that were requested and the values they got.
    pub changes: Vec<Change>,
    /// Notes for the user.
    pub warnings: Vec<String>,
    /// Wall time from before the settings were changed to after they were put back, ms; null while it runs.
    pub took_ms: Option<u64>,
}

/// A set that this process works on.
#[derive(Debug)]
pub struct Set {
    dir: PathBuf,
    json: SetJson,
    details: BTreeMap<PathBuf, RunDetails>,
    /// Held while this process works on the set.
    _lock: Lock,
}

/// Key of `set.json` that holds the seal of its plan.
pub(crate) const PLAN_SEAL: &str = "plan_seal";

/// The text of a plan that is sealed: keys of objects are sorted, so that it is the same after reading.
pub(crate) fn sealed_plan(plan: &Value) -> Vec<u8> {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields: BTreeMap<&String, Value> = fields.iter().map(|(key, value)| (key, sorted(value))).collect();
                Value::Object(fields.into_iter().map(|(key, value)| (key.clone(), value)).collect())
            }
            Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
            other => other.clone(),
        }
    }
    sorted(plan).to_string().into_bytes()
}

/// Proof that this user made the plan here, without which its commands are not run again unasked.
fn seal_of(plan: &Value) -> Option<(String, Value)> {
    let sealer = Sealer::open().inspect_err(|error| tracing::debug!("the plan is not sealed: {error}")).ok()?;
    Some((PLAN_SEAL.to_owned(), json!(sealer.seal(PLAN_SEAL, &sealed_plan(plan)))))
}

impl Set {
    /// Makes the directory of a new set and writes its document.
    pub fn create(
        dir: &Path,
        plan: &Plan,
        filled: &Filled,
        seed: u64,
        order: &[Slot],
    ) -> Result<Self, ExperimentError> {
        refuse_existing(dir)?;
        Folder::create(dir)?;
        let mut json = SetJson {
            format: u64::from(FORMAT),
            plan: plan.to_json(),
            seed,
            order: planned_runs(plan, order),
            ..SetJson::default()
        };
        json.extra.insert("title".to_owned(), json!(plan.title));
        json.extra.insert("base".to_owned(), json!(plan.base));
        json.extra.insert("pagelab_version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
        json.extra.insert("here".to_owned(), serde_json::to_value(filled).unwrap_or_default());
        json.extra.insert("exploratory".to_owned(), json!(false));
        json.extra.extend(seal_of(&json.plan));
        let lock = lock(dir)?;
        let mut set = Self { dir: dir.to_owned(), json, details: BTreeMap::new(), _lock: lock };
        set.save()?;
        Ok(set)
    }

    /// Opens a set to go on with it.
    pub fn open(dir: &Path) -> Result<Self, ExperimentError> {
        if !dir.join(SET_JSON).is_file() {
            return Err(ExperimentError::NoSet { dir: dir.to_owned() });
        }
        let lock = lock(dir)?;
        let json = SetJson::load(dir)?;
        let found = json.format;
        if found > u64::from(FORMAT) {
            let writer =
                json.extra.get("pagelab_version").and_then(Value::as_str).unwrap_or("of unknown version").to_owned();
            return Err(pagelab_recording::Error::NewerFormat { path: dir.join(SET_JSON), found, writer }.into());
        }
        if let Some(run) = json.order.iter().find(|run| !is_below(&run.dir)) {
            let reason = format!("`order` names the directory {}; one below the set is needed", run.dir.display());
            return Err(bad_json(dir, &reason));
        }
        let details = from_extra(dir, &json, "details")?;
        Ok(Self { dir: dir.to_owned(), json, details: details.unwrap_or_default(), _lock: lock })
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The document.
    pub fn json(&self) -> &SetJson {
        &self.json
    }

    /// The plan as it was filled when the set was started.
    pub fn filled(&self) -> Result<Filled, ExperimentError> {
        from_extra(&self.dir, &self.json, "here")?.ok_or_else(|| bad_json(&self.dir, "`here` is missing"))
    }

    /// Runs in their order.
    pub fn runs(&self) -> &[PlannedRun] {
        &self.json.order
    }

    /// The entry of each run, by its directory relative to the set.
    pub fn details(&self) -> &BTreeMap<PathBuf, RunDetails> {
        &self.details
    }

    /// Writes down that the run at `index` is now in `state`.
    pub fn mark(&mut self, index: usize, state: RunState, details: Option<RunDetails>) -> Result<(), ExperimentError> {
        if let Some(run) = self.json.order.get_mut(index) {
            run.state = state;
            if let Some(details) = details {
                self.details.insert(run.dir.clone(), details);
            }
        }
        self.save()
    }

    /// Makes aborted runs ready to be made again. Gives their number.
    pub fn recover(&mut self) -> Result<usize, ExperimentError> {
        let mut recovered = 0;
        for index in 0..self.json.order.len() {
            let Some(run) = self.json.order.get(index) else { continue };
            let there = self.dir.join(&run.dir).exists();
            let again = match run.state {
                RunState::Running => true,
                RunState::Planned => there,
                // Somebody removed the recording.
                RunState::Done => !there,
                RunState::Excluded { .. } | RunState::Failed { .. } => false,
            };
            if again {
                self.set_aside(index)?;
                recovered += 1;
            }
        }
        self.save()?;
        Ok(recovered)
    }

    /// Moves what a broken-off run left out of the way and plans the run anew.
    pub fn set_aside(&mut self, index: usize) -> Result<(), ExperimentError> {
        let Some(run) = self.json.order.get_mut(index) else { return Ok(()) };
        let from = self.dir.join(&run.dir);
        if from.exists() {
            let aside = self.dir.join(ABORTED);
            let name = |n: u32| aside.join(run.dir.with_extension(n.to_string()));
            let to = (1..).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(0));
            move_new(&from, &to)?;
        }
        run.state = RunState::Planned;
        self.details.remove(&run.dir);
        self.save()
    }

    /// Adds rounds to the end. They were not planned before the first was looked at, and the set says so from now on.
    pub fn add_rounds(&mut self, plan: &Plan, order: &[Slot]) -> Result<(), ExperimentError> {
        let known = self.json.order.len();
        let all = planned_runs(plan, order);
        self.json.order.extend(all.into_iter().skip(known));
        self.json.extra.insert("exploratory".to_owned(), json!(true));
        self.save()
    }

    /// Whether runs were added after looking.
    pub fn exploratory(&self) -> bool {
        self.json.extra.get("exploratory").and_then(Value::as_bool).unwrap_or(false)
    }

    /// Keeps something the user should know in the document.
    pub fn note(&mut self, note: &str) -> Result<(), ExperimentError> {
        let notes = self.json.extra.entry("notes").or_insert_with(|| json!([]));
        if let Some(list) = notes.as_array_mut() {
            list.push(json!(note));
        }
        self.save()
    }

    fn save(&mut self) -> Result<(), ExperimentError> {
        self.json.extra.insert("details".to_owned(), serde_json::to_value(&self.details).unwrap_or_default());
        Ok(self.json.save(&self.dir)?)
    }
}

fn from_extra<T: serde::de::DeserializeOwned>(
    dir: &Path,
    json: &SetJson,
    key: &str,
) -> Result<Option<T>, ExperimentError> {
    let Some(value) = json.extra.get(key) else { return Ok(None) };
    T::deserialize(value).map(Some).map_err(|error| bad_json(dir, &format!("`{key}`: {error}")))
}

fn bad_json(dir: &Path, reason: &str) -> ExperimentError {
    pagelab_recording::Error::BadJson { path: dir.join(SET_JSON), reason: reason.to_owned() }.into()
}

/// The runs of an order: numbered within their variants, each with its directory.
fn planned_runs(plan: &Plan, order: &[Slot]) -> Vec<PlannedRun> {
    let mut made: BTreeMap<(usize, bool), u64> = BTreeMap::new();
    let mut runs = Vec::with_capacity(order.len());
    for slot in order {
        let warmup = slot.round == 0;
        let run = made.entry((slot.variant, warmup)).or_default();
        *run += 1;
        let Some(variant) = plan.variants.get(slot.variant) else { continue };
        let within = Path::new(if warmup { WARMUP } else { "" });
        runs.push(PlannedRun {
            variant: variant.name.clone(),
            run: *run,
            round: slot.round,
            position: slot.position,
            dir: run_dir(within, &variant.name, *run),
            state: RunState::Planned,
        });
    }
    runs
}

fn refuse_existing(dir: &Path) -> Result<(), ExperimentError> {
    let refuse = |found: String, advice: String| Err(ExperimentError::Exists { dir: dir.to_owned(), found, advice });
    match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            refuse("something that is no directory".to_owned(), "choose another one with -o".to_owned())
        }
        Err(error) => Err(ExperimentError::io("read", dir)(error)),
        Ok(entries) => {
            let entries = entries.count();
            if dir.join(SET_JSON).is_file() {
                let advice = format!(
                    "to go on with it: --resume; to start anew: choose another one with -o, or rm -r {}",
                    dir.display()
                );
                refuse("a set".to_owned(), advice)
            } else if entries > 0 {
                let advice = format!("choose another one with -o, or remove it: rm -r {}", dir.display());
                refuse(format!("a directory with {entries} entries"), advice)
            } else {
                Ok(())
            }
        }
    }
}

/// Whether a path leads to a place below the folder that it is joined to.
fn is_below(path: &Path) -> bool {
    path.components().next().is_some() && path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Moves a folder to a new place, whose parents are made for the owner alone, and forces both names to the device.
pub(crate) fn move_new(from: &Path, to: &Path) -> Result<(), ExperimentError> {
    let ((old, name), (new, new_name)) = (Folder::parent_of(from)?, Folder::make_parent_of(to)?);
    old.rename_new_into(&name, &new, &new_name)?;
    new.sync()?;
    Ok(old.sync()?)
}

fn lock(dir: &Path) -> Result<Lock, ExperimentError> {
    let file = File::open(dir).map_err(ExperimentError::io("open", dir))?;
    Lock::try_take(file).map_err(|error| match error {
        TryLockError::WouldBlock => ExperimentError::Busy { dir: dir.to_owned() },
        TryLockError::Error(error) => ExperimentError::io("lock", dir)(error),
    })
}
