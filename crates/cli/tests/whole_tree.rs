//! The recorded tree is the whole target: threads that the kernel makes in a process's name, what a command leaves behind, programs
//! whose events the kernel takes away. Truth is what the kernel counts of the program (`getrusage`), or what the program did.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::lower::refuse;
use crate::common::{copy_binary, json, pagelab, run, scratch, stderr};

/// Pages that the kernel's thread faults in, and the faults that a program may take beside them.
const PAGES: u64 = 4096;
const BESIDE: u64 = 400;

fn compiled(name: &str, dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/world/odd").join(format!("{name}.c"));
    let program = dir.join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-pthread", "-o"]).arg(&program).arg(source);
    assert!(gcc.status().expect("gcc").success());
    program
}

/// A program that reads a file by io_uring, and the file.
fn uring(dir: &Path) -> (PathBuf, PathBuf) {
    let data = dir.join("data");
    fs::write(&data, vec![7; 1 << 20]).expect("ours");
    (compiled("01-io-uring-threads", dir), data)
}

#[track_caller]
fn rows(recording: &Path, sql: &str) -> Vec<Value> {
    let output = run(pagelab().args(["query", "--format", "json"]).arg(recording).arg(sql), 0);
    json(&output).as_array().cloned().unwrap_or_default()
}

/// The first number of the first row.
#[track_caller]
fn number(recording: &Path, sql: &str) -> u64 {
    let rows = rows(recording, sql);
    let first = rows.first().and_then(Value::as_object).and_then(|row| row.values().next()).and_then(Value::as_f64);
    first.unwrap_or_else(|| panic!("{sql}: {rows:?}")) as u64
}

/// What the program printed after a word.
#[track_caller]
fn said(output: &Output, word: &str) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = text.split_whitespace().skip_while(|one| *one != word);
    words.nth(1).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{word}: {text:?}"))
}

const OF_KERNEL_THREADS: &str = "(select task_id from tasks where comm like 'iou-%')";

/// The kernel's thread is a task with a beginning and an end, and the faults are its.
#[track_caller]
fn holds_kernel_threads(recording: &Path, faults: u64) {
    let all = number(recording, "select count(*) from faults");
    assert!(all <= faults + BESIDE && all + BESIDE >= faults, "{all} faults, needed some {faults}");
    let theirs = number(recording, &format!("select count(*) from faults where task_id in {OF_KERNEL_THREADS}"));
    assert!((PAGES..PAGES + BESIDE).contains(&theirs), "{theirs} of {all} faults are of the kernel's threads");
    for op in ["fork", "exit"] {
        let ops = number(
            recording,
            &format!("select count(*) from tasks where op = '{op}' and task_id in {OF_KERNEL_THREADS}"),
        );
        assert!(ops >= 1, "no {op}");
    }
    let maker = "select count(*) from tasks t join tasks p on t.parent_task_id = p.task_id where t.op = 'fork' and t.task_id in";
    assert!(number(recording, &format!("{maker} {OF_KERNEL_THREADS}")) >= 1, "their maker is known");
}

#[test]
fn threads_of_io_uring_are_tasks_for_every_stream() {
    let dir = scratch();
    let (program, data) = uring(dir.path());
    for mode in ["a", "s"] {
        let out = dir.path().join(format!("{mode}.rec"));
        let mut record = pagelab();
        record.args(["record", "--observe", "tasks,faults,maps,cpu,waits,counters,syscalls", "-o"]).arg(&out).arg("--");
        let output = run(record.arg(&program).arg(&data).args([mode, "4096", "4096", "fresh"]), 0);
        holds_kernel_threads(&out, said(&output, "faults"));
        assert!(!stderr(&output).contains("tasks are missing"), "{}", stderr(&output));
        let run_ns = format!("select sum(ns) from waits where state = 'run' and task_id in {OF_KERNEL_THREADS}");
        let exit_ns =
            format!("select sum(utime_ns + stime_ns) from tasks where op = 'exit' and task_id in {OF_KERNEL_THREADS}");
        let (by_waits, by_exit) = (number(&out, &run_ns), number(&out, &exit_ns));
        assert!(by_waits > 1_000_000 && by_waits.abs_diff(by_exit) < by_exit / 5 + 20_000_000, "{by_waits}, {by_exit}");
        let user =
            format!("select count(*) from samples where ustack_id is not null and task_id in {OF_KERNEL_THREADS}");
        assert_eq!(number(&out, &user), 0, "they have no stack of user space");
    }
}

#[test]
fn threads_of_io_uring_are_tasks_by_perf_events_too() {
    let dir = scratch();
    let (program, data) = uring(dir.path());
    let out = dir.path().join("rec");
    let mut record = pagelab();
    record.args(["record", "--observe", "tasks,faults", "-o"]).arg(&out).arg("--");
    record.arg(&program).arg(&data).args(["a", "4096", "4096", "fresh"]);
    refuse(&mut record, &[libc::SYS_bpf]);
    let output = run(&mut record, 0);
    holds_kernel_threads(&out, said(&output, "faults"));
}

#[test]
fn threads_of_io_uring_outlive_the_first_thread() {
    let dir = scratch();
    let (program, data) = uring(dir.path());
    let out = dir.path().join("rec");
    let mut record = pagelab();
    record.args(["record", "--observe", "tasks,faults", "-o"]).arg(&out).arg("--");
    let output = run(record.arg(&program).arg(&data).args(["a", "4096", "4096", "fresh", "leave"]), 0);
    holds_kernel_threads(&out, said(&output, "faults"));
}

/// Records the program by `scope` once its worker is there, lets it read, and ends it.
fn recorded_running(dir: &TempDir, by_perf: bool, scope: impl FnOnce(&str) -> Vec<String>) -> PathBuf {
    let (program, data) = uring(dir.path());
    let mut target = Command::new(program)
        .arg(data)
        .args(["a", "4096", "4096", "fresh", "wait"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(target.stdout.take().expect("piped"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    let pid = line.trim().strip_prefix("pid ").expect("its pid").to_owned();
    let out = dir.path().join("rec");
    let mut record = pagelab();
    record.args(["record", "--observe", "tasks,faults,waits", "--best-effort", "-o"]).arg(&out).args(scope(&pid));
    if by_perf {
        refuse(&mut record, &[libc::SYS_bpf]);
    }
    // The program reads while this command runs, and ends with it.
    let go = dir.path().join("go");
    record
        .args(["--", "sh", "-c"])
        .arg(format!("touch {}; while kill -0 {pid} 2>/dev/null; do sleep 0.05; done", go.display()));
    let mut recorder = record.stderr(Stdio::null()).spawn().expect("it starts");
    while !go.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    target.stdin.take().expect("piped").write_all(b"x").expect("it reads");
    assert!(target.wait().expect("ours").success());
    assert!(recorder.wait().expect("ours").success());
    out
}

#[track_caller]
fn holds_running(out: &Path) {
    let theirs = number(out, &format!("select count(*) from faults where task_id in {OF_KERNEL_THREADS}"));
    assert!((PAGES..PAGES + BESIDE).contains(&theirs), "{theirs} faults of the kernel's threads");
}

#[test]
fn threads_of_io_uring_that_are_there_already_are_found() {
    for by_perf in [false, true] {
        let dir = scratch();
        holds_running(&recorded_running(&dir, by_perf, |pid| vec!["-p".to_owned(), pid.to_owned()]));
    }
}

#[test]
fn threads_of_io_uring_belong_to_the_whole_system() {
    let dir = scratch();
    let out = recorded_running(&dir, false, |_| vec!["-a".to_owned()]);
    let theirs = number(&out, &format!("select count(*) from faults where task_id in {OF_KERNEL_THREADS}"));
    assert!(theirs >= PAGES, "{theirs} faults of the kernel's threads");
}

/// A command that leaves a process behind, and the file that the process writes when it ends.
fn daemon(dir: &Path, how: &str, seconds: &str) -> (PathBuf, Vec<String>) {
    let program = compiled("15-daemon", dir);
    let witness = dir.join("witness");
    let words = vec![
        program.to_str().expect("text").to_owned(),
        how.to_owned(),
        seconds.to_owned(),
        witness.to_str().expect("text").to_owned(),
    ];
    (witness, words)
}

fn wait_for(witness: &Path) {
    while !witness.exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn what_a_command_leaves_behind_is_said() {
    for by_perf in [false, true] {
        let dir = scratch();
        let (witness, words) = daemon(dir.path(), "double", "1");
        let out = dir.path().join("rec");
        let mut record = pagelab();
        record.args(["record", "--observe", "tasks,faults", "-o"]).arg(&out).arg("--").args(words);
        if by_perf {
            refuse(&mut record, &[libc::SYS_bpf]);
        }
        let output = run(&mut record, 7);
        assert!(!witness.exists(), "it goes on");
        let told = stderr(&output);
        assert!(
            told.contains("1 task of the tree goes on: ") && told.contains("(pid ") && told.contains("--follow"),
            "{told}"
        );
        let summary = run(pagelab().arg("show").arg(&out).arg("summary"), 0);
        let text = String::from_utf8_lossy(&summary.stdout).into_owned();
        assert!(text.contains("1 task of the tree goes on: "), "{text}");
        wait_for(&witness);
    }
}

#[test]
fn what_a_command_leaves_behind_is_followed() {
    for (how, by_perf, tasks) in
        [("double", false, 3), ("double", true, 3), ("threads", false, 6), ("namespace", false, 3), ("fork", false, 2)]
    {
        let dir = scratch();
        let (witness, words) = daemon(dir.path(), how, "0.6");
        let out = dir.path().join("rec");
        let mut record = pagelab();
        record
            .args(["record", "--follow", "--observe", "tasks,faults,waits", "--best-effort", "-o"])
            .arg(&out)
            .arg("--")
            .args(words);
        if by_perf {
            refuse(&mut record, &[libc::SYS_bpf]);
        }
        let output = run(&mut record, 7);
        assert!(witness.exists(), "{how}: recorded to its end");
        let told = stderr(&output);
        assert!(!told.contains("of the tree go"), "{told}");
        let faults = number(&out, "select count(*) from faults");
        assert!((5000..5000 + 2 * BESIDE).contains(&faults), "{how}: {faults}");
        assert_eq!(number(&out, "select count(distinct task_id) from tasks"), tasks, "{how}");
        assert_eq!(number(&out, "select count(*) from tasks where op = 'exit'"), tasks, "{how}");
        let manifest: Value =
            serde_json::from_str(&fs::read_to_string(out.join("manifest.json")).expect("ours")).expect("JSON");
        let measured = |key: &str| manifest["measured"][key].as_i64().expect("a time");
        assert!(measured("end_ns") - measured("start_ns") >= 600_000_000, "{how}: {}", manifest["measured"]);
        assert_eq!((manifest["ended_by"].as_str(), manifest["exit"]["code"].as_i64()), (Some("target"), Some(7)));
    }
}

#[test]
fn following_ends_with_its_duration() {
    let dir = scratch();
    let (witness, words) = daemon(dir.path(), "double", "60");
    let out = dir.path().join("rec");
    let mut record = pagelab();
    record
        .args(["record", "--follow", "--duration", "0.5", "--observe", "tasks,faults", "-o"])
        .arg(&out)
        .arg("--")
        .args(words);
    run(&mut record, 7);
    let pid = number(&out, "select max(pid) from tasks where comm = 'daemonised'");
    let process = rustix::process::Pid::from_raw(pid as i32).expect("a process");
    let killed = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    assert!(killed.is_ok() && !witness.exists(), "the recording ended before it, and left it alone");
}

/// A setuid program that another user may run, and what runs pagelab as that user.
fn setuid(mode: u32) -> (TempDir, Command, PathBuf) {
    // What lies in memory (/dev/shm) cannot be setuid.
    let dir = tempfile::Builder::new().prefix("pagelab-test-").tempdir_in("/var/tmp").expect("/var/tmp is writable");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let binary = dir.path().join("pagelab");
    copy_binary(&binary);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=1000", "--regid=1000", "--clear-groups"]).arg(binary);
    let program = compiled("05-setuid-without-root", dir.path());
    fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("ours");
    let place = dir.path().join("place");
    fs::create_dir(&place).expect("ours");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).expect("ours");
    command.current_dir(&place).arg("record");
    (dir, command, program)
}

/// The mode of a setuid program, and of one that may be executed and not read.
const TAKES_EVENTS_AWAY: [u32; 2] = [0o4755, 0o711];

#[test]
fn a_setuid_program_without_root_is_measured_by_the_wait_for_it() {
    for mode in TAKES_EVENTS_AWAY {
        let (dir, mut record, program) = setuid(mode);
        let out = dir.path().join("place/rec");
        let output = run(record.arg("-o").arg(&out).arg("--").arg(&program).args(["0.5", "1000"]), 0);
        let told = stderr(&output);
        assert!(told.contains("setuid") && told.contains("record as root") && told.contains("not complete"), "{told}");
        assert!(!told.contains("larger ring"), "{told}");
        let summary = json(&run(pagelab().arg("show").arg(&out).args(["summary", "--json"]), 0));
        let overview = &summary["overview"];
        let elapsed_ns = overview["elapsed_ns"].as_f64().expect("known");
        assert!((0.5e9..60e9).contains(&elapsed_ns), "{overview}");
        assert!(overview["minor_faults"].as_f64().is_some_and(|faults| faults >= 1000.0), "{overview}");
        assert_eq!(summary["complete"], false);
        assert!(summary["incomplete_reason"].as_str().is_some_and(|reason| reason.contains("setuid")), "{summary}");
        assert!(
            summary["faults"]["kinds"].as_object().is_none_or(serde_json::Map::is_empty),
            "not 0: {}",
            summary["faults"]
        );
        let exits = "select count(*) from tasks where op = 'exit' and min_flt >= 1000";
        assert_eq!(number(&out, exits), 1, "the end is known by the wait");
        assert!(number(&out, "select sum(lost) from loss where stream = 'faults'") >= 1, "it is a loss");
    }
}

#[test]
fn a_setuid_child_without_root_is_a_loss() {
    let (dir, mut record, program) = setuid(0o4755);
    let out = dir.path().join("place/rec");
    let script = format!("{} 0.2 1000; head -c 3000000 /dev/zero | tail -c 1 | wc -c", program.display());
    let output = run(record.arg("-o").arg(&out).args(["--", "sh", "-c", &script]), 0);
    let told = stderr(&output);
    assert!(told.contains("05-setuid-witho (pid ") && told.contains("record as root"), "{told}");
    assert!(number(&out, "select count(*) from faults") > 100, "the others are recorded");
    assert_eq!(number(&out, "select count(*) from tasks where comm = 'sh' and op = 'exit'"), 1);
}
