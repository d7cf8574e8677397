//! What the benchmarks of views share: a recording's worth of faults, and the median.

use pagelab_recording::RecordingWriter;
use pagelab_recording::tables::MappingsRow;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const MAPPINGS: u32 = 256;
const MAPPING_BYTES: u64 = 128 << 20;
const BASE: u64 = 0x7f00_0000_0000;
/// Tasks, from 10 on.
pub(crate) const TASKS: u32 = 4;
/// Faults of one task in one mapping before it turns to another.
const BURST: u64 = 20_000;
/// Events of a part.
pub(crate) const PART: u64 = 600_000;

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

/// The upper median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
