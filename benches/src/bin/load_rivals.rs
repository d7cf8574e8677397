//! The same job under fio and under `pagelab run`, in interleaved pairs, by the method of DESIGN section 8: the figure
//! is the median of the paired ratios of operations per second, with a bootstrap interval; the bound is on its low end.
//! Every pair is checked: both did the job (the bytes are the operations times the block size) and both timed every
//! operation that the job says is timed. For copies from mapped memory a bare timed C loop runs as a third side.
//!
//! Files lie on tmpfs, but for io_uring on a disk and in the page cache: reads of tmpfs files go to threads of the kernel's.
//!
//! Usage: load_rivals [PAIRS] [CASE]      (as root; needs fio and cc; files lie in /dev/shm and in /var/tmp)

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pagelab_analysis::stats::{Bootstrap, Interval, bootstrap_median};
use serde_json::{Value, json};

const SECONDS: &str = "2";
/// Far larger than the caches.
const FILE_BYTES: u64 = 1 << 30;

/// A job, and how many times faster than its rival it has to be.
struct Case {
    name: &'static str,
    options: &'static [&'static str],
    /// Options that only pagelab gets.
    ours: &'static [&'static str],
    block_bytes: u64,
    over_fio: Option<f64>,
    over_c: Option<f64>,
    /// Whether every operation has a latency.
    timed: bool,
    /// The file lies on a disk.
    on_disk: bool,
}

/// Depth 32, submitted and completed 16 at a time, on what is cached.
const URING: [&str; 7] = [
    "--ioengine=io_uring",
    "--rw=randread",
    "--bs=4k",
    "--iodepth=32",
    "--iodepth_batch=16",
    "--iodepth_batch_complete_min=16",
    "--invalidate=0",
];
const URING_FIXED: [&str; 9] =
    [URING[0], URING[1], URING[2], URING[3], URING[4], URING[5], URING[6], "--fixedbufs=1", "--registerfiles=1"];

const MMAP: [&str; 2] = ["--ioengine=mmap", "--rw=randread"];

fn cases() -> Vec<Case> {
    let case = |name, options, block_bytes, over_fio, over_c| Case {
        name,
        options,
        ours: &[],
        block_bytes,
        over_fio,
        over_c,
        timed: true,
        on_disk: false,
    };
    vec![
        case("null", &["--ioengine=null", "--rw=randread", "--bs=4k"], 4096, Some(5.0), None),
        case("mmap-64", &[MMAP[0], MMAP[1], "--bs=64"], 64, Some(1.4), Some(0.93)),
        case("mmap-512", &[MMAP[0], MMAP[1], "--bs=512"], 512, None, Some(0.93)),
        case("mmap-4096", &[MMAP[0], MMAP[1], "--bs=4k"], 4096, None, Some(0.93)),
        Case {
            ours: &["--latency_sample=1000"],
            timed: false,
            ..case("mmap-64-sampled", &[MMAP[0], MMAP[1], "--bs=64"], 64, Some(10.0), None)
        },
        case("psync", &["--ioengine=psync", "--rw=randread", "--bs=4k"], 4096, Some(1.15), None),
        Case { on_disk: true, ..case("io_uring", &URING, 4096, Some(1.15), None) },
        Case { on_disk: true, ..case("io_uring-fixed", &URING_FIXED, 4096, Some(1.15), None) },
        // The job of EXPERIMENTS 3: 2 MiB over and over.
        case("sequential-write", &["--ioengine=sync", "--rw=write", "--bs=,4k", "--iodepth=1"], 4096, Some(1.1), None),
    ]
}

/// The results of one run.
#[derive(Debug, Clone, Copy)]
struct Done {
    operations: u64,
    per_second: f64,
    latencies: u64,
}

fn read_report(text: &str, block_bytes: u64) -> Result<Done> {
    let begin = text.find('{').context("no JSON")?;
    let document: Value = serde_json::from_str(&text[begin..]).context("the report")?;
    let job = &document["jobs"][0];
    let side = |name: &str| (job[name]["total_ios"].as_u64().unwrap_or(0), name.to_owned());
    let (operations, name) = side("read").max(side("write"));
    let side = &job[&name];
    ensure!(side["io_bytes"].as_u64() == Some(operations * block_bytes), "bytes are not operations x block: {side}");
    Ok(Done {
        operations,
        per_second: side["iops"].as_f64().context("iops")?,
        latencies: side["clat_ns"]["N"].as_u64().unwrap_or(0),
    })
}

struct Bench {
    scratch: PathBuf,
    disk: PathBuf,
    pagelab: PathBuf,
    timed_copy: PathBuf,
}

impl Bench {
    fn new() -> Result<Self> {
        let scratch = PathBuf::from("/dev/shm").join(format!("pagelab-load-rivals-{}", std::process::id()));
        let disk = PathBuf::from("/var/tmp").join(format!("pagelab-load-rivals-{}", std::process::id()));
        std::fs::create_dir_all(&scratch)?;
        std::fs::create_dir_all(&disk)?;
        let timed_copy = scratch.join("timed_copy");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/timed_copy.c");
        let built = Command::new("cc").args(["-O2", "-o"]).arg(&timed_copy).arg(source).status().context("cc")?;
        ensure!(built.success(), "cc failed");
        let pagelab = std::env::current_exe()?.with_file_name("pagelab");
        Ok(Self { scratch, disk, pagelab, timed_copy })
    }

    fn file(&self) -> PathBuf {
        self.scratch.join("file")
    }

    /// The options that make the job one run of [`SECONDS`] on the bench's file.
    fn options(&self, case: &Case) -> Vec<String> {
        let mut words = vec![format!("--name={}", case.name), "--time_based".into(), format!("--runtime={SECONDS}")];
        words.extend(case.options.iter().map(|word| (*word).to_owned()));
        let writes = case.name == "sequential-write";
        let bytes = if writes { 2 << 20 } else { FILE_BYTES };
        words.push(format!("--size={bytes}"));
        if case.name != "null" {
            let name = if writes { "written" } else { "file" };
            let place = if case.on_disk { &self.disk } else { &self.scratch };
            words.push(format!("--filename={}", place.join(name).display()));
        }
        words
    }

    fn fio(&self, case: &Case) -> Result<Done> {
        let written = self.scratch.join("written");
        _ = std::fs::remove_file(written);
        let output = Command::new("fio").args(self.options(case)).arg("--output-format=json").output()?;
        ensure!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr));
        read_report(&String::from_utf8_lossy(&output.stdout), case.block_bytes)
    }

    fn pagelab(&self, case: &Case) -> Result<Done> {
        let recording = self.scratch.join("recording");
        _ = std::fs::remove_file(self.scratch.join("written"));
        let mut command = Command::new(&self.pagelab);
        command.args(["run", "--output-format", "json", "-o"]).arg(&recording);
        let output = command.args(self.options(case)).args(case.ours).output()?;
        ensure!(output.status.success(), "pagelab: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::remove_dir_all(&recording)?;
        read_report(&String::from_utf8_lossy(&output.stdout), case.block_bytes)
    }

    fn bare(&self, case: &Case) -> Result<f64> {
        let output =
            Command::new(&self.timed_copy).arg(self.file()).arg(case.block_bytes.to_string()).arg(SECONDS).output()?;
        ensure!(output.status.success(), "timed_copy: {}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
    }

    fn case(&self, case: &Case, pairs: usize) -> Result<Value> {
        let (mut over_fio, mut over_c, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..pairs {
            // Which goes first alternates, so that a drift of the machine favours nobody; pagelab stands between its rivals.
            let bare = || case.over_c.map(|_| self.bare(case)).transpose();
            let (theirs, ours, bare) = if pair % 2 == 0 {
                let (theirs, ours) = (self.fio(case)?, self.pagelab(case)?);
                (theirs, ours, bare()?)
            } else {
                let (bare, ours) = (bare()?, self.pagelab(case)?);
                (self.fio(case)?, ours, bare)
            };
            ensure!(theirs.latencies == theirs.operations, "fio timed {} of {}", theirs.latencies, theirs.operations);
            if case.timed {
                ensure!(ours.latencies == ours.operations, "pagelab timed {} of {}", ours.latencies, ours.operations);
            }
            over_fio.push(ours.per_second / theirs.per_second);
            over_c.extend(bare.map(|bare| ours.per_second / bare));
            rates.push(json!({"fio": theirs.per_second, "pagelab": ours.per_second, "c": bare}));
        }
        let interval = |values: &[f64], bound: Option<f64>| -> Result<Value> {
            if values.is_empty() {
                return Ok(Value::Null);
            }
            let Interval { estimate, low, high, .. } = bootstrap_median(values, &Bootstrap::default())?;
            Ok(json!({"median": estimate, "low": low, "high": high, "bound": bound,
                      "holds": bound.map(|bound| low >= bound)}))
        };
        Ok(json!({"case": case.name, "pairs": pairs, "over_fio": interval(&over_fio, case.over_fio)?,
                  "over_c_loop": interval(&over_c, case.over_c)?, "operations_per_second": rates}))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.scratch);
        _ = std::fs::remove_dir_all(&self.disk);
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let pairs: usize = args.next().map_or(Ok(15), |text| text.parse()).context("PAIRS: needed a number")?;
    let only = args.next();
    let bench = Bench::new()?;
    // Laid out once and read by all.
    let wanted: Vec<Case> =
        cases().into_iter().filter(|case| only.as_ref().is_none_or(|only| only == case.name)).collect();
    lay_out(&bench.file())?;
    if wanted.iter().any(|case| case.on_disk) {
        lay_out(&bench.disk.join("file"))?;
    }
    for case in &wanted {
        println!("{}", bench.case(case, pairs)?);
    }
    Ok(())
}

/// A file of [`FILE_BYTES`], in the page cache and on its medium.
fn lay_out(path: &Path) -> Result<()> {
    let chunk = vec![0x5a_u8; 1 << 20];
    let mut out = std::fs::File::create(path)?;
    for _ in 0..FILE_BYTES >> 20 {
        std::io::Write::write_all(&mut out, &chunk)?;
    }
    Ok(out.sync_all()?)
}
