//! A held folder: everything below it is one name, and no link is followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat, fchmod, fdatasync, fstat, fsync, mkdirat, openat,
    renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::Sync;
use crate::error::{Error, Result};
use crate::file::NewFile;
use crate::owner::{FILE_MODE, FOLDER_MODE, Us, check_plain};
use crate::walk::{Missing, Walk, open_folder, split};

/// A folder that is held by its descriptor: whatever becomes of its path, names below it are in this folder.
///
/// Names are single components; anything else is [`Error::BadName`]. Nothing here follows a link.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// The folder that holds `path`, whoever owns it, and the last name of `path`. Missing folders are an error.
    ///
    /// Only for one new file or folder in it. See the crate's manual for why it may be anybody's.
    pub fn parent_of(path: &Path) -> Result<(Self, OsString)> {
        Self::split(path, Missing::Refuse)
    }

    /// Like [`Folder::parent_of`], and makes the folders that are missing on the way, mode 0700.
    pub fn make_parent_of(path: &Path) -> Result<(Self, OsString)> {
        Self::split(path, Missing::Make)
    }

    fn split(path: &Path, missing: Missing) -> Result<(Self, OsString)> {
        let (parent, name) = split(path);
        let Some(name) = name else {
            let needed = "a path that ends in a name of its own";
            return Err(Error::WrongType { path: path.to_owned(), found: "a folder that is there", needed });
        };
        let mut walk = Walk::begin(missing)?;
        walk.go(parent)?;
        let (fd, path) = walk.end()?;
        Ok((Self { fd, path }, name.to_owned()))
    }

    /// Makes a folder of mode 0700, and its parents; [`std::io::ErrorKind::AlreadyExists`] if anything has that name.
    pub fn create_new(path: &Path) -> Result<Self> {
        let (parent, name) = Self::make_parent_of(path)?;
        parent.create_folder(&name)
    }

    /// Opens a folder to write into, or makes it and its parents. An existing one must be ours and not writable by others.
    pub fn create(path: &Path) -> Result<Self> {
        match Self::create_new(path) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists => Self::open(path),
            // `.` and `/` are there already.
            Err(Error::WrongType { .. }) if split(path).1.is_none() => Self::open(path),
            made => made,
        }
    }

    /// Opens an existing folder to write into: ours, and not writable by others.
    pub fn open(path: &Path) -> Result<Self> {
        let folder = Self::open_any(path)?;
        Us::now().check_folder(&folder.path, &folder.stat()?)?;
        Ok(folder)
    }

    /// Opens an existing folder, whoever owns it, to read from it or to replace single files in it.
    pub fn open_any(path: &Path) -> Result<Self> {
        let mut walk = Walk::begin(Missing::Refuse)?;
        walk.go(path)?;
        let (fd, path) = walk.end()?;
        Ok(Self { fd, path })
    }

    /// Where the folder was when it was opened; for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a name in it; for messages.
    pub fn path_of(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.path.join(name.as_ref())
    }

    /// Whether the path still leads to this folder: false once it was removed or replaced.
    pub fn is_at_its_path(&self) -> bool {
        let (Ok(held), Ok(named)) = (self.stat(), Self::open_any(&self.path).and_then(|named| named.stat())) else {
            return false;
        };
        held.st_nlink > 0 && (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)
    }

    /// Opens an existing folder to be filled alone: ours, and from now on of mode 0700. One that every user can write to, such as
    /// `/tmp`, is refused: it has its mode for a reason.
    pub fn open_private(path: &Path) -> Result<Self> {
        let folder = Self::open_any(path)?;
        let mut stat = folder.stat()?;
        if stat.st_mode & 0o7020 == 0o020 {
            // By a umask of 002 only: it is taken away below.
            stat.st_mode &= !0o020;
        }
        Us::now().check_folder(&folder.path, &stat)?;
        folder.make_private()?;
        Ok(folder)
    }

    /// Removes the permissions of group and others: mode 0700.
    pub fn make_private(&self) -> Result<()> {
        fchmod(&self.fd, Mode::from_raw_mode(FOLDER_MODE)).map_err(Error::io("change the mode of", &self.path))
    }

    /// Makes a folder of mode 0700 in it; [`std::io::ErrorKind::AlreadyExists`] if anything has that name.
    pub fn create_folder(&self, name: impl AsRef<OsStr>) -> Result<Self> {
        let (name, path) = self.checked(name.as_ref())?;
        mkdirat(&self.fd, name, Mode::from_raw_mode(FOLDER_MODE)).map_err(Error::io("create folder", &path))?;
        self.folder(name)
    }

    /// Opens a folder in it to write into: ours, not writable by others, and not a link.
    pub fn folder(&self, name: impl AsRef<OsStr>) -> Result<Self> {
        let folder = self.folder_any(name)?;
        Us::now().check_folder(&folder.path, &folder.stat()?)?;
        Ok(folder)
    }

    /// Opens a folder in it to read from; not a link.
    pub fn folder_any(&self, name: impl AsRef<OsStr>) -> Result<Self> {
        let (name, path) = self.checked(name.as_ref())?;
        let fd = match open_folder(&self.fd, name) {
            Ok(fd) => fd,
            Err(error) => {
                if let Ok(stat) = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                    let found = FileType::from_raw_mode(stat.st_mode);
                    if found != FileType::Directory {
                        let found = crate::owner::type_name(found);
                        return Err(Error::WrongType { path, found, needed: "a folder" });
                    }
                }
                return Err(Error::io("open", path)(error));
            }
        };
        Ok(Self { fd, path })
    }

    /// Opens a folder in it to write into, or makes it.
    pub fn folder_or_new(&self, name: impl AsRef<OsStr>) -> Result<Self> {
        match self.create_folder(name.as_ref()) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists => self.folder(name),
            made => made,
        }
    }

    /// Replaces the file of that name by `bytes`: at every instant it is the old one or the new one.
    pub fn write_atomic(&self, name: impl AsRef<OsStr>, bytes: &[u8], sync: Sync) -> Result<()> {
        let mut file = self.writer(name)?;
        file.write_bytes(bytes)?;
        file.commit(sync)
    }

    /// Writes a file that is not there yet; [`std::io::ErrorKind::AlreadyExists`] if anything has that name.
    pub fn create_new_file(&self, name: impl AsRef<OsStr>, bytes: &[u8], sync: Sync) -> Result<()> {
        let mut file = self.writer(name)?;
        file.write_bytes(bytes)?;
        file.commit_new(sync)
    }

    /// A file that gets its name when it is committed, and leaves nothing if it is not.
    pub fn writer(&self, name: impl AsRef<OsStr>) -> Result<NewFile> {
        let (name, path) = self.checked(name.as_ref())?;
        NewFile::begin(self.fd.try_clone().map_err(Error::io("open", &path))?, name.to_owned(), path)
    }

    /// Makes a file of mode 0600 under that name at once, to write; anything that has the name is an error.
    pub fn create_file(&self, name: impl AsRef<OsStr>) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        self.open_with("create", name.as_ref(), flags)
    }

    /// Opens a file of ours to append to, such as a journal, or makes it with mode 0600.
    pub fn append_file(&self, name: impl AsRef<OsStr>) -> Result<File> {
        self.open_ours(name.as_ref(), OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)
    }

    /// Opens a file of ours to append to, if it is there.
    pub fn append_existing(&self, name: impl AsRef<OsStr>) -> Result<File> {
        self.open_ours(name.as_ref(), OFlags::RDWR | OFlags::APPEND)
    }

    /// Opens a file of ours to read and write in place, such as a lock, or makes it with mode 0600.
    pub fn lock_file(&self, name: impl AsRef<OsStr>) -> Result<File> {
        self.open_ours(name.as_ref(), OFlags::RDWR | OFlags::CREATE)
    }

    /// The same if it is there.
    pub fn lock_file_existing(&self, name: impl AsRef<OsStr>) -> Result<File> {
        self.open_ours(name.as_ref(), OFlags::RDWR)
    }

    fn open_ours(&self, name: &OsStr, flags: OFlags) -> Result<File> {
        let file = self.open_with("open", name, flags)?;
        let path = self.path.join(name);
        Us::now().check_file(&path, &fstat(&file).map_err(Error::io("look at", &path))?)?;
        Ok(file)
    }

    /// Opens a plain file to read. A pipe or device in its place is refused, and not waited for.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> Result<File> {
        let file = self.open_with("open", name.as_ref(), OFlags::RDONLY)?;
        let path = self.path.join(name.as_ref());
        check_plain(&path, &fstat(&file).map_err(Error::io("look at", &path))?)?;
        Ok(file)
    }

    /// The bytes of a plain file of at most `limit` bytes.
    pub fn read(&self, name: impl AsRef<OsStr>, limit: u64) -> Result<Vec<u8>> {
        let path = self.path.join(name.as_ref());
        let mut bytes = Vec::new();
        let file = self.open_file(name)?;
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(Error::io("read", &path))?;
        if bytes.len() as u64 > limit {
            return Err(Error::TooLarge { path, limit });
        }
        Ok(bytes)
    }

    fn open_with(&self, action: &'static str, name: &OsStr, flags: OFlags) -> Result<File> {
        let (name, path) = self.checked(name)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match openat(&self.fd, name, flags, Mode::from_raw_mode(FILE_MODE)) {
            Ok(fd) => fd,
            // A link, or a pipe or socket that nobody reads: said in words.
            Err(error @ (Errno::LOOP | Errno::NXIO)) => {
                let stat = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
                stat.map_err(|_| Error::io(action, &path)(error)).and_then(|stat| check_plain(&path, &stat))?;
                return Err(Error::io(action, path)(error));
            }
            Err(error) => return Err(Error::io(action, path)(error)),
        };
        Ok(File::from(fd))
    }

    /// Renames a file or folder in it, replacing a file of the new name.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> Result<()> {
        self.rename_into(from, self, to)
    }

    /// Renames a file or folder into another held folder, replacing a file of the new name.
    pub fn rename_into(&self, from: impl AsRef<OsStr>, folder: &Self, to: impl AsRef<OsStr>) -> Result<()> {
        let (from, _) = self.checked(from.as_ref())?;
        let (to, path) = folder.checked(to.as_ref())?;
        renameat(&self.fd, from, &folder.fd, to).map_err(Error::io("rename to", path))
    }

    /// The same; [`std::io::ErrorKind::AlreadyExists`] if anything has the new name.
    pub fn rename_new_into(&self, from: impl AsRef<OsStr>, folder: &Self, to: impl AsRef<OsStr>) -> Result<()> {
        let (from, _) = self.checked(from.as_ref())?;
        let (to, path) = folder.checked(to.as_ref())?;
        renameat_with(&self.fd, from, &folder.fd, to, RenameFlags::NOREPLACE).map_err(Error::io("rename to", path))
    }

    /// Lets two names that are there change places, in one step: whoever looks sees both as they were or both as they are.
    ///
    /// A file system that cannot (`renameat2` with `RENAME_EXCHANGE`: NFS, some of FUSE) is asked for three renames, by way of
    /// `.exchange-` and the second name; in between one of them is missing for an instant.
    pub fn exchange(&self, one: impl AsRef<OsStr>, other: impl AsRef<OsStr>) -> Result<()> {
        let (one, _) = self.checked(one.as_ref())?;
        let (other, path) = self.checked(other.as_ref())?;
        match renameat_with(&self.fd, one, &self.fd, other, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let mut aside = OsString::from(".exchange-");
                aside.push(other);
                self.rename(other, &aside)?;
                self.rename(one, other)?;
                self.rename(&aside, one)
            }
            done => done.map_err(Error::io("exchange", path)),
        }
    }

    /// Removes a file, or a link itself.
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let (name, path) = self.checked(name.as_ref())?;
        unlinkat(&self.fd, name, AtFlags::empty()).map_err(Error::io("remove", path))
    }

    /// Removes an empty folder in it.
    pub fn remove_folder(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let (name, path) = self.checked(name.as_ref())?;
        unlinkat(&self.fd, name, AtFlags::REMOVEDIR).map_err(Error::io("remove", path))
    }

    /// Removes whatever has that name, a folder with all that is in it. No link is followed on the way.
    pub fn remove_tree(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let name = name.as_ref();
        match self.remove_file(name) {
            Err(Error::Io { source, .. }) if source.raw_os_error() == Some(Errno::ISDIR.raw_os_error()) => {}
            done => return done,
        }
        let folder = self.folder_any(name)?;
        for name in folder.names()? {
            folder.remove_tree(name)?;
        }
        self.remove_folder(name)
    }

    /// Names in it, sorted.
    pub fn names(&self) -> Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(Error::io("list", &self.path))? {
            let entry = entry.map_err(Error::io("list", &self.path))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whether anything has that name, a dangling link included.
    pub fn holds(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        let (name, path) = self.checked(name.as_ref())?;
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(Error::io("look at", path)(error)),
        }
    }

    /// Whether the name leads to this open file: false once it was removed or replaced.
    pub fn is_named(&self, file: &File, name: impl AsRef<OsStr>) -> bool {
        let Ok((name, _)) = self.checked(name.as_ref()) else { return false };
        match (fstat(file), statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)) {
            (Ok(held), Ok(named)) => (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino),
            _ => false,
        }
    }

    /// Forces its names to the device: new files, renames and removals. A folder that cannot be read, or whose file system
    /// knows no syncing of folders, is left to the kernel.
    pub fn sync(&self) -> Result<()> {
        match fsync(&self.fd) {
            Err(Errno::BADF | Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            synced => synced.map_err(Error::io("sync", &self.path)),
        }
    }

    /// Forces content and size of a file in it to the device.
    pub fn sync_file(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let path = self.path.join(name.as_ref());
        fdatasync(self.open_file(name)?).map_err(Error::io("sync", path))
    }

    /// Another descriptor of the same folder.
    pub fn try_clone(&self) -> Result<Self> {
        let fd = self.fd.try_clone().map_err(Error::io("open", &self.path))?;
        Ok(Self { fd, path: self.path.clone() })
    }

    pub(crate) fn from_walk(walk: Walk) -> Result<Self> {
        let (fd, path) = walk.end()?;
        Ok(Self { fd, path })
    }

    fn stat(&self) -> Result<Stat> {
        fstat(&self.fd).map_err(Error::io("look at", &self.path))
    }

    /// A name that cannot lead out of the folder, and its path for messages.
    fn checked<'a>(&self, name: &'a OsStr) -> Result<(&'a OsStr, PathBuf)> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.iter().any(|b| matches!(b, b'/' | 0)) {
            return Err(Error::BadName { folder: self.path.clone(), name: name.to_string_lossy().into_owned() });
        }
        Ok((name, self.path.join(name)))
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens a plain file by its path, to read. Links on the way are followed, the last name is not: a link, pipe or device in its
/// place is refused, and not waited for.
pub fn open_plain(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(CWD, path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(error) => {
            if let (Errno::LOOP | Errno::NXIO, Ok(stat)) = (error, statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)) {
                check_plain(path, &stat)?;
            }
            return Err(Error::io("open", path)(error));
        }
    };
    check_plain(path, &fstat(&file).map_err(Error::io("look at", path))?)?;
    Ok(file)
}

/// The bytes of a plain file of at most `limit` bytes, opened as by [`open_plain`].
pub fn read_plain(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open_plain(path)?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    if bytes.len() as u64 > limit {
        return Err(Error::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}
