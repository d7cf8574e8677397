//! `pagelab record`, the binary, on real commands.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{json, pagelab, run, scratch, stderr};
use pagelab_recording::Recording;
use pagelab_recording::tables::{FilesRow, SyscallsRow};

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

/// What `env` does with the same file: that is what the shells do, too.
#[test]
fn a_script_is_run_as_shells_run_it_and_a_missing_interpreter_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let dir = scratch();
    let script = |name: &str, text: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("scratch");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our own file");
        format!("./{name}")
    };
    let gone = dir.path().join("gone").display().to_string();
    let through = script("through", format!("#!{gone}\n").as_bytes());
    let through = dir.path().join(through);
    for (name, text, said) in [
        ("plain", b"echo from $0 with \"$@\"; exit 5\n".to_vec(), None),
        ("empty", Vec::new(), None),
        (
            "missing",
            format!("#!{gone} -x\n").into_bytes(),
            Some(format!("the interpreter {gone} of ./missing does not exist")),
        ),
        (
            "twice",
            format!("#!{}\n", through.display()).into_bytes(),
            Some(format!("the interpreter {gone} of {} does not", through.display())),
        ),
        ("dos", b"#!/bin/sh\r\n".to_vec(), Some("the interpreter \"/bin/sh\\r\" of ./dos does not exist".to_owned())),
    ] {
        let words = [script(name, &text), "one".to_owned(), "two words".to_owned()];
        let theirs = Command::new("env").args(&words).current_dir(dir.path()).output().expect("env is there");
        let mut command = pagelab();
        command.args(["record", "-q", "-o"]).arg(dir.path().join(format!("{name}.rec"))).arg("--").args(&words);
        let ours = run(command.current_dir(dir.path()), theirs.status.code().expect("no signal"));
        assert_eq!(ours.stdout, theirs.stdout, "{name}");
        let told = stderr(&ours);
        assert!(said.is_none_or(|said| told.contains(&said)), "{name}: {told}");
    }
    // No script, and no program: the kernel's word for it.
    let mut command = pagelab();
    command.args(["record", "-q", "-o", "no.rec", "--"]).arg(script("binary", b"\x7fEL\0\x01\n"));
    let told = stderr(&run(command.current_dir(dir.path()), 126));
    assert!(told.contains("Exec format error"), "{told}");
}

/// Renames a file while it is open, the folder above it, and exchanges both with others; then a memfd.
const RENAMES: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static void call(int fd, int n)
{
	lseek(fd, n, SEEK_SET);
}
int main(void)
{
	mkdir("above", 0755);
	mkdir("above/dir", 0755);
	int fd = open("above/dir/data.tmp", O_CREAT | O_RDWR, 0600), other = open("other", O_CREAT | O_RDWR, 0600);
	call(fd, 1);
	rename("above/dir/data.tmp", "above/dir/table.db");
	call(fd, 2);
	rename("above/dir", "above/moved");
	call(fd, 3);
	rename("above", "over");
	call(fd, 4);
	syscall(SYS_renameat2, AT_FDCWD, "over/moved/table.db", AT_FDCWD, "other", 2);
	call(fd, 5);
	call(other, 6);
	link("other", "second");
	call(open("second", O_RDWR), 7);
	unlink("other");
	call(fd, 8);
	call(memfd_create("cache-a", 0), 9);
	return 0;
}
"#;

#[test]
fn files_are_called_what_they_are_called_at_the_time_of_the_call() {
    let dir = scratch();
    let (source, program, out) = (dir.path().join("renames.c"), dir.path().join("renames"), dir.path().join("rec"));
    fs::write(&source, RENAMES).expect("scratch");
    let gcc = Command::new("gcc").args(["-O1", "-w", "-o"]).arg(&program).arg(&source).status();
    assert!(gcc.expect("gcc").success());
    let mut command = pagelab();
    command.args(["record", "-q", "--observe", "syscalls:lseek", "-o"]).arg(&out).arg("--").arg(&program);
    run(command.current_dir(dir.path()), 0);
    let recording = Recording::open(&out).expect("a recording");
    let (mut files, mut found) = (BTreeMap::new(), Vec::new());
    recording
        .for_each::<FilesRow>(|row| {
            files.insert(row.file_id, String::from_utf8_lossy(row.path.unwrap_or_default()).into_owned());
        })
        .expect("files");
    recording
        .for_each::<SyscallsRow>(|row| {
            if (1..10).contains(&row.args[1]) && row.args[2] == 0 {
                found.push(row.file_id.and_then(|id| files.get(&id)).cloned().unwrap_or_default());
            }
        })
        .expect("calls");
    let at = dir.path().canonicalize().expect("it is there");
    let names = [
        "above/dir/data.tmp",
        "above/dir/table.db",
        "above/moved/table.db",
        "over/moved/table.db",
        "other",
        "over/moved/table.db",
        "second",
        "other",
    ];
    let mut wanted: Vec<String> = names.iter().map(|name| at.join(name).display().to_string()).collect();
    wanted.push("/memfd:cache-a".to_owned());
    assert_eq!(found, wanted, "strace -y has these names");
}

#[test]
fn a_query_whose_reader_has_gone_ends_quietly() {
    let dir = scratch();
    let out = dir.path().join("rec");
    run(pagelab().args(["record", "-q", "-o"]).arg(&out).args(["--", "true"]), 0);
    let query = "select a.key, b.key from settings a cross join settings b cross join settings c limit 400000";
    for format in ["csv", "table", "json"] {
        let line = format!(
            "{} query --format {format} {} '{query}' | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}",
            common::binary().display(),
            out.display()
        );
        let output = Command::new("bash").args(["-c", &line]).output().expect("bash is there");
        assert_eq!((String::from_utf8_lossy(&output.stdout).trim(), stderr(&output).as_str()), ("0", ""), "{format}");
    }
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
