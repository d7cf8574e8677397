//! Rows come late, from several CPUs and across flushes; after a clean end, and in `read_sorted` before it, a table is
//! in order of time, complete, and rows of equal time are in the order in which they were pushed.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use crate::common;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, UInt64Type};
use common::scratch;
use pagelab_recording::tables::FaultsRow;
use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions, check};
use proptest::prelude::*;

/// Times and serial numbers (kept in `addr`) in the order of the reader.
fn rows(batches: impl Iterator<Item = pagelab_recording::Result<arrow::array::RecordBatch>>) -> Vec<(i64, u64)> {
    let mut rows = Vec::new();
    for batch in batches {
        let batch = batch.unwrap();
        let ts = batch.column_by_name("ts").unwrap().as_primitive::<Int64Type>().values().to_vec();
        let addr = batch.column_by_name("addr").unwrap().as_primitive::<UInt64Type>().values().to_vec();
        rows.extend(ts.into_iter().zip(addr));
    }
    rows
}

fn record(dir: &std::path::Path, flushes: &[Vec<i64>], options: WriterOptions) -> (RecordingWriter, Vec<(i64, u64)>) {
    let mut w = RecordingWriter::create(dir, Manifest::default(), options).unwrap();
    let (mut serial, mut pushed) = (0_u64, Vec::new());
    for times in flushes {
        for ts in times {
            // Instruction addresses that do not compress, so that the parts are large.
            let ip = (serial * serial)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
                .wrapping_mul(0xBF58_476D_1CE4_E5B9);
            w.push_faults(&FaultsRow { ts: *ts, addr: serial, ip, ..FaultsRow::default() });
            pushed.push((*ts, serial));
            serial += 1;
        }
        w.flush(0).unwrap();
    }
    pushed.sort_by_key(|r| r.0);
    (w, pushed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn merged_is_a_stable_sort(flushes in prop::collection::vec(prop::collection::vec(0..40_i64, 0..60), 0..8)) {
        let tmp = scratch();
        let dir = tmp.path().join("rec");
        let (w, wanted) = record(&dir, &flushes, WriterOptions::default());
        let live = Recording::open(&dir).unwrap();
        prop_assert_eq!(rows(live.read_sorted("faults", Some(&["addr", "ts"])).unwrap()), wanted.clone());
        w.close(|_| ()).unwrap();
        let closed = Recording::open(&dir).unwrap();
        prop_assert_eq!(rows(closed.read("faults", None).unwrap()), wanted);
    }
}

#[test]
fn large_parts_are_split_and_stay_in_order() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    // Many flushes, each with rows up to 200 ms late.
    let flushes: Vec<Vec<i64>> = (0..40_i64)
        .map(|f| (0..20_000_i64).map(|i| f * 1_000_000_000 + i * 50_000 - (i % 3) * 100_000_000).collect())
        .collect();
    let options = WriterOptions { max_part_bytes: 1 << 20, ..WriterOptions::default() };
    let (w, wanted) = record(&dir, &flushes, options);
    w.close(|_| ()).unwrap();
    let recording = Recording::open(&dir).unwrap();
    assert_eq!(rows(recording.read("faults", None).unwrap()), wanted);
    let parts = recording.parts("faults").unwrap();
    assert!(parts.len() > 1, "{parts:?}");
    for part in &parts {
        let len = part.metadata().unwrap().len();
        assert!(len <= 1 << 20, "{} has {len} bytes", part.display());
    }
    let report = check(&dir).unwrap();
    assert!(!report.problems.iter().any(|p| p.id.starts_with("part.")), "{:?}", report.problems);
}
