//! Changes to the host that are always undone.
//!
//! A [`Guard`] sets host settings and puts them back: on [`Guard::restore`], when it is dropped (a panic unwinds and
//! drops it), and if the process ends in any other way, by a helper process within a second. What still slips through
//! (the helper killed as well) is undone by the next command of pagelab, whichever it is: [`restore_leftovers`].
//!
//! How it works:
//!
//! - **Journal.** One file of JSON lines for each guard, in the state folder. Its first line carries the id of this
//!   boot: after a reboot the kernel has its defaults again and the journal means nothing. A change is journalled, with
//!   the value found and its bytes, and synced before it is made; what the kernel made of it is journalled afterwards.
//!   A journal that somebody else could have written is refused, and one that says something unknown is kept.
//! - **Registry.** One folder for each running kernel, `/run/pagelab` of the host, with a lock for each setting that is
//!   changed, the value that it had first and the place of the journal. So pagelabs with different state folders exclude
//!   each other, and find each other's leftovers. In a container the host's registry is out of reach: a guard is refused
//!   there unless `PAGELAB_STATE_DIR` names a folder, which should be one that the host shares.
//! - **Helper.** A child in a session of its own, running [`helper_main`], that sleeps on a pipe whose other end only
//!   the guard holds. When that closes without a word, it undoes the journal. Where it may, it leaves the cgroups of its
//!   guard and is the last that the kernel kills for memory: whoever kills a whole service or job does not reach it.
//! - **Who may undo.** Whoever holds the lock (flock) on the journal: the guard as long as it lives, then helper,
//!   `restore`, or another guard that wants the same setting.
//! - **Who may change.** Whoever holds the lock of the setting and of its companions, the settings that the kernel
//!   rewrites along with it. A guard that gets the lock first settles journals of dead guards that speak of it.
//! - **Order.** Last change first. Companions go back with the setting they belong to.
//! - **Somebody else's change.** A setting that is neither what the guard left nor what it found was changed by
//!   somebody else meanwhile: it stays, and is reported.

mod door;
mod helper;
mod journal;
mod lasting;
mod leftovers;
mod locks;
mod report;

pub(crate) mod state;
mod undo;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use pagelab_vocab::settings::{DEFAULT_HUGE_SIZE, Scope, SettingInfo};

pub use door::{Door, FixtureDoor, KernelDoor};
pub use helper::{HELPER_COMMAND, helper_main, helper_main_with};
pub(crate) use lasting::Hold;
pub use leftovers::{Standing, restore_leftovers, restore_leftovers_in, restore_leftovers_of, standing, standing_of};
pub use report::{Applied, Failed, Left, RestoreReport, Restored, SideEffect};

use crate::facts;
use crate::files::names;
use crate::settings::{self, SettingError};
use helper::Helper;
use journal::{Journal, Record};
use locks::KeyLock;
use undo::{Change, Companion, same};

/// Why a setting was not changed. The host is as before in every case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// The key or value is wrong, or this host does not have it.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Another pagelab has changed the setting, or one that the kernel changes along with it.
    #[error("setting `{key}` is held by another pagelab ({holder}); wait for it, or end it")]
    Held {
        /// The key whose lock is taken.
        key: String,
        /// Process id and command.
        holder: String,
    },
    /// The kernel refused the value.
    #[error("setting `{key}`: the kernel refused `{value}` ({reason}); it is still `{found}`{}", hint(.reason))]
    Refused {
        /// The key.
        key: String,
        /// The value asked for.
        value: String,
        /// What the kernel said.
        reason: String,
        /// The value that it has.
        found: String,
    },
    /// The journal cannot be kept, so nothing may be changed.
    #[error("cannot keep a journal in {path}: {reason}; run as root, or set PAGELAB_STATE_DIR to a folder of your own")]
    State {
        /// The folder or file.
        path: String,
        /// What went wrong.
        reason: String,
    },
    /// The helper that undoes changes after a kill did not start.
    #[error("the helper that undoes changes did not start ({exe}: {reason}); nothing was changed")]
    Helper {
        /// The program started.
        exe: String,
        /// What went wrong.
        reason: String,
    },
    /// In a container, or with another /run, the changes of pagelabs outside cannot be seen.
    #[error(
        "found a container or another mount namespace, from which changes by a pagelab on the host cannot be seen; nothing was changed; needed: the host, or its folder /run/pagelab mounted here and named: PAGELAB_STATE_DIR=/run/pagelab-of-the-host"
    )]
    Contained,
}

fn hint(reason: &str) -> &'static str {
    if reason.contains("Read-only") {
        "; /sys or /proc is mounted read-only, as in most containers: run on the host"
    } else if reason.contains("ermission") || reason.contains("not permitted") {
        "; run as root"
    } else {
        ""
    }
}

/// How a guard is opened.
pub struct GuardOptions {
    /// The root that /proc and /sys are below.
    pub root: PathBuf,
    /// Folder of journals. Locks are in the registry of the kernel.
    pub state_dir: PathBuf,
    /// The program that is started as `PROGRAM __guard JOURNAL FD` and calls [`helper_main`].
    pub helper_exe: PathBuf,
    /// How files are read and written; tests put another in its place.
    pub door: Box<dyn Door>,
}

impl Default for GuardOptions {
    /// This host, `$PAGELAB_STATE_DIR` or `/run/pagelab`, and `$PAGELAB_GUARD_EXE` or the running program as helper.
    fn default() -> Self {
        let helper_exe = std::env::var_os("PAGELAB_GUARD_EXE");
        GuardOptions {
            root: PathBuf::from("/"),
            state_dir: state_dir(),
            // The link leads to the running program even after its file was replaced.
            helper_exe: helper_exe.map_or_else(|| PathBuf::from("/proc/self/exe"), PathBuf::from),
            door: Box::new(KernelDoor),
        }
    }
}

/// The folder of journals: `$PAGELAB_STATE_DIR`, or `/run/pagelab` of the host.
pub fn state_dir() -> PathBuf {
    let set = std::env::var_os("PAGELAB_STATE_DIR").filter(|dir| !dir.is_empty());
    set.map_or_else(|| state::registry(Path::new("/")), PathBuf::from)
}

/// Sets host settings and puts them back.
pub struct Guard {
    inner: Inner,
}

impl Guard {
    /// Opens a guard for this host.
    pub fn open() -> Result<Self, GuardError> {
        Self::open_with(GuardOptions::default())
    }

    /// Opens a guard: makes the state folder and the journal, and starts the helper. Changes nothing.
    pub fn open_with(options: GuardOptions) -> Result<Self, GuardError> {
        let GuardOptions { root, state_dir, helper_exe, door } = options;
        // The helper has another working directory.
        let absolute = |path: PathBuf| std::path::absolute(&path).map_err(|error| state_error(&path, &error));
        let (root, state_dir, helper_exe) = (absolute(root)?, absolute(state_dir)?, absolute(helper_exe)?);
        let registry = state::lock_folder(&root, &state_dir)?;
        let journal = Journal::create(&state_dir, &root)?;
        let helper = match Helper::start(&helper_exe, journal.path()) {
            Ok(helper) => helper,
            Err(error) => {
                journal.end(&mut KernelDoor, true);
                return Err(error);
            }
        };
        let inner = Inner {
            boot_id: facts::boot_id(&root),
            root,
            state_dir,
            registry,
            helper_exe,
            door,
            journal: Some(journal),
            helper: Some(helper),
            changes: Vec::new(),
            locks: BTreeMap::new(),
            next: 0,
        };
        Ok(Guard { inner })
    }

    /// Sets one host setting, after journalling its old value, and reads back what the kernel made of it.
    pub fn set(&mut self, key: &str, value: &str) -> Result<Applied, GuardError> {
        self.inner.set(key, value)
    }

    /// Sets several, in the order given; if one cannot be set, puts those before it back and says why.
    pub fn set_all<'a>(
        &mut self,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Vec<Applied>, GuardError> {
        let inner = &mut self.inner;
        let kept = inner.changes.len();
        let mut applied = Vec::new();
        for (key, value) in settings {
            match inner.set(key, value) {
                Ok(one) => applied.push(one),
                Err(error) => {
                    let report = inner.restore_from(kept);
                    if !report.is_clean() {
                        tracing::warn!("{report}");
                    }
                    return Err(error);
                }
            }
        }
        Ok(applied)
    }

    /// Puts everything back, last change first, and lets go of the locks. The guard can be used again.
    pub fn restore(&mut self) -> RestoreReport {
        self.inner.restore()
    }

    /// Puts everything back and ends the helper.
    pub fn close(mut self) -> RestoreReport {
        self.inner.finish()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let report = self.inner.finish();
        if !report.is_clean() {
            tracing::warn!("{report}");
        }
    }
}

struct Inner {
    root: PathBuf,
    boot_id: Option<String>,
    state_dir: PathBuf,
    /// Where locks are.
    registry: PathBuf,
    helper_exe: PathBuf,
    door: Box<dyn Door>,
    /// `None` once the guard is finished.
    journal: Option<Journal>,
    helper: Option<Helper>,
    changes: Vec<Change>,
    locks: BTreeMap<String, KeyLock>,
    next: u64,
}

impl Inner {
    fn set(&mut self, key: &str, value: &str) -> Result<Applied, GuardError> {
        let info = settings::known(key)?;
        if info.def.scope == Scope::Process {
            let why = "it belongs to a process; give it to the command instead".to_owned();
            return Err(SettingError::ReadOnly { key: info.key, why }.into());
        }
        let info = settings::check(&self.root, &info.key, value)?;
        self.watched()?;
        let companions = companions(&self.root, &info);
        let fresh = self.lock_all(&info.key, &group(&self.root, &info.key, &companions))?;
        let result = self.change(&info, value, companions);
        // A change that was made but could not be read back is still undone later, under its locks.
        if result.is_err() && !self.changes.iter().any(|change| change.key == info.key) {
            self.unlock_all(&fresh);
        }
        result
    }

    /// Makes sure that the helper is there: without it nothing is changed.
    fn watched(&mut self) -> Result<(), GuardError> {
        if let Some(helper) = &mut self.helper
            && helper.is_alive()
        {
            return helper.wait_ready();
        }
        let Some(journal) = &self.journal else { return Ok(()) };
        let mut helper = Helper::start(&self.helper_exe, journal.path())?;
        helper.wait_ready()?;
        self.helper = Some(helper);
        Ok(())
    }

    /// Takes the locks of a setting and its group that this guard does not hold yet, and says which.
    fn lock_all(&mut self, key: &str, group: &[String]) -> Result<Vec<String>, GuardError> {
        let mut fresh: Vec<String> = Vec::new();
        // Nobody waits for a lock, so their order cannot tie two guards up; the setting itself gives the better message.
        for key in std::iter::once(key).chain(group.iter().map(String::as_str)) {
            if self.locks.contains_key(key) {
                continue;
            }
            match KeyLock::take(&self.registry, key) {
                Ok(lock) => {
                    self.locks.insert(key.to_owned(), lock);
                    fresh.push(key.to_owned());
                }
                Err(error) => {
                    self.unlock_all(&fresh);
                    return Err(error);
                }
            }
        }
        // Whoever held these before may have been killed a moment ago: its changes are undone first.
        let own = self.journal.as_ref().map(|journal| journal.path().to_owned());
        let taken: Vec<(&str, &KeyLock)> =
            fresh.iter().filter_map(|key| Some((key.as_str(), self.locks.get(key)?))).collect();
        let folders = [self.state_dir.as_path(), self.registry.as_path()];
        let report = leftovers::settle(&self.root, &folders, self.door.as_mut(), &taken, own.as_deref());
        if !report.is_clean() {
            tracing::warn!("{report}");
        }
        for key in &fresh {
            let Some(lock) = self.locks.get_mut(key) else { continue };
            if let Err(error) = lock.sign(key, self.boot_id.clone(), own.as_deref()) {
                let error = state_error(&self.registry, &error);
                self.unlock_all(&fresh);
                return Err(error);
            }
        }
        Ok(fresh)
    }

    fn unlock_everything(&mut self) {
        for (_, lock) in std::mem::take(&mut self.locks) {
            lock.release();
        }
    }

    fn unlock_all(&mut self, keys: &[String]) {
        for lock in keys.iter().filter_map(|key| self.locks.remove(key)) {
            lock.release();
        }
    }

    fn change(&mut self, info: &SettingInfo, value: &str, companions: Vec<String>) -> Result<Applied, GuardError> {
        let value = value.trim();
        let previous = self.door.get(&self.root, &info.key)?;
        if same(&previous, value) {
            // Nothing is written: even the same value would restart what hangs on it (khugepaged, write-back).
            let (key, requested) = (info.key.clone(), value.to_owned());
            return Ok(Applied { key, got: previous.clone(), previous, requested, side_effects: Vec::new() });
        }
        let companions = self.found(companions);
        let change = Change {
            seq: self.next,
            key: info.key.clone(),
            previous: previous.clone(),
            bytes: undo::other_bytes(self.door.as_mut(), &self.root, &info.key, &previous),
            requested: value.to_owned(),
            got: None,
            companions,
            undoing: None,
            settled: false,
        };
        self.next += 1;
        self.claim(&change)?;
        self.record(&change.intent())?;
        let written = self.door.put(&self.root, &info.key, value);
        // The change is known to the journal from here on; every way out leaves it in the list or settles it.
        let got = self.door.get(&self.root, &info.key);
        let refused = match (&written, &got) {
            (Err(error), Ok(found)) if same(found, &previous) => Some((settings::plain(error), found.clone())),
            _ => None,
        };
        let change = self.keep(change, got.as_deref().ok());
        if let Some((reason, found)) = refused {
            self.settle_last();
            return Err(GuardError::Refused { key: info.key.clone(), value: value.to_owned(), reason, found });
        }
        if let Err(error) = &written {
            tracing::warn!("{}: writing {value} failed half way: {error}", info.key);
        }
        let side_effects = change.side_effects();
        Ok(Applied { key: info.key.clone(), previous, requested: value.to_owned(), got: got?, side_effects })
    }

    /// The companions with the values they have.
    fn found(&mut self, keys: Vec<String>) -> Vec<Companion> {
        let (door, root) = (&mut self.door, &self.root);
        let mut companions = Vec::new();
        for key in keys {
            let previous = door.get(root, &key).ok();
            let bytes = previous.as_deref().and_then(|value| undo::other_bytes(door.as_mut(), root, &key, value));
            companions.push(Companion { key, previous, bytes, after: None, after_known: false });
        }
        companions
    }

    /// Writes into the locks what the setting and its group are before they are changed.
    fn claim(&mut self, change: &Change) -> Result<(), GuardError> {
        // This guard may have changed the value before under another of its names: its first value is written there.
        let mut same_value = change.companions.iter().filter(|one| one.previous.as_deref() == Some(&change.previous));
        let first = same_value.find_map(|one| self.locks.get(&one.key)?.first());
        let (first, bytes) = first.unwrap_or_else(|| (change.previous.clone(), change.bytes.clone()));
        let own = Companion { key: change.key.clone(), previous: Some(first), bytes, after: None, after_known: false };
        let farther = self.farther(change);
        let farther = self.found(farther);
        for one in std::iter::once(&own).chain(&change.companions).chain(&farther) {
            let (Some(lock), Some(value)) = (self.locks.get_mut(&one.key), one.previous.as_deref()) else { continue };
            lock.found(value, one.bytes.as_deref()).map_err(|error| state_error(&self.registry, &error))?;
        }
        Ok(())
    }

    /// What is locked along with a setting and its companions because it is a companion of theirs.
    fn farther(&self, change: &Change) -> Vec<String> {
        let companions: Vec<String> = change.companions.iter().map(|one| one.key.clone()).collect();
        let mut keys = group(&self.root, &change.key, &companions);
        keys.retain(|key| !companions.contains(key));
        keys
    }

    /// Writes into the locks their values after it.
    fn claim_done(&mut self, change: &Change) {
        let farther = self.farther(change);
        let farther = self.found(farther).into_iter().map(|one| (one.key, one.previous));
        let companions = change.companions.iter().map(|one| (one.key.clone(), one.after.clone()));
        let own = (change.key.clone(), change.got.clone());
        for (key, value) in std::iter::once(own).chain(companions).chain(farther) {
            let Some(lock) = self.locks.get_mut(&key) else { continue };
            if let Err(error) = lock.left_at(value.as_deref()) {
                tracing::warn!("{key}: {error}; it is still undone, but a change by others would not be noticed");
            }
        }
    }

    /// Journals what a change came to and adds it to the list. If the journal cannot take it, the change stays undoable:
    /// undoing then takes whatever it finds for its own.
    fn keep(&mut self, mut change: Change, got: Option<&str>) -> Change {
        change.got = got.map(str::to_owned);
        for companion in &mut change.companions {
            companion.after = self.door.get(&self.root, &companion.key).ok();
            companion.after_known = true;
        }
        if let Err(error) = self.record(&change.applied()) {
            tracing::warn!("{}: {error}; it is still undone, but a change by others would not be noticed", change.key);
        }
        self.claim_done(&change);
        self.changes.push(change.clone());
        change
    }

    /// Marks the last change as needing nothing.
    fn settle_last(&mut self) {
        if let Some(change) = self.changes.pop()
            && let Err(error) = self.record(&Record::Undone { seq: change.seq })
        {
            tracing::warn!("{}: {error}", change.key);
        }
    }

    fn record(&mut self, record: &Record) -> Result<(), GuardError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.append(self.door.as_mut(), record)
    }

    fn restore(&mut self) -> RestoreReport {
        self.restore_from(0)
    }

    /// Undoes the changes from the given place in the list on. Locks are given back when none is left.
    fn restore_from(&mut self, first: usize) -> RestoreReport {
        let mut report = RestoreReport::default();
        let mut changes = self.changes.split_off(first.min(self.changes.len()));
        undo::undo(self.door.as_mut(), &self.root, &mut changes, self.journal.as_mut(), &mut report);
        changes.retain(|change| !change.settled);
        self.changes.append(&mut changes);
        if self.changes.is_empty() {
            self.unlock_everything();
        }
        report
    }

    /// Restores and closes for good. What could not be put back stays in the journal, which `pagelab restore` finds.
    fn finish(&mut self) -> RestoreReport {
        if self.journal.is_none() {
            return RestoreReport::default();
        }
        let report = self.restore();
        if let Some(journal) = self.journal.take() {
            journal.end(self.door.as_mut(), self.changes.is_empty());
        }
        self.unlock_everything();
        if let Some(helper) = self.helper.take() {
            helper.dismiss();
        }
        report
    }
}

/// The companions of a setting that this host has.
fn companions(root: &Path, info: &SettingInfo) -> Vec<String> {
    let default = settings::read(root, "hugetlb.default_size").unwrap_or_else(|_| DEFAULT_HUGE_SIZE.to_owned());
    let mut keys = Vec::new();
    for key in info.companion_keys(&default) {
        if let Some((folder, _)) = key.split_once(".iosched.*") {
            let dev = folder.strip_prefix("block.").unwrap_or(folder);
            let tunables = names(&root.join(format!("sys/block/{dev}/queue/iosched")));
            keys.extend(tunables.into_iter().map(|name| format!("{folder}.iosched.{name}")));
        } else if let Some((size, rest)) = key.split_once(".*.") {
            let nodes = names(&root.join("sys/devices/system/node")).into_iter();
            keys.extend(nodes.filter(|name| name.starts_with("node")).map(|node| format!("{size}.{node}.{rest}")));
        } else {
            keys.push(key);
        }
    }
    // A knob that the kernel does not have cannot be changed by it.
    keys.retain(|key| *key != info.key && settings::read(root, key).is_ok());
    keys
}

/// The companions of a setting and theirs, as far as they go. They are locked together, and each lock says what its setting
/// was before the first change: a pool's part on a node would otherwise be found as changed by way of `vm.nr_hugepages`.
fn group(root: &Path, key: &str, companions: &[String]) -> Vec<String> {
    let mut keys = companions.to_vec();
    let mut next = 0;
    while let Some(one) = keys.get(next) {
        next += 1;
        let Ok(info) = settings::known(one) else { continue };
        let more: Vec<String> = self::companions(root, &info);
        let more = more.into_iter().filter(|one| one != key && !keys.contains(one)).collect::<Vec<_>>();
        keys.extend(more);
    }
    keys
}

/// A state error for a path.
fn state_error(path: &Path, error: &io::Error) -> GuardError {
    GuardError::State { path: path.display().to_string(), reason: settings::plain(error) }
}
