//! Standard output: one document or one page of text, and a reader that may go away.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Writes a line to standard error. A terminal that has gone is no reason to fail: there is nobody to tell.
#[macro_export]
macro_rules! say {
    ($($word:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($word)*);
    }};
}

/// Writes text to standard output. A reader that has gone (`| head`) ends the program quietly.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.map_err(Failure::host),
    }
}

/// Writes one JSON document to standard output.
pub fn json(document: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_string_pretty(document).map_err(Failure::host)?;
    line.push('\n');
    text(&line)
}

/// Lets `write` write to standard output through a buffer. It ends early, without an error, if the reader has gone.
pub fn stream(write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    write(&mut out)?;
    match out.flush() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.map_err(Failure::host),
    }
}
