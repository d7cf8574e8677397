//! `pagelab show --base A --test B VIEW` on a real pair of recordings: every view takes two sides, the sums of its lists are
//! those of the sides' own lists, and no row of either side is lost. Needs root.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use crate::common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{json, pagelab, run, scratch};
use serde_json::Value;

const VIEWS: &str =
    "summary tasks faults maps dax syscalls io sched profile counters metrics settings latency block regions loss";

/// Touches memory, reads a file, sleeps and computes; the test side more of each, and opens a file of its own.
const WORK: &str = "import mmap, os, sys, time
n, own = int(sys.argv[1]), sys.argv[2]
memory = mmap.mmap(-1, n << 20)
for at in range(0, n << 20, 4096): memory[at] = 1
with open(own, 'wb') as file: file.write(b'x' * (n << 16)); file.flush(); os.fsync(file.fileno())
fd = os.open(own, os.O_RDONLY)
for i in range(100 * n): os.pread(fd, 4096, (i * 7919 % (n * 16)) * 4096)
for i in range(10): time.sleep(0.001)
end = time.monotonic() + 0.05 * n
while time.monotonic() < end: pass
";

fn record(dir: &Path, side: &str, n: u32) -> std::path::PathBuf {
    let out = dir.join(side);
    let own = dir.join(format!("file-of-{side}"));
    let mut command = pagelab();
    command.args(["record", "-q", "--observe", "all", "--best-effort", "-o"]).arg(&out);
    command.args(["--", "python3", "-c", WORK, &n.to_string()]).arg(own);
    run(&mut command, 0);
    out
}

fn view(words: &[&str], view: &str) -> Value {
    let mut command = pagelab();
    command.arg("show").args(words).args([view, "--json"]);
    let listed = pagelab().args(["show", view, "--help"]).output().unwrap();
    if String::from_utf8_lossy(&listed.stdout).contains("--top") {
        command.args(["--top", "0"]);
    }
    json(&run(&mut command, 0))
}

/// The sum of a figure, `reads/bytes`, over the rows of a list; none if no row has it.
fn sum(list: &Value, figure: &str) -> Option<f64> {
    let path = format!("/{figure}");
    let values: Vec<f64> =
        list.as_array().unwrap().iter().filter_map(|row| row.pointer(&path).and_then(Value::as_f64)).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

#[test]
fn every_view_takes_two_sides_and_adds_up_to_their_own() {
    let tmp = scratch();
    let (base, test) = (record(tmp.path(), "base", 4), record(tmp.path(), "test", 8));
    let (base, test) = (base.to_str().unwrap(), test.to_str().unwrap());
    let mut compared = 0;
    for name in VIEWS.split(' ') {
        let sides = view(&["--base", base, "--test", test], name);
        for (side, own) in [("base", view(&[base], name)), ("test", view(&[test], name))] {
            for list in sides["lists"].as_array().unwrap() {
                let rows = &own[list["list"].as_str().unwrap()];
                for (figure, change) in list["sums"].as_object().unwrap() {
                    let (here, there) = (change[side].as_f64(), sum(rows, figure));
                    let equal = match (here, there) {
                        (Some(here), Some(there)) => is_near(here, there),
                        (Some(here), None) => here == 0.0,
                        (None, there) => there.is_none_or(|sum| sum == 0.0),
                    };
                    assert!(equal, "{name} {}: {figure} of {side}: {here:?}, its own {there:?}", list["list"]);
                    compared += 1;
                }
            }
            for (total, change) in sides["totals"].as_object().unwrap() {
                let (here, there) = (change[side].as_f64(), own[total].as_f64());
                assert!(here == there, "{name}: {total} of {side}: {here:?}, its own {there:?}");
            }
        }
    }
    assert!(compared > 80, "{compared} sums were compared");
}

#[test]
fn rows_of_one_side_are_kept_and_marked() {
    let tmp = scratch();
    let (base, test) = (record(tmp.path(), "base", 2), record(tmp.path(), "test", 2));
    let sides = view(&["--base", base.to_str().unwrap(), "--test", test.to_str().unwrap()], "io");
    let files = sides["lists"].as_array().unwrap().iter().find(|list| list["list"] == "files").unwrap();
    let of = |presence: &str| -> BTreeSet<String> {
        let rows = files["rows"].as_array().unwrap().iter().filter(|row| row["presence"] == presence);
        rows.filter_map(|row| row["key"][0].as_str().map(str::to_owned)).collect()
    };
    let has = |paths: &BTreeSet<String>, end: &str| paths.iter().any(|path| path.ends_with(end));
    assert!(has(&of("vanished"), "/file-of-base"), "{:?}", of("vanished"));
    assert!(has(&of("new"), "/file-of-test"), "{:?}", of("new"));
    assert!(!of("both").is_empty(), "the interpreter's own files are on both sides");
}

#[test]
fn one_side_alone_or_a_recording_beside_two_sides_is_refused() {
    for words in [["show", "--base", "x", "faults"], ["show", "--test", "x", "faults"]] {
        assert_eq!(pagelab().args(words).output().unwrap().status.code(), Some(2), "{words:?}");
    }
    let tmp = scratch();
    let mut command = pagelab();
    command.arg("show").arg(tmp.path()).args(["--base", "a", "--test", "b", "faults"]);
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("either one recording, or --base and --test"), "{said}");
}
