//! What a page draws of the runs of a comparison, on recordings written by the real writer: stacks of waits sum to the account, single
//! runs are the ones that they are said to be, and the document stays small.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use pagelab_analysis::compare::{CompareOptions, Comparison, compare};
use pagelab_page::Page;
use pagelab_recording::tables::{
    FramesRow, LatencyRow, MetricsRow, OffcpuRow, RegionPagesRow, StacksRow, TasksRow, WaitStacksRow, WaitsRow,
};
use pagelab_recording::{Recording, RecordingWriter};
use pagelab_views::selection::Selection;
use pagelab_views::view::budget;
use serde_json::{Value, json};
use tempfile::TempDir;

const SECOND: i64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// A run of a command that took so long.
fn record(dir: &Path, seconds: i64, fill: impl FnOnce(&mut RecordingWriter)) -> PathBuf {
    let measured = json!({"start_ns": 0, "end_ns": seconds * SECOND, "operations": null, "source": "command"});
    common::record(dir, Some("true"), measured, fill)
}

fn stack(writer: &mut RecordingWriter, stack_id: u64, function: &str) {
    let frame = FramesRow { frame_id: stack_id, symbol: Some(function), kernel: true, ..FramesRow::default() };
    writer.push(&frame);
    writer.push(&StacksRow { stack_id, frame_ids: &[stack_id] });
}

fn off(writer: &mut RecordingWriter, off_state: &str, ns: u64, kstack_id: Option<u64>) {
    let by = Some("timer");
    let row = WaitsRow { ts: SECOND, task_id: Some(1), state: "off", times: Some(1), ns, by, ..WaitsRow::default() };
    writer.push(&WaitsRow { off_state: Some(off_state), iowait: Some(false), ..row });
    if kstack_id.is_some() {
        let row = WaitStacksRow { ts: SECOND, task_id: 1, off_state, by, kstack_id, ..WaitStacksRow::default() };
        writer.push(&WaitStacksRow { samples: 1, weight_ns: 5, ..row });
    }
}

/// A task that reads for so long, and sleeps for two thousand times as long.
fn push_waits(writer: &mut RecordingWriter, read_ms: u64) {
    writer.push(&TasksRow { op: "snapshot", task_id: 1, tid: 7, pid: 7, comm: Some("work"), ..TasksRow::default() });
    stack(writer, 1, "filemap_read");
    stack(writer, 2, "do_nanosleep");
    let idle = |ts| WaitsRow { ts, state: "idle", ..WaitsRow::default() };
    writer.push(&idle(0));
    off(writer, "D", read_ms * MS, Some(1));
    off(writer, "S", 2000 * read_ms * MS, Some(2));
    writer.push(&idle(SECOND));
}

fn compared(base: &[PathBuf], test: &[PathBuf]) -> (Comparison, Value) {
    let comparison = compare(base, test, &CompareOptions::default()).unwrap();
    let document = serde_json::to_value(Page::new("a page", [&comparison]).unwrap()).unwrap();
    (comparison, document["pictures"][0].clone())
}

/// `n` runs, the first of which takes `n` seconds, the last one.
fn side(tmp: &TempDir, name: &str, n: i64, fill: impl Fn(&mut RecordingWriter, i64)) -> Vec<PathBuf> {
    let run =
        |number: i64| record(&tmp.path().join(format!("{name}-{number}")), n - number, |writer| fill(writer, number));
    (0..n).map(run).collect()
}

fn off_ns(dir: &Path) -> u64 {
    budget::collect(&Recording::open(dir).unwrap(), &Selection::default()).unwrap().data.off_ns.unwrap()
}

fn frame<'a>(of: &'a Value, name: &str) -> &'a Value {
    let children = of["children"].as_array().unwrap();
    children.iter().find(|child| child["name"] == name).unwrap_or_else(|| panic!("no {name} in {of:#}"))
}

fn notes(pictures: &Value) -> String {
    pictures["notes"].to_string()
}

#[test]
fn waits_of_a_recording_sum_to_its_account() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = record(&tmp.path().join("r"), 1, |writer| push_waits(writer, 300));
    let document = serde_json::to_value(Page::of_recordings("a page", std::slice::from_ref(&dir)).unwrap()).unwrap();
    let recording = &document["recordings"][0];
    let off = &recording["off_cpu"];
    assert_eq!((off["stream"].as_str(), &off["passive"]), (Some("waits"), &json!(["off.timer"])));
    assert_eq!(off["root"]["test"].as_f64(), Some(off_ns(&dir) as f64));
    assert_eq!(off["root"]["test"].as_f64(), recording["budget"]["off_ns"].as_f64());
    for component in recording["budget"]["components"].as_array().unwrap() {
        let frame = frame(&off["root"], component["component"].as_str().unwrap());
        assert_eq!(frame["test"].as_f64(), component["ns"].as_f64());
    }
    // Less than a thousandth of all, and it is not lost.
    assert_eq!(frame(frame(&off["root"], "off.read"), "work")["children"][0]["name"], "filemap_read_[k]");
}

#[test]
fn without_waits_there_is_no_picture_and_it_is_said_why() {
    let tmp = tempfile::tempdir().unwrap();
    let nothing = |name: &str| record(&tmp.path().join(name), 1, |_| ());
    let with = |name: &str| record(&tmp.path().join(name), 1, |writer| push_waits(writer, 3));
    let document = serde_json::to_value(Page::of_recordings("a page", &[nothing("n")]).unwrap()).unwrap();
    let recording = &document["recordings"][0];
    assert!(recording["off_cpu"].is_null());
    assert!(
        notes(recording).contains("stacks of waits are not drawn: no waits were recorded; ask for them"),
        "{}",
        notes(recording)
    );
    let (_, pictures) = compared(&[with("a"), with("b")], &[nothing("c"), nothing("d")]);
    assert!(pictures["off_cpu"].is_null());
    assert!(
        notes(&pictures).contains("no run of test has them: no waits were recorded; ask for them"),
        "{}",
        notes(&pictures)
    );
}

#[test]
fn waits_of_both_sides_are_means_of_their_accounts() {
    let tmp = tempfile::tempdir().unwrap();
    let base = side(&tmp, "base", 3, |writer, number| push_waits(writer, 100 + number as u64));
    let test = side(&tmp, "test", 2, |writer, number| push_waits(writer, 400 + number as u64));
    let (_, pictures) = compared(&base, &test);
    let root = &pictures["off_cpu"]["root"];
    for (name, dirs) in [("base", &base), ("test", &test)] {
        let mean = dirs.iter().map(|dir| off_ns(dir) as f64).sum::<f64>() / dirs.len() as f64;
        assert!((root[name].as_f64().unwrap() - mean).abs() < 1.0, "{name}: {} {mean}", root[name]);
    }
    assert_eq!(frame(root, "off.read")["base"].as_f64(), Some(101e6));
    // What each run has decides: with every switch of one side alone, both are drawn from the sums.
    let row = OffcpuRow { dur: Some(5), state: Some("S"), kstack_id: Some(2), task_id: 1, ..OffcpuRow::default() };
    let switches = side(&tmp, "switches", 2, |writer, _| {
        push_waits(writer, 9);
        writer.push(&row);
    });
    assert_eq!(compared(&base, &switches).1["off_cpu"]["stream"], "waits");
    let more = side(&tmp, "more", 2, |writer, _| {
        push_waits(writer, 9);
        writer.push(&row);
        writer.push(&row);
    });
    let every = compared(&switches, &more).1["off_cpu"].clone();
    assert_eq!((every["stream"].as_str(), every["root"]["base"].as_f64()), (Some("sched"), Some(5.0)));
    let alone = side(&tmp, "alone", 2, |writer, _| writer.push(&row));
    let (_, pictures) = compared(&base, &alone);
    assert!(pictures["off_cpu"].is_null() && notes(&pictures).contains("some runs have those of sched alone"));
}

/// The typical run is the middle one of each side; its page sizes are shown.
#[test]
fn page_sizes_of_both_sides_are_those_of_the_typical_runs() {
    let tmp = tempfile::tempdir().unwrap();
    let pages = |writer: &mut RecordingWriter, bytes: u64| {
        let row = RegionPagesRow { ts: SECOND, mm_id: 1, start: 0x1000, end: 0x9000, ..RegionPagesRow::default() };
        writer.push_region_pages(&RegionPagesRow { page_size_bytes: 4096, bytes, ..row });
    };
    let base = side(&tmp, "base", 3, |writer, number| pages(writer, 4096 * (number as u64 + 1)));
    let test = side(&tmp, "test", 3, |_, _| ());
    let (_, pictures) = compared(&base, &test);
    assert_eq!(pictures["over_time"][0]["dir"].as_str(), base[1].to_str());
    assert_eq!(pictures["page_sizes"][0]["sizes"], json!([{"page_size_bytes": 4096, "bytes": 8192}]));
    assert!(pictures["page_sizes"][1].is_null());
}

/// Every metric and event that is drawn, each tenth of a second, and the latency of a load in both directions.
fn push_lines(writer: &mut RecordingWriter, seconds: i64, number: i64) {
    let names = [
        "psi.cpu.some_ns",
        "psi.memory.some_ns",
        "psi.io.some_ns",
        "stat.procs_running",
        "target.status.vmrss_bytes",
        "target.faults",
        "target.io.read_bytes",
        "target.io.write_bytes",
        "meminfo.memfree_bytes",
        "vmstat.pgscan_direct",
    ];
    for tick in 0..seconds * 10 {
        for (place, name) in names.iter().enumerate() {
            let value = Some((tick * tick * (7 + place as i64) + number) as f64);
            writer.push_metrics(&MetricsRow { ts: tick * SECOND / 10, name, instance: None, value });
        }
    }
    for (second, direction) in (1..=seconds).flat_map(|second| [(second, "read"), (second, "write")]) {
        let (low_ns, high_ns) = (1_234_567 + second as u64, 1_345_678 + second as u64);
        let row = LatencyRow {
            ts: second * SECOND,
            job: "a",
            thread: None,
            direction,
            kind: "lat",
            low_ns,
            high_ns,
            count: 9,
        };
        writer.push_latency(&row);
    }
}

#[test]
fn other_runs_are_lines_of_few_points() {
    const RUNS: i64 = 13;
    let tmp = tempfile::tempdir().unwrap();
    let run = |name: &str, number: i64| {
        let dir = tmp.path().join(format!("{name}-{number:02}"));
        record(&dir, 200 + number, |writer| push_lines(writer, 200 + number, number))
    };
    let [base, test] = ["base", "test"].map(|name| (0..RUNS).map(|number| run(name, number)).collect::<Vec<_>>());
    let (comparison, pictures) = compared(&base, &test);
    let typical = pictures["over_time"][0].clone();
    assert_eq!(typical["dir"].as_str(), base[6].to_str());
    for (side, dirs) in [&base, &test].into_iter().enumerate() {
        let others = pictures["other_runs"][side].as_array().unwrap();
        let names: Vec<&str> = others.iter().map(|run| run["dir"].as_str().unwrap()).collect();
        assert_eq!((names.len(), names[0], names[8]), (9, dirs[0].to_str().unwrap(), dirs[12].to_str().unwrap()));
        assert!(!names.contains(&dirs[6].to_str().unwrap()), "the typical one is no other");
    }
    let other = &pictures["other_runs"][0][0];
    let courses = other["series"]["courses"].as_array().unwrap();
    assert_eq!(courses.len(), typical["series"]["courses"].as_array().unwrap().len());
    for course in courses.iter().filter(|course| course["values"].as_array().is_some()) {
        let points = course["values"].as_array().unwrap().len();
        assert!((50..=100).contains(&points), "{points} points of {}", course["name"]);
    }
    for course in other["latency"]["courses"].as_array().unwrap() {
        let intervals = course["intervals"].as_array().unwrap();
        assert!((50..=100).contains(&intervals.len()), "{} intervals", intervals.len());
        let operations: u64 = intervals.iter().map(|one| one["count"].as_u64().unwrap()).sum();
        assert_eq!(operations, 9 * 200, "every operation once");
    }
    let lines = |of: &Value| of["series"]["courses"].as_array().unwrap().len() as f64;
    let bytes = pictures["other_runs"].to_string().len() as f64 / 18.0;
    assert!(bytes < 1000.0 * lines(other) + 30_000.0, "{bytes} bytes a run");
    assert_eq!(comparison.base.n, RUNS as usize);
}

/// A metric that moves in one of the other runs alone is drawn.
#[test]
fn what_moves_in_one_run_is_not_flat() {
    let tmp = tempfile::tempdir().unwrap();
    let fill = |moves: bool| {
        move |writer: &mut RecordingWriter, number: i64| {
            for tick in 0..30 {
                let value = if moves && number == 0 { tick as f64 } else { 0.0 };
                let row = MetricsRow {
                    ts: tick * SECOND / 10,
                    name: "vmstat.compact_stall",
                    instance: None,
                    value: Some(value),
                };
                writer.push_metrics(&row);
            }
        }
    };
    let base = side(&tmp, "base", 3, fill(false));
    let test = side(&tmp, "test", 3, fill(true));
    let names = |pictures: &Value, pointer: &str| {
        let courses = pictures.pointer(pointer).unwrap().as_array().unwrap();
        courses.iter().map(|course| course["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (_, pictures) = compared(&base, &test);
    assert_eq!(names(&pictures, "/over_time/0/series/courses"), ["vmstat.compact_stall"]);
    let (_, flat) = compared(&base, &side(&tmp, "flat", 3, fill(false)));
    assert_eq!(names(&flat, "/over_time/0/series/courses"), Vec::<String>::new());
}
