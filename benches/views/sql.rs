//! The cost of SQL: queries over a recording of 10 million faults, compared with DuckDB on the same Parquet files, and
//! the bytes that a filter by time and mapping reads.
//!
//! `cargo bench -p pagelab-sql --bench sql -- [FAULTS] [ROUNDS] [DIR]`, with DuckDB from `tools/install-venv dataframes`.
//! DIR keeps the recording for the next time. Both engines have two threads and the files in the page cache; the queries
//! alternate between them, first one and then the other engine, and their answers must be equal. Times are medians of all
//! rounds; the ratio is the median of the rounds' ratios.

mod shared;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions};
use pagelab_sql::{Answer, Format, QueryOptions, answer};
use shared::Beside;
use shared::duckdb::DuckDb;
use shared::recordings::push_faults;

const THREADS: usize = 2;

/// A recording of `faults` faults.
fn generate(dir: &Path, faults: u64) {
    let options = WriterOptions { part_interval: Duration::from_secs(1), ..WriterOptions::default() };
    let mut writer = RecordingWriter::create(dir, Manifest::default(), options).expect("a new recording");
    push_faults(&mut writer, faults);
    let start = Instant::now();
    writer.close(|_| ()).expect("close");
    println!("closing {faults} faults took {:.2} s", start.elapsed().as_secs_f64());
}

/// Seconds, the number of rows and the sum of all values, and what the query says of itself.
fn ours(dir: &Path, sql: &str) -> (f64, String, Answer) {
    let options = QueryOptions { threads: Some(THREADS), ..QueryOptions::default() };
    let mut out = Vec::new();
    let start = Instant::now();
    let answer = answer(&[dir.to_owned()], sql, Format::Csv, &mut out, &options).expect("an answer");
    let seconds = start.elapsed().as_secs_f64();
    let text = String::from_utf8(out).expect("text");
    let values = text.lines().skip(1).flat_map(|line| line.split(',')).filter(|value| !value.is_empty());
    let total: i128 = values.map(|value| value.parse::<i128>().expect("whole numbers")).sum();
    (seconds, format!("{} {total}", answer.rows), answer)
}

/// Bytes that this process has read through system calls.
fn read_so_far() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").expect("/proc/self/io");
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|bytes| bytes.parse().ok()).expect("rchar")
}

fn compare(dir: &Path, rounds: usize, duckdb: &mut DuckDb, name: &str, sql: &str, other: &str) {
    let parquet = format!("read_parquet('{}/faults/*.parquet')", dir.display());
    let other = other.replace("faults", &parquet);
    let mut beside = Beside::default();
    for round in 0..=rounds {
        let first = (round % 2 == 0).then(|| duckdb.query(&other));
        let (seconds, found, _) = ours(dir, sql);
        let (rival, expected) = first.unwrap_or_else(|| duckdb.query(&other));
        assert_eq!(found, expected, "{sql}");
        // The first round fills the caches.
        if round > 0 {
            beside.add(seconds, rival);
        }
    }
    println!("{}", beside.line(name));
}

/// The bytes that a query reads, as the engine counts them and as the kernel does.
fn bytes(dir: &Path, name: &str, sql: &str, total: u64) {
    let before = read_so_far();
    let (_, _, answer) = ours(dir, sql);
    let read = read_so_far() - before;
    let share = |bytes: u64| bytes as f64 / total as f64 * 100.0;
    println!(
        "{name:34} scanned {} bytes ({:.2} %), all reads of the process {read} ({:.2} %) of {total}",
        answer.bytes_scanned,
        share(answer.bytes_scanned),
        share(read),
    );
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let number = |at: usize, default: u64| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(default);
    let (faults, rounds) = (number(0, 10_000_000), number(1, 15) as usize);
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let dir = words.get(2).map_or_else(|| tmp.path().join("rec"), PathBuf::from);
    if !dir.exists() {
        generate(&dir, faults);
    }
    let parts = Recording::open(&dir).and_then(|recording| recording.parts("faults")).expect("a recording");
    let total: u64 = parts.iter().map(|part| part.metadata().map_or(0, |data| data.len())).sum();
    println!("{faults} faults in {} parts of {total} bytes, {THREADS} threads, {rounds} rounds", parts.len());
    let last = 1_000_000 + faults as i64 * 1_600;
    let (from, to) = (last / 2, last / 2 + last / 10);
    let filter = format!("ts >= {from} AND ts < {to} AND mapping_id = 7");
    let filtered =
        format!("SELECT count(*) AS n, min(addr) AS a, max(addr) AS b, min(ip) AS c FROM faults WHERE {filter}");
    bytes(&dir, "a tenth of the time, one mapping", &filtered, total);
    let all = format!("SELECT * FROM faults WHERE {filter}").replace('*', "ts, task_id, mm_id, addr, ip, error_code");
    bytes(&dir, "the same, six columns of its rows", &all, total);
    let mapping = "SELECT count(*) AS n, min(addr) AS a, min(ip) AS c FROM faults WHERE mapping_id = 7";
    bytes(&dir, "one mapping, all of the time", mapping, total);
    bytes(&dir, "no filter, all that the table has", "SELECT sum(ts % 2 + addr % 2 + ip % 2) AS n FROM faults", total);
    let mut duckdb = DuckDb::start(THREADS);
    let slot = "SELECT addr / 2097152 AS slot, count(*) AS n FROM faults GROUP BY slot";
    compare(&dir, rounds, &mut duckdb, "group by 2 MiB slot", slot, &slot.replace('/', "//"));
    let task = "SELECT task_id, count(*) AS n, min(ts) AS a, max(addr) AS b FROM faults GROUP BY task_id";
    compare(&dir, rounds, &mut duckdb, "group by task, two extremes", task, task);
    compare(&dir, rounds, &mut duckdb, "a tenth of the time, one mapping", &filtered, &filtered);
}
