//! The part of the fixture that is about the machine: counters, disks, DAX, page sizes.

use pagelab_recording::tables::{BlockIosRow, CountersRow, DaxFaultsRow, FilesRow, RegionPagesRow};
use pagelab_recording::{Manifest, RecordingWriter};
use serde_json::json;

use super::{SECOND, START};

/// Events in each of the fixture's three seconds.
pub(crate) const PAGE_FAULTS_PER_SECOND: u64 = 400;
/// Why the fixture has no cache events.
pub(crate) const NOT_SUPPORTED: &str = "not supported: the machine says so";

/// What is only known at the end.
pub(crate) fn last(manifest: &mut Manifest) {
    let names = ["LLC-loads", "LLC-load-misses"];
    let reasons: serde_json::Map<_, _> = names.iter().map(|name| ((*name).to_owned(), NOT_SUPPORTED.into())).collect();
    manifest.extra.insert("counters".to_owned(), json!({"not_counted": reasons}));
}

/// Writes the rows.
pub(crate) fn write(writer: &mut RecordingWriter) {
    counters(writer);
    block(writer);
    dax(writer);
    regions(writer);
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

/// Reads of the first disk, all by the parent; 4 KiB each.
pub(crate) const READS: u64 = 100;
/// Writes to it by nobody in particular, 64 KiB each, two pieces merged into each.
pub(crate) const WRITES: u64 = 10;
/// 254:0, as `st_dev` has it.
const DISK: u64 = 254 << 8;

/// Reads take 1, 2, 3 ... us in the device after 500 ns in the queue; one write fails, one flush never completes.
fn block(writer: &mut RecordingWriter) {
    for i in 0..READS {
        writer.push(&BlockIosRow {
            ts: START + i as i64 * SECOND / 100,
            dur: Some((i as i64 + 1) * 1000),
            queue_ns: Some(500),
            task_id: Some(1),
            dev: DISK,
            sector: i * 8,
            bytes: 4096,
            op: "read",
            merged: Some(0),
            status: Some(0),
            device: Some("vda"),
        });
    }
    let write = BlockIosRow { dev: DISK, op: "write", bytes: 64 << 10, merged: Some(2), ..BlockIosRow::default() };
    for i in 0..WRITES {
        let status = Some(if i == 3 { -5 } else { 0 });
        let ts = START + SECOND + i as i64;
        writer.push(&BlockIosRow { ts, dur: Some(2_000_000), queue_ns: Some(10_000), status, ..write });
    }
    let flush = BlockIosRow { op: "flush", bytes: 0, merged: Some(0), ts: START + 2 * SECOND, ..write };
    writer.push(&flush);
}

/// Slots of a DAX file that were mapped as a whole, and that were not.
pub(crate) const HUGE_SLOTS: u64 = 6;
pub(crate) const SMALL_SLOTS: u64 = 3;
/// Its path.
pub(crate) const DAX_FILE: &str = "/mnt/pmem/data";

/// Every fallback is said twice, and followed by two faults on pages.
fn dax(writer: &mut RecordingWriter) {
    let (dev, ino) = (259 << 8, 12);
    let path = Some(DAX_FILE.as_bytes());
    writer.push(&FilesRow { ts: START, file_id: 1, dev, ino, path, ..FilesRow::default() });
    let fault = |slot: u64, kind, outcome, result| DaxFaultsRow {
        ts: START + SECOND + slot as i64,
        task_id: 1,
        kind,
        dev,
        ino,
        addr: 0x7000_0000_0000 + (slot << 21),
        vm_start: 0x7000_0000_0000,
        vm_end: 0x7000_4000_0000,
        pgoff: slot * 512,
        result,
        outcome: Some(outcome),
        ..DaxFaultsRow::default()
    };
    for slot in 0..HUGE_SLOTS {
        writer.push(&fault(slot, "pmd", "NOPAGE", 0x100));
    }
    for slot in HUGE_SLOTS..HUGE_SLOTS + SMALL_SLOTS {
        for _ in 0..2 {
            let reason = Some("leaves_mapping");
            writer.push(&DaxFaultsRow { reason, ..fault(slot, "pmd", "FALLBACK", 0x800) });
        }
        for page in [0, 7] {
            writer.push(&DaxFaultsRow { pgoff: slot * 512 + page, ..fault(slot, "pte", "NOPAGE", 0x100) });
        }
    }
    // Other file, other task: one slot, touched by a page and then as a whole.
    let other = DaxFaultsRow { ino: 13, task_id: 2, ..fault(0, "pte", "NOPAGE", 0x100) };
    writer.push(&other);
    writer.push(&DaxFaultsRow { kind: "pmd", ..other });
}

/// Bytes in small and in huge pages at the last look at the parent, and in small ones at the child.
pub(crate) const SMALL_BYTES: u64 = 3 << 20;
pub(crate) const HUGE_BYTES: u64 = 6 << 20;
pub(crate) const CHILD_BYTES: u64 = 1 << 20;

/// The parent is looked at twice. It asked for huge pages in one region and got them in a part, and touched nothing
/// of another.
fn regions(writer: &mut RecordingWriter) {
    let (at, end) = (super::PARENT_AT, super::PARENT_AT + (16 << 20));
    let parent = |ts, page_size_bytes, bytes, reason| RegionPagesRow {
        ts,
        mm_id: 1,
        start: at,
        end,
        page_size_bytes,
        bytes,
        asked: Some("madvise"),
        reason,
        ..RegionPagesRow::default()
    };
    writer.push(&parent(START + SECOND / 2, 4096, 15 << 20, Some("thp_never")));
    let ts = START + SECOND;
    writer.push(&parent(ts, 4096, SMALL_BYTES, Some("unknown")));
    writer.push(&parent(ts, 2 << 20, HUGE_BYTES, None));
    let untouched = RegionPagesRow { start: end, end: end + (4 << 20), ..parent(ts, 4096, 0, Some("not_touched")) };
    writer.push(&untouched);
    let path = Some(&b"/lib/libx.so"[..]);
    let (mm_id, asked) = (2, None);
    writer.push(&RegionPagesRow { mm_id, path, asked, ..parent(ts + 7, 4096, CHILD_BYTES, None) });
}
