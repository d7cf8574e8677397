//! Locks for a change that is meant to last: it is not journalled and not undone, but it may not cross a guard's.

use std::path::Path;

use super::leftovers::settle;
use super::locks::KeyLock;
use super::state::{self, Folder};
use super::{Door, GuardError, companions, journal, state_error};
use crate::{facts, settings};

/// The locks of a setting and of its companions, held until the value is dropped.
pub(crate) struct Hold {
    locks: Vec<KeyLock>,
}

impl Hold {
    /// Takes the locks, and settles what dead guards left changed under them.
    ///
    /// # Errors
    /// A running pagelab has changed one of the settings and will put it back, a dead one's change could not be undone,
    /// or the state folder cannot be written.
    pub(crate) fn take(root: &Path, state_dir: &Path, door: &mut dyn Door, key: &str) -> Result<Self, GuardError> {
        Folder::make(state_dir, 0o700).map_err(|e| state_error(state_dir, &e))?;
        // In a container the host's guards cannot be seen; a change that is to last is not undone over theirs.
        let registry = match state::lock_folder(root, state_dir) {
            Err(GuardError::Contained) => state_dir.to_owned(),
            other => other?,
        };
        let info = settings::known(key)?;
        let mut keys = vec![info.key.clone()];
        keys.extend(companions(root, &info));
        let mut hold = Hold { locks: Vec::new() };
        for key in &keys {
            hold.locks.push(KeyLock::take(&registry, key)?);
        }
        let taken: Vec<(&str, &KeyLock)> = keys.iter().map(String::as_str).zip(&hold.locks).collect();
        let report = settle(root, &[state_dir, &registry], door, &taken, None);
        if !report.is_clean() {
            tracing::warn!("{report}");
        }
        // What is still written down there would be "put back" some day, over the change that is to last.
        for folder in [state_dir, &registry] {
            let paths = journal::list(folder).map_err(|e| state_error(folder, &e))?;
            if let Some(path) =
                paths.iter().find(|path| journal::read(path).is_ok_and(|contents| contents.concerns(&keys)))
            {
                let holder = format!("a dead one, by its journal {}; type: pagelab restore", path.display());
                return Err(GuardError::Held { key: info.key, holder });
            }
        }
        let boot = facts::boot_id(root);
        for (lock, key) in hold.locks.iter_mut().zip(&keys) {
            lock.sign(key, boot.clone(), None).map_err(|e| state_error(&registry, &e))?;
        }
        Ok(hold)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        for lock in self.locks.drain(..) {
            lock.release();
        }
    }
}
