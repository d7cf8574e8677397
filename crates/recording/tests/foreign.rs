//! Recordings that came from somewhere else, or that a power cut went over. One empty part made `show tasks` fail as a whole, a
//! compaction record of four billion parts asked for 103 GB, and a named pipe in place of the manifest was waited for.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use crate::common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{push_interval, scratch};
use pagelab_recording::set::{PlannedRun, RunState, SetJson, run_dir};
use pagelab_recording::tables::{FaultsRow, TasksRow};
use pagelab_recording::{Error, Manifest, Recording, RecordingWriter, WriterOptions, check, check_set};

/// Four live parts of each table.
fn record(dir: &Path) {
    let options = WriterOptions { compact: false, ..WriterOptions::default() };
    let mut w = RecordingWriter::create(dir, Manifest::default(), options).unwrap();
    for n in 0..4 {
        push_interval(&mut w, n);
        w.flush(n).unwrap();
    }
    w.close(|_| ()).unwrap();
}

fn parts(dir: &Path, table: &str) -> Vec<PathBuf> {
    Recording::open(dir).unwrap().parts(table).unwrap()
}

/// Rows of faults in order of time, and what is said of parts that are left out.
fn faults_in_time(dir: &Path) -> (usize, Vec<String>) {
    let (mut rows, mut last, mut notes) = (0, i64::MIN, Vec::new());
    let recording = Recording::open(dir).unwrap();
    let each = |row: pagelab_recording::tables::FaultsRow<'_>| {
        assert!(row.ts >= last, "in order");
        (rows, last) = (rows + 1, row.ts);
    };
    recording.for_each_readable_in_time::<FaultsRow>(&mut notes, each).unwrap();
    (rows, notes)
}

#[test]
fn an_empty_part_is_left_out_and_named_and_so_is_a_flipped_bit() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    record(&dir);
    let (all, notes) = faults_in_time(&dir);
    assert_eq!((all, notes.len()), (800, 0));
    let part = &parts(&dir, "faults")[1];
    let whole = fs::read(part).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 3] ^= 1;
    for content in [Vec::new(), flipped, whole[..whole.len() / 2].to_vec()] {
        fs::write(part, &content).unwrap();
        let (rows, notes) = faults_in_time(&dir);
        assert!((600..800).contains(&rows), "{rows} of 800 with {} bytes", content.len());
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains(part.to_str().unwrap()), "{notes:?}");
    }
    // Two damaged parts are two notes; all damaged leaves none, and no error.
    for path in parts(&dir, "faults") {
        fs::write(path, "").unwrap();
    }
    let (rows, notes) = faults_in_time(&dir);
    assert_eq!((rows, notes.len()), (0, 4), "{notes:?}");
    let mut tasks = 0;
    Recording::open(&dir).unwrap().for_each::<TasksRow>(|_| tasks += 1).unwrap();
    assert_eq!(tasks, 4, "other tables are as they were");
}

#[test]
fn a_compaction_record_is_bounded_by_the_files_that_are_there() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    record(&dir);
    let records = [
        r#"{"table":"faults","parts":4294967295}"#,
        r#"{"tables":[{"table":"faults","parts":4294967295},{"table":"../..","parts":7}]}"#,
    ];
    for record in records {
        fs::write(dir.join("compaction.json"), record).unwrap();
        let found = parts(&dir, "faults");
        assert_eq!(found.len(), 5, "four that are there, and the first that is not: {found:?}");
        let (rows, notes) = faults_in_time(&dir);
        assert_eq!((rows, notes.len()), (800, 1), "{notes:?}");
        assert!(check(&dir).unwrap().problems.iter().any(|problem| problem.id == "part.damaged"));
    }
}

#[test]
fn pipes_links_and_absurd_numbers_are_refused_at_once() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    record(&dir);
    let manifest = dir.join("manifest.json");
    let good = fs::read_to_string(&manifest).unwrap();
    for (from, to, named) in [
        ("\"cpus\": null", "\"cpus\": 4294967296", "cpus is 4294967296"),
        ("\"start_ns\": 0", "\"start_ns\": -9223372036854775808", "clock.start_ns"),
        (
            "\"complete\": true",
            "\"complete\": true, \"measured\": {\"end_ns\": 9223372036854775807}",
            "measured.end_ns",
        ),
    ] {
        assert!(good.contains(from), "{good}");
        fs::write(&manifest, good.replacen(from, to, 1)).unwrap();
        let error = Recording::open(&dir).unwrap_err();
        assert!(matches!(error, Error::BadJson { .. }) && error.to_string().contains(named), "{error}");
    }
    fs::remove_file(&manifest).unwrap();
    assert!(Command::new("mkfifo").arg(&manifest).status().unwrap().success());
    let error = Recording::open(&dir).unwrap_err();
    assert!(error.to_string().contains("a named pipe"), "{error}");
    fs::remove_file(&manifest).unwrap();
    fs::write(&manifest, good).unwrap();
    // Parts: a pipe, a link to a device, and a file of no blocks that claims a footer of 4 GiB.
    let found = parts(&dir, "faults");
    fs::remove_file(&found[0]).unwrap();
    assert!(Command::new("mkfifo").arg(&found[0]).status().unwrap().success());
    fs::remove_file(&found[1]).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &found[1]).unwrap();
    let sparse = File::create(&found[2]).unwrap();
    sparse.set_len(1 << 40).unwrap();
    sparse.write_all_at(b"PAR1", 0).unwrap();
    sparse.write_all_at(b"\xff\xff\xff\xfePAR1", (1 << 40) - 8).unwrap();
    let (rows, notes) = faults_in_time(&dir);
    assert_eq!((rows, notes.len()), (200, 3), "{notes:?}");
}

#[test]
fn a_set_is_checked_as_a_whole() {
    let tmp = scratch();
    let set = tmp.path().join("set");
    fs::create_dir(&set).unwrap();
    let mut order = Vec::new();
    for run in 1..=3 {
        let dir = run_dir(Path::new(""), "a", run);
        order.push(PlannedRun {
            variant: "a".to_owned(),
            run,
            round: run,
            position: 1,
            dir: dir.clone(),
            state: RunState::Done,
        });
        if run < 3 {
            record(&set.join(dir));
        }
    }
    SetJson { format: 1, order, ..SetJson::default() }.save(&set).unwrap();
    let report = check_set(&set).unwrap();
    assert_eq!((report.recordings.len(), report.missing.as_slice()), (2, [set.join("variant=a/run=003")].as_slice()));
    assert!(!report.is_whole());
    fs::write(set.join("variant=a/run=001/manifest.json"), "{").unwrap();
    let report = check_set(&set).unwrap();
    assert_eq!(report.recordings.values().filter(|found| found.is_err()).count(), 1);
}
