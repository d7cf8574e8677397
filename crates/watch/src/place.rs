//! Where the recording lies while somebody looks on.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagelab_output::{Folder, Lock};
use tempfile::TempDir;

/// What a recording that is thrown away keeps.
const KEPT: Duration = Duration::from_mins(1);

/// What the names of folders that are thrown away begin with.
const PREFIX: &str = "pagelab-watch-";
/// The file in such a folder that is locked as long as its pagelab lives.
const LOCK: &str = "lock";

/// The directory of a recording.
#[derive(Debug)]
pub(crate) enum Place {
    /// The user's.
    Kept(PathBuf),
    /// Removed at the end.
    Thrown(Thrown),
}

/// A folder that goes with its pagelab.
#[derive(Debug)]
pub(crate) struct Thrown {
    /// Where in it the recording is made.
    dir: PathBuf,
    _folder: TempDir,
    /// Tells others that the folder is in use.
    _lock: Lock,
}

impl Place {
    /// The directory named, or a temporary one: in memory, where there is a place in memory, so that no disk is written to.
    pub(crate) fn new(named: Option<&PathBuf>) -> std::io::Result<Self> {
        if let Some(dir) = named {
            return Ok(Self::Kept(dir.clone()));
        }
        Self::thrown(Path::new("/dev/shm")).or_else(|_| Self::thrown(&std::env::temp_dir()))
    }

    /// A folder of its own. Those of pagelabs that were killed are removed first: they would fill the memory.
    fn thrown(parent: &Path) -> std::io::Result<Self> {
        remove_abandoned(parent);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let held = Folder::open_private(folder.path()).map_err(std::io::Error::other)?;
        // It appears under its name when it is locked.
        let lock = Lock::take(held.lock_file("lock.new").map_err(std::io::Error::other)?)?;
        held.rename("lock.new", LOCK).map_err(std::io::Error::other)?;
        Ok(Self::Thrown(Thrown { dir: folder.path().join("recording"), _folder: folder, _lock: lock }))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Kept(dir) => dir,
            Self::Thrown(thrown) => &thrown.dir,
        }
    }

    /// Streams to record. The rows of `tasks` and `mappings` are kept from the start and would grow without bound.
    pub(crate) fn streams(&self) -> &'static str {
        match self {
            Self::Kept(_) => "tasks,waits",
            Self::Thrown(_) => "waits",
        }
    }

    /// How much of the time before the end is kept.
    pub(crate) fn keep_last(&self) -> Option<Duration> {
        match self {
            Self::Kept(_) => None,
            Self::Thrown(_) => Some(KEPT),
        }
    }
}

/// Removes the folders of this user whose pagelab has ended without removing them. What cannot be looked at or removed stays: it may be
/// somebody else's.
fn remove_abandoned(parent: &Path) {
    let me = rustix::process::getuid().as_raw();
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())) {
        let is_mine = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == me);
        // Without the lock file it is being made right now, or of an older version: left alone.
        let is_abandoned = || File::open(entry.path().join(LOCK)).is_ok_and(|lock| Lock::try_take(lock).is_ok());
        if is_mine && is_abandoned() {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_pagelab_or_with_the_next_one() {
        let parent = tempfile::tempdir().expect("a folder");
        let folders = || std::fs::read_dir(parent.path()).expect("readable").count();
        let first = Place::thrown(parent.path()).expect("made");
        let second = Place::thrown(parent.path()).expect("made");
        assert_eq!(folders(), 2, "a folder in use stays");
        drop(second);
        assert_eq!(folders(), 1);
        // Of one that was killed the lock is gone, and the folder is not.
        let left = parent.path().join("pagelab-watch-killed");
        std::fs::create_dir_all(left.join("recording")).expect("made");
        std::fs::write(left.join(LOCK), "").expect("written");
        std::fs::create_dir(parent.path().join("pagelab-watch-older")).expect("made");
        let third = Place::thrown(parent.path()).expect("made");
        assert!(!left.exists() && third.path().parent().is_some_and(Path::exists));
        assert_eq!(folders(), 3, "the first's, the third's, and one without a lock");
        drop(first);
    }
}
