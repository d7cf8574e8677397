//! The owner of a recording's files that root makes on behalf of another user: the one who called sudo.
//!
//! The files are not made by root and given away afterwards. The thread that makes them has that user's rights for as
//! long as it does ([`Caller::run`]): so they belong to the user from the first moment, also when the recorder is
//! killed, and no link that the user has put there leads root to a file that is not the user's. Where that user may not
//! write, root makes the directory and gives it away while it is empty.
//!
//! What other parts of the program write as root, such as the files of a set, is given away in the end
//! ([`hand_over`]): only regular files and directories of root's, with one name, made since the work began.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pagelab_vocab::terminal::shell_path;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, StatxFlags, Uid, chownat, fstat, openat, statx};

/// The clock of file systems is that much behind at most.
const CLOCK_SLACK: Duration = Duration::from_millis(50);

/// The user who called sudo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    uid: u32,
    gid: u32,
    groups: Vec<libc::gid_t>,
}

/// Puts root's rights back, whatever happens.
struct Root {
    groups: Vec<libc::gid_t>,
}

impl Drop for Root {
    fn drop(&mut self) {
        set_rights(0, 0, &self.groups);
    }
}

/// Rights at files and supplementary groups of this thread alone; the C library would change those of all threads.
fn set_rights(uid: u32, gid: u32, groups: &[libc::gid_t]) {
    // SAFETY: the calls take numbers and a list that lives until they return. They change this thread's rights at files
    // and no memory. Their results are what Caller::run looks at.
    unsafe {
        if uid == 0 {
            libc::setfsuid(uid);
        }
        libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr());
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
}

fn own_groups() -> Vec<libc::gid_t> {
    let groups = rustix::process::getgroups().unwrap_or_default();
    groups.into_iter().map(Gid::as_raw).collect()
}

/// The groups of a user, by the system's own list.
fn groups_of(user: &str, gid: u32) -> Vec<libc::gid_t> {
    let Ok(user) = CString::new(user) else { return vec![gid] };
    let mut groups = vec![0; 256];
    let mut count = groups.len() as libc::c_int;
    // SAFETY: the name is a C string, and the list has as many places as count says; both outlive the call.
    let found = unsafe { libc::getgrouplist(user.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
    if found < 0 {
        return vec![gid];
    }
    groups.truncate(count.max(0) as usize);
    groups
}

impl Caller {
    /// The user who called sudo; none if this process is not root or has not become it by sudo.
    pub fn of_sudo() -> Option<Self> {
        if !rustix::process::getuid().is_root() || !rustix::process::geteuid().is_root() {
            return None;
        }
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        // sudo sets all three. One alone is a leftover of something else.
        let (user, uid, gid) = (std::env::var("SUDO_USER").ok()?, number("SUDO_UID")?, number("SUDO_GID")?);
        let caller = Self { uid, gid, groups: groups_of(&user, gid) };
        // In a user namespace there may be no such user.
        (uid != 0 && uid != u32::MAX && caller.run(has_rights_of(uid))).then_some(caller)
    }

    /// The user who called sudo, if a recording is theirs already.
    pub fn owning(dir: &Path) -> Option<Self> {
        let owner = std::fs::symlink_metadata(dir).ok()?.uid();
        Self::of_sudo().filter(|caller| caller.uid == owner)
    }

    /// The user's number.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Does `work` with this user's rights at files: files it makes belong to the user.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let _root = Root { groups: own_groups() };
        set_rights(self.uid, self.gid, &self.groups);
        work()
    }

    /// Whether this user can have a recording at `out`, with all that is made in it. Where only the directory's parent
    /// is in the way, root makes the directory.
    pub fn takes(&self, out: &Path) -> bool {
        let may = |path: &Path, access| self.run(|| thread_may(path, access));
        let all = libc::R_OK | libc::W_OK | libc::X_OK;
        if out.exists() || out.is_symlink() {
            return may(out, all);
        }
        let above = out.ancestors().skip(1).map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
        let Some(above) = above.into_iter().find(|dir| dir.exists()) else { return false };
        if may(above, libc::W_OK | libc::X_OK) {
            return true;
        }
        may(above, libc::X_OK) && self.make(out).is_ok()
    }

    fn make(&self, out: &Path) -> io::Result<()> {
        if let Some(parent) = out.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent)?;
        }
        rustix::fs::mkdirat(CWD, out, Mode::RWXU)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(CWD, out, flags, Mode::empty())?;
        let is_empty =
            Dir::read_from(&made)?.all(|entry| entry.is_ok_and(|entry| is_dots(entry.file_name().to_bytes())));
        if !is_empty || fstat(&made)?.st_uid != 0 {
            return Err(io::Error::other("something else was put in its place"));
        }
        self.give(&made)
    }

    fn give(&self, file: impl AsFd) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        Ok(chownat(file, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?)
    }
}

/// Whether this thread has these rights at the path. faccessat2(2) itself: libraries ask faccessat(2) where the process's
/// effective and real user are the same, which knows nothing of a thread's own user at files.
fn thread_may(path: &Path, access: libc::c_int) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is a C string that outlives the call, which reads it and writes nothing.
    let result =
        unsafe { libc::syscall(libc::SYS_faccessat2, libc::AT_FDCWD, path.as_ptr(), access, libc::AT_EACCESS) };
    result == 0
}

fn has_rights_of(uid: u32) -> impl FnOnce() -> bool {
    // SAFETY: the call takes a number; one that is no user's changes nothing and gives the present one.
    move || unsafe { libc::setfsuid(u32::MAX) } as u32 == uid
}

/// Does `work` with the rights of `caller`, if there is one.
pub fn with_rights<T>(caller: Option<&Caller>, work: impl FnOnce() -> T) -> T {
    match caller {
        Some(caller) => caller.run(work),
        None => work(),
    }
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Gives a directory and its contents to the user who called sudo, when it is dropped: also where the work in it fails.
#[derive(Debug)]
pub struct HandOver<'a> {
    dir: &'a Path,
    since: SystemTime,
    caller: Option<Caller>,
}

impl<'a> HandOver<'a> {
    /// To be made before anything is made in `dir`, which need not exist. Without sudo it does nothing.
    pub fn of(dir: &'a Path) -> Self {
        Self { dir, since: SystemTime::now(), caller: Caller::of_sudo() }
    }
}

impl Drop for HandOver<'_> {
    fn drop(&mut self) {
        let Some(caller) = &self.caller else { return };
        match hand_over(self.dir, caller, self.since) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let (dir, uid, word) = (self.dir.display(), caller.uid, shell_path(self.dir));
                tracing::warn!("{dir} stays root's ({error}); to have it, type: sudo chown -R {uid} {word}");
            }
            _ => {}
        }
    }
}

/// Gives what root has made in and below `dir` since then to `caller`.
///
/// # Errors
/// The first file that could not be given; the others are tried all the same.
pub fn hand_over(dir: &Path, caller: &Caller, since: SystemTime) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = openat(CWD, dir, flags, Mode::empty())?;
    give_tree(&top, caller, since.checked_sub(CLOCK_SLACK).unwrap_or(UNIX_EPOCH))
}

/// What is in a directory is given before the directory: until then nobody but root can put anything into it.
fn give_tree(file: &OwnedFd, caller: &Caller, since: SystemTime) -> io::Result<()> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW, wanted)?;
    let kind = FileType::from_raw_mode(found.stx_mode.into());
    let mut result = Ok(());
    if kind == FileType::Directory && (found.stx_uid == 0 || found.stx_uid == caller.uid) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for entry in Dir::new(openat(file, c".", flags, Mode::empty())?)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_dots(name.to_bytes()) {
                continue;
            }
            let below = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let given = openat(file, name, below, Mode::empty())
                .map_err(io::Error::from)
                .and_then(|below| give_tree(&below, caller, since));
            result = result.and(given);
        }
    }
    let one_name = kind == FileType::Directory || (kind == FileType::RegularFile && found.stx_nlink == 1);
    let born = UNIX_EPOCH + Duration::new(found.stx_btime.tv_sec.max(0) as u64, found.stx_btime.tv_nsec);
    let is_new = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME) && born >= since;
    if found.stx_uid == 0 && one_name && is_new { result.and(caller.give(file)) } else { result }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn caller() -> Caller {
        Caller { uid: 1000, gid: 1000, groups: vec![1000] }
    }

    fn owner(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("it is there").uid()
    }

    #[test]
    fn what_is_made_with_the_callers_rights_is_the_callers() {
        let tmp = tempfile::tempdir().expect("a directory");
        fs::set_permissions(tmp.path(), fs::Permissions::from_mode(0o777)).expect("ours");
        let made = tmp.path().join("made");
        assert!(caller().takes(&made) && !made.exists());
        caller().run(|| fs::write(&made, "x")).expect("everybody may");
        assert_eq!(owner(&made), 1000);
        // Root's rights are back, and the caller's were no more than the caller's.
        let secret = tmp.path().join("secret");
        fs::write(&secret, "x").expect("ours");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("ours");
        assert_eq!(owner(&secret), 0);
        assert!(caller().run(|| fs::read(&secret)).is_err() && fs::read(&secret).is_ok());
    }

    #[test]
    fn where_the_caller_may_not_write_root_makes_the_directory() {
        let tmp = tempfile::tempdir().expect("a directory");
        let out = tmp.path().join("out");
        fs::set_permissions(tmp.path(), fs::Permissions::from_mode(0o700)).expect("ours");
        assert!(!caller().takes(&out) && !out.exists(), "the caller cannot even come there");
        fs::set_permissions(tmp.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        assert!(caller().takes(&out));
        assert_eq!((owner(&out), fs::metadata(&out).expect("made").mode() & 0o777), (1000, 0o700));
    }

    /// The caller may write where root works, and would like to have root's secrets.
    #[test]
    fn only_what_root_made_meanwhile_is_handed_over() {
        let tmp = tempfile::tempdir().expect("a directory");
        let (secret, set) = (tmp.path().join("secret"), tmp.path().join("set"));
        fs::write(&secret, "x").expect("ours");
        let since = SystemTime::now() + CLOCK_SLACK;
        while SystemTime::now() <= since + CLOCK_SLACK {
            std::thread::yield_now();
        }
        fs::create_dir_all(set.join("variant=a/run=001")).expect("ours");
        fs::write(set.join("variant=a/run=001/manifest.json"), "{}").expect("ours");
        fs::hard_link(&secret, set.join("linked")).expect("one file system");
        symlink(&secret, set.join("pointer")).expect("ours");
        fs::rename(&secret, set.join("moved")).expect("ours");
        fs::remove_file(set.join("linked")).expect("ours");
        fs::hard_link(set.join("variant=a/run=001/manifest.json"), set.join("twice")).expect("ours");
        fs::write(set.join("set.json"), "{}").expect("ours");
        hand_over(&set, &caller(), since).expect("root may");
        for (name, uid) in [("", 1000), ("set.json", 1000), ("variant=a/run=001", 1000), ("moved", 0), ("twice", 0)] {
            assert_eq!(owner(&set.join(name)), uid, "{name}");
        }
        assert_eq!(owner(&set.join("pointer")), 0);
    }
}
