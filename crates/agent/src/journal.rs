//! The agent's memory across restarts: `DIR/.agent/state.json` and `DIR/.agent/journal.jsonl`.
//!
//! The state is replaced before each window begins. The journal has a line for each thing that happened to a recording; a line that was
//! cut off by a kill is passed over, and what it said is found again in the recording itself. Nothing is synced: a kill loses nothing that was
//! written, and after a power cut an older memory only means that a recording is uploaded once more, to the same names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;

use pagelab_output::{Folder, Result, Sync};
use serde::{Deserialize, Serialize};

use crate::schedule::Saved;

const STATE: &str = "state.json";
const JOURNAL: &str = "journal.jsonl";
/// Longest state, bytes.
const LARGEST_STATE: u64 = 1 << 20;
/// Longest journal that is read, bytes: of ten years.
const LARGEST_JOURNAL: u64 = 1 << 30;
/// Journal bytes at which it is written anew with what still holds.
const COMPACT_BYTES: u64 = 1 << 20;

/// A trigger that has fired, until its recording is in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fired {
    /// The triggers, as they were typed.
    pub trigger: String,
    /// For names of files and metrics.
    pub slug: String,
    /// When, wall clock, ns since the epoch.
    pub real_ns: i64,
}

/// What must be known before the journal is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    /// The schedule.
    pub schedule: Option<Saved>,
    /// A trigger whose recording was not in place yet.
    pub fired: Option<Fired>,
}

/// One thing that happened to a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub(crate) enum Line {
    /// A recorder was started.
    Begun {
        recording: String,
        pid: u32,
        /// When that process began, clock ticks since boot.
        ticks: Option<u64>,
    },
    /// It has ended; `complete` is the manifest's.
    Ended { recording: String, complete: bool },
    /// Everything of it is in the store.
    Uploaded { recording: String },
    /// It was removed.
    Removed { recording: String },
}

/// What the journal says of one recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Process and its begin, of a recorder that has not been seen to end.
    pub recorder: Option<(u32, Option<u64>)>,
    /// Whether it is complete; none until it has ended.
    pub complete: Option<bool>,
    /// Whether everything of it is in the store.
    pub uploaded: bool,
}

/// The two files.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: Folder,
    file: File,
    bytes: u64,
}

impl Journal {
    /// Opens the journal, or begins one. The memory and what is known of recordings; a memory that cannot be read is none.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(crate) fn open(folder: &Folder) -> Result<(Self, Memory, BTreeMap<String, Known>)> {
        let memory = folder.read(STATE, LARGEST_STATE).ok();
        let memory = memory.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let file = folder.append_file(JOURNAL)?;
        let text = folder.read(JOURNAL, LARGEST_JOURNAL)?;
        let known = folded(&text);
        let mut journal = Self { folder: folder.try_clone()?, file, bytes: text.len() as u64 };
        journal.rewrite(&known)?;
        Ok((journal, memory, known))
    }

    /// Notes a line. One that cannot be written is found again at the next start, in the recording.
    pub(crate) fn note(&mut self, line: &Line) -> std::io::Result<()> {
        let text = text_of(line);
        self.bytes += text.len() as u64;
        self.file.write_all(text.as_bytes())
    }

    /// Replaces the memory.
    ///
    /// # Errors
    /// The disk is full, or the folder is not ours any more.
    pub(crate) fn remember(&self, memory: &Memory) -> Result<()> {
        let text = serde_json::to_vec(memory).unwrap_or_default();
        self.folder.write_atomic(STATE, &text, Sync::No)
    }

    /// Whether the journal has grown so long that it should be written anew.
    pub(crate) fn is_long(&self) -> bool {
        self.bytes > COMPACT_BYTES
    }

    /// Writes the journal anew with what holds.
    ///
    /// # Errors
    /// The disk is full, or the folder is not ours any more; the old one stays.
    pub(crate) fn rewrite(&mut self, known: &BTreeMap<String, Known>) -> Result<()> {
        let text: String = known.iter().flat_map(|(recording, known)| lines_of(recording, known)).collect();
        self.folder.write_atomic(JOURNAL, text.as_bytes(), Sync::No)?;
        self.file = self.folder.append_existing(JOURNAL)?;
        self.bytes = text.len() as u64;
        Ok(())
    }
}

fn text_of(line: &Line) -> String {
    // Texts and numbers only: it cannot fail.
    serde_json::to_string(line).map(|text| text + "\n").unwrap_or_default()
}

fn lines_of(recording: &str, known: &Known) -> Vec<String> {
    let name = || recording.to_owned();
    let begun = known.recorder.map(|(pid, ticks)| Line::Begun { recording: name(), pid, ticks });
    let ended = known.complete.map(|complete| Line::Ended { recording: name(), complete });
    let uploaded = known.uploaded.then(|| Line::Uploaded { recording: name() });
    [begun, ended, uploaded].iter().flatten().map(text_of).collect()
}

/// What all lines together say; those that are none are passed over.
fn folded(text: &[u8]) -> BTreeMap<String, Known> {
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    for line in text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()) {
        match line {
            Line::Begun { recording, pid, ticks } => {
                known.insert(recording, Known { recorder: Some((pid, ticks)), ..Known::default() });
            }
            Line::Ended { recording, complete } => {
                let one = known.entry(recording).or_default();
                (one.recorder, one.complete) = (None, Some(complete));
            }
            Line::Uploaded { recording } => known.entry(recording).or_default().uploaded = true,
            Line::Removed { recording } => drop(known.remove(&recording)),
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> [Line; 7] {
        let name = |name: &str| name.to_owned();
        [
            Line::Begun { recording: name("a"), pid: 7, ticks: Some(70) },
            Line::Ended { recording: name("a"), complete: true },
            Line::Uploaded { recording: name("a") },
            Line::Begun { recording: name("b"), pid: 8, ticks: None },
            Line::Begun { recording: name("c"), pid: 9, ticks: Some(90) },
            Line::Ended { recording: name("c"), complete: false },
            Line::Removed { recording: name("a") },
        ]
    }

    #[test]
    fn what_was_noted_is_known_after_a_restart() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(dir.path()).expect("ours");
        let (mut journal, memory, known) = Journal::open(&folder).expect("a new one");
        assert_eq!((memory, known.len()), (Memory::default(), 0));
        for line in &lines() {
            journal.note(line).expect("there is room");
        }
        let fired = Fired { trigger: "signal".to_owned(), slug: "signal".to_owned(), real_ns: 5 };
        let memory = Memory { schedule: None, fired: Some(fired) };
        journal.remember(&memory).expect("there is room");
        drop(journal);
        // A kill in the middle of a line.
        let mut file = folder.append_existing(JOURNAL).expect("it is there");
        file.write_all(b"{\"what\":\"uploaded\",\"recording\":\"b").expect("there is room");
        for _ in 0..2 {
            let (_, found, known) = Journal::open(&folder).expect("it is there");
            assert_eq!(found, memory);
            assert_eq!(known["b"], Known { recorder: Some((8, None)), ..Known::default() });
            assert_eq!(known["c"], Known { complete: Some(false), ..Known::default() });
            assert_eq!(known.len(), 2, "what was removed is forgotten");
        }
    }

    #[test]
    fn a_journal_that_grew_long_is_written_anew_and_goes_on() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(dir.path()).expect("ours");
        let (mut journal, _, _) = Journal::open(&folder).expect("a new one");
        let one = Line::Ended { recording: "2026-11-26/041500.rec".to_owned(), complete: true };
        while !journal.is_long() {
            journal.note(&one).expect("there is room");
        }
        let known = BTreeMap::from([("a".to_owned(), Known { complete: Some(true), uploaded: true, recorder: None })]);
        journal.rewrite(&known).expect("there is room");
        assert!(!journal.is_long());
        journal.note(&Line::Ended { recording: "b".to_owned(), complete: true }).expect("there is room");
        let (_, _, found) = Journal::open(&folder).expect("it is there");
        assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), ["a", "b"]);
        assert!(found["a"].uploaded && found["b"].complete == Some(true));
    }

    #[test]
    fn a_damaged_memory_is_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(dir.path()).expect("ours");
        folder.write_atomic(STATE, b"{\"schedule\": 7", Sync::No).expect("there is room");
        folder.write_atomic(JOURNAL, b"\xff\xfe\n\n{}\n[1]\n", Sync::No).expect("there is room");
        let (_, memory, known) = Journal::open(&folder).expect("it is there");
        assert_eq!((memory, known.len()), (Memory::default(), 0));
    }
}
