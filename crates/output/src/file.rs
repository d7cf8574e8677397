//! A file that gets its name when it is whole.

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, fdatasync, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::Sync;
use crate::error::{Error, Result};
use crate::owner::FILE_MODE;

/// Names tried before giving up; a second one is needed about never.
const MOST_NAMES: u32 = 100;

/// A new file of mode 0600 under a random name; [`NewFile::commit`] gives it its own. Dropped, it is removed.
#[derive(Debug)]
pub struct NewFile {
    folder: OwnedFd,
    file: File,
    temporary: OsString,
    name: OsString,
    path: PathBuf,
    committed: bool,
}

impl NewFile {
    pub(crate) fn begin(folder: OwnedFd, name: OsString, path: PathBuf) -> Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..MOST_NAMES {
            // Keys of the hasher come from the kernel's random numbers: nobody can sit on the name.
            let temporary = OsString::from(format!(".{:016x}.tmp", RandomState::new().build_hasher().finish()));
            match openat(&folder, &temporary, flags, Mode::from_raw_mode(FILE_MODE)) {
                Ok(fd) => {
                    return Ok(Self { folder, file: File::from(fd), temporary, name, path, committed: false });
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(Error::io("create", path)(error)),
            }
        }
        Err(Error::io("create", path)(Errno::EXIST))
    }

    /// The path that it will have; for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, under the name that it has until it is committed.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Appends bytes; the error names the path.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(Error::io("write", &self.path))
    }

    /// Gives it its name, replacing a file or link of that name.
    pub fn commit(mut self, sync: Sync) -> Result<()> {
        self.settle(sync)?;
        let renamed = renameat(&self.folder, &self.temporary, &self.folder, &self.name);
        renamed.map_err(Error::io("write", &self.path))?;
        self.committed = true;
        Ok(())
    }

    /// Gives it its name; [`io::ErrorKind::AlreadyExists`] if anything has it.
    pub fn commit_new(mut self, sync: Sync) -> Result<()> {
        self.settle(sync)?;
        let renamed = renameat_with(&self.folder, &self.temporary, &self.folder, &self.name, RenameFlags::NOREPLACE);
        renamed.map_err(Error::io("create", &self.path))?;
        self.committed = true;
        Ok(())
    }

    fn settle(&mut self, sync: Sync) -> Result<()> {
        match sync {
            Sync::No => Ok(()),
            Sync::Data => fdatasync(&self.file).map_err(Error::io("sync", &self.path)),
        }
    }

    /// The open file, for uses that need more than [`Write`].
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.committed {
            // What cannot be removed is a hidden file that ends in .tmp; there is nobody to tell.
            let _ = unlinkat(&self.folder, &self.temporary, AtFlags::empty());
        }
    }
}
