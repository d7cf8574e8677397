//! Text for a terminal, and words for a shell.
//!
//! Names in recordings, in `/proc` and on file systems were chosen by other programs: they may hold escape sequences that
//! set a window's title, move the cursor over earlier lines or write to the clipboard. Whatever pagelab prints for a
//! person goes through [`escape`] (one piece of a line) or [`Escaping`] (everything that reaches a stream), and every
//! command that a person is told to type is put together with [`shell_word`] and [`shell_path`]. `shlex` quotes words too,
//! but refuses NUL, knows no `$'...'` and so would print what a terminal acts on.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Begins bold text: with [`PLAIN`], the only sequences that pagelab itself sends to a terminal in a page of text.
const BOLD: &str = "\u{1b}[1m";
/// Ends bold text.
const PLAIN: &str = "\u{1b}[0m";

/// Whether a terminal does something with this character other than showing it: control characters (C0, DEL, C1), and
/// the marks that turn the direction of writing around or begin a new line.
pub fn is_active(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with every active character written as an escape (`\n`, `\u{1b}`), line ends and tabs among them: one piece
/// of a line.
pub fn escape(text: &str) -> String {
    if !text.contains(is_active) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        push(letter, &mut out);
    }
    out
}

fn push(letter: char, out: &mut String) {
    if is_active(letter) {
        out.extend(letter.escape_default());
    } else {
        out.push(letter);
    }
}

/// Shows a value with [`escape`] applied to what it prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown<T>(pub T);

impl<T: fmt::Display> fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&escape(&self.0.to_string()))
    }
}

/// A word of a command line as a POSIX shell reads it back: bare where that is safe, else in single quotes. A word with
/// active characters is written as `$'...'` (bash, zsh, POSIX 2024), so that the command can be printed and still names
/// the same thing.
pub fn shell_word(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if !word.contains(is_active) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let mut out = String::from("$'");
    push_ansi(word, &mut out);
    out.push('\'');
    out
}

/// A path as a word for a shell, see [`shell_word`]; bytes that are no UTF-8 are written as octal numbers in `$'...'`, so
/// that the command still names the same file.
pub fn shell_path(path: &Path) -> String {
    if let Some(text) = path.to_str() {
        return shell_word(text);
    }
    let mut out = String::from("$'");
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        push_ansi(chunk.valid(), &mut out);
        push_octal(chunk.invalid(), &mut out);
    }
    out.push('\'');
    out
}

/// The inside of `$'...'`.
fn push_ansi(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => out.extend(['\\', letter]),
            _ if is_active(letter) => push_octal(letter.encode_utf8(&mut [0; 4]).as_bytes(), out),
            _ => out.push(letter),
        }
    }
}

fn push_octal(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        _ = write!(out, "\\{byte:03o}");
    }
}

/// Several words as one line for a shell.
pub fn shell_line<T: AsRef<str>>(words: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| shell_word(word.as_ref())).collect();
    words.join(" ")
}

/// What a page of text may hold beside characters that are only shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allow {
    /// Line ends and tabs.
    Lines,
    /// Line ends, tabs, and where bold text begins (`ESC [1m`) and ends (`ESC [0m`).
    Bold,
    /// Line ends and tabs of a JSON document. What is escaped is written as JSON has it, `\u009b`: the document stays the
    /// same to every reader.
    Json,
}

impl Allow {
    fn push(self, letter: char, out: &mut String) {
        match letter {
            '\n' | '\t' => out.push(letter),
            _ if self == Self::Json && is_active(letter) => {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            _ => push(letter, out),
        }
    }
}

/// A writer that escapes what it is given, line ends and tabs apart. Bytes that are no UTF-8 are written as `\x9b`: many
/// terminals act on them too. A character may be divided between two writes.
#[derive(Debug)]
pub struct Escaping<W: Write> {
    to: W,
    allow: Allow,
    /// The beginning of a character or of a sequence whose rest has not come yet; at most 3 bytes.
    begun: Vec<u8>,
}

impl<W: Write> Escaping<W> {
    /// Escapes on the way to `to`.
    pub fn new(to: W, allow: Allow) -> Self {
        Self { to, allow, begun: Vec::new() }
    }

    fn page(&self, text: &str, out: &mut String) {
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            let sequence = [BOLD, PLAIN].into_iter().find(|sequence| rest.starts_with(sequence));
            if let (Allow::Bold, Some(sequence)) = (self.allow, sequence) {
                out.push_str(sequence);
                rest = &rest[sequence.len()..];
                continue;
            }
            self.allow.push(letter, out);
            rest = &rest[letter.len_utf8()..];
        }
    }

    /// Escapes all of `bytes` but a beginning of something at their end, which it returns.
    fn escaped(&self, bytes: &[u8], out: &mut String) -> Vec<u8> {
        let mut left = bytes;
        while !left.is_empty() {
            match std::str::from_utf8(left) {
                Ok(text) => {
                    let begun = if self.allow == Allow::Bold { begun_sequence(text) } else { 0 };
                    let (whole, begun) = text.split_at(text.len() - begun);
                    self.page(whole, out);
                    return begun.as_bytes().to_vec();
                }
                Err(error) => {
                    let (valid, invalid) = left.split_at(error.valid_up_to());
                    self.page(&String::from_utf8_lossy(valid), out);
                    let Some(length) = error.error_len() else { return invalid.to_vec() };
                    let (wrong, rest) = invalid.split_at(length);
                    for byte in wrong {
                        let _ = write!(out, "\\x{byte:02x}");
                    }
                    left = rest;
                }
            }
        }
        Vec::new()
    }

    fn flush_begun(&mut self) -> io::Result<()> {
        let mut out = String::new();
        let begun = std::mem::take(&mut self.begun);
        match std::str::from_utf8(&begun) {
            Ok(text) => text.chars().for_each(|letter| self.allow.push(letter, &mut out)),
            Err(_) => begun.iter().for_each(|byte| _ = write!(out, "\\x{byte:02x}")),
        }
        self.to.write_all(out.as_bytes())
    }
}

/// Bytes at the end of the text that may be the beginning of [`BOLD`] or [`PLAIN`].
fn begun_sequence(text: &str) -> usize {
    let begins = |bytes: &usize| {
        let end = &text.as_bytes()[text.len() - bytes..];
        [BOLD, PLAIN].iter().any(|sequence| sequence.as_bytes().starts_with(end))
    };
    (1..BOLD.len().min(text.len() + 1)).rev().find(begins).unwrap_or(0)
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut out = String::with_capacity(all.len());
        self.begun = self.escaped(&all, &mut out);
        self.to.write_all(out.as_bytes())?;
        Ok(bytes.len())
    }

    /// Writes what waits for its rest as well: nothing is kept back at a flush.
    fn flush(&mut self) -> io::Result<()> {
        self.flush_begun()?;
        self.to.flush()
    }
}

impl<W: Write> Drop for Escaping<W> {
    /// Errors are lost here; who wants them flushes first.
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(allow: Allow, pieces: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut writer = Escaping::new(&mut out, allow);
        for piece in pieces {
            writer.write_all(piece).expect("memory");
        }
        drop(writer);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn nothing_is_left_that_a_terminal_acts_on() {
        assert_eq!(escape("a\x1b[2Jb\nc\u{202e}d"), "a\\u{1b}[2Jb\\nc\\u{202e}d");
        assert_eq!(escape("Grüße"), "Grüße");
        for code in 0..0x3000 {
            let Some(letter) = char::from_u32(code) else { continue };
            let text = escape(&letter.to_string());
            assert!(!text.contains(is_active), "U+{code:04X}: {text:?}");
            assert!(!text.chars().any(char::is_control), "U+{code:04X}");
        }
        assert_eq!(format!("{:>8}|", Shown("a\n")), "     a\\n|");
    }

    #[test]
    fn a_stream_keeps_lines_and_what_is_allowed() {
        assert_eq!(through(Allow::Lines, &[b"a\tb\n\x1b[1mc\x07\r\n"]), "a\tb\n\\u{1b}[1mc\\u{7}\\r\n");
        assert_eq!(through(Allow::Bold, &[b"\x1b[1mHEAD\x1b[0m\x1b[31mred\n"]), "\x1b[1mHEAD\x1b[0m\\u{1b}[31mred\n");
        assert_eq!(through(Allow::Lines, &[b"x\x9b31m\xff"]), "x\\x9b31m\\xff", "bytes that are no UTF-8");
        assert_eq!(through(Allow::Lines, &["\u{9b}31m".as_bytes()]), "\\u{9b}31m");
        assert_eq!(through(Allow::Json, &["{\n \"\u{9b}1m\"}".as_bytes()]), "{\n \"\\u009b1m\"}");
    }

    #[test]
    fn what_is_divided_between_writes_comes_out_the_same() {
        let text = "a\u{1b}[1mGrüße \u{202e}\u{1b}[0m\u{1b}[2J\u{9b}1m end\u{1b}".as_bytes();
        for allow in [Allow::Lines, Allow::Bold, Allow::Json] {
            let whole = through(allow, &[text]);
            for at in 0..=text.len() {
                let (one, two) = text.split_at(at);
                assert_eq!(through(allow, &[one, two]), whole, "divided at {at}");
            }
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            assert_eq!(through(allow, &bytes), whole, "byte by byte");
        }
    }

    #[test]
    fn shells_read_the_path_back() {
        for (path, quoted) in [
            (&b"/tmp/plain"[..], "/tmp/plain"),
            (b"/tmp/a b", "'/tmp/a b'"),
            (b"/tmp/\xff it's\n", r"$'/tmp/\377 it\'s\012'"),
        ] {
            assert_eq!(shell_path(Path::new(std::ffi::OsStr::from_bytes(path))), quoted);
            let printed = std::process::Command::new("bash").arg("-c").arg(format!("printf %s {quoted}")).output();
            assert_eq!(printed.expect("bash").stdout, path, "{quoted}");
        }
    }

    #[test]
    fn shells_read_the_word_back() {
        for (word, quoted) in [
            ("plain-1.2_x/y=z", "plain-1.2_x/y=z"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$(reboot);#", "'$(reboot);#'"),
            ("a\x1b'\\\u{9b}", r"$'a\033\'\\\302\233'"),
        ] {
            assert_eq!(shell_word(word), quoted);
            let printed = std::process::Command::new("bash").arg("-c").arg(format!("printf %s {quoted}")).output();
            assert_eq!(printed.expect("bash").stdout, word.as_bytes(), "{quoted}");
        }
        assert_eq!(shell_line(["echo", "a b"]), "echo 'a b'");
    }
}
