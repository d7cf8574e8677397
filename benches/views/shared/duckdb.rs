//! The rival: DuckDB, from Python.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process that answers queries with DuckDB.
pub(crate) struct DuckDb {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl DuckDb {
    /// Starts it with `threads` threads.
    pub(crate) fn start(threads: usize) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let found = std::env::var_os("DUCKDB_PYTHON").map(PathBuf::from);
        let python = found.unwrap_or_else(|| here.join("target/dataframes/bin/python"));
        let mut child = Command::new(python)
            .arg(here.join("benches/views/duckdb_times.py"))
            .arg(threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("DuckDB: run tools/install-venv dataframes first, or set DUCKDB_PYTHON");
        let ask = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut duckdb = Self { child, ask, answers };
        println!("DuckDB {}", duckdb.line());
        duckdb
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer of DuckDB");
        line.trim().to_owned()
    }

    /// Seconds, and the number of rows and the sum of all values.
    pub(crate) fn query(&mut self, sql: &str) -> (f64, String) {
        writeln!(self.ask, "{sql}").expect("DuckDB runs");
        let line = self.line();
        let (seconds, answer) = line.split_once(' ').expect("seconds and answer");
        (seconds.parse().expect("seconds"), answer.to_owned())
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
