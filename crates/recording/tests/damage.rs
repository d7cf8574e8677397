//! Damaged parts: each flipped bit and each cut must end in an error that names the file, never in a panic, and in
//! pagelab's own parts never in wrong values.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use common::{push_interval, scratch};
use pagelab_recording::{Error, Level, Manifest, Recording, RecordingWriter, WriterOptions, check};
use parquet::arrow::ArrowWriter;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn record(dir: &Path, compact: bool) {
    let options = WriterOptions { compact, ..WriterOptions::default() };
    let mut w = RecordingWriter::create(dir, Manifest::default(), options).unwrap();
    for n in 0..2 {
        push_interval(&mut w, n);
    }
    w.flush(1).unwrap();
    w.close(|_| ()).unwrap();
}

/// Reads a whole table; the first error, if any.
fn read_all(dir: &Path, table: &str) -> Result<usize, Error> {
    let recording = Recording::open(dir)?;
    let mut rows = 0;
    for batch in recording.read(table, None)? {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

fn assert_names(error: &Error, part: &Path, context: &str) {
    match error {
        Error::BadPart { path, reason, .. } => {
            assert_eq!(path, part, "{context}");
            assert!(!reason.is_empty(), "{context}");
        }
        other => panic!("{context}: {other}"),
    }
    let text = error.to_string();
    assert!(text.contains(part.to_str().unwrap()) && text.contains("at byte"), "{context}: {text}");
}

/// Changes the part by `damage`, looks, and puts it back.
fn with_damage(part: &Path, damage: impl FnOnce(&mut Vec<u8>), look: impl FnOnce()) {
    let whole = fs::read(part).unwrap();
    let mut damaged = whole.clone();
    damage(&mut damaged);
    fs::write(part, &damaged).unwrap();
    look();
    fs::write(part, &whole).unwrap();
}

#[test]
fn flips_and_cuts_in_our_parts_are_all_found() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for compact in [false, true] {
        let tmp = scratch();
        let dir = tmp.path().join("rec");
        record(&dir, compact);
        for table in ["faults", "metrics", "stacks", "mappings"] {
            let part = Recording::open(&dir).unwrap().parts(table).unwrap().remove(0);
            let rows = read_all(&dir, table).unwrap();
            let len = fs::metadata(&part).unwrap().len() as usize;
            for round in 0..120 {
                let (at, bit, cut) = (rng.random_range(0..len), rng.random_range(0..8), round % 4 == 0);
                let context = format!("{table}, compact {compact}, at {at} of {len}, bit {bit}, cut {cut}");
                let damage = |b: &mut Vec<u8>| {
                    if cut {
                        b.truncate(at);
                    } else {
                        b[at] ^= 1 << bit;
                    }
                };
                with_damage(&part, damage, || {
                    let error = read_all(&dir, table).expect_err(&context);
                    assert_names(&error, &part, &context);
                    let error = Recording::open(&dir).unwrap().verify(table).expect_err(&context);
                    assert_names(&error, &part, &context);
                });
            }
            assert_eq!(read_all(&dir, table).unwrap(), rows);
            Recording::open(&dir).unwrap().verify(table).unwrap();
        }
    }
}

/// A part as another program would write it, without checksums.
fn foreign_part(dir: &Path) -> PathBuf {
    let schema = Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("surprise", DataType::UInt64, true),
    ]));
    let n = 5000;
    let batch = RecordBatch::try_new(
        schema.clone(),
        vec![
            Arc::new(Int64Array::from_iter_values(0..n)),
            Arc::new((0..n).map(|i| (i % 7 != 0).then(|| format!("name {}", i % 50))).collect::<StringArray>()),
            Arc::new(UInt64Array::from_iter_values((0..n as u64).map(|i| i * i))),
        ],
    )
    .unwrap();
    fs::create_dir_all(dir.join("metrics")).unwrap();
    let part = dir.join("metrics/part-0000.parquet");
    let mut writer = ArrowWriter::try_new(fs::File::create(&part).unwrap(), schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    part
}

#[test]
fn parts_of_other_programs_are_read_and_never_panic() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("manifest.json"), r#"{"format": 1, "complete": true}"#).unwrap();
    let part = foreign_part(&dir);
    // Unknown columns are left out, missing ones are null.
    let recording = Recording::open(&dir).unwrap();
    let batch = recording.read("metrics", None).unwrap().next().unwrap().unwrap();
    let names: Vec<_> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["ts", "name", "instance", "value"]);
    assert_eq!(batch.column(2).null_count() + batch.column(3).null_count(), 2 * batch.num_rows());
    assert!(check(&dir).unwrap().problems.iter().any(|p| p.id == "part.unverified" && p.level == Level::Note));

    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let len = fs::metadata(&part).unwrap().len() as usize;
    let mut found = 0;
    for round in 0..2000 {
        // Half of the flips go into the footer, where they do the strangest things.
        let at = if round % 2 == 0 { rng.random_range(0..len) } else { rng.random_range(len - 600..len) };
        let bit = rng.random_range(0..8);
        with_damage(
            &part,
            |b| if round % 10 == 9 { b.truncate(at) } else { b[at] ^= 1 << bit },
            || {
                if let Err(e) = read_all(&dir, "metrics") {
                    assert_names(&e, &part, &format!("at {at} of {len}, bit {bit}"));
                    found += 1;
                }
            },
        );
    }
    assert!(found > 200, "{found}");
}

#[test]
fn one_damaged_part_leaves_the_others_readable() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    let options = WriterOptions { compact: false, ..WriterOptions::default() };
    let mut w = RecordingWriter::create(&dir, Manifest::default(), options).unwrap();
    for n in 0..3 {
        push_interval(&mut w, n);
        w.flush(n).unwrap();
    }
    w.close(|_| ()).unwrap();
    let part = Recording::open(&dir).unwrap().parts("faults").unwrap().remove(1);
    with_damage(
        &part,
        |b| b[100] ^= 1,
        || {
            let recording = Recording::open(&dir).unwrap();
            let (good, bad): (Vec<_>, Vec<_>) = recording.read("faults", None).unwrap().partition(Result::is_ok);
            assert_eq!(good.iter().flatten().map(RecordBatch::num_rows).sum::<usize>(), 400);
            assert_eq!(bad.len(), 1);
            let report = check(&dir).unwrap();
            assert_eq!(report.tables["faults"].rows, 400);
            let damaged: Vec<_> = report.problems.iter().filter(|p| p.id == "part.damaged").collect();
            assert_eq!(damaged.len(), 1);
            assert_eq!(damaged[0].path, part);
            assert!(!report.is_whole());
        },
    );
}
