//! `pagelab show` on recordings of which every sum is known: what is listed adds up to what is said of the whole,
//! whatever the selection, and what is missing is said to be missing.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use crate::show_fixture;
use crate::shown;

use std::path::PathBuf;
use std::process::Command;

use pagelab_recording::Manifest;
use pagelab_recording::tables::{FaultsRow, LossRow};
use serde_json::Value;
use show_fixture::{
    ACTIONS, CHILD_PAGES, FAULTS, KERNEL_FAULTS, OPERATIONS, PARENT_AT, PARENT_PAGES, START, UGLY, last, write,
    write_empty,
};
use shown::{json, refused, row, text};
use tempfile::TempDir;

const VIEWS: &[&str] = &[
    "summary", "tasks", "faults", "maps", "metrics", "settings", "loss", "latency", "counters", "block", "dax",
    "regions",
];

fn whole() -> (TempDir, PathBuf) {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    write(&dir).close(last).unwrap();
    (tmp, dir)
}

fn sum(list: &Value, key: &str) -> u64 {
    list.as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap()).sum()
}

#[test]
fn every_view_is_text_of_100_columns_and_one_document() {
    let (_tmp, dir) = whole();
    for &view in VIEWS {
        let said = text(&dir, &[view]);
        for line in said.lines().skip(1) {
            assert!(line.chars().count() <= 100, "{view}: {line}");
            assert!(!line.contains('\x1b'), "{view}: {line:?}");
            assert_eq!(line.trim_end(), line, "{view}");
        }
        assert_eq!(said, text(&dir, &[view]), "{view} is the same each time");
        let document = json(&dir, &[view]);
        assert_eq!((&document["view"], &document["complete"]), (&Value::from(view), &Value::from(true)));
        assert_eq!(document["clock_start_ns"], START);
        // Faults are the one stream of it that lost something.
        let notes = document["notes"].as_array().expect("a list");
        let is_loss =
            |note: &Value| note.as_str().is_some_and(|note| note.starts_with("6 of 600 events of faults were lost"));
        assert!(
            if view == "faults" { notes.len() == 1 && is_loss(&notes[0]) } else { notes.is_empty() },
            "{view}: {notes:?}"
        );
    }
}

#[test]
fn faults_add_up_over_mappings_instructions_tasks_and_classes() {
    let (_tmp, dir) = whole();
    let all = json(&dir, &["faults", "--top", "0"]);
    assert_eq!((all["faults"].as_u64(), all["unattributed"].as_u64()), (Some(FAULTS), Some(1)));
    assert_eq!(sum(&all["mappings"], "faults") + 1, FAULTS);
    assert_eq!(sum(&all["classes"], "faults") + 1, FAULTS);
    assert_eq!(sum(&all["instructions"], "faults"), FAULTS);
    assert_eq!(sum(&all["tasks"], "faults"), FAULTS);
    assert_eq!(all["user"].as_u64().unwrap() + all["kernel"].as_u64().unwrap(), FAULTS);
    assert_eq!(all["kernel"], KERNEL_FAULTS);
    assert_eq!(all["protection"], sum(&all["mappings"], "protection_faults"));
    assert_eq!(all["major"], Value::Null, "nothing said whether the faults needed I/O");

    assert_eq!(sum(&all["orders"], "faults") + 1, FAULTS, "orders are those of mappings");
    assert_eq!(row(&all["orders"], "order", "descending")["faults"], PARENT_PAGES);
    let most = &all["mappings"][0];
    assert_eq!(
        (most["descending_steps"].as_u64(), most["ascending_steps"].as_u64()),
        (Some(PARENT_PAGES - 1), Some(0))
    );
    assert_eq!((&most["order"], &most["slots"]), (&"descending".into(), &2.into()));
    assert_eq!((most["faults_per_page"].as_f64(), most["faults_per_slot"].as_f64()), (Some(1.0), Some(512.0)));
    assert_eq!((&most["addr"], &most["kind"]), (&format!("{PARENT_AT:#x}").into(), &"[anonymous]".into()));
}

#[test]
fn code_is_found_again_in_every_process() {
    let (_tmp, dir) = whole();
    let all = json(&dir, &["faults"]);
    let code = row(&all["instructions"], "path", "/lib/libx.so");
    assert_eq!((&code["module_offset"], &code["addresses"]), (&"0x1020".into(), &2.into()));
    assert_eq!(code["faults"], PARENT_PAGES + CHILD_PAGES);
    let kernel = row(&all["instructions"], "path", "[kernel]");
    assert_eq!((&kernel["faults"], &kernel["module_offset"]), (&KERNEL_FAULTS.into(), &Value::Null));
}

#[test]
fn selections_are_parts_of_the_whole() {
    let (_tmp, dir) = whole();
    let of = |words: &[&str]| json(&dir, &[&["faults"], words].concat())["faults"].as_u64().unwrap();
    assert_eq!(of(&["--pid", "100"]) + of(&["--pid", "101"]), FAULTS);
    assert_eq!(of(&["--pid", "100"]), PARENT_PAGES);
    // The child was called `cache` only before it faulted, and `sh` was the parent's name before that.
    assert_eq!((of(&["--comm", "cache"]), of(&["--comm", "child"])), (PARENT_PAGES, FAULTS - PARENT_PAGES));
    assert_eq!(of(&["--comm", "sh"]), 0);
    assert_eq!((of(&["--file", "libx.so"]), of(&["--file", "/lib/libx.so", "--pid", "100"])), (KERNEL_FAULTS, 0));

    let maps = |words: &[&str]| json(&dir, &[&["maps"], words].concat());
    let count = |document: &Value| sum(&document["totals"], "count");
    assert_eq!(count(&maps(&["--pid", "100"])) + count(&maps(&["--pid", "101"])), ACTIONS);
    assert_eq!(maps(&["--file", "libx.so"])["actions_total"], 2);
    let some = maps(&["--top", "2"]);
    assert_eq!((some["actions"].as_array().map(Vec::len), &some["actions_total"]), (Some(2), &ACTIONS.into()));
    assert_eq!(count(&some), ACTIONS, "totals are not cut");
}

#[test]
fn classes_need_all_tasks_and_say_so() {
    let (_tmp, dir) = whole();
    let one = json(&dir, &["faults", "--pid", "100"]);
    assert_eq!(one["classes"], Value::Null);
    assert!(one["notes"].to_string().contains("--pid"), "{one:#}");
}

#[test]
fn tasks_compare_what_was_recorded_with_what_the_kernel_accounts() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["tasks"]);
    let tasks = &document["tasks"];
    assert_eq!(sum(tasks, "faults_recorded"), FAULTS);
    let (parent, child, thread) = (&tasks[0], row(tasks, "comm", "child"), row(tasks, "comm", "cache"));
    assert_eq!(
        (parent["task_id"].as_u64(), parent["depth"].as_u64(), child["depth"].as_u64()),
        (Some(1), Some(0), Some(1))
    );
    assert_eq!(parent["faults_difference"], 11, "ten minor faults and a major one more than were recorded");
    assert_eq!(child["faults_difference"], 4, "{child:#}");
    assert_eq!((&parent["exit"], &child["exit"]), (&"3".into(), &"SIGKILL".into()));
    assert_eq!((&parent["duration_ns"], &parent["cpu_ns"]), (&3_000_000_000_u64.into(), &5_000_000.into()));
    assert!(parent["present_at_start"].as_bool().unwrap() && !child["present_at_start"].as_bool().unwrap());
    assert_eq!(thread["pid"], 100);
    let running = tasks.as_array().unwrap().iter().find(|task| task["tid"] == 102).unwrap();
    for unknown in ["exit", "duration_ns", "cpu_ns", "minor_faults", "faults_difference"] {
        assert_eq!(running[unknown], Value::Null, "{unknown} of a task that has not ended");
    }
    let hex = UGLY.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    assert_eq!(child["exe_bytes_hex"], hex.as_str());
    assert!(parent.get("exe_bytes_hex").is_none());
    let lines = text(&dir, &["tasks"]);
    assert!(lines.contains("  child /tmp/\\u{1b}[2J"), "{lines}");
}

#[test]
fn maps_are_decoded_by_name() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["maps"]);
    assert_eq!(sum(&document["totals"], "count"), ACTIONS);
    let mmap = row(&document["totals"], "op", "mmap");
    assert_eq!((&mmap["failed"], &mmap["errnos"]["ENOMEM"], &mmap["not_calls"]), (&1.into(), &1.into(), &1.into()));
    let refused = row(&document["actions"], "result", "ENOMEM");
    assert_eq!(refused["flags"], "MAP_PRIVATE|MAP_ANONYMOUS|MAP_HUGETLB|MAP_HUGE_2MB");
    assert_eq!(refused["ret_addr"], Value::Null);
    assert_eq!(row(&document["actions"], "op", "madvise")["advice"], "MADV_NOHUGEPAGE");
    assert_eq!(row(&document["actions"], "op", "mprotect")["prot"], "PROT_READ|PROT_WRITE");
    assert_eq!(row(&document["actions"], "op", "mremap")["flags"], "MREMAP_MAYMOVE");
    let kernel = row(&document["actions"], "kind", "kernel");
    assert_eq!((&kernel["result"], &kernel["path"]), (&Value::Null, &"/lib/libx.so".into()));
    let longest = json(&dir, &["maps", "--sort", "len", "--top", "1"]);
    assert_eq!(longest["actions"][0]["len_bytes"], PARENT_PAGES * 4096);
}

#[test]
fn metrics_have_rates_and_means_in_the_measured_time() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["metrics", "vmstat", "memfree", "interrupts", "newer"]);
    let metrics = &document["metrics"];
    let counter = row(metrics, "name", "vmstat.pgfault");
    let (first, last) = (counter["first"].as_f64().unwrap(), counter["last"].as_f64().unwrap());
    let rate = counter["value"].as_f64().unwrap();
    assert!((rate - (last - first) / 2.0).abs() < 1e-6 * rate, "{counter:#}");
    assert_eq!((&counter["kind"], &counter["value_is"]), (&"counter".into(), &"per_second".into()));
    let gauge = row(metrics, "name", "meminfo.memfree_bytes");
    assert!((2e9..=2.001e9).contains(&gauge["value"].as_f64().unwrap()));
    assert_eq!((&gauge["unit"], &gauge["value_is"]), (&"bytes".into(), &"mean".into()));
    assert_eq!(row(metrics, "instance", "LOC")["rows"], 21);
    let unknown = row(metrics, "name", "from.a.newer.recorder");
    for missing in ["kind", "unit", "first", "last", "value", "value_is"] {
        assert_eq!(unknown[missing], Value::Null, "{missing}");
    }
    let ranked = json(&dir, &["metrics", "--sort", "last", "--top", "1"]);
    assert_eq!(ranked["metrics"][0]["name"], "meminfo.memfree_bytes");
    let none = json(&dir, &["metrics", "nothing.is.called.so"]);
    assert!(none["notes"][0].as_str().unwrap().contains("nothing.is.called.so"));
}

#[test]
fn settings_that_changed_are_marked() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["settings"]);
    assert_eq!((&document["changed"], &document["settings_total"]), (&1.into(), &6.into()));
    assert_eq!(document["not_read"], 2, "at the end: one could not be read, one was not looked for");
    let changed = row(&document["settings"], "state", "changed");
    assert_eq!(
        (&changed["key"], &changed["start"], &changed["end"]),
        (&"thp.enabled".into(), &"madvise".into(), &"always".into())
    );
    let unreadable = row(&document["settings"], "key", "sysctl.vm.stat_refresh");
    assert_eq!((&unreadable["start"], &unreadable["state"]), (&Value::Null, &"same".into()));
    for (key, state) in [("sysctl.vm.swappiness", "not_read"), ("kconfig.TRANSPARENT_HUGEPAGE", "start_only")] {
        let unread = row(&document["settings"], "key", key);
        assert_eq!((&unread["end"], &unread["state"]), (&Value::Null, &state.into()), "{key}");
    }
    let lines = text(&dir, &["settings"]);
    assert!(lines.lines().any(|line| line.starts_with("*  thp.enabled  ")), "{lines}");
    assert_eq!(lines.lines().filter(|line| line.starts_with('*')).count(), 1, "{lines}");
    assert!(lines.lines().any(|line| line.contains("kconfig.") && line.contains("not read")), "{lines}");
    assert!(
        lines.lines().any(|line| line.contains("cmdline.quiet") && line.contains("\"\"")),
        "empty is not missing: {lines}"
    );
    assert_eq!(json(&dir, &["settings", "thp."])["settings_total"], 2);
}

#[test]
fn loss_adds_up_over_the_seconds() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["loss"]);
    for counter in ["seen", "lost", "filtered"] {
        assert_eq!(sum(&document["totals"], counter), sum(&document["seconds"], counter), "{counter}");
    }
    let faults = row(&document["totals"], "stream", "faults");
    assert_eq!((&faults["seen"], &faults["lost"], &faults["filtered"]), (&600.into(), &6.into(), &60.into()));
    let worst = json(&dir, &["loss", "--sort", "lost", "--top", "1"]);
    assert_eq!((&worst["seconds"][0]["second"], &worst["seconds"][0]["lost"]), (&2.into(), &4.into()));
}

#[test]
fn latency_counts_every_operation_once() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["latency"]);
    let histogram = &document["histograms"][0];
    assert_eq!(histogram["count"], OPERATIONS, "the job's rows and its threads' say the same operations");
    let order = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns"];
    let values: Vec<u64> = order.iter().map(|key| histogram[*key].as_u64().unwrap()).collect();
    assert!(values.is_sorted(), "{values:?}");
    assert_eq!((values[1], values[4], values[5]), (1015, 5119, 1_000_999));
}

#[test]
fn the_summary_says_what_there_is() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["summary"]);
    let faults = row(&document["tables"], "table", "faults");
    assert_eq!(faults["rows"], FAULTS);
    let kinds = &document["faults"]["kinds"];
    assert_eq!(kinds["all"]["count"].as_f64(), Some(FAULTS as f64), "all of them are in the measured time");
    let by_mode = ["user", "kernel"].map(|mode| kinds[mode]["count"].as_f64().unwrap());
    assert_eq!(Some(by_mode.iter().sum()), kinds["all"]["count"].as_f64());
    assert!(kinds.get("major").is_none(), "nothing said which needed I/O");
    assert_eq!(document["duration_ns"], 3_000_000_000_u64);
    assert_eq!(document["slots"]["unattributed"], 1);
    assert_eq!(document["slots"]["whole_many_pages"], 2, "{:#}", document["slots"]);
    assert_eq!(document["rusage"]["minor_faults"], 1200);
    let changed = document["settings_changed"].as_array().unwrap();
    assert_eq!(changed.iter().map(|change| &change["key"]).collect::<Vec<_>>(), ["thp.enabled"]);
    assert_eq!(document["loss"]["faults"]["lost"], 6);
    let lines = text(&dir, &["summary"]);
    for said in [
        "cache --size 4M",
        "no fs_dax tracepoints; fix: pagelab lab up",
        "status 0",
        "- major (needed I/O)",
        "thp.enabled",
    ] {
        assert!(lines.contains(said), "{said}: {lines}");
    }
}

#[test]
fn a_recording_that_broke_off_is_shown_and_said_to_be_one() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    drop(write(&dir));
    for &view in VIEWS {
        assert_eq!(json(&dir, &[view])["complete"], false, "{view}");
        assert!(text(&dir, &[view]).lines().next().unwrap().contains("NOT COMPLETE"), "{view}");
    }
    let all = json(&dir, &["faults", "--top", "0"]);
    assert_eq!(all["faults"], FAULTS);
    assert_eq!(sum(&all["mappings"], "faults") + 1, FAULTS, "mappings are joined though nobody filled them in");
    let summary = json(&dir, &["summary"]);
    for unknown in ["exit", "duration_ns", "rusage"] {
        assert_eq!(summary[unknown], Value::Null, "{unknown}");
    }
    assert!(summary["excluded"].as_str().unwrap().contains("incomplete"));
}

#[test]
fn rows_that_were_given_up_are_said_to_be_missing() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    let mut writer = write(&dir);
    writer.push(&LossRow { ts: START, stream: "metrics", cpu: None, seen: 0, lost: 3, filtered: 0 });
    let reason = "3 rows of metrics were given up: cannot write metrics: Input/output error";
    let ended = |manifest: &mut Manifest| {
        last(manifest);
        manifest.complete = false;
        manifest.extra.insert("incomplete_reason".to_owned(), reason.into());
        manifest.extra.insert("rows_dropped".to_owned(), serde_json::json!({"metrics": 3}));
    };
    writer.close(ended).unwrap();
    for view in ["summary", "loss"] {
        let document = json(&dir, &[view]);
        assert_eq!((&document["complete"], &document["incomplete_reason"]), (&false.into(), &reason.into()), "{view}");
        assert_eq!(document["rows_dropped"]["metrics"], 3, "{view}");
        let said = text(&dir, &[view]);
        assert!(said.contains("NOT COMPLETE") && said.contains("3 rows of metrics were given up"), "{said}");
    }
    assert_eq!(json(&dir, &["summary"])["loss"]["metrics"]["lost"], 3);
    assert_eq!(row(&json(&dir, &["loss"])["totals"], "stream", "metrics")["lost"], 3);
    let checked = Command::new(env!("CARGO_BIN_EXE_pagelab")).arg("check").arg(&dir).output().unwrap();
    assert_eq!(checked.status.code(), Some(1));
    let said = String::from_utf8(checked.stdout).unwrap();
    for part in [reason, "rows.dropped", "3 events of stream metrics were lost"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn empty_tables_are_said_to_be_empty() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    write_empty(&dir);
    for &view in VIEWS {
        let document = json(&dir, &[view]);
        assert!(!text(&dir, &[view]).is_empty());
        if view != "summary" {
            assert!(!document["notes"].as_array().unwrap().is_empty(), "{view} says why it is empty");
        }
    }
    let summary = json(&dir, &["summary"]);
    assert_eq!((&summary["faults"], &summary["slots"], &summary["window"]), (&Value::Null, &Value::Null, &Value::Null));
    let faults = json(&dir, &["faults"]);
    assert_eq!(
        (&faults["unattributed"], &faults["classes"], &faults["major"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
}

#[test]
fn a_damaged_part_is_named_and_the_rest_is_shown() {
    let (_tmp, dir) = whole();
    let part = std::fs::read_dir(dir.join("loss")).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(&part).unwrap();
    std::fs::write(&part, &bytes[..bytes.len() / 2]).unwrap();
    for view in ["loss", "summary"] {
        let notes = json(&dir, &[view])["notes"].to_string();
        assert!(notes.contains(part.to_str().unwrap()), "{view}: {notes}");
    }
    // What is whole is shown; what was lost of it is not known any more.
    let faults = json(&dir, &["faults"]);
    let notes = faults["notes"].as_array().expect("a list");
    assert!(notes.len() == 1 && notes[0].to_string().contains(part.to_str().unwrap()), "{notes:?}");
    assert_eq!(faults["faults"], FAULTS);
}

#[test]
fn wrong_words_are_status_2_with_the_right_ones() {
    let (tmp, dir) = whole();
    assert!(refused(&dir, &["fauts"]).contains("did you mean 'faults'?"));
    assert!(refused(&dir, &["faults", "--sort", "pre_slot"]).contains("did you mean 'per_slot'?"));
    assert!(refused(&dir, &["loss", "--pid", "1"]).contains("does not take --pid; it takes: --top --sort"));
    assert!(refused(&dir, &["faults", "--pid", "4711"]).contains("no process 4711 among the 3 tasks"));
    assert!(refused(&dir, &["tasks", "--comm", "cach"]).contains("no name \"cach\""));
    assert!(refused(&tmp.path().join("absent"), &["summary"]).contains("no such path"));
    assert!(refused(tmp.path(), &["summary"]).contains("not a recording"));
    let file = tmp.path().join("file");
    std::fs::write(&file, "text").unwrap();
    assert!(refused(&file, &["summary"]).contains("file"));
    std::fs::create_dir(tmp.path().join("newer")).unwrap();
    std::fs::write(tmp.path().join("newer/manifest.json"), r#"{"format": 99, "pagelab_version": "9.0"}"#).unwrap();
    assert!(refused(&tmp.path().join("newer"), &["summary"]).contains("newer"));
}

/// What is printed about a view, or about all.
fn help(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pagelab")).arg("show").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_has_an_example() {
    assert!(help(&["--help"]).contains("pagelab show good.rec faults"));
    // What a column holds is said by the view that has it.
    assert!(help(&["tasks", "--help"]).contains("get_user_pages"));
}

/// Every view, and its options besides those of all views.
const OPTIONS: [(&str, &[&str]); 16] = [
    ("summary", &[]),
    ("tasks", &["--pid", "--comm", "--top", "--sort"]),
    ("faults", &["--pid", "--comm", "--file", "--top", "--sort"]),
    ("maps", &["--pid", "--comm", "--file", "--top", "--sort"]),
    ("metrics", &["--top", "--sort"]),
    ("settings", &["--top"]),
    ("loss", &["--top", "--sort"]),
    ("latency", &[]),
    ("profile", &["--pid", "--comm", "--file", "--top", "--sort", "--callers", "--callees", "--group"]),
    ("counters", &[]),
    ("block", &["--pid", "--comm", "--top", "--sort"]),
    ("regions", &["--pid", "--comm", "--file", "--top", "--sort"]),
    ("dax", &["--pid", "--comm", "--file", "--top", "--sort"]),
    ("syscalls", &["--pid", "--comm", "--file", "--top", "--sort", "--by", "--name", "--log"]),
    ("io", &["--pid", "--comm", "--file", "--top", "--sort"]),
    ("sched", &["--pid", "--comm", "--top", "--sort"]),
];

#[test]
fn each_view_has_help_about_its_own_options() {
    let all = help(&["-h"]);
    for (view, own) in OPTIONS {
        assert!(all.contains(&format!("\n  {view} ")), "{view} is listed: {all}");
        let help = help(&[view, "-h"]);
        let (_, options) = help.split_once("\nOptions:\n").unwrap();
        let options = options.split("\n\n").next().unwrap();
        let mut shown: Vec<(&str, usize)> = Vec::new();
        for line in options.lines() {
            match (line.trim_start().strip_prefix("--"), shown.last_mut()) {
                (Some(option), _) => shown.push((option.split(' ').next().unwrap(), 1)),
                // What every command has stands at the end.
                (None, _) if line.starts_with("  -") => break,
                (None, last) => last.unwrap().1 += 1,
            }
        }
        assert!(shown.iter().all(|(_, lines)| *lines <= 2), "{view}: {help}");
        let shown: Vec<&str> = shown.into_iter().map(|(name, _)| name).collect();
        let common = ["json", "base", "test", "from", "to"];
        let expected: Vec<&str> = own.iter().map(|name| name.trim_start_matches('-')).chain(common).collect();
        assert_eq!(shown, expected, "{view}: {help}");
    }
}

#[test]
fn options_may_stand_before_the_view() {
    let (_tmp, dir) = whole();
    let path = dir.to_str().unwrap();
    let said = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_pagelab")).arg("show").args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        output.stdout
    };
    let behind = said(&[path, "faults", "--top", "1", "--json"]);
    assert_eq!(said(&["--top", "1", path, "--json", "faults"]), behind);
    assert_eq!(said(&["--json", "--top=1", path, "faults"]), behind);
    assert_eq!(said(&["--json", path]), said(&[path, "summary", "--json"]));
}

#[test]
fn how_faults_ended_is_told_by_kind_and_by_what_they_got() {
    let (_tmp, dir) = whole();
    assert!(!text(&dir, &["faults"]).contains("HOW THEY ENDED"), "nobody looked");
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    let mut writer = write(&dir);
    let end = |i: i64, major, dur, got| FaultsRow {
        ts: START + 3_000 + i,
        task_id: 1,
        mm_id: 1,
        addr: PARENT_AT,
        major: Some(major),
        dur: Some(dur),
        got,
        ..FaultsRow::default()
    };
    for i in 0..4 {
        writer.push(&end(i, false, 100 * (i + 1), Some("new")));
    }
    writer.push(&end(4, true, 5_000, Some("page_cache")));
    writer.push(&end(5, true, 7_000, None));
    let told = serde_json::json!({"seen": 8, "lost": 1, "unmatched": 1, "minor_one_in": 64, "major_one_in": 1});
    let closed = writer.close(|manifest| {
        last(manifest);
        manifest.extra.insert("fault_details".to_owned(), told);
    });
    closed.unwrap();
    let document = json(&dir, &["faults"]);
    let found = &document["ends"];
    assert_eq!(
        (&found["major"], &found["minor"], &found["minor_one_in"]),
        (&2.into(), &4.into(), &64.into()),
        "{document}"
    );
    assert_eq!(found["lost"], 2);
    let ends = found["ends"].as_array().unwrap();
    assert_eq!(ends.iter().map(|one| one["faults"].as_u64().unwrap()).sum::<u64>(), 6);
    let new = ends.iter().find(|one| one["got"] == "new").unwrap();
    assert_eq!((&new["major"], &new["total_ns"], &new["share"]), (&false.into(), &1000.into(), &1.0.into()));
    let said = text(&dir, &["faults"]);
    let told = said.split_once("HOW THEY ENDED").unwrap().1;
    assert!(told.contains("one in 64") && told.contains("page_cache"), "{told}");
    assert!(said.contains("of 2 faults that were looked at"), "what was lost is said: {said}");
}
