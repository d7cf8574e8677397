//! What the tests share: settings of the host that are put back, and processes of a test's own.

#![allow(dead_code)] // Each test file uses a part.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Set in a process that runs one test alone.
const CHILD: &str = "PAGELAB_MAPPING_TEST_CHILD";

/// A file of /proc or /sys that has its old text again when this is dropped.
#[derive(Debug)]
pub(crate) struct Setting {
    path: PathBuf,
    old: String,
}

impl Setting {
    /// Writes `value`, remembering the old one: for settings that list their words, the one in brackets.
    pub(crate) fn set(path: &str, value: &str) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word.to_owned());
        let old = chosen.unwrap_or_else(|| text.trim().to_owned());
        let setting = Self { path: path.into(), old };
        fs::write(path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
        setting
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, &self.old) {
            eprintln!("{} is not {:?} again: {error}", self.path.display(), self.old);
        }
    }
}

/// The pool of 2 MiB pages with a number of pages.
#[derive(Debug)]
pub(crate) struct Pool(Setting);

impl Pool {
    /// Makes the pool `pages` large.
    pub(crate) fn of(pages: u64) -> Self {
        let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
        let pool = Self(Setting::set(file, &pages.to_string()));
        let got = fs::read_to_string(file).expect("nr_hugepages");
        assert_eq!(got.trim(), pages.to_string(), "the kernel gave fewer pages");
        pool
    }
}

/// Whether this process runs one test alone.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// A process of its own for the test `name` of this file.
pub(crate) fn child(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.args([name, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    command
}

/// Runs the test `name` in a process of its own; true in that process, which is to do the work.
pub(crate) fn alone(name: &str) -> bool {
    if is_child() {
        return true;
    }
    let output = child(name).output().expect("run");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{name} is not the name of one test: {text}");
    false
}

/// Open descriptors of this process.
pub(crate) fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("fd").count()
}

/// Mappings of this process.
pub(crate) fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps").expect("maps").lines().count()
}

/// A control group that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Cgroup {
    folder: PathBuf,
    /// The file and the word that take the controller away again, if it was given for this group.
    give_back: Option<(PathBuf, String)>,
}

impl Cgroup {
    /// A group below `top` with a limit; `None` if its controller is not there.
    pub(crate) fn with(top: &str, limit: &str, bytes: u64) -> Option<Self> {
        let subtree = PathBuf::from(top).join("cgroup.subtree_control");
        let folder = PathBuf::from(top).join(format!("pagelab-mapping-{}", std::process::id()));
        let mut group = Self { folder, give_back: None };
        if subtree.exists() {
            // Version 2 gives a controller to the groups below only when enabled.
            let controller = limit.split('.').next().unwrap_or_default();
            let now = fs::read_to_string(&subtree).unwrap_or_default();
            if !now.split_ascii_whitespace().any(|word| word == controller) {
                fs::write(&subtree, format!("+{controller}")).ok()?;
                group.give_back = Some((subtree, format!("-{controller}")));
            }
        }
        fs::create_dir(&group.folder).ok()?;
        fs::write(group.folder.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }

    /// The file that takes the processes of the group.
    pub(crate) fn procs(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Lets the command's process begin in the group.
    pub(crate) fn enter(&self, command: &mut Command) {
        use std::os::unix::process::CommandExt as _;
        let procs = self.procs();
        // SAFETY: the closure opens and writes one file; the tests' process does nothing else meanwhile that could hold a lock which
        // the child needs (host_ tests run alone).
        unsafe { command.pre_exec(move || fs::write(&procs, "0")) };
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                break;
            }
            // The last process is still on its way out.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        if self.folder.exists() {
            eprintln!("{} is still there", self.folder.display());
        }
        if let Some((file, word)) = &self.give_back
            && let Err(error) = fs::write(file, word)
        {
            eprintln!("{}: writing {word:?}: {error}", file.display());
        }
    }
}
