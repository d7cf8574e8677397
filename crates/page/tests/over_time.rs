//! What a page draws against time, on recordings written by the real writer: bins add up to the totals of the views.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use pagelab_page::Page;
use pagelab_recording::tables::{BlockIosRow, FilesRow, LatencyRow, MetricsRow, RegionPagesRow, SyscallsRow};
use pagelab_recording::{Recording, RecordingWriter};
use pagelab_views::run::RunData;
use pagelab_views::selection::Selection;
use pagelab_views::view;
use serde_json::{Value, json};

const SECOND: i64 = 1_000_000_000;
const SECONDS: i64 = 700;
const FILES: u32 = 5;

/// A load that measured from 10 s on, for 700 s.
fn record(dir: &Path, fill: impl FnOnce(&mut RecordingWriter)) -> PathBuf {
    let measured =
        json!({"start_ns": 10 * SECOND, "end_ns": (10 + SECONDS) * SECOND, "operations": 1000, "source": "load"});
    common::record(dir, None, measured, fill)
}

/// The document's part about the recording.
fn document(dir: &Path) -> Value {
    let page = Page::of_recordings("a page", &[dir.to_owned()]).unwrap();
    serde_json::to_value(&page).unwrap()["recordings"][0].clone()
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).collect()
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (a.abs() + b.abs() + 1.0)
}

/// Two threads, each a little late, one of them slow in the second half; and a ramp that does not count.
fn push_latency(writer: &mut RecordingWriter) {
    for second in 5..=10 + SECONDS {
        for thread in [0, 1] {
            let slow = if thread == 1 && second > 10 + SECONDS / 2 { 1000 } else { 1 };
            for (kind, count) in [("lat", 10), ("clat", 10), ("slat", 10)] {
                writer.push_latency(&LatencyRow {
                    ts: second * SECOND + i64::from(thread) * 1_000_000,
                    job: "a",
                    thread: Some(thread),
                    direction: "read",
                    kind,
                    low_ns: 100 * slow,
                    high_ns: 109 * slow,
                    count,
                });
            }
        }
    }
}

#[test]
fn intervals_hold_every_operation_once() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), push_latency);
    let latency = document(&dir)["over_time"]["latency"].clone();
    assert_eq!((latency["kind"].as_str(), latency["interval_ns"].as_i64()), (Some("lat"), Some(3 * SECOND)));
    let intervals = latency["courses"][0]["intervals"].as_array().unwrap().clone();
    assert_eq!(intervals.len() as i64, (SECONDS + 2) / 3);
    let counts: u64 = intervals.iter().map(|one| one["count"].as_u64().unwrap()).sum();
    // Two threads, ten operations each a second; the first thread's second that ended with the ramp is not in it.
    let all = view::latency::collect(&Recording::open(&dir).unwrap(), &Selection::default()).unwrap().data;
    let whole = all.histograms.iter().find(|one| one.kind == "lat").unwrap();
    assert_eq!(counts, whole.count - 6 * 10 - 5 * 10, "all but the ramp");
    let first = &intervals[0];
    assert_eq!((first["p50_ns"].as_u64(), first["max_ns"].as_u64()), (Some(109), Some(109)));
    let last = intervals.last().unwrap();
    assert_eq!((last["p50_ns"].as_u64(), last["p99_ns"].as_u64()), (Some(109), Some(109_000)));
}

fn push_io(writer: &mut RecordingWriter) {
    for file_id in 1..=FILES {
        let path = format!("/data/{file_id}");
        writer.push_files(&FilesRow { ts: 1, file_id, path: Some(path.as_bytes()), ..FilesRow::default() });
        for number in 0..400_u64 * u64::from(file_id) {
            let is_write = number % 4 == 0;
            let bytes = if is_write { 4096 } else { 8192 };
            writer.push_syscalls(&SyscallsRow {
                ts: (10 + i64::from(file_id)) * SECOND + number as i64 * 1_000_000,
                dur: Some(10),
                task_id: 1,
                name: if is_write { "pwrite64" } else { "pread64" },
                file_id: Some(file_id),
                // 960 places, 16 to a row of the picture, all of them met.
                offset: Some(number * 37 % 960 * 8192),
                offset_kind: Some("explicit"),
                requested: Some(bytes),
                ret: Some(bytes as i64),
                ..SyscallsRow::default()
            });
        }
    }
}

#[test]
fn cells_and_sizes_hold_every_operation_of_the_view() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), push_io);
    let io = document(&dir)["over_time"]["io"].clone();
    let view = view::io::collect(&Recording::open(&dir).unwrap(), &Selection::default()).unwrap().data;
    let files = io["files"].as_array().unwrap();
    assert_eq!((files.len(), io["files_total"].as_u64()), (3, Some(u64::from(FILES))), "those with most bytes");
    for file in files {
        let row = view.files.iter().find(|row| u64::from(row.file_id) == file["file_id"].as_u64().unwrap()).unwrap();
        assert_eq!(file["name"].as_str(), Some(row.name.as_str()));
        assert_eq!(file["reads"].as_u64(), Some(row.reads.calls));
        assert_eq!(file["writes"].as_u64(), Some(row.writes.calls));
        let cells: Vec<Vec<u64>> = file["cells"].as_array().unwrap().iter().map(numbers).collect();
        let sum = |place: usize| cells.iter().map(|cell| cell[place]).sum::<u64>();
        assert_eq!((sum(2), sum(3)), (row.reads.calls, row.writes.calls), "each lies in one row and counts once");
        assert!(cells.iter().all(|cell| cell[0] < 160 && cell[1] < 60 && cell[2] + cell[3] > 0));
    }
    let sizes: Vec<Vec<u64>> = io["sizes"].as_array().unwrap().iter().map(numbers).collect();
    let calls = |pick: fn(&view::io::OneFile) -> u64| view.files.iter().map(pick).sum::<u64>();
    assert_eq!(sizes, [[4096, 0, calls(|row| row.writes.calls)], [8192, calls(|row| row.reads.calls), 0]]);
}

fn push_requests(writer: &mut RecordingWriter) {
    for number in 0..3000_u64 {
        let op = if number % 3 == 0 { "write" } else { "read" };
        let (dev, device) = if number % 10 == 9 { (0x801, None) } else { (0x800, Some("nvme0n1")) };
        writer.push_block_ios(&BlockIosRow {
            ts: 10 * SECOND + number as i64 * 1_000_000,
            dev,
            device,
            sector: number * 37 % 960 * 8,
            bytes: if op == "write" { 4096 } else { 2048 },
            op,
            ..BlockIosRow::default()
        });
    }
    writer.push_block_ios(&BlockIosRow { ts: 10 * SECOND, dev: 0x800, op: "flush", ..BlockIosRow::default() });
}

#[test]
fn requests_are_drawn_where_calls_were_not_recorded() {
    let tmp = tempfile::tempdir().unwrap();
    let io = document(&record(&tmp.path().join("r"), push_requests))["over_time"]["io"].clone();
    assert_eq!((io["table"].as_str(), io["files_total"].as_u64()), (Some("block_ios"), Some(2)));
    let names: Vec<Option<&str>> = io["files"].as_array().unwrap().iter().map(|file| file["name"].as_str()).collect();
    assert_eq!(names, [Some("nvme0n1"), Some("8:1")]);
    let (mut reads, mut writes) = (0, 0);
    for file in io["files"].as_array().unwrap() {
        assert!(file["file_id"].is_null());
        let cells: Vec<Vec<u64>> = file["cells"].as_array().unwrap().iter().map(numbers).collect();
        let sum = |place: usize| cells.iter().map(|cell| cell[place]).sum::<u64>();
        let (of_reads, of_writes) = (file["reads"].as_u64().unwrap(), file["writes"].as_u64().unwrap());
        // A request that reaches from one row into the next is in both.
        assert!((of_reads..of_reads * 2).contains(&sum(2)) && (of_writes..of_writes * 2).contains(&sum(3)));
        (reads, writes) = (reads + of_reads, writes + of_writes);
    }
    assert_eq!((reads, writes), (2000, 1000), "all but the flush");
    let sizes: Vec<Vec<u64>> = io["sizes"].as_array().unwrap().iter().map(numbers).collect();
    assert_eq!(sizes, [[2048, 2000, 0], [4096, 0, 1000]]);
    // Calls know the file, and come first.
    let both = record(&tmp.path().join("b"), |writer| {
        push_requests(writer);
        push_io(writer);
    });
    assert_eq!(document(&both)["over_time"]["io"]["table"].as_str(), Some("syscalls"));
}

fn push_metrics(writer: &mut RecordingWriter) {
    for tick in 0..(20 + SECONDS) * 10 {
        let ts = tick * SECOND / 10;
        let mut sample =
            |name, value| writer.push_metrics(&MetricsRow { ts, name, instance: None, value: Some(value) });
        sample("psi.io.some_ns", (tick * tick) as f64);
        sample("psi.cpu.some_ns", 5.0);
        // A level has a row where it changes only.
        if tick % 70 == 0 {
            sample("meminfo.dirty_bytes", (tick % 13 * 4096) as f64);
        }
    }
}

#[test]
fn lines_have_the_number_of_the_run_as_their_mean() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), push_metrics);
    let series = document(&dir)["over_time"]["series"].clone();
    let run = RunData::load(&dir).unwrap();
    let courses = series["courses"].as_array().unwrap();
    let names: Vec<&str> = courses.iter().map(|course| course["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["psi.io.some_ns", "meminfo.dirty_bytes"], "what does not move is left out");
    let (span, width) = (series["span_ns"].as_i64().unwrap(), series["width_ns"].as_i64().unwrap());
    for (course, name) in courses.iter().zip(names) {
        let values = course["values"].as_array().unwrap();
        assert!(values.len() <= 300 && values.len() > 250, "{}", values.len());
        let length = |place: usize| (span - place as i64 * width).min(width) as f64;
        let sum: f64 = values.iter().enumerate().map(|(place, value)| value.as_f64().unwrap() * length(place)).sum();
        assert!(
            is_near(sum / span as f64, run.value(name).unwrap()),
            "{name}: {} {:?}",
            sum / span as f64,
            run.value(name)
        );
    }
}

#[test]
fn page_sizes_are_those_of_the_view() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), |writer| {
        for (page_size_bytes, bytes, reason) in [(4096, 1 << 20, Some("no_memory")), (2 << 20, 8 << 20, None)] {
            writer.push_region_pages(&RegionPagesRow {
                ts: 11 * SECOND,
                mm_id: 1,
                start: 0x1000,
                end: 0x1000 + (9 << 20),
                page_size_bytes,
                bytes,
                asked: Some("madvise"),
                reason,
                ..RegionPagesRow::default()
            });
        }
    });
    let drawn = document(&dir)["page_sizes"].clone();
    let view = view::regions::collect(&Recording::open(&dir).unwrap(), &Selection::default()).unwrap().data;
    assert_eq!(drawn["sizes"], serde_json::to_value(&view.sizes).unwrap());
    assert_eq!(drawn["shortfalls"], serde_json::to_value(&view.shortfalls).unwrap());
    assert_eq!(drawn["shortfalls"][0]["bytes"].as_u64(), Some(1 << 20));
}

/// A minute of a million events a second has no more cells than this one of all cells full: the document stays small.
#[test]
fn a_full_picture_is_small() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), |writer| {
        for file_id in 1..=3_u32 {
            writer.push_files(&FilesRow { ts: 1, file_id, path: Some(b"/data/file"), ..FilesRow::default() });
            for number in 0..200_000_u64 {
                writer.push_syscalls(&SyscallsRow {
                    ts: 10 * SECOND + number as i64 * 1_000_000,
                    task_id: 1,
                    name: if number % 2 == 0 { "pread64" } else { "pwrite64" },
                    file_id: Some(file_id),
                    offset: Some(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24 & !4095),
                    requested: Some(4096),
                    ret: Some(4096),
                    ..SyscallsRow::default()
                });
            }
        }
    });
    let io = document(&dir)["over_time"]["io"].clone();
    let cells: usize = io["files"].as_array().unwrap().iter().map(|file| file["cells"].as_array().unwrap().len()).sum();
    assert!(cells > 28_000, "nearly all of 3 * 9600 cells: {cells}");
    assert!(io.to_string().len() < 600_000, "{} bytes", io.to_string().len());
}
