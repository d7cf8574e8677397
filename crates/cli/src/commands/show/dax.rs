//! `show DIR dax`: which slots of DAX files were mapped as a whole and which page by page.

use std::collections::{BTreeMap, BTreeSet};

use pagelab_recording::Recording;
use pagelab_recording::tables::{DaxFaultsRow, FilesRow};
use serde::Serialize;

use super::View;
use super::options::{Options, cut, more};
use super::read::{self, PathText, Tasks};
use super::table::{Table, device, left, or_dash, paragraph, percent, right};
use crate::failure::Failure;

/// What is mapped by one entry of the middle level.
const SLOT_BYTES: u64 = 2 << 20;

#[derive(Debug, Serialize)]
struct Outcome {
    kind: String,
    /// Null where the kernel gave no name for the result.
    outcome: Option<String>,
    /// Why it fell back, as far as the fault tells.
    reason: Option<String>,
    faults: u64,
    /// Distinct slots of the file.
    slots: u64,
}

#[derive(Debug, Serialize)]
struct FileRow {
    dev: String,
    ino: u64,
    #[serde(flatten)]
    path: PathText,
    faults: u64,
    /// Distinct slots that were touched.
    slots: u64,
    /// Mapped by one entry, and never by pages.
    huge_slots: u64,
    /// Fallen back, or mapped by pages.
    small_slots: u64,
    outcomes: Vec<Outcome>,
}

#[derive(Debug, Serialize)]
struct Document {
    faults: u64,
    slot_bytes: u64,
    slots: u64,
    huge_slots: u64,
    small_slots: u64,
    files: Vec<FileRow>,
    files_total: usize,
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
pub fn view(recording: &Recording, options: &Options) -> Result<View, Failure> {
    let sort = options.sort_by(&["slots", "small", "faults"])?;
    let mut notes = Vec::new();
    let tasks = Tasks::load(recording, options, &mut notes)?;
    let page_bytes = recording.manifest().page_size_bytes.filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096);
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
        if tasks.wants(options, row.task_id, row.ts) && options.wants_path(path) {
            let key = (row.kind.to_owned(), row.outcome.map(str::to_owned), row.reason.map(str::to_owned));
            let tally = files.entry((row.dev, row.ino)).or_default().entry(key).or_default();
            tally.faults += 1;
            tally.slots.insert(row.pgoff / slot_pages);
        }
    })?;
    if in_recording == 0 {
        notes.push(nothing(recording));
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
    let (files, files_total) = cut(rows, options.limit(true));
    let data = Document { faults, slot_bytes: SLOT_BYTES, slots, huge_slots, small_slots, files, files_total };
    View::new("dax", recording, &notes, &data, &text(&data))
}

/// Why there are no faults: the stream did not run, or no DAX file was touched.
fn nothing(recording: &Recording) -> String {
    let probe = recording.manifest().probes.iter().find(|probe| probe.name == "dax");
    match probe.map(|probe| (probe.state, probe.reason.as_deref())) {
        Some((pagelab_recording::ProbeState::Active, _)) => {
            "no faults on DAX files: the program touched none; which files are on such a file system says: pagelab doctor PATH"
                .to_owned()
        }
        Some((_, Some(reason))) => format!("no faults on DAX files were recorded: {reason}"),
        _ => "no faults on DAX files were recorded: pagelab record --observe default,dax records them".to_owned(),
    }
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

fn text(data: &Document) -> String {
    let mut out = String::new();
    if data.faults == 0 {
        return out;
    }
    out.push('\n');
    let said = format!(
        "{} faults on {} slots of 2 MiB: {} ({}%) mapped as a whole, {} page by page. A kernel may try a fault twice and say so \
         twice: slots are counted once.",
        data.faults,
        data.slots,
        data.huge_slots,
        percent(data.huge_slots, data.slots),
        data.small_slots,
    );
    paragraph(&said, &mut out);
    out.push('\n');
    let mut table =
        Table::new([right("SLOTS"), right("HUGE"), right("SMALL"), right("HUGE%"), right("FAULTS"), left("FILE")]);
    for file in &data.files {
        table.row([
            file.slots.to_string(),
            file.huge_slots.to_string(),
            file.small_slots.to_string(),
            percent(file.huge_slots, file.slots),
            file.faults.to_string(),
            file.path.path.clone().unwrap_or_else(|| format!("device {} inode {}", file.dev, file.ino)),
        ]);
    }
    table.write(0, &mut out);
    out.push_str(&more(data.files.len(), data.files_total));
    out.push_str("\nBY OUTCOME\n");
    let mut table = Table::new([
        left("KIND"),
        left("OUTCOME").at_most(30),
        right("FAULTS"),
        right("SLOTS"),
        left("WHY"),
        left("FILE"),
    ]);
    for file in &data.files {
        for outcome in &file.outcomes {
            table.row([
                outcome.kind.clone(),
                or_dash(outcome.outcome.clone()),
                outcome.faults.to_string(),
                outcome.slots.to_string(),
                or_dash(outcome.reason.clone()),
                file.path.path.clone().unwrap_or_else(|| format!("device {} inode {}", file.dev, file.ino)),
            ]);
        }
    }
    table.write(2, &mut out);
    out
}
