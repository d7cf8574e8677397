//! A recording of which a folder was deleted was called complete, and views said that nothing had happened: every part has
//! checksums, and nothing said which parts there were. Nor did anything cover the manifest.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{push_interval, scratch};
use pagelab_recording::rollup::{self, RollupRows, Witness, Witnesses};
use pagelab_recording::set::{PlannedRun, RunState, SetJson};
use pagelab_recording::tables::{FaultsRow, RollupFaultsColumns, RollupFaultsRow, SyscallsRow, TableDef};
use pagelab_recording::{
    Error, Manifest, Probe, ProbeState, Recording, RecordingWriter, WriterOptions, check, check_set,
};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

/// Writes a recording; `n` makes its rows differ from those of others.
fn record(dir: &Path, n: i64) {
    let manifest = Manifest {
        host: Some("here".to_owned()),
        kernel: Some("6.1.0".to_owned()),
        page_size_bytes: Some(4096),
        command: Some(vec!["true".to_owned()]),
        clock: pagelab_recording::Clock { id: "CLOCK_MONOTONIC".to_owned(), ..Default::default() },
        probes: vec![Probe { name: "syscalls".to_owned(), state: ProbeState::Active, ..Probe::default() }],
        ..Manifest::default()
    };
    let mut w = RecordingWriter::create(dir, manifest, WriterOptions::default()).unwrap();
    for at in 0..2 {
        push_interval(&mut w, n + at);
    }
    w.push_syscalls(&SyscallsRow { ts: n, name: "read", ..SyscallsRow::default() });
    w.flush(n * 1_000_000).unwrap();
    w.close(|last| last.label = Some(format!("of {n}"))).unwrap();
}

/// Whether anything calls the recording whole.
fn called_whole(dir: &Path) -> bool {
    let opened = Recording::open(dir).is_ok_and(|recording| recording.manifest().complete);
    let checked = check(dir).is_ok_and(|report| report.complete || report.problems.is_empty());
    let loaded_after = check(dir).is_ok_and(|report| report.is_whole());
    opened || checked || loaded_after
}

fn problems(dir: &Path) -> Vec<String> {
    check(dir).unwrap().problems.into_iter().map(|problem| problem.id).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy(&path, &target) } else { fs::copy(&path, &target).map(drop).unwrap() }
    }
}

fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn a_closed_recording_lists_its_parts_and_is_whole() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    record(&dir, 0);
    let report = check(&dir).unwrap();
    assert!(report.complete && report.listed && report.problems.is_empty(), "{report:?}");
    let parts = Manifest::load(&dir).unwrap().parts.unwrap();
    let faults = parts.iter().find(|part| part.table == "faults").unwrap();
    let len = fs::metadata(dir.join("faults/part-0000.parquet")).unwrap().len();
    assert_eq!((faults.name.as_str(), faults.rows, faults.bytes), ("part-0000.parquet", 400, len));
    assert_eq!(parts.len(), files(&dir, ".parquet").len());
    // What is written back afterwards stays whole.
    let mut manifest = Manifest::load(&dir).unwrap();
    manifest.label = Some("another".to_owned());
    manifest.rewrite(&dir).unwrap();
    assert!(Recording::open(&dir).unwrap().manifest().complete);
    assert_eq!(problems(&dir), [""; 0]);
}

#[test]
fn what_is_missing_added_or_exchanged_is_named() {
    let tmp = scratch();
    let (whole, other) = (tmp.path().join("whole"), tmp.path().join("other"));
    record(&whole, 0);
    record(&other, 7);
    let case = |name: &str, damage: &dyn Fn(&Path), id: &str, words: &str| {
        let dir = tmp.path().join(name);
        copy(&whole, &dir);
        damage(&dir);
        let recording = Recording::open(&dir).unwrap();
        let reason = recording.manifest().incomplete_reason.clone().unwrap_or_default();
        assert!(!recording.manifest().complete, "{name}");
        assert!(reason.contains(words), "{name}: {reason}");
        assert!(problems(&dir).iter().any(|found| found == id), "{name}: {:?}", check(&dir).unwrap());
        assert!(!check(&dir).unwrap().complete, "{name}");
        fs::remove_dir_all(&dir).unwrap();
    };
    for table in ["faults", "syscalls", "metrics", "stacks", "tasks", "loss"] {
        let gone = |dir: &Path| fs::remove_dir_all(dir.join(table)).unwrap();
        case("missing", &gone, "part.missing", &format!("{table}/part-0000.parquet is missing, with"));
    }
    let swap = |dir: &Path| {
        fs::copy(other.join("faults/part-0000.parquet"), dir.join("faults/part-0000.parquet")).map(drop).unwrap();
    };
    let own = fs::metadata(whole.join("faults/part-0000.parquet")).unwrap().len();
    let theirs = fs::metadata(other.join("faults/part-0000.parquet")).unwrap().len();
    let (id, words) = if own == theirs { ("part.swapped", "is not the file") } else { ("part.size", "bytes, and had") };
    case("swapped", &swap, id, words);
    let flip = |dir: &Path| {
        let path = dir.join("faults/part-0000.parquet");
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.len() - 17;
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
    };
    case("another end", &flip, "part.swapped", "is not the file that was there");
    let add = |dir: &Path| {
        fs::copy(other.join("faults/part-0000.parquet"), dir.join("faults/part-0001.parquet")).map(drop).unwrap();
    };
    case("added", &add, "part.added", "faults/part-0001.parquet was added");
    let unknown = |dir: &Path| {
        fs::create_dir(dir.join("novelty")).unwrap();
        fs::copy(other.join("faults/part-0000.parquet"), dir.join("novelty/part-0000.parquet")).unwrap();
    };
    case("a folder", &unknown, "part.added", "novelty/part-0000.parquet was added");
    let edit = |dir: &Path| {
        let text = fs::read_to_string(dir.join("manifest.json")).unwrap();
        fs::write(dir.join("manifest.json"), text.replace("6.1.0", "6.1.1")).unwrap();
    };
    case("edited", &edit, "manifest.changed", "manifest.json was changed");
    let unsealed = |dir: &Path| {
        let mut value: Value = serde_json::from_slice(&fs::read(dir.join("manifest.json")).unwrap()).unwrap();
        value.as_object_mut().unwrap().remove("checksum").unwrap();
        fs::write(dir.join("manifest.json"), value.to_string()).unwrap();
    };
    case("unsealed", &unsealed, "manifest.changed", "it has lost its checksum");
}

#[test]
fn what_is_added_is_not_read_and_what_is_missing_is_an_error_of_its_table_alone() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    record(&dir, 0);
    fs::copy(dir.join("faults/part-0000.parquet"), dir.join("faults/part-0001.parquet")).unwrap();
    fs::remove_file(dir.join("metrics/part-0000.parquet")).unwrap();
    let recording = Recording::open(&dir).unwrap();
    assert_eq!(recording.rows("faults").unwrap(), 400);
    let error = recording.rows("metrics").unwrap_err();
    assert!(matches!(error, Error::BadPart { .. }) && error.to_string().contains("is not there"), "{error}");
    let mut notes = Vec::new();
    let mut rows = 0;
    recording.for_each_readable::<FaultsRow>(&mut notes, |_| rows += 1).unwrap();
    assert_eq!((rows, notes.len()), (400, 0));
}

/// A recording without list and checksum, as it was written before there were any.
fn as_of_before(dir: &Path) {
    let mut value: Value = serde_json::from_slice(&fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    for key in ["parts", "checksum"] {
        value.as_object_mut().unwrap().remove(key).unwrap();
    }
    fs::write(dir.join("manifest.json"), value.to_string()).unwrap();
}

#[test]
fn a_list_that_was_taken_away_is_missed() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    record(&dir, 0);
    as_of_before(&dir);
    assert_eq!(problems(&dir), ["list.missing"]);
    assert!(!check(&dir).unwrap().complete);
}

#[test]
fn a_manifest_of_no_bytes_is_explained() {
    let tmp = scratch();
    for bytes in [&b""[..], &[0; 4096]] {
        fs::write(tmp.path().join("manifest.json"), bytes).unwrap();
        for error in [Recording::open(tmp.path()).unwrap_err(), check(tmp.path()).unwrap_err()] {
            let text = error.to_string();
            let words =
                "the manifest is empty: the machine stopped before the first second of the recording was written";
            assert!(matches!(error, Error::EmptyManifest { .. }) && text.contains(words), "{text}");
        }
    }
}

#[test]
fn a_set_that_was_edited_says_so() {
    let tmp = scratch();
    let set = tmp.path().join("set");
    let dir = set.join("variant=a/run=001");
    fs::create_dir_all(dir.parent().unwrap()).unwrap();
    record(&dir, 0);
    let run = PlannedRun {
        variant: "a".to_owned(),
        run: 1,
        round: 1,
        position: 1,
        dir: "variant=a/run=001".into(),
        state: RunState::Done,
    };
    SetJson { format: 1, seed: 4242, order: vec![run], ..SetJson::default() }.save(&set).unwrap();
    assert!(check_set(&set).unwrap().is_whole());
    let again = SetJson::load(&set).unwrap();
    assert!(again.extra.is_empty());
    again.save(&set).unwrap();
    assert!(check_set(&set).unwrap().is_whole());
    let text = fs::read_to_string(set.join("set.json")).unwrap();
    fs::write(set.join("set.json"), text.replace("4242", "4243")).unwrap();
    let report = check_set(&set).unwrap();
    assert!(report.changed && !report.is_whole());
}

/// Makes one rollup of one row.
struct OneRow;

impl Witness for OneRow {
    fn batch(&mut self, _: &arrow::array::RecordBatch) -> Result<(), String> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Vec<RollupRows>, String> {
        let mut columns = RollupFaultsColumns::default();
        columns.push(&RollupFaultsRow { faults: 400, ..RollupFaultsRow::default() });
        RollupRows::of(columns).map(|rows| vec![rows]).map_err(|error| error.to_string())
    }
}

impl Witnesses for OneRow {
    fn of(&self, _: &Recording, table: &'static TableDef) -> Result<Option<Box<dyn Witness>>, String> {
        Ok((table.name == "faults").then(|| Box::new(Self) as Box<dyn Witness>))
    }
}

#[test]
fn rollups_are_listed_and_made_again() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    record(&dir, 0);
    rollup::write(&dir, &OneRow).unwrap();
    assert_eq!(problems(&dir), [""; 0]);
    fs::remove_dir_all(dir.join("rollup_faults")).unwrap();
    assert_eq!(problems(&dir), ["part.missing"]);
    let reason = Recording::open(&dir).unwrap().manifest().incomplete_reason.clone().unwrap();
    assert!(reason.contains("pagelab rollup makes it again"), "{reason}");
    assert!(matches!(rollup::write(&dir, &OneRow).unwrap(), rollup::Outcome::Written(_)));
    assert_eq!(problems(&dir), [""; 0]);
    // Not of what lacks its events.
    fs::remove_dir_all(dir.join("faults")).unwrap();
    let left = rollup::write(&dir, &OneRow).unwrap();
    assert!(matches!(&left, rollup::Outcome::Left(reason) if reason.contains("faults/part-0000.parquet")), "{left:?}");
}

/// How often something is tried: few times, or as often as it was promised.
fn tries() -> usize {
    if std::env::var_os("PAGELAB_TEST_FULL").is_some() { 1000 } else { 200 }
}

/// Deletes, exchanges or adds whole files. Gives what was done, or nothing if it came to nothing.
fn change_files(dir: &Path, others: &[PathBuf], rng: &mut ChaCha8Rng) -> Option<String> {
    let parts = files(dir, ".parquet");
    let part = parts.choose(rng)?.clone();
    let other = files(others.choose(rng)?, ".parquet").choose(rng)?.clone();
    let folder = part.parent()?.to_owned();
    Some(match rng.random_range(0..8) {
        0 => {
            fs::remove_file(&part).unwrap();
            format!("deleted {}", part.display())
        }
        1 => {
            fs::remove_dir_all(&folder).unwrap();
            format!("deleted {}", folder.display())
        }
        2 => {
            let second = parts.choose(rng)?;
            if fs::read(second).unwrap() == fs::read(&part).unwrap() {
                return None;
            }
            let kept = fs::read(second).unwrap();
            fs::copy(&part, second).unwrap();
            fs::write(&part, kept).unwrap();
            format!("exchanged {} and {}", part.display(), second.display())
        }
        3 => {
            if fs::read(&other).unwrap() == fs::read(&part).unwrap() {
                return None;
            }
            fs::copy(&other, &part).unwrap();
            format!("{} in place of {}", other.display(), part.display())
        }
        4 => {
            let name = format!("part-{:04}.parquet", rng.random_range(1..10_000));
            fs::copy(&other, folder.join(&name)).unwrap();
            format!("{} as {name} of {}", other.display(), folder.display())
        }
        5 => {
            let table =
                ["samples", "offcpu", "block_ios", "files", "rollup_faults", "novelty", "dax_faults"].choose(rng)?;
            fs::create_dir(dir.join(table)).unwrap();
            fs::copy(&other, dir.join(table).join("part-0000.parquet")).unwrap();
            format!("{} as a part of {table}", other.display())
        }
        6 => {
            let len = fs::metadata(&part).unwrap().len();
            fs::File::options().write(true).open(&part).unwrap().set_len(rng.random_range(0..len)).unwrap();
            format!("cut {}", part.display())
        }
        _ => {
            let manifest = others.choose(rng)?.join("manifest.json");
            fs::copy(&manifest, dir.join("manifest.json")).unwrap();
            format!("the manifest {}", manifest.display())
        }
    })
}

#[test]
fn no_deletion_exchange_or_addition_of_files_is_called_whole() {
    let tmp = scratch();
    let whole = tmp.path().join("whole");
    record(&whole, 0);
    let others: Vec<PathBuf> = (1..4).map(|n| tmp.path().join(format!("other{n}"))).collect();
    (1..).zip(&others).for_each(|(n, dir)| record(dir, n * 10));
    assert!(called_whole(&whole));
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut tried, mut wrong) = (0, Vec::new());
    while tried < tries() {
        let dir = tmp.path().join("changed");
        copy(&whole, &dir);
        if let Some(change) = change_files(&dir, &others, &mut rng) {
            tried += 1;
            if called_whole(&dir) {
                wrong.push(change);
            }
        }
        fs::remove_dir_all(&dir).unwrap();
    }
    assert!(wrong.is_empty(), "{} of {tried}: {wrong:#?}", wrong.len());
}

/// All values of a document, by their way from the top.
fn ways(value: &Value, way: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(keys) => keys.iter().for_each(|(key, value)| {
            let way = format!("{way}/{key}");
            found.push(way.clone());
            ways(value, &way, found);
        }),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, value)| {
            let way = format!("{way}/{at}");
            found.push(way.clone());
            ways(value, &way, found);
        }),
        _ => {}
    }
}

/// Edits the text of a manifest: its values, its keys, its bytes.
fn edit(text: &[u8], rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(text).unwrap();
    let mut all = Vec::new();
    ways(&value, "", &mut all);
    let way = all.choose(rng).unwrap();
    match rng.random_range(0..8) {
        0..=2 => {
            let to = [Value::Null, true.into(), 0.into(), 1.into(), u64::MAX.into(), "x".into(), Value::Array(vec![])];
            *value.pointer_mut(way).unwrap() = to.choose(rng).unwrap().clone();
        }
        3 => {
            let (above, key) = way.rsplit_once('/').unwrap();
            match value.pointer_mut(above).unwrap() {
                Value::Object(keys) => drop(keys.remove(key)),
                Value::Array(items) => drop(items.remove(key.parse().unwrap())),
                _ => {}
            }
        }
        4 => {
            value["novelty"] = rng.random_range(0..1000).into();
        }
        5 => {
            let mut bytes = text.to_vec();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..bytes.len());
                bytes[at] = *b"0123456789abcdef \n\"{}[],:".choose(rng).unwrap();
            }
            return bytes;
        }
        6 => {
            let text = String::from_utf8(text.to_vec()).unwrap();
            return text.replacen('{', "{\"format\": 1, \"complete\": true,", 1).into_bytes();
        }
        _ => {
            let at = rng.random_range(0..text.len());
            let (before, after) = text.split_at(at);
            return [before, b" ", after].concat();
        }
    }
    if rng.random() { serde_json::to_vec_pretty(&value).unwrap() } else { serde_json::to_vec(&value).unwrap() }
}

#[test]
fn no_edit_of_a_manifest_is_called_whole() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    record(&dir, 0);
    let path = dir.join("manifest.json");
    let text = fs::read(&path).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut tried, mut wrong) = (0, Vec::new());
    while tried < tries() {
        let edited = edit(&text, &mut rng);
        if edited == text {
            continue;
        }
        tried += 1;
        fs::write(&path, &edited).unwrap();
        if called_whole(&dir) {
            wrong.push(String::from_utf8_lossy(&edited).into_owned());
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}, such as {}", wrong.len(), wrong[0]);
    fs::write(&path, &text).unwrap();
    assert!(called_whole(&dir));
}
