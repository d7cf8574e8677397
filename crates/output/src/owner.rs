//! The user of this process, the user who called it, and which of the two owns a file or folder.

use std::path::Path;

use rustix::fs::{FileType, Stat};

use crate::error::{Error, Result};

/// Permission bits of a new folder and a new file.
pub(crate) const FOLDER_MODE: u32 = 0o700;
pub(crate) const FILE_MODE: u32 = 0o600;
/// Bits that let group or others write.
const OTHERS_WRITE: u32 = 0o022;

/// The users that count as "we".
#[derive(Debug, Clone, Copy)]
pub(crate) struct Us {
    pub(crate) uid: u32,
    /// Who called `sudo`, if this is root. Nobody else can set root's environment.
    pub(crate) caller: Option<u32>,
}

impl Us {
    pub(crate) fn now() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let caller = std::env::var("SUDO_UID").ok().and_then(|id| id.parse().ok());
        Self { uid, caller: caller.filter(|_| uid == 0) }
    }

    /// Whether what belongs to this user is ours.
    pub(crate) fn is(self, uid: u32) -> bool {
        uid == self.uid || self.caller == Some(uid)
    }

    /// Whether a link of this user may be followed wherever it is.
    pub(crate) fn trusts(self, uid: u32) -> bool {
        uid == 0 || self.is(uid)
    }

    /// Whether nobody but us, root included, can put anything into a folder.
    pub(crate) fn alone_write(self, folder: &Stat) -> bool {
        self.trusts(folder.st_uid) && folder.st_mode & OTHERS_WRITE == 0
    }

    /// Refuses a folder to write into that is not ours, or that others can write to.
    pub(crate) fn check_folder(self, path: &Path, stat: &Stat) -> Result<()> {
        let mode = permissions(stat);
        if !self.is(stat.st_uid) {
            return Err(Error::ForeignOwner { path: path.to_owned(), owner: stat.st_uid, mode, needed: self.uid });
        }
        if mode & OTHERS_WRITE != 0 {
            return Err(Error::WritableByOthers { path: path.to_owned(), mode });
        }
        Ok(())
    }

    /// Refuses what is no plain file of ours.
    pub(crate) fn check_file(self, path: &Path, stat: &Stat) -> Result<()> {
        check_plain(path, stat)?;
        if !self.is(stat.st_uid) {
            let mode = permissions(stat);
            return Err(Error::ForeignOwner { path: path.to_owned(), owner: stat.st_uid, mode, needed: self.uid });
        }
        Ok(())
    }
}

/// Refuses what is no plain file.
pub(crate) fn check_plain(path: &Path, stat: &Stat) -> Result<()> {
    let found = FileType::from_raw_mode(stat.st_mode);
    if found == FileType::RegularFile {
        return Ok(());
    }
    Err(Error::WrongType { path: path.to_owned(), found: type_name(found), needed: "a plain file" })
}

/// Permission bits, sticky bit included.
pub(crate) fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// A type of file in words, with its article.
pub(crate) fn type_name(found: FileType) -> &'static str {
    match found {
        FileType::RegularFile => "a plain file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "of an unknown type",
    }
}
