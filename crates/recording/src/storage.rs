//! The one door to the file system for everything that is written.
//!
//! Crash tests put another implementation here that fails the n-th operation; see `tests/crash.rs`.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// A file being written.
pub trait StorageFile: Write + Send {
    /// Forces the content to the device (`--durable` only).
    fn sync(&mut self) -> io::Result<()>;
}

/// What the writer does to the file system; each call may fail.
pub trait Storage: Debug + Send + Sync {
    /// Makes one directory, mode 0700; its parent exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes an empty file, mode 0600, or empties an existing one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;
    /// Renames a file, replacing one of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Forces a directory's entries to the device (`--durable` only).
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// The real file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileStorage;

impl StorageFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

impl Storage for FileStorage {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Ending of names that are not yet, or no longer, part of a recording.
pub(crate) const TMP_SUFFIX: &str = ".tmp";

/// Writes a small file so that it is either the old or the new one at every instant.
pub(crate) fn write_atomically(storage: &dyn Storage, path: &Path, content: &[u8], durable: bool) -> io::Result<()> {
    let mut tmp = path.as_os_str().to_owned();
    tmp.push(TMP_SUFFIX);
    let tmp = Path::new(&tmp);
    let written = write_file(storage, tmp, content, durable).and_then(|()| storage.rename(tmp, path));
    if written.is_err() {
        // A half-written temporary file is ignored by readers; it is removed to give its space back.
        let _ = storage.remove_file(tmp);
        return written;
    }
    match (durable, path.parent()) {
        (true, Some(dir)) => storage.sync_dir(dir),
        _ => Ok(()),
    }
}

fn write_file(storage: &dyn Storage, path: &Path, content: &[u8], durable: bool) -> io::Result<()> {
    let mut file = storage.create(path)?;
    file.write_all(content)?;
    if durable {
        file.sync()?;
    }
    Ok(())
}
