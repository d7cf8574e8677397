//! The guest's console: its end is kept, whatever the guest prints.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How a kernel says that it gives up.
const PANIC: &str = "Kernel panic - not syncing: ";

/// A log of two files, `NAME.log` and, before it, `NAME.1.log`. Each has at most `limit` bytes, so that at least the
/// last `limit` bytes are there. `NAME.start` says how many bytes came before `NAME.log`.
pub(crate) struct BoundedLog {
    folder: PathBuf,
    name: &'static str,
    file: File,
    in_file: u64,
    before: u64,
    limit: u64,
}

impl BoundedLog {
    pub(crate) fn create(folder: &Path, name: &'static str, limit: u64) -> io::Result<Self> {
        let _ = fs::remove_file(folder.join(format!("{name}.1.log")));
        let _ = fs::remove_file(folder.join(format!("{name}.start")));
        let file = File::create(folder.join(format!("{name}.log")))?;
        Ok(BoundedLog { folder: folder.to_owned(), name, file, in_file: 0, before: 0, limit: limit.max(4096) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.in_file + bytes.len() as u64 > self.limit {
            let current = self.folder.join(format!("{}.log", self.name));
            fs::rename(&current, self.folder.join(format!("{}.1.log", self.name)))?;
            self.before += self.in_file;
            self.in_file = 0;
            fs::write(self.folder.join(format!("{}.start", self.name)), self.before.to_string())?;
            self.file = File::create(current)?;
        }
        self.file.write_all(bytes)?;
        self.in_file += bytes.len() as u64;
        Ok(())
    }
}

/// How many bytes the log has seen.
pub(crate) fn position(folder: &Path, name: &str) -> u64 {
    let length = fs::metadata(folder.join(format!("{name}.log"))).map_or(0, |found| found.len());
    start(folder, name) + length
}

fn start(folder: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(folder.join(format!("{name}.start"))).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// The output from a position on, at most the last `bytes` bytes, as text for people.
pub(crate) fn since(folder: &Path, name: &str, from: u64, bytes: u64) -> String {
    let end = position(folder, name);
    let from = from.max(end.saturating_sub(bytes));
    let start = start(folder, name);
    let mut found = Vec::new();
    if from < start {
        let older = folder.join(format!("{name}.1.log"));
        let length = fs::metadata(&older).map_or(0, |found| found.len());
        // The older file ends where the newer one begins.
        read_from(&older, (length + from).saturating_sub(start), &mut found);
    }
    read_from(&folder.join(format!("{name}.log")), from.saturating_sub(start), &mut found);
    plain(&String::from_utf8_lossy(&found))
}

fn read_from(path: &Path, from: u64, into: &mut Vec<u8>) {
    // A log that is not there has nothing to show.
    if let Ok(mut file) = File::open(path) {
        let _ = file.seek(SeekFrom::Start(from)).and_then(|_| file.read_to_end(into));
    }
}

/// The end of the log, in whole lines.
pub(crate) fn tail(folder: &Path, name: &str, bytes: usize) -> String {
    let text = since(folder, name, 0, bytes as u64 * 2);
    crate::tool::tail(text.trim_end(), bytes).to_owned()
}

/// Without carriage returns and the sequences that move a terminal's cursor.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => {
                // `ESC [ parameters letter`, or `ESC letter`.
                if letters.next() == Some('[') {
                    letters.find(|letter| ('@'..='~').contains(letter));
                }
            }
            '\n' | '\t' => plain.push(letter),
            letter if letter.is_control() => {}
            letter => plain.push(letter),
        }
    }
    plain
}

/// Why the kernel gave up, if the text says that it did.
pub(crate) fn panic_words(text: &str) -> Option<String> {
    let at = text.rfind(PANIC)?;
    let words = text.get(at + PANIC.len()..)?.lines().next()?;
    Some(words.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_however_much_comes() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = BoundedLog::create(folder.path(), "console", 4096).expect("created");
        for line in 0..10_000 {
            log.write(format!("line {line}\r\n").as_bytes()).expect("written");
        }
        let size: u64 = fs::read_dir(folder.path())
            .expect("the folder")
            .map(|entry| entry.expect("an entry").metadata().expect("there").len())
            .sum();
        assert!(size <= 2 * 4096 + 16, "{size}");
        let written: u64 = (0..10_000).map(|line| format!("line {line}\r\n").len() as u64).sum();
        assert_eq!(position(folder.path(), "console"), written);
        let end = tail(folder.path(), "console", 4096);
        assert!(end.ends_with("line 9998\nline 9999"), "{end}");
        // From a position on, also across the two files.
        for back in [0, 11, 1100, 4400] {
            let text = since(folder.path(), "console", written - back, u64::MAX);
            assert_eq!(text.lines().count() as u64, back / 11, "{back}: {text}");
        }
    }

    #[test]
    fn a_panic_is_recognised_and_the_text_is_plain() {
        let text = plain(
            "\u{1b}[1;31mbad\u{1b}[0m\r\n\u{1b}cx\u{7}\n[ 1.0] Kernel panic - not syncing: sysrq triggered crash\r\n",
        );
        assert_eq!(text, "bad\nx\n[ 1.0] Kernel panic - not syncing: sysrq triggered crash\n");
        assert_eq!(panic_words(&text).as_deref(), Some("sysrq triggered crash"));
        assert_eq!(panic_words("all is well"), None);
    }
}
