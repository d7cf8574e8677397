//! Classes of mappings, from faults that fall close together: whose a fault is depends on the exact place and on what is
//! mapped there at that time. The search remembers the last answer for each slot, and must not when it no longer holds.

use std::path::Path;

use pagelab_recording::tables::{FaultsRow, MappingsRow, TasksRow};
use pagelab_recording::{Manifest, RecordingWriter, WriterOptions};
use pagelab_views::mappings::{MappingProfile, ProfileOptions};

const BASE: u64 = 0x7f00_0000_0000;
const HALF: u64 = 1 << 20;
const PAGE: u64 = 4096;

fn mapping(ts: i64, op: &'static str, start: u64) -> MappingsRow<'static> {
    let row = MappingsRow { ts, task_id: 1, mm_id: 1, op, kind: "call", len: Some(HALF), ..MappingsRow::default() };
    MappingsRow { addr: Some(start), ret: Some(if op == "mmap" { start as i64 } else { 0 }), ..row }
}

fn file(ts: i64, id: u32, start: u64, path: &'static [u8]) -> MappingsRow<'static> {
    let row = MappingsRow { mapping_id: Some(id), prot: Some(1), flags: Some(2), ..mapping(ts, "mmap", start) };
    MappingsRow { path: Some(path), offset: Some(0), dev: Some(8), ino: Some(u64::from(id)), ..row }
}

/// Faults on pages `from` to `to` of both halves of the slot in turns.
fn faults(writer: &mut RecordingWriter, ts: i64, from: u64, to: u64) {
    for (at, page) in (from..to).enumerate() {
        for (half, start) in [BASE, BASE + HALF].into_iter().enumerate() {
            let ts = ts + at as i64 * 2 + half as i64;
            let row = FaultsRow {
                ts,
                task_id: 1,
                mm_id: 1,
                addr: start + page * PAGE,
                ip: 0x40_0000,
                ..FaultsRow::default()
            };
            writer.push_faults(&FaultsRow { error_code: Some(4), ..row });
        }
    }
}

/// A recording with one task.
fn begin(dir: &Path) -> RecordingWriter {
    let manifest = Manifest { arch: Some("x86_64".to_owned()), page_size_bytes: Some(PAGE), ..Manifest::default() };
    let mut writer = RecordingWriter::create(dir, manifest, WriterOptions::default()).expect("a recording");
    let task = TasksRow { ts: 1, op: "fork", task_id: 1, pid: 10, tid: 10, mm_id: Some(1), ..TasksRow::default() };
    writer.push_tasks(&TasksRow { comm: Some("worker"), ..task });
    writer
}

fn record(dir: &Path) {
    let mut writer = begin(dir);
    writer.push_mappings(&file(10, 1, BASE, b"/first"));
    let anonymous =
        MappingsRow { mapping_id: Some(2), prot: Some(3), flags: Some(0x22), ..mapping(11, "mmap", BASE + HALF) };
    writer.push_mappings(&anonymous);
    faults(&mut writer, 100, 0, 30);
    // Another file takes the place of the first one.
    writer.push_mappings(&mapping(1000, "munmap", BASE));
    writer.push_mappings(&file(1001, 3, BASE, b"/second"));
    faults(&mut writer, 2000, 30, 50);
    writer.close(|_| {}).expect("closed");
}

#[test]
fn faults_of_one_slot_go_to_the_mappings_they_fall_on() {
    let tmp = tempfile::tempdir().expect("a folder");
    let dir = tmp.path().join("recording");
    record(&dir);
    let profile = MappingProfile::load(&dir, &ProfileOptions::default()).expect("read").expect("a profile");
    let of = |path: Option<&str>| {
        let classes = profile.classes.iter().filter(|class| class.key.path.as_deref() == path);
        classes.map(|class| (class.mappings, class.faults)).collect::<Vec<_>>()
    };
    assert_eq!(of(Some("/first")), [(1, 30)]);
    assert_eq!(of(Some("/second")), [(1, 20)]);
    assert_eq!(of(None), [(1, 50)]);
}

/// Chunks of a reserved address space that begin off a slot, each given back by a map that nobody may use: the slots that its merging with
/// the rest makes whole again are none of theirs.
#[test]
fn what_is_given_back_holds_no_slot() {
    const CHUNK: u64 = 4 * HALF;
    let tmp = tempfile::tempdir().expect("a folder");
    let dir = tmp.path().join("recording");
    let mut writer = begin(&dir);
    let anonymous = |ts, id, start, len, prot, flags| MappingsRow {
        mapping_id: Some(id),
        len: Some(len),
        prot: Some(prot),
        flags: Some(flags),
        ..mapping(ts, "mmap", start)
    };
    writer.push_mappings(&anonymous(10, 1, BASE, 16 * CHUNK, 0, 0x4022));
    for i in 0..5 {
        let (ts, id) = (20 + 10 * i64::from(i), 2 + 2 * i);
        let start = BASE + u64::from(i) * 3 * CHUNK + HALF;
        writer.push_mappings(&anonymous(ts, id, start, CHUNK, 3, 0x32));
        writer.push_mappings(&anonymous(ts + 5, id + 1, start, CHUNK, 0, 0x4032));
    }
    faults(&mut writer, 21, 0, 1);
    writer.close(|_| {}).expect("closed");
    let profile = MappingProfile::load(&dir, &ProfileOptions::default()).expect("read").expect("a profile");
    let chunks = profile.classes.iter().find(|class| class.key.size_bytes == CHUNK).expect("the chunks");
    assert_eq!((chunks.mappings, chunks.slots_if_aligned, chunks.eligible_slots), (5, 10, 5));
}

/// Memory that was moved and made longer is named by where it is and how long it is then.
#[test]
fn moved_memory_is_as_long_as_it_was_made() {
    let tmp = tempfile::tempdir().expect("a folder");
    let dir = tmp.path().join("recording");
    let mut writer = begin(&dir);
    writer.push_mappings(&MappingsRow {
        mapping_id: Some(1),
        prot: Some(3),
        flags: Some(0x22),
        ..mapping(10, "mmap", BASE)
    });
    let new = BASE + 64 * HALF;
    let moved = MappingsRow { op: "mremap", addr: None, len: Some(3 * HALF), ..mapping(20, "mmap", new) };
    let moved = MappingsRow { old_addr: Some(BASE), old_len: Some(HALF), flags: Some(1), mapping_id: Some(2), ..moved };
    writer.push_mappings(&moved);
    faults(&mut writer, 100, 64 * HALF / PAGE, 64 * HALF / PAGE + 8);
    writer.close(|_| {}).expect("closed");
    let profile = MappingProfile::load(&dir, &ProfileOptions::default()).expect("read").expect("a profile");
    let examples = profile.classes.iter().filter_map(|class| class.example.as_ref());
    let found: Vec<_> = examples.map(|example| (example.start, example.len, example.faults)).collect();
    assert_eq!(found, [(new, 3 * HALF, 16)]);
}
