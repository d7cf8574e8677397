//! A real recording has rollups, views made from them are those made from events, and `pagelab rollup` makes them anew.
//! Needs root.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{json, pagelab, run, scratch};
use serde_json::Value;

/// Touches memory up, down and at random, in two processes, one of which executes another program; reads a file, fails
/// to open one, and computes.
const WORK: &str = "import mmap, os, random, subprocess, time
memory = mmap.mmap(-1, 24 << 20)
for at in range(0, 8 << 20, 4096): memory[at] = 1
for at in range(16 << 20, 8 << 20, -4096): memory[at] = 1
for i in range(1000): memory[(16 << 20) + random.randrange(8 << 20)] = 1
memory.resize(32 << 20)
child = os.fork()
for at in range(0, 4 << 20, 4096): memory[at] = 2
if child == 0: os._exit(0)
os.waitpid(child, 0)
subprocess.run(['true'])
fd = os.open('/proc/self/exe', os.O_RDONLY)
for i in range(2000): os.pread(fd, 4096, (i * 7919 % 500) * 4096)
for i in range(20):
    try: os.open('/does/not/exist', os.O_RDONLY)
    except OSError: pass
end = time.monotonic() + 0.3
while time.monotonic() < end: pass
";

const VIEWS: [&[&str]; 8] = [
    &["faults", "--top", "0"],
    &["syscalls", "--top", "0"],
    &["syscalls", "--by", "task"],
    &["syscalls", "--by", "comm"],
    &["syscalls", "--by", "file"],
    &["profile", "--top", "0"],
    &["io"],
    &["summary"],
];

fn answers(dir: &Path) -> Vec<Value> {
    let view = |words: &&[&str]| json(&run(pagelab().arg("show").arg(dir).args(*words).arg("--json"), 0));
    let mut all: Vec<Value> = VIEWS.iter().map(view).collect();
    all.push(json(&run(pagelab().arg("explain").arg(dir).arg("--json"), 0)));
    all
}

fn rollups(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("rollup_")).collect();
    found.sort();
    found
}

/// What a view shows, but for whether the recording is whole.
fn without_completeness(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(fields) = answer.as_object_mut() {
        fields.retain(|key, _| !["complete", "incomplete_reason", "excluded"].contains(&key.as_str()));
        if let Some(notes) = fields.get_mut("notes").and_then(Value::as_array_mut) {
            notes.retain(|note| !note.to_string().contains("a comparison would leave this run out"));
        }
    }
    answer
}

#[track_caller]
fn assert_same(one: &[Value], other: &[Value]) {
    for (one, other) in one.iter().zip(other) {
        assert!(one == other, "{one:#}\n{other:#}");
    }
}

/// What `check` says of a recording in which it finds nothing but lost events. Of all streams one loses some where other recorders
/// come and go beside it, and says so.
#[track_caller]
fn sound(dir: &Path) -> Value {
    let out = pagelab().args(["check", "--json"]).arg(dir).output().unwrap();
    let checked = json(&out);
    let problems = checked["problems"].as_array().expect("a list");
    assert!(problems.iter().all(|problem| problem["id"] == "loss.events"), "{checked:#}");
    checked
}

#[test]
fn views_of_a_real_recording_are_the_same_from_rollups_and_from_events() {
    let tmp = scratch();
    let dir = tmp.path().join("rec");
    let mut record = pagelab();
    record.args(["record", "-q", "--observe", "all", "--best-effort", "-o"]).arg(&dir);
    run(record.args(["--", "python3", "-c", WORK]), 0);
    let manifest: Value = serde_json::from_slice(&fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["rollups_missing"], Value::Null);
    let written = manifest["rollups"].as_object().expect("rollups").len();
    assert!(written >= 10, "{written} rollups");
    let folders = rollups(&dir);
    assert!(folders.len() >= 8, "{folders:?}");
    let checked = sound(&dir);
    assert!(checked["tables"]["rollup_faults"]["rows"].as_u64().unwrap() > 0);
    let from_rollups = answers(&dir);
    let sql = "SELECT (SELECT sum(faults) FROM rollup_faults) = (SELECT count(*) FROM faults) AS same";
    let rows = json(&run(pagelab().args(["query", "--format", "json"]).arg(&dir).arg(sql), 0));
    assert!(rows[0]["same"] == true, "{rows}");

    for folder in &folders {
        fs::remove_dir_all(folder).unwrap();
    }
    // A rollup that is gone is a file that is gone: the recording is not whole, and says so. What is shown is the same.
    let figures = |answers: &[Value]| -> Vec<Value> { answers.iter().map(without_completeness).collect() };
    assert_same(&figures(&from_rollups), &figures(&answers(&dir)));
    let checked = json(&pagelab().args(["check", "--json"]).arg(&dir).output().unwrap());
    let problems = checked["problems"].as_array().expect("a list");
    let is_of_rollup = |problem: &Value| {
        problem["id"] == "loss.events" || problem["id"] == "part.missing" && problem.to_string().contains("/rollup_")
    };
    assert!(problems.len() >= folders.len() && problems.iter().all(is_of_rollup), "{checked:#}");

    let out = json(&run(pagelab().args(["rollup", "--json"]).arg(&dir), 0));
    assert_eq!(out["recordings"][0]["left_because"], Value::Null);
    assert_eq!(rollups(&dir), folders);
    assert_same(&from_rollups, &answers(&dir));

    // Incomplete recordings get no rollups.
    let mut manifest: Value = serde_json::from_slice(&fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    manifest["complete"] = Value::Bool(false);
    let text = serde_json::to_vec(&manifest).unwrap();
    fs::write(dir.join("manifest.json"), &text).unwrap();
    let said = run(pagelab().arg("rollup").arg(&dir), 1);
    assert!(String::from_utf8_lossy(&said.stdout).contains("left as it is: the recording is not complete"));
    assert_eq!(fs::read(dir.join("manifest.json")).unwrap(), text);
    run(pagelab().arg("rollup").arg(tmp.path().join("nothing")), 2);
}
