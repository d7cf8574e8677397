//! A recording of which every sum is known, written with the real writer.
//!
//! A process `cache` (pid 100) maps 4 MiB, touches it page by page from the top down by way of code in `libx.so`, and
//! forks a child (pid 101) that has the library at another address, maps memory of its own and touches it upwards. One
//! fault hits nothing, some are the kernel's.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

pub(crate) mod machine;

use std::path::Path;

use pagelab_recording::tables::{FaultsRow, LatencyRow, LossRow, MappingsRow, MetricsRow, SettingsRow, TasksRow};
use pagelab_recording::{Clock, Exit, Manifest, Probe, ProbeState, RecordingWriter, SelfCost, WriterOptions};
use serde_json::json;

/// Begin of the recording, on its clock.
pub(crate) const START: i64 = 1_000_000_000_000;
pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const PAGE: u64 = 4096;

/// Where the parent's memory is, and how many pages of it are touched.
pub(crate) const PARENT_AT: u64 = 0x7f00_0000_0000;
pub(crate) const PARENT_PAGES: u64 = 1024;
const CHILD_AT: u64 = 0x7e00_0000_0000;
pub(crate) const CHILD_PAGES: u64 = 96;
const LIBRARY_IN_PARENT: u64 = 0x7d00_0000_0000;
const LIBRARY_IN_CHILD: u64 = 0x7c00_0000_0000;
/// Faults on pages that are there (copy on write) in the library's data, by the kernel in the child.
pub(crate) const KERNEL_FAULTS: u64 = 7;
/// All faults; one is on nothing.
pub(crate) const FAULTS: u64 = PARENT_PAGES + CHILD_PAGES + KERNEL_FAULTS + 1;

/// A path that is no UTF-8 and would clear the terminal.
pub(crate) const UGLY: &[u8] = b"/tmp/\x1b[2J\xff/child";

/// Rows of `mappings`.
pub(crate) const ACTIONS: u64 = 9;

fn manifest() -> Manifest {
    let probe = |name: &str, state, reason: Option<&str>, fix: Option<&str>| Probe {
        name: name.to_owned(),
        state,
        reason: reason.map(str::to_owned),
        fix: fix.map(str::to_owned),
        events_seen: (state == ProbeState::Active).then_some(FAULTS),
        events_lost: (state == ProbeState::Active).then_some(0),
        ..Probe::default()
    };
    Manifest {
        label: Some("fixture".to_owned()),
        host: Some("box".to_owned()),
        kernel: Some("6.18.0".to_owned()),
        arch: Some("x86_64".to_owned()),
        page_size_bytes: Some(PAGE),
        cpus: Some(2),
        clock: Clock {
            id: "CLOCK_MONOTONIC".to_owned(),
            start_ns: START,
            realtime_at_start_ns: Some(1_700_000_000 * SECOND),
            ..Clock::default()
        },
        command: Some(vec!["cache".to_owned(), "--size".to_owned(), "4M".to_owned()]),
        probes: vec![
            probe("faults", ProbeState::Active, None, None),
            probe("dax", ProbeState::Refused, Some("the kernel has no fs_dax tracepoints"), Some("pagelab lab up")),
        ],
        ..Manifest::default()
    }
}

/// The manifest's final values.
pub(crate) fn last(manifest: &mut Manifest) {
    manifest.clock.realtime_at_end_ns = Some(1_700_000_003 * SECOND);
    manifest.exit = Some(Exit { code: Some(0), ..Exit::default() });
    manifest.self_cost = SelfCost { cpu_ns: Some(1_500_000), bytes_written: Some(4096), ..SelfCost::default() };
    let window = json!({"start_ns": START, "end_ns": START + 2 * SECOND, "operations": 100.0, "source": "load"});
    manifest.extra.insert("measured".to_owned(), window);
    machine::last(manifest);
    manifest
        .extra
        .insert("rusage".to_owned(), json!({"minor_faults": 1200, "utime_ns": 5_000_000, "max_rss_bytes": null}));
}

/// Starts a recording and writes every table of it.
pub(crate) fn write(dir: &Path) -> RecordingWriter {
    let mut writer = RecordingWriter::create(dir, manifest(), WriterOptions::default()).unwrap();
    tasks(&mut writer);
    mappings(&mut writer);
    faults(&mut writer);
    metrics(&mut writer);
    settings(&mut writer);
    loss(&mut writer);
    latency(&mut writer);
    machine::write(&mut writer);
    writer.flush(START + 3 * SECOND).unwrap();
    writer
}

/// A recording without a row.
pub(crate) fn write_empty(dir: &Path) {
    let writer = RecordingWriter::create(dir, Manifest::default(), WriterOptions::default()).unwrap();
    writer.close(|_| ()).unwrap();
}

fn tasks(writer: &mut RecordingWriter) {
    let row =
        TasksRow { ts: START, op: "snapshot", task_id: 1, tid: 100, pid: 100, mm_id: Some(1), ..TasksRow::default() };
    writer.push(&row);
    writer.push(&TasksRow { comm: Some("sh"), op: "comm", ts: START + 1, ..row });
    let exe = Some(&b"/usr/bin/cache"[..]);
    writer.push(&TasksRow { comm: Some("cache"), op: "exec", ts: START + 2, exe, ..row });
    let child = TasksRow {
        ts: START + SECOND,
        op: "fork",
        task_id: 2,
        tid: 101,
        pid: 101,
        parent_task_id: Some(1),
        mm_id: Some(2),
        comm: Some("cache"),
        ..TasksRow::default()
    };
    writer.push(&child);
    writer.push(&TasksRow { op: "exec", ts: START + SECOND + 1, comm: Some("child"), exe: Some(UGLY), ..child });
    writer.push(&TasksRow { task_id: 3, tid: 102, pid: 100, mm_id: Some(1), parent_task_id: Some(1), ..child });
    let ended = |row: TasksRow<'static>, ts, exit_code, min_flt| TasksRow {
        ts,
        op: "exit",
        exit_code: Some(exit_code),
        min_flt: Some(min_flt),
        maj_flt: Some(1),
        utime_ns: Some(3_000_000),
        stime_ns: Some(2_000_000),
        ..row
    };
    writer.push(&ended(
        TasksRow { comm: Some("child"), ..child },
        START + 2 * SECOND,
        9,
        CHILD_PAGES + KERNEL_FAULTS + 4,
    ));
    writer.push(&ended(TasksRow { comm: Some("cache"), ..row }, START + 3 * SECOND, 0x300, PARENT_PAGES + 10));
}

fn mappings(writer: &mut RecordingWriter) {
    let library = Some(&b"/lib/libx.so"[..]);
    let row = MappingsRow { ts: START + 10, task_id: 1, mm_id: 1, op: "mmap", kind: "call", ..MappingsRow::default() };
    let child = MappingsRow { ts: START + SECOND + 10, task_id: 2, mm_id: 2, ..row };
    let anonymous = |row: MappingsRow<'static>, id, at: u64, pages: u64| MappingsRow {
        mapping_id: Some(id),
        addr: Some(0),
        len: Some(pages * PAGE),
        prot: Some(3),
        flags: Some(0x22),
        ret: Some(at as i64),
        ..row
    };
    let code = |row: MappingsRow<'static>, id, at| MappingsRow {
        mapping_id: Some(id),
        addr: Some(at),
        len: Some(16 * PAGE),
        prot: Some(5),
        flags: Some(2),
        offset: Some(0x1000),
        ino: Some(9),
        path: library,
        ..row
    };
    writer.push(&MappingsRow { ret: Some(LIBRARY_IN_PARENT as i64), ..code(row, 1, 0) });
    let pool = MappingsRow { len: Some(2 << 20), flags: Some(0x22 | 0x4_0000 | 21 << 26), ret: Some(-12), ..row };
    writer.push(&MappingsRow { ts: START + 11, ..pool });
    writer.push(&MappingsRow { ts: START + 12, ..anonymous(row, 2, PARENT_AT, PARENT_PAGES) });
    let range = MappingsRow { addr: Some(PARENT_AT), len: Some(PARENT_PAGES * PAGE), ret: Some(0), ..row };
    writer.push(&MappingsRow { ts: START + 13, op: "madvise", advice: Some(15), ..range });
    writer.push(&MappingsRow { ts: START + 14, op: "mprotect", prot: Some(3), ..range });
    writer.push(&MappingsRow { kind: "kernel", ..code(child, 3, LIBRARY_IN_CHILD) });
    writer.push(&MappingsRow { ts: child.ts + 1, ..anonymous(child, 4, CHILD_AT, CHILD_PAGES) });
    let moved = MappingsRow {
        op: "mremap",
        flags: Some(1),
        old_addr: Some(CHILD_AT),
        old_len: Some(CHILD_PAGES * PAGE),
        ..child
    };
    let to = MappingsRow {
        mapping_id: Some(5),
        len: Some(2 * CHILD_PAGES * PAGE),
        ret: Some((CHILD_AT + (1 << 30)) as i64),
        ..moved
    };
    writer.push(&MappingsRow { ts: START + 2 * SECOND, ..to });
    writer.push(&MappingsRow { ts: START + 3 * SECOND - 1, op: "munmap", ..range });
}

fn faults(writer: &mut RecordingWriter) {
    for i in 0..PARENT_PAGES {
        writer.push(&FaultsRow {
            ts: START + 100 + i as i64,
            task_id: 1,
            mm_id: 1,
            addr: PARENT_AT + (PARENT_PAGES - 1 - i) * PAGE + 8,
            ip: LIBRARY_IN_PARENT + 0x20,
            error_code: Some(6),
            ..FaultsRow::default()
        });
    }
    let child = FaultsRow {
        ts: START + SECOND + 100,
        task_id: 2,
        mm_id: 2,
        ip: LIBRARY_IN_CHILD + 0x20,
        error_code: Some(4),
        ..FaultsRow::default()
    };
    for i in 0..CHILD_PAGES {
        writer.push(&FaultsRow { ts: child.ts + i as i64, addr: CHILD_AT + i * PAGE, ..child });
    }
    for i in 0..KERNEL_FAULTS {
        let ip = 0xffff_ffff_8100_0000;
        writer.push(&FaultsRow {
            ts: child.ts + 200 + i as i64,
            addr: LIBRARY_IN_CHILD + i * PAGE,
            ip,
            error_code: Some(3),
            ..child
        });
    }
    writer.push(&FaultsRow { ts: child.ts + 300, addr: 0x1000, ip: 0x1000, error_code: Some(20), ..child });
}

fn metrics(writer: &mut RecordingWriter) {
    for tick in 0..=20_i64 {
        let ts = START + tick * SECOND / 10;
        let row = MetricsRow { ts, name: "vmstat.pgfault", instance: None, value: Some((1000 + 50 * tick) as f64) };
        writer.push(&row);
        writer.push(&MetricsRow { name: "meminfo.memfree_bytes", value: Some(2e9 + (tick % 2) as f64 * 1e6), ..row });
        writer.push(&MetricsRow { name: "interrupts", instance: Some("LOC"), value: Some(tick as f64), ..row });
    }
    writer.push(&MetricsRow { ts: START, name: "from.a.newer.recorder", instance: None, value: None });
}

fn settings(writer: &mut RecordingWriter) {
    let start = [
        ("thp.enabled", Some("madvise")),
        ("thp.hpage_pmd_size", Some("2097152")),
        ("sysctl.vm.swappiness", Some("60")),
        ("sysctl.vm.stat_refresh", None),
        ("cmdline.quiet", Some("")),
    ];
    for at in ["start", "end"] {
        for (key, value) in start {
            let value = match (at, key) {
                ("end", "thp.enabled") => Some("always"),
                ("end", "sysctl.vm.swappiness") => None,
                _ => value,
            };
            let ts = if at == "end" { START + 3 * SECOND } else { START };
            writer.push(&SettingsRow { ts, key, value, source: "/sys/of/this", at });
        }
    }
    let (key, source) = ("kconfig.TRANSPARENT_HUGEPAGE", "/proc/config.gz");
    writer.push(&SettingsRow { ts: START, key, value: Some("y"), source, at: "start" });
}

fn loss(writer: &mut RecordingWriter) {
    for second in 0..3_u32 {
        for cpu in 0..2 {
            let ts = START + i64::from(second) * SECOND + 500;
            let row =
                LossRow { ts, stream: "faults", cpu: Some(cpu), seen: 100, lost: u64::from(second), filtered: 10 };
            writer.push(&row);
        }
        let row = LossRow {
            ts: START + i64::from(second) * SECOND,
            stream: "maps",
            cpu: None,
            seen: 3,
            lost: 0,
            filtered: 0,
        };
        writer.push(&row);
    }
}

/// Operations of the load: the whole job's rows and its one thread's say the same.
pub(crate) const OPERATIONS: u64 = 1000;

fn latency(writer: &mut RecordingWriter) {
    for thread in [None, Some(0)] {
        for (low_ns, high_ns, count) in [(1000, 1015, OPERATIONS - 10), (5000, 5119, 9), (1_000_000, 1_000_999, 1)] {
            let (ts, job) = (START + SECOND, "reader");
            writer.push(&LatencyRow { ts, job, thread, direction: "read", kind: "clat", low_ns, high_ns, count });
        }
    }
}
