//! The flight recorder's memory: parts of events that are older than the time to keep are removed again.
//!
//! Only events age. What the rest cannot be read without (which tasks and mappings there are, names of files, stacks,
//! settings) is kept from the start, and so are marks, which people set.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use crate::storage::Storage;

/// Tables that do not age.
const STATE: [&str; 8] = ["tasks", "mappings", "files", "settings", "stacks", "frames", "jobs", "marks"];

/// Whether the rows of a table are events of their time alone, which the rest can be read without.
pub(crate) fn ages(table: &str) -> bool {
    !STATE.contains(&table)
}

struct Kept {
    path: PathBuf,
    /// No row of the part is newer.
    written_ns: i64,
    bytes: u64,
}

/// Which parts will age, oldest first.
#[derive(Default)]
pub(crate) struct Keep {
    last_ns: Option<i64>,
    parts: VecDeque<Kept>,
    since_ns: Option<i64>,
}

impl Keep {
    /// Keeps everything, or what happened within `last`.
    pub(crate) fn new(last: Option<Duration>) -> Self {
        let last_ns = last.map(|last| i64::try_from(last.as_nanos()).unwrap_or(i64::MAX));
        Self { last_ns, ..Self::default() }
    }

    /// Takes note of a part.
    pub(crate) fn add(&mut self, table: &str, path: PathBuf, written_ns: i64, bytes: u64) {
        if self.last_ns.is_some() && ages(table) {
            self.parts.push_back(Kept { path, written_ns, bytes });
        }
    }

    /// Removes what is too old; gives the bytes that are free again.
    pub(crate) fn trim(&mut self, now_ns: i64, storage: &dyn Storage) -> u64 {
        let Some(last_ns) = self.last_ns else { return 0 };
        let mut freed = 0;
        while let Some(oldest) = self.parts.pop_front_if(|part| now_ns.saturating_sub(part.written_ns) > last_ns) {
            match storage.remove_file(&oldest.path) {
                Ok(()) => freed += oldest.bytes,
                // More is kept than was asked for, which harms nobody but the file system.
                Err(error) => tracing::warn!("{} stays behind: {error}", oldest.path.display()),
            }
            self.since_ns = Some(oldest.written_ns);
        }
        freed
    }

    /// From when on every event is still there; none if all are.
    pub(crate) fn since_ns(&self) -> Option<i64> {
        self.since_ns
    }
}
