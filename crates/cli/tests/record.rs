//! `pagelab record`, the binary, on real commands.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{beside, is_root, json, pagelab, run, scratch, stderr};
use pagelab_recording::Recording;
use pagelab_recording::tables::{FaultsRow, TasksRow};

#[test]
fn the_status_is_the_commands_own() {
    let dir = scratch();
    let record = |name: &str, words: &[&str]| {
        let mut command = pagelab();
        command.args(["record", "-o"]).arg(dir.path().join(name)).arg("--").args(words);
        command
    };
    run(&mut record("a", &["sh", "-c", "exit 7"]), 7);
    run(&mut record("b", &["sh", "-c", "kill -TERM $$"]), 128 + 15);
    run(&mut record("c", &["/no/such/program"]), 127);
    assert!(!dir.path().join("c").exists(), "a recording that never began leaves nothing");
    run(&mut record("a", &["true"]), 125);
}

#[test]
fn what_the_command_prints_is_not_touched() {
    let dir = scratch();
    let output = run(pagelab().args(["record", "-o"]).arg(dir.path().join("r")).args(["--", "echo", "hello"]), 0);
    assert_eq!(output.stdout, b"hello\n");
    let mut with_json = pagelab();
    with_json.args(["record", "--json", "-o"]).arg(dir.path().join("s")).args(["--", "echo", "hello"]);
    let document = json(&run(&mut with_json, 0));
    assert_eq!(document["manifest"]["complete"], true);
}

#[test]
fn a_stream_that_cannot_be_had_stops_before_the_command() {
    let dir = scratch();
    let witness = dir.path().join("ran");
    let out = dir.path().join("r");
    let mut command = pagelab();
    command.args(["record", "--observe", "faults,syscalls", "-o"]).arg(&out).args(["--", "touch"]).arg(&witness);
    let output = run(&mut command, 3);
    assert!(stderr(&output).contains("--best-effort"), "{}", stderr(&output));
    assert!(!witness.exists() && !out.exists());
    run(pagelab().args(["record", "--observe", "fault", "--", "true"]), 125);
}

#[test]
fn an_output_that_cannot_be_is_refused_with_words() {
    let dir = scratch();
    let file = dir.path().join("file");
    fs::write(&file, "x").expect("scratch");
    for (out, word) in
        [(file.clone(), "not a directory"), (file.join("below"), "cannot"), (Path::new("/proc/x").into(), "cannot")]
    {
        let output = run(pagelab().args(["record", "-o"]).arg(&out).args(["--", "true"]), 125);
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
    }
}

/// The kernel's own software counter of the same process tree, by perf, against the rows of `faults`.
#[test]
fn faults_are_as_many_as_the_kernels_counter_says() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    let source = dir.path().join("program.c");
    let mut text = String::from("#include <stdio.h>\n");
    for i in 0..400 {
        text += &format!("int f{i}(int x) {{ int s = 0; for (int k = 0; k < x; k++) s += k * {i}; return s; }}\n");
    }
    fs::write(&source, text + "int main(void) { return f1(2) & 1; }\n").expect("scratch");
    let counts = dir.path().join("perf.txt");
    let out = dir.path().join("r");
    let mut command = pagelab();
    command.args(["record", "--observe", "tasks,faults,maps", "-o"]).arg(&out);
    command.args(["--", "perf", "stat", "-x,", "-e", "page-faults", "-o"]).arg(&counts);
    command.args(["--", "gcc", "-O2", "-o"]).arg(dir.path().join("program")).arg(&source);
    run(&mut command, 0);
    let counted: u64 = fs::read_to_string(&counts)
        .expect("perf wrote its counts")
        .lines()
        .filter(|line| line.contains("page-faults"))
        .filter_map(|line| line.split(',').next()?.parse::<u64>().ok())
        .sum();
    let recording = Recording::open(&out).expect("a recording");
    // perf counts from the exec of gcc on: its tasks, in every address space but the one inherited from perf.
    let (mut tree, mut before) = (BTreeSet::new(), BTreeSet::new());
    let mut tasks = Vec::new();
    recording
        .for_each::<TasksRow>(|row| {
            tasks.push((row.op.to_owned(), row.task_id, row.parent_task_id, row.mm_id, row.exe.map(<[u8]>::to_vec)))
        })
        .expect("tasks");
    for (op, task, parent, mm, exe) in &tasks {
        let gcc = exe.as_ref().is_some_and(|exe| String::from_utf8_lossy(exe).contains("gcc"));
        if op == "exec" && gcc && tree.is_empty() {
            tree.insert(*task);
        } else if op == "fork" && parent.is_some_and(|parent| tree.contains(&parent)) {
            tree.insert(*task);
        } else if tree.is_empty() {
            before.extend(mm.iter().copied());
        }
    }
    assert!(tree.len() >= 3, "gcc runs cc1, as and collect2: {tasks:?}");
    let mut recorded = 0u64;
    let mut unattributed = 0u64;
    recording
        .for_each::<FaultsRow>(|row| {
            if tree.contains(&row.task_id) && !before.contains(&row.mm_id) {
                recorded += 1;
                unattributed += u64::from(row.mapping_id.is_none());
            }
        })
        .expect("faults");
    let tolerance = (counted / 1000).max(1);
    assert!(recorded.abs_diff(counted) <= tolerance, "{recorded} recorded, {counted} counted by the kernel");
    assert!(unattributed <= tolerance, "{unattributed} of {recorded} faults without a mapping");
}

/// Kills the recorder while a program faults at full speed, and holds what is left against the program's own log.
#[test]
fn a_killed_recorder_loses_at_most_the_last_second() {
    if !is_root() {
        return;
    }
    let rounds: u64 = if std::env::var_os("PAGELAB_TEST_FULL").is_some() { 50 } else { 4 };
    for round in 0..rounds {
        let dir = scratch();
        let (out, log) = (dir.path().join("r"), dir.path().join("log"));
        let mut command = pagelab();
        command.args(["record", "--observe", "tasks,faults,maps", "-o"]).arg(&out).arg("--");
        command.arg(beside("fault_program")).args(["3000000", "ascending"]).arg(&log);
        let mut recorder = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        // From 1.2 to 3.1 s, by a fixed sequence: parts are written about once a second.
        std::thread::sleep(Duration::from_millis(1200 + round * 7919 % 1900));
        recorder.kill().expect("SIGKILL");
        let killed_ns = monotonic_ns();
        recorder.wait().expect("our child");
        Command::new("pkill").args(["-9", "-f"]).arg(&log).status().expect("pkill");
        let recording = Recording::open(&out).expect("a killed recording opens");
        assert!(!recording.manifest().complete);
        let logged: Vec<(i64, u64)> = fs::read_to_string(&log)
            .expect("the program's log")
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(ts, count)| Some((ts.parse().ok()?, count.parse().ok()?)))
            .collect();
        let safe = killed_ns - 1_000_000_000;
        let (ts, count) = *logged.iter().rfind(|(ts, _)| *ts <= safe).expect("the program ran for more than a second");
        let mut recorded = 0u64;
        recording.for_each::<FaultsRow>(|row| recorded += u64::from(row.ts <= ts)).expect("its parts can be read");
        assert!(recorded >= count, "round {round}: {recorded} faults recorded up to {ts}, the program counted {count}");
    }
}

fn monotonic_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
