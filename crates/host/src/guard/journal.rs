//! The journal of one guard: JSON lines, the id of this boot first.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::undo::{Begun, Change, Companion};
use super::{Door, GuardError, state_error};
use crate::facts;

/// A line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum Record {
    /// The first line.
    Open(Header),
    /// A change is about to be made.
    Intent { seq: u64, key: String, previous: String, requested: String, companions: Vec<Value> },
    /// It was made, and this came of it.
    Applied { seq: u64, got: Option<String>, companions: Vec<Value> },
    /// It and these companions are about to be put back; those others have a value that somebody else gave them.
    Undoing {
        seq: u64,
        companions: Vec<String>,
        #[serde(default)]
        others: Vec<Value>,
    },
    /// It needs nothing more: put back, or left on purpose.
    Undone { seq: u64 },
}

/// Who wrote a journal, and in which boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: u32,
    pub(super) boot_id: Option<String>,
    pub(super) pid: u32,
    pub(super) root: PathBuf,
    pub(super) command: String,
}

/// A companion and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Value {
    pub(super) key: String,
    pub(super) value: Option<String>,
}

const FORMAT: u32 = 1;
const PREFIX: &str = "journal-";
/// How the name ends that a journal has until it has its first line.
const TEMPORARY: &str = ".tmp";

/// A journal that this process writes and holds the lock of.
pub(super) struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Makes the state folder if need be, and in it a journal with its first line.
    pub(super) fn create(state_dir: &Path, root: &Path) -> Result<Self, GuardError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        DirBuilder::new().recursive(true).mode(0o700).create(state_dir).map_err(|e| state_error(state_dir, &e))?;
        let header = Record::Open(Header {
            format: FORMAT,
            boot_id: facts::boot_id(root),
            pid: std::process::id(),
            root: root.to_owned(),
            command: command(),
        });
        loop {
            let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let path = state_dir.join(format!("{PREFIX}{name}.jsonl"));
            // A dead process may have had the same id; its journal is not to be touched here.
            if path.exists() {
                continue;
            }
            // Under its name a journal is always locked and has its first line: whoever finds one that is not locked
            // knows that its guard is dead.
            let temporary = state_dir.join(format!(".{name}{TEMPORARY}"));
            let mut file = OpenOptions::new()
                .append(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&temporary)
                .map_err(|e| state_error(&temporary, &e))?;
            let made = flock(&file, FlockOperation::NonBlockingLockExclusive)
                .map_err(io::Error::from)
                .and_then(|()| file.set_len(0))
                .and_then(|()| super::KernelDoor.append(&mut file, &line(&header)))
                .and_then(|()| std::fs::rename(&temporary, &path));
            if let Err(error) = made {
                let _ = std::fs::remove_file(&temporary);
                return Err(state_error(&path, &error));
            }
            return Ok(Journal { file, path });
        }
    }

    /// Takes over a journal that nobody holds; `None` if somebody does or it is gone.
    pub(super) fn take_over(path: &Path) -> io::Result<Option<Self>> {
        let file = match OpenOptions::new().read(true).append(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // Whoever held it may have finished and removed it between the two calls.
        Ok(path.exists().then(|| Journal { file, path: path.to_owned() }))
    }

    /// A journal without its lock, for a helper whose guard is known to be dead while something else still holds it.
    pub(super) fn open_unlocked(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).open(path)?;
        Ok(Journal { file, path: path.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn append(&mut self, door: &mut dyn Door, record: &Record) -> Result<(), GuardError> {
        door.append(&mut self.file, &line(record)).map_err(|error| state_error(&self.path, &error))
    }

    /// Lets go of the journal, and removes it if all of it is settled.
    pub(super) fn end(self, door: &mut dyn Door, settled: bool) {
        if settled && let Err(error) = door.remove(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
        // A child between fork and exec may share the descriptor; unlocking does not wait for it.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

fn line(record: &Record) -> Vec<u8> {
    // Strings, numbers and paths always have a JSON form, unless a path is no UTF-8; then the line says nothing, and
    // the journal is treated as one without a header.
    let mut line = serde_json::to_vec(record).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The command of this process, for messages.
fn command() -> String {
    let words: Vec<String> = std::env::args_os().take(6).map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// Journals in a state folder, oldest name first.
pub(super) fn list(state_dir: &Path) -> Vec<PathBuf> {
    let names = crate::files::names(state_dir).into_iter();
    names.filter(|name| name.starts_with(PREFIX)).map(|name| state_dir.join(name)).collect()
}

/// Removes journals that their authors did not live to give a name.
pub(super) fn sweep(state_dir: &Path) {
    let unnamed = |name: &String| {
        let author = name.strip_prefix('.').and_then(|rest| rest.strip_suffix(TEMPORARY)?.split('-').next());
        // A living one is about to lock it.
        author.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
    };
    for path in crate::files::names(state_dir).into_iter().filter(unnamed).map(|name| state_dir.join(name)) {
        let Ok(file) = File::open(&path) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// What a journal says.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) header: Option<Header>,
    /// Changes in the order in which they were made.
    pub(super) changes: Vec<Change>,
}

impl Contents {
    /// Whether an unsettled change concerns one of the keys.
    pub(super) fn concerns(&self, keys: &[String]) -> bool {
        self.changes.iter().filter(|change| !change.settled).any(|change| {
            keys.contains(&change.key) || change.companions.iter().any(|companion| keys.contains(&companion.key))
        })
    }
}

/// Reads a journal. A line that was being written when its author died is cut short; it is the last one, and what it
/// announced was not done yet.
pub(super) fn read(path: &Path) -> io::Result<Contents> {
    let mut text = String::new();
    File::open(path)?.take(64 << 20).read_to_string(&mut text)?;
    let mut contents = Contents::default();
    for line in text.lines() {
        let Ok(record) = serde_json::from_str::<Record>(line) else { continue };
        match record {
            Record::Open(header) => contents.header = Some(header),
            Record::Intent { seq, key, previous, requested, companions } => {
                let companions = companions.into_iter().map(Companion::found).collect();
                contents.changes.push(Change {
                    seq,
                    key,
                    previous,
                    requested,
                    got: None,
                    companions,
                    undoing: None,
                    settled: false,
                });
            }
            Record::Applied { seq, got, companions } => {
                if let Some(change) = contents.changes.iter_mut().find(|change| change.seq == seq) {
                    change.take_applied(got, companions);
                }
            }
            Record::Undoing { seq, companions, others } => {
                if let Some(change) = contents.changes.iter_mut().find(|change| change.seq == seq) {
                    change.undoing = Some(Begun { own: companions, others });
                }
            }
            Record::Undone { seq } => {
                for change in contents.changes.iter_mut().filter(|change| change.seq == seq) {
                    change.settled = true;
                }
            }
        }
    }
    Ok(contents)
}
