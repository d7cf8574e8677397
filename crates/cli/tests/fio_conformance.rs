//! fio's own tests against `pagelab run`: its scripts, with pagelab where they have fio. `docs/fio-conformance.md` has all of
//! them; here are the quick ones.

use crate::common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::binary;

/// fio's sources, if they were fetched: `make setup-test` does, from Debian. `PAGELAB_FIO_TREE` names others.
fn tree() -> Option<PathBuf> {
    if let Some(tree) = std::env::var_os("PAGELAB_FIO_TREE") {
        return Some(tree.into());
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.join("fio-source");
    let trees = std::fs::read_dir(target).ok()?;
    trees.flatten().map(|entry| entry.path()).find(|path| path.join("t").is_dir())
}

#[test]
fn fios_own_tests_pass() {
    let tree = tree().expect("the sources of fio; type: make setup-test, or set PAGELAB_FIO_TREE");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/fio-conformance");
    let mut command = Command::new(script);
    command.arg(tree).arg("--pagelab").arg(binary());
    if std::env::var_os("PAGELAB_TEST_FULL").is_none() {
        command.arg("--short");
    }
    let output = command.output().expect("python3 is there");
    let words = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&words));
}
