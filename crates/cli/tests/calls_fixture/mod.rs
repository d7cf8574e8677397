//! A recording of system calls and of times off a CPU, of which every sum is known.
//!
//! `reader` (pid 100) opens a file and reads it in order, `writer` (pid 200) writes another at random, submits to a ring that
//! shows nothing of its operations, and waits for a futex without end. Both map a file, which is seen by its faults.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use std::path::Path;

use pagelab_recording::tables::{
    FaultsRow, FilesRow, FramesRow, LossRow, MappingsRow, OffcpuRow, StacksRow, SyscallsRow, TasksRow,
};
use pagelab_recording::{Clock, Manifest, Probe, ProbeState, RecordingWriter, WriterOptions};

/// Begin of the recording, on its clock.
pub(crate) const START: i64 = 5_000_000_000_000;
const MS: i64 = 1_000_000;

pub(crate) const READS: u64 = 1000;
pub(crate) const READ_BYTES: u64 = 4096;
pub(crate) const READ_NS: u64 = 1000;
pub(crate) const FAILED_READS: u64 = 10;
pub(crate) const WRITES: u64 = 500;
pub(crate) const WRITE_BYTES: u64 = 8192;
pub(crate) const WRITE_NS: u64 = 2000;
pub(crate) const SUBMITS: u64 = 5;
/// openat, the reads, the writes, the submissions, the futex.
pub(crate) const CALLS: u64 = 1 + READS + FAILED_READS + WRITES + SUBMITS + 1;
pub(crate) const WAITS: u64 = 10;
/// Part of each time off a CPU after the wakeup.
pub(crate) const WAIT_QUEUE_NS: u64 = 250_000;
pub(crate) const PREEMPTIONS: u64 = 4;
pub(crate) const MAPPED_FAULTS: u64 = 6;

/// Writes the recording.
pub(crate) fn write(dir: &Path) {
    let active = |name: &str| Probe { name: name.to_owned(), state: ProbeState::Active, ..Probe::default() };
    let manifest = Manifest {
        arch: Some("x86_64".to_owned()),
        page_size_bytes: Some(4096),
        clock: Clock { id: "CLOCK_MONOTONIC".to_owned(), start_ns: START, ..Clock::default() },
        probes: vec![active("syscalls"), active("sched"), active("faults")],
        ..Manifest::default()
    };
    let mut writer = RecordingWriter::create(dir, manifest, WriterOptions::default()).unwrap();
    for (task_id, pid, comm) in [(1, 100, "reader"), (2, 200, "writer")] {
        writer.push(&TasksRow {
            ts: START,
            op: "snapshot",
            task_id,
            tid: pid,
            pid,
            mm_id: Some(task_id),
            comm: Some(comm),
            ..TasksRow::default()
        });
    }
    let file = FilesRow { ts: START, dev: 8, fs: Some("ext4"), file_type: Some("regular"), ..FilesRow::default() };
    writer.push(&FilesRow { file_id: 1, ino: 11, path: Some(b"/data/in order"), ..file });
    writer.push(&FilesRow { file_id: 2, ino: 12, path: Some(b"/data/\x1b[2Jrandom"), ..file });
    calls(&mut writer);
    off_cpu(&mut writer);
    mapped(&mut writer);
    let loss = LossRow { ts: START + 9 * MS, stream: "syscalls", cpu: Some(0), seen: CALLS + 3, lost: 3, filtered: 0 };
    writer.push(&loss);
    writer.flush(START + 1000 * MS).unwrap();
    writer.close(|_| ()).unwrap();
}

fn calls(writer: &mut RecordingWriter) {
    let call = SyscallsRow { dur: Some(5000), task_id: 1, ..SyscallsRow::default() };
    let cwd = u64::from(-100_i32 as u32);
    let open = SyscallsRow { ts: START + 1, name: "openat", args: [cwd, 0x10, 0, 0, 0, 0], ret: Some(3), ..call };
    writer.push(&SyscallsRow { file_id: Some(1), ..open });
    for i in 0..READS + FAILED_READS {
        let failed = i >= READS;
        writer.push(&SyscallsRow {
            ts: START + 10 + i as i64 * 10_000,
            dur: Some(READ_NS as i64),
            name: "read",
            args: [3, 0x7f00, READ_BYTES, 0, 0, 0],
            fd: Some(3),
            file_id: Some(1),
            offset: Some(i * READ_BYTES),
            offset_kind: Some("implied"),
            requested: Some(READ_BYTES),
            ret: Some(if failed { -11 } else { READ_BYTES as i64 }),
            cpu_ns: Some(600),
            blocked_ns: Some(300),
            ..call
        });
    }
    for i in 0..WRITES {
        let offset = (i * 7_919 + i * i * 104_729) % 65_536 * WRITE_BYTES;
        writer.push(&SyscallsRow {
            ts: START + 15 + i as i64 * 20_000,
            dur: Some(WRITE_NS as i64),
            task_id: 2,
            name: "pwrite64",
            args: [4, 0x7f00, WRITE_BYTES, offset, 0, 0],
            fd: Some(4),
            file_id: Some(2),
            offset: Some(offset),
            offset_kind: Some("explicit"),
            requested: Some(WRITE_BYTES),
            ret: Some(WRITE_BYTES as i64),
            ..call
        });
    }
    let ring = SyscallsRow { task_id: 2, name: "io_uring_enter", fd: Some(5), ret: Some(32), ..call };
    for i in 0..SUBMITS {
        writer.push(&SyscallsRow { ts: START + 500 * MS + i as i64, args: [5, 32, 0, 1, 0, 0], ..ring });
    }
    let forever = SyscallsRow { ts: START + 600 * MS, dur: None, task_id: 2, name: "futex", ..call };
    writer.push(&SyscallsRow { args: [0x7000, 0x80, 1, 0, 0, 0], ..forever });
}

fn off_cpu(writer: &mut RecordingWriter) {
    let off = OffcpuRow { task_id: 2, kstack_id: Some(77), ustack_id: Some(78), ..OffcpuRow::default() };
    for i in 0..WAITS {
        let ts = START + i as i64 * 10 * MS;
        let wait = OffcpuRow { ts, dur: Some(MS), state: Some("S"), waker_task_id: Some(1), ..off };
        let wait = OffcpuRow { runqueue_ns: Some(WAIT_QUEUE_NS), ustack_end: Some("entry"), ..wait };
        writer.push(&wait);
    }
    for i in 0..PREEMPTIONS {
        let ts = START + (5 + i as i64 * 10) * MS;
        let row = OffcpuRow { ts, dur: Some(MS / 10), state: Some("R"), task_id: 1, ..OffcpuRow::default() };
        writer.push(&OffcpuRow { runqueue_ns: Some(MS as u64 / 10), ..row });
    }
    writer.push(&OffcpuRow { ts: START + 900 * MS, dur: None, state: Some("D"), ..off });
    writer.push(&StacksRow { stack_id: 77, frame_ids: &[1, 2] });
    writer.push(&FramesRow { frame_id: 1, symbol: Some("schedule"), kernel: true, ..FramesRow::default() });
    writer.push(&FramesRow { frame_id: 2, symbol: Some("futex_wait"), kernel: true, ..FramesRow::default() });
}

fn mapped(writer: &mut RecordingWriter) {
    let at = 0x7f00_0000_0000_u64;
    writer.push(&MappingsRow {
        ts: START + 2,
        task_id: 1,
        mm_id: 1,
        mapping_id: Some(1),
        op: "mmap",
        kind: "call",
        addr: Some(0),
        len: Some(1 << 20),
        prot: Some(1),
        flags: Some(1),
        fd: Some(3),
        offset: Some(0),
        path: Some(b"/data/mapped"),
        ret: Some(at as i64),
        ..MappingsRow::default()
    });
    for i in 0..MAPPED_FAULTS {
        writer.push(&FaultsRow {
            ts: START + 100 + i as i64,
            task_id: 1,
            mm_id: 1,
            addr: at + i * 4096,
            ip: 0x40_0000,
            error_code: Some(4),
            ..FaultsRow::default()
        });
    }
}

/// Writes a recording of `calls` calls: eight tasks that read and write sixteen files, half in order and half at
/// random.
pub(crate) fn write_many(dir: &Path, calls: u64) {
    let manifest = Manifest {
        clock: Clock { id: "CLOCK_MONOTONIC".to_owned(), start_ns: START, ..Clock::default() },
        ..Manifest::default()
    };
    let mut writer = RecordingWriter::create(dir, manifest, WriterOptions::default()).unwrap();
    for task_id in 0..8 {
        let tid = 1000 + task_id as i32;
        let row =
            TasksRow { ts: START, op: "snapshot", task_id, tid, pid: tid, comm: Some("many"), ..TasksRow::default() };
        writer.push(&row);
    }
    for file_id in 0..16 {
        writer.push(&FilesRow { ts: START, file_id, path: Some(b"/data/many"), ..FilesRow::default() });
    }
    for i in 0..calls {
        let (ts, task_id, file_id) = (START + i as i64 * 300, (i % 8) as u32, (i % 16) as u32);
        let random = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44) * 4096;
        let offset = if file_id < 8 { i / 16 * 4096 } else { random };
        writer.push(&SyscallsRow {
            ts,
            dur: Some(500 + (random >> 12 & 1023) as i64),
            task_id,
            name: if i % 3 == 0 { "pwrite64" } else { "pread64" },
            args: [3, 0x7f00, 4096, offset, 0, 0],
            fd: Some(3),
            file_id: Some(file_id),
            offset: Some(offset),
            offset_kind: Some("explicit"),
            requested: Some(4096),
            ret: Some(4096),
            cpu_ns: Some(400),
            blocked_ns: Some(50),
        });
        if i % 1_000_000 == 999_999 {
            writer.flush(ts).unwrap();
        }
    }
    writer.close(|_| ()).unwrap();
}
