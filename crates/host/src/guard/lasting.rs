//! Locks for a change that is meant to last: it is not journalled and not undone, but it may not cross a guard's.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::journal;
use super::leftovers::settle;
use super::locks::KeyLock;
use super::{Door, GuardError, companions, state_error};
use crate::settings;

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
        DirBuilder::new().recursive(true).mode(0o700).create(state_dir).map_err(|e| state_error(state_dir, &e))?;
        let info = settings::known(key)?;
        let mut keys = vec![info.key.clone()];
        keys.extend(companions(root, &info));
        let mut hold = Hold { locks: Vec::new() };
        for key in &keys {
            hold.locks.push(KeyLock::take(state_dir, key)?);
        }
        let report = settle(state_dir, door, &keys, None);
        if !report.is_clean() {
            tracing::warn!("{report}");
        }
        // What is still written down there would be "put back" some day, over the change that is to last.
        for path in journal::list(state_dir) {
            if journal::read(&path).is_ok_and(|contents| contents.concerns(&keys)) {
                let holder = format!("a dead one, by its journal {}; type: pagelab restore", path.display());
                return Err(GuardError::Held { key: info.key, holder });
            }
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
