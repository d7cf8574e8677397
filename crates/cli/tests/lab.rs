//! `pagelab lab`: what is refused before anything boots, and what is said where there is no lab. Labs that boot are tested in
//! `crates/lab`.

use crate::common;

use std::process::Command;

use common::{json, pagelab, run, scratch, stderr};
use tempfile::TempDir;

/// The command in folders of its own, which go with the first part.
fn lab(words: &[&str]) -> (TempDir, Command) {
    let dir = scratch();
    let mut command = pagelab();
    command.arg("lab").args(words).env("PAGELAB_LAB_DIR", dir.path());
    (dir, command)
}

#[test]
fn what_cannot_be_is_refused_with_what_is_needed() {
    for (words, needed) in [
        (&["up", "--kernel", "5.10"][..], "6.1 or 6.12"),
        (&["up", "--memory", "1XB"], "K, M, G or T"),
        (&["up", "--pmem", "100M"], "multiple of 128M"),
        (&["up", "--pmem-kind", "optane"], "memmap or nvdimm"),
        (&["up", "--accel", "kvm", "--icount", "0"], "only an emulator counts"),
        (&["up", "--share", "/no/such/folder"], "a folder"),
        (&["up", "--name", "../x"], "letters, digits"),
        (&["run", "--name", "none", "--", "true"], "pagelab lab up --name none"),
        (&["run"], "CMD"),
        (&["once"], "CMD"),
        (&["once", "--kernel", "5.10", "--", "true"], "6.1 or 6.12"),
    ] {
        let (dir, mut command) = lab(words);
        let said = stderr(&run(&mut command, 2));
        assert!(said.contains(needed), "{words:?}: {said}");
        let left: Vec<_> = std::fs::read_dir(dir.path()).expect("a folder").flatten().collect();
        assert!(left.is_empty(), "{words:?}: {left:?}");
    }
}

#[test]
fn no_lab_is_no_error_to_who_asks_or_ends() {
    let (_dir, mut command) = lab(&["status", "--json"]);
    assert_eq!(json(&run(&mut command, 0)), serde_json::json!([]));
    let (_dir, mut command) = lab(&["status"]);
    assert!(String::from_utf8_lossy(&run(&mut command, 0).stdout).contains("pagelab lab up"));
    let (_dir, mut command) = lab(&["down"]);
    assert!(stderr(&run(&mut command, 0)).contains("no lab default"));
    let (_dir, mut command) = lab(&["down", "--all"]);
    run(&mut command, 0);
}
