//! What tests of several crates share.
//!
//! A test that finds nothing to look at (the host has no such page, a program that it compares with is not installed) passes, and
//! must not pass in silence: it calls [`skipped`]. `make test` counts these and prints them at its end; CI ends with status 1 if
//! there is one.

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

/// Names the file that takes a line for each test that looked at nothing.
const FILE: &str = "PAGELAB_SKIPPED";

/// Says that the calling test looks at nothing here, and why. The test returns after it.
///
/// # Panics
/// The list cannot be written: the test would pass in silence.
#[track_caller]
pub fn skipped(reason: impl std::fmt::Display) {
    let line = format!("{}: {reason}\n", Location::caller());
    eprint!("skipped: {line}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let file = OpenOptions::new().append(true).create(true).open(path);
    // Tests write at the same time: one call of write for one line.
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of skipped tests can be written");
}
