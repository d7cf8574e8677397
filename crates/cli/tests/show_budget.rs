//! `pagelab show DIR budget` of a real recording: the account closes, and two sides are compared by it.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use crate::common;

use std::path::Path;

use common::{json, pagelab, run, scratch};
use serde_json::Value;

/// Runs, sleeps, waits for a child that runs, and writes.
const WORK: &str = "import os, time
end = time.process_time() + 0.4
while time.process_time() < end: bytes(1 << 20)
pid = os.fork()
if pid == 0:
    end = time.process_time() + 0.2
    while time.process_time() < end: sum(range(10000))
    os._exit(0)
os.waitpid(pid, 0)
time.sleep(0.3)";

fn record(dir: &Path, streams: &str) {
    let mut record = pagelab();
    record.args(["record", "-q", "--observe", streams, "-o"]).arg(dir);
    run(record.args(["--", "python3", "-c", WORK]), 0);
}

fn budget(dir: &Path) -> Value {
    json(&run(pagelab().args(["show", "--json", "--top", "0"]).arg(dir).arg("budget"), 0))
}

fn ns(document: &Value, key: &str) -> u64 {
    document[key].as_u64().unwrap_or_else(|| panic!("{key}: {document:#}"))
}

fn component(document: &Value, name: &str) -> u64 {
    let rows = document["components"].as_array().unwrap();
    rows.iter().find(|row| row["component"] == name).map_or(0, |row| ns(row, "ns"))
}

#[test]
fn the_account_of_a_real_program_closes() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    record(&dir, "default");
    let document = budget(&dir);
    let lives = ns(&document, "lives_ns");
    assert_eq!(ns(&document, "run_ns") + ns(&document, "ready_ns") + ns(&document, "off_ns"), lives);
    let rows = document["components"].as_array().unwrap();
    let sum = |key: &str| rows.iter().filter_map(|row| row[key].as_u64()).sum::<u64>();
    assert!(sum("ns").abs_diff(lives) <= rows.len() as u64, "{document:#}");
    let (window, idle) = (ns(&document, "window_ns"), ns(&document, "idle_ns"));
    assert!((sum("wall_ns") + idle).abs_diff(window) <= window / 1000, "{document:#}");
    // It ran at least as long as it asked for, and slept and waited so.
    assert!((550_000_000..2_000_000_000).contains(&ns(&document, "run_ns")), "{document:#}");
    // The kernel leaves hits of tracepoints out while others come to them or go: one wake-up may go unseen.
    let [timer, dependent, unknown] =
        ["off.timer", "off.dependent", "off.unknown"].map(|name| component(&document, name));
    assert!(timer.max(dependent) >= 180_000_000, "{document:#}");
    assert!(timer + unknown >= 290_000_000 && dependent + unknown >= 180_000_000, "{document:#}");
    assert!(timer < 400_000_000, "{document:#}");
    assert!(idle >= 250_000_000, "{document:#}");
    assert_eq!(document["missing"].as_array().unwrap().len(), 0, "{document:#}");
    let said = String::from_utf8(run(pagelab().arg("show").arg(&dir).arg("budget"), 0).stdout).unwrap();
    assert!(said.contains("on a CPU") && said.contains("ACTIVE") && said.contains("WAITING FOR OTHERS"), "{said}");

    let alone = json(&run(pagelab().args(["explain", "--json"]).arg(&dir), 0));
    let account = &alone["budget"];
    assert_eq!(ns(account, "lives_ns"), lives);
    assert_eq!(account["components"][0]["component"], rows[0]["component"], "the longest first");

    let without = tmp.path().join("without");
    record(&without, "tasks,cpu");
    let parts = budget(&without);
    assert_eq!(parts["lives_ns"], Value::Null);
    assert!(parts["missing"].as_array().unwrap().iter().any(|missing| missing["part"] == "off"), "{parts:#}");

    let mut compare = pagelab();
    let half = json(&run(compare.args(["compare", "--json", "--base"]).arg(&dir).arg("--test").arg(&without), 0));
    assert_eq!(half["budget"], Value::Null);
    let notes = half["notes"].as_array().unwrap();
    assert!(
        notes.iter().any(|note| note
            .as_str()
            .unwrap()
            .contains("on test: no waits were recorded; ask for them: pagelab record --observe default")),
        "{notes:#?}"
    );

    let sides = ["--base", dir.to_str().unwrap(), "--test", dir.to_str().unwrap()];
    let changes = json(&run(pagelab().args(["show", "--json", "--top", "0"]).args(sides).arg("budget"), 0));
    let list = changes["lists"].as_array().unwrap().iter().find(|list| list["list"] == "components").unwrap();
    assert_eq!(list["sums"]["ns"]["base"].as_f64().unwrap() as u64, sum("ns"), "the side's own sum");
    assert!(list["rows"].as_array().unwrap().iter().all(|row| row["figures"]["ns"]["difference"] == 0.0));
}

/// A program that runs for 300 ms, and on the test side for 200 ms more.
fn side(dir: &Path, seconds: &str) {
    for run_number in 0..3 {
        let mut record = pagelab();
        record.args(["record", "-q", "--frequency", "997", "-o"]).arg(dir.join(format!("{run_number}.rec")));
        let program = format!(
            "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: sum(range(1000))"
        );
        run(record.args(["--", "python3", "-c", &program]), 0);
    }
}

#[test]
fn compare_says_in_which_component_the_difference_is() {
    let tmp = scratch();
    let (base, test) = (tmp.path().join("base"), tmp.path().join("test"));
    std::fs::create_dir(&base).unwrap();
    std::fs::create_dir(&test).unwrap();
    side(&base, "0.3");
    side(&test, "0.5");
    let compare = || -> std::process::Command {
        let mut compare = pagelab();
        compare.args(["compare", "--base"]).arg(&base).arg("--test").arg(&test);
        compare
    };
    let document = json(&run(compare().arg("--json"), 0));
    let budget = &document["budget"];
    assert_eq!((&budget["per"], &budget["intervals_from"]), (&"run".into(), &"runs".into()), "{budget:#}");
    let rows = budget["components"].as_array().unwrap();
    let difference = |row: &Value| row["difference_ns"].as_f64().unwrap();
    let sum: f64 = rows.iter().map(difference).sum();
    let whole = budget["difference_ns"].as_f64().unwrap();
    assert!((sum - whole).abs() < 1e-3 * whole.abs() + 1e3, "{sum} of {whole}: {budget:#}");
    let user = rows.iter().find(|row| row["component"] == "run.user").unwrap();
    assert!((150e6..260e6).contains(&difference(user)), "{user:#}");
    let spins = document["profile"].as_array().unwrap();
    assert!(spins.iter().any(|frame| frame["delta_ns_per_op"].as_f64().unwrap() > 20e6), "{spins:#?}");
    let said = String::from_utf8(run(&mut compare(), 0).stdout).unwrap();
    assert!(said.contains("Where the time of a run went") && said.contains("run.user"), "{said}");
}
