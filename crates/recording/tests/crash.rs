//! A recorder may die, or its file system fail, at any operation. Every operation of a whole recording, its clean end
//! included, is failed in turn; rows written before must be there, once, and nothing else.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use crate::common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::{FailingStorage, Failure, PER_INTERVAL, intervals, lost, push_interval, scratch};
use pagelab_recording::{Error, Level, Manifest, Recording, RecordingWriter, WriterOptions, check};

const INTERVALS: i64 = 4;

/// What the writer said about a recording that a failing storage was under.
struct Told {
    created: bool,
    /// Intervals whose flush succeeded.
    flushed: Vec<i64>,
    closed: bool,
}

fn record(dir: &Path, storage: Arc<FailingStorage>, durable: bool) -> Told {
    let options = WriterOptions { durable, ..WriterOptions::default() };
    let mut told = Told { created: false, flushed: Vec::new(), closed: false };
    let Ok(mut w) = RecordingWriter::create_with(dir, Manifest::default(), options, storage) else {
        return told;
    };
    told.created = true;
    for n in 0..INTERVALS {
        push_interval(&mut w, n);
        if w.flush(n * 1_000_000).is_ok() {
            told.flushed.push(n);
        }
    }
    told.closed = w.close(|m| m.label = Some("closed".to_owned())).is_ok();
    told
}

/// Counts the operations of a recording that nothing disturbs.
fn operations(durable: bool) -> usize {
    let tmp = scratch();
    let storage = Arc::new(FailingStorage::new(usize::MAX, Failure::Once));
    let told = record(&tmp.path().join("rec"), storage.clone(), durable);
    assert!(told.closed);
    storage.count.load(Ordering::Relaxed)
}

/// Every row is there at most once, and those of `sure` intervals exactly once.
fn assert_rows(dir: &Path, sure: &[i64], context: &str) {
    let recording = Recording::open(dir).unwrap();
    for (table, per_interval) in PER_INTERVAL {
        let found = intervals(&recording, table);
        for (n, rows) in &found {
            assert!((0..INTERVALS).contains(n), "{context}: {table} has rows of no interval: {n}");
            assert_eq!(*rows, per_interval, "{context}: {table}, interval {n}");
        }
        for n in sure {
            assert!(found.contains_key(n), "{context}: {table} lost interval {n}");
        }
    }
    let report = check(dir).unwrap();
    let bad: Vec<_> = report.problems.iter().filter(|p| p.level == Level::Problem && p.id != "incomplete").collect();
    assert!(bad.is_empty(), "{context}: {bad:?}");
}

#[test]
fn killed_at_every_operation() {
    for durable in [false, true] {
        let all = operations(durable);
        assert!(all > 60, "{all}");
        for at in 0..all {
            let tmp = scratch();
            let dir = tmp.path().join("rec");
            let told = record(&dir, Arc::new(FailingStorage::new(at, Failure::Killed)), durable);
            let context = format!("killed at operation {at} of {all}, durable {durable}");
            assert!(!told.closed, "{context}");
            match Recording::open(&dir) {
                Ok(recording) => {
                    // The manifest says complete only if it was the very last thing that failed after it.
                    assert!(!recording.manifest().complete || told.flushed.len() == 4, "{context}");
                    assert_rows(&dir, &told.flushed, &context);
                }
                Err(Error::NotARecording { .. }) => assert!(!told.created, "{context}"),
                Err(e) => panic!("{context}: {e}"),
            }
        }
    }
}

#[test]
fn an_operation_that_fails_once_costs_no_row() {
    let all = operations(false);
    for at in 0..all {
        let tmp = scratch();
        let dir = tmp.path().join("rec");
        let told = record(&dir, Arc::new(FailingStorage::new(at, Failure::Once)), false);
        let context = format!("operation {at} of {all} failed once");
        if !told.created {
            continue;
        }
        // What a failed flush kept is written by the next one, so in the end every interval is there.
        assert_rows(&dir, &[0, 1, 2, 3], &context);
        let recording = Recording::open(&dir).unwrap();
        assert_eq!(recording.manifest().complete, told.closed, "{context}");
        if !told.closed {
            assert!(
                recording.manifest().incomplete_reason.is_some() || recording.manifest().label.is_none(),
                "{context}"
            );
        }
    }
}

/// Nothing is kept for another try here, so that what fails once is given up; the end is clean all the same.
#[test]
fn rows_given_up_leave_the_recording_incomplete_and_are_told() {
    let all = operations(false);
    let mut given_up = 0;
    for at in 0..all {
        let tmp = scratch();
        let dir = tmp.path().join("rec");
        let options = WriterOptions { max_pending_bytes: 0, ..WriterOptions::default() };
        let storage = Arc::new(FailingStorage::new(at, Failure::Once));
        let Ok(mut w) = RecordingWriter::create_with(&dir, Manifest::default(), options, storage) else { continue };
        for n in 0..INTERVALS {
            push_interval(&mut w, n);
            let _ = w.flush(n * 1_000_000);
        }
        let dropped = w.stats().dropped_rows;
        let mut seen_at_the_end = None;
        let closed = w.close(|last| seen_at_the_end = Some(last.complete));
        let recording = Recording::open(&dir).unwrap();
        let context = format!("operation {at} of {all} failed once, {dropped} rows given up, closed {closed:?}");
        if closed.is_err() {
            assert!(!recording.manifest().complete, "{context}");
            continue;
        }
        assert_eq!(recording.manifest().complete, dropped == 0, "{context}");
        assert_eq!(seen_at_the_end, Some(dropped == 0), "{context}");
        if dropped == 0 {
            continue;
        }
        given_up += 1;
        let reason = recording.manifest().incomplete_reason.as_deref().unwrap();
        assert!(reason.contains("given up") && reason.contains("Input/output error"), "{context}: {reason}");
        let by_table = &recording.manifest().rows_dropped;
        assert_eq!(by_table.values().sum::<u64>(), dropped, "{context}");
        assert_eq!(lost(&recording), dropped, "{context}: loss tells of every row");
        let ids: Vec<_> = check(&dir).unwrap().problems.into_iter().map(|problem| problem.id).collect();
        for id in ["incomplete", "rows.dropped", "loss.events"] {
            assert!(ids.iter().any(|found| found == id), "{context}: {ids:?}");
        }
    }
    assert!(given_up > 10, "{given_up}");
}

#[test]
fn a_full_disk_at_every_operation() {
    let all = operations(false);
    for at in 0..all {
        let tmp = scratch();
        let dir = tmp.path().join("rec");
        let told = record(&dir, Arc::new(FailingStorage::new(at, Failure::Full)), false);
        if told.created {
            assert_rows(&dir, &told.flushed, &format!("full from operation {at} of {all}"));
        }
    }
}

#[test]
fn a_recording_can_be_read_while_it_is_written() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    let mut w = RecordingWriter::create(&dir, Manifest::default(), WriterOptions::default()).unwrap();
    for n in 0..INTERVALS {
        push_interval(&mut w, n);
        w.flush(n).unwrap();
        assert_rows(&dir, &(0..=n).collect::<Vec<_>>(), "live");
        assert!(!Recording::open(&dir).unwrap().manifest().complete);
    }
    w.close(|_| ()).unwrap();
    let recording = Recording::open(&dir).unwrap();
    assert!(recording.manifest().complete);
    assert_rows(&dir, &[0, 1, 2, 3], "closed");
    // Equal stacks are one after compaction.
    assert_eq!(recording.rows("stacks").unwrap(), 1);
    assert!(check(&dir).unwrap().is_whole());
    let names: Vec<_> = std::fs::read_dir(&dir).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(names.iter().all(|n| !n.to_string_lossy().contains("tmp")), "{names:?}");
}
