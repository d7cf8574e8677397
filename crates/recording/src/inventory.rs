//! Is everything there that was there when the recording was closed?
//!
//! Each part has checksums of its own, which say nothing of parts that are not there. So the manifest of a closed recording
//! lists its parts ([`ListedPart`]), rollups included, and ends with a checksum of itself: of every byte before the digits
//! of the checksum and behind them. Opening a recording compares both ([`flaws`]): the names in its folders, the sizes of
//! the files and the checksum at the end of each, which covers the part's footer and, through that, every byte of it.
//! `pagelab check` reads the parts as well.
//!
//! What differs makes a recording incomplete for every reader, with the reason. It tells accidents, not forgeries: a
//! checksum can be made anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use pagelab_vocab::terminal::escape;

use crate::compact::{COMMIT, Commit};
use crate::error::Result;
use crate::manifest::{Flaw, ListedPart, MANIFEST, Manifest, flaws_of_document};
use crate::part::{self, Part};
use crate::reader::{Recording, list_parts};
use crate::seal::Seal;
use crate::tables;

/// Where a listed part is in the recording in `dir`.
pub(crate) fn place(dir: &Path, listed: &ListedPart) -> PathBuf {
    dir.join(&listed.table).join(&listed.name)
}

/// Whether table and name are those of a part of ours, and not a way out of the recording.
pub(crate) fn is_named_well(listed: &ListedPart) -> bool {
    let is_plain = listed.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    is_plain && listed.name.ends_with(".parquet") && tables::table_or_err(&listed.table).is_ok()
}

/// Lists the parts of the recording in `dir` as they are now, rollups included.
pub(crate) fn list(dir: &Path) -> Result<Vec<ListedPart>> {
    let recording = Recording::open(dir)?;
    let mut listed = Vec::new();
    for table in tables::all() {
        // Whether a rollup is right is not known before the last manifest is.
        let parts = match table.rollup {
            Some(_) => list_parts(&dir.join(table.name))?,
            None => recording.parts(table.name)?,
        };
        for path in parts {
            let part = Part::open(&path)?;
            listed.push(ListedPart {
                table: table.name.to_owned(),
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                bytes: part.len_bytes(),
                rows: part.rows(),
                checksum: part::end_checksum(&path)?.1.map(hex).unwrap_or_default(),
            });
        }
    }
    Ok(listed)
}

fn hex(checksum: u32) -> String {
    format!("{checksum:08x}")
}

/// Everything that is not as the manifest says it was. A recording without a list has no flaws that could be known.
pub(crate) fn flaws(dir: &Path, manifest: &Manifest, seal: Seal) -> Vec<Flaw> {
    let mut flaws = flaws_of_document(dir, manifest.parts.as_deref(), seal);
    let Some(listed) = &manifest.parts else { return flaws };
    for one in listed {
        flaws.extend(part_flaw(dir, one));
    }
    flaws.extend(added(dir, listed));
    flaws.extend(contradiction(dir, listed));
    flaws
}

/// A record of a compaction, which readers follow, that names other parts than the list. A power cut may bring one back that names
/// the same.
fn contradiction(dir: &Path, listed: &[ListedPart]) -> Option<Flaw> {
    let flaw = |message: String| Flaw { id: "compaction.changed", table: None, path: dir.join(COMMIT), message };
    let commit = match Commit::load(dir) {
        Ok(commit) => commit?,
        Err(error) => return Some(flaw(format!("{COMMIT} was added after the recording was closed: {error}"))),
    };
    let tables: BTreeSet<&str> = tables::all().iter().map(|table| table.name).collect();
    let other = tables.into_iter().find(|table| {
        let of_list: Vec<PathBuf> =
            listed.iter().filter(|part| part.table == *table).map(|part| place(dir, part)).collect();
        // What cannot be listed is damage that readers meet.
        commit.parts(dir, table).is_ok_and(|parts| parts.is_some_and(|parts| parts != of_list))
    })?;
    Some(flaw(format!("{COMMIT} was added after the recording was closed: it names other parts of {other}")))
}

/// What is wrong with a listed part, by its name, its size and its end.
fn part_flaw(dir: &Path, listed: &ListedPart) -> Option<Flaw> {
    let ListedPart { table, name, bytes, rows, checksum } = listed;
    let flaw = |id, message: String| Some(Flaw { id, table: Some(table.clone()), path: place(dir, listed), message });
    if !is_named_well(listed) {
        let named = escape(&format!("{table}/{name}"));
        return Some(Flaw {
            id: "manifest.changed",
            table: None,
            path: dir.join(MANIFEST),
            message: format!("manifest.json lists {named:?}, which is no name of a part"),
        });
    }
    let again = if table.starts_with("rollup_") { "; pagelab rollup makes it again" } else { "" };
    match part::end_checksum(&place(dir, listed)) {
        Err(error) if error.is_damage() => {
            flaw("part.missing", format!("{table}/{name} is missing, with {rows} rows of {table}{again}"))
        }
        Err(error) => flaw("part.missing", format!("{table}/{name}, with {rows} rows, cannot be read: {error}")),
        Ok((found, _)) if found != *bytes => flaw(
            "part.size",
            format!("{table}/{name} has {found} bytes, and had {bytes} when the recording was closed"),
        ),
        Ok((_, end)) if end.map(hex).unwrap_or_default() != *checksum => {
            flaw("part.swapped", format!("{table}/{name} is not the file that was there when the recording was closed"))
        }
        Ok(_) => None,
    }
}

/// Parts that are there and not listed, in folders of tables known and unknown.
fn added(dir: &Path, listed: &[ListedPart]) -> Vec<Flaw> {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for part in listed {
        names.entry(&part.table).or_default().insert(&part.name);
    }
    let mut flaws = Vec::new();
    let mut folders: Vec<PathBuf> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.sort();
    for folder in folders {
        let table = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // What is no folder, or cannot be read, holds no parts for readers either.
        for path in list_parts(&folder).unwrap_or_default() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if names.get(table.as_str()).is_some_and(|names| names.contains(name.as_str())) {
                continue;
            }
            let message = escape(&format!("{table}/{name} was added after the recording was closed; it is not read"));
            flaws.push(Flaw { id: "part.added", table: Some(table.clone()), path, message });
        }
    }
    flaws
}
