//! What the tests of the binary share.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod lower;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The binary under test: the one just built, or the one that PAGELAB_BINARY names (an installed one, say).
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("PAGELAB_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_pagelab").into(), PathBuf::from)
}

/// A command that begins with the binary under test.
pub(crate) fn pagelab() -> Command {
    let mut command = Command::new(binary());
    command.env("LC_ALL", "C");
    command
}

/// A program of the workspace, built into the same folder as the binary.
pub(crate) fn beside(name: &str) -> PathBuf {
    let path = binary().with_file_name(name);
    assert!(path.is_file(), "{} is not built; type: cargo build --release --workspace --bins", path.display());
    path
}

/// A scratch directory in memory, so that a slow disk does not decide what is tested.
pub(crate) fn scratch() -> TempDir {
    tempfile::Builder::new().prefix("pagelab-test-").tempdir_in("/dev/shm").expect("/dev/shm is writable")
}

/// Runs to the end and demands the status.
#[track_caller]
pub(crate) fn run(command: &mut Command, status: i32) -> Output {
    let output = command.output().expect("the program starts");
    let found = output.status.code();
    assert_eq!(
        found,
        Some(status),
        "{command:?}\nstdout: {}\nstderr: {}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A copy of the binary. Another process writes it: what a thread beside starts at that moment would hold it open for writing, and a
/// program that is open for writing cannot be executed.
pub(crate) fn copy_binary(to: &Path) {
    let copied = Command::new("cp").arg(binary()).arg(to).status();
    assert!(copied.expect("cp (coreutils)").success(), "room for a copy at {}", to.display());
}

/// A folder with a copy of the binary that everybody may run, and a command that runs it as an ordinary user. The copy goes
/// with the folder.
pub(crate) fn as_ordinary_user() -> (TempDir, Command) {
    let dir = scratch();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    let copy = dir.path().join("pagelab");
    copy_binary(&copy);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=1000", "--regid=1000", "--clear-groups"]).arg(copy).current_dir("/");
    (dir, command)
}

/// Standard error as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard output as one JSON document.
#[track_caller]
pub(crate) fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)))
}

/// Base pages only for the program and all that it starts, whatever the host gives to all memory.
pub(crate) fn without_thp(command: &mut Command) -> &mut Command {
    let forbid = || {
        // SAFETY: no pointers.
        let done = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: prctl is a system call and nothing else; it allocates nothing between fork and exec.
    unsafe { command.pre_exec(forbid) }
}

/// Whether this is root on a kernel that takes the probes: what most of these tests are about.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
