//! From a path that a user gave to a held descriptor of the folder, past links that others may have planted.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fchown, fstat, fstatfs, mkdirat, openat, readlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use crate::error::{Error, Result};
use crate::owner::{FOLDER_MODE, Us, type_name};

/// As many links as the kernel follows in one path.
const MOST_LINKS: u32 = 40;
const HELD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const HELD_FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// What to do about folders of the path that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Refuse,
    Make,
}

/// Where a walk stands: a folder held by `O_PATH`, and its path for messages.
pub(crate) struct Walk {
    us: Us,
    missing: Missing,
    at: OwnedFd,
    pub(crate) path: PathBuf,
    links: u32,
}

impl Walk {
    /// Begins at the current folder, or at `/` for absolute paths.
    pub(crate) fn begin(missing: Missing) -> Result<Self> {
        let at = openat(CWD, ".", HELD_FOLDER, Mode::empty()).map_err(Error::io("open", "."))?;
        Ok(Self { us: Us::now(), missing, at, path: PathBuf::new(), links: 0 })
    }

    /// Goes along a path of folders.
    pub(crate) fn go(&mut self, path: &Path) -> Result<()> {
        let mut ahead: VecDeque<OsString> = VecDeque::new();
        push_front(&mut ahead, path);
        while let Some(name) = ahead.pop_front() {
            if let Some(target) = self.step(&name)? {
                push_front(&mut ahead, &target);
            }
        }
        Ok(())
    }

    /// One component; the target if it is a link that may be followed.
    fn step(&mut self, name: &OsStr) -> Result<Option<PathBuf>> {
        let path = self.path.join(name);
        if name == "/" || name == ".." {
            self.at = openat(&self.at, name, HELD_FOLDER, Mode::empty()).map_err(Error::io("open", &path))?;
            self.path = path;
            return Ok(None);
        }
        let found = match openat(&self.at, name, HELD, Mode::empty()) {
            Err(Errno::NOENT) if self.missing == Missing::Make => {
                self.make(name, &path)?;
                openat(&self.at, name, HELD, Mode::empty())
            }
            found => found,
        };
        let found = found.map_err(Error::io("open", &path))?;
        let stat = fstat(&found).map_err(Error::io("look at", &path))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.at = found;
                self.path = path;
                Ok(None)
            }
            FileType::Symlink if self.in_proc()? => {
                // What /proc/PID/fd and its like lead to cannot be named by a path: the kernel resolves it.
                self.at = openat(&self.at, name, HELD_FOLDER, Mode::empty()).map_err(Error::io("open", &path))?;
                self.path = path;
                Ok(None)
            }
            FileType::Symlink => self.target(&found, &stat, &path).map(Some),
            other => Err(Error::WrongType { path, found: type_name(other), needed: "a folder" }),
        }
    }

    /// Makes a missing folder; it belongs to the caller of sudo where its parent does.
    fn make(&self, name: &OsStr, path: &Path) -> Result<()> {
        match mkdirat(&self.at, name, Mode::from_raw_mode(FOLDER_MODE)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(()),
            Err(error) => return Err(Error::io("create folder", path)(error)),
        }
        let parent = fstat(&self.at).map_err(Error::io("look at", path))?;
        if self.us.caller == Some(parent.st_uid) && !self.is_ours(parent.st_uid) {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
            let made = openat(&self.at, name, flags, Mode::empty()).map_err(Error::io("open", path))?;
            let stat = fstat(&made).map_err(Error::io("look at", path))?;
            if self.is_ours(stat.st_uid) {
                let (user, group) = (Uid::from_raw(parent.st_uid), Gid::from_raw(parent.st_gid));
                fchown(&made, Some(user), Some(group)).map_err(Error::io("change the owner of", path))?;
            }
        }
        Ok(())
    }

    fn is_ours(&self, uid: u32) -> bool {
        uid == self.us.uid
    }

    fn in_proc(&self) -> Result<bool> {
        let system = fstatfs(&self.at).map_err(Error::io("look at", &self.path))?;
        Ok(system.f_type == PROC_SUPER_MAGIC)
    }

    /// Where a link in the current folder leads, if it may be followed.
    pub(crate) fn target(&mut self, link: &OwnedFd, stat: &Stat, path: &Path) -> Result<PathBuf> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Error::io("open", path)(Errno::LOOP));
        }
        let folder = fstat(&self.at).map_err(Error::io("look at", &self.path))?;
        if !self.us.trusts(stat.st_uid) && !self.us.alone_write(&folder) {
            return Err(Error::ForeignLink { path: path.to_owned(), owner: stat.st_uid });
        }
        let target = readlinkat(link, "", Vec::new()).map_err(Error::io("read link", path))?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// The last component of a path, held without following it; `None` if it is not there.
    pub(crate) fn last(&self, name: &OsStr) -> Result<Option<(OwnedFd, Stat)>> {
        let path = self.path.join(name);
        let found = match openat(&self.at, name, HELD, Mode::empty()) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(Error::io("open", path)(error)),
        };
        let stat = fstat(&found).map_err(Error::io("look at", &path))?;
        Ok(Some((found, stat)))
    }

    pub(crate) fn us(&self) -> Us {
        self.us
    }

    /// Whether links of the current folder are resolved by the kernel alone.
    pub(crate) fn is_magic(&self) -> Result<bool> {
        self.in_proc()
    }

    /// The folder as one that can be listed and synced; by `O_PATH` where it cannot be read.
    pub(crate) fn end(self) -> Result<(OwnedFd, PathBuf)> {
        let path = if self.path.as_os_str().is_empty() { PathBuf::from(".") } else { self.path };
        match open_folder(self.at.as_fd(), OsStr::new(".")) {
            Ok(fd) => Ok((fd, path)),
            Err(Errno::ACCESS) => Ok((self.at, path)),
            Err(error) => Err(Error::io("open", path)(error)),
        }
    }
}

/// Opens a folder of that one name, which is not a link.
pub(crate) fn open_folder(at: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// The folder and the last name of a path; the name is absent for `/`, `.` and `..`.
pub(crate) fn split(path: &Path) -> (&Path, Option<&OsStr>) {
    match path.components().next_back() {
        Some(Component::Normal(name)) => (path.parent().unwrap_or(Path::new("")), Some(name)),
        _ => (path, None),
    }
}

fn push_front(ahead: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::CurDir | Component::Prefix(_) => {}
            other => ahead.push_front(other.as_os_str().to_owned()),
        }
    }
}
