//! Reading settings: everything at once ([`snapshot`]) or one by key ([`read`]).
//!
//! The keys are those of [`pagelab_vocab::settings`]. A snapshot holds one row for each key that this host (and the
//! target process) has, sorted by key, so that two snapshots are compared by walking both. A value that could not be
//! read is `None` with the reason; a knob that the kernel does not have makes no row.

mod block;
mod boot;
mod cgroup;
mod cpu;
mod debugfs;
mod irq;
mod memory;
pub(crate) mod mounts;
mod open_files;
pub(crate) mod place;
mod programs;
mod sysctl;
mod target;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use pagelab_vocab::nearest::hint;
use pagelab_vocab::settings::{self as vocab, Form, Reading, Scope, SettingInfo};
use serde::Serialize;

use crate::files::{chosen, names, text, tidy, under};
pub use programs::builds;

/// One setting as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The key.
    pub key: String,
    /// The value; `None` if it could not be read.
    pub value: Option<String>,
    /// Where it was read: a path, or words where it is not one file.
    pub source: String,
    /// Why there is no value.
    pub reason: Option<String>,
}

/// Why a setting cannot be read or set. Each message says what was found, what is needed and what to type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// No namespace knows the key, or this kernel does not have it.
    #[error("unknown setting `{key}`: {found}{}; docs/settings.md lists all", hint(.nearest.as_deref()))]
    Unknown {
        /// The key as given.
        key: String,
        /// The missing file or setting.
        found: String,
        /// The key that was probably meant.
        nearest: Option<String>,
    },
    /// The key describes something that pagelab does not change.
    #[error("setting `{key}` can only be recorded, not set: {why}")]
    ReadOnly {
        /// The key.
        key: String,
        /// The reason.
        why: String,
    },
    /// The key is decided when a kernel boots.
    #[error(
        "setting `{key}` is decided at boot, and this host has booted; needed: a plan with the table [lab], whose VM boots with it"
    )]
    AtBoot {
        /// The key.
        key: String,
    },
    /// Only the kernel knows what the key does, and the user has not said that it may be set.
    #[error(
        "setting `{key}` is not described in docs/settings.md, so nobody has looked whether it can be taken back; needed: the word of whoever runs the plan: --allow-setting {key}"
    )]
    NotAllowed {
        /// The key.
        key: String,
    },
    /// The value has no form that the setting takes.
    #[error("setting `{key}`: `{value}` is not a value it takes; needed: {needed}")]
    Value {
        /// The key.
        key: String,
        /// The value as given.
        value: String,
        /// What is accepted.
        needed: String,
    },
    /// The key belongs to a process and none was named.
    #[error("setting `{key}` belongs to a process, not to the host; read it with a process id")]
    NeedsProcess {
        /// The key.
        key: String,
    },
    /// The file is there and cannot be read.
    #[error("setting `{key}`: cannot read {path}: {reason}; run as root, or leave the setting out")]
    Unreadable {
        /// The key.
        key: String,
        /// The file.
        path: String,
        /// What the kernel said.
        reason: String,
    },
}

/// What a snapshot takes in.
#[derive(Debug, Clone)]
pub struct SnapshotOptions {
    /// The process whose environment, limits, groups and mounts are read; `None` leaves those out (mounts are then
    /// those of the caller).
    pub pid: Option<u32>,
    /// Environment variables to show in clear besides those the registry shows: the ones that a plan sets.
    pub shown_env: Vec<String>,
    /// Whether the kernel's build configuration is read: thousands of rows that cannot change until the next boot.
    pub kconfig: bool,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        SnapshotOptions { pid: None, shown_env: Vec::new(), kconfig: true }
    }
}

/// Every setting of the host below `root` (`/` for this one) and of the process `pid`, sorted by key.
pub fn snapshot(root: &Path, pid: Option<u32>) -> Vec<Setting> {
    snapshot_with(root, &SnapshotOptions { pid, ..SnapshotOptions::default() })
}

/// As [`snapshot`], with options.
pub fn snapshot_with(root: &Path, options: &SnapshotOptions) -> Vec<Setting> {
    let mut out = Collector::new(root);
    boot::kernel(&mut out);
    boot::cmdline(&mut out);
    if options.kconfig {
        boot::kconfig(&mut out);
    }
    cpu::read(&mut out);
    irq::read(&mut out);
    memory::read(&mut out);
    block::read(&mut out);
    mounts::read(&mut out, options.pid);
    sysctl::read(&mut out);
    if let Some(pid) = options.pid {
        read_process(&mut out, pid, &options.shown_env);
    }
    out.finish()
}

fn read_process(out: &mut Collector<'_>, pid: u32, shown_env: &[String]) {
    let shown: BTreeSet<&str> = shown_env.iter().map(String::as_str).collect();
    target::read(out, pid, &shown);
    cgroup::read(out, pid);
    programs::read(out, pid);
    open_files::read(out, pid);
}

/// What of a snapshot is the process's own, and of its control groups. `shown_env`: variables whose values are no secret.
pub fn of_process(root: &Path, pid: u32, shown_env: &[String]) -> Vec<Setting> {
    let mut out = Collector::new(root);
    read_process(&mut out, pid, shown_env);
    out.finish()
}

/// The settings of one mount, as a snapshot has them; `source` is the table that it was read from.
pub fn of_mount(mount: &pagelab_residency::mounts::Mount, source: &str) -> Vec<Setting> {
    mounts::rows(mount, source).into()
}

/// The limits of the control groups of the process `pid`, each with the file that it stands in.
pub(crate) fn cgroup_rows(root: &Path, pid: u32) -> Vec<Setting> {
    let mut out = Collector::new(root);
    cgroup::read(&mut out, pid);
    out.finish()
}

/// The present value of one setting of the host below `root`. For keys of a process see [`read_of`].
pub fn read(root: &Path, key: &str) -> Result<String, SettingError> {
    read_of(root, key, None)
}

/// The present value of one setting of the host or of the process `pid`.
pub fn read_of(root: &Path, key: &str, pid: Option<u32>) -> Result<String, SettingError> {
    let info = known(key)?;
    if let Some(path) = info.path() {
        return read_file(root, &info, &path);
    }
    let namespace = info.key.split('.').next().unwrap_or_default().to_owned();
    let of_process =
        info.def.scope == Scope::Process || ["cgroup", "task", "program", "file"].contains(&namespace.as_str());
    if of_process && pid.is_none() {
        return Err(SettingError::NeedsProcess { key: info.key });
    }
    let mut out = Collector::new(root);
    match (namespace.as_str(), pid) {
        ("kernel", _) if info.key == "kernel.config" => boot::kconfig(&mut out),
        ("kernel", _) => boot::kernel(&mut out),
        ("cmdline", _) => boot::cmdline(&mut out),
        ("kconfig", _) => boot::kconfig(&mut out),
        ("cpu", _) => cpu::read(&mut out),
        ("irq", _) => irq::read(&mut out),
        ("mount", pid) => mounts::read(&mut out, pid),
        ("cgroup", Some(pid)) => cgroup::read(&mut out, pid),
        ("program", Some(pid)) => programs::read(&mut out, pid),
        ("file", Some(pid)) => open_files::read(&mut out, pid),
        (_, Some(pid)) if of_process => {
            let shown = BTreeSet::from([info.key.strip_prefix("env.").unwrap_or_default()]);
            target::read(&mut out, pid, &shown);
        }
        _ => memory::read(&mut out),
    }
    let found = out.finish().into_iter().find(|setting| setting.key == info.key);
    match found {
        Some(Setting { value: Some(value), .. }) => Ok(value),
        Some(Setting { source, reason, .. }) => {
            Err(SettingError::Unreadable { key: info.key, path: source, reason: reason.unwrap_or_default() })
        }
        None => {
            Err(SettingError::Unknown { found: "this host does not have it".to_owned(), nearest: None, key: info.key })
        }
    }
}

/// The description of a key that a namespace knows; whether this host has it is another question.
pub fn known(key: &str) -> Result<SettingInfo, SettingError> {
    vocab::setting(key).ok_or_else(|| SettingError::Unknown {
        key: key.to_owned(),
        found: "no namespace has it".to_owned(),
        nearest: vocab::nearest(key),
    })
}

/// Keys that the user allows although the vocabulary does not describe them.
static ALLOWED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Allows [`check`], and so the guard, to set these keys although no more than a catch-all of the vocabulary takes them
/// (`sysctl.vm.<path>`). For the user's own word (`--allow-setting`), which a plan cannot give. Holds for this process.
///
/// # Errors
/// A key that no namespace has.
pub fn allow<'a>(keys: impl IntoIterator<Item = &'a str>) -> Result<(), SettingError> {
    for key in keys {
        let key = known(key)?.key;
        ALLOWED.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }
    Ok(())
}

fn is_allowed(key: &str) -> bool {
    ALLOWED.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
}

/// Checks that a plan may set `key` to `value` on the host below `root`: the key is known, this kernel has it, it may
/// be written, and where the kernel lists the choices the value is one of them. Names the component that makes the
/// change.
pub fn check(root: &Path, key: &str, value: &str) -> Result<SettingInfo, SettingError> {
    let info = known(key)?;
    match info.def.scope {
        Scope::ReadOnly => {
            // A catch-all takes misspelt keys too; for those the error suggests the probable key.
            let path = info.path().filter(|path| info.def.catch_all && !under(root, path).exists());
            if let Some(path) = path {
                return Err(unreadable(root, &info, &path, &io::ErrorKind::NotFound.into()));
            }
            Err(SettingError::ReadOnly { key: info.key, why: info.def.help.to_owned() })
        }
        Scope::Boot => Err(SettingError::AtBoot { key: info.key }),
        Scope::Process => {
            crate::process::ProcessSettings::from_pairs([(info.key.as_str(), value)])?;
            Ok(info)
        }
        Scope::Host => {
            let Some(path) = info.path() else {
                return Err(SettingError::ReadOnly { key: info.key, why: info.def.help.to_owned() });
            };
            let present = match place::text(root, &path) {
                Ok(present) => present,
                Err(error) => return Err(unreadable(root, &info, &path, &error)),
            };
            if info.def.catch_all && !is_allowed(&info.key) {
                return Err(SettingError::NotAllowed { key: info.key });
            }
            check_choice(&info, &present, value)?;
            Ok(info)
        }
    }
}

fn check_choice(info: &SettingInfo, present: &str, value: &str) -> Result<(), SettingError> {
    let refuse = |needed: String| Err(SettingError::Value { key: info.key.clone(), value: value.to_owned(), needed });
    if value.contains(['\n', '\0']) {
        return refuse("one line of text".to_owned());
    }
    if info.def.form == Form::Choice && present.contains('[') {
        let choices: Vec<&str> = present.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
        if !choices.contains(&value.trim()) {
            return refuse(format!("one of {}", choices.join(", ")));
        }
    }
    if info.def.form == Form::Pool && value.trim().parse::<u64>().is_err() {
        return refuse("a number of pages".to_owned());
    }
    Ok(())
}

/// What a plan's settings are split into: those that the guard writes and those that the started process gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// For [`crate::guard::Guard::set`], in the order of the keys.
    pub host: BTreeMap<String, String>,
    /// For [`crate::process::ProcessSettings::from_pairs`].
    pub process: BTreeMap<String, String>,
}

/// Checks settings of a plan ([`check`]) and splits them by the component that applies them; keys get their canonical
/// spelling.
pub fn split<'a>(root: &Path, settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Split, SettingError> {
    let mut out = Split::default();
    for (key, value) in settings {
        let info = check(root, key, value)?;
        let side = if info.def.scope == Scope::Process { &mut out.process } else { &mut out.host };
        side.insert(info.key, value.to_owned());
    }
    Ok(out)
}

/// Reads and shapes the one file of a setting.
pub(crate) fn read_file(root: &Path, info: &SettingInfo, path: &str) -> Result<String, SettingError> {
    let raw = place::text(root, path).map_err(|error| unreadable(root, info, path, &error))?;
    Ok(shape(root, info.def.form, path, &raw))
}

/// The error of a file that could not be read: not there (with the neighbour probably meant), or barred.
fn unreadable(root: &Path, info: &SettingInfo, path: &str, error: &io::Error) -> SettingError {
    let missing = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    if !missing {
        return SettingError::Unreadable { key: info.key.clone(), path: path.to_owned(), reason: plain(error) };
    }
    let sizes = sizes_beside(root, path).map(|sizes| format!(", only {sizes}")).unwrap_or_default();
    SettingError::Unknown {
        key: info.key.clone(),
        found: format!("this host has no {path}{sizes}"),
        nearest: neighbour(root, info, path),
    }
}

/// The huge page sizes that there are, if the size is what a path has wrong.
fn sizes_beside(root: &Path, path: &str) -> Option<String> {
    let (folder, rest) = path.split_once("/hugepages-")?;
    let size = rest.split('/').next()?;
    if under(root, &format!("{folder}/hugepages-{size}")).is_dir() {
        return None;
    }
    let sizes = names(&under(root, folder)).into_iter();
    let sizes = sizes.filter_map(|name| vocab::parse_size(name.strip_prefix("hugepages-")?));
    let sizes: Vec<String> = sizes.map(vocab::format_size).collect();
    (!sizes.is_empty()).then(|| sizes.join(", "))
}

/// The key whose name is nearest, among files and folders next to a missing one.
fn neighbour(root: &Path, info: &SettingInfo, path: &str) -> Option<String> {
    let mut known = Path::new(path);
    // The part that is wrong is the first one that does not exist (`sda` of /sys/block/sda/queue/scheduler).
    let mut wrong = known.file_name()?.to_str()?;
    loop {
        known = known.parent()?;
        if under(root, known.to_str()?).is_dir() {
            break;
        }
        wrong = known.file_name()?.to_str()?;
    }
    let present = names(&under(root, known.to_str()?));
    let meant = pagelab_vocab::nearest::nearest(wrong, present.iter().map(String::as_str))?;
    let dotted = wrong.replace('.', "/");
    let near = info.key.replacen(&dotted, &meant.replace('.', "/"), 1);
    let other = |key: &String| *key != info.key && vocab::setting(key).is_some();
    Some(near).filter(other).or_else(|| vocab::nearest(&info.key).filter(other))
}

/// The value that the text of a source stands for.
fn shape(root: &Path, form: Form, path: &str, raw: &str) -> String {
    match form {
        Form::Text => tidy(raw),
        Form::Choice => chosen(raw),
        Form::Pool => pool(root, path, raw),
    }
}

/// A pool without its surplus pages: see [`Form::Pool`]. The two numbers come from two files, and surplus pages come and go while
/// programs use the pool: what counts is a difference that is found several times in a row with a surplus that did not move.
fn pool(root: &Path, path: &str, raw: &str) -> String {
    let number = |path: &str| -> Option<u64> { text(&under(root, path)).ok()?.trim().parse().ok() };
    let beside = path.rsplit_once('/').map(|(folder, _)| format!("{folder}/surplus_hugepages"));
    let Some(mut surplus) = beside.as_deref().and_then(number) else { return tidy(raw) };
    let mut found: Option<(u64, u32)> = None;
    for _ in 0..MOST_LOOKS {
        let (total, after) = (number(path), beside.as_deref().and_then(number));
        let (Some(total), Some(after)) = (total, after) else { return tidy(raw) };
        found = match found {
            _ if after != surplus => None,
            Some((pages, times)) if pages == total.saturating_sub(after) => Some((pages, times + 1)),
            _ => Some((total.saturating_sub(after), 1)),
        };
        surplus = after;
        if let Some((pages, _)) = found.filter(|(_, times)| *times >= STEADY_LOOKS) {
            return pages.to_string();
        }
    }
    found.map_or_else(|| tidy(raw), |(pages, _)| pages.to_string())
}

/// How often a pool is looked at until its numbers belong together. A look takes microseconds.
const MOST_LOOKS: u32 = 1000;
/// How often the same has to be found. Once is not enough: pages may come and go again between two reads of the surplus, and the
/// total read between those two counts them.
const STEADY_LOOKS: u32 = 3;

/// The reason of an I/O error without the number that Rust appends.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// 16 bits of a hash, written `masked:3fa2`: two values that differ show it in all but one of 65,536 cases, and of all
/// texts one in 65,536 fits, so that the value cannot be found by trying words. The hash (FNV-1a, 64 bits, folded)
/// need not resist attack, because so few bits of it are shown.
pub fn mask(value: &[u8]) -> String {
    let hash = value
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let folded = hash ^ (hash >> 32);
    let folded = (folded ^ (folded >> 16)) & 0xffff;
    format!("masked:{folded:04x}")
}

/// Gathers the rows of a snapshot.
pub(crate) struct Collector<'a> {
    pub(crate) root: &'a Path,
    rows: Vec<Setting>,
}

impl<'a> Collector<'a> {
    fn new(root: &'a Path) -> Self {
        Collector { root, rows: Vec::with_capacity(6144) }
    }

    /// A value that was found.
    pub(crate) fn value(&mut self, key: impl Into<String>, value: impl Into<String>, source: &str) {
        let (key, value) = (key.into(), Some(value.into()));
        self.rows.push(Setting { key, value, source: source.to_owned(), reason: None });
    }

    /// A value that could not be had.
    pub(crate) fn missing(&mut self, key: impl Into<String>, source: &str, reason: impl Into<String>) {
        self.rows.push(Setting {
            key: key.into(),
            value: None,
            source: source.to_owned(),
            reason: Some(reason.into()),
        });
    }

    /// The value in a file; a file that is not there makes no row.
    pub(crate) fn file(&mut self, key: impl Into<String>, path: &str, form: Form) {
        match text(&under(self.root, path)) {
            Ok(raw) => {
                let value = shape(self.root, form, path, &raw);
                self.value(key, value, path);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => self.missing(key, path, plain(&error)),
        }
    }

    /// The value of a key whose definition says where and how it is read.
    pub(crate) fn declared(&mut self, key: &str) {
        let Some(info) = vocab::setting(key) else { return };
        let Some(path) = info.path() else { return };
        if info.def.reading == Reading::Plain {
            self.file(info.key, &path, info.def.form);
        }
    }

    /// Rows sorted by key; the last one wins where a key came twice.
    fn finish(mut self) -> Vec<Setting> {
        self.rows.reverse();
        self.rows.sort_by(|a, b| a.key.cmp(&b.key));
        self.rows.dedup_by(|later, kept| later.key == kept.key);
        self.rows
    }
}

#[cfg(test)]
mod tests;
