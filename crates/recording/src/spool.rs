//! A folder that holds a recording only until it is in an object store: bounded in size, whatever the store does.
//!
//! The parts of a recording are copied while it is made, by a program that notes each in a journal (`fleet/store/src/journal.rs`). When the
//! next part would not fit any more, the oldest parts that the journal names are removed, but for stacks, which are read once more. If that is
//! not enough the part does not fit, as on a full file system: it waits in memory, its rows are given up and counted when that is full,
//! too, and recording goes on as soon as there is room again. Parts of `loss`, of some 2 KB, are beyond the bound: they hold the counts.
//!
//! A recording of which parts were removed is not compacted: its rows are not here any more. So readers join and sort it, there are no
//! rollups, and stacks keep the frames that had no names while they were recorded. Its manifest says that it is not complete here, and under
//! [`PARTS_MOVED`] what it is in the store.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::storage::Storage;

/// Key of a manifest whose parts are in a store only: what its keys `complete` and `incomplete_reason` are there.
pub(crate) const PARTS_MOVED: &str = "parts_moved";
/// The table that is read once more when frames are named at the end: it stays.
const READ_AGAIN: &str = "stacks";
/// Version of the journal.
const JOURNAL: u64 = 2;
/// A journal is read in pieces of this size.
const PIECE_BYTES: u64 = 1 << 20;

/// The bound of a spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolOptions {
    /// Bytes of parts that the folder may hold. The compaction at the end takes up to as much again.
    pub max_bytes: u64,
    /// The journal of what was copied.
    pub journal: PathBuf,
    /// Where it is copied to.
    pub url: String,
}

/// A part in the folder.
struct Held {
    path: PathBuf,
    /// As the journal calls it.
    name: String,
    bytes: u64,
}

/// The parts in a spool.
pub(crate) struct Spool {
    options: SpoolOptions,
    used_bytes: u64,
    /// Oldest first.
    parts: VecDeque<Held>,
    journal: Journal,
    /// How far the journal was read when it named no part that is here: until it grows there is nothing to look for.
    nothing_until_bytes: Option<u64>,
    moved_parts: u64,
    moved_bytes: u64,
}

impl Spool {
    pub(crate) fn new(options: SpoolOptions) -> Self {
        let journal = Journal::new(options.journal.clone());
        Self {
            options,
            used_bytes: 0,
            parts: VecDeque::new(),
            journal,
            nothing_until_bytes: None,
            moved_parts: 0,
            moved_bytes: 0,
        }
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        self.options.max_bytes
    }

    /// Takes note of a part.
    pub(crate) fn add(&mut self, table: &str, path: PathBuf, bytes: u64) {
        self.used_bytes += bytes;
        let file = path.file_name().and_then(|name| name.to_str());
        if let Some(file) = file.filter(|_| table != READ_AGAIN) {
            self.parts.push_back(Held { name: format!("{table}/{file}"), path, bytes });
        }
    }

    /// Takes note of parts that were removed because they are too old.
    pub(crate) fn aged(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
    }

    pub(crate) fn fits(&self, bytes: u64) -> bool {
        self.used_bytes.saturating_add(bytes) <= self.options.max_bytes
    }

    /// Whether a part can be removed now.
    pub(crate) fn can_move(&mut self) -> bool {
        self.journal.read();
        if self.nothing_until_bytes == Some(self.journal.read_bytes) {
            return false;
        }
        let is_any = self.parts.iter().any(|part| self.journal.has(part));
        self.nothing_until_bytes = (!is_any).then_some(self.journal.read_bytes);
        is_any
    }

    /// Removes parts that are in the store, oldest first, until `bytes` fit. What cannot be removed stays.
    pub(crate) fn make_room(&mut self, bytes: u64, storage: &dyn Storage) {
        let mut kept = VecDeque::new();
        while !self.fits(bytes)
            && let Some(part) = self.parts.pop_front()
        {
            if !self.journal.has(&part) {
                kept.push_back(part);
                continue;
            }
            match storage.remove_file(&part.path) {
                Ok(()) => {
                    self.used_bytes = self.used_bytes.saturating_sub(part.bytes);
                    self.moved_parts += 1;
                    self.moved_bytes += part.bytes;
                    self.journal.copied.remove(&part.name);
                }
                Err(error) => {
                    tracing::warn!("{} stays behind: {error}", part.path.display());
                    kept.push_back(part);
                }
            }
        }
        // They were older than those that are left.
        kept.append(&mut self.parts);
        self.parts = kept;
    }

    /// Whether parts were removed.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved_parts > 0
    }

    /// Why the recording is not complete here.
    pub(crate) fn reason(&self) -> String {
        let Self { moved_parts, moved_bytes, options, .. } = self;
        let (max_bytes, url) = (options.max_bytes, &options.url);
        format!("{moved_parts} parts with {moved_bytes} bytes are in {url} only: the spool holds {max_bytes} bytes")
    }
}

/// What a manifest says under [`PARTS_MOVED`].
pub(crate) fn in_store(complete: bool, incomplete_reason: Option<&str>) -> Value {
    json!({ "complete": complete, "incomplete_reason": incomplete_reason })
}

/// The journal as far as it was read.
struct Journal {
    path: PathBuf,
    read_bytes: u64,
    has_header: bool,
    /// Sizes of files that are in the store, by name.
    copied: HashMap<String, u64>,
}

#[derive(Deserialize)]
struct Header {
    format: u64,
}

#[derive(Deserialize)]
struct Line {
    name: String,
    bytes: Option<u64>,
}

impl Journal {
    fn new(path: PathBuf) -> Self {
        Self { path, read_bytes: 0, has_header: false, copied: HashMap::new() }
    }

    /// Whether a part is in the store. Parts are written once, under a name that no other has: size and name say which it is.
    fn has(&self, part: &Held) -> bool {
        self.copied.get(&part.name) == Some(&part.bytes)
    }

    /// Reads on. What cannot be read was not copied, as far as is known here.
    fn read(&mut self) {
        while self.read_piece().is_ok_and(|is_more| is_more) {}
    }

    /// Reads a piece; gives whether there is more.
    fn read_piece(&mut self) -> io::Result<bool> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.read_bytes))?;
        let mut text = Vec::new();
        file.take(PIECE_BYTES).read_to_end(&mut text)?;
        // A line that is being written is read the next time.
        let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else { return Ok(false) };
        for line in text.get(..end).unwrap_or_default().split(|byte| *byte == b'\n') {
            if !self.has_header {
                let header: Header = serde_json::from_slice(line)?;
                if header.format != JOURNAL {
                    return Err(io::Error::other("a journal of another format"));
                }
                self.has_header = true;
                continue;
            }
            let Line { name, bytes } = serde_json::from_slice(line)?;
            match bytes {
                Some(bytes) => self.copied.insert(name, bytes),
                None => self.copied.remove(&name),
            };
        }
        self.read_bytes += end as u64 + 1;
        Ok(text.len() as u64 == PIECE_BYTES)
    }
}
