//! QEMU's own channel, for what only QEMU knows: how many instructions the guest has run.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::channel::connect;
use crate::qemu::QMP_SOCKET;

/// How long QEMU may take to answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Asks one question; the value of `return`.
pub(crate) fn ask(folder: &Path, command: &str) -> io::Result<Value> {
    let mut stream = connect(folder, QMP_SOCKET)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let greeting = read(&mut lines)?;
    if greeting.get("QMP").is_none() {
        return Err(io::Error::other(format!("QEMU greeted with {greeting}")));
    }
    answer(&mut stream, &mut lines, "qmp_capabilities")?;
    answer(&mut stream, &mut lines, command)
}

fn answer(stream: &mut UnixStream, lines: &mut impl BufRead, command: &str) -> io::Result<Value> {
    writeln!(stream, "{}", json!({ "execute": command }))?;
    loop {
        let mut message = read(lines)?;
        if let Some(value) = message.get_mut("return") {
            return Ok(value.take());
        }
        if let Some(error) = message.get("error") {
            return Err(io::Error::other(format!("{command}: {error}")));
        }
        // Events come between.
    }
}

fn read(lines: &mut impl BufRead) -> io::Result<Value> {
    let mut line = String::new();
    if lines.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_str(&line).map_err(io::Error::other)
}
