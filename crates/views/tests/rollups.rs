//! A view made from rollups is the view made from events, and a rollup that is not what its sources say is not read.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use pagelab_recording::rollup::{Outcome, RollupRows, Witness, Witnesses};
use pagelab_recording::tables::{
    self, FaultsRow, FramesRow, LossRow, MappingsRow, MetricsRow, SamplesRow, SettingsRow, StacksRow, SyscallsRow,
    TableDef, TasksRow,
};
use pagelab_recording::{Bounds, Manifest, Measured, Recording, RecordingWriter, WriterOptions};
use pagelab_views::mappings::{MappingProfile, ProfileOptions};
use pagelab_views::rollup::{self, Makers};
use pagelab_views::run::RunData;
use pagelab_views::selection::Selection;
use pagelab_views::view;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

const SECOND: i64 = 1_000_000_000;
const BASE: u64 = 0x7f00_0000_0000;
const HUGE: u64 = 2 << 20;

/// Writes a recording; with rollups unless it is to be one of an older version.
fn record_with(dir: &Path, manifest: Manifest, with: Option<Arc<dyn Witnesses>>, fill: fn(&mut RecordingWriter)) {
    let mut writer = RecordingWriter::create(dir, manifest, WriterOptions::default()).unwrap();
    if let Some(witnesses) = with {
        writer.set_witnesses(witnesses);
    }
    fill(&mut writer);
    writer.close(|_| {}).unwrap();
}

fn record(dir: &Path, manifest: Manifest, fill: fn(&mut RecordingWriter)) {
    record_with(dir, manifest, Some(Arc::new(Makers)), fill);
}

fn manifest() -> Manifest {
    Manifest { arch: Some("x86_64".to_owned()), page_size_bytes: Some(4096), ..Manifest::default() }
}

/// With a measured time from the second to the third second.
fn measured() -> Manifest {
    let measured = Measured { start_ns: Some(SECOND), end_ns: Some(2 * SECOND), ..Measured::default() };
    Manifest { measured: Some(Measured { operations: Some(1000), ..measured }), ..manifest() }
}

fn task(writer: &mut RecordingWriter, ts: i64, op: &'static str, task_id: u32, comm: &'static str) {
    let (pid, tid) = (100 + task_id as i32, 100 + task_id as i32);
    let row = TasksRow { ts, op, task_id, pid, tid, mm_id: Some(task_id), comm: Some(comm), ..TasksRow::default() };
    writer.push_tasks(&row);
}

fn mapping(ts: i64, mm_id: u32, mapping_id: u32, kind: &'static str) -> MappingsRow<'static> {
    let row = MappingsRow { ts, task_id: mm_id, mm_id, mapping_id: Some(mapping_id), ..MappingsRow::default() };
    MappingsRow { op: "mmap", kind, ..row }
}

fn map(writer: &mut RecordingWriter, ts: i64, mm_id: u32, mapping_id: u32, start: u64, len: u64) {
    writer.push_mappings(&MappingsRow {
        addr: Some(0),
        len: Some(len),
        prot: Some(3),
        flags: Some(0x22),
        ret: Some(start as i64),
        ..mapping(ts, mm_id, mapping_id, "call")
    });
}

fn code(writer: &mut RecordingWriter, ts: i64, mm_id: u32, mapping_id: u32, start: u64, path: &'static [u8]) {
    writer.push_mappings(&MappingsRow {
        addr: Some(start),
        len: Some(1 << 20),
        prot: Some(5),
        flags: Some(2),
        offset: Some(0x1000),
        dev: Some(8),
        ino: Some(u64::from(path.len() as u32)),
        path: Some(path),
        ..mapping(ts, mm_id, mapping_id, "kernel")
    });
}

fn fault(ts: i64, mm_id: u32, addr: u64) -> FaultsRow<'static> {
    FaultsRow { ts, task_id: mm_id, mm_id, addr, ip: 0x40_0010, error_code: Some(6), ..FaultsRow::default() }
}

fn settings(writer: &mut RecordingWriter) {
    for (key, value) in [("thp.hpage_pmd_size", "2097152"), ("mount./mnt/huge.fs", "hugetlbfs")] {
        writer.push_settings(&SettingsRow { ts: 0, key, value: Some(value), source: "test", at: "start" });
    }
}

fn begin(writer: &mut RecordingWriter) {
    settings(writer);
    task(writer, 1, "fork", 1, "worker");
    code(writer, 2, 1, 1, 0x40_0000, b"/bin/worker");
    map(writer, 3, 1, 2, BASE, 64 * HUGE);
}

fn ascending(writer: &mut RecordingWriter) {
    begin(writer);
    for i in 0..20_000 {
        writer.push_faults(&fault(SECOND / 2 + i * 100_000, 1, BASE + i as u64 * 4096));
    }
}

fn descending(writer: &mut RecordingWriter) {
    begin(writer);
    for i in 0..20_000 {
        writer.push_faults(&fault(10 + i * 1000, 1, BASE + 60 * HUGE - i as u64 * 4096));
        if i % 5000 == 0 {
            writer.flush(10 + i * 1000).unwrap();
        }
    }
}

/// Random addresses, some of them mapped by nothing; instructions of user, kernel and nobody; all sorts of ends.
fn random(writer: &mut RecordingWriter) {
    begin(writer);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let ends = ["new", "zero", "cow", "huge_new"];
    for i in 0..30_000_i64 {
        let addr = BASE + rng.random_range(0..80 * HUGE);
        let ip = match rng.random_range(0..4) {
            0 => 0xffff_ffff_8100_0000 + rng.random_range(0..64),
            1 => 0x9000_0000,
            _ => 0x40_0000 + rng.random_range(0..2000),
        };
        let looked_at = rng.random_range(0..3) == 0;
        writer.push_faults(&FaultsRow {
            ip,
            error_code: Some([4, 6, 7, 20, 2][rng.random_range(0..5)]),
            major: looked_at.then_some(i % 7 == 0),
            dur: looked_at.then(|| rng.random_range(100..100_000)),
            got: (looked_at && i % 11 != 0).then(|| ends[rng.random_range(0..4)]),
            ..fault(i * 100_000, 1, addr)
        });
    }
    writer.push_loss(&LossRow { ts: SECOND, stream: "faults", seen: 30_100, lost: 100, ..LossRow::default() });
}

/// Tasks that fork and exec, heaps that grow, memory that moves, is advised, unmapped and mapped again.
fn forks_and_moves(writer: &mut RecordingWriter) {
    begin(writer);
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut ts = 100;
    for child in 2..12_u32 {
        let id = child * 10;
        task(writer, ts, "fork", child, "worker");
        code(writer, ts + 1, child, id, 0x40_0000, b"/bin/worker");
        if child % 2 == 0 {
            task(writer, ts + 2, "exec", child, "other");
            code(writer, ts + 3, child, id + 1, 0x50_0000, b"/bin/other\xff");
        }
        let call = MappingsRow { task_id: child, mm_id: child, kind: "call", ..MappingsRow::default() };
        map(writer, ts + 4, child, id + 2, BASE, 3 * HUGE);
        map(writer, ts + 5, child, id + 3, BASE + 3 * HUGE, HUGE / 2);
        let brk = MappingsRow { ts: ts + 6, op: "brk", mapping_id: Some(id + 4), ..call };
        writer.push_mappings(&MappingsRow { old_addr: Some(0x90_0000), ret: Some(0xa0_0000), ..brk });
        let advise = MappingsRow { ts: ts + 7, op: "madvise", addr: Some(BASE), advice: Some(14), ..call };
        writer.push_mappings(&MappingsRow { len: Some(HUGE), ret: Some(0), ..advise });
        let huge = MappingsRow { ts: ts + 8, op: "mmap", flags: Some(0x4_0022), ret: Some(-12), ..call };
        writer.push_mappings(&MappingsRow { addr: Some(0), len: Some(HUGE * u64::from(child)), ..huge });
        for i in 0..800 {
            let at = ts + 20 + i * 2_000;
            if i == 400 {
                let moved = MappingsRow { ts: at, op: "mremap", mapping_id: Some(id + 5), flags: Some(1), ..call };
                let moved = MappingsRow { old_addr: Some(BASE), old_len: Some(3 * HUGE), ..moved };
                writer.push_mappings(&MappingsRow { len: Some(4 * HUGE), ret: Some(BASE as i64 * 2), ..moved });
            }
            if i == 600 {
                let gone = MappingsRow { ts: at, op: "munmap", addr: Some(BASE + 3 * HUGE), ..call };
                writer.push_mappings(&MappingsRow { len: Some(HUGE / 4), ret: Some(0), ..gone });
            }
            let base = [BASE, BASE * 2, 0x90_0000, BASE + 3 * HUGE][rng.random_range(0..4)];
            let ip = [0x40_0020, 0x50_0020, 0x90_0000][rng.random_range(0..3)];
            let error_code = Some(if i % 9 == 0 { 7 } else { 6 });
            writer.push_faults(&FaultsRow { ip, error_code, ..fault(at, child, base + rng.random_range(0..HUGE)) });
        }
        ts += SECOND / 4;
        task(writer, ts, "exit", child, "worker");
        writer.flush(ts).unwrap();
    }
}

/// Faults without error codes, as perf events tell them, and without mappings.
fn bare_faults(writer: &mut RecordingWriter) {
    for i in 0..1000_i64 {
        let ip = if i % 3 == 0 { 0xffff_ffff_8100_0000 } else { 0x40_0000 };
        writer.push_faults(&FaultsRow { error_code: None, ip, ..fault(i * 3_000_000, 1, BASE + i as u64 * 4096) });
    }
}

/// Calls of two tasks, one of which changes its name; errors, calls that never returned, few and many of a name.
fn calls(writer: &mut RecordingWriter) {
    begin(writer);
    task(writer, 4, "fork", 2, "second");
    task(writer, SECOND, "comm", 2, "renamed");
    let names = ["read", "write", "futex", "openat"];
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for i in 0..20_000_i64 {
        let name = if i < 30 { "close" } else { names[rng.random_range(0..4)] };
        let returned = rng.random_range(0..500) != 0;
        writer.push_syscalls(&SyscallsRow {
            ts: 10 + i * 100_000,
            dur: returned.then(|| rng.random_range(100..5_000_i64) << rng.random_range(0..20)),
            task_id: rng.random_range(1..4),
            name,
            file_id: (i % 3 != 0).then(|| rng.random_range(0..40)),
            ret: returned.then_some(if i % 20 == 0 { -2 } else { 64 }),
            cpu_ns: (returned && i % 4 != 0).then_some(90),
            blocked_ns: (returned && i % 8 == 1).then_some(5),
            ..SyscallsRow::default()
        });
        if i % 7000 == 0 {
            writer.flush(10 + i * 100_000).unwrap();
        }
    }
    writer.push_loss(&LossRow { ts: SECOND, stream: "syscalls", seen: 20_010, lost: 10, ..LossRow::default() });
}

/// More files than the rollup has groups of.
fn many_files(writer: &mut RecordingWriter) {
    for i in 0..2000_i64 {
        let file_id = Some(i as u32 % 700);
        let row = SyscallsRow { ts: i, dur: Some(i), task_id: 1, name: "read", file_id, ..SyscallsRow::default() };
        writer.push_syscalls(&row);
    }
}

/// Samples with both stacks, with one and with none, of tasks known and unknown, in and outside the measured time.
fn samples(writer: &mut RecordingWriter) {
    begin(writer);
    task(writer, SECOND, "comm", 1, "renamed");
    for frame in 0..60_u64 {
        let symbol = format!("function_{}", frame / 2);
        let symbol = Some(symbol.as_str()).filter(|_| frame % 7 != 0);
        let module = Some(&b"/bin/worker"[..]).filter(|_| frame % 5 != 0);
        let row = FramesRow { frame_id: frame, symbol, module, kernel: frame % 2 == 0, ..FramesRow::default() };
        writer.push_frames(&row);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for stack in 0..80 {
        let frame_ids: Vec<u64> = (0..rng.random_range(0..12)).map(|_| rng.random_range(0..62)).collect();
        writer.push_stacks(&StacksRow { stack_id: stack, frame_ids: &frame_ids });
    }
    let ends = [Some("entry"), Some("cut"), Some("broken"), None];
    for i in 0..15_000_i64 {
        writer.push_samples(&SamplesRow {
            ts: i * 200_000,
            task_id: rng.random_range(1..4),
            cpu: rng.random_range(0..3),
            event: if i % 100 == 0 { "cycles" } else { "cpu-clock" },
            kstack_id: (i % 3 == 0).then(|| rng.random_range(0..40)),
            ustack_id: (i % 4 != 0).then(|| rng.random_range(40..90)),
            weight: rng.random_range(1..2_000_000),
            ustack_end: ends[rng.random_range(0..4)].filter(|_| i % 4 != 0),
            ..SamplesRow::default()
        });
    }
}

/// One sample in each of 12 functions without a symbol: nothing but the module ranks them.
fn samples_of_equal_weight(writer: &mut RecordingWriter) {
    begin(writer);
    for frame in 0..12_u64 {
        let module = format!("/bin/worker_{frame}");
        let module = Some(module.as_bytes());
        writer.push_frames(&FramesRow { frame_id: frame, module, ..FramesRow::default() });
        writer.push_stacks(&StacksRow { stack_id: 100 - frame, frame_ids: &[frame] });
        writer.push_samples(&SamplesRow {
            ts: frame as i64,
            task_id: 1,
            event: "cpu-clock",
            ustack_id: Some(100 - frame),
            weight: 1_000_000,
            ..SamplesRow::default()
        });
    }
}

fn empty(writer: &mut RecordingWriter) {
    writer.push_metrics(&MetricsRow { ts: 1, name: "vmstat.x", instance: None, value: Some(1.0) });
}

type Workload = (&'static str, fn() -> Manifest, fn(&mut RecordingWriter));

const WORKLOADS: [Workload; 13] = [
    ("ascending", measured, ascending),
    ("descending", manifest, descending),
    ("random", measured, random),
    ("random, no measured time", manifest, random),
    ("forks and moves", measured, forks_and_moves),
    ("bare faults", measured, bare_faults),
    ("bare faults, no measured time", Manifest::default, bare_faults),
    ("calls", measured, calls),
    ("many files", manifest, many_files),
    ("samples", measured, samples),
    ("samples, no measured time", manifest, samples),
    ("samples of equal weight", manifest, samples_of_equal_weight),
    ("empty", manifest, empty),
];

fn selections() -> Vec<Selection> {
    let by = |by: &str| Selection { by: Some(by.to_owned()), top: Some(0), ..Selection::default() };
    let mut all = vec![Selection::default(), by("name"), by("task"), by("comm"), by("file")];
    all.push(Selection { pid: Some(101), ..Selection::default() });
    all.push(Selection { file: Some("/bin/worker".into()), ..Selection::default() });
    all
}

/// Everything that is made from rollups, as one document.
fn answers(dir: &Path) -> Value {
    let recording = Recording::open(dir).unwrap();
    let mut out = Vec::new();
    for selection in selections() {
        let faults = view::faults::collect(&recording, &selection).map(|answer| answer.document().unwrap());
        let calls = view::syscalls::collect(&recording, &selection).map(|answer| answer.document().unwrap());
        let profile = view::profile::collect(&recording, &selection).map(|answer| answer.document().unwrap());
        let io = view::io::collect(&recording, &selection).map(|answer| answer.document().unwrap());
        for document in [faults, calls, profile, io] {
            out.push(document.unwrap_or_else(|error| json!(error.to_string())));
        }
    }
    let run = RunData::load(dir).unwrap();
    let metrics = run.metrics.iter().map(|(key, metric)| json!([key.to_string(), format!("{metric:?}")]));
    out.extend(metrics);
    out.push(json!(run.notes));
    let options = ProfileOptions::of_run(&run);
    let elsewhere = ProfileOptions { window: (SECOND, SECOND + 5), ..options.clone() };
    for options in [options, elsewhere] {
        // Without a part that is listed there is no profile: whoever shows it says so.
        let profile = MappingProfile::load(dir, &options).map(|profile| serde_json::to_value(profile).unwrap());
        out.push(profile.unwrap_or_else(|error| json!(error.to_string())));
    }
    Value::Array(out)
}

/// Whether any rollup is there for readers.
fn has_rollups(dir: &Path) -> bool {
    let recording = Recording::open(dir).unwrap();
    tables::all().iter().any(|table| table.rollup.is_some() && !recording.parts(table.name).unwrap().is_empty())
}

fn forget_rollups(dir: &Path) {
    for table in tables::all().iter().filter(|table| table.rollup.is_some()) {
        let _ = fs::remove_dir_all(dir.join(table.name));
    }
}

/// The documents name the recording's folder and nothing else that differs.
#[track_caller]
fn assert_same(name: &str, one: &Value, other: &Value) {
    let (Value::Array(one), Value::Array(other)) = (one, other) else { panic!("{name}: no lists") };
    assert_eq!(one.len(), other.len(), "{name}");
    for (number, (one, other)) in one.iter().zip(other).enumerate() {
        assert!(same(one, other), "{name}, document {number}:\n{one:#}\n{other:#}");
    }
}

/// Equal, but for floats to 1e-12.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        // Whether all files are there is another matter: a rollup that is gone is one that is not.
        (Value::Object(one), Value::Object(other)) => {
            let is_figure = |key: &str| !["complete", "incomplete_reason", "excluded"].contains(&key);
            let figures = |fields: &serde_json::Map<String, Value>| fields.keys().filter(|key| is_figure(key)).count();
            figures(one) == figures(other)
                && one
                    .iter()
                    .filter(|(key, _)| is_figure(key))
                    .all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() && other.is_f64() => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= 1e-12 * one.abs().max(other.abs())
        }
        _ => one == other,
    }
}

#[test]
fn views_from_rollups_are_views_from_events() {
    for (name, manifest, fill) in WORKLOADS {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("rec");
        record(&dir, manifest(), fill);
        let written = Manifest::load(&dir).unwrap();
        assert_eq!(written.rollups_missing, None, "{name}");
        assert_eq!(has_rollups(&dir), name != "empty", "{name}");
        let from_rollups = answers(&dir);
        // A part of the time takes nothing from rollups.
        let bounds = Bounds { from: Some("0.5".parse().unwrap()), to: None };
        let part = || {
            let recording = Recording::open(&dir).unwrap();
            let span = bounds.of(&recording).unwrap();
            let answer = view::faults::collect(&recording.within(span), &Selection::default()).unwrap();
            answer.document().unwrap()
        };
        let part_with = part();
        forget_rollups(&dir);
        assert!(!has_rollups(&dir), "{name}");
        assert_same(name, &from_rollups, &answers(&dir));
        assert!(same(&part_with, &part()), "{name}");
        // Made anew they say the same once more.
        let Outcome::Written(tables) = rollup::write(&dir).unwrap() else { panic!("{name}: not written") };
        assert!(tables.len() >= 11, "{name}: {tables:?}");
        assert_eq!(has_rollups(&dir), name != "empty", "{name}");
        assert_same(name, &from_rollups, &answers(&dir));
    }
}

#[test]
fn rollups_written_later_are_those_written_at_the_end() {
    let tmp = tempfile::tempdir().unwrap();
    let (dir, old) = (tmp.path().join("rec"), tmp.path().join("old"));
    record(&dir, measured(), forks_and_moves);
    record_with(&old, measured(), None, forks_and_moves);
    assert!(!has_rollups(&old) && Manifest::load(&old).unwrap().rollups.is_empty());
    rollup::write(&old).unwrap();
    let mut compared = 0;
    for table in tables::all().iter().filter(|table| table.rollup.is_some()) {
        let parts = [&dir, &old].map(|dir| Recording::open(dir).unwrap().parts(table.name).unwrap());
        let bytes = parts.map(|parts| parts.iter().map(|part| fs::read(part).unwrap()).collect::<Vec<_>>());
        assert!(bytes[0] == bytes[1], "{}", table.name);
        compared += bytes[0].len();
    }
    assert!(compared >= 7, "{compared} rollups were compared");
}

/// Calls `change` on a recording with rollups, of which none may be read then.
#[track_caller]
fn unusable_after(change: impl FnOnce(&Path)) {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    record(&dir, measured(), ascending);
    assert!(has_rollups(&dir));
    change(&dir);
    assert!(!has_rollups(&dir), "it is still there for readers");
    let answer = answers(&dir);
    forget_rollups(&dir);
    assert_same("changed", &answer, &answers(&dir));
}

fn change_manifest(dir: &Path, change: impl FnOnce(&mut Manifest)) {
    let mut manifest = Manifest::load(dir).unwrap();
    change(&mut manifest);
    manifest.rewrite(dir).unwrap();
}

#[test]
fn a_rollup_of_other_sources_or_of_another_version_is_not_read() {
    unusable_after(|dir| fs::remove_file(dir.join("faults/part-0000.parquet")).unwrap());
    unusable_after(|dir| fs::remove_file(dir.join("mappings/part-0000.parquet")).unwrap());
    unusable_after(|dir| {
        let part = dir.join("faults/part-0000.parquet");
        fs::copy(&part, dir.join("faults/part-0001.parquet")).unwrap();
    });
    unusable_after(|dir| {
        let other = dir.with_file_name("other");
        record_with(&other, measured(), None, descending);
        fs::copy(other.join("faults/part-0000.parquet"), dir.join("faults/part-0000.parquet")).unwrap();
    });
    unusable_after(|dir| {
        change_manifest(dir, |manifest| manifest.rollups.values_mut().for_each(|written| written.version += 1));
    });
    unusable_after(|dir| change_manifest(dir, |manifest| manifest.complete = false));
    unusable_after(|dir| change_manifest(dir, |manifest| manifest.page_size_bytes = Some(16384)));
    unusable_after(|dir| change_manifest(dir, |manifest| manifest.measured = None));
    unusable_after(|dir| change_manifest(dir, |manifest| manifest.rollups.clear()));
}

#[test]
fn damaged_rollups_leave_the_view_to_the_events() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    record(&dir, measured(), random);
    let whole = answers(&dir);
    for table in ["rollup_faults", "rollup_fault_ips", "rollup_mapping_classes"] {
        let part = dir.join(table).join("part-0000.parquet");
        let good = fs::read(&part).unwrap();
        let mut bad = good.clone();
        bad[10] ^= 0xff;
        fs::write(&part, &bad).unwrap();
        assert_same(table, &whole, &answers(&dir));
        fs::remove_file(&part).unwrap();
        assert_same(table, &whole, &answers(&dir));
        fs::write(&part, good).unwrap();
    }
    // Damage of rollups does not keep them from being made anew.
    fs::write(dir.join("rollup_faults/part-0000.parquet"), b"nothing").unwrap();
    assert!(matches!(rollup::write(&dir).unwrap(), Outcome::Written(_)));
    assert_same("made anew", &whole, &answers(&dir));
}

/// The rollup counts the faults of the recording's measured time. One that was asked for with another time is the same where no fault
/// lies between.
#[test]
fn a_profile_of_another_time_is_that_of_the_rollup_where_both_times_hold_all_faults() {
    let (first, last) = (SECOND / 2, SECOND / 2 + 19_999 * 100_000);
    let windows = [
        (first, last),
        (i64::MIN, last),
        (first, i64::MAX),
        (first + 1, last),
        (first, last - 1),
        (SECOND, SECOND + 5),
        (SECOND, 2 * SECOND),
    ];
    for manifest in [manifest, measured] {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("rec");
        record(&dir, manifest(), ascending);
        let of_recording = ProfileOptions::of_recording(&Recording::open(&dir).unwrap(), &mut Vec::new()).unwrap();
        let profile = |window| {
            let options = ProfileOptions { window, ..of_recording.clone() };
            MappingProfile::load(&dir, &options).unwrap().unwrap()
        };
        let from_rollup = windows.map(profile);
        assert_eq!(from_rollup[0].window_faults - from_rollup[3].window_faults, 1, "the first fault");
        // Events that cannot be read show where the profile is from.
        let part = dir.join("faults/part-0000.parquet");
        let good = fs::read(&part).unwrap();
        let mut bad = good.clone();
        bad[100] ^= 0xff;
        fs::write(&part, &bad).unwrap();
        let is_from_rollup = windows.map(|window| profile(window).faults == 20_000);
        let whole = of_recording.window == (i64::MIN, i64::MAX);
        assert_eq!(is_from_rollup, [whole, whole, whole, false, false, false, !whole]);
        fs::write(&part, &good).unwrap();
        forget_rollups(&dir);
        assert_eq!(windows.map(profile), from_rollup);
    }
}

#[test]
fn nothing_is_written_to_what_is_incomplete_or_damaged() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    record_with(&dir, measured(), None, ascending);
    change_manifest(&dir, |manifest| manifest.complete = false);
    assert!(matches!(rollup::write(&dir).unwrap(), Outcome::Left(reason) if reason.contains("not complete")));
    change_manifest(&dir, |manifest| manifest.complete = true);
    let part = dir.join("faults/part-0000.parquet");
    let mut bytes = fs::read(&part).unwrap();
    bytes[100] ^= 0xff;
    fs::write(&part, bytes).unwrap();
    assert!(matches!(rollup::write(&dir).unwrap(), Outcome::Left(reason) if reason.contains("part-0000")));
    assert!(Manifest::load(&dir).unwrap().rollups.is_empty() && !dir.join("rollup_faults").exists());
}

/// Fails in one of the ways in which making rollups can.
struct Failing(&'static str);

impl Witnesses for Failing {
    fn of(&self, _: &Recording, _: &'static TableDef) -> Result<Option<Box<dyn Witness>>, String> {
        if self.0 == "at the start" { Err("it cannot begin".to_owned()) } else { Ok(Some(Box::new(Failing(self.0)))) }
    }
}

impl Witness for Failing {
    fn batch(&mut self, _: &arrow::array::RecordBatch) -> Result<(), String> {
        match self.0 {
            "by panic" => panic!("as the test wants it"),
            "on the way" => Err("it cannot go on".to_owned()),
            _ => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> Result<Vec<RollupRows>, String> {
        Err("it cannot end".to_owned())
    }
}

#[test]
fn a_recording_is_closed_although_rollups_fail() {
    for (way, said) in
        [("at the start", "begin"), ("on the way", "go on"), ("at the end", "end"), ("by panic", "panicked")]
    {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("rec");
        record_with(&dir, measured(), Some(Arc::new(Failing(way))), random);
        let manifest = Manifest::load(&dir).unwrap();
        assert!(manifest.complete && manifest.rollups.is_empty(), "{way}");
        assert!(manifest.rollups_missing.unwrap().contains(said), "{way}");
        assert_eq!(Recording::open(&dir).unwrap().rows("faults").unwrap(), 30_000, "{way}");
    }
}
