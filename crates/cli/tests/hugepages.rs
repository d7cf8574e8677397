//! `pagelab hugepages`: exit statuses and documents of the command; what stands behind it is tested in its libraries.

use crate::common;

use std::process::Command;

use common::{as_ordinary_user, is_root, json, pagelab, run, stderr};
use serde_json::Value;

fn hugepages(arguments: &[&str]) -> Command {
    let mut command = pagelab();
    command.arg("hugepages").args(arguments);
    command
}

#[test]
fn pools_and_mounts_are_listed_for_everybody() {
    let pools = json(&run(&mut hugepages(&["list", "--json"]), 0));
    let sizes = std::fs::read_dir("/sys/kernel/mm/hugepages").expect("this kernel has pools").count();
    assert_eq!(pools["pools"].as_array().map(Vec::len), Some(sizes), "{pools:#}");
    let mounts = json(&run(&mut hugepages(&["mounts", "list", "--json"]), 0));
    let text = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let there = text.lines().filter(|line| line.contains(" - hugetlbfs ")).count();
    assert_eq!(mounts["mounts"].as_array().map(Vec::len), Some(there), "{mounts:#}");
}

#[test]
fn a_plan_has_room_for_what_was_asked() {
    let plan = json(&run(&mut hugepages(&["plan", "--bytes", "100M", "--size", "2M", "--json"]), 0));
    assert_eq!(plan["needed_pages"], 50, "{plan:#}");
    assert!(plan["pool_pages"].as_u64() >= Some(50) && plan["lasting"].is_array(), "{plan:#}");
}

/// What was typed wrong is status 2, what the host cannot do 3; each says what is needed.
#[test]
fn what_cannot_be_done_is_said_and_nothing_is_changed() {
    for (arguments, status, word) in [
        (vec!["set", "3M", "1"], 2, "page sizes"),
        (vec!["set", "2M", "many"], 2, "invalid value"),
        (vec!["plan", "--bytes", "x"], 2, "needed a number of bytes"),
        (vec!["plan", "--bytes", "0"], 2, "needed more than 0"),
        (vec!["mounts", "remove", "/proc"], 2, "hugetlbfs"),
        (vec!["mounts", "create", "/tmp", "--mode", "9"], 2, "octal"),
        (vec!["exec", "--text", "--", "true"], 2, "text"),
        (vec!["exec", "--", "true"], 2, "needed --heap"),
        (vec!["exec", "--heap", "thp", "--", "/no/such/program"], 2, "/no/such/program"),
        (vec!["conformance", "no.such_case"], 2, "no.such_case"),
        (vec!["set", "2M", "99999999999"], 3, "at most"),
    ] {
        let output = run(&mut hugepages(&arguments), status);
        assert!(stderr(&output).contains(word), "{arguments:?}: {}", stderr(&output));
    }
    if is_root() {
        for arguments in [vec!["set", "2M", "1"], vec!["conformance", "sanity"]] {
            let (_dir, mut command) = as_ordinary_user();
            let output = run(command.arg("hugepages").args(&arguments), 3);
            assert!(stderr(&output).contains("root"), "{}", stderr(&output));
        }
    }
}

#[test]
fn a_program_keeps_its_output_and_its_status() {
    let output = run(&mut hugepages(&["exec", "--heap", "thp", "--", "sh", "-c", "echo said; exit 7"]), 7);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "said\n");
    assert!(stderr(&output).contains("exit code 7"), "{}", stderr(&output));
}

/// The published table, to the page, and everything put back.
#[test]
#[ignore = "changes settings of the host"]
fn host_one_command_gives_the_published_pool_table() {
    let pool = || json(&run(&mut hugepages(&["list", "--json"]), 0));
    let before = pool();
    let document = json(&run(&mut hugepages(&["accounting", "--json", "100M", "300M", "512M"]), 0));
    let steps = document["steps"].as_array().expect("a list");
    let of = |step: &Value, key: &str| step["pool"][key].as_u64().unwrap_or_else(|| panic!("{key}: {step:#}"));
    let keys = ["total_pages", "free_pages", "reserved_pages", "surplus_pages"];
    let found: Vec<[u64; 4]> = steps.iter().map(|step| keys.map(|key| of(step, key))).collect();
    assert_eq!(found, [[128, 128, 0, 0], [128, 78, 0, 0], [150, 0, 0, 22], [256, 0, 0, 128]]);
    assert_eq!(pool(), before, "put back");
}

#[test]
#[ignore = "changes settings of the host"]
fn host_a_topic_of_the_suite_passes_in_every_form() {
    let text = run(&mut hugepages(&["conformance", "sanity"]), 0);
    assert!(String::from_utf8_lossy(&text.stdout).contains(" cases on Linux "), "{text:?}");
    let tap = run(&mut hugepages(&["conformance", "--tap", "sanity"]), 0);
    let tap = String::from_utf8_lossy(&tap.stdout).into_owned();
    assert!(tap.starts_with("TAP version 14\n") && !tap.contains("\nnot ok"), "{tap}");
    let document = json(&run(&mut hugepages(&["conformance", "--json", "sanity"]), 0));
    let cases = document["cases"].as_array().expect("a list");
    assert!(cases.iter().all(|case| case["topic"] == "sanity" && case["result"] == "pass"), "{document:#}");
    assert_eq!(tap.matches("\nok ").count(), cases.len());
}

/// A pool of ten pages is granted, and given back.
#[test]
#[ignore = "changes settings of the host"]
fn host_a_pool_is_set_for_good_and_set_back() {
    let pages = || std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").expect("a pool");
    let before: u64 = pages().trim().parse().expect("a number");
    let report = json(&run(&mut hugepages(&["set", "2M", &(before + 10).to_string(), "--json"]), 0));
    let granted = pages();
    run(&mut hugepages(&["set", "2M", &before.to_string()]), 0);
    assert_eq!((report["granted_pages"].as_u64(), granted.trim()), (Some(before + 10), &*(before + 10).to_string()));
    assert_eq!(pages().trim(), before.to_string());
}
