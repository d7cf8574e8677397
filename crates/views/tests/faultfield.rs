//! The picture of all faults: whatever the window, every fault in it is counted once, and few are shown one by one.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use pagelab_recording::tables::{FaultsRow, TasksRow};
use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions};
use pagelab_views::faultfield::{FaultField, POINTS, Seen, Window};

const HUGE: u64 = 2 << 20;
const FAULTS: i64 = 20_000;
const STEP_NS: i64 = 1_000_000;

/// A fault each millisecond, down through the pages of 40 slots of two address spaces, which lie far apart.
fn recording(dir: &Path) -> Recording {
    let mut writer = RecordingWriter::create(dir, Manifest::default(), WriterOptions::default()).unwrap();
    writer.push(&TasksRow { op: "fork", task_id: 1, tid: 7, pid: 7, comm: Some("walker"), ..TasksRow::default() });
    for number in 0..FAULTS {
        let (slot, page) = (number as u64 / 500, 511 - number as u64 % 500);
        let addr = (slot << 40) + page * 4096 + 8;
        let mm_id = 1 + (slot % 2) as u32;
        let ts = 77 + number * STEP_NS;
        writer.push(&FaultsRow {
            ts,
            task_id: 1,
            mm_id,
            addr,
            ip: 0x40_1000,
            error_code: Some(7),
            ..FaultsRow::default()
        });
    }
    writer.close(|_| {}).unwrap();
    Recording::open(dir).unwrap()
}

fn counted(seen: &Seen) -> u64 {
    seen.cells.iter().map(|[_, _, faults]| faults).sum()
}

#[test]
fn every_fault_is_in_one_cell_of_every_window_that_holds_it() {
    let tmp = tempfile::tempdir().unwrap();
    let recording = recording(&tmp.path().join("r"));
    let field = FaultField::of(&recording, &mut Vec::new()).unwrap().unwrap();
    assert_eq!((field.faults(), field.height(), field.span_ns()), (FAULTS as u64, 40, (FAULTS - 1) * STEP_NS));
    for (columns, rows) in [(500, 40), (1000, 400), (1, 1)] {
        let seen = field.see(&recording, &field.whole(columns, rows)).unwrap();
        assert_eq!((seen.faults, counted(&seen)), (FAULTS as u64, FAULTS as u64), "{columns} x {rows}");
        assert!(seen.points.is_none() && seen.cells.iter().all(|[x, y, _]| *x < columns as u64 && *y < rows as u64));
    }
    // From 5 s up to, not including, 5.4 s of the first address space: 5 s is in slot 10, of the first.
    let window =
        Window { from_ns: 5000 * STEP_NS, to_ns: 5400 * STEP_NS - 1, low: 0.0, high: 20.0, columns: 100, rows: 100 };
    let seen = field.see(&recording, &window).unwrap();
    assert_eq!((seen.faults, counted(&seen)), (400, 400));
    let points = seen.points.unwrap();
    assert!(points.len() <= POINTS && points.len() == 400);
    assert_eq!((points[0].t_ns, points[0].task.as_str()), (5000 * STEP_NS, "walker 7"));
    assert_eq!(points[0].addr, format!("{:#x}", (10_u64 << 40) + 511 * 4096 + 8));
    assert!(points[0].protection, "error code 7 is of a page that was there");
    // Slot 10 is the sixth of the even ones, which the first address space has: rank 5.
    assert_eq!(points[0].height_q20 >> 20, 5);
    assert!(points.windows(2).all(|two| two[1].height_q20 < two[0].height_q20), "it walks down");
    let slots = seen.slots.unwrap();
    assert_eq!((slots.len(), slots[5].mm_id, slots[5].addr.as_str()), (20, 1, "0xa0000000000"));
    assert_eq!(HUGE, field.huge_bytes());
}

#[test]
fn windows_of_nothing_and_beyond_everything_are_pictures_too() {
    let tmp = tempfile::tempdir().unwrap();
    let recording = recording(&tmp.path().join("r"));
    let field = FaultField::of(&recording, &mut Vec::new()).unwrap().unwrap();
    let wide =
        Window { from_ns: i64::MIN, to_ns: i64::MAX, low: f64::NAN, high: f64::INFINITY, columns: 0, rows: usize::MAX };
    assert_eq!(field.see(&recording, &wide).unwrap().faults, FAULTS as u64);
    let none = Window { from_ns: 3, to_ns: 2, low: 50.0, high: -1.0, columns: 10, rows: 10 };
    assert_eq!(field.see(&recording, &none).unwrap().faults, 0);
    let empty = tmp.path().join("empty");
    RecordingWriter::create(&empty, Manifest::default(), WriterOptions::default()).unwrap().close(|_| {}).unwrap();
    assert!(FaultField::of(&Recording::open(&empty).unwrap(), &mut Vec::new()).unwrap().is_none());
}
