//! `compare --confirm`: from recordings of two sides to a cause that is toggled, and nothing else with it.

use crate::common;

use std::path::Path;
use std::process::Command;

use common::{json, pagelab, run, scratch};

/// Maps and fills a block of memory over and over: `MALLOC_MMAP_THRESHOLD_` decides whether it is given back each time.
const CHURN: &str = "for i in range(2500): b = bytearray(400000)";
const KEPT: [(&str, &str); 2] = [("MALLOC_MMAP_THRESHOLD_", "4194304"), ("MALLOC_TRIM_THRESHOLD_", "33554432")];
const GIVEN_BACK: [(&str, &str); 2] = [("MALLOC_MMAP_THRESHOLD_", "65536"), ("MALLOC_TRIM_THRESHOLD_", "33554432")];

fn record(dir: &Path, side: &str, number: usize, variables: [(&str, &str); 2]) {
    let name = format!("{side}/run={number:03}");
    let mut command: Command = pagelab();
    command.args(["record", "-q", "-o", &name, "--", "python3", "-c", CHURN]);
    run(command.envs(variables).current_dir(dir), 0);
}

#[test]
#[ignore = "compares times: nothing may run beside it"]
fn host_a_cause_is_toggled_and_confirmed() {
    let dir = scratch();
    for number in 0..4 {
        record(dir.path(), "base", number, KEPT);
        record(dir.path(), "test", number, GIVEN_BACK);
    }
    let mut command = pagelab();
    command.args(["compare", "base", "test", "--confirm", "--confirm-seconds", "60", "--json"]);
    // Where the rounds run, the variable that is not toggled is as it was.
    let output = run(command.env("MALLOC_TRIM_THRESHOLD_", "33554432").current_dir(dir.path()), 0);
    let document = json(&output);
    let first = &document["findings"][0];
    assert_eq!(first["cause"], "map.churn", "{}", document["findings"]);
    assert_eq!(first["setting"]["key"], "env.MALLOC_MMAP_THRESHOLD_");
    let follow_up = &first["follow_up"];
    assert_eq!(follow_up["state"], "confirmed", "{follow_up}");
    assert_eq!(first["confidence"], "confirmed");
    assert!(follow_up["rounds"].as_u64().is_some_and(|rounds| rounds >= 4), "{follow_up}");
    let low = follow_up["returned_of_claim_pct_ci95"][0].as_f64().expect("an interval");
    assert!(low >= 50.0, "confirmed takes an effect of the claim's size: {follow_up}");
    assert!(follow_up["returned_pct_ci95"].is_array() && follow_up["claimed_pct"].is_number(), "{follow_up}");
    let kept = follow_up["set"].as_str().expect("where the rounds are");
    assert!(dir.path().join(kept).join("compare.json").is_file(), "{kept}");
}

#[test]
#[ignore = "compares times: nothing may run beside it"]
fn host_too_little_time_decides_nothing_and_says_how_much_is_needed() {
    let dir = scratch();
    for number in 0..3 {
        record(dir.path(), "base", number, KEPT);
        record(dir.path(), "test", number, GIVEN_BACK);
    }
    let mut command = pagelab();
    command.args(["compare", "base", "test", "--confirm", "--confirm-seconds", "2", "--json"]);
    let document = json(&run(command.current_dir(dir.path()), 0));
    let follow_up = &document["findings"][0]["follow_up"];
    assert_eq!(follow_up["state"], "not_decided", "{}", document["findings"]);
    assert!(follow_up["reason"].as_str().is_some_and(|reason| reason.contains("--confirm-seconds")), "{follow_up}");
    let mut command = pagelab();
    command.args(["compare", "base", "test", "--confirm", "--confirm-seconds", "nan"]);
    let refused = run(command.current_dir(dir.path()), 2);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("needed a number of seconds above 0"));
}
