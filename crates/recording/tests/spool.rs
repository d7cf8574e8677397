//! A recording in a spool that is smaller than it: what is in the store makes room, and what finds none is counted, row by row.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use crate::common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::Array as _;
use common::{PER_INTERVAL, intervals, lost, push_interval};
use pagelab_recording::attribution::attributed_faults;
use pagelab_recording::tables::LossRow;
use pagelab_recording::{Error, Manifest, Recording, RecordingWriter, SpoolOptions, WriterOptions, check};
use pagelab_vocab::streams::counted_as;

const INTERVALS: i64 = 60;

/// Bytes of all parts in a folder but those of `loss`, which are beyond the bound.
fn parts_bytes(dir: &Path) -> u64 {
    let tables = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() && !path.ends_with("loss"));
    let parts = tables.flat_map(|table| fs::read_dir(table).unwrap().map(|part| part.unwrap()));
    parts.map(|part| part.metadata().unwrap().len()).sum()
}

/// A store, as its uploader keeps it: a copy of each part, and a line for each in the journal.
struct Store {
    dir: PathBuf,
    copy: PathBuf,
    journal: PathBuf,
    copied: BTreeMap<PathBuf, u64>,
}

impl Store {
    fn new(tmp: &Path) -> Self {
        let store = Self {
            dir: tmp.join("rec"),
            copy: tmp.join("copy"),
            journal: tmp.join(".rec.upload.jsonl"),
            copied: BTreeMap::new(),
        };
        fs::write(&store.journal, "{\"format\":2,\"url\":\"s3://b/r\"}\n").unwrap();
        store
    }

    fn options(&self, max_bytes: u64) -> WriterOptions {
        let spool = SpoolOptions { max_bytes, journal: self.journal.clone(), url: "s3://b/r".to_owned() };
        WriterOptions { spool: Some(spool), max_pending_bytes: 20_000, ..WriterOptions::default() }
    }

    fn take_all(&mut self) {
        let mut text = self.journal_text();
        for table in fs::read_dir(&self.dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
            for part in fs::read_dir(&table).unwrap().map(|part| part.unwrap()) {
                let name = PathBuf::from(table.file_name().unwrap()).join(part.file_name());
                let bytes = part.metadata().unwrap().len();
                if self.copied.insert(name.clone(), bytes).is_none() {
                    fs::create_dir_all(self.copy.join(&name).parent().unwrap()).unwrap();
                    fs::copy(part.path(), self.copy.join(&name)).unwrap();
                    let name = name.display();
                    writeln!(text, r#"{{"name":"{name}","bytes":{bytes},"modified_ns":1,"inode":1}}"#).unwrap();
                }
            }
        }
        // The last line is cut off, as one that is being written.
        fs::write(&self.journal, text + "{\"name\":\"faults/part-9999.parq").unwrap();
    }

    /// The whole lines of the journal.
    fn journal_text(&self) -> String {
        let text = fs::read_to_string(&self.journal).unwrap();
        text[..=text.rfind('\n').unwrap()].to_owned()
    }
}

#[test]
fn a_recording_larger_than_its_spool_is_whole_in_the_store() {
    let tmp = tempfile::tempdir().unwrap();
    let mut store = Store::new(tmp.path());
    let max_bytes = 200_000;
    let mut w = RecordingWriter::create(&store.dir, Manifest::default(), store.options(max_bytes)).unwrap();
    let mut largest = 0;
    for n in 0..INTERVALS {
        push_interval(&mut w, n);
        w.flush(n * 1_000_000).unwrap();
        largest = largest.max(parts_bytes(&store.dir));
        store.take_all();
    }
    assert!(w.stats().bytes_written > 2 * max_bytes, "{:?}: the test is of nothing", w.stats());
    assert!(largest <= max_bytes, "{largest}");
    w.close(|_| ()).unwrap();
    store.take_all();
    // Here it is not whole, and says so.
    let here = Recording::open(&store.dir).unwrap();
    let manifest = here.manifest();
    assert!(!manifest.complete);
    let reason = manifest.incomplete_reason.as_deref().unwrap();
    assert!(reason.contains("are in s3://b/r only"), "{reason}");
    assert_eq!(manifest.extra["parts_moved"], serde_json::json!({ "complete": true, "incomplete_reason": null }));
    assert!(here.rows("faults").unwrap() < INTERVALS as u64 * 200);
    // There every row is, once, when the manifest comes: as the uploader writes it.
    let mut there = manifest.clone();
    (there.complete, there.incomplete_reason) = (true, None);
    there.extra.remove("parts_moved");
    fs::write(store.copy.join("manifest.json"), serde_json::to_vec(&there).unwrap()).unwrap();
    // It was not joined when it was made, and is when it is read.
    let faults = attributed_faults(&Recording::open(&store.copy).unwrap()).unwrap();
    let ids = faults.map(|batch| batch.unwrap().column_by_name("mapping_id").unwrap().null_count());
    assert_eq!(ids.sum::<usize>(), 0);
    let recording = Recording::open(&store.copy).unwrap();
    for (table, rows) in PER_INTERVAL {
        let found = intervals(&recording, table);
        assert!((0..INTERVALS).all(|n| found.get(&n) == Some(&rows)), "{table}: {found:?}");
    }
    assert_eq!(lost(&recording), 0);
    assert!(recording.manifest().complete && !recording.manifest().is_compacted());
    let report = check(&store.copy).unwrap();
    assert!(report.is_whole(), "{report:?}");
}

#[test]
fn what_finds_no_room_while_the_store_is_away_is_counted_exactly() {
    let tmp = tempfile::tempdir().unwrap();
    let mut store = Store::new(tmp.path());
    let mut w = RecordingWriter::create(&store.dir, Manifest::default(), store.options(200_000)).unwrap();
    let mut said = None;
    for n in 0..INTERVALS {
        push_interval(&mut w, n);
        if let Err(error) = w.flush(n * 1_000_000) {
            said = Some(error);
        }
        assert!(parts_bytes(&store.dir) <= 200_000);
        // It comes back for the last intervals.
        if n == INTERVALS - 12 {
            assert!(w.stats().dropped_rows > 0 && w.stats().kept_rows > 0, "{:?}", w.stats());
            store.take_all();
        }
    }
    let said = said.expect("the spool is smaller than the recording");
    assert!(matches!(said, Error::SpoolFull { max_bytes: 200_000, .. }), "{said}");
    assert!(said.to_string().contains("PAGELAB_SPOOL_BYTES"), "{said}");
    let closed = w.close(|_| ());
    store.take_all();
    let manifest = Recording::open(&store.dir).unwrap().manifest().clone();
    assert!(!manifest.complete, "{closed:?}");
    let moved = &manifest.extra["parts_moved"];
    assert_eq!(moved["complete"], false);
    let reason = moved["incomplete_reason"].as_str().unwrap();
    assert!(reason.contains("rows of faults,") && reason.contains("were given up: the spool"), "{reason}");
    fs::write(store.copy.join("manifest.json"), serde_json::to_vec(&manifest).unwrap()).unwrap();
    let recording = Recording::open(&store.copy).unwrap();
    assert!(!manifest.rows_dropped.contains_key("loss"), "{:?}", manifest.rows_dropped);
    for (table, per_interval) in PER_INTERVAL.iter().filter(|(table, _)| *table != "loss") {
        let dropped = manifest.rows_dropped.get(*table).copied().unwrap_or_default();
        let rows = recording.rows(table).unwrap();
        assert_eq!(rows + dropped, (INTERVALS as usize * per_interval) as u64, "{table}");
    }
    assert!(manifest.rows_dropped["faults"] > 0);
    let told: u64 = manifest.rows_dropped.values().sum();
    assert_eq!(lost(&recording), told, "the tables say what the manifest says");
    let mut seen = 0;
    recording.for_each::<LossRow>(|row| seen += row.seen).unwrap();
    // Rows that no probe counts are counted as seen when they are given up.
    let uncounted = manifest.rows_dropped.iter().filter(|(table, _)| !counted_as(table).is_seen);
    let uncounted: u64 = uncounted.map(|(_, rows)| rows).sum();
    assert_eq!(seen, INTERVALS as u64 * 200 + uncounted, "no count is lost, and none is there twice");
    // Where it went on after that, nothing is missing.
    assert_eq!(intervals(&recording, "faults").get(&(INTERVALS - 1)), Some(&200));
}

#[test]
fn a_journal_that_cannot_be_read_makes_no_room() {
    let tmp = tempfile::tempdir().unwrap();
    let mut store = Store::new(tmp.path());
    let mut w = RecordingWriter::create(&store.dir, Manifest::default(), store.options(60_000)).unwrap();
    push_interval(&mut w, 0);
    w.flush(0).unwrap();
    store.take_all();
    let text = store.journal_text();
    for journal in
        [text.replace("\"format\":2", "\"format\":3"), text.replace("\"bytes\":", "\"bytes\":1"), String::new()]
    {
        fs::write(&store.journal, journal).unwrap();
        for n in 1..20 {
            push_interval(&mut w, n);
            let _ = w.flush(n * 1_000_000);
        }
        assert!(store.dir.join("faults/part-0000.parquet").exists());
    }
    fs::remove_file(&store.journal).unwrap();
    push_interval(&mut w, 20);
    assert!(w.flush(20_000_000).is_err());
    drop(w.close(|_| ()));
    assert!(!Recording::open(&store.dir).unwrap().manifest().extra.contains_key("parts_moved"));
}
