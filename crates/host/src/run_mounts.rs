//! Mount options of a run's own: what `mount.<mountpoint>.options` settings of a plan become.
//!
//! A process that is to have other options gets a mount namespace of its own (mount_namespaces(7)): a copy of the recorder's table, into
//! which mounts of the host still come and from which none go out. The namespace ends with its processes, so nothing is put back.
//!
//! Options are of two kinds. Those of a mount (`ro`, `noatime`, `nosuid` ...) are of one place in one namespace and can be changed there.
//! Those of the file system (`discard`, `sync`, `commit=30`, `huge=always`) are of its one superblock, which all namespaces share: the
//! process cannot have them to itself, and a setting that asks for another one is refused.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

use pagelab_residency::mounts::{Mount, of_path, table};

/// Options of which a mount has one, each with the flag that it is asked for by (mount(2)); where the kernel names none, it has the first.
type Group = &'static [(&'static str, libc::c_ulong)];

const ACCESS: Group = &[("rw", 0), ("ro", libc::MS_RDONLY)];
const GROUPS: &[Group] = &[
    ACCESS,
    &[("suid", 0), ("nosuid", libc::MS_NOSUID)],
    &[("dev", 0), ("nodev", libc::MS_NODEV)],
    &[("exec", 0), ("noexec", libc::MS_NOEXEC)],
    &[("symfollow", 0), ("nosymfollow", MS_NOSYMFOLLOW)],
    &[("strictatime", libc::MS_STRICTATIME), ("relatime", libc::MS_RELATIME), ("noatime", libc::MS_NOATIME)],
    &[("diratime", 0), ("nodiratime", libc::MS_NODIRATIME)],
];
/// include/uapi/linux/mount.h, since 5.10.
const MS_NOSYMFOLLOW: libc::c_ulong = 256;

/// Which of a group's options the words name.
fn named(group: Group, words: &[String]) -> Option<(&'static str, libc::c_ulong)> {
    group.iter().find(|(option, _)| words.iter().any(|word| word == option)).copied()
}

fn is_of_mount(word: &str) -> bool {
    GROUPS.iter().any(|group| group.iter().any(|(option, _)| *option == word))
}

/// Options that a process is to see, by mount point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MountOptions {
    asked: BTreeMap<String, Vec<String>>,
}

impl MountOptions {
    /// Takes options, separated by commas; the error says what is needed instead.
    pub(crate) fn take(&mut self, mountpoint: &str, value: &str) -> Result<(), &'static str> {
        let words: Vec<String> = value.split(',').map(|word| word.trim().to_owned()).collect();
        if !mountpoint.starts_with('/') || words.iter().any(String::is_empty) {
            return Err(
                "options separated by commas, such as noatime or nodev,relatime,rw, of an absolute mount point",
            );
        }
        let several =
            |group: &&Group| group.iter().filter(|(option, _)| words.iter().any(|word| word == option)).count() > 1;
        if GROUPS.iter().any(|group| several(&group)) {
            return Err("one of rw and ro, and one of noatime, relatime and strictatime");
        }
        self.asked.insert(mountpoint.to_owned(), words);
        Ok(())
    }

    /// What is to be done for it in the mounts of the host under `root`.
    ///
    /// # Errors
    /// Nothing is mounted there, the option is the file system's, or this is not root.
    pub(crate) fn prepare(&self, root: &Path) -> io::Result<RunMounts> {
        if self.asked.is_empty() {
            return Ok(RunMounts::default());
        }
        let refused = |kind, place: &str, why: String| io::Error::new(kind, format!("mount.{place}.options: {why}"));
        let mounts = table(root, None)?;
        let mut changes = Vec::new();
        for (place, words) in &self.asked {
            // The last one lies on top.
            let mount = mounts.iter().rfind(|mount| mount.mountpoint == *place);
            let mount = mount.ok_or_else(|| refused(io::ErrorKind::NotFound, place, not_mounted(&mounts, place)))?;
            let flags = flags(mount, words).map_err(|why| refused(io::ErrorKind::Unsupported, place, why))?;
            if !rustix::process::geteuid().is_root() {
                let why = "found no rights to make a mount namespace; needed: root, try: sudo pagelab ...".to_owned();
                return Err(refused(io::ErrorKind::PermissionDenied, place, why));
            }
            let place = CString::new(place.as_str())?;
            changes.push(Change { place, flags, words: words.clone() });
        }
        Ok(RunMounts { changes })
    }
}

fn not_mounted(mounts: &[Mount], place: &str) -> String {
    let nearest = of_path(mounts, Path::new(place)).map(|mount| format!(", such as {}", mount.mountpoint));
    format!("found nothing mounted at {place}; needed: a mount point{}; see: findmnt", nearest.unwrap_or_default())
}

/// The flags of a mount that has the options `words` and keeps those of its own that these say nothing of. A list that says `rw` or `ro`
/// is a whole one, as snapshots have it: what it does not name is off.
fn flags(mount: &Mount, words: &[String]) -> Result<libc::c_ulong, String> {
    let has = |word: &String| mount.fs_options.contains(word) || mount.options.contains(word);
    if let Some(word) = words.iter().find(|word| !is_of_mount(word) && !has(word)) {
        return Err(format!(
            "found no option {word} of the mounted {fs}, and it is not one of a mount; needed: an option of the mount (ro, noatime, \
             relatime, strictatime, nodiratime, nosuid, nodev, noexec, nosymfollow), since those of a file system are the same for \
             every process of the host: give it {word} in `prepare` and take it back in `cleanup`",
            fs = mount.fs
        ));
    }
    if words.iter().any(|word| word == "rw") && mount.fs_options.iter().any(|option| option == "ro") {
        return Err(format!("found the {} itself read-only; needed: a file system that can be written to", mount.fs));
    }
    let is_whole = named(ACCESS, words).is_some();
    let of_group = |group: &Group| {
        let default = group.first().map_or(0, |(_, flag)| *flag);
        let kept = || if is_whole { None } else { named(group, &mount.options) };
        named(group, words).or_else(kept).map_or(default, |(_, flag)| flag)
    };
    Ok(GROUPS.iter().map(of_group).fold(0, |all, flag| all | flag))
}

/// One mount, changed.
#[derive(Debug, Clone)]
struct Change {
    place: CString,
    flags: libc::c_ulong,
    words: Vec<String>,
}

/// What becomes of the mounts of a process between fork and exec.
#[derive(Debug, Clone, Default)]
pub struct RunMounts {
    changes: Vec<Change>,
}

impl RunMounts {
    /// Gives the calling process a mount namespace of its own, and the mounts there their options. For use between fork and exec: it
    /// makes system calls and nothing else.
    ///
    /// # Errors
    /// What the kernel says: EPERM without CAP_SYS_ADMIN.
    pub fn apply_in_child(&self) -> io::Result<()> {
        let told = |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        if self.changes.is_empty() {
            return Ok(());
        }
        // SAFETY: unshare takes a number. Nothing but the namespace of this process is changed.
        told(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        let mount = |place: &std::ffi::CStr, flags| {
            let none = std::ptr::null();
            // SAFETY: the path is a string that ends in NUL; null is taken for what a change of flags does not need (mount(2)).
            told(unsafe { libc::mount(none, place.as_ptr(), none, flags, none.cast()) })
        };
        mount(c"/", libc::MS_REC | libc::MS_SLAVE)?;
        for change in &self.changes {
            mount(&change.place, libc::MS_REMOUNT | libc::MS_BIND | change.flags)?;
        }
        Ok(())
    }

    /// Looks at what the process `pid` has got.
    ///
    /// # Errors
    /// An option is another one than was asked for.
    pub fn check(&self, pid: u32) -> io::Result<()> {
        if self.changes.is_empty() {
            return Ok(());
        }
        let mounts = table(Path::new("/"), Some(pid))?;
        for change in &self.changes {
            let place = PathBuf::from(change.place.to_string_lossy().into_owned());
            let got = mounts.iter().rfind(|mount| Path::new(&mount.mountpoint) == place);
            if got.is_none_or(|mount| flags(mount, &[]) != Ok(change.flags)) {
                let (place, asked) = (place.display(), change.words.join(","));
                let got = got.map_or_else(|| "nothing mounted there".to_owned(), |mount| mount.options.join(","));
                return Err(io::Error::other(format!("mount.{place}.options: asked for {asked}, got {got}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    fn mount(options: &str, fs_options: &str) -> Mount {
        let line = format!("29 1 254:1 / /data {options} - ext4 /dev/vdb {fs_options}");
        pagelab_residency::mounts::parse(&line).pop().expect("a line of mountinfo")
    }

    fn words(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn what_is_not_named_stays_unless_the_list_is_whole() {
        use libc::{MS_NOATIME, MS_NODEV, MS_NOSUID, MS_RDONLY, MS_RELATIME, MS_STRICTATIME};
        let data = mount("rw,nosuid,relatime", "rw,discard");
        let asked = |text: &str| flags(&data, &words(text)).expect("they can be had");
        assert_eq!(asked("noatime"), MS_NOSUID | MS_NOATIME);
        assert_eq!(asked("nodev"), MS_NOSUID | MS_NODEV | MS_RELATIME);
        assert_eq!(asked("ro,noatime"), MS_RDONLY | MS_NOATIME, "a whole list");
        assert_eq!(asked("discard,nosuid,relatime,rw"), MS_NOSUID | MS_RELATIME);
        assert_eq!(asked("discard,rw"), MS_STRICTATIME, "a mount without a word of access times has strict ones");
    }

    #[test]
    fn options_of_the_file_system_are_refused() {
        let data = mount("rw,relatime", "rw,commit=5");
        for other in ["sync", "commit=30", "discard"] {
            let why = flags(&data, &words(other)).expect_err("all would see it");
            assert!(why.contains(other) && why.contains("prepare"), "{why}");
        }
        assert!(flags(&data, &words("commit=5,noatime")).is_ok(), "it has that one");
        let why = flags(&mount("ro,relatime", "ro"), &words("rw")).expect_err("it is not writable");
        assert!(why.contains("read-only"), "{why}");
    }

    #[test]
    fn wrong_lists_are_refused_before_anything_is_made() {
        let mut options = MountOptions::default();
        for (place, value) in
            [("/data", ""), ("/data", "noatime,,rw"), ("/data", "ro,rw"), ("/data", "relatime,noatime"), ("data", "ro")]
        {
            assert!(options.take(place, value).is_err(), "{place} {value}");
        }
        options.take("/data/not/mounted", "noatime").expect("well formed");
        let error = options.prepare(Path::new("/")).map(drop).expect_err("nothing is there").to_string();
        assert!(error.contains("found nothing mounted at /data/not/mounted"), "{error}");
    }

    /// Of two mounts at one place the last one lies on top: its options are those that are kept.
    #[test]
    fn the_upper_of_two_mounts_is_changed() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().expect("tempdir");
        let proc = root.path().join("proc/self");
        std::fs::create_dir_all(&proc).expect("mkdir");
        let lines = "30 1 8:1 / /data rw,nosuid,relatime - ext4 /dev/vda rw\n31 30 8:2 / /data rw,noexec,relatime - xfs /dev/vdb rw\n";
        std::fs::write(proc.join("mountinfo"), lines).expect("write");
        let mut options = MountOptions::default();
        options.take("/data", "noatime").expect("an option");
        let mounts = options.prepare(root.path()).expect("it is there");
        assert_eq!(mounts.changes[0].flags, libc::MS_NOEXEC | libc::MS_NOATIME);
    }

    #[test]
    fn a_child_sees_other_options_and_nobody_else_does() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let of = |pid| {
            let mounts = table(Path::new("/"), pid).expect("a table");
            mounts.into_iter().rfind(|mount| mount.mountpoint == "/proc").expect("it is mounted").options
        };
        let before = of(None);
        let other = if before.iter().any(|option| option == "noatime") { "relatime" } else { "noatime" };
        let mut options = MountOptions::default();
        options.take("/proc", other).expect("an option");
        let mounts = options.prepare(Path::new("/")).expect("it is there");
        let in_child = mounts.clone();
        let mut command = Command::new("sleep");
        // SAFETY: apply_in_child makes system calls only.
        unsafe { command.arg("60").pre_exec(move || in_child.apply_in_child()) };
        let mut child = command.spawn().expect("sleep runs");
        let (got, checked) = (of(Some(child.id())), mounts.check(child.id()));
        let of_another = mounts.check(std::process::id()).map_err(|error| error.to_string());
        child.kill().and_then(|()| child.wait().map(drop)).expect("our own child");
        assert!(got.iter().any(|option| option == other), "{got:?}");
        checked.expect("it has what was asked for");
        assert!(of_another.expect_err("ours are not changed").contains("asked for"));
        assert_eq!(of(None), before);
    }
}
