//! The root folders of recorded processes, in which their files and what these refer to are looked for.
//!
//! A path that a file names is another's claim. It is resolved below the root of the process that has the file mapped: no link leads
//! out of it, and nothing but a regular file is opened, not even for a moment: a fifo would block, a device may do anything.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};

/// Root folders that are kept open; of processes with another root nothing is looked for beside the file itself.
const ROOTS_MAX: usize = 256;

/// Device, inode and mount: two namespaces may have the same folder as their root.
type Identity = (u32, u32, u64, u64);

/// The root folder of one or more processes.
#[derive(Debug)]
pub(super) struct Root {
    dir: File,
    identity: Option<Identity>,
    /// Its path from here, if it is below a root that is ours: of a process in a chroot files are told by their whole path.
    prefix: Vec<u8>,
}

impl Root {
    /// The folder at a path.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let dir = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
        // What is cached will do: a file system in user space is asked nothing.
        let found = rustix::fs::statx(
            &dir,
            "",
            AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC,
            StatxFlags::INO | StatxFlags::MNT_ID,
        );
        let identity = found.ok().map(|stat| (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino, stat.stx_mnt_id));
        let prefix = std::fs::read_link(path).map(|path| path.into_os_string().into_vec()).unwrap_or_default();
        let prefix = if prefix == b"/" { Vec::new() } else { prefix };
        Some(Self { dir: File::from(dir), identity, prefix })
    }

    /// Whether both are the same folder of the same mount.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.identity.is_some() && self.identity == other.identity
    }

    /// The regular file at a path, as the processes with this root see it.
    pub(super) fn open(&self, path: &Path) -> Option<File> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let held = rustix::fs::openat2(&self.dir, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).ok()?;
        let held = File::from(held);
        held.metadata().ok().filter(std::fs::Metadata::is_file)?;
        std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(format!("/proc/self/fd/{}", held.as_raw_fd()))
            .ok()
    }

    /// The path that processes with this root have for a file, whose path may have been told from outside of it.
    pub(super) fn inner<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let bytes = path.as_os_str().as_bytes();
        let rest = bytes.strip_prefix(self.prefix.as_slice()).filter(|_| !self.prefix.is_empty())?;
        rest.starts_with(b"/").then(|| Path::new(OsStr::from_bytes(rest)))
    }
}

/// The roots of all recorded processes, each once.
#[derive(Debug, Default)]
pub(super) struct Roots {
    all: Vec<Arc<Root>>,
}

impl Roots {
    /// The root of a process that is alive; none if it is gone or there are too many.
    pub(super) fn of(&mut self, pid: u32) -> Option<Arc<Root>> {
        let root = Root::at(Path::new(&format!("/proc/{pid}/root")))?;
        if let Some(known) = self.all.iter().find(|known| known.is(&root)) {
            return Some(Arc::clone(known));
        }
        if self.all.len() >= ROOTS_MAX {
            return None;
        }
        let root = Arc::new(root);
        self.all.push(Arc::clone(&root));
        Some(root)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_of_a_root_and_nothing_but_a_file_is_opened() {
        let outside = tempfile::tempdir().expect("a folder");
        let dir = outside.path().join("root");
        std::fs::create_dir(&dir).expect("ours");
        std::fs::write(outside.path().join("secret"), "x").expect("ours");
        std::fs::write(dir.join("file"), "y").expect("ours");
        symlink(outside.path().join("secret"), dir.join("out")).expect("ours");
        symlink("../../../secret", dir.join("up")).expect("ours");
        symlink("/file", dir.join("in")).expect("ours");
        rustix::fs::mknodat(CWD, dir.join("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).expect("a fifo");
        let root = Root::at(&dir).expect("it is there");
        let opened = |path: &str| root.open(Path::new(path)).is_some();
        assert!(opened("/file") && opened("file") && opened("/in") && opened("../../file"));
        for path in ["/out", "/up", "/fifo", "/", "/none", "/proc/self/exe"] {
            assert!(!opened(path), "{path}");
        }
    }

    #[test]
    fn a_root_is_kept_once() {
        let mut roots = Roots::default();
        let (one, again) = (roots.of(std::process::id()), roots.of(std::process::id()));
        let (one, again) = (one.expect("we are alive"), again.expect("we are alive"));
        assert!(Arc::ptr_eq(&one, &again) && one.is(&Root::at(Path::new("/")).expect("ours")));
        assert_eq!(one.inner(Path::new("/usr/bin/x")), None, "it has the same path there");
    }
}
