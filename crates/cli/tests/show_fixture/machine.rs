//! The part of the fixture that is about the machine: counters, disks, DAX, page sizes.

use pagelab_recording::tables::CountersRow;
use pagelab_recording::{Manifest, RecordingWriter};
use serde_json::json;

use super::{SECOND, START};

/// Events in each of the fixture's three seconds.
pub const PAGE_FAULTS_PER_SECOND: u64 = 400;
/// Why the fixture has no cache events.
pub const NOT_SUPPORTED: &str = "not supported: the machine says so";

/// What is only known at the end.
pub fn last(manifest: &mut Manifest) {
    let names = ["LLC-loads", "LLC-load-misses"];
    let reasons: serde_json::Map<_, _> = names.iter().map(|name| ((*name).to_owned(), NOT_SUPPORTED.into())).collect();
    manifest.extra.insert("counters".to_owned(), json!({"not_counted": reasons}));
}

/// Writes the rows.
pub fn write(writer: &mut RecordingWriter) {
    counters(writer);
}

/// Software events are counted all the time, cycles and instructions half of it, branch misses never.
fn counters(writer: &mut RecordingWriter) {
    for second in 0..=3_i64 {
        let ts = START + second * SECOND;
        let elapsed = second as u64;
        let row = |name, value, running_ns, group_id| CountersRow {
            ts,
            name,
            value: Some(value),
            enabled_ns: Some(elapsed * 900_000_000),
            running_ns: Some(running_ns),
            group_id: Some(group_id),
            ..CountersRow::default()
        };
        let (whole, half) = (elapsed * 900_000_000, elapsed * 450_000_000);
        writer.push(&row("task-clock", whole, whole, 1));
        writer.push(&row("page-faults", elapsed * PAGE_FAULTS_PER_SECOND, whole, 1));
        writer.push(&row("cycles", elapsed * 1_000_000, half, 2));
        writer.push(&row("instructions", elapsed * 2_500_000, half, 2));
        writer.push(&row("branches", elapsed * 400_000, whole - half, 3));
        writer.push(&row("branch-misses", 0, 0, 4));
    }
    for name in ["LLC-loads", "LLC-load-misses"] {
        writer.push(&CountersRow { ts: START, name, ..CountersRow::default() });
    }
}
