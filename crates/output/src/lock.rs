//! Locks on files, which end with the value that holds them.

use std::fs::{File, TryLockError};
use std::io;

/// An exclusive lock (flock) on an open file or folder, for as long as this value lives.
///
/// The kernel's lock belongs to the opening of the file, not to the descriptor. A child that another thread has forked and that has
/// not executed its program yet has the same opening: were the file only closed here, the lock would last until the child executes,
/// and whoever takes it next would be refused for a moment. So the file is unlocked before it is closed. For the same reason this is
/// no lock to leave to a child on purpose.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes the lock if nobody has it.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if somebody has it.
    pub fn try_take(file: File) -> Result<Self, TryLockError> {
        file.try_lock()?;
        Ok(Self(file))
    }

    /// Takes the lock, and waits until it is free.
    ///
    /// # Errors
    /// The file system knows no locks, or a signal came.
    pub fn take(file: File) -> io::Result<Self> {
        file.lock()?;
        Ok(Self(file))
    }

    /// The file, to read and write.
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A lock that is held can be given up; closing is what follows in any case.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_has_the_file_open_does_not_keep_the_lock() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let open = || File::open(file.path()).expect("it is there");
        let lock = Lock::try_take(open()).expect("free");
        let of_child = lock.file().try_clone().expect("a descriptor of the same opening, as a fork makes one");
        assert!(matches!(Lock::try_take(open()), Err(TryLockError::WouldBlock)));
        drop(lock);
        drop(Lock::try_take(open()).expect("free again"));
        drop(Lock::take(open()).expect("free again"));
        drop(of_child);
    }

    #[test]
    fn folders_are_locked_as_files_are() {
        let dir = tempfile::tempdir().expect("a folder");
        let open = || File::open(dir.path()).expect("it is there");
        let lock = Lock::take(open()).expect("free");
        assert!(matches!(Lock::try_take(open()), Err(TryLockError::WouldBlock)));
        drop(lock);
        assert!(Lock::try_take(open()).is_ok());
    }
}
