//! Where the recording lies while somebody looks on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

/// What a recording that is thrown away keeps.
const KEPT: Duration = Duration::from_mins(1);

/// The directory of a recording.
#[derive(Debug)]
pub(crate) enum Place {
    /// The user's.
    Kept(PathBuf),
    /// Removed at the end.
    Thrown(TempDir),
}

impl Place {
    /// The directory named, or a temporary one: in memory, where there is a place in memory, so that no disk is written to.
    pub(crate) fn new(named: Option<&PathBuf>) -> std::io::Result<Self> {
        if let Some(dir) = named {
            return Ok(Self::Kept(dir.clone()));
        }
        let temporary = |folder: &Path| tempfile::Builder::new().prefix("pagelab-watch-").tempdir_in(folder);
        temporary(Path::new("/dev/shm")).or_else(|_| temporary(&std::env::temp_dir())).map(Self::Thrown)
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Kept(dir) => dir,
            Self::Thrown(dir) => dir.path(),
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
