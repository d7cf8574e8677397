//! Programs that have huge pages, or open files on them, for a while.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The program that has them (`tests/fixture/memory_fixture.rs`).
pub(crate) const MEMORY: &str = env!("CARGO_BIN_EXE_pagelab-memory-fixture");

/// Has what the arguments say until this goes.
pub(crate) struct Holder(pub Child);

impl Holder {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(MEMORY);
        let mut child =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("fixture starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), "held");
        Holder(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
