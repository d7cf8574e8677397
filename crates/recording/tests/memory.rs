//! Memory while a recording is written and closed does not grow with its length, although each part holds a row that is much
//! older than the rest of it. One test, alone in its process, because the largest resident size is the process's.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use pagelab_recording::tables::SyscallsRow;
use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions};

/// As many as a part has at some 200,000 calls a second.
const ROWS_PER_PART: i64 = 50_000;
const PART_NS: i64 = 250_000_000;
/// How many parts before its own a call began that slept.
const SLEPT_PARTS: i64 = 40;
/// Writing and closing take some 50 MiB.
const BOUND_BYTES: u64 = 64 << 20;
const GROWTH_BYTES: u64 = 8 << 20;

/// The largest resident size of this process so far, bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a largest size");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// Writes a recording of `parts` parts and closes it; the largest resident size so far.
fn recorded(parts: i64) -> u64 {
    let tmp = tempfile::tempdir().expect("a directory");
    let mut writer = RecordingWriter::create(&tmp.path().join("rec"), Manifest::default(), WriterOptions::default())
        .expect("a writer");
    for part in 0..parts {
        let began = part * PART_NS;
        for row in 0..ROWS_PER_PART {
            let late = if row == 7 { SLEPT_PARTS.min(part) * PART_NS } else { 0 };
            let n = (part * ROWS_PER_PART + row) as u64;
            writer.push_syscalls(&SyscallsRow {
                ts: began + row * (PART_NS / ROWS_PER_PART) - late,
                dur: Some(late + 1000 + (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as i64),
                task_id: 1 + row as u32 % 2,
                name: "pread64",
                args: [3, n % 64 * 8192, 8192, n * 4096, 0, 0],
                fd: Some(3),
                offset: Some(n * 4096),
                offset_kind: Some("explicit"),
                requested: Some(8192),
                ret: Some(8192),
                cpu_ns: Some(900 + n % 100),
                ..SyscallsRow::default()
            });
        }
        writer.flush(began + PART_NS).expect("written");
    }
    writer.close(|_| {}).expect("closed");
    // Asked for before anything is read: reading takes memory, too.
    let peak = peak();
    let recording = Recording::open(&tmp.path().join("rec")).expect("a recording");
    let (mut last, mut rows) = (i64::MIN, 0);
    for batch in recording.read("syscalls", Some(&["ts"])).expect("rows") {
        let batch = batch.expect("rows");
        let view = batch.column(0);
        rows += view.len() as i64;
        let times = view.as_primitive::<Int64Type>();
        for ts in times.values() {
            assert!(*ts >= last, "rows are in the order of time");
            last = *ts;
        }
    }
    assert_eq!(rows, parts * ROWS_PER_PART);
    peak
}

#[test]
fn memory_does_not_grow_with_the_recording() {
    let short = recorded(2 * SLEPT_PARTS / 4);
    let long = recorded(2 * SLEPT_PARTS);
    println!("{short} bytes, four times the rows: {long}");
    assert!(long <= BOUND_BYTES, "{long} bytes, at most {BOUND_BYTES} are allowed");
    assert!(long <= short + GROWTH_BYTES, "{short} bytes grew to {long}");
}
