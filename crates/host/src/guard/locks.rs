//! One lock for each setting: a file in the state folder, held by flock, that says who holds it.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{GuardError, state_error};

const PREFIX: &str = "lock-";

/// The held lock of one setting.
pub(super) struct KeyLock {
    file: File,
    path: PathBuf,
}

impl KeyLock {
    /// Takes the lock of `key`, or says who has it.
    pub(super) fn take(state_dir: &Path, key: &str) -> Result<Self, GuardError> {
        let path = state_dir.join(file_name(key));
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
                .map_err(|error| state_error(&path, &error))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Err(GuardError::Held { key: key.to_owned(), holder: holder(&mut file) });
                }
                Err(error) => return Err(state_error(&path, &error.into())),
            }
            // The previous holder removes the file before it unlocks: the lock counts only on the file of that name.
            if is_at(&file, &path) {
                let lock = KeyLock { file, path };
                lock.sign();
                return Ok(lock);
            }
        }
    }

    /// Writes down who holds it; only messages depend on that.
    fn sign(&self) {
        let mut file = &self.file;
        let words: Vec<String> = std::env::args_os().take(6).map(|word| word.to_string_lossy().into_owned()).collect();
        let _ = file.set_len(0);
        let _ = write!(file, "pid {}: {}", std::process::id(), words.join(" "));
    }

    /// Removes the file and lets go.
    pub(super) fn release(self) {
        let _ = std::fs::remove_file(&self.path);
        // A child between fork and exec may share the descriptor; unlocking does not wait for it.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Removes the lock files of dead guards: those that nobody holds.
pub(super) fn sweep(state_dir: &Path) {
    for name in crate::files::names(state_dir).into_iter().filter(|name| name.starts_with(PREFIX)) {
        let path = state_dir.join(name);
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Removing the file of that name is right only if it is the one that is held here.
            let lock = KeyLock { file, path };
            if is_at(&lock.file, &lock.path) {
                lock.release();
            }
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(held), Ok(named)) => held.ino() == named.ino() && held.dev() == named.dev(),
        _ => false,
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(4096).read_to_string(&mut text).map(|_| ()));
    if read.is_err() || text.trim().is_empty() { "process unknown".to_owned() } else { text.trim().to_owned() }
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
        let lock = KeyLock::take(folder.path(), key).expect("free");
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
    fn names_are_flat_and_distinct() {
        assert_eq!(file_name("thp.enabled"), "lock-thp.enabled");
        assert_eq!(file_name("a/b c"), "lock-a%2fb%20c");
        assert_ne!(file_name("a%2fb"), file_name("a/b"));
    }
}
