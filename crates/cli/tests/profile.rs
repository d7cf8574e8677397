//! `pagelab show DIR profile` on a recording of which every sum is known, and on a program that was really sampled.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pagelab_recording::tables::{FramesRow, LossRow, SamplesRow, StacksRow, TasksRow};
use pagelab_recording::{Manifest, RecordingWriter, WriterOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

const PERIOD: u64 = 1_000_000;
/// 10 in `leaf`, which is inlined into `work`; 20 in `memcpy` below `work`; 5 in the kernel below code without a name; 5 in
/// `work`, which called itself.
const SAMPLES: u64 = 40;
const OPERATIONS: f64 = 1000.0;

fn frames(writer: &mut RecordingWriter) {
    let row = |frame_id, symbol, module: &'static str| FramesRow {
        frame_id,
        symbol,
        module: Some(module.as_bytes()),
        ..FramesRow::default()
    };
    writer.push(&FramesRow { inlined: true, ..row(1, Some("leaf"), "/bin/x") });
    writer.push(&row(2, Some("work"), "/bin/x"));
    writer.push(&row(3, Some("main"), "/bin/x"));
    writer.push(&row(4, Some("memcpy"), "/lib/libc.so.6"));
    writer.push(&row(5, None, "/bin/x"));
    writer.push(&FramesRow { kernel: true, ..row(6, Some("do_fault"), "[kernel]") });
    // Another place in the same function.
    writer.push(&FramesRow { module_offset: Some(9), ..row(7, Some("work"), "/bin/x") });
    let stacks: [(u64, &[u64]); 5] = [(11, &[1, 2, 3]), (12, &[4, 7, 3]), (13, &[5, 3]), (14, &[2, 7, 3]), (15, &[6])];
    for (stack_id, frame_ids) in stacks {
        writer.push(&StacksRow { stack_id, frame_ids });
    }
}

fn fixture() -> (TempDir, PathBuf) {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("rec");
    let mut writer = RecordingWriter::create(&dir, Manifest::default(), WriterOptions::default()).unwrap();
    let task = |task_id, pid, comm| TasksRow {
        ts: 1,
        op: "exec",
        task_id,
        tid: pid,
        pid,
        comm: Some(comm),
        ..TasksRow::default()
    };
    writer.push(&task(1, 100, "one"));
    writer.push(&task(2, 200, "two"));
    frames(&mut writer);
    let mut ts = 100;
    let mut sample = |count: u64, task_id, cpu, kstack_id, ustack_id, end| {
        for _ in 0..count {
            ts += 1;
            let ustack_end = Some(end);
            let event = "cpu-clock";
            writer.push(&SamplesRow {
                ts,
                task_id,
                cpu,
                event,
                kstack_id,
                ustack_id,
                weight: PERIOD,
                ustack_end,
                ..SamplesRow::default()
            });
        }
    };
    sample(10, 1, 0, None, Some(11), "entry");
    sample(20, 2, 1, None, Some(12), "entry");
    sample(5, 2, 1, Some(15), Some(13), "broken");
    sample(5, 1, 0, None, Some(14), "cut");
    writer.push(&LossRow { ts: 200, stream: "cpu", cpu: Some(0), seen: SAMPLES + 3, lost: 3, filtered: 0 });
    // The first four samples were taken before what is measured began.
    let measured = json!({"start_ns": 105, "end_ns": 1000, "operations": OPERATIONS, "source": "load"});
    writer.close(|manifest| _ = manifest.extra.insert("measured".to_owned(), measured)).unwrap();
    (tmp, dir)
}

fn show(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pagelab")).arg("show").arg(dir).arg("profile").args(words).output().unwrap()
}

fn text(dir: &Path, words: &[&str]) -> String {
    let output = show(dir, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn document(dir: &Path, words: &[&str]) -> Value {
    let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&text(dir, &words)).unwrap()
}

fn refused(dir: &Path, words: &[&str]) -> String {
    let output = show(dir, words);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// `samples` and `total_samples` of the function.
fn counts(document: &Value, symbol: &str) -> (u64, u64) {
    let rows = document["symbols"].as_array().unwrap();
    let row = rows.iter().find(|row| row["symbol"] == symbol).unwrap_or_else(|| panic!("{symbol} is not in {rows:#?}"));
    (row["samples"].as_u64().unwrap(), row["total_samples"].as_u64().unwrap())
}

fn parts(list: &Value, key: &str) -> Vec<(String, u64)> {
    let row = |row: &Value| (row[key].as_str().unwrap_or("-").to_owned(), row["samples"].as_u64().unwrap());
    list.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn functions_have_what_is_theirs_and_what_they_called_once_for_each_sample() {
    let (_tmp, dir) = fixture();
    let all = document(&dir, &[]);
    assert_eq!((all["samples"].as_u64(), all["samples_selected"].as_u64()), (Some(SAMPLES), Some(SAMPLES)));
    assert_eq!(counts(&all, "leaf"), (10, 10));
    assert_eq!(counts(&all, "memcpy"), (20, 20));
    assert_eq!(counts(&all, "do_fault"), (5, 5));
    assert_eq!(counts(&all, "work"), (5, 35), "twice in one stack is one sample");
    assert_eq!(counts(&all, "main"), (0, SAMPLES));
    let own: u64 = all["symbols"].as_array().unwrap().iter().map(|row| row["samples"].as_u64().unwrap()).sum();
    assert_eq!(own, SAMPLES);
    assert_eq!(all["symbols"][0]["symbol"], "memcpy");
    assert_eq!(document(&dir, &["--sort", "total"])["symbols"][0]["symbol"], "main");
    let quality = &all["quality"];
    assert_eq!((quality["seen"].as_u64(), quality["lost"].as_u64()), (Some(43), Some(3)));
    assert_eq!((&quality["ustacks_cut"], &quality["ustacks_broken"]), (&5.into(), &5.into()));
    // 5 of 3 * 10 + 3 * 20 + 3 * 5 + 3 * 5 frames.
    assert!((quality["unresolved_frames_pct"].as_f64().unwrap() - 100.0 * 5.0 / 120.0).abs() < 1e-9);
}

#[test]
fn parts_add_up_to_the_whole() {
    let (_tmp, dir) = fixture();
    let all = document(&dir, &[]);
    let named =
        |pairs: &[(&str, u64)]| -> Vec<(String, u64)> { pairs.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect() };
    assert_eq!(parts(&all["modules"], "name"), named(&[("/lib/libc.so.6", 20), ("/bin/x", 15), ("[kernel]", 5)]));
    assert_eq!(parts(&all["comms"], "name"), named(&[("two", 25), ("one", 15)]));
    assert_eq!(parts(&all["cpus"], "name"), named(&[("0", 15), ("1", 25)]));
    for (words, samples) in [(["--pid", "100"], 15), (["--comm", "two"], 25), (["--file", "libc.so.6"], 20)] {
        let some = document(&dir, &words);
        assert_eq!(
            (some["samples_selected"].as_u64(), some["samples"].as_u64()),
            (Some(samples), Some(SAMPLES)),
            "{words:?}"
        );
    }
    let groups = document(&dir, &["--group", "copy=^mem", "--group", "mine=^(work|leaf)$"])["groups"].clone();
    assert_eq!(parts(&groups, "group"), named(&[("copy", 20), ("mine", 15)]));
    assert_eq!(groups[1]["total_samples"], 35);
}

#[test]
fn callers_and_callees_are_those_of_the_stacks() {
    let (_tmp, dir) = fixture();
    let callers = document(&dir, &["--callers", "work"])["callers"].clone();
    assert_eq!(parts(&callers["functions"], "symbol"), [("main".to_owned(), 35)]);
    let callees = document(&dir, &["--callees", "work"])["callees"].clone();
    let wanted = [("memcpy", 20), ("leaf", 10), ("-", 5)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(parts(&callees["functions"], "symbol"), wanted);
    assert!(refused(&dir, &["--callers", "nobody"]).contains("no sample has a function \"nobody\""));
    assert!(refused(&dir, &["--group", "x"]).contains("needed NAME=REGEX"));
    assert!(refused(&dir, &["--group", "x=("]).contains("needed NAME=REGEX"));
}

#[test]
fn time_per_operation_is_that_of_the_measured_time() {
    let (_tmp, dir) = fixture();
    let all = document(&dir, &[]);
    let leaf = all["symbols"].as_array().unwrap().iter().find(|row| row["symbol"] == "leaf").unwrap();
    // Four of its ten samples came before.
    assert_eq!(leaf["ns_per_operation"].as_f64(), Some(6.0 * PERIOD as f64 / OPERATIONS));
    let said = text(&dir, &["--callers", "work", "--group", "copy=^mem"]);
    assert!(
        said.contains("SELF_NS_PER_OP") && said.contains("CALLERS OF work") && said.contains("3 lost of 43"),
        "{said}"
    );
    for line in said.lines().skip(1) {
        assert!(line.chars().count() <= 100 && line.trim_end() == line, "{line:?}");
    }
}

#[test]
fn a_program_is_sampled_and_its_functions_are_named_also_when_it_has_ended() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    let (source, program, dir) = (tmp.path().join("busy.c"), tmp.path().join("busy"), tmp.path().join("rec"));
    let code = "static volatile unsigned long sink;\n\
        __attribute__((noinline)) void busy(void) { for (unsigned long i = 0; i < 400000000; i++) sink += i; }\n\
        int main(void) { busy(); return sink == 1; }\n";
    std::fs::write(&source, code).unwrap();
    assert!(Command::new("gcc").args(["-O2", "-g", "-o"]).arg(&program).arg(&source).status().unwrap().success());
    let recorded = Command::new(env!("CARGO_BIN_EXE_pagelab"))
        .args(["record", "--observe", "tasks,cpu", "-o"])
        .arg(&dir)
        .arg("--")
        .args(["sh", "-c", &format!("{}; rm {}", program.display(), program.display())])
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    assert!(!program.exists());
    let all = document(&dir, &["--comm", "busy"]);
    let (own, total) = counts(&all, "busy");
    let selected = all["samples_selected"].as_u64().unwrap();
    assert!(selected > 30 && own * 10 >= selected * 8 && total >= own, "{own} and {total} of {selected}");
    assert!(counts(&all, "main").1 >= total);
    let check = Command::new(env!("CARGO_BIN_EXE_pagelab")).arg("check").arg(&dir).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

#[test]
fn code_that_is_loaded_later_is_named_although_mappings_are_not_recorded() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    let at = |name: &str| tmp.path().join(name);
    let loaded = "static volatile unsigned long sink;\n\
        __attribute__((noinline)) static void inner(void) { for (unsigned long i = 0; i < 400000000; i++) sink += i; }\n\
        void outer(void) { inner(); sink++; }\n";
    let loads = "#include <dlfcn.h>\n#include <unistd.h>\n\
        int main(int c, char **v) { sleep(2); void *h = dlopen(v[1], RTLD_NOW); if (!h) return 3;\n\
        void (*f)(void) = dlsym(h, \"outer\"); f(); return 0; }\n";
    for (name, code, options) in [("loaded", loaded, &["-shared", "-fPIC"][..]), ("loads", loads, &[])] {
        let source = at(&format!("{name}.c"));
        std::fs::write(&source, code).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-fomit-frame-pointer"]).args(options).arg("-o").arg(at(name)).arg(&source);
        assert!(gcc.status().unwrap().success());
    }
    // One that ran before recording began.
    let mut running = Command::new(at("loads")).arg(at("loaded")).spawn().unwrap();
    let pid = running.id().to_string();
    let record = |dir: &str, words: &[&std::ffi::OsStr]| {
        let mut record = Command::new(env!("CARGO_BIN_EXE_pagelab"));
        let recorded =
            record.args(["record", "--observe", "tasks,cpu", "-o"]).arg(at(dir)).args(words).output().unwrap();
        assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
        let all = document(&at(dir), &["--comm", "loads"]);
        let (selected, total) = (all["samples_selected"].as_u64().unwrap(), counts(&all, "outer").1);
        assert!(selected > 30 && total * 10 >= selected * 8, "{dir}: {total} of {selected}");
    };
    record("found", &["-p".as_ref(), pid.as_ref()]);
    assert!(running.wait().unwrap().success());
    record("started", &["--".as_ref(), at("loads").as_os_str(), at("loaded").as_os_str()]);
}

/// How often the tree was sampled, as the manifest says it and as the samples show it: their weight is a period.
fn frequency(tmp: &TempDir, name: &str, words: &[&str]) -> (f64, f64, String) {
    let dir = tmp.path().join(name);
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let mut record = Command::new(env!("CARGO_BIN_EXE_pagelab"));
    record.arg("record").args(words).arg("-o").arg(&dir).args(["--", "sh", "-c", busy]);
    let recorded = record.output().unwrap();
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let manifest: Value = serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    let told = manifest["cpu"]["frequency_hz"].as_f64().unwrap();
    let sql = "select count(*) as n, 1e9 / avg(weight) as hz, min(event) as event from samples";
    let query =
        Command::new(env!("CARGO_BIN_EXE_pagelab")).args(["query", "--format", "json"]).arg(&dir).arg(sql).output();
    let rows: Value = serde_json::from_slice(&query.unwrap().stdout).unwrap();
    assert!(rows[0]["n"].as_u64().unwrap() > 5, "{rows}");
    (told, rows[0]["hz"].as_f64().unwrap(), rows[0]["event"].as_str().unwrap().to_owned())
}

#[test]
fn samples_are_as_frequent_as_suits_how_they_were_asked_for() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    // By name, with others, with others on a timer, as told.
    let by_name: &[&str] = &["--observe", "cpu"];
    for (name, words, cycles_hz, timer_hz) in
        [("named", by_name, 997.0, 997.0), ("default", &[], 997.0, 97.0), ("told", &["--frequency", "99"], 99.0, 99.0)]
    {
        let (told, found, event) = frequency(&tmp, name, words);
        let is_timer = event == "cpu-clock";
        let needed: f64 = if is_timer { timer_hz } else { cycles_hz };
        assert!((told - needed).abs() < 1e-9, "{name}: {told}");
        // The weight of cycles is a number of cycles.
        assert!(!is_timer || (found / needed - 1.0).abs() < 0.01, "{name}: {found}");
    }
}
