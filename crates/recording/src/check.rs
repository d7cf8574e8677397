//! `pagelab check`: is a recording whole?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::reader::Recording;
use crate::tables;

/// What [`check`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Whether the recorder reached a clean end.
    pub complete: bool,
    /// Per table with parts: rows and parts.
    pub tables: BTreeMap<String, TableReport>,
    /// Everything that is not as it should be.
    pub problems: Vec<Problem>,
}

/// Rows and parts of one table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableReport {
    /// Rows that could be read.
    pub rows: u64,
    /// Parts.
    pub parts: u64,
    /// Size of the parts.
    pub bytes: u64,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Stable identifier of the kind of problem.
    pub id: String,
    /// File or directory.
    pub path: PathBuf,
    /// What is wrong.
    pub message: String,
}

/// Checks the recording in `dir`.
pub fn check(dir: &Path) -> Result<CheckReport> {
    let recording = Recording::open(dir)?;
    let mut report = CheckReport { complete: recording.manifest().complete, ..CheckReport::default() };
    for table in tables::all() {
        let mut entry = TableReport::default();
        for part in recording.parts(table.name)? {
            entry.parts += 1;
            entry.bytes += part.metadata().map_or(0, |m| m.len());
        }
        for batch in recording.read(table.name, None)? {
            entry.rows += batch?.num_rows() as u64;
        }
        if entry.parts > 0 {
            report.tables.insert(table.name.to_owned(), entry);
        }
    }
    Ok(report)
}
