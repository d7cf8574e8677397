//! Standard output: one document or one page of text, and a reader that may go away.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

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

/// Bytes as people write them.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Nanoseconds as people write them.
pub fn duration(ns: i64) -> String {
    let value = ns as f64;
    match ns.unsigned_abs() {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.3} s", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_and_times_read_well() {
        assert_eq!(super::bytes(1023), "1023 B");
        assert_eq!(super::bytes(2 << 20), "2.0 MiB");
        assert_eq!(super::duration(999), "999 ns");
        assert_eq!(super::duration(1_500_000), "1.50 ms");
    }
}
