//! The one door to the file system for everything that is written.
//!
//! Tests put another implementation here: `tests/crash.rs` fails the n-th operation, `tests/power.rs` drops everything
//! that was not synced when the power goes.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pagelab_output::Folder;

use crate::error::{Error, Result};

/// A file being written.
pub trait StorageFile: Write + Send {
    /// Forces content and size to the device.
    fn sync(&mut self) -> io::Result<()>;
}

/// What the writer does to the file system; each call may fail.
pub trait Storage: Debug + Send + Sync {
    /// Makes one directory, mode 0700; its parent exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes an empty file, mode 0600, in place of an existing one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>>;
    /// Renames a file, replacing one of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Forces content and size of an existing file to the device.
    fn sync_file(&self, path: &Path) -> io::Result<()>;
    /// Forces a directory's entries to the device.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// The real file system, by paths that are resolved at each call.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileStorage;

impl StorageFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

impl Storage for FileStorage {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = Folder::parent_of(path)?;
        folder.create_folder(&name)?;
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let (folder, name) = Folder::parent_of(path)?;
        create_in(&folder, &name)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((folder, name), (to_folder, to_name)) = (Folder::parent_of(from)?, Folder::parent_of(to)?);
        Ok(folder.rename_into(&name, &to_folder, &to_name)?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = Folder::parent_of(path)?;
        Ok(folder.remove_file(&name)?)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = Folder::parent_of(path)?;
        Ok(folder.sync_file(&name)?)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Ok(Folder::open_any(path)?.sync()?)
    }
}

fn create_in(folder: &Folder, name: &OsStr) -> io::Result<Box<dyn StorageFile>> {
    let file = match folder.create_file(name) {
        // What a failed write left behind.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            folder.remove_file(name)?;
            folder.create_file(name)?
        }
        made => made?,
    };
    Ok(Box::new(file))
}

/// The folder of a new recording, held from its creation on: whatever others do to its path, what is written is in it.
#[derive(Debug)]
pub(crate) struct HeldStorage {
    root: PathBuf,
    parent: Folder,
    folder: Folder,
    below: Mutex<HashMap<OsString, Arc<Folder>>>,
}

impl HeldStorage {
    /// Makes the folder, or takes an existing empty one of ours.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        let (parent, folder) = match Folder::make_parent_of(dir) {
            Ok((parent, name)) => match parent.create_folder(&name) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => (parent, existing(dir)?),
                made => (parent, made?),
            },
            // `.` is there.
            Err(pagelab_output::Error::WrongType { .. }) if dir.is_dir() => {
                (Folder::open_any(&dir.join(".."))?, existing(dir)?)
            }
            // Something on the way is no directory: as the kernel says it.
            Err(pagelab_output::Error::WrongType { path, .. }) => {
                return Err(Error::io("create directory", &path)(io::Error::from_raw_os_error(libc::ENOTDIR)));
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { root: dir.to_owned(), parent, folder, below: Mutex::default() })
    }

    fn below(&self, name: &OsStr) -> io::Result<Arc<Folder>> {
        let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = below.get(name) {
            return Ok(folder.clone());
        }
        let folder = Arc::new(self.folder.folder(name)?);
        below.insert(name.to_owned(), folder.clone());
        Ok(folder)
    }

    /// Calls `then` with the held folder of a path in the recording, and its name in that.
    fn within<T>(&self, path: &Path, then: impl FnOnce(&Folder, &OsStr) -> io::Result<T>) -> io::Result<T> {
        let outside = || io::Error::new(ErrorKind::InvalidInput, "not a path in the recording");
        let mut names = path.strip_prefix(&self.root).map_err(|_| outside())?.iter();
        match (names.next(), names.next(), names.next()) {
            (Some(name), None, None) => then(&self.folder, name),
            (Some(table), Some(name), None) => then(self.below(table)?.as_ref(), name),
            _ => Err(outside()),
        }
    }
}

/// An existing folder for a new recording: empty, and ours.
fn existing(dir: &Path) -> Result<Folder> {
    if !dir.is_dir() {
        return Err(Error::OutputNotDirectory { path: dir.to_owned() });
    }
    let entries = Folder::open_any(dir)?.names()?.len();
    if entries > 0 {
        return Err(Error::OutputNotEmpty { dir: dir.to_owned(), entries });
    }
    Ok(Folder::open_private(dir)?)
}

impl Storage for HeldStorage {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.within(path, |folder, name| Ok(folder.create_folder(name).map(drop)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        self.within(path, create_in)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.within(from, |folder, from| self.within(to, |other, to| Ok(folder.rename_into(from, other, to)?)))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.within(path, |folder, name| Ok(folder.remove_file(name)?))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.within(path, |folder, name| Ok(folder.sync_file(name)?))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if path == self.root {
            // If it is no longer where the user will look for it, nothing was recorded.
            if !self.folder.is_at_its_path() {
                return Err(io::Error::new(ErrorKind::NotFound, "the directory was removed or replaced meanwhile"));
            }
            return Ok(self.folder.sync()?);
        }
        if path == parent_of(&self.root) {
            return Ok(self.parent.sync()?);
        }
        self.within(path, |_, table| Ok(self.below(table)?.sync()?))
    }
}

/// The directory that holds `dir`, as [`Storage::sync_dir`] is asked for it.
pub(crate) fn parent_of(dir: &Path) -> PathBuf {
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) => PathBuf::from("."),
        None => dir.to_owned(),
    }
}

/// Ending of names that are not yet, or no longer, part of a recording.
pub(crate) const TMP_SUFFIX: &str = ".tmp";

/// Writes a small file so that it is either the old or the new one at every instant; if `durable`, it is the new one after a
/// power cut as well.
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

/// Replaces a small document in the folder of a closed recording or a set, and forces it to the device.
pub(crate) fn replace_document(dir: &Path, name: &str, content: &[u8]) -> Result<()> {
    let folder = Folder::open_any(dir)?;
    folder.write_atomic(name, content, pagelab_output::Sync::Data)?;
    Ok(folder.sync()?)
}
