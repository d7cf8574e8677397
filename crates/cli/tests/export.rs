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

/// Stacks of waits without a switch that was recorded: they weigh what the account says, which is made of the same sums.
#[test]
fn stacks_of_waits_weigh_what_the_account_says() {
    let (_tmp, dir) = recorded("tasks,waits", "for i in 1 2 3; do sleep 0.2; done");
    let text = export(&["folded", "--of", "waits"], &dir);
    let (stacks, weight) = parsed(&text);
    let shown = run(Command::new(binary()).arg("show").arg(&dir).args(["budget", "--json", "--top", "0"]), 0);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let off_ns = shown["off_ns"].as_u64().unwrap();
    assert!(off_ns > 600_000_000 && weight.abs_diff(off_ns) <= stacks.len() as u64, "{weight} of {off_ns}: {text}");
    for component in shown["components"].as_array().unwrap().iter().filter(|one| one["state"] == "off") {
        let begin = format!("{};", component["component"].as_str().unwrap());
        let of = text.lines().filter(|line| line.starts_with(&begin)).map(|line| line.rsplit_once(' ').unwrap().1);
        let sum: u64 = of.map(|ns| ns.parse::<u64>().unwrap()).sum();
        assert!(sum.abs_diff(component["ns"].as_u64().unwrap()) <= stacks.len() as u64, "{begin} {sum}: {text}");
    }
    assert!(
        stacks.iter().any(|stack| stack.starts_with("off.timer;sleep;") && stack.contains("hrtimer_nanosleep_[k]")),
        "{text}"
    );
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
        refused(&["folded", here]).contains("no samples were recorded; ask for them: pagelab record --observe default")
    );
    assert!(refused(&["flamegraph", "--of", "sched", here]).contains("--observe default,sched"));
    assert!(refused(&["folded", "--comm", "nobody", here]).contains("no name \"nobody\""));
    assert!(refused(&["firefly", here]).contains("invalid value"));
    assert!(refused(&["folded", "/nowhere"]).contains("/nowhere"));
}

/// Other tools are given every event of the tables, and none twice.
#[test]
fn profiles_and_traces_hold_what_the_tables_hold() {
    let (tmp, dir) =
        recorded("tasks,cpu,sched,faults,syscalls", "dd if=/dev/zero of=/dev/null bs=1M count=2000 2>/dev/null");
    let of_tasks = |table: &str| {
        number(&dir, &format!("select count(*) from {table} where task_id in (select task_id from tasks)"))
    };
    let tables = ["samples", "faults", "syscalls", "offcpu"].map(of_tasks);
    let json: serde_json::Value = serde_json::from_str(&export(&["firefox-profiler"], &dir)).unwrap();
    let threads = json["threads"].as_array().unwrap();
    let sum = |part: &str| threads.iter().map(|thread| thread[part]["length"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("samples"), tables[0]);
    // And one of the thread that spans the recording.
    assert_eq!(sum("markers"), tables[1] + tables[2] + tables[3] + 1);
    assert!(threads.iter().any(|thread| thread["name"] == "dd"));

    let trace = tmp.path().join("a.pftrace");
    run(Command::new(binary()).args(["export", "perfetto", "-o"]).arg(&trace).arg(&dir), 0);
    assert!(fs::metadata(&trace).unwrap().len() > 10 * tables.iter().sum::<u64>());
    let refused = run(Command::new(binary()).args(["export", "perfetto"]).arg(&dir), 2);
    assert!(stderr(&refused).contains("-o trace.pftrace"));
}

/// The text is read by rules that <https://prometheus.io/docs/specs/om/open_metrics_spec/> gives.
#[test]
fn open_metrics_text_keeps_the_rules_of_the_format() {
    let (_tmp, dir) = recorded("default", "dd if=/dev/zero of=/dev/null bs=1M count=500 2>/dev/null");
    let text = export(&["openmetrics"], &dir);
    assert!(text.ends_with("# EOF\n"));
    let mut families = std::collections::BTreeSet::new();
    let mut family = ("", "");
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split_once(' ').unwrap();
            assert!(families.insert(family.0), "{} comes twice", family.0);
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').unwrap();
            assert!(name == family.0 && name.ends_with(&format!("_{unit}")), "{line}");
        } else if !line.starts_with("# HELP ") {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let name = sample.split('{').next().unwrap();
            let wanted = if family.1 == "counter" { format!("{}_total", family.0) } else { family.0.to_owned() };
            assert_eq!(name, wanted, "{line}");
            assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
        }
    }
    assert!(families.contains("pagelab_run_elapsed_seconds") && families.len() > 200, "{} families", families.len());
}
