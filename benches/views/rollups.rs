//! What rollups cost and bring: closing a recording of 10 million events with and without them, and each view from rollups
//! and from events.
//!
//! `cargo bench -p pagelab-views --no-default-features --bench rollups -- [EVENTS] [ROUNDS]`. Closings alternate between with
//! and without; times are medians of all rounds, wall clock.

mod shared;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pagelab_recording::{Manifest, Recording};
use pagelab_views::rollup::Makers;
use pagelab_views::selection::Selection;
use pagelab_views::view;
use shared::median;
use shared::recordings::{Push, VIEWS, new_writer};

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
    for (name, push) in VIEWS {
        if only.is_none_or(|only| only == name) {
            measure(name, events, rounds, push);
        }
    }
}
