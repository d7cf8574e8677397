//! What a program that only faults takes with nothing attached, under `perf record` with a large buffer, and under
//! `pagelab record`, in interleaved rounds. For information: the bounds are on what `fault_cost` measures.
//!
//! Needs tracefs for perf (tools/bench mounts it), and the binaries fault_program and pagelab in its own folder.
//!
//! Usage: fault_rivals [ROUNDS]

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

const FAULTS: &str = "1000000";

/// Runs the program behind `before` and returns the ns per fault that it measured itself.
fn timed(before: &[&str], program: &Path) -> Result<f64> {
    let mut words: Vec<&str> = before.to_vec();
    let program = program.to_str().context("path of fault_program")?;
    words.extend([program, FAULTS]);
    let output = Command::new(words[0]).args(&words[1..]).output().with_context(|| format!("running {words:?}"))?;
    ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.trim().parse::<f64>().is_ok()).context("fault_program prints its time")?;
    Ok(line.trim().parse::<f64>()? / FAULTS.parse::<f64>()?)
}

fn main() -> Result<()> {
    let rounds: usize =
        std::env::args().nth(1).map_or(Ok(7), |text| text.parse()).context("ROUNDS: needed a number")?;
    let beside: PathBuf = std::env::current_exe()?.parent().context("a directory")?.to_path_buf();
    let (program, pagelab) = (beside.join("fault_program"), beside.join("pagelab"));
    let scratch = PathBuf::from("/dev/shm").join(format!("pagelab-rivals-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let (data, recording) = (scratch.join("perf.data"), scratch.join("rec"));
    let (data, recording) = (data.to_str().context("path")?, recording.to_str().context("path")?);
    let pagelab = pagelab.to_str().context("path")?;
    for _ in 0..rounds {
        let nothing = timed(&[], &program)?;
        let perf = timed(
            &["perf", "record", "-q", "-m", "4096", "-e", "exceptions:page_fault_user", "-o", data, "--"],
            &program,
        )?;
        let perf_bytes = std::fs::metadata(data)?.len();
        let ours = timed(&[pagelab, "record", "-o", recording, "--"], &program)?;
        let faults_bytes: u64 = std::fs::read_dir(scratch.join("rec"))?
            .flatten()
            .filter(|entry| entry.path().is_dir())
            .flat_map(|entry| std::fs::read_dir(entry.path()).into_iter().flatten().flatten())
            .filter_map(|part| part.metadata().ok())
            .map(|meta| meta.len())
            .sum();
        std::fs::remove_dir_all(recording)?;
        println!(
            "{}",
            json!({"ns_per_fault": {"nothing": nothing, "perf_record": perf, "pagelab_record": ours},
                   "over_nothing": {"perf_record": perf / nothing, "pagelab_record": ours / nothing},
                   "bytes": {"perf_record": perf_bytes, "pagelab_record_all_tables": faults_bytes}})
        );
    }
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}
