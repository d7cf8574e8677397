//! The picture of all faults: 60 s of a program that takes a million faults a second, from the whole down to single events.
//!
//! `cargo bench -p pagelab-views --no-default-features --bench field -- [SECONDS] [DIR]`. With DIR the recording is kept there, for
//! `pagelab report` and `pagelab ui`. Times are wall clock, of one thread that reads and one that decodes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pagelab_recording::tables::{MappingsRow, TasksRow};
use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions};
use pagelab_views::faultfield::{FaultField, POINTS, Window};
use pagelab_views::rollup::Makers;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const PER_SECOND: i64 = 1_000_000;
const BASE: u64 = 0x7f00_0000_0000;
const PIECE: u64 = 2 << 20;
const PIECES: u64 = 4096;

/// Two tasks that fill pieces of 2 MiB from their ends, and one in twenty faults of a third anywhere.
fn make(dir: &Path, seconds: i64) {
    let mut writer =
        RecordingWriter::create(dir, Manifest::default(), WriterOptions::default()).expect("a new recording");
    for task in 0..3 {
        let row = TasksRow { op: "fork", task_id: task, pid: 10, tid: 10 + task as i32, ..TasksRow::default() };
        writer.push_tasks(&TasksRow { comm: Some("worker"), mm_id: Some(1), ..row });
    }
    writer.push_mappings(&MappingsRow {
        mm_id: 1,
        mapping_id: Some(1),
        op: "mmap",
        kind: "call",
        flags: Some(0x22),
        prot: Some(3),
        ret: Some(BASE as i64),
        len: Some(PIECES * PIECE),
        ..MappingsRow::default()
    });
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut ts = 1_000_000;
    let mut walked = [0_u64, PIECES / 2 * 512];
    for fault in 0..seconds * PER_SECOND {
        ts += rng.random_range(500..1500);
        let which = (fault & 1) as usize;
        let (task, addr) = if rng.random_range(0..20) == 0 {
            (2, BASE + rng.random_range(0..PIECES * PIECE))
        } else {
            let at = walked[which] % (PIECES * 512);
            walked[which] += 1;
            (which as u32, BASE + at / 512 * PIECE + (511 - at % 512) * 4096)
        };
        let row = writer.faults_mut();
        row.ts.push(ts);
        row.task_id.push(task);
        row.mm_id.push(1);
        row.addr.push(addr);
        row.ip.push(0x40_0000 + u64::from(task) * 64);
        row.error_code.push(Some(6));
        if fault % PER_SECOND == PER_SECOND - 1 {
            writer.flush(ts).expect("flush");
        }
    }
    writer.set_witnesses(Arc::new(Makers));
    writer.close(|_| ()).expect("close");
}

/// From the whole to a window of at most a thousand faults, each an eighth of the one before in time and in height.
fn zoom(recording: &Recording, field: &FaultField) {
    let whole = field.whole(1000, 400);
    let (mut window, mut steps) = (whole, 0);
    loop {
        let began = Instant::now();
        let seen = field.see(recording, &window).expect("a picture");
        let ms = began.elapsed().as_secs_f64() * 1e3;
        let span_ms = (window.to_ns - window.from_ns) as f64 / 1e6;
        println!(
            "step {steps}: {span_ms:.3} ms, {:.1} slots: {} faults, {} cells, {ms:.0} ms",
            window.high - window.low,
            seen.faults,
            seen.cells.len()
        );
        if seen.faults <= POINTS as u64 {
            assert_eq!(seen.points.map(|points| points.len() as u64), Some(seen.faults));
            return;
        }
        steps += 1;
        let third = (window.to_ns - window.from_ns) / 3;
        let up = (window.high - window.low) / 20.0;
        window = Window {
            from_ns: window.from_ns + third,
            to_ns: window.from_ns + third + third * 3 / 8,
            low: window.low + up,
            high: window.high - up,
            ..whole
        };
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let seconds = words.first().and_then(|word| word.parse().ok()).unwrap_or(60);
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let dir = words.get(1).map_or_else(|| tmp.path().join("r"), PathBuf::from);
    if !dir.exists() {
        let began = Instant::now();
        make(&dir, seconds);
        println!("made in {:.1} s", began.elapsed().as_secs_f64());
    }
    let recording = Recording::open(&dir).expect("a recording");
    let began = Instant::now();
    let field = FaultField::of(&recording, &mut Vec::new()).expect("it can be read").expect("it has faults");
    println!("{} faults in {} slots read in {:.2} s", field.faults(), field.height(), began.elapsed().as_secs_f64());
    zoom(&recording, &field);
}
