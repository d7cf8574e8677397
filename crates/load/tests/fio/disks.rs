//! `disk_util`: the disk under a job's file.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{document, fio_program, pagelab};

/// The report of a job on the disk that the build lies on, by `program`.
fn report(program: &mut Command, directory: &Path, options: &[&str]) -> Value {
    let fixed = ["--output-format=json", "--name=j", "--rw=write", "--bs=64k", "--size=16m", "--unlink=1"];
    let output = program.current_dir(directory).args(fixed).args(options).output().expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    document(&output)
}

fn keys(disk: &Value) -> Vec<&str> {
    disk.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn the_disk_under_a_file_is_reported_as_by_fio() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let theirs = report(&mut fio_program(), directory.path(), &["--direct=1"]);
    let ours = report(&mut pagelab(), directory.path(), &["--direct=1"]);
    // Built on tmpfs or a file system of many devices, neither has a disk to report.
    assert_eq!(theirs.get("disk_util").is_some(), ours.get("disk_util").is_some());
    let (Some(theirs), Some(ours)) = (theirs["disk_util"].as_array(), ours["disk_util"].as_array()) else { return };
    let names = |disks: &[Value]| disks.iter().map(|disk| disk["name"].to_string()).collect::<Vec<_>>();
    assert_eq!(names(theirs), names(ours));
    assert_eq!(keys(&theirs[0]), keys(&ours[0]));
    // Every write went to the disk; what else the machine wrote meanwhile comes on top.
    let written =
        ours[0]["write_ios"].as_u64().expect("a number") + ours[0]["write_merges"].as_u64().expect("a number");
    assert!(written >= 256, "{ours:?}");
    assert!((0.0..=100.0).contains(&ours[0]["util"].as_f64().expect("a number")), "{ours:?}");
    let quiet = report(&mut pagelab(), directory.path(), &["--disk_util=0"]);
    assert!(quiet.get("disk_util").is_none());
}

#[test]
fn memory_has_no_disk() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    for program in [&mut fio_program(), &mut pagelab()] {
        assert!(report(program, directory.path(), &[]).get("disk_util").is_none());
    }
}
