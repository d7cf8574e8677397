//! `pagelab record`, the binary, on real commands.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{json, pagelab, run, scratch, stderr};

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
    // Root without the capabilities that BPF takes, as in a container.
    let mut command = Command::new("setpriv");
    let caps = "-sys_admin,-bpf,-perfmon";
    command.arg(format!("--bounding-set={caps}")).arg(format!("--inh-caps={caps}")).arg(pagelab().get_program());
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

/// What holds for the work is what the last wrapper leaves, not what the first one began with.
#[test]
fn settings_that_a_wrapper_changes_are_those_of_the_start() {
    let dir = scratch();
    let mut command = pagelab();
    command.args(["record", "-q", "--observe", "settings", "-o", "wrapped", "--"]).current_dir(dir.path());
    run(command.args(["env", "WRAPPED=1", "taskset", "-c", "0", "nice", "-n", "7", "sleep", "0.5"]), 0);
    let mut query = pagelab();
    let sql = "select key, value from settings where at = 'start' and key in ('task.nice', 'task.affinity') order by ts desc, key limit 2";
    let output = run(query.args(["query", "wrapped", sql, "--json"]).current_dir(dir.path()), 0);
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(rows.contains("\"7\"") && rows.contains("\"0\""), "{rows}");
    let mut show = pagelab();
    let shown = json(&run(show.args(["show", "wrapped", "settings", "--json"]).current_dir(dir.path()), 0));
    let nice =
        shown["settings"].as_array().expect("settings").iter().find(|one| one["key"] == "task.nice").expect("read");
    assert_eq!(nice["start"], "7", "{nice}");
}
