//! What other users' files claim. Any of them may map a file of theirs as code into a recorded process, so whatever is read
//! of such files is bounded, and what reads it may fail, but not take the recorder along.

use std::cell::Cell;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use object::{ReadCache, ReadCacheOps, ReadRef};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

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
fn at_mapping(pid: u32, range: &Range<u64>) -> Option<File> {
    let path = format!("/proc/{pid}/map_files/{:x}-{:x}", range.start, range.end);
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok().map(File::from)
}

/// Opens a mapped file to be read: by its path as the process sees it, through the mapping itself, by its path here. It must
/// be a regular file with that inode. Nothing else is opened even for a moment: a fifo would block, a device may do anything.
pub(super) fn open_mapped(pid: u32, range: &Range<u64>, path: &Path, ino: u64) -> Option<File> {
    let process_root = format!("/proc/{pid}/root");
    let found = [at_path(Path::new(&process_root), path), at_mapping(pid, range), at_path(Path::new("/"), path)];
    // On file systems that hand out devices of their own (btrfs, overlayfs) only the inode can be compared.
    let is_mapped = |file: &File| file.metadata().is_ok_and(|meta| meta.is_file() && meta.ino() == ino);
    let held = found.into_iter().flatten().find(is_mapped)?;
    std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{}", held.as_raw_fd()))
        .ok()
}

/// Whether only root, or the recorder's own user, can change a file; or it is the recorder's own program, whose code runs anyway.
pub(super) fn is_trusted(file: &File) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_own_program = |meta: &Metadata| {
        std::fs::metadata("/proc/self/exe")
            .is_ok_and(|program| (program.dev(), program.ino()) == (meta.dev(), meta.ino()))
    };
    let is_safe = |meta: &Metadata| (meta.uid() == 0 || meta.uid() == own) && meta.mode() & 0o022 == 0;
    file.metadata().is_ok_and(|meta| is_safe(&meta) || is_own_program(&meta))
}

/// A file that is read up to a limit of bytes, whatever its headers claim.
pub(super) struct Bounded<'a, R: ReadCacheOps> {
    cache: &'a ReadCache<R>,
    left: &'a Cell<u64>,
}

/// Bytes of a string that are read at a time.
const STRING_BYTES: u64 = 256;

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
    use std::os::unix::fs::symlink;

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
    fn a_panic_ends_what_panics() {
        assert_eq!(guarded("a file", || 7), Some(7));
        assert_eq!(guarded("a file", || u8::try_from(300).expect("it is too large")), None);
    }
}
