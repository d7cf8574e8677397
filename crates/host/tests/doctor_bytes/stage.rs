//! The fixture, the other readers, and settings that are put back.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pagelab_host::guard::{Guard, GuardOptions, KernelDoor};
use pagelab_residency::Pool as PoolState;

pub(crate) const SLOT: u64 = 2 << 20;

/// A program that has memory of known bytes until this goes.
pub(crate) struct Fixture {
    program: Child,
    pub start: u64,
    pub end: u64,
    child: Option<u32>,
}

impl Fixture {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagelab-bytes-fixture"));
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().expect("fixture starts");
        let mut line = String::new();
        let read = BufReader::new(program.stdout.take().expect("piped")).read_line(&mut line);
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [start, bytes, child @ ..] = numbers.as_slice() else { panic!("{arguments:?} said {line:?}, {read:?}") };
        let child = child.first().map(|pid| *pid as u32);
        Self { program, start: *start, end: start + bytes, child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.program.id()
    }

    /// The child that shares the memory.
    pub(crate) fn child(&self) -> u32 {
        self.child.expect("arguments that fork")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.program.stdin.take());
        let _ = self.program.wait();
        // The child dies with it, a moment later: its pages of a pool have to be free for the next.
        for _ in 0..500 {
            if self.child.is_none_or(|pid| !Path::new(&format!("/proc/{pid}/smaps")).exists()) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

/// The report of a program without rights on itself, with `pages` pages of a pool.
pub(crate) fn as_user(pages: u64) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagelab-bytes-fixture"));
    let output = command.args(["as-user", &pages.to_string()]).output().expect("fixture starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What walk.py says of a range.
pub(crate) fn walk(pid: u32, start: u64, end: u64) -> serde_json::Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doctor_bytes/walk.py");
    let arguments = [pid.to_string(), start.to_string(), end.to_string()];
    let output = Command::new("python3").arg(script).args(arguments).output().expect("python3 (make setup-test)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What smaps says of the mapping at `start`, in bytes by key.
pub(crate) fn smaps(pid: u32, start: u64) -> impl Fn(&str) -> u64 {
    let mut text = String::new();
    let file = std::fs::File::open(format!("/proc/{pid}/smaps"));
    file.and_then(|mut file| file.read_to_string(&mut text)).expect("it runs");
    let heading = format!("{start:x}-");
    let lines: Vec<String> =
        text.lines().skip_while(|line| !line.starts_with(&heading)).skip(1).take(30).map(str::to_owned).collect();
    move |key| {
        let line = lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let kib = line.and_then(|kib| kib.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        kib.unwrap_or_else(|| panic!("smaps has no {key}: {lines:?}")) << 10
    }
}

/// Settings that are put back when it goes.
pub(crate) struct Settings {
    _guard: Guard,
    // Goes after the guard, which keeps its journal there.
    _state: tempfile::TempDir,
}

pub(crate) fn guarded(pairs: &[(&str, &str)]) -> Settings {
    try_guarded(pairs).unwrap_or_else(|| panic!("not granted: {pairs:?}"))
}

/// The same; `None` if the kernel grants less.
pub(crate) fn try_guarded(pairs: &[(&str, &str)]) -> Option<Settings> {
    let state = tempfile::tempdir().expect("a temporary folder");
    let mut guard = Guard::open_with(GuardOptions {
        root: PathBuf::from("/"),
        state_dir: state.path().to_owned(),
        helper_exe: PathBuf::from(env!("CARGO_BIN_EXE_pagelab-guard-fixture")),
        door: Box::new(KernelDoor),
    })
    .expect("guard");
    let granted = guard.set_all(pairs.iter().copied()).expect("set").iter().all(pagelab_host::guard::Applied::granted);
    granted.then_some(Settings { _guard: guard, _state: state })
}

/// A pool of 2 MiB pages that is as it was when this goes.
pub(crate) struct Pool {
    _settings: Settings,
}

impl Pool {
    pub(crate) fn of(pages: u64) -> Self {
        let pool = Self { _settings: guarded(&[("hugetlb.2M.nr_hugepages", &pages.to_string())]) };
        assert_eq!(reserved_pages(), 0, "somebody else uses the pool");
        pool
    }
}

/// Pages of the pool that the kernel has reserved for mappings that have not touched them.
pub(crate) fn reserved_pages() -> u64 {
    PoolState::read(Path::new("/"), SLOT as usize).expect("a pool").reserved_pages
}

/// A file to swap to, which is gone when this goes.
pub(crate) struct SwapFile {
    folder: tempfile::TempDir,
}

impl SwapFile {
    pub(crate) fn of(bytes: u64) -> Self {
        // Not on tmpfs, which cannot be swapped to: the build folder is on a disk.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
        let swap = Self { folder };
        let path = swap.path();
        std::fs::write(&path, vec![0; bytes as usize]).expect("written");
        for (program, arguments) in
            [("chmod", &["600"][..]), ("mkswap", &["--quiet"]), ("swapon", &["--priority", "32767"])]
        {
            let status = Command::new(program).args(arguments).arg(&path).status().expect("runs");
            assert!(status.success(), "{program} {}: {status}", path.display());
        }
        swap
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("swap")
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        match Command::new("swapoff").arg(self.path()).status() {
            Ok(status) if status.success() => {}
            other => eprintln!("{0} is still swapped to: {other:?}; type: sudo swapoff {0}", self.path().display()),
        }
    }
}
