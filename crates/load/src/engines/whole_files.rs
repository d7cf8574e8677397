//! `ioengine=filecreate`, `filestat` and `filedelete`: one call for each file. Nothing is read or written.
//!
//! As in fio the call is what is timed, and not what opening and closing would add.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use pagelab_fiojob::words::StatType;
use pagelab_fiojob::{Caps, Operation, engines as language};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};

use super::{Engine, Setup, Synchronous};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;
use crate::safety::{Ownership, Unopened};

/// The call of an engine.
pub(crate) trait Act: Sized {
    /// The engine's capabilities.
    const CAPS: Caps;

    /// Looks at what the job says and whether the call may be made.
    ///
    /// # Errors
    /// It may not.
    fn new(setup: &Setup<'_>, path: &Path) -> Result<Self, LoadError>;

    /// Makes the call.
    ///
    /// # Errors
    /// The kernel's.
    fn act(&mut self, path: &Path) -> Result<(), Fault>;
}

/// An engine that makes one call for each file.
pub(crate) struct WholeFiles<A> {
    path: PathBuf,
    act: A,
}

impl<A: Act> Engine for WholeFiles<A> {
    const CAPS: Caps = A::CAPS;

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        let path =
            setup.path.ok_or_else(|| LoadError::Protocol(format!("job '{}': no file was planned", setup.job)))?;
        Ok(Self { path: path.to_path_buf(), act: A::new(setup, path)? })
    }

    fn explain(&self, fault: Fault, _: Operation) -> String {
        match fault {
            Fault::Errno(errno) => format!("{}: {}", self.path.display(), std::io::Error::from_raw_os_error(errno)),
            _ => format!("{}: {}", self.path.display(), crate::safety::REPLACED),
        }
    }
}

impl<A: Act> Synchronous for WholeFiles<A> {
    fn execute(&mut self, operation: Operation, _: &mut Buffer) -> Result<u32, Fault> {
        self.act.act(&self.path)?;
        Ok(operation.bytes)
    }
}

/// `ioengine=filecreate`: `open(2)` with `O_CREAT`.
pub(crate) struct Create {
    state_dir: PathBuf,
    path: PathBuf,
    /// The file that was made, until it is closed.
    made: Option<OwnedFd>,
}

impl Act for Create {
    const CAPS: Caps = language::FILECREATE.caps;

    fn new(setup: &Setup<'_>, path: &Path) -> Result<Self, LoadError> {
        Ok(Self { state_dir: setup.state_dir.to_path_buf(), path: path.to_path_buf(), made: None })
    }

    fn act(&mut self, path: &Path) -> Result<(), Fault> {
        self.close();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)) {
            Ok(fd) => self.made = Some(fd),
            // It is there, and may be somebody else's: it is opened, as fio does, and nothing else.
            Err(rustix::io::Errno::EXIST) => {
                drop(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl Create {
    /// Marks the file as pagelab's, which is no part of what is timed, and closes it.
    fn close(&mut self) {
        let Some(fd) = self.made.take() else { return };
        // A file without a mark stays, and is taken for somebody else's from then on.
        let _ = Ownership::new(&self.state_dir).adopt(fd.as_fd(), &self.path);
    }
}

impl Drop for Create {
    fn drop(&mut self) {
        self.close();
    }
}

/// `ioengine=filestat`: `stat(2)`, `lstat(2)` or `statx(2)`.
pub(crate) struct Stat(StatType);

impl Act for Stat {
    const CAPS: Caps = language::FILESTAT.caps;

    fn new(setup: &Setup<'_>, _: &Path) -> Result<Self, LoadError> {
        Ok(Self(setup.options.stat_type))
    }

    fn act(&mut self, path: &Path) -> Result<(), Fault> {
        match self.0 {
            StatType::Stat => _ = rustix::fs::stat(path)?,
            StatType::Lstat => _ = rustix::fs::lstat(path)?,
            StatType::Statx => {
                let real = std::fs::canonicalize(path)
                    .map_err(|error| Fault::Errno(error.raw_os_error().unwrap_or(libc::ENOENT)))?;
                let _ = rustix::fs::statx(CWD, real, AtFlags::empty(), StatxFlags::ALL)?;
            }
        }
        Ok(())
    }
}

/// `ioengine=filedelete`: `unlink(2)`, of files that may be written.
pub(crate) struct Delete;

impl Act for Delete {
    const CAPS: Caps = language::FILEDELETE.caps;

    fn new(setup: &Setup<'_>, path: &Path) -> Result<Self, LoadError> {
        let not_checked = || LoadError::Target {
            job: setup.job.to_owned(),
            reason: format!("{} was not checked before the start, and is not removed", path.display()),
        };
        let permit = setup.permit.ok_or_else(not_checked)?;
        // Opened by the permit: the file that is removed is the one that was checked.
        match permit.open(path, OFlags::RDONLY, &Ownership::new(setup.state_dir)) {
            Ok(_) => Ok(Self),
            // Nothing is there: that is what unlink(2) will say.
            Err(Unopened::Errno(rustix::io::Errno::NOENT)) => Ok(Self),
            Err(Unopened::Errno(error)) => Err(LoadError::system(format!("opening {}", path.display()), error)),
            Err(Unopened::Replaced) => {
                Err(LoadError::Refused { path: path.to_path_buf(), reason: crate::safety::REPLACED.to_owned() })
            }
        }
    }

    fn act(&mut self, path: &Path) -> Result<(), Fault> {
        Ok(rustix::fs::unlink(path)?)
    }
}
