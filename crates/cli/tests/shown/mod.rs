//! `pagelab show`, run on a recording, and its output.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]
#![allow(dead_code, reason = "each test file uses some of this")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

pub(crate) fn show(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pagelab")).arg("show").arg(dir).args(words).output().unwrap()
}

/// The text of a view that can be shown.
pub(crate) fn text(dir: &Path, words: &[&str]) -> String {
    let output = show(dir, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The document of a view that can be shown.
pub(crate) fn json(dir: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&text(dir, &[words, &["--json"]].concat())).unwrap()
}

/// The message of a call that must end with status 2.
pub(crate) fn refused(dir: &Path, words: &[&str]) -> String {
    let output = show(dir, words);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    assert!(output.stdout.is_empty(), "{words:?}: nothing but a document goes to standard output");
    String::from_utf8(output.stderr).unwrap()
}

/// The row of a list in which `key` is `value`.
pub(crate) fn row<'a>(list: &'a Value, key: &str, value: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|row| row[key] == value);
    found.unwrap_or_else(|| panic!("{key} {value} is not in {list:#}"))
}
