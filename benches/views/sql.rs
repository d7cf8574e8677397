//! What SQL costs: queries over a recording of 10 million faults, beside DuckDB on the same Parquet files, and the bytes
//! that a filter by time and mapping reads.
//!
//! `cargo bench -p pagelab-views --bench sql -- [FAULTS] [ROUNDS] [DIR]`, with DuckDB from `tools/install-venv dataframes`.
//! DIR keeps the recording for the next time. Both engines have two threads and the files in the page cache; the queries
//! alternate between them, first one and then the other engine, and their answers must be equal. Times are medians of all
//! rounds; the ratio is the median of the rounds' ratios.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use pagelab_recording::tables::MappingsRow;
use pagelab_recording::{Manifest, Recording, RecordingWriter, WriterOptions};
use pagelab_views::sql::{Answer, Format, QueryOptions, answer};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const THREADS: usize = 2;
const MAPPINGS: u32 = 256;
const MAPPING_BYTES: u64 = 128 << 20;
const BASE: u64 = 0x7f00_0000_0000;
const TASKS: u32 = 4;
/// Faults of one task in one mapping before it turns to another.
const BURST: u64 = 20_000;

fn start_of(mapping: u32) -> u64 {
    BASE + u64::from(mapping) * (MAPPING_BYTES + (1 << 20))
}

/// Four tasks of one address space, each of which walks through one of 256 mappings for a while and then through another,
/// page after page, at some 600,000 faults a second.
fn generate(dir: &Path, faults: u64) {
    let options = WriterOptions { part_interval: Duration::from_secs(1), ..WriterOptions::default() };
    let mut writer = RecordingWriter::create(dir, Manifest::default(), options).expect("a new recording");
    for mapping in 0..MAPPINGS {
        writer.push_mappings(&MappingsRow {
            mm_id: 3,
            mapping_id: Some(mapping),
            op: "mmap",
            kind: "call",
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
        if fault % 600_000 == 599_999 {
            writer.flush(ts).expect("flush");
        }
    }
    let start = Instant::now();
    writer.close(|_| ()).expect("close");
    println!("closing {faults} faults took {:.2} s", start.elapsed().as_secs_f64());
}

/// A process that answers queries with DuckDB.
struct DuckDb {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl DuckDb {
    fn start() -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let found = std::env::var_os("DUCKDB_PYTHON").map(PathBuf::from);
        let python = found.unwrap_or_else(|| here.join("target/dataframes/bin/python"));
        let mut child = Command::new(python)
            .arg(here.join("benches/views/duckdb_times.py"))
            .arg(THREADS.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("DuckDB: run tools/install-venv dataframes first, or set DUCKDB_PYTHON");
        let ask = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut duckdb = Self { child, ask, answers };
        println!("DuckDB {}", duckdb.line());
        duckdb
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer of DuckDB");
        line.trim().to_owned()
    }

    /// Seconds, and the number of rows and the sum of all values.
    fn query(&mut self, sql: &str) -> (f64, String) {
        writeln!(self.ask, "{sql}").expect("DuckDB runs");
        let line = self.line();
        let (seconds, answer) = line.split_once(' ').expect("seconds and answer");
        (seconds.parse().expect("seconds"), answer.to_owned())
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(dir: &Path, rounds: usize, duckdb: &mut DuckDb, name: &str, sql: &str, other: &str) {
    let parquet = format!("read_parquet('{}/faults/*.parquet')", dir.display());
    let other = other.replace("faults", &parquet);
    let (mut mine, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let first = (round % 2 == 0).then(|| duckdb.query(&other));
        let (seconds, found, _) = ours(dir, sql);
        let (rival, expected) = first.unwrap_or_else(|| duckdb.query(&other));
        assert_eq!(found, expected, "{sql}");
        // The first round fills the caches.
        if round > 0 {
            mine.push(seconds);
            theirs.push(rival);
            ratios.push(seconds / rival);
        }
    }
    println!(
        "{name:34} pagelab {:8.1} ms   DuckDB {:8.1} ms   ratio {:.2} (lowest {:.2}, highest {:.2})",
        median(mine) * 1e3,
        median(theirs) * 1e3,
        median(ratios.clone()),
        ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratios.iter().copied().fold(0.0, f64::max),
    );
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
    let mut duckdb = DuckDb::start();
    let slot = "SELECT addr / 2097152 AS slot, count(*) AS n FROM faults GROUP BY slot";
    compare(&dir, rounds, &mut duckdb, "group by 2 MiB slot", slot, &slot.replace('/', "//"));
    let task = "SELECT task_id, count(*) AS n, min(ts) AS a, max(addr) AS b FROM faults GROUP BY task_id";
    compare(&dir, rounds, &mut duckdb, "group by task, two extremes", task, task);
    compare(&dir, rounds, &mut duckdb, "a tenth of the time, one mapping", &filtered, &filtered);
}
