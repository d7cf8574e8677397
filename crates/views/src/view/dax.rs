//! `show DIR dax`: which slots of DAX files were mapped as a whole and which page by page.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_recording::Recording;
use pagelab_recording::tables::{DaxFaultsRow, FilesRow};
use pagelab_vocab::absence::Absence;
use pagelab_vocab::streams::Stream;
use serde::Serialize;

use crate::absence;
use crate::answer::Answer;
use crate::error::Result;
use crate::read::{self, PathText, Tasks, device};
use crate::selection::{Selection, cut};

/// What is mapped by one entry of the middle level.
const SLOT_BYTES: u64 = 2 << 20;

/// Faults of one file with the same result.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// `pmd` for a whole slot, `pte` for a page.
    pub kind: String,
    /// Null where the kernel gave no name for the result.
    pub outcome: Option<String>,
    /// Why it fell back, as far as the fault tells.
    pub reason: Option<String>,
    /// Faults.
    pub faults: u64,
    /// Distinct slots of the file.
    pub slots: u64,
}

/// One file on a DAX file system.
#[derive(Debug, Serialize)]
pub struct FileRow {
    /// Device, as `major:minor`.
    pub dev: String,
    /// Inode number.
    pub ino: u64,
    /// Path of the file.
    #[serde(flatten)]
    pub path: PathText,
    /// Page faults.
    pub faults: u64,
    /// Distinct slots that were touched.
    pub slots: u64,
    /// Mapped by one entry, and never by pages.
    pub huge_slots: u64,
    /// Fallen back, or mapped by pages.
    pub small_slots: u64,
    /// Its faults by kind, outcome and reason.
    pub outcomes: Vec<Outcome>,
}

/// Faults on DAX files, one row per file.
#[derive(Debug, Serialize)]
pub struct DaxView {
    /// Faults selected.
    pub faults: u64,
    /// Size of a slot, bytes.
    pub slot_bytes: u64,
    /// Distinct slots touched, all files.
    pub slots: u64,
    /// Of those, mapped by one entry.
    pub huge_slots: u64,
    /// Of those, fallen back or mapped by pages.
    pub small_slots: u64,
    /// Files, ranked.
    pub files: Vec<FileRow>,
    /// Rows before the list was cut.
    pub files_total: usize,
}

/// Faults and slots of one kind and outcome.
#[derive(Debug, Default)]
struct Tally {
    faults: u64,
    slots: BTreeSet<u64>,
}

/// One file's, by kind, outcome and reason.
type OfFile = BTreeMap<(String, Option<String>, Option<String>), Tally>;

/// Makes the view.
pub fn collect(recording: &Recording, selection: &Selection) -> Result<Answer<DaxView>> {
    let sort = selection.sort_by(&["slots", "small", "faults"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, selection, &mut notes)?;
    let page_bytes = recording
        .manifest()
        .page_size_bytes
        .filter(|bytes| bytes.is_power_of_two() && *bytes <= 1 << 34)
        .unwrap_or(4096);
    let slot_pages = (SLOT_BYTES / page_bytes).max(1);
    let mut paths: BTreeMap<(u64, u64), Vec<u8>> = BTreeMap::new();
    read::each::<FilesRow>(recording, &mut notes, |row| {
        if let Some(path) = row.path {
            paths.insert((row.dev, row.ino), path.to_owned());
        }
    })?;
    let mut files: BTreeMap<(u64, u64), OfFile> = BTreeMap::new();
    let mut in_recording = 0_u64;
    read::each::<DaxFaultsRow>(recording, &mut notes, |row| {
        in_recording += 1;
        let path = paths.get(&(row.dev, row.ino)).map(Vec::as_slice);
        if tasks.wants(selection, row.task_id, row.ts) && selection.wants_path(path) {
            let key = (row.kind.to_owned(), row.outcome.map(str::to_owned), row.reason.map(str::to_owned));
            let tally = files.entry((row.dev, row.ino)).or_default().entry(key).or_default();
            tally.faults += 1;
            tally.slots.insert(row.pgoff / slot_pages);
        }
    })?;
    read::lost(recording, Stream::Dax, &mut notes)?;
    if in_recording == 0 {
        let absence = absence::none_recorded(recording, Stream::Dax, "faults on DAX files", &mut notes)?;
        if matches!(absence, Absence::NoneSeen { .. }) {
            notes.push("which files are on a file system of direct access: pagelab doctor PATH".to_owned());
        }
    } else if files.is_empty() {
        notes.push(format!("none of the {in_recording} faults is selected"));
    }
    let rows = files.into_iter().map(|((dev, ino), all)| file_row(dev, ino, paths.get(&(dev, ino)), all));
    let mut rows: Vec<FileRow> = rows.collect();
    let key = |row: &FileRow| match sort {
        "small" => row.small_slots,
        "faults" => row.faults,
        _ => row.slots,
    };
    rows.sort_by_key(|row| std::cmp::Reverse(key(row)));
    let sum = |of: fn(&FileRow) -> u64| rows.iter().map(of).sum();
    let (faults, slots) = (sum(|row| row.faults), sum(|row| row.slots));
    let (huge_slots, small_slots) = (sum(|row| row.huge_slots), sum(|row| row.small_slots));
    let (files, files_total) = cut(rows, selection.limit(true));
    let data = DaxView { faults, slot_bytes: SLOT_BYTES, slots, huge_slots, small_slots, files, files_total };
    Ok(Answer::new("dax", recording, notes, data))
}

fn file_row(dev: u64, ino: u64, path: Option<&Vec<u8>>, all: OfFile) -> FileRow {
    let has = |outcome: &Option<String>, word: &str| {
        outcome.as_deref().is_some_and(|outcome| outcome.split('|').any(|one| one == word))
    };
    let [mut touched, mut huge, mut small] = [const { BTreeSet::<u64>::new() }; 3];
    for ((kind, outcome, _), tally) in &all {
        touched.extend(&tally.slots);
        if kind == "pte" || has(outcome, "FALLBACK") {
            small.extend(&tally.slots);
        } else if has(outcome, "NOPAGE") {
            huge.extend(&tally.slots);
        }
    }
    FileRow {
        dev: device(dev),
        ino,
        path: PathText::of(path.map(Vec::as_slice)),
        faults: all.values().map(|tally| tally.faults).sum(),
        slots: touched.len() as u64,
        huge_slots: huge.difference(&small).count() as u64,
        small_slots: small.len() as u64,
        outcomes: all
            .into_iter()
            .map(|((kind, outcome, reason), tally)| Outcome {
                kind,
                outcome,
                reason,
                faults: tally.faults,
                slots: tally.slots.len() as u64,
            })
            .collect(),
    }
}
