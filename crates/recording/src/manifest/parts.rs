//! The list of a recording's parts, and what may be wrong with it.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MANIFEST;
use crate::seal::Seal;

/// Flaws that a sentence names; of more it gives the number.
const NAMED: usize = 3;

/// A part as it was when the recording was closed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct ListedPart {
    /// The table, which is the folder.
    pub table: String,
    /// Name of the file.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
    /// The CRC-32 at its end, in hexadecimal: of its footer, which has those of its columns.
    pub checksum: String,
}

/// One thing that is not as it was when the recording was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// Its kind, a stable identifier: `manifest.changed`, `part.missing`, `part.added`, `part.size`,
    /// `part.swapped` or `compaction.changed`.
    pub id: &'static str,
    /// The table that it concerns, if it is a part.
    pub table: Option<String>,
    /// File.
    pub path: PathBuf,
    /// In words, which name the file.
    pub message: String,
}

/// What is wrong with the manifest itself.
pub(crate) fn flaws_of_document(dir: &Path, parts: Option<&[ListedPart]>, seal: Seal) -> Vec<Flaw> {
    let why = match (seal, parts) {
        (Seal::Broken, _) => "its checksum is not that of its content",
        (Seal::Absent, Some(_)) => "it has lost its checksum",
        // Without a list nothing was promised.
        (Seal::Absent, None) | (Seal::Whole, _) => return Vec::new(),
    };
    let message = format!("manifest.json was changed after it was written: {why}");
    vec![Flaw { id: "manifest.changed", table: None, path: dir.join(MANIFEST), message }]
}

/// The flaws in one sentence.
pub(crate) fn sentence(flaws: &[Flaw]) -> Option<String> {
    if flaws.is_empty() {
        return None;
    }
    let mut words: Vec<&str> = flaws.iter().take(NAMED).map(|flaw| flaw.message.as_str()).collect();
    let more = format!("{} more: see pagelab check", flaws.len().saturating_sub(NAMED));
    if flaws.len() > NAMED {
        words.push(&more);
    }
    Some(words.join("; "))
}
