//! One lock for each setting: a file in the registry, held by flock, that names its holder, the setting's previous
//! value, and the place of the journal.
//!
//! The file outlives its holder. Whoever finds one that nobody holds knows of a dead pagelab, also if that one's state
//! folder cannot be reached from here, and can put back the value that the setting had first.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::leftovers::is_dead;
use super::state::Folder;
use super::undo::Change;
use super::{GuardError, journal, state_error};
use pagelab_vocab::units::hexadecimal;

const PREFIX: &str = "lock-";
/// A lock's file is a line of JSON; more than this is none of ours.
const LONGEST: u64 = 256 << 10;
/// How long to wait for a lock whose holder is dead: its helper, or another pagelab, is undoing its changes.
const UNDONE: Duration = Duration::from_secs(2);

/// What the file of a lock says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) pid: u32,
    pub(super) command: String,
    pub(super) key: String,
    #[serde(default)]
    pub(super) boot_id: Option<String>,
    /// The journal that says more.
    #[serde(default)]
    pub(super) journal: Option<PathBuf>,
    /// The value that the setting had when the lock was taken; `None` before anything was changed.
    #[serde(default)]
    pub(super) first: Option<String>,
    /// Its bytes in hex digits, where they are not that value and a newline.
    #[serde(default)]
    pub(super) first_bytes: Option<String>,
    /// The value that the holder gave it last; `None` if it died before it could say.
    #[serde(default)]
    pub(super) last: Option<String>,
}

impl Claim {
    /// The claim as a change to undo.
    pub(super) fn change(&self, seq: u64) -> Option<Change> {
        Some(Change {
            seq,
            key: self.key.clone(),
            previous: self.first.clone()?,
            bytes: self.first_bytes.as_deref().and_then(journal::unhex),
            requested: self.last.clone().unwrap_or_default(),
            got: self.last.clone(),
            companions: Vec::new(),
            undoing: None,
            settled: false,
        })
    }
}

/// The held lock of one setting.
pub(super) struct KeyLock {
    file: File,
    folder: Folder,
    name: String,
    /// The claim left by its last holder, who is dead.
    pub(super) left: Option<Claim>,
    claim: Option<Claim>,
}

impl KeyLock {
    /// Takes the lock of `key` in this folder, or names its holder.
    pub(super) fn take(registry: &Path, key: &str) -> Result<Self, GuardError> {
        let name = file_name(key);
        let deadline = Instant::now() + UNDONE;
        loop {
            let folder = Folder::open(registry).map_err(|error| state_error(registry, &error))?;
            let path = folder.path_of(&name);
            let mut file = folder.file_or_new(&name).map_err(|error| state_error(&path, &error))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let claim = read(&mut file);
                    let dead = claim.as_ref().and_then(|claim| i32::try_from(claim.pid).ok()).is_some_and(is_dead);
                    if dead && Instant::now() < deadline {
                        std::thread::sleep(Duration::from_millis(2));
                        continue;
                    }
                    return Err(GuardError::Held { key: key.to_owned(), holder: holder(claim) });
                }
                Err(error) => return Err(state_error(&path, &error.into())),
            }
            // The previous holder removes the file before it unlocks: the lock counts only on the file of that name.
            if is_at(&file, &path) {
                let left = read(&mut file).filter(|claim| claim.first.is_some());
                return Ok(KeyLock { file, folder, name, left, claim: None });
            }
        }
    }

    /// Writes down the holder. A dead holder's claim is overwritten, so it has to be settled before.
    pub(super) fn sign(&mut self, key: &str, boot_id: Option<String>, journal: Option<&Path>) -> io::Result<()> {
        self.left = None;
        self.claim = Some(Claim {
            pid: std::process::id(),
            command: journal::command(),
            key: key.to_owned(),
            boot_id,
            journal: journal.map(Path::to_owned),
            first: None,
            first_bytes: None,
            last: None,
        });
        self.write()
    }

    /// Writes down what the setting was when it was changed first; a later change does not count.
    pub(super) fn found(&mut self, value: &str, bytes: Option<&[u8]>) -> io::Result<()> {
        let Some(claim) = &mut self.claim else { return Ok(()) };
        claim.last = None;
        if claim.first.is_none() {
            claim.first = Some(value.to_owned());
            claim.first_bytes = bytes.map(hexadecimal);
        }
        self.write()
    }

    /// The setting's first value as written down: the value, and its bytes if they say more.
    pub(super) fn first(&self) -> Option<(String, Option<Vec<u8>>)> {
        let claim = self.claim.as_ref()?;
        Some((claim.first.clone()?, claim.first_bytes.as_deref().and_then(journal::unhex)))
    }

    /// Whether this is the lock of that setting.
    pub(super) fn is_of(&self, key: &str) -> bool {
        self.name == file_name(key)
    }

    /// Writes down what the setting is now.
    pub(super) fn left_at(&mut self, value: Option<&str>) -> io::Result<()> {
        let Some(claim) = &mut self.claim else { return Ok(()) };
        claim.last = value.map(str::to_owned);
        self.write()
    }

    /// One write of one line, so that a kill leaves the old text or the new one; what is behind the line means nothing.
    fn write(&self) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.claim)?;
        text.push(b'\n');
        self.file.write_all_at(&text, 0)?;
        self.file.set_len(text.len() as u64)
    }

    /// Removes the file and lets go.
    pub(super) fn release(self) {
        let _ = self.folder.remove(&self.name);
    }
}

impl Drop for KeyLock {
    /// A child between fork and exec may share the descriptor; unlocking does not wait for it, closing does.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// The locks that nobody holds, taken: those of dead guards.
pub(super) fn dead(registry: &Path) -> Vec<KeyLock> {
    let Ok(folder) = Folder::open(registry) else { return Vec::new() };
    let mut locks = Vec::new();
    for name in folder.names().into_iter().filter(|name| name.starts_with(PREFIX)) {
        let (Ok(mut file), Ok(folder)) = (folder.file(&name, true), Folder::open(registry)) else { continue };
        let free = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if free && is_at(&file, &folder.path_of(&name)) {
            let left = read(&mut file).filter(|claim| claim.first.is_some());
            locks.push(KeyLock { file, folder, name, left, claim: None });
        }
    }
    locks
}

/// The journals that locks of this folder name, whoever holds them.
pub(super) fn journals(registry: &Path) -> Vec<PathBuf> {
    let Ok(folder) = Folder::open(registry) else { return Vec::new() };
    let names = folder.names().into_iter().filter(|name| name.starts_with(PREFIX));
    let mut paths: Vec<PathBuf> =
        names.filter_map(|name| read(&mut folder.file(&name, false).ok()?)?.journal).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(held), Ok(named)) => held.ino() == named.ino() && held.dev() == named.dev(),
        _ => false,
    }
}

/// The claim in a lock's file; `None` if it has none, or only an incomplete one.
fn read(file: &mut File) -> Option<Claim> {
    let mut text = String::new();
    file.rewind().and_then(|()| file.take(LONGEST).read_to_string(&mut text)).ok()?;
    serde_json::from_str(text.lines().next()?).ok()
}

fn holder(claim: Option<Claim>) -> String {
    match claim {
        Some(Claim { pid, command, .. }) => format!("pid {pid}: {command}"),
        None => "process unknown".to_owned(),
    }
}

/// `lock-KEY`, with everything but letters, digits, dots, dashes and underscores as `%` and two hex digits.
fn file_name(key: &str) -> String {
    let mut name = String::from(PREFIX);
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_') {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02x}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder_and_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let key = "sysctl.net.ipv4.conf.eth0/100.rp_filter";
        let mut lock = KeyLock::take(folder.path(), key).expect("free");
        lock.sign(key, None, None).expect("written");
        match KeyLock::take(folder.path(), key) {
            Err(GuardError::Held { key: held, holder }) => {
                assert_eq!(held, key);
                assert!(holder.contains(&std::process::id().to_string()), "{holder}");
            }
            other => panic!("taken twice: {}", other.is_ok()),
        }
        let beside = KeyLock::take(folder.path(), "thp.enabled").expect("another key is free");
        lock.release();
        let again = KeyLock::take(folder.path(), key).expect("free again");
        again.release();
        beside.release();
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn a_dead_holder_leaves_what_the_setting_was_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut lock = KeyLock::take(folder.path(), "thp.enabled").expect("free");
        lock.sign("thp.enabled", Some("boot".to_owned()), Some(Path::new("/gone/journal-1-0.jsonl"))).expect("written");
        assert!(KeyLock::take(folder.path(), "thp.enabled").is_err());
        lock.found("madvise", None).expect("written");
        lock.left_at(Some("never")).expect("written");
        lock.found("never", None).expect("written");
        lock.left_at(Some("always")).expect("written");
        // It dies: the file stays, and nobody holds it.
        drop(lock);
        assert_eq!(journals(folder.path()), [Path::new("/gone/journal-1-0.jsonl")]);
        let left = dead(folder.path()).pop().and_then(|lock| lock.left.clone()).expect("a claim");
        assert_eq!((left.first.as_deref(), left.last.as_deref()), (Some("madvise"), Some("always")));
        let again = KeyLock::take(folder.path(), "thp.enabled").expect("free");
        assert_eq!(again.left.as_ref(), Some(&left));
        // A torn text is no claim.
        again.file.set_len(20).expect("cut");
        drop(again);
        assert!(KeyLock::take(folder.path(), "thp.enabled").expect("free").left.is_none());
    }

    #[test]
    fn names_are_flat_and_distinct() {
        assert_eq!(file_name("thp.enabled"), "lock-thp.enabled");
        assert_eq!(file_name("a/b c"), "lock-a%2fb%20c");
        assert_ne!(file_name("a%2fb"), file_name("a/b"));
    }
}
