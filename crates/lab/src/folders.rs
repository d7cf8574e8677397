//! Where things lie: what may be fetched again (the cache), and what a lab that is up needs (its run folder).

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{LabError, Result};
use crate::options::check_name;

/// The two folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    /// Package lists, packages, unpacked kernels; all of it may be deleted while no lab is coming up.
    pub cache: PathBuf,
    /// One folder for each lab.
    pub run: PathBuf,
}

impl Folders {
    /// `$PAGELAB_LAB_DIR/{cache,run}`; else for root /var/cache/pagelab/lab and /run/pagelab/lab, for others what XDG
    /// says: `$XDG_CACHE_HOME` or ~/.cache, and `$XDG_RUNTIME_DIR` or the cache again.
    pub fn find() -> Self {
        let root = rustix::process::geteuid().is_root();
        Self::from(root, |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
    }

    fn from(root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        if let Some(dir) = variable("PAGELAB_LAB_DIR") {
            let dir = std::path::absolute(&dir).unwrap_or(dir);
            return Folders { cache: dir.join("cache"), run: dir.join("run") };
        }
        if root {
            return Folders { cache: "/var/cache/pagelab/lab".into(), run: "/run/pagelab/lab".into() };
        }
        let home = || variable("HOME").unwrap_or_else(|| "/".into()).join(".cache");
        let cache = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute()).unwrap_or_else(home);
        let cache = cache.join("pagelab/lab");
        let run = variable("XDG_RUNTIME_DIR").filter(|path| path.is_absolute());
        Folders { run: run.map_or_else(|| cache.join("run"), |run| run.join("pagelab/lab")), cache }
    }

    /// The folder of one lab.
    pub(crate) fn lab(&self, name: &str) -> Result<PathBuf> {
        check_name(name)?;
        Ok(self.run.join(name))
    }
}

/// Makes a folder that others may read: the package manager's own user fetches into it. What lies in it is run as root
/// (makefiles), so one that somebody else has made, or may write into, is refused.
pub(crate) fn make_open(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(LabError::io(path))?;
    let own = rustix::process::geteuid().as_raw();
    let mut found = fs::symlink_metadata(path).map_err(LabError::io(path))?;
    // A link of this user's own leads where this user meant: to a cache on another disk, say.
    if found.is_symlink() && found.uid() == own {
        found = fs::metadata(path).map_err(LabError::io(path))?;
    }
    let mode = found.mode() & 0o7777;
    if found.is_dir() && found.uid() == own && mode & 0o022 == 0 {
        return check_way(path);
    }
    let kind = if found.is_dir() { "a folder" } else { "something that is no folder" };
    let why = format!(
        "found {kind} of user {} with mode {mode:04o}, needed a folder of user {own} that nobody else may write; name another one: PAGELAB_LAB_DIR",
        found.uid()
    );
    Err(LabError::Io { path: path.display().to_string(), why })
}

/// Makes a folder for this user alone: whoever can speak to the lab's socket is root in the guest, and writes to the
/// shared folder. One that somebody else has made is refused.
pub(crate) fn make_private(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(LabError::io(path))?;
    let found = fs::symlink_metadata(path).map_err(LabError::io(path))?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(LabError::Io { path: path.display().to_string(), why: "not a folder of this user's".to_owned() });
    }
    check_way(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(LabError::io(path))
}

/// Everything in these folders is reached by its path. That is safe while nobody else can put another folder in the place of
/// one on the way: each belongs to root or to this user, and others may write into it only if it is sticky, as /tmp is.
fn check_way(path: &Path) -> Result<()> {
    let real = fs::canonicalize(path).map_err(LabError::io(path))?;
    let own = rustix::process::geteuid().as_raw();
    for folder in real.ancestors().skip(1) {
        let found = fs::metadata(folder).map_err(LabError::io(folder))?;
        let mode = found.mode() & 0o7777;
        if ![0, own].contains(&found.uid()) || mode & 0o022 != 0 && mode & 0o1000 == 0 {
            let why = format!(
                "found user {} with mode {mode:04o}, who can put another folder in the place of {}, needed a way that only root and user {own} can change; name another folder: PAGELAB_LAB_DIR",
                found.uid(),
                path.display()
            );
            return Err(LabError::Io { path: folder.display().to_string(), why });
        }
    }
    Ok(())
}

/// Opens a file to lock it.
pub(crate) fn lock_file(path: &Path) -> Result<File> {
    File::options().create(true).truncate(false).write(true).open(path).map_err(LabError::io(path))
}

/// Writes a file that is there whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, bytes).map_err(LabError::io(&temporary))?;
    fs::rename(&temporary, path).map_err(LabError::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(root: bool, variables: &[(&str, &str)]) -> (String, String) {
        let variables: Vec<(String, PathBuf)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), PathBuf::from(value))).collect();
        let found = Folders::from(root, |asked| {
            variables.iter().find(|(name, _)| name == asked).map(|(_, value)| value.clone())
        });
        (found.cache.display().to_string(), found.run.display().to_string())
    }

    #[test]
    fn folders_follow_the_user_and_the_environment() {
        let both = |cache: &str, run: &str| (cache.to_owned(), run.to_owned());
        assert_eq!(folders(true, &[]), both("/var/cache/pagelab/lab", "/run/pagelab/lab"));
        assert_eq!(folders(true, &[("PAGELAB_LAB_DIR", "/x")]), both("/x/cache", "/x/run"));
        let home = ("HOME", "/home/u");
        assert_eq!(folders(false, &[home]), both("/home/u/.cache/pagelab/lab", "/home/u/.cache/pagelab/lab/run"));
        let runtime = ("XDG_RUNTIME_DIR", "/run/user/7");
        assert_eq!(folders(false, &[home, runtime]), both("/home/u/.cache/pagelab/lab", "/run/user/7/pagelab/lab"));
        // XDG: what is not absolute counts as not set.
        assert_eq!(folders(false, &[home, ("XDG_CACHE_HOME", "x")]).0, "/home/u/.cache/pagelab/lab");
    }

    #[test]
    fn a_folder_that_somebody_else_has_made_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/cache");
        make_open(&path).expect("made");
        make_open(&path).expect("it is there");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("own");
        let error = make_open(&path).expect_err("others may write it").to_string();
        assert!(error.contains("mode 0777") && error.contains("PAGELAB_LAB_DIR"), "{error}");
        std::os::unix::fs::symlink("/tmp", folder.path().join("link")).expect("a link");
        assert!(make_open(&folder.path().join("link")).is_err(), "a link is not followed");
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("own");
            let way = folder.path().join("a");
            std::os::unix::fs::chown(&way, Some(65534), None).expect("root");
            for make in [make_open, make_private] {
                let error = make(&path).expect_err("user 65534 can move it away").to_string();
                assert!(error.contains("user 65534") && error.contains("PAGELAB_LAB_DIR"), "{error}");
            }
            std::os::unix::fs::chown(&way, Some(0), None).expect("root");
            std::os::unix::fs::chown(&path, Some(65534), None).expect("root");
            assert!(make_open(&path).is_err(), "it is somebody else's");
        }
    }

    #[test]
    fn a_folder_of_the_lab_is_for_its_user_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/b");
        make_private(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o700);
        std::os::unix::fs::symlink("/tmp", folder.path().join("link")).expect("a link");
        assert!(make_private(&folder.path().join("link")).is_err(), "a link is not followed");
    }
}
