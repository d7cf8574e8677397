//! Real jobs of fio under `pagelab record --observe syscalls`: the way in which each walks through its file must be found by
//! `pagelab show io` in at least 57 of 60 cases. What fio was told to do is the truth.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Bytes of each file, and of each operation unless the job says otherwise.
const SIZE: usize = 16 << 20;

/// Options of fio, and the patterns of reads and of writes that they make.
struct Job {
    options: Vec<String>,
    read: Option<&'static str>,
    write: Option<&'static str>,
}

fn job(options: &str, read: Option<&'static str>, write: Option<&'static str>) -> Job {
    Job { options: options.split_whitespace().map(str::to_owned).collect(), read, write }
}

fn jobs() -> Vec<Job> {
    let (seq, random) = (Some("sequential"), Some("random"));
    let (strided, descending) = (Some("strided"), Some("descending"));
    let mut jobs = Vec::new();
    for engine in ["sync", "psync", "vsync", "pvsync"] {
        let with = |options: &str| format!("--ioengine={engine} {options}");
        jobs.push(job(&with("--rw=read"), seq, None));
        jobs.push(job(&with("--rw=write"), None, seq));
        jobs.push(job(&with("--rw=randread"), random, None));
        jobs.push(job(&with("--rw=randwrite"), None, random));
        jobs.push(job(&with("--rw=rw"), seq, seq));
        jobs.push(job(&with("--rw=randrw"), random, random));
        jobs.push(job(&with("--rw=read:8k"), strided, None));
        jobs.push(job(&with("--rw=read:-8k"), descending, None));
    }
    for percent in [5, 10, 20] {
        let with = |options: &str| format!("{options} --percentage_random={percent}");
        jobs.push(job(&with("--rw=read"), seq, None));
        jobs.push(job(&with("--rw=write"), None, seq));
        jobs.push(job(&with("--rw=rw"), seq, seq));
        let rest = 100 - percent;
        jobs.push(job(&format!("--rw=randread --percentage_random={rest}"), random, None));
        jobs.push(job(&format!("--rw=randwrite --percentage_random={rest}"), None, random));
    }
    jobs.push(job("--rw=rw --percentage_random=0,100", seq, random));
    jobs.push(job("--rw=rw --percentage_random=100,0", random, seq));
    jobs.push(job("--rw=read --zonemode=strided --zonesize=256k --zoneskip=256k", seq, None));
    jobs.push(job("--rw=write --zonemode=strided --zonesize=1m --zoneskip=1m", None, seq));
    jobs.push(job("--rw=randread --random_distribution=zipf:1.1 --norandommap", random, None));
    jobs.push(job("--rw=randread --bssplit=4k/50:16k/30:64k/20", random, None));
    jobs.push(job("--rw=read --bsrange=1k-64k --bs_unaligned=1", seq, None));
    jobs.push(job("--rw=write --bsrange=1k-64k --bs_unaligned=1 --fsync=32", None, seq));
    jobs.push(job("--rw=read --thread --numjobs=4 --offset_increment=4m --size=4m", seq, None));
    jobs.push(job("--rw=write --thread --numjobs=4 --offset_increment=4m --size=4m", None, seq));
    jobs.push(job("--rw=randread --thread --numjobs=4", random, None));
    jobs.push(job("--rw=randrw --rwmixread=80", random, random));
    jobs.push(job("--rw=read:60k", strided, None));
    jobs
}

/// The pattern that has most operations among the processes that used the file.
fn found(io: &Value, way: &str) -> Option<String> {
    let operations = |row: &&Value| {
        let kinds = row[way]["kinds"].as_object().unwrap();
        kinds.iter().filter(|(kind, _)| *kind != "streams").map(|(_, count)| count.as_u64().unwrap()).sum::<u64>()
    };
    let row = io["files"].as_array().unwrap().iter().max_by_key(operations)?;
    row[way]["pattern"].as_str().map(str::to_owned)
}

/// Records one job after the other, each on a file of its own in `dir`: where a recording begins and ends takes as long as the job.
fn recorded(jobs: &[Job], dir: &Path) -> PathBuf {
    let mut script = "set -e\n".to_owned();
    for (number, job) in jobs.iter().enumerate() {
        let file = walked(dir, number);
        fs::write(&file, vec![7_u8; SIZE]).unwrap();
        let fio = "fio --clocksource=clock_gettime --name=job --bs=4k --size=16m --ioengine=psync --randseed=7 \
                   --fallocate=none --invalidate=0 --output=/dev/null";
        writeln!(script, "{fio} --filename={} {}", file.display(), job.options.join(" ")).unwrap();
    }
    let recording = dir.join("rec");
    let output = Command::new(env!("CARGO_BIN_EXE_pagelab"))
        .args(["record", "--observe", "tasks,syscalls", "-o"])
        .arg(&recording)
        .args(["--", "sh", "-c", &script])
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    recording
}

fn walked(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("walked-{number}"))
}

fn classified(job: &Job, recording: &Path, file: &Path) -> Result<(), String> {
    let mut show = Command::new(env!("CARGO_BIN_EXE_pagelab"));
    let output = show.arg("show").arg(recording).args(["io", "--json", "--file"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{:?}: {}", job.options, String::from_utf8_lossy(&output.stderr));
    let io: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (way, expected) in [("reads", job.read), ("writes", job.write)] {
        let said = found(&io, way);
        if expected.is_some() && said.as_deref() != expected {
            return Err(format!("{:?}: {way} are {said:?}, not {expected:?}", job.options));
        }
    }
    Ok(())
}

#[test]
fn fio_jobs_are_called_what_they_are() {
    let jobs = jobs();
    assert_eq!(jobs.len(), 60);
    let mut wrong = Vec::new();
    for some in jobs.chunks(12) {
        let dir = tempfile::tempdir().unwrap();
        let recording = recorded(some, dir.path());
        let errors = some.iter().enumerate().map(|(at, job)| classified(job, &recording, &walked(dir.path(), at)));
        wrong.extend(errors.filter_map(Result::err));
    }
    println!("{} of {} right", jobs.len() - wrong.len(), jobs.len());
    assert!(wrong.len() * 20 <= jobs.len(), "{} of {} wrong:\n{}", wrong.len(), jobs.len(), wrong.join("\n"));
}
