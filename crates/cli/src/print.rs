//! Standard output and standard error. Nothing reaches either that a terminal would act on (see
//! [`pagelab_vocab::terminal`]): names in recordings were chosen by other programs.
//!
//! The binary and the libraries beside it warn at `println!` and its kin, so that there is no other way out.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use pagelab_vocab::terminal::{Allow, Escaping};
use serde::Serialize;

use crate::failure::Failure;

/// Writes a line to standard error, escaped. A terminal that has gone is no reason to fail: there is nobody to tell.
#[macro_export]
macro_rules! say {
    ($($word:tt)*) => { $crate::print::note(format_args!($($word)*)) };
}

/// Standard output for text. Headings may be bold on a terminal.
fn page() -> Escaping<io::StdoutLock<'static>> {
    let out = io::stdout();
    let allow = if out.is_terminal() { Allow::Bold } else { Allow::Lines };
    Escaping::new(out.lock(), allow)
}

/// Writes text to standard output. A reader that has gone (`| head`) ends the program quietly.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let mut out = page();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes one JSON document to standard output. Characters that a terminal acts on are written as `\u009b`: the same
/// document to every reader.
pub(crate) fn json(document: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_string_pretty(document).map_err(Failure::host)?;
    line.push('\n');
    let mut out = Escaping::new(io::stdout().lock(), Allow::Json);
    written(out.write_all(line.as_bytes()).and_then(|()| out.flush()))
}

/// Lets `write` write text to standard output through a buffer. It ends early, without an error, if the reader has gone.
pub(crate) fn stream(write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut out = io::BufWriter::with_capacity(1 << 16, page());
    write(&mut out)?;
    written(out.flush())
}

/// Standard output for data that another program reads: as it is, but escaped where it is a terminal after all. A reader that has
/// gone ends the program quietly.
pub(crate) fn data() -> Box<dyn Write + Send> {
    let out = io::stdout();
    if out.is_terminal() {
        Box::new(io::BufWriter::new(UntilGone(Escaping::new(out, Allow::Lines))))
    } else {
        Box::new(io::BufWriter::new(UntilGone(out)))
    }
}

/// Writes until the reader has gone.
struct UntilGone<W>(W);

impl<W: Write> Write for UntilGone<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        ended_if_gone(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        ended_if_gone(self.0.flush())
    }
}

/// Writes a line to standard error. If that cannot be written there is nobody to tell.
pub(crate) fn note(line: impl fmt::Display) {
    note_part(format_args!("{line}\n"));
}

/// Writes text to standard error as it is, without a line end of its own.
pub(crate) fn note_part(text: impl fmt::Display) {
    let mut out = stderr();
    let _ = out.write_all(text.to_string().as_bytes()).and_then(|()| out.flush());
}

/// Standard error, escaped.
pub(crate) fn stderr() -> Escaping<io::StderrLock<'static>> {
    Escaping::new(io::stderr().lock(), Allow::Lines)
}

fn written(result: io::Result<()>) -> Result<(), Failure> {
    ended_if_gone(result).map_err(Failure::host)
}

/// Ends the program if what it writes to has no reader any more.
fn ended_if_gone<T>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other,
    }
}
