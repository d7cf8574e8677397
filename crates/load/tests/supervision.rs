//! The load process from outside: waiting for the word to go, ending early, dying with its parent.

use crate::common;

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{children, pagelab};
use pagelab_fiojob::parse_args;
use pagelab_load::{Control, JobReport, process, worker};

/// A load process started as session does it.
struct Load {
    child: Child,
    go: std::io::PipeWriter,
    report: std::io::PipeReader,
}

fn start(options: &str) -> Load {
    let arguments: Vec<String> =
        std::iter::once("--name=j").chain(options.split_whitespace()).map(str::to_owned).collect();
    let workload = serde_json::to_vec(&parse_args(&arguments).expect("valid")).expect("JSON");
    let (go_reader, go) = std::io::pipe().expect("pipe");
    let (report, report_writer) = std::io::pipe().expect("pipe");
    for fd in [go_reader.as_raw_fd(), report_writer.as_raw_fd()] {
        // SAFETY: both descriptors are open; only their close-on-exec flag changes.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }, 0);
    }
    let control = Control { go_fd: Some(go_reader.as_raw_fd()), ..Control::default() };
    let mut child = Command::new(env!("CARGO_BIN_EXE_pagelab-load"))
        .arg("__load")
        .args(process::arguments(&control, report_writer.as_raw_fd()))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("piped").write_all(&workload).expect("write");
    Load { child, go, report }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: sends a signal to a process that this test started.
    assert_eq!(unsafe { libc::kill(pid.cast_signed(), signal) }, 0);
}

#[test]
fn nothing_happens_before_the_word_to_go() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("f");
    let mut load = start(&format!("--filename={} --rw=write --size=64k", path.display()));
    // Long enough for a process that does not wait to have made its file; a slow one only makes the test weaker.
    std::thread::sleep(Duration::from_millis(200));
    assert!(!path.exists() && children(load.child.id()).is_empty());
    let before = pagelab_load::clock::monotonic_ns();
    load.go.write_all(b"g").expect("write");
    let report = worker::read_report(load.report).expect("report");
    assert!(load.child.wait().expect("wait").success());
    assert_eq!(report.operations, 16);
    assert!(report.run.start_ns >= before, "the run begins with the word");
}

#[test]
fn a_caller_that_goes_away_is_noticed() {
    let mut load = start("--ioengine=null --size=64k");
    drop(load.go);
    let mut words = String::new();
    load.child.stderr.take().expect("piped").read_to_string(&mut words).expect("read");
    assert_eq!(load.child.wait().expect("wait").code(), Some(2));
    assert!(words.contains("closed the go descriptor"), "{words}");
    assert!(worker::read_report(load.report).is_err());
}

#[test]
fn a_signal_ends_the_work_with_a_report() {
    for (number, mode) in [(libc::SIGINT, ""), (libc::SIGTERM, "--thread")] {
        let mut load =
            start(&format!("--ioengine=null --size=1m --rw=randrw --time_based --runtime=1000 --numjobs=2 {mode}"));
        load.go.write_all(b"g").expect("write");
        let pid = load.child.id();
        wait_until("starting both workers", || {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
            children(pid).len() == 2 || tasks == 3
        });
        std::thread::sleep(Duration::from_millis(300));
        // As a terminal does: the process and its workers all get it.
        for target in std::iter::once(pid).chain(children(pid)) {
            signal(target, number);
        }
        let report: JobReport = worker::read_report(load.report).expect("a whole report");
        assert!(load.child.wait().expect("wait").success());
        assert_eq!(report.interrupted_by, Some(number));
        assert!(report.succeeded() && report.workers.iter().all(|w| w.operations() > 0), "{:?}", report.warnings);
        assert_eq!(report.workers[0].read.lat.count, report.workers[0].read.operations);
    }
}

#[test]
fn a_second_signal_aborts() {
    // A worker stopped by SIGSTOP cannot end; its supervisor waits for it until the second signal.
    let mut load = start("--ioengine=null --size=1m --time_based --runtime=1000");
    load.go.write_all(b"g").expect("write");
    let pid = load.child.id();
    // It has its job's name as soon as its end is tied to its supervisor's; a process stopped before that would stay.
    wait_until("starting the worker", || {
        children(pid).first().is_some_and(|worker| comm(*worker).as_deref() == Some("j\n"))
    });
    let worker = children(pid)[0];
    signal(worker, libc::SIGSTOP);
    // Twice at once, as from `timeout` and a recorder that passes it on: one wish.
    signal(pid, libc::SIGINT);
    signal(pid, libc::SIGINT);
    std::thread::sleep(Duration::from_millis(50));
    signal(pid, libc::SIGINT);
    std::thread::sleep(Duration::from_millis(400));
    assert!(load.child.try_wait().expect("wait").is_none());
    signal(pid, libc::SIGINT);
    assert_eq!(load.child.wait().expect("wait").code(), Some(130));
    wait_until("the worker's end", || {
        !std::path::Path::new(&format!("/proc/{worker}/maps")).exists() || state(worker) == Some('Z')
    });
}

fn comm(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()
}

fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn workers_die_with_those_who_wait_for_them() {
    // Kill the front end with a signal that nobody can handle: the load process and its workers go, too.
    let mut front = pagelab()
        .args(["--name=j", "--ioengine=null", "--size=1m", "--time_based", "--runtime=1000", "--numjobs=2"])
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    let mut family = Vec::new();
    wait_until("starting everybody", || {
        family = children(front.id());
        let workers: Vec<u32> = family.iter().flat_map(|pid| children(*pid)).collect();
        family.extend(&workers);
        workers.len() == 2
    });
    front.kill().expect("kill");
    assert_eq!(front.wait().expect("wait").signal(), Some(libc::SIGKILL));
    for pid in family {
        wait_until("a worker's end", || state(pid).is_none_or(|state| state == 'Z'));
    }
}

#[test]
fn a_killed_worker_is_reported() {
    let mut load = start("--ioengine=null --size=1m --time_based --runtime=2 --numjobs=2");
    load.go.write_all(b"g").expect("write");
    let pid = load.child.id();
    wait_until("starting both workers", || children(pid).len() == 2);
    // One that dies before its work begins keeps the others from starting; this one dies at work.
    std::thread::sleep(Duration::from_millis(300));
    signal(children(pid)[0], libc::SIGKILL);
    let report = worker::read_report(load.report).expect("report");
    assert_eq!(load.child.wait().expect("wait").code(), Some(1));
    let failures: Vec<String> =
        report.workers.iter().filter_map(|w| w.failure.as_ref()).map(|f| f.message.clone()).collect();
    assert_eq!(failures.len(), 1);
    assert!(failures[0].contains("killed by signal 9"), "{failures:?}");
    assert!(!report.succeeded());
}
