//! The two kinds of files in which runtimes name the code that they make, read piece by piece as they grow.
//!
//! `perf-PID.map` has a line for each function: address, size, name. `jit-PID.dump` has records: the format is jitdump of perf
//! (tools/perf/Documentation/jitdump-specification.txt in the kernel's sources).

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::super::namer::NAME_BYTES_MAX;

/// Bytes of a map that are read at a time; a longer line is cut.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes before the records of a dump at least, and before what each of them has.
const DUMP_HEADER_BYTES: u64 = 40;
const RECORD_HEADER_BYTES: u64 = 16;
/// Bytes of a record that loads code, before the name.
const LOAD_BYTES: usize = 56;
/// Bytes of a record that moves code.
const MOVE_BYTES: usize = 64;
/// First bytes of a dump, as a little-endian machine writes them.
const DUMP_MAGIC: [u8; 4] = *b"DTiJ";
const LOAD: u32 = 0;
const MOVE: u32 = 1;

/// What a file says of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// From an address to another there is a function.
    Made { start: u64, end: u64, name: &'a str },
    /// A function has been moved, from its first address to another, where it has so many bytes.
    Moved { from: u64, to: u64, bytes: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Map,
    Dump,
}

/// How far a file has been read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    kind: Kind,
    at: u64,
    /// Within a line that is longer than what is read at a time.
    in_long_line: bool,
}

/// What there is to be read further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing for now.
    Nothing,
    /// The bytes that may be read were used up.
    More,
    /// It is no such file.
    Broken,
}

impl Reading {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, at: 0, in_long_line: false }
    }

    /// Bytes that were read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Reads what is whole and was not read yet. `may_read` is asked before bytes are read.
    pub(super) fn on(
        &mut self,
        file: &File,
        may_read: &mut dyn FnMut(u64) -> bool,
        each: &mut dyn FnMut(Said<'_>),
    ) -> Rest {
        let Ok(len) = file.metadata().map(|meta| meta.len()) else { return Rest::Nothing };
        match self.kind {
            Kind::Map => self.lines(file, len, may_read, each),
            Kind::Dump => self.records(file, len, may_read, each),
        }
    }

    fn lines(
        &mut self,
        file: &File,
        len: u64,
        may_read: &mut dyn FnMut(u64) -> bool,
        each: &mut dyn FnMut(Said<'_>),
    ) -> Rest {
        let mut piece = Vec::new();
        while self.at < len {
            let wanted = (len - self.at).min(PIECE_BYTES as u64);
            if !may_read(wanted) {
                return Rest::More;
            }
            piece.resize(wanted as usize, 0);
            let Ok(read) = file.read_at(&mut piece, self.at) else { return Rest::Nothing };
            piece.truncate(read);
            let whole = match piece.iter().rposition(|byte| *byte == b'\n') {
                Some(at) => at + 1,
                // It is not written yet, or longer than any name.
                None if read < PIECE_BYTES => return Rest::Nothing,
                None => {
                    if !std::mem::replace(&mut self.in_long_line, true) {
                        tell(&piece, each);
                    }
                    self.at += read as u64;
                    continue;
                }
            };
            let mut lines = piece[..whole].split(|byte| *byte == b'\n');
            if std::mem::take(&mut self.in_long_line) {
                lines.next();
            }
            lines.for_each(|line| tell(line, each));
            self.at += whole as u64;
        }
        Rest::Nothing
    }

    fn records(
        &mut self,
        file: &File,
        len: u64,
        may_read: &mut dyn FnMut(u64) -> bool,
        each: &mut dyn FnMut(Said<'_>),
    ) -> Rest {
        if self.at == 0 {
            let mut header = [0; 12];
            if len < DUMP_HEADER_BYTES || file.read_exact_at(&mut header, 0).is_err() {
                return Rest::Nothing;
            }
            let bytes = u64::from(number(&header, 8));
            if header[..4] != DUMP_MAGIC || bytes < DUMP_HEADER_BYTES {
                return Rest::Broken;
            }
            self.at = bytes;
        }
        let mut record = vec![0; LOAD_BYTES + NAME_BYTES_MAX + 1];
        while self.at + RECORD_HEADER_BYTES <= len {
            let wanted = (len - self.at).min(record.len() as u64);
            if !may_read(wanted) {
                return Rest::More;
            }
            let Ok(read) = file.read_at(&mut record, self.at) else { return Rest::Nothing };
            let bytes = &record[..read];
            if bytes.len() < RECORD_HEADER_BYTES as usize {
                return Rest::Nothing;
            }
            let size = u64::from(number(bytes, 4));
            if size < RECORD_HEADER_BYTES {
                return Rest::Broken;
            }
            if self.at + size > len {
                return Rest::Nothing;
            }
            let bytes = &bytes[..bytes.len().min(size as usize)];
            match number(bytes, 0) {
                LOAD if bytes.len() > LOAD_BYTES => {
                    let name = &bytes[LOAD_BYTES..];
                    let name =
                        String::from_utf8_lossy(&name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())]);
                    let start = long(bytes, 32);
                    if let Some(end) = start.checked_add(long(bytes, 40)) {
                        each(Said::Made { start, end, name: &name });
                    }
                }
                MOVE if bytes.len() >= MOVE_BYTES => {
                    each(Said::Moved { from: long(bytes, 32), to: long(bytes, 40), bytes: long(bytes, 48) });
                }
                _ => {}
            }
            self.at += size;
        }
        Rest::Nothing
    }
}

/// A number of 4 bytes; there are that many.
fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn tell(line: &[u8], each: &mut dyn FnMut(Said<'_>)) {
    let line = String::from_utf8_lossy(line);
    if let Some((start, end, name)) = entry(&line) {
        each(Said::Made { start, end, name });
    }
}

/// `START SIZE NAME`, both numbers hexadecimal.
fn entry(line: &str) -> Option<(u64, u64, &str)> {
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let start = number(start)?;
    let name = name.trim();
    // An empty name is none.
    (!name.is_empty()).then_some((start, start.checked_add(number(size)?)?, name))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn said(reading: &mut Reading, file: &File, bytes: u64) -> (Vec<String>, Rest) {
        let (mut all, mut left) = (Vec::new(), bytes);
        let rest =
            reading.on(file, &mut |wanted| left.checked_sub(wanted).map(|rest| left = rest).is_some(), &mut |said| {
                all.push(match said {
                    Said::Made { start, end, name } => format!("{start:x}-{end:x} {}", &name[..name.len().min(20)]),
                    Said::Moved { from, to, bytes } => format!("{from:x} to {to:x} {bytes:x}"),
                });
            });
        (all, rest)
    }

    #[test]
    fn lines_are_read_as_runtimes_write_them() {
        assert_eq!(
            entry("3ef414c0 398 LazyCompile:~f a b.js:1"),
            Some((0x3ef4_14c0, 0x3ef4_1858, "LazyCompile:~f a b.js:1"))
        );
        assert_eq!(entry("0x00007f01 0x10 Interpreter"), Some((0x7f01, 0x7f11, "Interpreter")));
        for wrong in ["", "12", "12 34", "12 34 ", "zz 10 x", "ffffffffffffffff ff x"] {
            assert_eq!(entry(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_map_of_any_size_is_read_in_pieces_and_a_line_of_any_length_is_one() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut text = String::from("10 10 first\n");
        text.extend(["100 10 ", &"x".repeat(3 << 20), "\n"]);
        text.push_str(&"200 10 filler\n".repeat(200_000));
        text.push_str("300 10 last\n400 10 hal");
        file.write_all(text.as_bytes()).expect("room");
        let mut reading = Reading::new(Kind::Map);
        let (some, rest) = said(&mut reading, &file, 2 << 20);
        assert_eq!((some.len(), rest), (2, Rest::More), "as many as may be read");
        assert_eq!(some[1], format!("100-110 {}", "x".repeat(20)));
        let (all, rest) = said(&mut reading, &file, u64::MAX);
        assert_eq!((all.len(), rest), (200_001, Rest::Nothing));
        assert_eq!(all.last().map(String::as_str), Some("300-310 last"));
        file.write_all(b"f\n").expect("room");
        assert_eq!(said(&mut reading, &file, u64::MAX), (vec!["400-410 half".to_owned()], Rest::Nothing));
    }

    fn record(kind: u32, numbers: &[u64], rest: &[u8]) -> Vec<u8> {
        let size = 16 + 8 + 8 * numbers.len() + rest.len();
        let mut bytes = [kind.to_le_bytes(), (size as u32).to_le_bytes()].concat();
        bytes.extend(7_u64.to_le_bytes());
        bytes.extend([1, 0, 0, 0, 2, 0, 0, 0]);
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(rest);
        bytes
    }

    fn header(magic: [u8; 4]) -> Vec<u8> {
        let mut bytes = magic.to_vec();
        bytes.extend([1, 0, 0, 0, 40, 0, 0, 0]);
        bytes.resize(40, 0);
        bytes
    }

    #[test]
    fn records_of_a_dump_name_code_and_move_it() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut bytes = header(*b"DTiJ");
        bytes.extend(record(LOAD, &[0, 0x1000, 0x20, 1], b"JS:*alpha\0code"));
        bytes.extend(record(4, &[1, 2], b"unwinding"));
        bytes.extend(record(MOVE, &[0, 0x1000, 0x3000, 0x20, 1], b""));
        bytes.extend(record(LOAD, &[0, 0x2000, 0x20, 2], &[b"long\0".as_slice(), &[0; 9000]].concat()));
        let half = record(LOAD, &[0, 0x4000, 0x20, 3], b"half\0");
        bytes.extend(&half[..30]);
        file.write_all(&bytes).expect("room");
        let mut reading = Reading::new(Kind::Dump);
        let all = ["1000-1020 JS:*alpha", "1000 to 3000 20", "2000-2020 long"];
        assert_eq!(said(&mut reading, &file, u64::MAX), (all.map(str::to_owned).to_vec(), Rest::Nothing));
        file.write_all(&half[30..]).expect("room");
        assert_eq!(said(&mut reading, &file, u64::MAX).0, ["4000-4020 half"]);
        for wrong in [header(*b"none"), [header(*b"DTiJ"), vec![0; 16]].concat()] {
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(&wrong).expect("room");
            assert_eq!(said(&mut Reading::new(Kind::Dump), &file, u64::MAX), (Vec::new(), Rest::Broken));
        }
    }
}
