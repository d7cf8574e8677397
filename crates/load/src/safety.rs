//! Never destroy data: which files and devices a writing job may touch.
//!
//! A file that pagelab creates is marked, and only marked files are written again without being asked. The mark is the extended
//! attribute `user.pagelab` on the file itself: it moves with the file, vanishes with it, and a copy made without attributes is not
//! ours. File systems without user attributes (hugetlbfs, tmpfs before Linux 6.6) get a line in `STATE_DIR/created-files` instead,
//! which names device, inode, birth time and path; the state directory is empty after a boot, so such a file is then refused, which
//! errs on the safe side. Everything else has to be named outside the job file (`--allow-write`): files one by one, by a folder that
//! they lie in or by a pattern; devices and links one by one, for a folder or pattern says nothing of what it may lead to. /dev/null and
//! /dev/zero keep nothing of what is written and need no permission.
//!
//! A path is checked once and opened many times: by the layout, by each worker, for each pass. Between two of these its owner can put
//! another file there, or a link to a disk. So what is checked is an open descriptor, and the check leaves a [`Permit`]: whoever opens the
//! path to write opens it with that, and gets a descriptor only of the file that was checked. Links are followed where the user named
//! them with `--allow-write`, and nowhere else. A block device is claimed (`O_EXCL`) from the check to the end of the run: nobody can
//! mount it meanwhile, and its number cannot become another device's. A character device of direct access cannot be claimed: it is
//! refused while another process has it mapped.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use pagelab_output::Folder;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, XattrFlags};
use rustix::io::Errno;

use crate::dax_device;
use crate::error::LoadError;
use crate::signatures;

const MARK: &str = "user.pagelab";
const REGISTRY: &str = "created-files";

/// Lines have about 100 bytes; it grows by one for each file made where no attributes can be kept, until the next boot.
const LARGEST_REGISTRY_BYTES: u64 = 256 << 20;

/// statfs(2)'s number for hugetlbfs.
const HUGETLBFS_MAGIC: u64 = 0x9584_58F6;

/// The page size that a file's mappings are made of: the pool's on hugetlbfs, else the base page's.
pub fn mapping_page_bytes(fd: BorrowedFd<'_>) -> u64 {
    match rustix::fs::fstatfs(fd) {
        Ok(stat) if stat.f_type as u64 == HUGETLBFS_MAGIC => stat.f_bsize as u64,
        _ => rustix::param::page_size() as u64,
    }
}

/// Whether the file lies on hugetlbfs, which takes no write(2).
pub fn is_hugetlbfs(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|stat| stat.f_type as u64 == HUGETLBFS_MAGIC)
}

/// The directory that a path lies in.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file on hugetlbfs that never gets a name, in place of a new one at `path`: the kernel takes its pages back when the last process
/// that has it is gone, however that ends. `None` on other file systems, where a file left behind takes nothing that others wait for, and
/// where hugetlbfs has no O_TMPFILE.
pub fn nameless_hugetlb_file(path: &Path) -> Option<OwnedFd> {
    let directory = directory_of(path);
    let stat = rustix::fs::statfs(directory).ok()?;
    if stat.f_type as u64 != HUGETLBFS_MAGIC {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(directory, flags, Mode::from_raw_mode(0o644)).ok()
}

/// Where temporary state lives: `$PAGELAB_STATE_DIR`, else `/run/pagelab`.
pub fn default_state_dir() -> PathBuf {
    std::env::var_os("PAGELAB_STATE_DIR").map_or_else(|| PathBuf::from("/run/pagelab"), PathBuf::from)
}

/// Knows which files are pagelab's own.
pub struct Ownership<'a> {
    state_dir: &'a Path,
}

impl<'a> Ownership<'a> {
    /// With the directory that holds the list of files whose file system cannot mark them.
    pub fn new(state_dir: &'a Path) -> Self {
        Self { state_dir }
    }

    /// Creates and marks a file; `None` if something of that name exists already. `flags` are added to those for creating.
    ///
    /// # Errors
    /// The file cannot be created, or not be marked anywhere; then it is removed again.
    pub fn create(&self, path: &Path) -> Result<Option<OwnedFd>, LoadError> {
        match self.create_marked(path) {
            Ok(fd) => return Ok(Some(fd)),
            Err(Errno::EXIST) => return Ok(None),
            // No O_TMPFILE here, or no link: the file gets its name first and its mark after it. What else is wrong is met again.
            Err(_) => {}
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)) {
            Ok(fd) => fd,
            Err(Errno::EXIST) => return Ok(None),
            Err(error) => return Err(LoadError::system(format!("creating {}", path.display()), error)),
        };
        if let Err(error) = self.mark(fd.as_fd(), path) {
            // Nobody else can have put anything into it yet.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(Some(fd))
    }

    /// Creates a file that gets its name when it is marked already: killed in between, nothing stays that would be taken for somebody
    /// else's.
    fn create_marked(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        if path.symlink_metadata().is_ok() {
            return Err(Errno::EXIST);
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let fd = rustix::fs::open(directory_of(path), flags, Mode::from_raw_mode(0o644))?;
        self.mark(fd.as_fd(), path).map_err(|_| Errno::NOTSUP)?;
        let nameless = format!("/proc/self/fd/{}", fd.as_raw_fd());
        rustix::fs::linkat(CWD, nameless, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
        Ok(fd)
    }

    /// Marks a file that this process has just made.
    ///
    /// # Errors
    /// It cannot be marked anywhere.
    pub(crate) fn adopt(&self, fd: BorrowedFd<'_>, path: &Path) -> Result<(), LoadError> {
        self.mark(fd, path)
    }

    fn mark(&self, fd: BorrowedFd<'_>, path: &Path) -> Result<(), LoadError> {
        if rustix::fs::fsetxattr(fd, MARK, b"created", XattrFlags::empty()).is_ok() {
            return Ok(());
        }
        // The file itself need not have its name yet.
        let identity = std::fs::canonicalize(directory_of(path))
            .and_then(|directory| identity(fd, &directory.join(path.file_name().unwrap_or_default())))
            .map_err(|error| LoadError::system(format!("identifying {}", path.display()), error))?;
        let append = || -> Result<(), String> {
            std::fs::create_dir_all(self.state_dir).map_err(|error| error.to_string())?;
            let folder = Folder::open(self.state_dir).map_err(|error| error.to_string())?;
            let mut file = folder.append_file(REGISTRY).map_err(|error| error.to_string())?;
            // One write per line: appends of several processes do not mix.
            file.write_all(&[identity.as_slice(), b"\n"].concat()).map_err(|error| error.to_string())
        };
        append().map_err(|error| LoadError::Host {
            what: format!("marking {} as made by pagelab", path.display()),
            found: format!(
                "a file system without user attributes, and {}: {error}",
                self.state_dir.join(REGISTRY).display()
            ),
            needed: "one of the two".to_owned(),
            command: "set PAGELAB_STATE_DIR to a directory that can be written".to_owned(),
        })
    }

    /// Whether pagelab created this open file.
    pub fn is_ours(&self, fd: BorrowedFd<'_>, path: &Path) -> bool {
        let mut value = [0_u8; 16];
        if rustix::fs::fgetxattr(fd, MARK, &mut value).is_ok() {
            return true;
        }
        let identity = std::fs::canonicalize(path).and_then(|path| identity(fd, &path));
        // A list that somebody else could have written says nothing about what pagelab made.
        let registry = Folder::open(self.state_dir).and_then(|folder| folder.read(REGISTRY, LARGEST_REGISTRY_BYTES));
        let (Ok(identity), Ok(registry)) = (identity, registry) else { return false };
        registry.split(|byte| *byte == b'\n').any(|line| line == identity)
    }

    /// Removes a file if pagelab created it; tells whether it did. A link is not such a file, wherever it leads.
    ///
    /// # Errors
    /// It is ours and cannot be removed.
    pub fn remove(&self, path: &Path) -> std::io::Result<bool> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let fd = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::LOOP) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        if !self.is_ours(fd.as_fd(), path) {
            return Ok(false);
        }
        match std::fs::remove_file(path) {
            // Somebody else was faster.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(true),
        }
    }
}

/// The identity of a file within this boot: device, inode, birth time if the file system keeps one, canonical path.
fn identity(fd: BorrowedFd<'_>, path: &Path) -> std::io::Result<Vec<u8>> {
    let stat = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?;
    let (seconds, nanoseconds) = if stat.stx_mask & StatxFlags::BTIME.bits() == 0 {
        (0, 0)
    } else {
        (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)
    };
    let mut line =
        format!("{}:{} {} {seconds}.{nanoseconds:09} ", stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino)
            .into_bytes();
    line.extend_from_slice(path.as_os_str().as_bytes());
    Ok(line)
}

/// The kind of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// Nothing there yet.
    Missing,
    /// A regular file of this many bytes.
    File {
        /// Its length.
        bytes: u64,
    },
    /// A block device of this many bytes.
    BlockDevice {
        /// Its size.
        bytes: u64,
    },
    /// A character device of direct access.
    DaxDevice {
        /// Its size.
        bytes: u64,
        /// The page size of its mappings.
        align: u64,
    },
    /// A character device that has no end and keeps nothing: /dev/null, /dev/zero.
    Bottomless,
}

impl TargetKind {
    /// Whether it is a device: it is as long as it is, and claimed or refused by other rules than files.
    pub fn is_device(self) -> bool {
        matches!(self, Self::BlockDevice { .. } | Self::DaxDevice { .. } | Self::Bottomless)
    }
}

/// Looks at a target.
///
/// # Errors
/// It is neither a file nor a device of a kind that jobs work on, or cannot be looked at.
pub fn inspect(path: &Path, job: &str) -> Result<TargetKind, LoadError> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        // The folders above it may be missing, too: the layout makes them, as fio does.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(TargetKind::Missing),
        Err(error) => return Err(LoadError::system(format!("job '{job}': {}", path.display()), error)),
    };
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(TargetKind::File { bytes: metadata.len() });
    }
    if kind.is_block_device() {
        let open = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let bytes = open.and_then(|fd| rustix::fs::seek(&fd, rustix::fs::SeekFrom::End(0)));
        return bytes
            .map(|bytes| TargetKind::BlockDevice { bytes })
            .map_err(|error| LoadError::system(format!("job '{job}': size of {}", path.display()), error));
    }
    let target = |reason: String| LoadError::Target { job: job.to_owned(), reason };
    if kind.is_char_device() && is_bottomless(metadata.rdev()) {
        return Ok(TargetKind::Bottomless);
    }
    if kind.is_char_device()
        && let Some(device) = dax_device::look(Path::new("/"), metadata.rdev()).map_err(target)?
    {
        return Ok(TargetKind::DaxDevice { bytes: device.bytes, align: device.align });
    }
    Err(target(format!(
        "{} is neither a regular file nor a block device, nor a character device of direct access (/dev/dax0.0), nor /dev/null or /dev/zero",
        path.display()
    )))
}

/// The identity of an open file or device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    /// A file, by file system, inode and birth time (0 where the file system keeps none): inode numbers are used again.
    File { device: (u32, u32), inode: u64, born: (i64, u32) },
    /// A block device, by its number: udev makes device nodes anew.
    Device { number: (u32, u32) },
    /// A character device, by its number.
    Character { number: (u32, u32) },
}

impl Identity {
    fn of(fd: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        let stat = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?;
        let number = (stat.stx_rdev_major, stat.stx_rdev_minor);
        match rustix::fs::FileType::from_raw_mode(stat.stx_mode.into()) {
            rustix::fs::FileType::BlockDevice => return Ok(Self::Device { number }),
            rustix::fs::FileType::CharacterDevice => return Ok(Self::Character { number }),
            _ => {}
        }
        let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
        let born = if has_birth { (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec) } else { (0, 0) };
        Ok(Self::File { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, born })
    }
}

/// The right to open one path for writing, as long as it leads to the file checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// The file checked; `None` for files that the job itself makes anew, where the mark decides.
    identity: Option<Identity>,
    /// The file must have pagelab's mark.
    marked: bool,
    /// The path may be a link.
    follow: bool,
}

/// Why a path was not opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unopened {
    /// The kernel refused.
    Errno(Errno),
    /// The path leads to another file than the one checked.
    Replaced,
}

/// The meaning of [`Unopened::Replaced`], in words.
pub const REPLACED: &str =
    "something else is there now than the file that was checked before the start; nothing was written to it";

impl From<Errno> for Unopened {
    fn from(error: Errno) -> Self {
        Self::Errno(error)
    }
}

impl Permit {
    /// For a file that pagelab has just made and marked.
    ///
    /// # Errors
    /// The kernel tells nothing of it.
    pub fn of_own(fd: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        Ok(Self { identity: Some(Identity::of(fd)?), marked: true, follow: false })
    }

    /// For a file without a name, which is opened through `/proc/self/fd`.
    ///
    /// # Errors
    /// The kernel tells nothing of it.
    pub fn of_nameless(fd: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        Ok(Self { identity: Some(Identity::of(fd)?), marked: false, follow: true })
    }

    /// For any file at the path with pagelab's mark: jobs that make their files themselves, at the start or for each
    /// pass.
    pub fn of_any_own() -> Self {
        Self { identity: None, marked: true, follow: false }
    }

    /// The same for a job that makes the file anew for each pass: another file of pagelab's may take its place.
    #[must_use]
    pub fn renewable(self) -> Self {
        if self.marked { Self { identity: None, ..self } } else { self }
    }

    /// Opens the path, which nobody has looked at since the check. Nothing is changed by opening: `flags` must not truncate or create.
    ///
    /// # Errors
    /// The kernel's, or the path leads elsewhere now.
    pub fn open(&self, path: &Path, flags: OFlags, ownership: &Ownership<'_>) -> Result<OwnedFd, Unopened> {
        let follow = if self.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let fd = match rustix::fs::open(path, flags | OFlags::NOCTTY | OFlags::CLOEXEC | follow, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::LOOP) if !self.follow => return Err(Unopened::Replaced),
            Err(error) => return Err(error.into()),
        };
        let found = Identity::of(fd.as_fd())?;
        if self.identity.is_some_and(|checked| checked != found) {
            return Err(Unopened::Replaced);
        }
        if self.marked && !ownership.is_ours(fd.as_fd(), path) {
            return Err(Unopened::Replaced);
        }
        Ok(fd)
    }
}

/// A target that may be written, and the contents that the check found there.
#[derive(Debug)]
pub struct Allowed {
    /// The right to open it.
    pub permit: Permit,
    /// Whether it is a device.
    pub device: bool,
    /// The data that writing destroys there, in words, where the user allowed that by naming a device.
    pub holds: Option<String>,
}

/// The block devices of a run, each claimed for it alone.
#[derive(Debug, Default)]
pub struct Claims(Vec<(Identity, OwnedFd)>);

/// Whether a writing job may touch an existing target. A device that somebody uses is never touched; one that may be written is kept in
/// `claims`.
///
/// # Errors
/// [`LoadError::Refused`] with the reason and how to allow it.
pub fn may_write(
    path: &Path,
    allowed: &[PathBuf],
    ownership: &Ownership<'_>,
    claims: &mut Claims,
) -> Result<Allowed, LoadError> {
    let refused = |reason: String| LoadError::Refused { path: path.to_path_buf(), reason };
    let unopened = |error: Errno| LoadError::system(format!("opening {}", path.display()), error);
    let look = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let (fd, link) = match rustix::fs::open(path, look | OFlags::NOFOLLOW, Mode::empty()) {
        Ok(fd) => (fd, false),
        Err(Errno::LOOP) => (rustix::fs::open(path, look, Mode::empty()).map_err(unopened)?, true),
        Err(error) => return Err(unopened(error)),
    };
    let file = std::fs::File::from(fd);
    let metadata = file.metadata().map_err(|error| LoadError::system(format!("{}", path.display()), error))?;
    let identity = Identity::of(file.as_fd()).map_err(unopened)?;
    let this_very = |other: &PathBuf| std::fs::metadata(other).is_ok_and(|other| same(&metadata, &other));
    // Folders and patterns are for files alone, and not for what a link leads to: a device has to be named itself.
    let among = |other: &PathBuf| metadata.is_file() && !link && holds(other, path);
    let named = allowed.iter().any(|other| this_very(other) || among(other));
    let device = if metadata.file_type().is_block_device() {
        let claimed = claims.0.iter().any(|(known, _)| *known == identity);
        let holds = signatures::contents(&file, metadata.rdev()).map_err(refused)?;
        if !claimed {
            let claim = signatures::claim(file.as_fd(), metadata.rdev()).map_err(refused)?;
            claims.0.push((identity, claim));
        }
        Some(("a block device", holds))
    } else if metadata.file_type().is_char_device() && is_bottomless(metadata.rdev()) {
        let permit = Permit { identity: Some(identity), marked: false, follow: true };
        return Ok(Allowed { permit, device: true, holds: None });
    } else if metadata.file_type().is_char_device() {
        Some(("a character device of direct access", unused_dax(&file, path, metadata.rdev()).map_err(refused)?))
    } else {
        None
    };
    if let Some((kind, holds)) = device {
        if named {
            let permit = Permit { identity: Some(identity), marked: false, follow: true };
            return Ok(Allowed { permit, device: true, holds });
        }
        let what = holds.map_or_else(String::new, |what| format!(" that holds {what}"));
        return Err(refused(format!(
            "it is {kind}{what}; name this very device outside the job file to allow it: --allow-write {}",
            path.display()
        )));
    }
    let ours = ownership.is_ours(file.as_fd(), path);
    if named || (ours && !link) {
        let permit = Permit { identity: Some(identity), marked: ours, follow: named };
        return Ok(Allowed { permit, device: false, holds: None });
    }
    if ours {
        return Err(refused(format!(
            "the job writes and this is a symbolic link, which can lead elsewhere in the next pass; give the file's own path, or name the link outside the job file: --allow-write {}",
            path.display()
        )));
    }
    Err(refused(format!(
        "the job writes and pagelab did not create this file ({} bytes); name it outside the job file to allow it: --allow-write {}",
        metadata.len(),
        path.display()
    )))
}

/// The contents of a DAX character device, in words.
///
/// # Errors
/// It is no such device, somebody has it mapped, or it cannot be mapped.
fn unused_dax(file: &std::fs::File, path: &Path, rdev: u64) -> Result<Option<String>, String> {
    let root = Path::new("/");
    let device = dax_device::look(root, rdev)?.ok_or("it is a character device, and not one of direct access")?;
    if let Some(user) = dax_device::user(root, path) {
        return Err(format!("the device is in use: {user} has it mapped"));
    }
    let head = dax_device::head(file, device).map_err(|error| format!("mapping its start: {error}"))?;
    Ok(signatures::signature_in(&head).map(str::to_owned))
}

/// Opens a file for writing that pagelab made, or that the user named: a log, a state, memory behind a buffer.
///
/// # Errors
/// [`LoadError::Refused`] for any other file.
pub fn open_own(
    path: &Path,
    flags: OFlags,
    allowed: &[PathBuf],
    ownership: &Ownership<'_>,
) -> Result<OwnedFd, LoadError> {
    let allowed = may_write(path, allowed, ownership, &mut Claims::default())?;
    allowed.permit.open(path, flags, ownership).map_err(|error| match error {
        Unopened::Errno(error) => LoadError::system(format!("opening {}", path.display()), error),
        Unopened::Replaced => LoadError::Refused { path: path.to_path_buf(), reason: REPLACED.to_owned() },
    })
}

/// A new file, or one of pagelab's or that the user named, emptied.
///
/// # Errors
/// The file cannot be made, or exists and is not pagelab's.
pub(crate) fn make_own(path: &Path, state_dir: &Path, allowed: &[PathBuf]) -> Result<File, LoadError> {
    let ownership = Ownership::new(state_dir);
    if let Some(fd) = ownership.create(path)? {
        return Ok(fd.into());
    }
    let file = File::from(open_own(path, OFlags::WRONLY, allowed, &ownership)?);
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        // A log into /dev/null.
        return Ok(file);
    }
    file.set_len(0).map_err(|error| LoadError::system(format!("emptying {}", path.display()), error))?;
    Ok(file)
}

/// A file that [`make_own`] has made, to be written behind what others write to it at the same time.
///
/// # Errors
/// It was replaced by one that is not pagelab's, or cannot be opened.
pub(crate) fn append_own(path: &Path, state_dir: &Path, allowed: &[PathBuf]) -> Result<File, LoadError> {
    open_own(path, OFlags::WRONLY | OFlags::APPEND, allowed, &Ownership::new(state_dir)).map(File::from)
}

/// Whether `--allow-write` of a folder or a pattern holds for the file at `path`: it lies in that folder, at any depth, or its path is
/// one that the pattern describes.
fn holds(allowed: &Path, path: &Path) -> bool {
    let Ok(path) = std::fs::canonicalize(path) else { return false };
    if let Ok(folder) = std::fs::canonicalize(allowed) {
        return folder.is_dir() && path.starts_with(&folder);
    }
    let pattern = match allowed.to_str() {
        Some(text) if text.contains(['*', '?', '[']) => text,
        _ => return false,
    };
    // The part without signs is where the pattern starts from; the path is without links, and so it has to be.
    let from = Path::new(pattern).ancestors().skip(1).find(|part| !part.to_string_lossy().contains(['*', '?', '[']));
    let from = from.filter(|from| !from.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let rest = Path::new(pattern).strip_prefix(from).unwrap_or(Path::new(pattern));
    let Ok(from) = std::fs::canonicalize(from) else { return false };
    path.strip_prefix(&from).is_ok_and(|path| matches_pattern(rest.as_os_str(), path.as_os_str()))
}

/// Whether a path matches a pattern as the shell has them: `*` and `?` do not stand for a slash.
fn matches_pattern(pattern: &OsStr, path: &OsStr) -> bool {
    let (Ok(pattern), Ok(path)) = (CString::new(pattern.as_bytes()), CString::new(path.as_bytes())) else {
        return false;
    };
    // SAFETY: both are strings that end with a NUL byte and live longer than the call, which only reads them.
    unsafe { libc::fnmatch(pattern.as_ptr(), path.as_ptr(), libc::FNM_PATHNAME) == 0 }
}

/// Whether a character device takes all that is written and keeps nothing of it: /dev/null, /dev/zero, /dev/full.
fn is_bottomless(rdev: u64) -> bool {
    libc::major(rdev) == 1 && matches!(libc::minor(rdev), 3 | 5 | 7)
}

fn same(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    let (kind, other) = (a.file_type(), b.file_type());
    if kind.is_block_device() || kind.is_char_device() {
        kind == other && a.rdev() == b.rdev()
    } else {
        a.dev() == b.dev() && a.ino() == b.ino()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_files_are_written_and_removed() {
        // Both a file system with user attributes and, by way of hugetlbfs or an old tmpfs, the registry lead to the same answers.
        let dir = tempfile::tempdir().expect("tempdir");
        let state = tempfile::tempdir().expect("tempdir");
        let ownership = Ownership::new(state.path());
        let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
        assert!(ownership.create(&ours).expect("create").is_some());
        assert!(ownership.create(&ours).expect("exists").is_none(), "a second creation changes nothing");
        std::fs::write(&theirs, "precious").expect("write");
        assert!(may_write(&ours, &[], &ownership, &mut Claims::default()).is_ok());
        let refusal = may_write(&theirs, &[], &ownership, &mut Claims::default()).expect_err("not ours").to_string();
        assert!(refusal.contains("--allow-write") && refusal.contains("8 bytes"), "{refusal}");
        assert!(may_write(&theirs, std::slice::from_ref(&theirs), &ownership, &mut Claims::default()).is_ok());
        assert!(may_write(&theirs, std::slice::from_ref(&ours), &ownership, &mut Claims::default()).is_err());
        assert!(!ownership.remove(&theirs).expect("remove") && theirs.exists());
        assert!(ownership.remove(&ours).expect("remove") && !ours.exists());
        assert!(!ownership.remove(&ours).expect("gone"));
    }

    /// Between the look and the opening another file may take the place of the one that was looked at.
    #[test]
    fn a_file_that_was_replaced_since_the_look_is_not_opened() {
        let dir = tempfile::tempdir().expect("tempdir");
        let state = tempfile::tempdir().expect("tempdir");
        let ownership = Ownership::new(state.path());
        let path = dir.path().join("file");
        std::fs::write(&path, "looked at").expect("write");
        let looked_at = File::open(&path).expect("it is there");
        let permit =
            Permit { identity: Some(Identity::of(looked_at.as_fd()).expect("known")), marked: false, follow: false };
        assert!(permit.open(&path, OFlags::WRONLY, &ownership).is_ok());
        std::fs::rename(&path, dir.path().join("kept")).expect("rename");
        std::fs::write(&path, "another's").expect("write");
        assert!(matches!(permit.open(&path, OFlags::WRONLY, &ownership), Err(Unopened::Replaced)));
        std::fs::remove_file(&path).expect("remove");
        std::os::unix::fs::symlink(dir.path().join("kept"), &path).expect("link");
        assert!(matches!(permit.open(&path, OFlags::WRONLY, &ownership), Err(Unopened::Replaced)));
    }

    /// An inode number is used again by the next file: the birth time tells the two apart.
    #[test]
    fn a_file_with_the_same_inode_number_and_another_birth_time_is_not_opened() {
        let dir = tempfile::tempdir().expect("tempdir");
        let ownership = Ownership::new(dir.path());
        let path = dir.path().join("file");
        std::fs::write(&path, "another's").expect("write");
        let found = Identity::of(File::open(&path).expect("it is there").as_fd()).expect("known");
        let Identity::File { device, inode, born } = found else { panic!("{found:?}") };
        let open = |born: (i64, u32)| {
            let identity = Some(Identity::File { device, inode, born });
            Permit { identity, marked: false, follow: false }.open(&path, OFlags::WRONLY, &ownership).map(drop)
        };
        assert_eq!(open(born), Ok(()));
        assert_eq!(open((born.0 - 1, born.1)), Err(Unopened::Replaced));
        assert_eq!(open((born.0, born.1 + 1)), Err(Unopened::Replaced));
    }

    #[test]
    fn the_registry_answers_where_attributes_cannot() {
        let dir = tempfile::tempdir().expect("tempdir");
        let state = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("file");
        std::fs::write(&path, "").expect("write");
        let fd = std::fs::File::open(&path).expect("open");
        let ownership = Ownership::new(state.path());
        assert!(!ownership.is_ours(fd.as_fd(), &path));
        let line = identity(fd.as_fd(), &path.canonicalize().expect("there")).expect("identity");
        std::fs::write(state.path().join(REGISTRY), [b"1:2 3 4.5 /else\n", line.as_slice(), b"\n"].concat())
            .expect("write");
        assert!(ownership.is_ours(fd.as_fd(), &path));
        // A list that others can write says nothing.
        let state_mode = |mode| {
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(state.path(), permissions).expect("our own");
        };
        for shared in [0o775, 0o757, 0o1777] {
            state_mode(shared);
            assert!(!ownership.is_ours(fd.as_fd(), &path), "{shared:o}");
        }
        state_mode(0o700);
        assert!(ownership.is_ours(fd.as_fd(), &path));
        // Another file in the same place is another file.
        std::fs::remove_file(&path).expect("remove");
        std::fs::write(dir.path().join("other"), "").expect("write");
        std::fs::rename(dir.path().join("other"), &path).expect("rename");
        let fd = std::fs::File::open(&path).expect("open");
        assert!(!ownership.is_ours(fd.as_fd(), &path));
    }

    #[test]
    fn targets_are_told_apart() {
        let dir = tempfile::tempdir().expect("tempdir");
        std::fs::write(dir.path().join("f"), "12345").expect("write");
        assert_eq!(inspect(&dir.path().join("f"), "j").expect("file"), TargetKind::File { bytes: 5 });
        assert_eq!(inspect(&dir.path().join("none"), "j").expect("missing"), TargetKind::Missing);
        // Folders are made, as fio makes them.
        assert_eq!(inspect(&dir.path().join("no/such/dir"), "j").expect("missing"), TargetKind::Missing);
        for bottomless in ["/dev/zero", "/dev/null"] {
            assert_eq!(inspect(Path::new(bottomless), "j").expect("keeps nothing"), TargetKind::Bottomless);
        }
        assert!(inspect(Path::new("/dev/random"), "j").is_err());
        assert!(inspect(Path::new("/dev/tty"), "j").is_err());
        assert!(inspect(dir.path(), "j").is_err());
    }

    #[test]
    fn folders_and_patterns_are_for_the_files_in_them() {
        let dir = tempfile::tempdir().expect("tempdir");
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("in/deep")).expect("folder");
        for name in ["in/a1", "in/a2", "in/b1", "in/deep/a1", "out"] {
            std::fs::write(at(name), "precious").expect("write");
        }
        std::os::unix::fs::symlink(at("out"), at("in/link")).expect("link");
        let ownership = Ownership::new(dir.path());
        let may =
            |path: &str, allowed: PathBuf| may_write(&at(path), &[allowed], &ownership, &mut Claims::default()).is_ok();
        let names = ["in/a1", "in/a2", "in/b1", "in/deep/a1", "out", "in/link"];
        for (allowed, expected) in [
            ("in", [true, true, true, true, false, false]),
            ("in/deep", [false, false, false, true, false, false]),
            ("in/a*", [true, true, false, false, false, false]),
            ("in/[ab]1", [true, false, true, false, false, false]),
            ("*/a1", [true, false, false, false, false, false]),
            ("*/*/a1", [false, false, false, true, false, false]),
            ("in/a1", [true, false, false, false, false, false]),
            ("in/link", [false, false, false, false, true, true]),
            ("nothing*", [false; 6]),
        ] {
            assert_eq!(names.map(|name| may(name, at(allowed))), expected, "{allowed}");
        }
    }

    #[test]
    fn a_permit_opens_what_was_checked_and_nothing_else() {
        let dir = tempfile::tempdir().expect("tempdir");
        let ownership = Ownership::new(dir.path());
        let at = |name: &str| dir.path().join(name);
        let (path, aside) = (at("file"), at("aside"));
        ownership.create(&path).expect("create").expect("new");
        std::fs::write(at("precious"), "precious").expect("write");
        let check = |path: &Path, allowed: &[PathBuf]| {
            may_write(path, allowed, &ownership, &mut Claims::default()).map(|allowed| allowed.permit)
        };
        let permit = check(&path, &[]).expect("ours");
        let open = |permit: &Permit| permit.open(&path, OFlags::RDWR, &ownership).map(drop);
        assert_eq!(open(&permit), Ok(()));
        std::fs::rename(&path, &aside).expect("rename");
        assert_eq!(open(&permit), Err(Unopened::Errno(Errno::NOENT)));
        // A link, to the precious file and to the very file: neither is the file checked.
        for target in ["precious", "aside"] {
            std::os::unix::fs::symlink(at(target), &path).expect("link");
            assert_eq!(open(&permit), Err(Unopened::Replaced));
            assert_eq!(open(&permit.renewable()), Err(Unopened::Replaced));
            assert!(check(&path, &[]).is_err());
            assert!(!ownership.remove(&path).expect("a link is left alone"));
            std::fs::remove_file(&path).expect("remove");
        }
        std::fs::hard_link(at("precious"), &path).expect("link");
        assert_eq!(open(&permit), Err(Unopened::Replaced));
        assert_eq!(open(&permit.renewable()), Err(Unopened::Replaced));
        std::fs::remove_file(&path).expect("remove");
        // Another file of pagelab's is right only where the job makes its files anew.
        ownership.create(&path).expect("create").expect("new");
        assert_eq!(open(&permit), Err(Unopened::Replaced));
        assert_eq!(open(&permit.renewable()), Ok(()));
        // A link that the user named is followed, to where it led then.
        std::fs::remove_file(&path).expect("remove");
        std::os::unix::fs::symlink(at("precious"), &path).expect("link");
        let permit = check(&path, std::slice::from_ref(&path)).expect("named");
        assert_eq!(open(&permit), Ok(()));
        std::fs::remove_file(&path).expect("remove");
        std::os::unix::fs::symlink(&aside, &path).expect("link");
        assert_eq!(open(&permit), Err(Unopened::Replaced));
    }
}
