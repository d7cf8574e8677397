//! `pagelab show syscalls`, `io` and `sched` on a recording of which every sum is known: groups add up to the whole, however
//! they are made and selected, and what was not measured is said to be missing.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use crate::calls_fixture;
use crate::shown;

use std::path::PathBuf;
use std::time::Instant;

use calls_fixture::{
    CALLS, FAILED_READS, MAPPED_FAULTS, PREEMPTIONS, READ_BYTES, READ_NS, READS, SUBMITS, WAIT_QUEUE_NS, WAITS,
    WRITE_BYTES, WRITE_NS, WRITES, write,
};
use serde_json::Value;
use shown::{json, refused, row, text};
use tempfile::TempDir;

fn recording() -> (TempDir, PathBuf) {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    write(&dir);
    (tmp, dir)
}

fn sum(list: &Value, key: &str) -> u64 {
    list.as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap_or(0)).sum()
}

#[test]
fn views_are_text_of_100_columns_that_draws_on_no_terminal() {
    let (_tmp, dir) = recording();
    for words in [&["syscalls"][..], &["syscalls", "--by", "file"], &["io"], &["sched"], &["faults"]] {
        let said = text(&dir, words);
        for line in said.lines().skip(1) {
            assert!(line.chars().count() <= 100 && !line.contains('\x1b'), "{words:?}: {line:?}");
            assert_eq!(line.trim_end(), line, "{words:?}");
        }
        assert_eq!(said, text(&dir, words), "{words:?} is the same each time");
        assert_eq!(json(&dir, words)["view"], words[0]);
    }
    assert!(!text(&dir, &["syscalls", "--log"]).contains('\x1b'));
}

#[test]
fn groups_add_up_however_they_are_made() {
    let (_tmp, dir) = recording();
    for by in ["name", "task", "comm", "file"] {
        let all = json(&dir, &["syscalls", "--by", by, "--top", "0"]);
        assert_eq!(
            (&all["calls"], &all["errors"], &all["unfinished"]),
            (&CALLS.into(), &FAILED_READS.into(), &1.into())
        );
        for key in ["calls", "errors", "unfinished", "total_ns"] {
            assert_eq!(sum(&all["groups"], key), all[key].as_u64().unwrap(), "{by} {key}");
        }
    }
    let files = json(&dir, &["syscalls", "--by", "file"]);
    assert_eq!(row(&files["groups"], "name", "/data/in order")["calls"], 1 + READS + FAILED_READS);
    assert_eq!(row(&files["groups"], "name", "(no file)")["calls"], SUBMITS + 1);
}

#[test]
fn each_name_has_its_times_and_what_is_unknown_is_null() {
    let (_tmp, dir) = recording();
    let all = json(&dir, &["syscalls"]);
    let read = row(&all["groups"], "name", "read");
    assert_eq!((&read["calls"], &read["errors"]), (&(READS + FAILED_READS).into(), &FAILED_READS.into()));
    assert_eq!(read["mean_ns"].as_f64(), Some(READ_NS as f64));
    for key in ["p50_ns", "p99_ns"] {
        let ns = read[key].as_f64().unwrap();
        assert!((ns / READ_NS as f64 - 1.0).abs() < 0.01, "{key} {ns}");
    }
    let parts = ["on_cpu_ns", "blocked_ns", "queue_ns"].map(|key| read[key].as_u64().unwrap());
    assert_eq!(parts.iter().sum::<u64>(), read["split_ns"].as_u64().unwrap());
    assert_eq!(parts[1], 300 * (READS + FAILED_READS));
    let write = row(&all["groups"], "name", "pwrite64");
    assert_eq!(
        (&write["cpu_ns"], &write["blocked_ns"], &write["split_ns"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(write["total_ns"], WRITES * WRITE_NS);
    let futex = row(&all["groups"], "name", "futex");
    assert_eq!((&futex["mean_ns"], &futex["max_ns"], &futex["unfinished"]), (&Value::Null, &Value::Null, &1.into()));
    let notes = all["notes"].to_string();
    assert!(notes.contains("3 of") && notes.contains("lost"), "{notes}");
    let writes = json(&dir, &["syscalls", "--name", "pwrite64"])["notes"].to_string();
    assert!(writes.contains("add sched"), "{writes}");
}

#[test]
fn selections_are_parts_of_the_whole() {
    let (_tmp, dir) = recording();
    let of = |words: &[&str]| json(&dir, &[&["syscalls"], words].concat())["calls"].as_u64().unwrap();
    assert_eq!(of(&["--pid", "100"]) + of(&["--pid", "200"]), CALLS);
    assert_eq!(of(&["--comm", "reader"]), of(&["--pid", "100"]));
    assert_eq!(
        (of(&["--file", "in order"]), of(&["--name", "read,pwrite64"])),
        (1 + READS + FAILED_READS, READS + FAILED_READS + WRITES)
    );
    assert_eq!(of(&["--name", "%desc"]), CALLS - 1, "a futex has no descriptor");
    assert_eq!(of(&["--pid", "200", "--file", "in order"]), 0);
    let log = json(&dir, &["syscalls", "--log", "--pid", "200", "--top", "3"]);
    assert_eq!((log["calls"].as_array().unwrap().len(), &log["calls_total"]), (3, &(WRITES + SUBMITS + 1).into()));
}

#[test]
fn the_log_reads_as_strace_prints() {
    let (_tmp, dir) = recording();
    let log = text(&dir, &["syscalls", "--log"]);
    let calls: Vec<&str> = log.lines().filter(|line| line.contains(") = ")).collect();
    assert_eq!(calls.len() as u64, CALLS);
    assert!(
        calls[0].contains("reader          openat(AT_FDCWD, 0x10, O_RDONLY) = 3</data/in order> <0.000005000>"),
        "{}",
        calls[0]
    );
    assert!(
        calls[1].contains("    100 reader          read(3</data/in order>, 0x7f00, 4096) = 4096 <0.000001000>"),
        "{}",
        calls[1]
    );
    assert!(log.contains("read(3</data/in order>, 0x7f00, 4096) = -1 EAGAIN"));
    assert!(log.contains("pwrite64(4</data/\\u{1b}[2Jrandom>, 0x7f00, 8192, 0) = 8192"));
    assert!(
        calls.last().unwrap().ends_with("futex(0x7000, FUTEX_WAIT|FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0x0) = ?"),
        "{calls:?}"
    );
    assert!(text(&dir, &["syscalls", "--log", "--top", "2"]).contains(&format!("{} more of {CALLS}", CALLS - 2)));
}

#[test]
fn files_have_their_sizes_and_their_order() {
    let (_tmp, dir) = recording();
    let io = json(&dir, &["io"]);
    let read = row(&io["files"], "name", "/data/in order");
    assert_eq!((&read["opens"], &read["pid"]), (&1.into(), &100.into()));
    assert_eq!(
        (&read["reads"]["calls"], &read["reads"]["errors"]),
        (&(READS + FAILED_READS).into(), &FAILED_READS.into())
    );
    assert_eq!(
        (&read["reads"]["bytes"], &read["reads"]["pattern"]),
        (&(READS * READ_BYTES).into(), &"sequential".into())
    );
    assert_eq!(read["reads"]["kinds"]["sequential"], READS);
    assert_eq!((&read["writes"]["mean_bytes"], &read["writes"]["pattern"]), (&Value::Null, &Value::Null));
    let written = io["files"].as_array().unwrap().iter().find(|file| file["pid"] == 200).unwrap();
    assert_eq!((&written["writes"]["pattern"], &written["writes"]["calls"]), (&"random".into(), &WRITES.into()));
    assert_eq!(written["writes"]["sizes"], serde_json::json!([{"from_bytes": WRITE_BYTES, "calls": WRITES}]));
    assert_eq!((sum(&io["sizes_read"], "calls"), sum(&io["sizes_written"], "calls")), (READS, WRITES));
    let submitted = row(&io["submitted"], "name", "io_uring_enter");
    assert_eq!((&submitted["calls"], &submitted["operations"]), (&SUBMITS.into(), &(32 * SUBMITS).into()));
    assert!(io["notes"].to_string().contains("unseen"), "{}", io["notes"]);
    assert_eq!(row(&io["mapped"], "path", "/data/mapped")["faults"], MAPPED_FAULTS);
    let grid = |words: &[&str], key: &str| {
        let map = json(&dir, &[&["io"], words].concat());
        map["heatmap"]["grid"][key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>()
    };
    assert!(grid(&["--file", "in order"], "reads") >= READS, "a read is in each cell that it covers");
    assert_eq!((grid(&["--file", "in order"], "writes"), grid(&["--pid", "200"], "reads")), (0, 0));
}

#[test]
fn waits_are_told_from_preemptions() {
    let (_tmp, dir) = recording();
    let sched = json(&dir, &["sched"]);
    let (writer, reader) = (row(&sched["tasks"], "comm", "writer"), row(&sched["tasks"], "comm", "reader"));
    assert_eq!(
        (&writer["waiting"]["S"]["times"], &writer["waiting"]["S"]["ns"]),
        (&WAITS.into(), &(WAITS * 1_000_000).into())
    );
    assert_eq!((&writer["waiting"]["D"]["unfinished"], &writer["on_cpu_ns"]), (&1.into(), &Value::Null));
    assert_eq!((&reader["preempted"]["times"], &reader["waiting_ns"]), (&PREEMPTIONS.into(), &0.into()));
    let life = reader["life_ns"].as_u64().unwrap();
    assert_eq!(reader["on_cpu_ns"].as_u64().unwrap() + reader["off"]["ns"].as_u64().unwrap(), life);
    let queued = WAITS * WAIT_QUEUE_NS;
    assert_eq!((&writer["queue_ns"], &writer["asleep_ns"]), (&queued.into(), &(WAITS * 1_000_000 - queued).into()));
    assert_eq!((&reader["queue_ns"], &reader["asleep_ns"]), (&reader["preempted"]["ns"], &0.into()));
    let waits = &sched["waits"];
    // One has not ended; its stacks are there, and how it ended is not known.
    assert_eq!((&waits["times"], &waits["with_kstack"]), (&(WAITS + 1).into(), &(WAITS + 1).into()));
    assert_eq!((&waits["with_ustack"], &waits["ustacks_to_entry"]), (&(WAITS + 1).into(), &WAITS.into()));
    let stack = row(&sched["stacks"], "state", "S");
    assert_eq!(stack["off"]["queue_ns"], queued);
    assert_eq!((&stack["kernel"], &stack["user"]), (&serde_json::json!(["schedule", "futex_wait"]), &Value::Null));
    let wake = row(&sched["wakes"], "waker", "reader 100");
    assert_eq!((&wake["wakee"], &wake["off"]["times"]), (&"writer 200".into(), &WAITS.into()));
    let read = row(&sched["syscalls"], "name", "read");
    let parts = ["on_cpu_ns", "waiting_ns", "queue_ns"].map(|key| read[key].as_u64().unwrap());
    assert_eq!(parts.iter().sum::<u64>(), read["total_ns"].as_u64().unwrap());
    assert_eq!(json(&dir, &["sched", "--pid", "100"])["tasks_total"], 1);
}

#[test]
fn wrong_words_are_answered_with_the_right_ones() {
    let (_tmp, dir) = recording();
    for (words, needed) in [
        (&["syscalls", "--sort", "totl"][..], "did you mean 'total'?"),
        (&["syscalls", "--sort", "size"], "total calls errors mean p50 p99 max cpu blocked name"),
        (&["syscalls", "--by", "pid"], "name task comm file"),
        (&["syscalls", "--name", "raed"], "did you mean 'read'?"),
        (&["syscalls", "--name", "%disk"], "%desc %file %memory %process %network %signal %ipc"),
        (&["syscalls", "--file", "/nowhere"], "--by file"),
        (&["syscalls", "--log", "--sort", "mean"], "needed one of: time"),
        (&["io", "--sort", "x"], "bytes read written reads writes opens time file"),
        (&["io", "--by", "task"], "view io does not take --by"),
        (&["sched", "--sort", "x"], "waiting preempted queue off oncpu times max task"),
        (&["sched", "--file", "x"], "view sched does not take --file"),
        (&["faults", "--log"], "view faults does not take --log"),
    ] {
        let said = refused(&dir, words);
        assert!(said.contains(needed), "{words:?}: {said}");
    }
}

#[test]
fn a_recording_without_the_streams_says_how_to_get_them() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    let options = pagelab_recording::WriterOptions::default();
    let writer =
        pagelab_recording::RecordingWriter::create(&dir, pagelab_recording::Manifest::default(), options).unwrap();
    writer.close(|_| ()).unwrap();
    for (view, stream) in [("syscalls", "syscalls"), ("io", "syscalls"), ("sched", "sched")] {
        let notes = json(&dir, &[view])["notes"].to_string();
        assert!(notes.contains(&format!("--observe default,{stream}")), "{view}: {notes}");
    }
}

/// No bound is asserted: how long it takes is printed, for who looks.
#[test]
#[ignore = "writes ten million calls, to see how long the views take"]
fn ten_million_calls_are_shown() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    let written = Instant::now();
    calls_fixture::write_many(&dir, 10_000_000);
    println!("written in {:?}", written.elapsed());
    for words in
        [&["syscalls"][..], &["syscalls", "--by", "file"], &["io"], &["sched"], &["syscalls", "--log", "--top", "5"]]
    {
        let begun = Instant::now();
        assert!(!text(&dir, words).is_empty());
        println!("{words:?}: {:?}", begun.elapsed());
    }
}
