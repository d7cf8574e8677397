//! The folders in which journals and locks lie.
//!
//! A journal is an order to write settings as root, so it is believed only where nobody else can have put it: the
//! folder and the file belong to the user of this process, nobody else may write them, and neither is a link.
//!
//! Journals lie in the *state folder*, which the user may choose (`PAGELAB_STATE_DIR`). Locks lie in the *registry*:
//! one folder for each running kernel, `/run/pagelab` of the host, whatever the state folder is. So two pagelabs with
//! different state folders, or in different mount namespaces, cannot hold one setting at the same time.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat};

use super::{GuardError, state_error};
use pagelab_residency::mounts::{Mount, table};

/// The registry, seen from the mount namespace of the host.
pub(super) const REGISTRY: &str = "/run/pagelab";

/// Inode of the first PID namespace of every kernel (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// An open folder that belongs to this user alone.
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder, after making it and those above it if need be. `mode` is that of the folder if it is made.
    ///
    /// # Errors
    /// `PermissionDenied` with the owner found if others could have written it; what the kernel says otherwise.
    pub(crate) fn make(path: &Path, mode: u32) -> io::Result<Self> {
        if !path.is_dir() {
            DirBuilder::new().recursive(true).mode(mode).create(path)?;
        }
        Self::open(path)
    }

    /// Opens the folder. Errors as [`Folder::make`].
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let folder = Folder { fd, path: path.to_owned() };
        belongs_to_us(&File::from(folder.fd.try_clone()?), path)?;
        Ok(folder)
    }

    /// The names in it, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = rustix::fs::Dir::read_from(self.fd.as_fd())
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name != "." && name != "..")
            .collect();
        names.sort_unstable();
        names
    }

    /// The path of a name in it.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file in it for reading and, if `append`, for adding to its end.
    ///
    /// # Errors
    /// As [`Folder::make`]; a link, a pipe or a device is refused like a file of another user.
    pub(crate) fn file(&self, name: &str, append: bool) -> io::Result<File> {
        let access = if append { OFlags::RDWR | OFlags::APPEND } else { OFlags::RDONLY };
        self.open_at(name, access)
    }

    /// Opens a file in it for reading and writing, and makes it if need be.
    pub(super) fn file_or_new(&self, name: &str) -> io::Result<File> {
        self.open_at(name, OFlags::RDWR | OFlags::CREATE)
    }

    /// Makes a file that is not there yet.
    pub(crate) fn new_file(&self, name: &str) -> io::Result<File> {
        self.open_at(name, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL)
    }

    fn open_at(&self, name: &str, access: OFlags) -> io::Result<File> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?);
        let path = self.path_of(name);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not a file", path.display())));
        }
        belongs_to_us(&file, &path)?;
        Ok(file)
    }

    /// Gives a file another name. A file of that name is replaced.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Removes a file.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }
}

/// Opens a file of a state folder by its path: see [`Folder::file`].
pub(super) fn open_file(path: &Path, append: bool) -> io::Result<File> {
    let name = path.file_name().and_then(|name| name.to_str());
    let (Some(parent), Some(name)) = (path.parent(), name) else { return Err(io::ErrorKind::InvalidInput.into()) };
    Folder::open(parent)?.file(name, append)
}

/// Refuses what somebody else owns or may write: nothing in it can be believed.
fn belongs_to_us(file: &File, path: &Path) -> io::Result<()> {
    let (found, own) = (file.metadata()?, rustix::process::geteuid().as_raw());
    if found.uid() == own && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let (uid, mode) = (found.uid(), found.mode() & 0o7777);
    let reason = format!(
        "found {} of user {uid} with mode {mode:04o}, needed one of user {own} that nobody else may write",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// The folder [`REGISTRY`] of the host as this process sees it; `None` if it cannot: in a container (a PID namespace of
/// its own), or in a mount namespace with another /run if the host's may not be looked into.
fn of_host() -> Option<PathBuf> {
    if std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link != Path::new(FIRST_PID_NAMESPACE)) {
        return None;
    }
    let here = PathBuf::from(REGISTRY);
    // Who may not read these two tables cannot change settings either.
    let (Ok(own), Ok(host)) = (table(Path::new("/"), None), table(Path::new("/"), Some(1))) else { return Some(here) };
    if mount_of(&own, REGISTRY) == mount_of(&host, REGISTRY) {
        return Some(here);
    }
    let there = format!("/proc/1/root{REGISTRY}");
    let parent = Path::new(&there).parent()?;
    std::fs::metadata(parent).is_ok().then(|| PathBuf::from(there))
}

/// Which part of which file system a path is on: device, and the folder that is mounted there.
fn mount_of<'a>(mounts: &'a [Mount], path: &str) -> Option<(&'a str, &'a str)> {
    let covers = |mount: &&Mount| Path::new(path).starts_with(&mount.mountpoint);
    // If several mounts are at one place the later one lies on top, and `max_by_key` takes that one.
    let mount = mounts.iter().filter(covers).max_by_key(|mount| mount.mountpoint.len())?;
    Some((&mount.device, &mount.root))
}

/// The registry of the kernel below `root`; that of the running kernel is the host's, also from another mount namespace.
pub(super) fn registry(root: &Path) -> PathBuf {
    if root == Path::new("/") {
        return of_host().unwrap_or_else(|| PathBuf::from(REGISTRY));
    }
    root.join(REGISTRY.trim_start_matches('/'))
}

/// Makes the registry, and says where locks go: there, or where it cannot be made, into the state folder.
///
/// # Errors
/// Where the host's is out of reach, only a state folder that the user has named is taken: it may be one that the host
/// shares.
pub(super) fn lock_folder(root: &Path, state_dir: &Path) -> Result<PathBuf, GuardError> {
    if root == Path::new("/") && of_host().is_none() {
        if state_dir == Path::new(REGISTRY) {
            return Err(GuardError::Contained);
        }
        return Ok(state_dir.to_owned());
    }
    let registry = registry(root);
    match Folder::make(&registry, 0o755) {
        Ok(_) => Ok(registry),
        Err(error) => {
            tracing::warn!(
                "cannot register changes in {}: {}; another pagelab with another state folder would not see them",
                registry.display(),
                crate::settings::plain(&error)
            );
            Folder::make(state_dir, 0o700).map_err(|error| state_error(state_dir, &error))?;
            Ok(state_dir.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_folders_and_files_of_our_own_are_taken() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let state = folder.path().join("a/state");
        let made = Folder::make(&state, 0o700).expect("made");
        made.new_file("own").expect("made");
        assert!(made.new_file("own").is_err(), "it is there already");
        assert_eq!(made.names(), ["own"]);
        std::os::unix::fs::symlink(state.join("own"), state.join("link")).expect("a link");
        assert!(made.file("link", false).is_err(), "a link is not followed");
        std::os::unix::fs::symlink(&state, folder.path().join("link")).expect("a link");
        assert!(Folder::open(&folder.path().join("link")).is_err(), "a link is not followed");

        std::fs::set_permissions(state.join("own"), std::fs::Permissions::from_mode(0o666)).expect("own");
        let error = made.file("own", false).expect_err("others may write it").to_string();
        assert!(error.contains("mode 0666") && error.contains("nobody else may write"), "{error}");
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o777)).expect("own");
        assert!(Folder::open(&state).is_err(), "others may write it");
        assert!(Folder::make(&state, 0o700).is_err(), "others may write it");
    }

    #[test]
    fn the_registry_belongs_to_the_kernel() {
        assert_eq!(registry(Path::new("/some/root")), Path::new("/some/root/run/pagelab"));
        assert!(registry(Path::new("/")).ends_with("run/pagelab"));
    }
}
