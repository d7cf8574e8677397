//! What rollups cost and bring: closing a recording of 10 million events with and without them, and each view from rollups
//! and from events.
//!
//! `cargo bench -p pagelab-views --no-default-features --bench rollups -- [EVENTS] [ROUNDS]`. Closings alternate between with
//! and without; times are medians of all rounds, wall clock.

mod shared;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pagelab_recording::tables::{FramesRow, SamplesRow, StacksRow, SyscallsRow, TasksRow};
use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions};
use pagelab_views::rollup::Makers;
use pagelab_views::selection::Selection;
use pagelab_views::view;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use shared::{PART, TASKS, median, push_faults};

/// Writes so many events.
type Push = fn(&mut RecordingWriter, u64);

fn new_writer(dir: &Path) -> RecordingWriter {
    let mut writer =
        RecordingWriter::create(dir, Manifest::default(), WriterOptions::default()).expect("a new recording");
    for task in 0..TASKS {
        let (pid, tid) = (10, 10 + task as i32);
        let row = TasksRow { op: "fork", task_id: 10 + task, pid, tid, mm_id: Some(3), ..TasksRow::default() };
        writer.push_tasks(&TasksRow { comm: Some("worker"), ..row });
    }
    writer
}

fn push_calls(writer: &mut RecordingWriter, calls: u64) {
    let names = ["read", "write", "futex", "pread64", "epoll_wait", "mmap", "close", "openat"];
    let mut rng = ChaCha8Rng::seed_from_u64(18);
    let mut ts = 1_000_000;
    for call in 0..calls {
        ts += rng.random_range(900..2_300);
        let name = rng.random_range(0..names.len());
        writer.push_syscalls(&SyscallsRow {
            ts,
            dur: Some(rng.random_range(200..4_000_i64) << rng.random_range(0..12)),
            task_id: 10 + rng.random_range(0..TASKS),
            name: names[name],
            file_id: Some(rng.random_range(0..64)).filter(|_| name < 4),
            ret: Some(if rng.random_range(0..50) == 0 { -11 } else { 100 }),
            cpu_ns: Some(150),
            ..SyscallsRow::default()
        });
        if call % PART == PART - 1 {
            writer.flush(ts).expect("flush");
        }
    }
}

fn push_samples(writer: &mut RecordingWriter, samples: u64) {
    for frame in 0..2_000 {
        let symbol = format!("function_{frame}");
        let row = FramesRow { frame_id: frame, symbol: Some(&symbol), kernel: frame % 2 == 0, ..FramesRow::default() };
        writer.push_frames(&row);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(19);
    for stack in 0..1_000_u64 {
        // Kernel stacks have even numbers, and so have the frames in them.
        let frame_ids: Vec<u64> = (0..20).map(|_| rng.random_range(0..1_000) * 2 + stack % 2).collect();
        writer.push_stacks(&StacksRow { stack_id: stack, frame_ids: &frame_ids });
    }
    let mut ts = 1_000_000;
    for sample in 0..samples {
        ts += rng.random_range(900..2_300);
        let stack = rng.random_range(0..500) * 2;
        writer.push_samples(&SamplesRow {
            ts,
            task_id: 10 + rng.random_range(0..TASKS),
            cpu: rng.random_range(0..2),
            event: "cpu-clock",
            kstack_id: Some(stack).filter(|stack| stack % 4 == 0),
            ustack_id: Some(stack + 1),
            weight: 1_000_000,
            ustack_end: Some("entry"),
        });
        if sample % PART == PART - 1 {
            writer.flush(ts).expect("flush");
        }
    }
}

/// Seconds that closing took.
fn close(dir: &Path, events: u64, push: Push, with_rollups: bool) -> f64 {
    let mut writer = new_writer(dir);
    push(&mut writer, events);
    if with_rollups {
        writer.set_witnesses(Arc::new(Makers));
    }
    let start = Instant::now();
    writer.close(|_| ()).expect("close");
    let seconds = start.elapsed().as_secs_f64();
    let manifest = Manifest::load(dir).expect("a manifest");
    assert_eq!(manifest.rollups_missing, None);
    assert_eq!(with_rollups, !manifest.rollups.is_empty());
    seconds
}

/// Seconds that a view took.
fn show(dir: &Path, name: &str) -> f64 {
    let start = Instant::now();
    let recording = Recording::open(dir).expect("a recording");
    let selection = Selection::default();
    match name {
        "faults" => drop(view::faults::collect(&recording, &selection).expect("a view")),
        "syscalls" => drop(view::syscalls::collect(&recording, &selection).expect("a view")),
        _ => drop(view::profile::collect(&recording, &selection).expect("a view")),
    }
    start.elapsed().as_secs_f64()
}

fn measure(name: &str, events: u64, rounds: usize, push: Push) {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let (with, without) = (tmp.path().join("with"), tmp.path().join("without"));
    let (mut times, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    for round in 0..rounds {
        // Which is first alternates, too.
        for which in [round % 2, 1 - round % 2] {
            let dir = if which == 0 { &without } else { &with };
            let _ = std::fs::remove_dir_all(dir);
            times[which].push(close(dir, events, push, which == 1));
        }
        ratios.push(times[1][round] / times[0][round]);
    }
    let [without_s, with_s] = times.map(median);
    println!("{name}: closing {events}: without {without_s:.3} s, with {with_s:.3} s, ratio {:.3}", median(ratios));
    let [from_events, from_rollups] = [&without, &with].map(|dir| median((0..5).map(|_| show(dir, name)).collect()));
    println!("{name}: view from events {from_events:.3} s, from rollups {from_rollups:.4} s");
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let events = words.first().and_then(|word| word.parse().ok()).unwrap_or(10_000_000);
    let rounds = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(5);
    let only = words.get(2).map(String::as_str);
    let all: [(&str, Push); 3] = [("faults", push_faults), ("syscalls", push_calls), ("profile", push_samples)];
    for (name, push) in all {
        if only.is_none_or(|only| only == name) {
            measure(name, events, rounds, push);
        }
    }
}
