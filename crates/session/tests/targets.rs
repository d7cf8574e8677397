//! Whole recordings of what runs already, and of a part of a command's life. Needs root; the BPF side of finding tasks is
//! tested in `pagelab-observe`, the binary in `pagelab-cli`.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use pagelab_observe::streams::StreamSet;
use pagelab_recording::tables::{
    CountersRow, FaultsRow, LossRow, MappingsRow, MetricsRow, OffcpuRow, SettingsRow, SyscallsRow, TasksRow,
};
use pagelab_recording::{Problem, Recording};
use pagelab_session::{SessionError, SessionOptions, SessionOutcome, Target, run};

const PAGES: u64 = 2048;

/// Maps memory before it says `ready`; touches it when it is told to, and ends when it is told to.
const TOUCH_WHEN_TOLD: &str = r"
import mmap, sys
size = int(sys.argv[1]) * 4096
block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block.madvise(mmap.MADV_NOHUGEPAGE)
print('ready', flush=True)
sys.stdin.readline()
for at in range(0, size, 4096): block[at] = 1
print('touched', flush=True)
sys.stdin.readline()
";

/// Faults for ever: a block of 256 pages is mapped, touched and unmapped, about every millisecond.
const FAULT_FOR_EVER: &str = r"
import mmap, time
while True:
    block = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, 1 << 20, 4096): block[at] = 1
    block.close()
    time.sleep(0.0005)
";

struct Toucher {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Toucher {
    fn start() -> Self {
        Self::start_with(TOUCH_WHEN_TOLD)
    }

    fn start_with(script: &str) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", script, &PAGES.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 (make setup-test)");
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut toucher = Self { child, stdin, stdout: BufReader::new(stdout) };
        toucher.expect("ready");
        toucher
    }

    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), word);
    }

    fn touch(&mut self) {
        self.stdin.write_all(b"\n").expect("it reads");
        self.expect("touched");
    }

    fn end(mut self) {
        self.stdin.write_all(b"\n").expect("it reads");
        assert!(self.child.wait().expect("our child").success());
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

struct Made {
    _tmp: tempfile::TempDir,
    outcome: SessionOutcome,
    recording: Recording,
}

fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("pagelab-test-").tempdir_in("/dev/shm").expect("/dev/shm is writable")
}

/// A recording of what is whole: `check` has nothing to say.
fn record(target: Target, set: impl FnOnce(&mut SessionOptions)) -> Made {
    let (made, problems) = recorded(target, set);
    assert!(problems.is_empty(), "{problems:?}");
    made
}

/// A recording of [`fault_for_ever`]. A storm may lose events where neighbours take the processors, and says so; nothing else may be
/// wrong with it.
fn record_storm(set: impl FnOnce(&mut SessionOptions)) -> Made {
    let (made, problems) = recorded(fault_for_ever(), set);
    assert!(problems.iter().all(|problem| problem.id == "loss.events"), "{problems:?}");
    made
}

fn recorded(target: Target, set: impl FnOnce(&mut SessionOptions)) -> (Made, Vec<Problem>) {
    let tmp = scratch();
    let mut options = SessionOptions::new(target, tmp.path().join("r"));
    set(&mut options);
    let outcome = run(&options).expect("a recording");
    let recording = Recording::open(&outcome.dir).expect("it can be read");
    let report = pagelab_recording::check(&outcome.dir).expect("it can be checked");
    (Made { _tmp: tmp, outcome, recording }, report.problems)
}

impl Made {
    /// A key of the manifest as it is written.
    fn written(&self, key: &str) -> serde_json::Value {
        serde_json::to_value(&self.outcome.manifest).expect("JSON")[key].clone()
    }

    /// Faults of a process that fell on a known mapping, and those that did not.
    fn faults(&self) -> (u64, u64) {
        let (mut known, mut unknown) = (0, 0);
        self.recording
            .for_each::<FaultsRow>(|row| *(if row.mapping_id.is_some() { &mut known } else { &mut unknown }) += 1)
            .expect("its faults can be read");
        (known, unknown)
    }

    /// When the first and the last fault were.
    fn fault_times(&self) -> (i64, i64) {
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        self.recording
            .for_each::<FaultsRow>(|row| (first, last) = (first.min(row.ts), last.max(row.ts)))
            .expect("its faults can be read");
        (first, last)
    }

    fn seconds_measured(&self) -> f64 {
        let at = |key: &str| self.written("measured")[key].as_i64().expect("a time");
        (at("end_ns") - at("start_ns")) as f64 / 1e9
    }
}

fn fault_for_ever() -> Target {
    Target::Command(["python3", "-c", FAULT_FOR_EVER].map(Into::into).to_vec())
}

#[test]
fn a_process_is_recorded_until_it_ends_and_its_old_mappings_are_known() {
    if !is_root() {
        return;
    }
    let mut toucher = Toucher::start();
    let pid = toucher.child.id();
    let recorder = std::thread::spawn(move || record(Target::Processes(vec![pid, pid]), |_| {}));
    // It is a member when its mappings are listed, which no other sign tells: the recorder samples it from then on.
    std::thread::sleep(Duration::from_secs(3));
    toucher.touch();
    std::thread::sleep(Duration::from_secs(1));
    toucher.end();
    let made = recorder.join().expect("a recording");
    assert!(made.outcome.ended.is_none() && made.outcome.manifest.exit.is_none(), "it was not ours to wait for");
    assert_eq!(made.written("ended_by"), "target");
    assert_eq!(made.written("target")["pids"][0], pid);
    let (known, unknown) = made.faults();
    assert!(known >= PAGES && unknown == 0, "{known} attributed, {unknown} not");
    let mut snapshots = Vec::new();
    made.recording
        .for_each::<TasksRow>(|row| {
            if row.op == "snapshot" {
                snapshots.push((row.tid as u32, row.comm.map(str::to_owned), row.exe.is_some(), row.task_id));
            }
        })
        .expect("tasks");
    assert_eq!(snapshots, [(pid, Some("python3".to_owned()), true, 1)]);
    let mut on_snapshots = 0;
    made.recording.for_each::<MappingsRow>(|row| on_snapshots += u64::from(row.kind == "snapshot")).expect("mappings");
    assert!(on_snapshots > 10, "{on_snapshots} mappings listed");
    let mut sampled = 0;
    made.recording
        .for_each::<MetricsRow>(|row| sampled += u64::from(row.name.starts_with("proc.") || row.name.contains("rss")))
        .expect("metrics");
    assert!(sampled > 0, "the process's own metrics are sampled");
}

#[test]
fn a_command_is_recorded_from_skip_for_duration_and_asked_to_end() {
    if !is_root() {
        return;
    }
    // The shell's child is there before recording begins.
    let script = format!("python3 -c '{}' & wait", FAULT_FOR_EVER.replace('\'', "\""));
    let made = record(Target::Command(vec!["sh".into(), "-c".into(), script.into()]), |options| {
        options.skip = Some(Duration::from_millis(1500));
        options.duration = Some(Duration::from_secs(1));
        options.own_group = true;
    });
    assert_eq!(made.written("ended_by"), "duration");
    assert_eq!(made.outcome.ended.and_then(|ended| ended.signal()), Some(libc::SIGTERM));
    let seconds = made.seconds_measured();
    assert!((1.0..10.0).contains(&seconds), "{seconds} s");
    assert_eq!(made.written("measured")["source"], "recording", "a part of a command is no whole piece of work");
    let (known, unknown) = made.faults();
    assert!(known > 256 && unknown * 100 < known, "{known} attributed, {unknown} not");
    assert!(made.fault_times().0 >= made.outcome.manifest.clock.start_ns, "nothing from before");
    let mut parents = Vec::new();
    made.recording
        .for_each::<TasksRow>(|row| {
            if row.op == "snapshot" {
                parents.push((row.comm.map(str::to_owned), row.parent_task_id));
            }
        })
        .expect("tasks");
    parents.sort();
    assert!(matches!(parents.as_slice(), [(_, Some(_)), (_, None)]), "the shell and its child: {parents:?}");
}

/// Numbers of tasks wrap: here a thread and a child are given lower ones than their process.
#[test]
fn a_task_comes_after_the_one_that_it_is_of_whatever_their_numbers() {
    if !is_root() || !std::path::Path::new("/proc/sys/kernel/ns_last_pid").exists() {
        return;
    }
    let script = "
import os, threading, time
def lower(): open('/proc/sys/kernel/ns_last_pid', 'w').write(str(max(os.getpid() - 300, 10)))
lower()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
lower()
os.fork()
time.sleep(60)";
    let made = record(Target::Command(["python3", "-c", script].map(Into::into).to_vec()), |options| {
        options.skip = Some(Duration::from_secs(1));
        options.duration = Some(Duration::from_secs(1));
        options.own_group = true;
    });
    let mut found = Vec::new();
    made.recording
        .for_each::<TasksRow>(|row| {
            if row.op == "snapshot" {
                found.push((row.task_id, row.tid, row.parent_task_id));
            }
        })
        .expect("tasks");
    let first = found.iter().find(|one| one.2.is_none()).copied().expect("the process");
    let of_it: Vec<_> = found.iter().filter(|one| **one != first).collect();
    assert_eq!(of_it.len(), 2, "its thread and its child: {found:?}");
    assert!(of_it.iter().all(|one| one.1 < first.1), "their numbers are lower: {found:?}");
    assert!(of_it.iter().all(|one| one.2 == Some(first.0)), "and they are of it: {found:?}");
}

#[test]
fn a_command_that_ends_before_recording_begins_leaves_an_empty_recording() {
    if !is_root() {
        return;
    }
    let made = record(Target::Command(vec!["sh".into(), "-c".into(), "exit 3".into()]), |options| {
        options.skip = Some(Duration::from_mins(1));
    });
    assert_eq!(made.outcome.ended.and_then(|ended| ended.code()), Some(3));
    assert_eq!(made.faults(), (0, 0));
    assert!(made.outcome.warnings.iter().any(|warning| warning.contains("--skip")), "{:?}", made.outcome.warnings);
}

#[test]
fn recording_ends_at_its_size_and_the_command_goes_on() {
    if !is_root() {
        return;
    }
    let tmp = scratch();
    let witness = tmp.path().join("witness");
    let script =
        format!("timeout 8 python3 -c '{}'; touch {}; exit 5", FAULT_FOR_EVER.replace('\'', "\""), witness.display());
    let max_bytes = 1 << 20;
    let made = record(Target::Command(vec!["sh".into(), "-c".into(), script.into()]), |options| {
        options.max_bytes = Some(max_bytes);
    });
    assert_eq!(made.written("ended_by"), "max_size");
    assert_eq!(made.outcome.ended.and_then(|ended| ended.code()), Some(5), "its status is waited for");
    assert!(made.outcome.manifest.exit.is_none(), "when the recording was closed it had none");
    assert!(witness.exists(), "it went on");
    let (bytes, seconds) = (size_of_dir(&made.outcome.dir), made.seconds_measured());
    assert!(bytes <= max_bytes, "{bytes} bytes on disk");
    assert!(seconds < 8.0 && made.faults().0 > 0, "{seconds} s");
}

fn size_of_dir(dir: &PathBuf) -> u64 {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => size_of_dir(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

#[test]
fn a_flight_recorder_keeps_the_last_of_the_events_and_all_of_the_state() {
    if !is_root() {
        return;
    }
    let made = record_storm(|options| {
        options.keep_last = Some(Duration::from_secs(1));
        options.duration = Some(Duration::from_secs(5));
    });
    let (first, last) = made.fault_times();
    let start = made.outcome.manifest.clock.start_ns;
    let since = made.written("kept_since_ns").as_i64().expect("older events were removed");
    assert!(first - start > 1_000_000_000, "the first second is gone, first fault at {}", first - start);
    let found = format!("first {}, last {}, kept since {}", first - start, last - start, since - start);
    assert!(first <= since + 900_000_000 && last - first >= 900_000_000, "the last second is there: {found}");
    let (known, unknown) = made.faults();
    assert!(known > 0 && unknown * 100 < known, "{known} attributed, {unknown} not: mappings are kept from the start");
    let mut settings = 0;
    made.recording.for_each::<SettingsRow>(|row| settings += u64::from(row.at == "start")).expect("settings");
    assert!(settings > 0);
    let names = |later_than: i64| {
        let mut names = std::collections::BTreeSet::new();
        made.recording
            .for_each::<MetricsRow>(|row| {
                if row.ts >= later_than {
                    names.insert((row.name.to_owned(), row.instance.map(str::to_owned)));
                }
            })
            .expect("metrics");
        names.len()
    };
    assert!(names(since) > 100, "also metrics that do not change are there: {}", names(since));
    let mut lost = 0;
    made.recording.for_each::<LossRow>(|row| lost += row.lost).expect("loss");
    assert_eq!(lost, 0);
    assert!((made.seconds_measured() - (last - since) as f64 / 1e9).abs() < 1.5);
}

#[test]
fn the_programs_run_time_is_counted_when_asked_for() {
    if !is_root() {
        return;
    }
    let made = record_storm(|options| {
        options.bpf_stats = true;
        options.duration = Some(Duration::from_millis(1500));
    });
    let cost = &made.outcome.manifest.self_cost;
    let programs = cost.extra["bpf_programs"].as_array().expect("programs");
    let runs = |name: &str| {
        programs.iter().filter(|one| one["name"] == name).map(|one| one["runs"].as_u64().expect("a count")).sum::<u64>()
    };
    let (known, unknown) = made.faults();
    // The programs also run for everybody else's faults.
    assert!(runs("page_fault_user") + runs("page_fault_kern") >= known + unknown, "{programs:?}");
    let sum: u64 = programs.iter().map(|one| one["run_ns"].as_u64().expect("a time")).sum();
    assert!(cost.bpf_ns == Some(sum) && sum > 0, "{cost:?}");
}

#[test]
fn above_the_budget_the_dearest_stream_is_shed_and_the_recording_says_so() {
    if !is_root() {
        return;
    }
    let made = record_storm(|options| {
        options.streams = StreamSet::parse("tasks,maps,faults").expect("streams");
        options.budget_pct = Some(0.001);
        options.duration = Some(Duration::from_secs(5));
    });
    let probe = made.outcome.manifest.probes.iter().find(|probe| probe.name == "faults").expect("a probe");
    let shed_at = probe.extra.get("shed_at_ns").and_then(serde_json::Value::as_i64).expect("it was shed");
    assert!(probe.extra["shed_because"].as_str().is_some_and(|why| why.contains("--budget")), "{probe:?}");
    // Events that were in the ring then are taken a little later.
    assert!(made.fault_times().1 <= shed_at + 100_000_000, "faults after it was shed");
    assert!(made.outcome.warnings.iter().any(|warning| warning.contains("faults")), "{:?}", made.outcome.warnings);
    let mut marks = Vec::new();
    made.recording
        .for_each::<pagelab_recording::tables::MarksRow>(|row| marks.push((row.name.to_owned(), row.ts)))
        .expect("marks");
    assert!(marks.contains(&("shed faults".to_owned(), shed_at)), "{marks:?}");
}

#[test]
fn one_stream_after_the_other_is_shed_until_the_budget_is_kept() {
    if !is_root() {
        return;
    }
    let made = record_storm(|options| {
        options.streams = StreamSet::parse("cpu,regions,counters").expect("streams");
        options.budget_pct = Some(0.000_001);
        options.duration = Some(Duration::from_secs(12));
    });
    let probes = &made.outcome.manifest.probes;
    let shed: Vec<&str> =
        probes.iter().filter(|probe| probe.extra.contains_key("shed_at_ns")).map(|probe| probe.name.as_str()).collect();
    assert_eq!(shed.len(), probes.len(), "{probes:?}");
    let shed_at = probes.iter().find(|probe| probe.name == "cpu").and_then(|probe| probe.extra["shed_at_ns"].as_i64());
    let shed_at = shed_at.expect("a time");
    let mut last = 0;
    made.recording
        .for_each::<pagelab_recording::tables::SamplesRow<'_>>(|row| last = last.max(row.ts))
        .expect("samples");
    assert!(last > 0 && last <= shed_at + 100_000_000, "samples after the stream was shed: {last}, {shed_at}");
    let groups = &made.outcome.manifest.extra["counters"]["groups"];
    assert!(groups.as_array().is_some_and(|groups| !groups.is_empty()), "what was counted is said: {groups}");
}

#[test]
fn what_cannot_be_a_target_is_refused_with_words_and_nothing_is_left() {
    let tmp = scratch();
    let zombie = {
        let mut child = Command::new("true").spawn().expect("true");
        let state = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        while !state(child.id()).contains(") Z ") {
            std::thread::sleep(Duration::from_millis(1));
        }
        let id = child.id();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(20));
            child.wait()
        });
        id
    };
    let cases = [
        (Target::Processes(vec![zombie]), "zombie"),
        (Target::Processes(vec![4_194_305]), "no such process"),
        (Target::Processes(vec![0]), "no such process"),
        (Target::Processes(vec![std::process::id()]), "recorder itself"),
        (Target::Cgroup(tmp.path().into()), "no cgroup file system"),
        (Target::Cgroup("/sys/fs/cgroup/no-such".into()), "No such file"),
    ];
    for (target, word) in cases {
        let options = SessionOptions::new(target.clone(), tmp.path().join("r"));
        let error = run(&options).expect_err(word);
        assert!(matches!(error, SessionError::Target(_)) && error.to_string().contains(word), "{target:?}: {error}");
        assert!(!options.out.exists(), "{target:?}");
    }
}

/// Touches pages in each of three threads when it is told to, in the first one as well; the threads were there before.
const THREADS_TOUCH: &str = r"
import mmap, sys, threading
size = int(sys.argv[1]) * 4096
go = threading.Event()
blocks = [mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(4)]
for block in blocks: block.madvise(mmap.MADV_NOHUGEPAGE)
def touch(block):
    for at in range(0, size, 4096): block[at] = 1
def wait(block):
    go.wait()
    touch(block)
threads = [threading.Thread(target=wait, args=(block,)) for block in blocks[1:]]
for thread in threads: thread.start()
print('ready', flush=True)
sys.stdin.readline()
go.set()
touch(blocks[0])
for thread in threads: thread.join()
# One that is made while all are counted.
late = threading.Thread(target=touch, args=(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS),))
late.start()
late.join()
print('touched', flush=True)
sys.stdin.readline()
";

#[test]
fn counters_count_all_threads_of_a_process_that_runs() {
    if !is_root() {
        return;
    }
    let mut toucher = Toucher::start_with(THREADS_TOUCH);
    let pid = toucher.child.id();
    let tmp = scratch();
    let out = tmp.path().join("r");
    let until = out.join("counters");
    let toucher = std::thread::spawn(move || {
        // A part of the table: counting has begun.
        while !std::fs::read_dir(&until).is_ok_and(|mut parts| parts.next().is_some()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        toucher.touch();
        toucher.end();
    });
    let mut options = SessionOptions::new(Target::Processes(vec![pid]), out);
    options.streams = StreamSet::parse("counters").expect("streams");
    let outcome = run(&options).expect("a recording");
    toucher.join().expect("it ended");
    let counters = &outcome.manifest.extra["counters"];
    assert_eq!((&counters["threads"], &counters["threads_made_meanwhile"]), (&4.into(), &0.into()), "{counters}");
    let recording = Recording::open(&outcome.dir).expect("it can be read");
    let (mut first, mut last) = (None, None);
    recording
        .for_each::<CountersRow>(|row| {
            if row.name == "page-faults" {
                first = first.or(row.value);
                last = row.value;
            }
        })
        .expect("counters");
    let counted = last.expect("a count") - first.expect("a count");
    // Five times the pages (the last ones may be huge), and what the interpreter itself needs.
    assert!((4 * PAGES..6 * PAGES).contains(&counted), "{counted} faults, {PAGES} pages in 5 threads");
}

#[test]
fn what_goes_on_when_recording_ends_has_a_row_without_an_end() {
    if !is_root() {
        return;
    }
    let mut sleeper = Command::new("sleep").arg("600").spawn().expect("sleep");
    let pid = sleeper.id();
    // It has begun to sleep before it is recorded; this one sleeps again and again.
    let script = "import time\nprint(end='r', flush=True)\nwhile True: time.sleep(0.01); time.sleep(0.7)";
    let mut python = Command::new("python3");
    let mut again = python.args(["-c", script]).stdout(Stdio::piped()).spawn().expect("python3 (make setup-test)");
    // What is called python3 may be a script that runs other programs before it becomes the interpreter.
    again.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("the loop begins");
    let made = record(Target::Processes(vec![pid, again.id()]), |options| {
        options.streams = StreamSet::parse("tasks,syscalls,sched").expect("streams");
        options.duration = Some(Duration::from_millis(2500));
    });
    for child in [&mut sleeper, &mut again] {
        child.kill().expect("it lives");
        child.wait().expect("our child");
    }
    let (mut calls, mut off, mut ended) = (Vec::new(), Vec::new(), 0);
    made.recording
        .for_each::<SyscallsRow>(|row| {
            ended += u32::from(row.ret.is_some());
            if row.ret.is_none() {
                calls.push((row.name.to_owned(), row.dur, row.args[0]));
            }
        })
        .expect("calls");
    made.recording
        .for_each::<OffcpuRow>(|row| {
            if row.dur.is_none() {
                off.push((row.state.map(str::to_owned), row.runqueue_ns, row.kstack_id.is_some()));
            }
        })
        .expect("offcpu");
    assert!(ended > 2, "{ended} calls returned");
    // Both may be met in the moment between two sleeps.
    assert!(
        calls.len() <= 1 && calls.iter().all(|(name, dur, _)| name == "clock_nanosleep" && dur.is_none()),
        "{calls:?}"
    );
    assert!(off.len() <= 1 && off.iter().all(|row| *row == (Some("S".to_owned()), None, true)), "{off:?}");
    assert!(!calls.is_empty() || !off.is_empty(), "nothing goes on");
}

/// The environment is read while the process at the gate still has the recorder's: variables set for the command were
/// not in the recording, and `compare --setting env.X=1,2` found that no setting differs.
#[test]
fn what_is_set_for_a_command_is_in_its_settings() {
    use pagelab_host::process::ProcessSettings;
    // PATH is inherited with another value, which is not the command's.
    let pairs = [("env.PAGELAB_WORD", "two words"), ("env.PATH", "/usr/bin:/bin"), ("rlimit.nofile", "77:99")];
    let made = record(Target::Command(vec!["true".into()]), |options| {
        options.streams = StreamSet::parse("settings,faults").expect("streams");
        options.process_settings = ProcessSettings::from_pairs(pairs).expect("settings of a process");
    });
    let mut found = Vec::new();
    made.recording
        .for_each::<SettingsRow>(|row| {
            if row.at == "start" && pairs.iter().any(|(key, _)| *key == row.key) {
                found.push((row.key.to_owned(), row.value.map(str::to_owned), row.source.to_owned()));
            }
        })
        .expect("its settings can be read");
    found.sort();
    let (keys, values): (Vec<_>, Vec<_>) = found.iter().map(|(key, value, _)| (key.as_str(), value.as_deref())).unzip();
    assert_eq!(keys, ["env.PAGELAB_WORD", "env.PATH", "rlimit.nofile"]);
    assert_eq!(values, [Some("two words"), Some("/usr/bin:/bin"), Some("77:99")]);
    assert_eq!(found[0].2, "set for the command");
}

/// Asked is not got: what is recorded is what the process's own table of mounts has.
#[test]
fn mount_options_set_for_a_command_are_its_own() {
    use pagelab_host::process::ProcessSettings;
    let of_proc = || {
        let table = std::fs::read_to_string("/proc/self/mountinfo").expect("a table of mounts");
        table.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc")).expect("it is mounted").to_owned()
    };
    let before = of_proc();
    let other = if before.contains("noatime") { "relatime" } else { "noatime" };
    let made = record(Target::Command(vec!["true".into()]), |options| {
        options.streams = StreamSet::parse("settings,faults").expect("streams");
        options.process_settings = ProcessSettings::from_pairs([("mount./proc.options", other)]).expect("an option");
    });
    let mut found = None;
    made.recording
        .for_each::<SettingsRow>(|row| {
            if row.at == "start" && row.key == "mount./proc.options" {
                found = row.value.map(str::to_owned);
            }
        })
        .expect("its settings can be read");
    let found = found.expect("it is recorded");
    assert!(found.split(',').any(|option| option == other), "{found}");
    assert_eq!(of_proc(), before);
}

/// ru_maxrss outlives exec, and the command was forked from the recorder: `true` had used 24 MiB, and 16 faults that
/// perf stat does not count.
#[test]
fn what_a_command_has_used_is_its_own() {
    let used = |argv: &[&str]| {
        let made = record(Target::Command(argv.iter().map(Into::into).collect()), |options| {
            options.streams = StreamSet::parse("metrics,faults").expect("streams");
        });
        let usage = made.written("rusage");
        (usage["max_rss_bytes"].as_u64().expect("known"), usage["minor_faults"].as_u64().expect("known"))
    };
    // The recorder of this test is large.
    let ballast = vec![1_u8; 64 << 20];
    let (small, faults) = used(&["true"]);
    assert!(std::hint::black_box(&ballast).len() == 64 << 20 && small < 4 << 20, "{small}");
    assert!((20..400).contains(&faults), "{faults}");
    // The recorder's own memory is less than what this takes.
    let (large, _) = used(&["python3", "-c", "x = bytearray(128 << 20)"]);
    assert!((128 << 20..160 << 20).contains(&large), "{large}");
}
