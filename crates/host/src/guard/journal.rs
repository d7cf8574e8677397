//! The journal of one guard: JSON lines, the id of this boot first.
//!
//! Each line ends with a checksum of itself (`"crc"`), so that a line that is there is known to be whole. A line that
//! could not be written in full is taken away again, and if even that fails, the next one begins on a line of its own.
//! A journal that says something unknown (a newer format, another kind of record) is never undone in part and never
//! deleted.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::state::{self, Folder};
use super::undo::{Begun, Change, Companion};
use super::{Door, GuardError, state_error};
use crate::facts;

/// A line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum Record {
    /// The first line.
    Open(Header),
    /// A change is about to be made.
    Intent {
        seq: u64,
        key: String,
        previous: String,
        /// The bytes of the value found, in hex digits, where they are not `previous` and a newline.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<String>,
        requested: String,
        companions: Vec<Value>,
    },
    /// It was made, and this came of it.
    Applied { seq: u64, got: Option<String>, companions: Vec<Value> },
    /// It and these companions are about to be put back; those others have a value that somebody else gave them.
    Undoing {
        seq: u64,
        companions: Vec<String>,
        #[serde(default)]
        others: Vec<Value>,
    },
    /// It needs nothing more: put back, or left on purpose.
    Undone { seq: u64 },
}

/// Who wrote a journal, and in which boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: u32,
    pub(super) boot_id: Option<String>,
    pub(super) pid: u32,
    pub(super) root: PathBuf,
    pub(super) command: String,
}

/// A companion and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Value {
    pub(super) key: String,
    pub(super) value: Option<String>,
    /// As in [`Record::Intent`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<String>,
}

const FORMAT: u32 = 1;
const PREFIX: &str = "journal-";
/// How the name ends that a journal has until it has its first line.
const TEMPORARY: &str = ".tmp";
/// The longest journal that is read.
const LONGEST: u64 = 64 << 20;

/// A journal that this process writes and holds the lock of.
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    /// Where the last whole line ends.
    end: u64,
    /// Part of a line is behind that, and could not be taken away.
    torn: bool,
}

impl Journal {
    /// Makes the state folder if need be, and in it a journal with its first line.
    pub(super) fn create(state_dir: &Path, root: &Path) -> Result<Self, GuardError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = Folder::make(state_dir, 0o700).map_err(|e| state_error(state_dir, &e))?;
        let header = Record::Open(Header {
            format: FORMAT,
            boot_id: facts::boot_id(root),
            pid: std::process::id(),
            root: root.to_owned(),
            command: command(),
        });
        loop {
            let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let named = format!("{PREFIX}{name}.jsonl");
            let path = folder.path_of(&named);
            // A dead process may have had the same id; its journal is not to be touched here.
            if path.exists() {
                continue;
            }
            // Under its name a journal is always locked and has its first line: whoever finds one that is not locked
            // knows that its guard is dead.
            let temporary = format!(".{name}{TEMPORARY}");
            // What a dead process of this id left.
            let _ = folder.remove(&temporary);
            let file = folder.new_file(&temporary).map_err(|e| state_error(&folder.path_of(&temporary), &e))?;
            let mut journal = Journal { file, path, end: 0, torn: false };
            let made = flock(&journal.file, FlockOperation::NonBlockingLockExclusive)
                .map_err(io::Error::from)
                .and_then(|()| journal.write(&mut super::KernelDoor, &header))
                .and_then(|()| folder.rename(&temporary, &named));
            if let Err(error) = made {
                let _ = folder.remove(&temporary);
                return Err(state_error(&journal.path, &error));
            }
            return Ok(journal);
        }
    }

    /// Takes over a journal that nobody holds; `None` if somebody does or it is gone.
    pub(super) fn take_over(path: &Path) -> io::Result<Option<Self>> {
        let journal = match Self::open_unlocked(path) {
            Ok(journal) => journal,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match flock(&journal.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // Whoever held it may have finished and removed it between the two calls.
        Ok(path.exists().then_some(journal))
    }

    /// A journal without its lock, for a helper whose guard is known to be dead while something else still holds it.
    pub(super) fn open_unlocked(path: &Path) -> io::Result<Self> {
        let file = state::open_file(path, true)?;
        let end = file.metadata()?.len();
        // Whether its author got to the end of the last line is not known.
        Ok(Journal { file, path: path.to_owned(), end, torn: end > 0 })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn append(&mut self, door: &mut dyn Door, record: &Record) -> Result<(), GuardError> {
        self.write(door, record).map_err(|error| state_error(&self.path, &error))
    }

    fn write(&mut self, door: &mut dyn Door, record: &Record) -> io::Result<()> {
        let mut bytes = line(record)?;
        if self.torn {
            bytes.insert(0, b'\n');
        }
        match door.append(&mut self.file, &bytes) {
            Ok(()) => {
                self.end += bytes.len() as u64;
                self.torn = false;
                Ok(())
            }
            Err(error) => {
                // Half a line would swallow the next one.
                self.torn |= self.file.set_len(self.end).is_err();
                Err(error)
            }
        }
    }

    /// Lets go of the journal, and removes it if all of it is settled.
    pub(super) fn end(self, door: &mut dyn Door, settled: bool) {
        if settled && let Err(error) = door.remove(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
        // A child between fork and exec may share the descriptor; unlocking does not wait for it.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// What stands before the checksum at the end of a line, and what after it.
const CRC: (&str, &str) = (",\"crc\":\"", "\"}");

/// The record as a line: its JSON form, in which the checksum of all that stands before it is the last member.
fn line(record: &Record) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_string(record)?;
    text.pop();
    let crc = crc32fast::hash(text.as_bytes());
    Ok(format!("{text}{}{crc:08x}{}\n", CRC.0, CRC.1).into_bytes())
}

/// Whether the checksum of a line is right; a line of an earlier pagelab has none.
fn is_whole(line: &str) -> bool {
    let Some((text, crc)) = line.strip_suffix(CRC.1).and_then(|line| line.rsplit_once(CRC.0)) else { return true };
    u32::from_str_radix(crc, 16).is_ok_and(|crc| crc == crc32fast::hash(text.as_bytes()))
}

/// The command of this process, for messages.
pub(super) fn command() -> String {
    let words: Vec<String> = std::env::args_os().take(6).map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// Journals in a state folder, oldest name first; none where there is no such folder.
///
/// # Errors
/// The folder is not ours alone, so that nothing in it is believed, or cannot be read.
pub(super) fn list(state_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = match Folder::open(state_dir) {
        Ok(folder) => folder,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let names = folder.names().into_iter().filter(|name| name.starts_with(PREFIX));
    Ok(names.map(|name| folder.path_of(&name)).collect())
}

/// The process that wrote a journal of this name.
pub(super) fn author(name: &str) -> Option<i32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Removes journals that their authors did not live to give a name.
pub(super) fn sweep(state_dir: &Path) {
    let unnamed = |name: &String| {
        let author = name.strip_prefix('.').and_then(|rest| rest.strip_suffix(TEMPORARY)?.split('-').next());
        // A living one is about to lock it.
        author.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
    };
    let Ok(folder) = Folder::open(state_dir) else { return };
    for name in folder.names().into_iter().filter(unnamed) {
        let Ok(file) = folder.file(&name, false) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = folder.remove(&name);
        }
    }
}

/// What a journal says.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) header: Option<Header>,
    /// Changes in the order in which they were made.
    pub(super) changes: Vec<Change>,
    /// Why the journal is not to be acted upon: it says what this version does not know.
    pub(super) unknown: Option<String>,
    /// Incomplete lines before the last one. Their contents are lost.
    pub(super) damaged: usize,
}

impl Contents {
    /// Whether an unsettled change concerns one of the keys.
    pub(super) fn concerns(&self, keys: &[String]) -> bool {
        self.changes.iter().filter(|change| !change.settled).any(|change| {
            keys.contains(&change.key) || change.companions.iter().any(|companion| keys.contains(&companion.key))
        })
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Open(header) if header.format != FORMAT => {
                let Header { format, pid, command, .. } = header;
                let who = format!("process {pid}, `{command}`");
                self.unknown.get_or_insert(format!("format {format} of {who}; this pagelab knows format {FORMAT}"));
            }
            Record::Open(header) => self.header = Some(header),
            Record::Intent { seq, key, previous, bytes, requested, companions } => {
                let companions = companions.into_iter().map(Companion::found).collect();
                self.changes.push(Change {
                    seq,
                    key,
                    previous,
                    bytes: bytes.as_deref().and_then(unhex),
                    requested,
                    got: None,
                    companions,
                    undoing: None,
                    settled: false,
                });
            }
            Record::Applied { seq, got, companions } => {
                if let Some(change) = self.changes.iter_mut().find(|change| change.seq == seq) {
                    change.take_applied(got, companions);
                }
            }
            Record::Undoing { seq, companions, others } => {
                if let Some(change) = self.changes.iter_mut().find(|change| change.seq == seq) {
                    change.undoing = Some(Begun { own: companions, others });
                }
            }
            Record::Undone { seq } => {
                for change in self.changes.iter_mut().filter(|change| change.seq == seq) {
                    change.settled = true;
                }
            }
        }
    }

    /// Takes one line. `last`: nothing follows it, so its author's death may have cut it short; the change it announced
    /// was not made yet.
    fn take_line(&mut self, line: &str, last: bool) {
        if let (Ok(record), true) = (serde_json::from_str::<Record>(line), is_whole(line)) {
            self.take(record);
            return;
        }
        // Part of a line and a whole one: the whole one has a checksum of its own.
        let inner = line.match_indices("{\"record\":").filter(|(start, _)| *start > 0).find_map(|(start, _)| {
            let rest = line.get(start..)?;
            (rest.ends_with(CRC.1) && rest.contains(CRC.0) && is_whole(rest)).then_some(rest)
        });
        if let Some(record) = inner.and_then(|rest| serde_json::from_str::<Record>(rest).ok()) {
            self.take(record);
            return;
        }
        match serde_json::from_str::<serde_json::Value>(line) {
            Ok(value) if is_whole(line) => {
                let name = value.get("record").and_then(serde_json::Value::as_str).unwrap_or("(none)").to_owned();
                let format = value.get("format").and_then(serde_json::Value::as_u64);
                self.unknown.get_or_insert(match format {
                    Some(format) => format!("format {format}; this pagelab knows format {FORMAT}"),
                    None => format!("a record `{name}` that this pagelab does not know"),
                });
            }
            Err(_) if last => {}
            _ => self.damaged += 1,
        }
    }
}

/// Reads a journal.
///
/// # Errors
/// It is not ours alone, cannot be read, or is longer than 64 MiB.
pub(super) fn read(path: &Path) -> io::Result<Contents> {
    let mut bytes = Vec::new();
    state::open_file(path, false)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {} MiB", LONGEST >> 20)));
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut contents = Contents::default();
    let mut lines = text.lines().filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        contents.take_line(line, lines.peek().is_none());
    }
    // The first line is on the medium before any other.
    if contents.header.is_none() && contents.unknown.is_none() && !contents.changes.is_empty() {
        contents.unknown = Some("no first line, although others are there".to_owned());
    }
    Ok(contents)
}

/// Hex digits as bytes; `None` if it is anything else.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use pagelab_vocab::units::hexadecimal;

    use super::*;

    fn intent(seq: u64) -> Record {
        let (previous, requested) = ("two words".to_owned(), "1".to_owned());
        let bytes = Some(hexadecimal(b"two   words\n"));
        Record::Intent {
            seq,
            key: "sysctl.vm.swappiness".to_owned(),
            previous,
            bytes,
            requested,
            companions: Vec::new(),
        }
    }

    fn text_of(record: &Record) -> String {
        String::from_utf8(line(record).expect("JSON")).expect("UTF-8")
    }

    fn contents(text: &str) -> Contents {
        let mut contents = Contents::default();
        let lines: Vec<&str> = text.lines().collect();
        for (place, line) in lines.iter().enumerate() {
            contents.take_line(line, place + 1 == lines.len());
        }
        contents
    }

    #[test]
    fn a_line_is_whole_or_known_not_to_be() {
        let whole = text_of(&intent(0));
        let found = contents(&whole);
        assert_eq!(
            found.changes.first().and_then(|change| change.bytes.clone()).as_deref(),
            Some(&b"two   words\n"[..])
        );
        // One byte is another: in the middle the line counts as damaged, and at the end as well, since it is all there.
        let other = whole.replace("two words", "two w0rds");
        assert_eq!(contents(&format!("{other}{whole}")).damaged, 1);
        assert_eq!(contents(&other).damaged, 1);
        // A line without checksum is of an earlier pagelab.
        let (start, _) = whole.rsplit_once(CRC.0).expect("a checksum");
        assert_eq!(contents(&format!("{start}}}\n")).changes.len(), 1);
    }

    #[test]
    fn half_a_line_does_not_swallow_the_next() {
        let (first, second) = (text_of(&intent(0)), text_of(&intent(1)));
        for cut in 1..first.len() - 1 {
            let glued = format!("{}{second}", first.get(..cut).expect("ASCII"));
            let found = contents(&glued);
            assert!(found.changes.iter().any(|change| change.seq == 1), "cut at {cut}: {glued}");
        }
    }

    #[test]
    fn what_is_not_known_is_said() {
        let newer = r#"{"record":"open","format":2,"boot_id":"x","pid":1,"root":"/","command":"pagelab"}"#;
        let other = r#"{"record":"moved","seq":0}"#;
        assert!(contents(newer).unknown.is_some_and(|why| why.contains("format 2")));
        assert!(contents(other).unknown.is_some_and(|why| why.contains("`moved`")));
        assert!(contents("{\"record\":\"op").unknown.is_none(), "cut short");
        assert_eq!(unhex(&hexadecimal(b"\x00\xff a")).as_deref(), Some(&b"\x00\xff a"[..]));
        for wrong in ["0", "0g", "é"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }
}
