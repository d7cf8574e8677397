//! Recordings made up for the benchmarks: some 600,000 events a second of four tasks.

use std::path::Path;

use pagelab_recording::tables::{FramesRow, MappingsRow, SamplesRow, StacksRow, SyscallsRow, TasksRow};
use pagelab_recording::{Manifest, RecordingWriter, WriterOptions};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Writes this many events.
pub(crate) type Push = fn(&mut RecordingWriter, u64);

/// Views, and what writes the events that they are made from.
pub(crate) const VIEWS: [(&str, Push); 3] =
    [("faults", push_faults), ("syscalls", push_calls), ("profile", push_samples)];

const MAPPINGS: u32 = 256;
const MAPPING_BYTES: u64 = 128 << 20;
const BASE: u64 = 0x7f00_0000_0000;
/// Tasks, from 10 on.
const TASKS: u32 = 4;
/// Faults of one task in one mapping before it turns to another.
const BURST: u64 = 20_000;
/// Events of a part.
const PART: u64 = 600_000;

/// A recording of four tasks.
pub(crate) fn new_writer(dir: &Path) -> RecordingWriter {
    let mut writer =
        RecordingWriter::create(dir, Manifest::default(), WriterOptions::default()).expect("a new recording");
    for task in 0..TASKS {
        let (pid, tid) = (10, 10 + task as i32);
        let row = TasksRow { op: "fork", task_id: 10 + task, pid, tid, mm_id: Some(3), ..TasksRow::default() };
        writer.push_tasks(&TasksRow { comm: Some("worker"), ..row });
    }
    writer
}

fn start_of(mapping: u32) -> u64 {
    BASE + u64::from(mapping) * (MAPPING_BYTES + (1 << 20))
}

/// Four tasks of one address space, each of which walks through one of 256 mappings for a while and then through another, page
/// after page, at some 600,000 faults a second.
pub(crate) fn push_faults(writer: &mut RecordingWriter, faults: u64) {
    for mapping in 0..MAPPINGS {
        writer.push_mappings(&MappingsRow {
            task_id: 10,
            mm_id: 3,
            mapping_id: Some(mapping),
            op: "mmap",
            kind: "call",
            flags: Some(0x22),
            prot: Some(3),
            ret: Some(start_of(mapping) as i64),
            len: Some(MAPPING_BYTES),
            ..MappingsRow::default()
        });
    }
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    let mut place = [(0, 0); TASKS as usize];
    let mut ts = 1_000_000;
    for fault in 0..faults {
        ts += rng.random_range(900..2_300);
        let task = rng.random_range(0..TASKS);
        let (mapping, page) = &mut place[task as usize];
        if fault < u64::from(TASKS) || rng.random_range(0..BURST) == 0 {
            *mapping = rng.random_range(0..MAPPINGS);
            *page = rng.random_range(0..MAPPING_BYTES / 4096);
        }
        *page = (*page + 1) % (MAPPING_BYTES / 4096);
        let within = if rng.random_range(0..4) == 0 { rng.random_range(0..512) * 8 } else { 0 };
        let row = writer.faults_mut();
        row.ts.push(ts);
        row.task_id.push(10 + task);
        row.mm_id.push(3);
        row.addr.push(start_of(*mapping) + *page * 4096 + within);
        row.ip.push(0x40_0000 + rng.random_range(0..200) * 37);
        row.error_code.push(Some(if rng.random_range(0..3) == 0 { 4 } else { 6 }));
        if fault % PART == PART - 1 {
            writer.flush(ts).expect("flush");
        }
    }
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
            ..SamplesRow::default()
        });
        if sample % PART == PART - 1 {
            writer.flush(ts).expect("flush");
        }
    }
}
