//! What is to survive a power cut is on the device before it has its name, and the name before the writer goes on: the order of the calls,
//! seen by strace. crates/recording/tests/power_cuts.rs and loop_power_cuts cut the power.

use std::path::Path;
use std::process::Command;

use pagelab_output::{Folder, Sync};

/// The writer, which the test below runs under strace.
const FOLDER: &str = "PAGELAB_TEST_DURABLE";

#[test]
fn writer() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Folder::open(Path::new(&folder)).expect("it is there");
    let mut file = folder.writer("value.json").expect("created");
    file.write_bytes(b"{}").expect("written");
    file.commit(Sync::Data).expect("committed");
    folder.sync().expect("synced");
}

#[test]
fn contents_are_synced_before_the_name_and_the_name_after_it() {
    let dir = tempfile::tempdir().expect("tempdir");
    let trace = dir.path().join("trace");
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).expect("mkdir");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-y", "-e", "trace=fdatasync,fsync,renameat,renameat2", "-o"]).arg(&trace);
    strace.arg(std::env::current_exe().expect("this test")).args(["--exact", "writer"]);
    let status = strace.env(FOLDER, &folder).output().expect("strace runs: make setup-test installs it").status;
    assert!(status.success());
    let text = std::fs::read_to_string(&trace).expect("a trace");
    let calls: Vec<&str> = text.lines().filter(|line| line.contains(&*folder.to_string_lossy())).collect();
    let at = |is: &dyn Fn(&str) -> bool| calls.iter().position(|line| is(line));
    let data = at(&|line| line.contains("fdatasync(") && line.contains("folder/"));
    let name = at(&|line| line.contains("rename") && line.contains("value.json"));
    let entry = at(&|line| line.contains(" fsync(") && line.contains("folder>"));
    assert!(data.is_some() && data < name && name < entry, "{calls:#?}");
}
