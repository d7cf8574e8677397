//! The cost of one fault row: CPU from columns in memory to a live part, CPU of the clean end, bytes on disk. The live
//! part is compared with the same columns as an Arrow IPC file, plain and compressed, which the crate's own encoder has
//! to beat.
//!
//! Run with `cargo bench -p pagelab-recording --profile dev --bench faults [-- SECONDS]`; the figures in the crate's
//! manual are of this program. CPU is that of the thread, so other load on the machine moves the figures only through
//! the caches and the clock.

use std::path::Path;
use std::time::Duration;

use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use pagelab_recording::tables::{FaultsColumns, MappingsRow, TableColumns};
use pagelab_recording::{Manifest, RecordingWriter, WriterOptions};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RATE: usize = 600_000;
const HUGE: u64 = 2 << 20;

struct Pattern {
    name: &'static str,
    tasks: u32,
    addr: fn(u64, &mut ChaCha8Rng) -> u64,
}

const BASE: u64 = 0x7f12_3400_0000;

const PATTERNS: &[Pattern] = &[
    Pattern { name: "ascending", tasks: 1, addr: |i, _| BASE + i * 4096 },
    Pattern {
        name: "descending within 2 MiB",
        tasks: 1,
        addr: |i, _| BASE + (i / 512) * HUGE + (511 - i % 512) * 4096,
    },
    Pattern {
        name: "descending, exact addresses",
        tasks: 1,
        addr: |i, _| BASE + (i / 512) * HUGE + (511 - i % 512) * 4096 + 0x7a8,
    },
    Pattern { name: "ascending, two tasks", tasks: 2, addr: |i, _| BASE + (i & 1) * (1 << 40) + (i / 2) * 4096 },
    Pattern {
        name: "random over 4 GiB, page aligned",
        tasks: 1,
        addr: |_, r| BASE + r.random_range(0..1_u64 << 20) * 4096,
    },
    Pattern { name: "random over 4 GiB, exact", tasks: 1, addr: |_, r| BASE + r.random_range(0..1_u64 << 32) },
    Pattern {
        name: "compiler-like",
        tasks: 4,
        addr: |i, r| {
            if r.random_range(0..4) == 0 {
                BASE + r.random_range(0..1_u64 << 26)
            } else {
                BASE + (1 << 33) + i * 4096 + r.random_range(0..4096)
            }
        },
    },
];

fn cpu_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec and the clock id is a constant the kernel knows.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn size(dir: &Path) -> u64 {
    std::fs::read_dir(dir).map_or(0, |d| d.flatten().filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum())
}

fn fill(f: &mut FaultsColumns, p: &Pattern, second: u64, rng: &mut ChaCha8Rng, ts: &mut i64) {
    let ips: Vec<u64> =
        (0..if p.name.starts_with("compiler") { 2000 } else { 2 }).map(|k| 0x40_0000 + k * 37).collect();
    for i in 0..RATE as u64 {
        // 1 to 2 us with jitter, now and then an interrupt.
        *ts += rng.random_range(1200..1900) + rng.random_range(-300..300);
        if rng.random_range(0..1000) == 0 {
            *ts += rng.random_range(5_000..40_000);
        }
        let n = second * RATE as u64 + i;
        let task = (n % u64::from(p.tasks)) as u32;
        f.ts.push(*ts);
        f.task_id.push(10 + task);
        f.mm_id.push(3);
        f.addr.push((p.addr)(n, rng));
        f.ip.push(ips[rng.random_range(0..ips.len())]);
        f.error_code.push(Some(if p.tasks > 2 && rng.random_range(0..3) == 0 { 4 } else { 6 }));
    }
}

fn mappings(w: &mut RecordingWriter, pattern: &Pattern) {
    let mut map = |id: u32, addr: u64, len: u64| {
        w.push_mappings(&MappingsRow {
            ts: 0,
            mm_id: 3,
            mapping_id: Some(id),
            op: "mmap",
            kind: "call",
            ret: Some(addr as i64),
            len: Some(len),
            ..MappingsRow::default()
        });
    };
    if pattern.name.starts_with("descending") {
        // One per 2 MiB, as a block cache maps them.
        (0..1 << 14).for_each(|k| map(10 + k, BASE + u64::from(k) * HUGE, HUGE));
    } else {
        map(1, BASE, 1 << 33);
        map(2, BASE + (1 << 33), 1 << 36);
        map(3, BASE + (1 << 40), 1 << 40);
    }
}

/// Ways of Arrow IPC.
const IPC: [Option<CompressionType>; 3] = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];

/// CPU time and bytes of the columns as a file of Arrow IPC.
fn ipc(dir: &Path, columns: &mut FaultsColumns, compression: Option<CompressionType>) -> (u64, u64) {
    let path = dir.join("part.arrow");
    let before = cpu_ns();
    let batch = columns.take_batch().expect("a batch");
    let options = IpcWriteOptions::default().try_with_compression(compression).expect("a compression");
    let file = std::fs::File::create(&path).expect("a file");
    let mut writer = FileWriter::try_new_with_options(file, &batch.schema(), options).expect("a file");
    writer.write(&batch).expect("written");
    writer.finish().expect("written");
    (cpu_ns() - before, std::fs::metadata(&path).expect("a file").len())
}

fn main() {
    let seconds = std::env::args().find_map(|a| a.parse::<u64>().ok()).unwrap_or(4);
    println!(
        "{:32} {:>8} {:>7} {:>8} {:>7} {:>8} {:>7} {:>8} {:>7} {:>8} {:>7} {:>10}",
        "pattern",
        "live ns",
        "live B",
        "IPC ns",
        "IPC B",
        "lz4 ns",
        "lz4 B",
        "zstd ns",
        "zstd B",
        "end ns",
        "end B",
        "maxrss MB"
    );
    for p in PATTERNS {
        let tmp = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory");
        let dir = tmp.path().join("rec");
        let options = WriterOptions { part_interval: Duration::from_secs(1), ..WriterOptions::default() };
        let mut w = RecordingWriter::create(&dir, Manifest::default(), options).expect("a new recording");
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (mut ts, mut live, mut rivals) = (0, 0, [(0, 0); IPC.len()]);
        mappings(&mut w, p);
        w.flush(0).expect("flush");
        for second in 0..seconds {
            for (compression, (ns, bytes)) in IPC.iter().zip(&mut rivals) {
                let mut columns = FaultsColumns::default();
                fill(&mut columns, p, second, &mut rng.clone(), &mut { ts });
                let (taken, written) = ipc(tmp.path(), &mut columns, *compression);
                *ns += taken;
                *bytes += written;
            }
            fill(w.faults_mut(), p, second, &mut rng, &mut ts);
            let before = cpu_ns();
            w.flush(ts).expect("flush");
            live += cpu_ns() - before;
        }
        let rows = (seconds as usize * RATE) as f64;
        let live_bytes = size(&dir.join("faults"));
        let before = cpu_ns();
        w.close(|_| ()).expect("close");
        let end = cpu_ns() - before;
        // SAFETY: the struct is plain data that the call fills in.
        let rss = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
            usage.ru_maxrss / 1024
        };
        let figures = [(live, live_bytes)].into_iter().chain(rivals).chain([(end, size(&dir.join("faults")))]);
        let figures = figures.map(|(ns, bytes)| format!("{:8.1} {:7.2}", ns as f64 / rows, bytes as f64 / rows));
        println!("{:32} {} {rss:>10}", p.name, figures.collect::<Vec<_>>().join(" "));
    }
}
