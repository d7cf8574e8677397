//! Recordings to start from: rows of every table, that belong together.

use std::path::Path;
use std::sync::Arc;

use pagelab_recording::tables::{
    BlockIosRow, CountersRow, DaxFaultsRow, FaultsRow, FilesRow, FramesRow, JobsRow, KhugepagedRow, LatencyRow,
    LossRow, MappingsRow, MarksRow, MetricsRow, OffcpuRow, RegionPagesRow, SamplesRow, SettingsRow, StacksRow,
    SyscallsRow, TasksRow, WaitStacksRow, WaitsRow,
};
use pagelab_recording::{
    Clock, Exit, Manifest, Measured, MeasuredBy, Probe, ProbeState, RecordingWriter, WriterOptions,
};
use pagelab_views::rollup::Makers;

const START: i64 = 1_000_000_000_000;
const MS: i64 = 1_000_000;
const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
const ARENA: u64 = 0x7f00_0000_0000;

fn manifest() -> Manifest {
    let probe = |name: &str| Probe {
        name: name.to_owned(),
        state: ProbeState::Active,
        rung: Some("bpf".to_owned()),
        events_seen: Some(100),
        events_lost: Some(1),
        ..Probe::default()
    };
    let streams = [
        "metrics", "settings", "tasks", "faults", "maps", "dax", "syscalls", "waits", "sched", "cpu", "counters",
        "block", "regions",
    ];
    Manifest {
        host: Some("here".to_owned()),
        kernel: Some("6.18.0".to_owned()),
        arch: Some("x86_64".to_owned()),
        page_size_bytes: Some(PAGE),
        cpus: Some(2),
        virt: Some("none".to_owned()),
        boot_id: Some("0123-4567".to_owned()),
        variant: Some("a".to_owned()),
        run: Some(1),
        clock: Clock {
            id: "CLOCK_MONOTONIC".to_owned(),
            start_ns: START,
            realtime_at_start_ns: Some(1_750_000_000_000_000_000),
            realtime_at_end_ns: Some(1_750_000_000_000_000_000 + 2000 * MS),
            ..Clock::default()
        },
        command: Some(vec!["work".to_owned(), "--all".to_owned()]),
        probes: streams.map(probe).into(),
        ..Manifest::default()
    }
}

/// Writes a recording of two seconds. One that is not closed is that of a recorder that was killed.
pub(crate) fn record(dir: &Path, is_closed: bool) {
    let mut w = RecordingWriter::create(dir, manifest(), WriterOptions::default()).expect("a new folder");
    w.set_witnesses(Arc::new(Makers));
    once(&mut w);
    for second in 0..2_i64 {
        let from = START + second * 1000 * MS;
        for at in 0..20 {
            tenth(&mut w, from + at * 45 * MS, (second * 20 + at) as u64);
        }
        w.flush(from + 1000 * MS).expect("there is room");
    }
    last(&mut w);
    w.flush(START + 2000 * MS).expect("there is room");
    if !is_closed {
        return;
    }
    let ended = w.close(|manifest| {
        manifest.exit = Some(Exit { code: Some(0), ..Exit::default() });
        manifest.measured = Some(Measured {
            start_ns: Some(START + 10 * MS),
            end_ns: Some(START + 1990 * MS),
            operations: Some(1000),
            source: Some(MeasuredBy::Load),
            ..Measured::default()
        });
    });
    ended.expect("there is room");
}

/// What is said once.
fn once(w: &mut RecordingWriter) {
    tasks_and_files(w);
    mappings(w);
    names_and_settings(w);
}

fn tasks_and_files(w: &mut RecordingWriter) {
    for (task_id, op, comm) in [(1, "exec", "work"), (2, "fork", "helper")] {
        let (tid, mm_id) = (task_id as i32 + 100, Some(task_id));
        let exe = Some(&b"/usr/bin/work"[..]);
        let (ts, parent_task_id) = (START + 1, (task_id == 2).then_some(1));
        let comm = Some(comm);
        w.push_tasks(&TasksRow {
            ts,
            op,
            task_id,
            tid,
            pid: tid,
            parent_task_id,
            mm_id,
            comm,
            exe,
            ..TasksRow::default()
        });
    }
    for file_id in 1..4_u32 {
        let path = Some(&b"/data/table.db"[..]);
        let (dev, ino) = (0x801, 77 + u64::from(file_id));
        let (fs, file_type) = (Some("ext4"), Some("regular"));
        w.push_files(&FilesRow { ts: START + 2, file_id, dev, ino, fs, file_type, path });
    }
}

fn mappings(w: &mut RecordingWriter) {
    for (mapping_id, path, len) in
        [(1, None, 4 * HUGE), (2, Some(&b"/usr/bin/work"[..]), 64 * PAGE), (3, None, HUGE / 2)]
    {
        let at = ARENA + u64::from(mapping_id) * 64 * HUGE + if mapping_id == 3 { PAGE } else { 0 };
        let (ret, flags) = (Some(at as i64), Some(0x22));
        let (mapping_id, len) = (Some(mapping_id), Some(len));
        let row = MappingsRow {
            ts: START + 3,
            task_id: 1,
            mm_id: 1,
            mapping_id,
            op: "mmap",
            kind: "call",
            ..MappingsRow::default()
        };
        w.push_mappings(&MappingsRow {
            addr: Some(0),
            len,
            prot: Some(3),
            flags,
            offset: Some(0),
            path,
            ret,
            ustack_id: Some(31),
            ..row
        });
    }
    for (ret, op) in [(-12, "mmap"), (0, "madvise"), (0, "munmap")] {
        let row =
            MappingsRow { ts: START + 1500 * MS, task_id: 1, mm_id: 1, op, kind: "call", ..MappingsRow::default() };
        let (addr, len) = (Some(ARENA + 128 * HUGE), Some(8 * PAGE));
        w.push_mappings(&MappingsRow { addr, len, flags: Some(0x4_0022), advice: Some(14), ret: Some(ret), ..row });
    }
}

fn names_and_settings(w: &mut RecordingWriter) {
    for (frame_id, symbol, kernel) in
        [(11, "work_on", false), (12, "main", false), (13, "vfs_read", true), (14, "handle_mm_fault", true)]
    {
        let module = Some(if kernel { &b"[kernel]"[..] } else { &b"/usr/bin/work"[..] });
        w.push_frames(&FramesRow {
            frame_id,
            symbol: Some(symbol),
            module,
            module_offset: Some(64),
            kernel,
            ..FramesRow::default()
        });
    }
    w.push_stacks(&StacksRow { stack_id: 31, frame_ids: &[11, 12] });
    w.push_stacks(&StacksRow { stack_id: 32, frame_ids: &[13] });
    w.push_stacks(&StacksRow { stack_id: 33, frame_ids: &[14, 13] });
    for (key, value) in
        [("thp.enabled", "always [madvise] never"), ("cpu.model", "Model"), ("thp.hpage_pmd_size", "2097152")]
    {
        for at in ["start", "end"] {
            w.push_settings(&SettingsRow { ts: START + 4, key, value: Some(value), source: "/sys", at });
        }
    }
}

/// What happens again and again.
fn tenth(w: &mut RecordingWriter, ts: i64, n: u64) {
    faults_and_calls(w, ts, n);
    states(w, ts, n);
    figures(w, ts, n);
    memory(w, ts, n);
}

fn faults_and_calls(w: &mut RecordingWriter, ts: i64, n: u64) {
    let task_id = 1 + (n % 2) as u32;
    for at in 0..8_u64 {
        let addr = ARENA + 64 * HUGE + (n * 8 + at) * PAGE;
        let ends = at % 2 == 0;
        let row = FaultsRow {
            ts: ts + at as i64 * 1000,
            task_id,
            mm_id: task_id,
            addr,
            ip: 0x40_1000 + at,
            error_code: Some(6),
            ..FaultsRow::default()
        };
        w.push_faults(&FaultsRow {
            major: ends.then_some(at == 0),
            dur: ends.then_some(700),
            got: ends.then_some("new"),
            ..row
        });
    }
    for (at, name) in [(1, "read"), (2, "pwrite64"), (3, "futex"), (4, "openat")] {
        let file = if at < 3 { Some(1 + (n % 3) as u32) } else { None };
        let row = SyscallsRow {
            ts: ts + at * 1000,
            dur: Some(900),
            task_id,
            name,
            args: [3, 0, 4096, n * PAGE, 0, 0],
            fd: Some(3),
            ..SyscallsRow::default()
        };
        let (offset, offset_kind) = (file.map(|_| n * PAGE), file.map(|_| "explicit"));
        let (requested, ret) = (file.map(|_| PAGE), Some(if at == 4 { -2 } else { 4096 }));
        w.push_syscalls(&SyscallsRow {
            file_id: file,
            offset,
            offset_kind,
            requested,
            ret,
            cpu_ns: Some(500),
            blocked_ns: Some(200),
            ..row
        });
    }
}

fn states(w: &mut RecordingWriter, ts: i64, n: u64) {
    let task_id = 1 + (n % 2) as u32;
    let (kstack_id, ustack_id, ustack_end) = (Some(33), Some(31), Some("entry"));
    let (state, waker_task_id) = (Some(if n.is_multiple_of(3) { "D" } else { "S" }), Some(1));
    w.push_offcpu(&OffcpuRow {
        ts: ts + 5000,
        dur: Some(MS),
        task_id,
        state,
        kstack_id,
        ustack_id,
        waker_task_id,
        runqueue_ns: Some(300),
        ustack_end,
        iowait: Some(n.is_multiple_of(3)),
    });
    let event = "cpu-clock";
    w.push_samples(&SamplesRow {
        ts: ts + 6000,
        task_id,
        cpu: task_id - 1,
        event,
        kstack_id,
        ustack_id,
        weight: 10_000_000,
        ustack_end,
        returned_from: None,
    });
    for state in ["run", "ready", "kernel_run", "kernel_ready"] {
        w.push_waits(&WaitsRow {
            ts: ts + 44 * MS,
            task_id: Some(task_id),
            state,
            times: Some(3),
            ns: MS as u64,
            ..WaitsRow::default()
        });
    }
    let waits = WaitsRow {
        ts: ts + 44 * MS,
        task_id: Some(task_id),
        state: "off",
        off_state: Some("D"),
        iowait: Some(true),
        ..WaitsRow::default()
    };
    w.push_waits(&WaitsRow { call: Some("read"), by: Some("irq"), times: Some(2), ns: 30 * MS as u64, ..waits });
    w.push_waits(&WaitsRow { ts: ts + 44 * MS, state: "idle", ns: MS as u64, ..WaitsRow::default() });
    let (call, by) = (Some("read"), Some("irq"));
    w.push_wait_stacks(&WaitStacksRow {
        ts: ts + 44 * MS,
        task_id,
        off_state: "D",
        iowait: true,
        call,
        by,
        kstack_id,
        samples: 2,
        weight_ns: MS as u64,
    });
}

fn figures(w: &mut RecordingWriter, ts: i64, n: u64) {
    let task_id = 1 + (n % 2) as u32;
    for (name, value) in [("instructions", 1_000_000), ("cycles", 2_000_000)] {
        let time = Some((ts - START) as u64 + 1);
        w.push_counters(&CountersRow {
            ts,
            task_id: None,
            name,
            value: Some(value * n),
            enabled_ns: time,
            running_ns: time,
            group_id: Some(1),
        });
    }
    for (name, instance, value) in [
        ("vmstat.pgfault", None, n as f64),
        ("mem.free_bytes", None, 1e9),
        ("disk.read_bytes", Some("sda"), n as f64 * 512.0),
    ] {
        w.push_metrics(&MetricsRow { ts, name, instance, value: Some(value) });
    }
    let (dev, op) = (0x800, if n.is_multiple_of(2) { "read" } else { "write" });
    w.push_block_ios(&BlockIosRow {
        ts: ts + 7000,
        dur: Some(80_000),
        queue_ns: Some(5000),
        task_id: Some(task_id),
        dev,
        sector: n * 8,
        bytes: PAGE,
        op,
        merged: Some(0),
        status: Some(0),
        device: Some("sda"),
    });
    for (kind, low_ns) in [("clat", 900), ("lat", 1000)] {
        w.push_latency(&LatencyRow {
            ts: ts + 8000,
            job: "j",
            thread: Some(0),
            direction: "read",
            kind,
            low_ns,
            high_ns: low_ns + 99,
            count: 20,
        });
    }
}

fn memory(w: &mut RecordingWriter, ts: i64, n: u64) {
    let task_id = 1 + (n % 2) as u32;
    w.push_region_pages(&RegionPagesRow {
        ts: ts + 9000,
        mm_id: 1,
        start: ARENA + 64 * HUGE,
        end: ARENA + 68 * HUGE,
        page_size_bytes: if n.is_multiple_of(2) { PAGE } else { HUGE },
        bytes: HUGE,
        asked: Some("madvise"),
        reason: Some("not_aligned"),
        ..RegionPagesRow::default()
    });
    let (addr, vm_start) = (ARENA + n * HUGE, ARENA);
    w.push_dax_faults(&DaxFaultsRow {
        ts: ts + 9500,
        task_id,
        kind: if n.is_multiple_of(2) { "pmd" } else { "pte" },
        dev: 0x801,
        ino: 78,
        addr,
        vm_start,
        vm_end: vm_start + 64 * HUGE,
        pgoff: n * 512,
        max_pgoff: Some(1 << 20),
        outcome: Some("NOPAGE"),
        ..DaxFaultsRow::default()
    });
    w.push_khugepaged(&KhugepagedRow {
        ts: ts + 9600,
        mm_id: Some(1),
        task_id: Some(1),
        op: "collapse",
        kind: "anon",
        by_whom: "khugepaged",
        addr: Some(ARENA),
        result: "succeed",
        pages: Some(512),
        filled: Some(3),
        ..KhugepagedRow::default()
    });
    for (stream, seen) in [("faults", 8), ("syscalls", 4), ("sched", 1), ("cpu", 1), ("block", 1)] {
        w.push_loss(&LossRow { ts: ts + 9900, stream, cpu: None, seen, lost: 0, filtered: 0 });
    }
}

/// The end.
fn last(w: &mut RecordingWriter) {
    w.push_marks(&MarksRow { ts: START + 700 * MS, name: "warm", source: "mark" });
    let ts = START + 1999 * MS;
    w.push_jobs(&JobsRow {
        ts,
        job: "j",
        thread: Some(0),
        direction: "read",
        ios: 1000,
        bytes: 1000 * PAGE,
        runtime_ns: 1980 * MS as u64,
        usr: Some(10.0),
        sys: Some(20.0),
        ctx: Some(7),
        iops_mean: Some(505.0),
        bw_mean: Some(2e6),
        depth: Some(&[1000, 0, 0, 0, 0, 0, 0]),
        ..JobsRow::default()
    });
    for task_id in [1, 2] {
        let (tid, used) = (task_id as i32 + 100, Some(400 * MS as u64));
        let row = TasksRow {
            ts,
            op: "exit",
            task_id,
            tid,
            pid: tid,
            mm_id: Some(task_id),
            comm: Some("work"),
            exit_code: Some(0),
            ..TasksRow::default()
        };
        w.push_tasks(&TasksRow {
            min_flt: Some(170),
            maj_flt: Some(3),
            utime_ns: used,
            stime_ns: used,
            recorded_faults: Some(160),
            ..row
        });
    }
}
