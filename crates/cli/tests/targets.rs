//! `pagelab record` of running targets, of parts of a command's life, and of hostile programs: it returns, nothing is
//! left attached, and the recording can be read.

mod common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::{binary, copy_binary, is_root, json, pagelab, run, scratch, stderr};
use pagelab_recording::tables::{FaultsRow, LossRow, MarksRow, TasksRow};
use pagelab_recording::{EndedBy, Recording};

/// Longer than anything here takes on a busy machine; only what hangs reaches it.
const PATIENCE: Duration = Duration::from_mins(2);

/// Faults some, for as long as it is let.
const BUSY: &str = "while :; do head -c 300000 /dev/zero | tail -c 1 > /dev/null; done";

/// Held by tests that start processes by the thousand, and by the one that records whatever runs on the machine: more than it can
/// take would be lost, and rightly said to be.
static PROCESSES: Mutex<()> = Mutex::new(());

fn storm() -> MutexGuard<'static, ()> {
    PROCESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn record(out: &Path) -> Command {
    let mut command = pagelab();
    command.arg("record").arg("-o").arg(out);
    command
}

/// Waits for the end, which must come.
#[track_caller]
fn ended(mut child: Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match child.try_wait().expect("our child") {
            Some(status) => return status,
            None if Instant::now() > deadline => {
                let _ = child.kill();
                panic!("it hangs");
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn kill(child: &Child, signal: i32) {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a process");
    let signal = rustix::process::Signal::from_named_raw(signal).expect("a signal");
    rustix::process::kill_process(pid, signal).expect("it lives");
}

/// Waits until the recording has rows of faults: then it is under way.
#[track_caller]
fn wait_for_faults(out: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while !fs::read_dir(out.join("faults")).is_ok_and(|mut parts| parts.next().is_some()) {
        assert!(Instant::now() < deadline, "nothing is recorded into {}", out.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The recording is whole, and no recorder of it is left: with it go its programs, which are pinned nowhere.
#[track_caller]
fn whole(out: &Path) -> Recording {
    run(pagelab().arg("check").arg(out), 0);
    nothing_left(out);
    Recording::open(out).expect("it can be read")
}

/// As [`whole`]; of a storm events may be lost on a busy machine, which check says with status 1, and of which the test knows how many.
#[track_caller]
fn whole_but_for_losses(out: &Path) -> Recording {
    let output = pagelab().arg("check").arg(out).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let only_losses =
        text.lines().skip(1).filter(|line| line.contains(": ")).all(|line| line.starts_with("  loss.events: "));
    assert!(matches!(output.status.code(), Some(0 | 1)) && only_losses, "{text}");
    nothing_left(out);
    Recording::open(out).expect("it can be read")
}

#[track_caller]
fn nothing_left(out: &Path) {
    let out = out.to_string_lossy().into_owned();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(words) = fs::read(entry.path().join("cmdline")) else { continue };
        let words = String::from_utf8_lossy(&words).into_owned();
        assert!(!(words.contains("pagelab") && words.contains(&out)), "left: {words:?}");
    }
}

fn tasks(recording: &Recording, op: &str) -> u64 {
    let mut count = 0;
    recording.for_each::<TasksRow>(|row| count += u64::from(row.op == op)).expect("tasks");
    count
}

fn lost(recording: &Recording, stream: &str) -> u64 {
    let mut lost = 0;
    recording.for_each::<LossRow>(|row| lost += if row.stream == stream { row.lost } else { 0 }).expect("loss");
    lost
}

fn ended_by(recording: &Recording) -> &str {
    recording.manifest().ended_by.as_ref().map_or("", EndedBy::word)
}

#[test]
fn a_target_that_exits_at_once() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    let out = dir.path().join("a");
    run(record(&out).args(["--", "true"]), 0);
    assert_eq!(tasks(&whole(&out), "exit"), 1);
    // Concurrent with a recorder that is only about to attach.
    for (number, milliseconds) in [5, 20, 60].into_iter().enumerate() {
        let out = dir.path().join(format!("p{number}"));
        let mut target = Command::new("sleep").arg(format!("0.{milliseconds:03}")).spawn().expect("sleep");
        let output = record(&out).args(["-p", &target.id().to_string()]).output().expect("it runs");
        target.wait().expect("our child");
        match output.status.code() {
            Some(0) => _ = whole(&out),
            // It was gone before, or in between, and that is said.
            Some(3 | 125) => assert!(!out.exists() && stderr(&output).contains("pagelab:"), "{}", stderr(&output)),
            other => panic!("{other:?}: {}", stderr(&output)),
        }
        nothing_left(&out);
    }
}

#[test]
fn a_target_that_forks_ten_thousand_children() {
    if !is_root() {
        return;
    }
    let _storm = storm();
    let dir = scratch();
    let out = dir.path().join("r");
    let script = "i=0; while [ $i -lt 10000 ]; do (:); i=$((i+1)); done";
    run(record(&out).args(["--observe", "tasks,faults,maps", "--", "sh", "-c", script]), 0);
    let recording = whole_but_for_losses(&out);
    let (forks, exits, lost) = (tasks(&recording, "fork"), tasks(&recording, "exit"), lost(&recording, "events"));
    assert!(forks <= 10_000 && exits <= 10_001, "{forks} forks, {exits} exits");
    assert!(20_001 - forks - exits <= lost, "{forks} forks, {exits} exits, {lost} events lost");
    let rss = recording.manifest().self_cost.max_rss_bytes.expect("measured");
    assert!(rss < 150 << 20, "{rss} bytes of memory");
}

#[test]
fn a_target_that_executes_itself_in_a_loop() {
    if !is_root() {
        return;
    }
    let _storm = storm();
    let dir = scratch();
    let (out, script) = (dir.path().join("r"), dir.path().join("again.sh"));
    fs::write(&script, "[ $1 -gt 0 ] && exec sh $0 $(($1 - 1)); exit 9\n").expect("scratch");
    run(record(&out).args(["--observe", "tasks,faults,maps", "--", "sh"]).arg(&script).arg("1000"), 9);
    let recording = whole_but_for_losses(&out);
    let (execs, lost) = (tasks(&recording, "exec"), lost(&recording, "events"));
    assert!(execs <= 1001 && execs + lost >= 1001, "{execs} execs, {lost} events lost");
    let mut spaces = std::collections::BTreeSet::new();
    recording.for_each::<TasksRow>(|row| _ = spaces.insert(row.mm_id)).expect("tasks");
    assert!(spaces.len() as u64 + lost >= 1001, "each exec makes an address space: {}", spaces.len());
}

/// Which signal to the recorder, and what becomes of a command and of a process that ran already.
#[test]
fn a_signal_in_mid_run_ends_the_recording_whole() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    for signal in [libc_signal::INT, libc_signal::TERM] {
        let out = dir.path().join(format!("command-{signal}"));
        let recorder = record(&out).args(["--", "sh", "-c", BUSY]).stderr(Stdio::null()).spawn().expect("starts");
        wait_for_faults(&out);
        kill(&recorder, signal);
        assert_eq!(ended(recorder).code(), Some(128 + signal), "the command's own status");
        assert_eq!(ended_by(&whole_but_for_losses(&out)), "signal");

        let out = dir.path().join(format!("process-{signal}"));
        let mut target = Command::new("sh").args(["-c", BUSY]).process_group(0).spawn().expect("sh");
        let mut command = record(&out);
        let recorder = command.args(["-p", &target.id().to_string()]).stderr(Stdio::null()).spawn().expect("starts");
        wait_for_faults(&out);
        kill(&recorder, signal);
        assert_eq!(ended(recorder).code(), Some(0), "for what ran already a signal is the usual end");
        assert!(target.try_wait().expect("our child").is_none(), "it goes on");
        rustix::process::kill_process_group(
            rustix::process::Pid::from_raw(target.id() as i32).expect("a process"),
            rustix::process::Signal::KILL,
        )
        .expect("it lives");
        target.wait().expect("our child");
        let recording = whole_but_for_losses(&out);
        assert!(recording.rows("faults").expect("faults") > 0);
        assert!(recording.manifest().exit.is_none() && ended_by(&recording) == "signal");
    }
}

/// Numbers of signals as shells count them.
mod libc_signal {
    pub(crate) const INT: i32 = 2;
    pub(crate) const TERM: i32 = 15;
    pub(crate) const USR2: i32 = 12;
}

#[test]
fn a_full_disk_ends_no_command_and_what_was_written_is_readable() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    // A mount namespace of its own: the small file system goes with the shell.
    let script = format!(
        "mount -t tmpfs -o size=400k tmpfs {dir} && \
         {pagelab} record --observe tasks,faults,maps -o {dir}/r -- sh -c 'timeout 6 sh -c \"{BUSY}\"; exit 7'; \
         echo status $?; {pagelab} check {dir}/r > {dir}.check 2>&1; echo check $?; \
         {pagelab} show {dir}/r summary > /dev/null; echo show $?; cp {dir}/r/manifest.json {dir}.json",
        dir = dir.path().display(),
        pagelab = binary().display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let output = run(&mut command, 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let beside = |suffix: &str| PathBuf::from(format!("{}{suffix}", dir.path().display()));
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(beside(".json")).expect("a manifest")).expect("JSON");
    for suffix in [".json", ".check"] {
        let _ = fs::remove_file(beside(suffix));
    }
    assert!(said.contains("status 7") && said.contains("show 0"), "{said}\n{}", stderr(&output));
    assert!(said.contains("check 1") && manifest["complete"] == false, "so small a disk is full at once: {said}");
    let reason = manifest["incomplete_reason"].as_str().unwrap_or_default();
    assert!(reason.to_lowercase().contains("no space"), "{manifest}");
    nothing_left(&dir.path().join("r"));
}

/// The binary where everybody may execute it.
fn for_everybody(dir: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let copy = dir.join("pagelab");
    copy_binary(&copy);
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("scratch");
    copy
}

#[test]
fn an_ordinary_user_is_told_what_is_not_his() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    let (program, home) = (for_everybody(dir.path()), scratch());
    std::os::unix::fs::chown(home.path(), Some(65_534), Some(65_534)).expect("chown");
    let as_nobody = |words: &[&str]| -> Output {
        let mut command = Command::new(&program);
        command.args(words).current_dir(home.path()).uid(65_534).gid(65_534).output().expect("it runs")
    };
    let others = as_nobody(&["record", "-o", "r", "-p", "1"]);
    assert_eq!(others.status.code(), Some(125), "{}", stderr(&others));
    assert!(stderr(&others).contains("another user's process") && stderr(&others).contains("sudo"));
    assert!(!home.path().join("r").exists());
    let refused = as_nobody(&["record", "-o", "r", "--bpf-stats", "--", "true"]);
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));
    let none = as_nobody(&["mark", "here"]);
    assert_eq!(none.status.code(), Some(3), "{}", stderr(&none));
    assert!(stderr(&none).contains("no recording of yours"), "{}", stderr(&none));
    let wrong = as_nobody(&["mark", "12.5"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
}

#[test]
fn a_target_is_one_of_four() {
    let dir = scratch();
    let out = dir.path().join("r");
    let wrong: [(&[&str], &str); 6] = [
        (&[], "required"),
        (&["-a", "-p", "1"], "cannot be used"),
        (&["-p", "x"], "invalid"),
        (&["-p", "4194305"], "no such process"),
        (&["--cgroup", "/tmp"], "no cgroup"),
        (&["--duration", "0", "--", "true"], "seconds"),
    ];
    for (words, said) in wrong {
        let output = run(record(&out).args(words), 125);
        assert!(stderr(&output).contains(said), "{words:?}: {}", stderr(&output));
        assert!(!out.exists(), "{words:?}");
    }
}

#[test]
fn a_mark_divides_a_recording() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    let out = dir.path().join("r");
    let recorder = record(&out).args(["--", "sh", "-c", BUSY]).stderr(Stdio::null()).spawn().expect("starts");
    wait_for_faults(&out);
    run(pagelab().args(["mark", "half way"]), 0);
    std::thread::sleep(Duration::from_millis(700));
    run(pagelab().args(["mark", "late"]), 0);
    std::thread::sleep(Duration::from_millis(200));
    kill(&recorder, libc_signal::INT);
    ended(recorder);
    let recording = whole_but_for_losses(&out);
    let mut marks = std::collections::BTreeMap::new();
    recording.for_each::<MarksRow>(|row| _ = marks.insert(row.name.to_owned(), row.ts)).expect("marks");
    let (half, late) = (marks["half way"], marks["late"]);
    assert!(late - half >= 700_000_000);
    let mut between = 0_u64;
    recording.for_each::<FaultsRow>(|row| between += u64::from(half <= row.ts && row.ts < late)).expect("faults");
    let whole_count = recording.rows("faults").expect("faults");
    assert!(0 < between && between < whole_count, "{between} of {whole_count}");

    let span = ["--from", "half way", "--to", "late"];
    let faults = json(&run(pagelab().arg("show").arg(&out).args(["faults", "--json"]).args(span), 0));
    assert_eq!(faults["faults"].as_u64(), Some(between), "{faults}");
    let sql = "select count(*) as n from faults";
    let counted = json(&run(pagelab().arg("query").arg("--json").args(span).arg(&out).arg(sql), 0));
    assert_eq!(counted[0]["n"].as_u64(), Some(between));
    let seconds = |ts: i64| ((ts - recording.manifest().clock.start_ns) as f64 / 1e9).to_string();
    let by_time = ["--from".to_owned(), seconds(half), "--to".to_owned(), seconds(late)];
    let again = json(&run(pagelab().arg("query").arg("--json").args(by_time).arg(&out).arg(sql), 0));
    assert_eq!(again[0]["n"].as_u64(), Some(between));
    let summary = json(&run(pagelab().arg("show").arg(&out).args(["summary", "--json"]).args(span), 0));
    assert_eq!(
        (summary["window"]["start_ns"].as_i64(), summary["window"]["end_ns"].as_i64()),
        (Some(half), Some(late))
    );

    let unknown = run(pagelab().arg("show").arg(&out).args(["faults", "--from", "nowhere"]), 2);
    assert!(stderr(&unknown).contains("half way"), "the marks there are: {}", stderr(&unknown));
    run(pagelab().arg("show").arg(&out).args(["faults", "--from", "late", "--to", "half way"]), 2);
}

#[test]
fn a_flight_recorder_keeps_what_it_has_on_sigusr2_and_the_command_goes_on() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    let (out, go) = (dir.path().join("r"), dir.path().join("go"));
    let script =
        format!("while [ ! -e {} ]; do head -c 300000 /dev/zero | tail -c 1 > /dev/null; done; exit 6", go.display());
    let mut command = record(&out);
    let recorder = command.args(["--last", "1", "--", "sh", "-c", &script]).stderr(Stdio::null()).spawn().expect("it");
    wait_for_faults(&out);
    std::thread::sleep(Duration::from_secs(3));
    kill(&recorder, libc_signal::USR2);
    let complete = || Recording::open(&out).is_ok_and(|recording| recording.manifest().complete);
    let deadline = Instant::now() + PATIENCE;
    while !complete() {
        assert!(Instant::now() < deadline, "the recording is not closed");
        std::thread::sleep(Duration::from_millis(20));
    }
    let recording = Recording::open(&out).expect("it can be read");
    assert_eq!(ended_by(&recording), "sigusr2");
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    recording
        .for_each::<FaultsRow>(|row| (first, last) = (first.min(row.ts), last.max(row.ts)))
        .expect("its faults can be read");
    assert!(first - recording.manifest().clock.start_ns > 500_000_000 && last > first, "{first} to {last}");
    fs::write(&go, "").expect("scratch");
    assert_eq!(ended(recorder).code(), Some(6), "the command's own status, later");
    whole_but_for_losses(&out);
}

#[test]
fn a_terminal_is_shown_how_it_goes_and_nothing_else_is() {
    if !is_root() {
        return;
    }
    let dir = scratch();
    let line = |name: &str, flag: &str| {
        // Of a running target: a command's own output would be glued to the line.
        let record = format!("{} record {flag} -o {}/{name}", binary().display(), dir.path().display());
        let words = format!("{record} --observe metrics -p {} --duration 2.5", std::process::id());
        let output = Command::new("script").args(["-qec", &words, "/dev/null"]).stdin(Stdio::null()).output();
        let output = output.expect("script (util-linux)");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let shown = line("a", "");
    assert!(shown.contains("events/s") && shown.contains("0 lost"), "{shown:?}");
    let hidden = line("b", "-q");
    assert!(!hidden.contains("events/s") && !hidden.contains("recorded into"), "{hidden:?}");
    let to_file = run(record(&dir.path().join("c")).args(["--", "sleep", "1.5"]), 0);
    assert!(!stderr(&to_file).contains("events/s"), "{}", stderr(&to_file));
}

#[test]
fn the_whole_system_is_recorded_without_the_recorder() {
    if !is_root() {
        return;
    }
    let _storm = storm();
    let dir = scratch();
    let out = dir.path().join("r");
    let mut busy = Command::new("sh").args(["-c", BUSY]).process_group(0).spawn().expect("sh");
    let recorder = record(&out).args(["-a", "--duration", "1.5"]).spawn().expect("starts");
    let own = recorder.id() as i32;
    assert_eq!(ended(recorder).code(), Some(0));
    rustix::process::kill_process_group(
        rustix::process::Pid::from_raw(busy.id() as i32).expect("a process"),
        rustix::process::Signal::KILL,
    )
    .expect("it lives");
    busy.wait().expect("our child");
    let recording = whole_but_for_losses(&out);
    let mut pids = std::collections::BTreeSet::new();
    recording.for_each::<TasksRow>(|row| _ = pids.insert(row.pid)).expect("tasks");
    assert!(pids.contains(&(busy.id() as i32)) && pids.contains(&2) && !pids.contains(&own), "{own}: {pids:?}");
    let shown = String::from_utf8(run(pagelab().arg("show").arg(&out).arg("summary"), 0).stdout).expect("text");
    assert!(shown.contains("the whole system"), "{shown}");
}
