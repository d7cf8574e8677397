//! How long `pagelab compare` takes, and how much memory: two sets of 100 runs with 2,000 metrics each, and two sets of 20
//! runs of a large recording.
//!
//! Each round runs every program given once, in turn, so that a build can be compared with the one before. Times are
//! medians; memory is the peak of the resident set, as the kernel counts it for the ended process.
//!
//! Usage: compare_cost metrics|REC [ROUNDS] [PROGRAM]...
//!
//! `metrics` makes the runs with 2,000 metrics in a temporary directory. REC is a recording that stands for each of 2 x 20 runs,
//! by hard links: `cargo bench -p pagelab-sql --bench sql` keeps one of 10 million faults.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use pagelab_analysis::stats::median;
use pagelab_recording::tables::MetricsRow;
use pagelab_recording::{Manifest, Measured, MeasuredBy, RecordingWriter, WriterOptions};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RUNS: u64 = 100;
const SECONDS: i64 = 10;
const SECOND_NS: i64 = 1_000_000_000;
const COUNTERS: [&str; 8] = [
    "disk.reads",
    "disk.read_bytes",
    "disk.read_ns",
    "disk.writes",
    "disk.write_bytes",
    "disk.write_ns",
    "disk.busy_ns",
    "disk.flushes",
];
/// With eight counters each: 2,000 metrics.
const DEVICES: u64 = 250;

/// A run of ten seconds whose counters were read once a second. On `test` a tenth of the devices do a tenth more.
fn write_run(dir: &Path, run: u64, is_test: bool) -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(run * 2 + u64::from(is_test));
    let measured = Measured {
        start_ns: Some(0),
        end_ns: Some(SECONDS * SECOND_NS),
        operations: Some(1_000),
        source: Some(MeasuredBy::Load),
        ..Measured::default()
    };
    let manifest = Manifest { run: Some(run), round: Some(run), measured: Some(measured), ..Manifest::default() };
    let mut writer = RecordingWriter::create(dir, manifest, WriterOptions::default())?;
    let devices: Vec<(String, f64)> = (0..DEVICES)
        .map(|device| {
            let level = if is_test && device % 10 == 0 { 1.1 } else { 1.0 };
            (format!("nvme{device}n1"), level * (1.0 + 0.05 * rng.random::<f64>()))
        })
        .collect();
    for second in 0..=SECONDS {
        for (device, level) in &devices {
            for (number, name) in (1_u32..).zip(COUNTERS) {
                writer.push_metrics(&MetricsRow {
                    ts: second * SECOND_NS,
                    name,
                    instance: Some(device),
                    value: Some((second as f64 * 1e5 * f64::from(number) * level).floor()),
                });
            }
        }
    }
    writer.close(|_| ())?;
    Ok(())
}

/// Both sets; each run of a set is a recording.
fn write_sets(dir: &Path) -> Result<[PathBuf; 2]> {
    let sets = ["base", "test"].map(|side| dir.join(side));
    for (is_test, set) in [false, true].into_iter().zip(&sets) {
        for run in 0..RUNS {
            write_run(&set.join(format!("run={run}")), run, is_test)?;
        }
    }
    Ok(sets)
}

/// Both sets, each of 20 runs that are `recording` by hard links.
fn link_sets(recording: &Path, dir: &Path) -> Result<[PathBuf; 2]> {
    let sets = ["base", "test"].map(|side| dir.join(side));
    for set in &sets {
        for run in 0..20 {
            link(recording, &set.join(format!("run={run}")))?;
        }
    }
    Ok(sets)
}

fn link(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            link(&entry.path(), &target)?;
        } else {
            fs::hard_link(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Seconds, and the largest resident set in MiB.
fn time(program: &Path, sets: &[PathBuf; 2]) -> Result<(f64, f64)> {
    let mut command = Command::new(program);
    command.arg("compare").args(sets).arg("--json").stdout(Stdio::null());
    let start = Instant::now();
    let child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: the child is this process's, nobody else waits for it, and both results are written by the call.
    let (ended, usage) = unsafe {
        let ended = libc::wait4(libc::pid_t::try_from(child.id())?, &raw mut status, 0, usage.as_mut_ptr());
        (ended, usage.assume_init())
    };
    let seconds = start.elapsed().as_secs_f64();
    let status = std::process::ExitStatus::from_raw(status);
    ensure!(ended > 0 && status.code().is_some_and(|code| code <= 1), "{} compare: {status}", program.display());
    Ok((seconds, usage.ru_maxrss as f64 / 1024.0))
}

fn main() -> Result<()> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some((what, rest)) = words.split_first() else { bail!("found nothing, needed metrics or a recording") };
    let rounds = rest.first().and_then(|word| word.to_str()).map_or(Ok(5), str::parse::<usize>)?.max(1);
    let mut programs: Vec<PathBuf> = rest.iter().skip(1).map(PathBuf::from).collect();
    if programs.is_empty() {
        programs.push(std::env::current_exe()?.with_file_name("pagelab"));
    }
    // Hard links need the recording's file system.
    let beside = Path::new(what).parent().filter(|_| what != "metrics").map(Path::to_owned);
    let place = tempfile::tempdir_in(beside.unwrap_or_else(std::env::temp_dir))?;
    let sets = match what.to_str() {
        Some("metrics") => write_sets(place.path())?,
        _ => link_sets(Path::new(what), place.path())?,
    };
    let mut found = vec![(Vec::new(), Vec::new()); programs.len()];
    for round in 0..=rounds {
        for (program, (seconds, mib)) in programs.iter().zip(&mut found) {
            let (took, peak) = time(program, &sets)?;
            // The first round fills the caches.
            if round > 0 {
                seconds.push(took);
                mib.push(peak);
            }
        }
    }
    for (program, (seconds, mib)) in programs.iter().zip(&found) {
        println!("{}: {:.2} s, {:.0} MiB (medians of {rounds})", program.display(), median(seconds)?, median(mib)?);
    }
    Ok(())
}
