//! What other users' files claim. Any of them may map a file of theirs as code into a recorded process, so whatever is read
//! of such files is bounded, and what reads it may fail, but not take the recorder along.

use std::cell::Cell;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Component, Path};

use object::{ReadCache, ReadCacheOps, ReadRef};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};

use crate::process::living_tasks;

/// The result of `work`; none if it panics, as parsers may on unforeseen files.
pub(super) fn guarded<T>(what: &str, work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    if done.is_err() {
        tracing::warn!("{what} cannot be read: its content made the parser fail; its frames have no names");
    }
    done.ok()
}

/// Opens a path as `root` (a process's root folder) has it: no link leads out of it, and no descriptor of ours is reached.
fn at_path(root: &Path, path: &Path) -> Option<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let path = path.strip_prefix("/").unwrap_or(path);
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, flags, Mode::empty(), resolve).ok().map(File::from)
}

/// The kernel's mapping at that place, whatever its name is.
fn at_mapping(task: u32, range: &Range<u64>) -> Option<File> {
    let path = format!("/proc/{task}/map_files/{:x}-{:x}", range.start, range.end);
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok().map(File::from)
}

/// Who may have written a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    /// Only those who can do anything to the recorder anyway.
    Trusted,
    /// Others, in a mount namespace of that number: the recorder's own, or a container's.
    Namespace(u64),
    /// Others; the process has ended.
    Unknown,
}

impl Origin {
    /// It is the recorder's own mount namespace.
    pub(super) fn is_at_home(self) -> bool {
        match self {
            Self::Trusted => true,
            Self::Namespace(number) => namespace("self", "mnt") == Some(number),
            Self::Unknown => false,
        }
    }
}

/// A mapped file, to be read.
pub(super) struct Opened {
    pub file: File,
    pub origin: Origin,
}

/// Opens a mapped file to be read: by its path as a living task of the process sees it, through the mapping itself, by its
/// path here. It must be a regular file with that inode. Nothing else is opened even for a moment: a fifo would block, a
/// device may do anything.
pub(super) fn open_mapped(pid: u32, range: &Range<u64>, path: &Path, ino: u64) -> Option<Opened> {
    // On file systems that hand out devices of their own (btrfs, overlayfs) only the inode can be compared.
    let is_mapped = |file: &File| file.metadata().is_ok_and(|meta| meta.is_file() && meta.ino() == ino);
    let by_task = living_tasks(pid).flat_map(|task| {
        let process_root = format!("/proc/{task}/root");
        [at_path(Path::new(&process_root), path), at_mapping(task, range)]
    });
    let by_path = std::iter::once_with(|| at_path(Path::new("/"), path));
    let held = by_task.chain(by_path).flatten().find(is_mapped)?;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{}", held.as_raw_fd()))
        .ok()?;
    let origin = origin(&file, pid);
    Some(Opened { file, origin })
}

/// The inode of the first user namespace (`PROC_USER_INIT_INO`): in any other uid 0 is somebody else.
const FIRST_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// The number of a namespace of a process: `mnt` or `user`.
fn namespace(process: &str, kind: &str) -> Option<u64> {
    std::fs::metadata(format!("/proc/{process}/ns/{kind}")).ok().map(|meta| meta.ino())
}

/// Who may have written a file that a process has mapped. Of a process that has ended nobody can say where it lived.
fn origin(file: &File, pid: u32) -> Origin {
    let lives_in = |task: u32| Some((task, namespace(&task.to_string(), "mnt")?));
    let Some((task, mounts)) = living_tasks(pid).find_map(lives_in) else { return Origin::Unknown };
    let is_at_home =
        namespace("self", "mnt") == Some(mounts) && namespace(&task.to_string(), "user") == Some(FIRST_USER_NAMESPACE);
    if is_at_home && is_trusted(file) { Origin::Trusted } else { Origin::Namespace(mounts) }
}

/// Whether only root, or the recorder's own user, can have written a file; or it is the recorder's own program.
///
/// Its owner does not say: root of a container has uid 0, too. It must lie on a mount of the recorder's own mount namespace, in the
/// first user namespace, below folders that only root or the recorder's own user can change, as the file itself.
pub(super) fn is_trusted(file: &File) -> bool {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let is_first = namespace("self", "user") == Some(FIRST_USER_NAMESPACE);
    is_first && path.is_ok_and(|path| is_reached_safely(file, &path)) || is_own_program(file)
}

/// Whether a path leads to the file, on the mount that the file was opened on, and only root or the recorder's own user can change that,
/// or the file.
fn is_reached_safely(file: &File, path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_safe = |meta: &Metadata| (meta.uid() == 0 || meta.uid() == own) && meta.mode() & 0o022 == 0;
    let (Ok(mut at), Ok(path)) = (File::open("/"), path.strip_prefix("/")) else { return false };
    for name in path.components() {
        let (Component::Normal(name), true) = (name, at.metadata().is_ok_and(|folder| is_safe(&folder))) else {
            return false;
        };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(next) = rustix::fs::openat(&at, name, flags, Mode::empty()) else { return false };
        at = File::from(next);
    }
    let is_same = identity(&at).is_some_and(|found| Some(found) == identity(file));
    is_same && at.metadata().is_ok_and(|meta| meta.is_file() && is_safe(&meta))
}

/// Mount, device and inode. The same file that a container sees is on another mount.
fn identity(file: &File) -> Option<(u64, u32, u32, u64)> {
    let wanted = StatxFlags::MNT_ID | StatxFlags::INO;
    let found = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted).ok()?;
    if found.stx_mask & wanted.bits() != wanted.bits() {
        return None;
    }
    Some((found.stx_mnt_id, found.stx_dev_major, found.stx_dev_minor, found.stx_ino))
}

/// Whether it is the recorder's own program, whose code runs anyway.
fn is_own_program(file: &File) -> bool {
    let (Ok(meta), Ok(program)) = (file.metadata(), std::fs::metadata("/proc/self/exe")) else { return false };
    (program.dev(), program.ino()) == (meta.dev(), meta.ino())
}

/// A file that is read up to a limit of bytes, whatever its headers claim.
pub(super) struct Bounded<'a, R: ReadCacheOps> {
    cache: &'a ReadCache<R>,
    left: &'a Cell<u64>,
}

/// Bytes that a string counts for: it is short, but finding it takes two system calls.
const STRING_BYTES: u64 = 4096;

impl<'a, R: ReadCacheOps> Bounded<'a, R> {
    /// Reads from `cache` until `left` is used up.
    pub(super) fn new(cache: &'a ReadCache<R>, left: &'a Cell<u64>) -> Self {
        Self { cache, left }
    }

    fn take(&self, bytes: u64) -> Result<(), ()> {
        let left = self.left.get().checked_sub(bytes).ok_or(())?;
        self.left.set(left);
        Ok(())
    }
}

impl<R: ReadCacheOps> Clone for Bounded<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: ReadCacheOps> Copy for Bounded<'_, R> {}

impl<R: ReadCacheOps> std::fmt::Debug for Bounded<'_, R> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Bounded({})", self.left.get())
    }
}

impl<'a, R: ReadCacheOps> ReadRef<'a> for Bounded<'a, R> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.take(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.take(STRING_BYTES)?;
        if range.start > range.end {
            return Err(());
        }
        self.cache.read_bytes_at_until(range, delimiter)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_the_regular_file_that_is_mapped_is_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, fifo, link) = (dir.path().join("file"), dir.path().join("fifo"), dir.path().join("link"));
        std::fs::write(&file, "x").expect("the directory is ours");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).expect("a fifo");
        symlink(&file, &link).expect("a link");
        let ino = |path: &Path| path.symlink_metadata().expect("it is there").ino();
        let open = |path: &Path, ino| open_mapped(std::process::id(), &(0..1), path, ino).is_some();
        assert!(open(&file, ino(&file)) && open(&link, ino(&file)));
        assert!(!open(&file, ino(&file) + 1), "it became another");
        // Would block for ever.
        assert!(!open(&fifo, ino(&fifo)));
        let own_fd = format!("/proc/self/fd/{}", File::open(&file).expect("it is there").as_raw_fd());
        assert!(!open(Path::new(&own_fd), ino(&file)));
    }

    #[test]
    fn a_file_is_trusted_by_the_folders_above_it_and_by_where_its_process_lives() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        // Below a folder that everybody may write to, whoever owns what is in it.
        let shared = tempfile::tempdir_in("/tmp").expect("a directory");
        let own = tempfile::tempdir_in("/usr/lib").expect("root's");
        let origin_of = |folder: &Path, pid: u32| {
            let path = folder.join("file");
            std::fs::write(&path, "x").expect("the directory is ours");
            origin(&File::open(&path).expect("ours"), pid)
        };
        let here = Origin::Namespace(namespace("self", "mnt").expect("/proc"));
        assert_eq!(origin_of(own.path(), std::process::id()), Origin::Trusted);
        assert_eq!(origin_of(shared.path(), std::process::id()), here);
        let mut apart = std::process::Command::new("unshare").args(["-m", "sleep", "60"]).spawn().expect("util-linux");
        let mut found = here;
        for _ in 0..500 {
            found = origin_of(own.path(), apart.id());
            if !matches!(found, Origin::Trusted) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        apart.kill().expect("ours");
        apart.wait().expect("ours");
        assert!(matches!(found, Origin::Namespace(_)) && found != here, "uid 0 of a container: {found:?}");
        assert_eq!(origin_of(own.path(), apart.id()), Origin::Unknown, "it has ended");
        let path = own.path().join("link");
        symlink(own.path().join("file"), &path).expect("ours");
        let file = File::open(&path).expect("ours");
        assert!(is_trusted(&file) && !is_reached_safely(&file, &path), "links are not followed");
        std::fs::set_permissions(own.path(), std::fs::Permissions::from_mode(0o1777)).expect("ours");
        assert!(!is_trusted(&file), "others may put another file there");
    }

    #[test]
    fn a_panic_ends_what_panics() {
        assert_eq!(guarded("a file", || 7), Some(7));
        assert_eq!(guarded("a file", || u8::try_from(300).expect("it is too large")), None);
    }
}
