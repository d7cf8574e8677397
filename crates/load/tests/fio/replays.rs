//! `read_iolog`: logs written by one are replayed by the other, with the same operations.

use std::path::Path;
use std::process::{Command, Output};

use pagelab_load::JobReport;

use crate::common::{document, fio_program, pagelab};

fn command(fio: bool) -> Command {
    let mut command = if fio { fio_program() } else { pagelab() };
    command.arg(if fio { "--output-format=json" } else { "--output-format=report" });
    command
}

fn try_in(place: &Path, fio: bool, job: &str) -> Output {
    let words = job.split(' ').filter(|word| !word.is_empty());
    command(fio)
        .current_dir(place)
        .args(words)
        .output()
        .expect("fio is installed (apt-get install fio); `make test` does it")
}

/// Runs a job in a directory: (operations, bytes) of reads and of writes, and flushes.
fn run_in(place: &Path, fio: bool, job: &str) -> [u64; 5] {
    let output = try_in(place, fio, job);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{job}: {words}{}", String::from_utf8_lossy(&output.stdout));
    if fio {
        let job = &document(&output)["jobs"][0];
        let of = |a: &str, b: &str| job[a][b].as_u64().expect("a number");
        return [
            of("read", "total_ios"),
            of("read", "io_bytes"),
            of("write", "total_ios"),
            of("write", "io_bytes"),
            job["sync"]["lat_ns"]["N"].as_u64().expect("a number"),
        ];
    }
    crate::common::totals(&serde_json::from_slice(&output.stdout).expect("a report"))
}

/// Direction, length and offset of each operation, from a log of operations per second.
fn operations(place: &Path) -> Vec<(u64, u64, u64)> {
    let text = std::fs::read_to_string(place.join("seen_iops.1.log")).expect("a log");
    let number = |word: Option<&str>| word.expect("a word").trim().parse::<u64>().expect("a number");
    text.lines()
        .map(|line| {
            let mut words = line.split(',').skip(2);
            (number(words.next()), number(words.next()), number(words.next()))
        })
        .collect()
}

#[test]
fn logs_of_both_are_replayed_by_both() {
    for (job, engine) in [
        ("--rw=randrw --bsrange=4k-16k --size=256k --fsync=8", "psync"),
        ("--rw=write --bs=4k --size=128k --nrfiles=3 --fdatasync=4", "psync"),
        ("--rw=randread --bs=4k --size=128k --numjobs=1", "libaio"),
    ] {
        for written_by_fio in [true, false] {
            let place = tempfile::tempdir().expect("tempdir");
            run_in(place.path(), written_by_fio, &format!("--name=j {job} --write_iolog=log"));
            for more in ["", "--replay_align=8k", "--replay_redirect=j.0.0"] {
                if more.contains("redirect") && job.contains("nrfiles") {
                    continue;
                }
                let replay = format!(
                    "--name=r --ioengine={engine} --read_iolog=log --replay_no_stall=1 {more} --write_iops_log=seen --log_offset=1"
                );
                // fio's own replay writes to files that it or pagelab made; pagelab's needs files of its own or the
                // user's permission.
                let allowed: Vec<String> =
                    (0..3).map(|file| format!(" --allow-write={}/j.0.{file}", place.path().display())).collect();
                let allowed = allowed.concat();
                let theirs = run_in(place.path(), true, &replay);
                let seen_by_fio = operations(place.path());
                std::fs::remove_file(place.path().join("seen_iops.1.log")).expect("removed");
                let ours = run_in(place.path(), false, &format!("{replay}{allowed}"));
                assert_eq!(ours[..4], theirs[..4], "{replay} of {job}");
                assert_eq!(ours[4], theirs[4], "flushes: {replay} of {job}");
                assert_eq!(operations(place.path()), seen_by_fio, "{replay} of {job}");
                std::fs::remove_file(place.path().join("seen_iops.1.log")).expect("removed");
            }
        }
    }
}

fn report(place: &Path, job: &str) -> JobReport {
    let output = try_in(place, false, job);
    assert!(output.status.success(), "{job}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a report")
}

#[test]
fn delays_are_kept_and_scaled() {
    let place = tempfile::tempdir().expect("tempdir");
    let place = place.path();
    let lines =
        "fio version 3 iolog\n0 f add\n0 f open\n1000 f write 0 4096\n61000 f write 4096 4096\n121000 f close\n";
    std::fs::write(place.join("three"), lines).expect("write");
    std::fs::write(place.join("two"), "fio version 2 iolog\nf add\nf open\nf wait 80 0\nf write 0 4096\nf close\n")
        .expect("write");
    for (job, least_ms) in [
        ("--read_iolog=three", 120),
        ("--read_iolog=three --replay_time_scale=200", 60),
        ("--read_iolog=three --replay_time_scale=50 --ioengine=io_uring", 240),
        ("--read_iolog=two", 80),
    ] {
        let report = report(place, &format!("--name=r {job}"));
        let ns = report.window.expect("measured").duration_ns();
        assert!(ns >= least_ms * 1_000_000, "{job}: {ns} ns");
        assert_eq!(report.bytes, if job.contains("two") { 4096 } else { 8192 });
    }
    // A wait can be ended by time.
    let endless = "fio version 2 iolog\nf add\nf open\nf write 0 4096\nf wait 100000000 0\nf write 0 4096\n";
    std::fs::write(place.join("endless"), endless).expect("write");
    assert_eq!(report(place, "--name=r --read_iolog=endless --runtime=1").operations, 1);
    assert_eq!(report(place, "--name=r --read_iolog=endless --replay_no_stall=1").operations, 2);
    // Workers take turns with the logs.
    let report = report(place, "--name=r --read_iolog=two:three --replay_no_stall=1 --numjobs=2");
    let operations: Vec<u64> = report.workers.iter().map(pagelab_load::report::WorkerReport::operations).collect();
    assert_eq!(operations, [1, 2]);
}

#[test]
fn logs_that_cannot_be_replayed_are_refused_with_their_line() {
    let place = tempfile::tempdir().expect("tempdir");
    let place = place.path();
    let refused = |text: &str, more: &str| {
        std::fs::write(place.join("log"), text).expect("write");
        let output = try_in(place, false, &format!("--name=r --read_iolog=log {more}"));
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let head = "fio version 3 iolog\n0 f add\n";
    assert!(refused("what\n", "").contains("log:1"));
    assert!(refused(&format!("{head}0 f fly 0 4096\n"), "").contains("log:3"));
    assert!(refused(&format!("{head}0 g read 0 4096\n"), "").contains("adds this file"));
    assert!(refused(head, "").contains("no operation"));
    assert!(refused(head, "--verify=md5").contains("verify"));
    assert!(refused(head, "--ioengine=anon --size=1m").contains("works on files"));
    // What the log writes to is looked at as if the job named it.
    std::fs::write(place.join("f"), "precious").expect("write");
    let words = refused(&format!("{head}0 f open\n0 f write 0 4096\n"), "");
    assert!(words.contains("--allow-write"), "{words}");
    assert_eq!(std::fs::read(place.join("f")).expect("read"), b"precious");
}
