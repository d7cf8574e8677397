//! Signals that people and scripts send to fio, sent to the front end: what it prints, that it goes on, its exit status.

use crate::common;

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{children, pagelab};

/// Everybody below a process.
fn family(pid: u32) -> Vec<u32> {
    children(pid).into_iter().flat_map(|child| std::iter::once(child).chain(family(child))).collect()
}

/// A job of two workers under way in `program`, which gets `signals` some time apart, and is waited for.
fn signalled(mut program: Command, more: &str, signals: &[i32]) -> Output {
    // fio starts workers itself, the front end by another process.
    let members = if program.get_program() == "fio" { 2 } else { 3 };
    let job = "--name=s --ioengine=null --rw=randwrite --bs=4k --size=4m --time_based --rate_iops=500 --numjobs=2";
    let child = program
        .args(job.split(' '))
        .args(more.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let begun = Instant::now();
    while family(child.id()).len() < members && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(600));
    for signal in signals {
        // SAFETY: sends a signal to a process that this test started and has not waited for.
        assert_eq!(unsafe { libc::kill(child.id().cast_signed(), *signal) }, 0);
        std::thread::sleep(Duration::from_millis(400));
    }
    let output = child.wait_with_output().expect("ends");
    assert!(begun.elapsed() < Duration::from_secs(30));
    output
}

/// The JSON documents in an output; fio says before one that it was ended.
fn documents(output: &Output) -> Vec<serde_json::Value> {
    let text = format!("\n{}", String::from_utf8_lossy(&output.stdout));
    let parts = text.split("\n{\n").skip(1);
    parts
        .map(|part| {
            let body = &part[..part.find("\n}").expect("its end")];
            serde_json::from_str(&format!("{{\n{body}\n}}")).expect("a document")
        })
        .collect()
}

fn writes(document: &serde_json::Value) -> Vec<u64> {
    let jobs = document["jobs"].as_array().expect("jobs");
    jobs.iter().map(|job| job["write"]["total_ios"].as_u64().expect("a count")).collect()
}

#[test]
fn a_report_of_the_run_so_far_comes_when_it_is_asked_for() {
    for program in [common::fio_program(), pagelab()] {
        let output = signalled(program, "--runtime=2 --output-format=json", &[libc::SIGUSR1, libc::SIGUSR1]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let done: Vec<Vec<u64>> = documents(&output).iter().map(writes).collect();
        assert_eq!(done.len(), 3, "two on request, and the last: {done:?}");
        for worker in 0..2 {
            let done: Vec<u64> = done.iter().map(|document| document[worker]).collect();
            assert!(0 < done[0] && done[0] < done[1] && done[1] < done[2], "{done:?}");
            assert!((900..=1001).contains(&done[2]), "it went on to its end: {done:?}");
        }
    }
}

#[test]
fn a_worker_that_is_busy_keeps_no_report_from_the_others() {
    // One pauses for seconds, one has ended, one has not begun: their reports are not waited for.
    let more = "--runtime=2 --output-format=json --name=late --ioengine=null --rw=read --size=4k --stonewall";
    let output = signalled(pagelab(), &format!("--thinktime=1500ms {more}"), &[libc::SIGUSR1]);
    assert!(output.status.success());
    let documents = documents(&output);
    assert_eq!(documents.len(), 2);
    assert_eq!(documents[0]["jobs"].as_array().map(Vec::len), Some(3));
    assert_eq!(documents[0]["jobs"][2]["jobname"], "late");
    assert_eq!(documents[0]["jobs"][2]["read"]["total_ios"], 0);
    assert_eq!(documents[1]["jobs"][2]["read"]["total_ios"], 1);
}

#[test]
fn a_run_cut_short_ends_with_its_report_and_fios_status() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        for program in [common::fio_program(), pagelab()] {
            let output = signalled(program, "--runtime=60 --output-format=json", &[signal]);
            assert_eq!(output.status.code(), Some(128), "{:?}", output.status.signal());
            let done: Vec<Vec<u64>> = documents(&output).iter().map(writes).collect();
            assert_eq!(done.len(), 1);
            assert!(done[0].iter().all(|done| (1..2000).contains(done)), "{done:?}");
        }
    }
}

/// With sched_autogroup the scheduler shares CPUs out by sessions: workers that stay in their caller's get one share together.
#[test]
fn each_worker_process_has_a_session_of_its_own() {
    let sessions = |mut program: Command, workers_of: &dyn Fn(u32) -> Vec<u32>| {
        let mut child = program
            .args(["--name=s", "--ioengine=null", "--size=1m", "--time_based", "--runtime=60", "--numjobs=3"])
            .stdout(Stdio::null())
            .spawn()
            .expect("starts");
        let begun = Instant::now();
        let mut workers = Vec::new();
        while workers.len() < 3 && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(20));
            workers = workers_of(child.id());
        }
        std::thread::sleep(Duration::from_millis(100));
        let own: Vec<bool> = workers
            .iter()
            .map(|pid| {
                // SAFETY: getsid(2) reads a number.
                let session = unsafe { libc::getsid(pid.cast_signed()) };
                session == pid.cast_signed()
            })
            .collect();
        // SAFETY: as a terminal's Ctrl-C: it reaches the caller, and not the workers.
        unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
        assert_eq!(child.wait().expect("ends").code(), Some(128));
        assert!(workers.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()));
        own
    };
    let of_fio = sessions(common::fio_program(), &children);
    let ours = sessions(pagelab(), &|pid| children(pid).iter().flat_map(|load| children(*load)).collect());
    assert_eq!(of_fio, [true; 3]);
    assert_eq!(ours, of_fio);
}
