//! `pagelab show` of what the machine did: counters, disks, DAX, page sizes. On a recording of which every sum is
//! known.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

#[allow(dead_code, reason = "each test file uses a part")]
use crate::show_fixture;
use crate::shown;

use std::path::PathBuf;

use serde_json::Value;
use show_fixture::machine::{
    CHILD_BYTES, DAX_FILE, HUGE_BYTES, HUGE_SLOTS, NOT_SUPPORTED, PAGE_FAULTS_PER_SECOND, READS, SMALL_BYTES,
    SMALL_SLOTS, WRITES,
};
use show_fixture::{last, write};
use shown::{json, row, text};
use tempfile::TempDir;

fn whole() -> (TempDir, PathBuf) {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    write(&dir).close(last).unwrap();
    (tmp, dir)
}

fn about(found: &Value, wanted: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - wanted).abs() < 1e-9 * wanted.abs(), "{found} for {wanted}");
}

#[test]
fn counts_are_scaled_where_they_took_turns_and_null_where_there_are_none() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["counters"]);
    let event = |name| row(&document["events"], "name", name);
    let faults = event("page-faults");
    assert_eq!((&faults["value"], &faults["multiplexed"]), (&(3 * PAGE_FAULTS_PER_SECOND).into(), &false.into()));
    about(&faults["running_pct"], 100.0);
    let cycles = event("cycles");
    assert_eq!((&cycles["value"], &cycles["multiplexed"]), (&3_000_000.into(), &true.into()));
    about(&cycles["estimate"], 6e6);
    about(&cycles["running_pct"], 50.0);
    let never = event("branch-misses");
    assert_eq!((&never["value"], &never["estimate"]), (&0.into(), &Value::Null), "no turn is not 0");
    assert!(never["reason"].as_str().unwrap().contains("never given a counter"));
    let missing = event("LLC-loads");
    assert_eq!((&missing["value"], &missing["reason"]), (&Value::Null, &NOT_SUPPORTED.into()));
    let lines = text(&dir, &["counters"]);
    assert!(lines.contains("6000000  ~") && lines.contains(NOT_SUPPORTED), "{lines}");
}

#[test]
fn counts_are_per_operation_of_the_measured_time() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["counters"]);
    // The load measured two of the three seconds and counted 100 operations in them.
    about(&document["operations"], 100.0);
    let event = |name| row(&document["events"], "name", name);
    about(&event("page-faults")["per_operation"], 2.0 * PAGE_FAULTS_PER_SECOND as f64 / 100.0);
    about(&event("cycles")["per_operation"], 4e6 / 100.0);
}

#[test]
fn ratios_are_of_events_counted_together() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["counters"]);
    let ratio = |name| row(&document["ratios"], "name", name);
    about(&ratio("insn_per_cycle")["value"], 2.5);
    about(&ratio("page_faults_per_second")["value"], PAGE_FAULTS_PER_SECOND as f64 / 0.9);
    about(&document["cpus_utilized"], 0.9);
    for (name, why) in [
        ("cycles_ghz", "not counted at the same times"),
        ("branch_miss_pct", "not counted at the same times"),
        ("llc_load_miss_pct", "was not counted"),
    ] {
        assert_eq!(ratio(name)["value"], Value::Null, "{name}");
        assert!(ratio(name)["reason"].as_str().unwrap().contains(why), "{name}: {}", ratio(name));
    }
    let some = json(&dir, &["counters", "page-"]);
    assert_eq!(some["events"].as_array().map(Vec::len), Some(1), "{some:#}");
}

#[test]
fn block_requests_are_summed_by_device_and_operation() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["block"]);
    assert_eq!(document["requests"], READS + WRITES + 1);
    let group = |op| row(&document["groups"], "op", op);
    let reads = group("read");
    assert_eq!(
        (&reads["device"], &reads["count"], &reads["bytes"]),
        (&"254:0".into(), &READS.into(), &(READS * 4096).into())
    );
    assert_eq!((&reads["device_name"], &group("write")["device_name"]), (&"vda".into(), &"vda".into()));
    let shown = text(&dir, &["block"]);
    assert!(shown.contains("vda") && !shown.contains("254:0"), "{shown}");
    let times = &reads["device_time"];
    assert_eq!(
        (&times["p50_ns"], &times["p99_ns"], &times["max_ns"]),
        (&50_000.into(), &99_000.into(), &100_000.into())
    );
    about(&times["mean_ns"], 50_500.0);
    about(&reads["queue"]["mean_ns"], 500.0);
    // From the first issue to the last completion of the device: the flush, which is issued after two seconds, ends it.
    about(&reads["requests_per_second"], READS as f64 / 2.0);
    let writes = group("write");
    assert_eq!(
        (&writes["merged_requests"], &writes["merged"], &writes["failed"]),
        (&WRITES.into(), &(2 * WRITES).into(), &1.into())
    );
    assert_eq!((&reads["by_tasks"], &writes["by_tasks"]), (&READS.into(), &0.into()));
    let flush = group("flush");
    assert_eq!((&flush["unfinished"], &flush["device_time"]["mean_ns"]), (&1.into(), &Value::Null));
    for group in document["groups"].as_array().unwrap() {
        let counts: u64 = group["sizes"].as_array().unwrap().iter().map(|size| size["count"].as_u64().unwrap()).sum();
        assert_eq!(group["count"], counts);
    }
    let mine = json(&dir, &["block", "--pid", "100"]);
    assert_eq!((&mine["requests"], mine["groups"].as_array().map(Vec::len)), (&READS.into(), Some(1)));
    assert_eq!(json(&dir, &["block", "--sort", "device"])["groups"][0]["op"], "write");
}

#[test]
fn dax_slots_are_counted_once_however_often_the_kernel_tried() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["dax"]);
    let file = row(&document["files"], "path", DAX_FILE);
    assert_eq!(
        (&file["slots"], &file["huge_slots"], &file["small_slots"]),
        (&(HUGE_SLOTS + SMALL_SLOTS).into(), &HUGE_SLOTS.into(), &SMALL_SLOTS.into())
    );
    assert_eq!(file["faults"], HUGE_SLOTS + 4 * SMALL_SLOTS);
    let fallback = row(&file["outcomes"], "outcome", "FALLBACK");
    assert_eq!((&fallback["faults"], &fallback["slots"]), (&(2 * SMALL_SLOTS).into(), &SMALL_SLOTS.into()));
    // A slot in which a page was mapped before is not huge, whatever the kernel said later.
    let other = &document["files"][1];
    assert_eq!((&other["path"], &other["huge_slots"], &other["small_slots"]), (&Value::Null, &0.into(), &1.into()));
    assert_eq!(document["slots"], HUGE_SLOTS + SMALL_SLOTS + 1);
    let named = json(&dir, &["dax", "--file", "data"]);
    assert_eq!(named["files"].as_array().map(Vec::len), Some(1));
    assert_eq!(json(&dir, &["dax", "--pid", "101"])["faults"], 2);
}

#[test]
fn page_sizes_are_those_of_the_last_look() {
    let (_tmp, dir) = whole();
    let document = json(&dir, &["regions"]);
    let size = |list: &Value, page: u64| {
        let found = list.as_array().unwrap().iter().find(|size| size["page_size_bytes"] == page);
        found.map(|size| size["bytes"].as_u64().unwrap())
    };
    assert_eq!(size(&document["sizes"], 4096), Some(SMALL_BYTES + CHILD_BYTES));
    assert_eq!(size(&document["sizes"], 2 << 20), Some(HUGE_BYTES));
    let parent = row(&document["address_spaces"], "comm", "cache");
    assert_eq!((&parent["pid"], &parent["bytes"]), (&100.into(), &(SMALL_BYTES + HUGE_BYTES).into()));
    let shortfall = |reason| row(&document["shortfalls"], "reason", reason)["bytes"].as_u64();
    assert_eq!((shortfall("unknown"), shortfall("not_touched")), (Some(SMALL_BYTES), Some(0)));
    assert_eq!(document["shortfalls"].as_array().map(Vec::len), Some(2), "the first look is over: {document:#}");
    let region = &document["regions"][0];
    assert_eq!(
        (&region["asked"], &region["reason"], &region["bytes"]),
        (&"madvise".into(), &"unknown".into(), &(SMALL_BYTES + HUGE_BYTES).into())
    );
    let child = json(&dir, &["regions", "--pid", "101"]);
    assert_eq!((&child["regions_total"], &child["regions"][0]["path"]), (&1.into(), &"/lib/libx.so".into()));
    assert_eq!(json(&dir, &["regions", "--file", "libx.so"])["regions_total"], 1);
    let all = document["regions"].as_array().unwrap();
    let sum: u64 = all.iter().map(|region| region["bytes"].as_u64().unwrap()).sum();
    assert_eq!(sum, SMALL_BYTES + HUGE_BYTES + CHILD_BYTES);
}
