//! The file that a user names with `--output`: a plain file, standard output, a pipe, a terminal.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use crate::Sync;
use crate::error::{Error, Result};
use crate::file::NewFile;
use crate::folder::Folder;
use crate::owner::{Us, permissions, type_name};
use crate::walk::{Missing, Walk, split};

/// What a user named with `--output`, open for writing.
///
/// A plain file gets its name with [`OutputFile::commit`], so that a failure leaves the old one; the folder must be there.
/// Streams are written at once.
#[derive(Debug)]
pub struct OutputFile {
    kind: Kind,
    path: PathBuf,
}

#[derive(Debug)]
enum Kind {
    Replaced(NewFile),
    Stream(File),
}

impl OutputFile {
    /// Opens what `path` names. `-` and `/dev/stdout` are standard output, `/dev/stderr` standard error.
    ///
    /// A link is followed as [`Folder`] follows them; a pipe or device that belongs to somebody else, and any block device, is
    /// refused.
    pub fn open(path: &Path) -> Result<Self> {
        let kind = match path.to_str() {
            Some("-" | "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") => Kind::Stream(duplicate(io::stdout(), path)?),
            Some("/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2") => Kind::Stream(duplicate(io::stderr(), path)?),
            _ => named(path)?,
        };
        Ok(Self { kind, path: path.to_owned() })
    }

    /// Writes all of `bytes` to what `path` names.
    pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
        let mut file = Self::open(path)?;
        file.write_all(bytes).map_err(Error::io("write", path))?;
        file.commit()
    }

    /// Whether it is a stream: written at once, and never replaced.
    pub fn is_stream(&self) -> bool {
        matches!(self.kind, Kind::Stream(_))
    }

    /// Whether it ends up on standard output.
    pub fn is_stdout(path: &Path) -> bool {
        matches!(path.to_str(), Some("-" | "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1"))
    }

    /// Gives a plain file its name; flushes a stream. Without it a plain file is as it was before.
    pub fn commit(self) -> Result<()> {
        match self.kind {
            Kind::Replaced(file) => file.commit(Sync::No),
            Kind::Stream(mut file) => file.flush().map_err(Error::io("write", self.path)),
        }
    }
}

impl AsFd for OutputFile {
    /// The file that is written, under whatever name it has until [`OutputFile::commit`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Replaced(file) => file.as_fd(),
            Kind::Stream(file) => file.as_fd(),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.kind {
            Kind::Replaced(file) => file.write(bytes),
            Kind::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Replaced(file) => file.flush(),
            Kind::Stream(file) => file.flush(),
        }
    }
}

fn duplicate(stream: impl AsFd, path: &Path) -> Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from).map_err(Error::io("open", path))
}

fn named(path: &Path) -> Result<Kind> {
    let mut walk = Walk::begin(Missing::Refuse)?;
    let mut path = path.to_owned();
    loop {
        let (folder, name) = split(&path);
        let Some(name) = name else {
            return Err(Error::WrongType { path, found: "a folder", needed: "the name of a file" });
        };
        walk.go(folder)?;
        let shown = walk.path.join(name);
        let Some((found, stat)) = walk.last(name)? else {
            return Ok(Kind::Replaced(Folder::from_walk(walk)?.writer(name)?));
        };
        let refused = |found, needed| Err(Error::WrongType { path: shown.clone(), found, needed });
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return plain(walk, name, &stat),
            FileType::Symlink if walk.is_magic()? => {
                let folder = Folder::from_walk(walk)?;
                return stream(&folder, name, OFlags::empty()).map(Kind::Stream);
            }
            FileType::Symlink => {
                let target = walk.target(&found, &stat, &shown)?;
                path = target;
            }
            FileType::Fifo if !walk.us().trusts(stat.st_uid) => {
                let (owner, mode, needed) = (stat.st_uid, permissions(&stat), walk.us().uid);
                return Err(Error::ForeignOwner { path: shown, owner, mode, needed });
            }
            FileType::Fifo | FileType::CharacterDevice => {
                let folder = Folder::from_walk(walk)?;
                let file = stream(&folder, name, OFlags::NOFOLLOW)?;
                let opened = fstat(&file).map_err(Error::io("look at", &shown))?;
                if (opened.st_dev, opened.st_ino) != (stat.st_dev, stat.st_ino) {
                    return refused("replaced while it was being opened", "one that stays");
                }
                return Ok(Kind::Stream(file));
            }
            other => return refused(type_name(other), "a plain file, a pipe or a character device"),
        }
    }
}

/// An existing plain file is replaced; one of ours in a folder where nothing can be made is written in place.
fn plain(walk: Walk, name: &OsStr, stat: &rustix::fs::Stat) -> Result<Kind> {
    let folder = Folder::from_walk(walk)?;
    match folder.writer(name) {
        Err(Error::Io { source, .. })
            if matches!(Errno::from_io_error(&source), Some(Errno::ACCESS | Errno::PERM | Errno::ROFS)) =>
        {
            let path = folder.path_of(name);
            Us::now().check_file(&path, stat)?;
            let file = stream(&folder, name, OFlags::NOFOLLOW)?;
            let opened = fstat(&file).map_err(Error::io("look at", &path))?;
            Us::now().check_file(&path, &opened)?;
            file.set_len(0).map_err(Error::io("write", &path))?;
            Ok(Kind::Stream(file))
        }
        writer => writer.map(Kind::Replaced),
    }
}

fn stream(folder: &Folder, name: &OsStr, flags: OFlags) -> Result<File> {
    let flags = flags | OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = openat(folder, name, flags, Mode::empty()).map_err(Error::io("open", folder.path_of(name)))?;
    Ok(File::from(fd))
}
