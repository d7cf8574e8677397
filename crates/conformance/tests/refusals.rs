//! What is refused, with which words and exit status, and without changing anything.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const FIXTURE: &str = env!("CARGO_BIN_EXE_pagelab-conformance-fixture");

#[test]
fn another_user_than_root_is_told_to_be_root() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Another user may not enter the folder that the program was built in.
    let program = folder.path().join("suite");
    // By another process: what a test beside starts at that moment would hold the copy open for writing, and it could not be executed.
    assert!(Command::new("cp").arg(FIXTURE).arg(&program).status().expect("cp (coreutils)").success());
    for path in [folder.path(), &program] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("open to all");
    }
    let mut command = Command::new(&program);
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let output = command.current_dir("/").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("needed root") && said.contains("sudo") && output.stdout.is_empty(), "{said}");
}

#[test]
fn a_case_that_does_not_exist_is_named() {
    let output = Command::new(FIXTURE).arg("accounting.pool_tabel").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("accounting.pool_tabel") && said.contains("docs/conformance.md"), "{said}");
}

#[test]
fn the_hidden_command_wants_one_name_of_a_case() {
    for args in [&["__conformance"][..], &["__conformance", "no.case"], &["__conformance", "thp.never", "more"]] {
        let output = Command::new(FIXTURE).args(args).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{args:?}");
    }
}
