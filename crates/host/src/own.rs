//! The program of this process, to be run again: an upgrade may put another in its place while an experiment runs.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A path of the program that this process runs, for this process and for others as long as this one lives: its own path
/// while that still is this program, else the kernel's link to it, which a program that was replaced or deleted still has.
///
/// # Errors
/// `/proc` is not mounted.
pub fn program() -> io::Result<PathBuf> {
    let link = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    let file = |path: &Path| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
    let running = file(&link)?;
    let named = std::env::current_exe()?;
    if file(&named).is_ok_and(|found| found == running) { Ok(named) } else { Ok(link) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const REPLACED: &str = "PAGELAB_TEST_REPLACED";

    /// Run by the test below from a copy: puts another program in its own place and runs itself again.
    #[test]
    fn runs_itself_again() {
        if std::env::var_os(REPLACED).is_none() {
            return;
        }
        let own = std::env::current_exe().expect("/proc");
        assert_eq!(program().expect("/proc"), own);
        let other = own.with_extension("new");
        std::fs::copy("/bin/false", &other).and_then(|_| std::fs::rename(&other, &own)).expect("the folder is ours");
        let found = program().expect("/proc");
        assert_ne!(found, own);
        let listed = Command::new(&found).arg("--list").output().expect("it runs");
        assert!(String::from_utf8_lossy(&listed.stdout).contains("runs_itself_again"), "{listed:?}");
        // Others reach it by the same path.
        let by_shell = Command::new("sh").args(["-c", "\"$0\" --list"]).arg(&found).output().expect("sh");
        assert_eq!(by_shell.stdout, listed.stdout);
        println!("ran itself again");
    }

    #[test]
    fn a_program_that_was_replaced_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let copy = dir.path().join("copy");
        // By another process: what a test beside starts at that moment would hold the copy open for writing.
        let own = std::env::current_exe().expect("/proc");
        assert!(Command::new("cp").arg(own).arg(&copy).status().expect("cp (coreutils)").success());
        let args = ["--exact", "own::tests::runs_itself_again", "--nocapture"];
        let output = Command::new(&copy).args(args).env(REPLACED, "1").output().expect("the copy runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("ran itself again"), "{output:?}");
    }
}
