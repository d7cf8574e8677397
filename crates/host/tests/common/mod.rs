//! A root folder with literal kernel text, and the fixture that holds guards over it.

#![allow(dead_code, reason = "each test file uses a part of this")]

pub(crate) mod holder;
pub(crate) mod settings;
pub(crate) mod stepper;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub(crate) const FIXTURE: &str = env!("CARGO_BIN_EXE_pagelab-guard-fixture");

/// A folder that stands for `/`, with another next to it for journals and locks.
pub(crate) struct Host {
    folder: tempfile::TempDir,
}

impl Host {
    pub(crate) fn new() -> Self {
        let host = Host { folder: tempfile::tempdir().expect("a temporary folder") };
        host.write("proc/sys/kernel/random/boot_id", "ac924afa-6759-45c0-aae4-80c098bab793\n");
        host.write("sys/kernel/mm/transparent_hugepage/enabled", "madvise\n");
        host.write("sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "10000\n");
        host.write("proc/sys/vm/min_free_kbytes", "67584\n");
        host.write("proc/sys/vm/swappiness", "60\n");
        host.write("proc/sys/vm/stat_interval", "1\n");
        host.write("sys/block/vda/queue/read_ahead_kb", "8192\n");
        host
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders made");
        std::fs::write(path, text).expect("written");
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).expect("read").trim().to_owned()
    }

    /// Every setting that the tests change, as one text.
    pub(crate) fn all(&self) -> String {
        let files = [
            "sys/kernel/mm/transparent_hugepage/enabled",
            "proc/sys/vm/min_free_kbytes",
            "proc/sys/vm/swappiness",
            "proc/sys/vm/stat_interval",
            "sys/block/vda/queue/read_ahead_kb",
        ];
        files.map(|file| format!("{file}={}", self.read(file))).join(" ")
    }

    /// What is left in the state folder.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.state()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    pub(crate) fn fixture(&self, mode: &str, rest: &[&str]) -> Fixture {
        Fixture::start(mode, &self.root(), &self.state(), rest)
    }
}

/// A running fixture.
pub(crate) struct Fixture {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
}

impl Fixture {
    pub(crate) fn start(mode: &str, root: &Path, state: &Path, rest: &[&str]) -> Self {
        let mut command = Command::new(FIXTURE);
        Self::of(command.arg(mode).arg(root).arg(state).args(rest))
    }

    /// A command that becomes the fixture.
    pub(crate) fn of(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("fixture starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Fixture { child, input, output }
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }

    pub(crate) fn say(&mut self, word: &str) {
        let input = self.input.as_mut().expect("open");
        writeln!(input, "{word}").expect("written");
        input.flush().expect("written");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("ended")
    }
}

/// Waits until the condition holds and says how long that took; the limit is generous because it is no figure, only
/// an end for a test that fails.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "never happened: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
    start.elapsed()
}
