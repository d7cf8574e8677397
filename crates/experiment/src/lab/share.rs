//! The folders that host and guests share, next to the set.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pagelab_output::{Folder, Lock, Sync, read_plain};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::runner::{RunError, RunErrorKind};

/// Requests and answers have some kilobytes; a guest may write anything.
const LARGEST: u64 = 64 << 20;

/// A folder next to the set, so that recordings are moved into it and not copied. Removed with this value; leftovers of
/// a killed pagelab are removed by the next one.
#[derive(Debug)]
pub(super) struct Share {
    dir: PathBuf,
    /// Held while this process uses the folder.
    _lock: Lock,
}

fn broken(path: &Path) -> impl FnOnce(std::io::Error) -> RunError + '_ {
    move |error| RunError::new(RunErrorKind::Host, format!("{}: {error}", path.display()))
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn refused(error: pagelab_output::Error) -> RunError {
    RunError::new(RunErrorKind::Host, error.to_string())
}

impl Share {
    /// Makes the folder for a set.
    pub(super) fn beside(set: &Path) -> Result<Self, RunError> {
        let name = set.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let dir = set.with_file_name(format!(".{name}.lab"));
        Folder::create(&dir).map_err(refused)?;
        let Ok(lock) = Lock::try_take(File::open(&dir).map_err(broken(&dir))?) else {
            let reason = format!(
                "{}: another pagelab is working on this set; needed: one at a time; wait for it, or use another \
                 directory with -o DIR",
                set.display()
            );
            return Err(RunError::new(RunErrorKind::Host, reason));
        };
        for entry in fs::read_dir(&dir).map_err(broken(&dir))?.flatten() {
            fs::remove_dir_all(entry.path()).map_err(broken(&dir))?;
        }
        Ok(Self { dir, _lock: lock })
    }

    /// An empty folder for the next guest.
    pub(super) fn next(&self, number: usize) -> Result<PathBuf, RunError> {
        let dir = self.dir.join(number.to_string());
        Folder::create_new(&dir).map_err(refused)?;
        Ok(dir)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // It holds nothing that anybody needs; the next pagelab removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Writes a document so that a reader meets it whole or not at all.
pub(super) fn write(path: &Path, document: &impl Serialize) -> Result<(), RunError> {
    let bytes = serde_json::to_vec(document).map_err(|error| broken(path)(error.into()))?;
    let (folder, name) = Folder::parent_of(path).map_err(refused)?;
    folder.write_atomic(&name, &bytes, Sync::No).map_err(refused)
}

/// Reads a document.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, RunError> {
    let bytes = read_plain(path, LARGEST).map_err(refused)?;
    serde_json::from_slice(&bytes).map_err(|error| broken(path)(error.into()))
}

/// Copies a recording, for its owner alone as it was. It holds folders and plain files; what a program put among them is
/// not followed and not waited for.
///
/// # Errors
/// It cannot be read or written, or holds something else.
pub(super) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            let mut plain = pagelab_output::open_plain(&entry.path()).map_err(std::io::Error::other)?;
            let mut copied = File::options().write(true).create_new(true).mode(0o600).open(&target)?;
            std::io::copy(&mut plain, &mut copied)?;
        }
    }
    fs::set_permissions(to, fs::Permissions::from_mode(0o700))
}
