//! `pagelab export` on a program that was really recorded: what its stacks weigh together is what the tables hold.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{binary, run, scratch, stderr};
use tempfile::TempDir;

fn recorded(observe: &str, command: &str) -> (TempDir, PathBuf) {
    let tmp = scratch();
    let dir = tmp.path().join("r");
    run(
        Command::new(binary()).args(["record", "--observe", observe, "-o"]).arg(&dir).args(["--", "sh", "-c", command]),
        0,
    );
    (tmp, dir)
}

fn export(words: &[&str], dir: &Path) -> String {
    let output = run(Command::new(binary()).arg("export").args(words).arg(dir), 0);
    String::from_utf8(output.stdout).unwrap()
}

fn number(dir: &Path, sql: &str) -> u64 {
    let output = run(Command::new(binary()).args(["query", "--format", "csv"]).arg(dir).arg(sql), 0);
    String::from_utf8(output.stdout).unwrap().lines().nth(1).unwrap().parse().unwrap()
}

/// The stacks, and what they weigh together.
fn parsed(text: &str) -> (Vec<&str>, u64) {
    let lines: Vec<(&str, &str)> = text.lines().map(|line| line.rsplit_once(' ').unwrap()).collect();
    let weight = lines.iter().map(|(_, weight)| weight.parse::<u64>().unwrap()).sum();
    (lines.into_iter().map(|(stack, _)| stack).collect(), weight)
}

#[test]
fn folded_stacks_weigh_what_was_recorded() {
    let (tmp, dir) =
        recorded("tasks,cpu,sched", "dd if=/dev/zero of=/dev/null bs=1M count=6000 2>/dev/null; sleep 0.3");
    let text = export(&["folded"], &dir);
    let (stacks, weight) = parsed(&text);
    assert_eq!(weight, number(&dir, "select sum(weight) from samples"));
    let zeroed = |stack: &&str| stack.starts_with("dd;") && stack.contains(";ksys_read_[k];");
    assert!(stacks.iter().any(zeroed), "dd reads: {text}");
    let (only, of_dd) = parsed_of(&export(&["folded", "--comm", "dd"], &dir));
    assert!(of_dd > 0 && only.iter().all(|stack| stack.starts_with("dd;")), "{only:?}");

    let text = export(&["folded", "--of", "sched"], &dir);
    let (stacks, off) = parsed(&text);
    assert_eq!(off, number(&dir, "select sum(dur) from offcpu"));
    let slept = text.lines().filter(|line| line.starts_with("sleep;") && line.contains("do_nanosleep_[k]"));
    let slept: u64 = slept.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
    assert!((300_000_000..1_000_000_000).contains(&slept), "{slept} of {stacks:?}");

    let svg = tmp.path().join("a.svg");
    let path = svg.to_str().unwrap();
    let output = export(&["flamegraph", "-o", path], &dir);
    assert_eq!(output, "", "all of it is in the file");
    let drawn = fs::read_to_string(&svg).unwrap();
    assert!(drawn.contains("<svg") && drawn.contains("<title>ksys_read ("), "{drawn}");
    assert_eq!(drawn, export(&["flamegraph"], &dir), "the same on standard output");
    export(&["flamegraph", "-o", "/dev/null"], &dir);
    assert!(!fs::metadata("/dev/null").unwrap().is_file(), "a device is written to, not replaced");
}

fn parsed_of(text: &str) -> (Vec<String>, u64) {
    let (stacks, weight) = parsed(text);
    (stacks.into_iter().map(str::to_owned).collect(), weight)
}

#[test]
fn what_cannot_be_exported_is_said() {
    let (_tmp, dir) = recorded("tasks", "true");
    let refused = |words: &[&str]| stderr(&run(Command::new(binary()).arg("export").args(words), 2));
    let here = dir.to_str().unwrap();
    assert!(
        refused(&["folded", here]).contains("no samples were recorded; ask for them: pagelab record --observe cpu")
    );
    assert!(refused(&["flamegraph", "--of", "sched", here]).contains("--observe sched"));
    assert!(refused(&["folded", "--comm", "nobody", here]).contains("no name \"nobody\""));
    assert!(refused(&["firefly", here]).contains("invalid value"));
    assert!(refused(&["folded", "/nowhere"]).contains("/nowhere"));
}
