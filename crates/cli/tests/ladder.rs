//! What is recorded where the kernel gives less: an ordinary user, no BPF, a container whose seccomp filter refuses `bpf` and
//! `perf_event_open`, no tracefs. Each recording is held to `fallbacks::FALLBACKS`, and its counts to what the program knows of itself.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use arrow::array::Array;
use common::lower::{USER, record, record_running, refuse};
use common::{is_root, json, pagelab, run, scratch, stderr};
use pagelab_observe::streams::Stream;
use pagelab_recording::tables::{CountersRow, FaultsRow, LossRow, MappingsRow, TasksRow};
use pagelab_recording::{ProbeState, Recording};
use pagelab_session::fallbacks::{FALLBACKS, Rung, fallback};

const PAGES: u64 = 3000;
const CHILD_PAGES: u64 = 500;
/// The program's own status.
const STATUS: i32 = 7;

/// Touches known numbers of pages of 4 KiB, in itself and in a child, prints where, maps a file, and works until it has used
/// 0.4 s of CPU time.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static char *touch(long pages)
{
	char *at = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(at, pages * 4096, MADV_NOHUGEPAGE);
	for (long i = 0; i < pages; i++)
		at[i * 4096] = 1;
	return at;
}
int main(int argc, char **argv)
{
	char *mine = touch(argc > 1 ? atol(argv[1]) : 3000);
	int fd = open(argv[0], O_RDONLY);
	volatile char first = *(char *)mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
	char *huge = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(huge, 4 << 20, MADV_HUGEPAGE);
	huge[0] = 1;
	int pipes[2];
	char *childs;
	if (pipe(pipes))
		return 1;
	if (!fork()) {
		childs = touch(500);
		_exit(write(pipes[1], &childs, sizeof(childs)) != sizeof(childs));
	}
	wait(0);
	if (read(pipes[0], &childs, sizeof(childs)) != sizeof(childs))
		return 1;
	printf("%lu %lu %d\n", (unsigned long)mine, (unsigned long)childs, getpid());
	fflush(stdout);
	/* In itself and seldom in the kernel, where an ordinary user's samples do not see it. */
	while (clock() < CLOCKS_PER_SEC * 4 / 10)
		for (int i = 0; i < 100000; i++)
			first++;
	return 7;
}
"#;

/// What the program said.
struct Said {
    own: u64,
    child: u64,
    pid: i32,
}

impl Said {
    fn read(output: &Output) -> Self {
        let text = String::from_utf8_lossy(&output.stdout);
        let mut words = text.split_whitespace();
        let mut next = || words.next().expect("three numbers").parse().expect("a number");
        Self { own: next(), child: next(), pid: next() as i32 }
    }
}

fn built(dir: &Path) -> PathBuf {
    let (source, program) = (dir.join("toucher.c"), dir.join("toucher"));
    fs::write(&source, PROGRAM).expect("the directory is ours");
    assert!(Command::new("gcc").args(["-O1", "-g", "-o"]).arg(&program).arg(&source).status().expect("gcc").success());
    program
}

/// The columns of a table, each with whether some row has a value.
fn filled(recording: &Recording, table: &str) -> BTreeMap<String, bool> {
    let mut filled = BTreeMap::new();
    for batch in recording.read(table, None).expect("the table") {
        let batch = batch.expect("a batch");
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            *filled.entry(field.name().clone()).or_insert(false) |= column.null_count() < column.len();
        }
    }
    filled
}

/// Holds a recording of all streams to the list of fallbacks. `rungs` are the streams that must be active; the others must be refused with
/// a reason.
#[track_caller]
fn hold(recording: &Recording, rungs: &[(&str, Rung)]) {
    for probe in &recording.manifest().probes {
        let stream = Stream::all().find(|stream| stream.name() == probe.name).expect("a stream");
        let Some((_, rung)) = rungs.iter().find(|(name, _)| *name == probe.name) else {
            assert_eq!(probe.state, ProbeState::Refused, "{probe:?}");
            assert!(probe.reason.as_deref().is_some_and(|reason| reason.contains("needed: ")), "{probe:?}");
            continue;
        };
        assert_eq!((probe.state, probe.rung.as_deref()), (ProbeState::Active, Some(rung.name())), "{probe:?}");
        let listed = fallback(stream, *rung).unwrap_or_else(|| panic!("{stream} on {rung:?} is not listed"));
        let highest = FALLBACKS.iter().find(|one| one.stream == stream).expect("every stream is listed").rung;
        assert_eq!(probe.reason.is_some(), *rung != highest, "below the highest rung there is a reason: {probe:?}");
        for (table, columns) in listed.fills() {
            let filled = filled(recording, table);
            for column in columns {
                assert_eq!(filled.get(column), Some(&true), "{stream} on {rung:?}: {table}.{column} must have a value");
            }
        }
        for (table, columns) in listed.null {
            let filled = filled(recording, table);
            for column in *columns {
                assert_eq!(filled.get(*column), Some(&false), "{stream} on {rung:?}: {table}.{column} must be null");
            }
        }
    }
    assert!(recording.manifest().complete);
}

const METRICS: [(&str, Rung); 4] =
    [("metrics", Rung::Procfs), ("settings", Rung::Procfs), ("regions", Rung::Procfs), ("speed", Rung::Procfs)];
const BY_PERF: [(&str, Rung); 5] = [
    ("tasks", Rung::Perf),
    ("faults", Rung::Perf),
    ("maps", Rung::Perf),
    ("cpu", Rung::Perf),
    ("counters", Rung::Perf),
];

/// The faults that perf recorded are those that the program took.
#[track_caller]
fn hold_faults(recording: &Recording, said: &Said) {
    let spaces = spaces_of(recording, "toucher");
    let (mut own, mut child, mut rows, mut unattributed) = (0, 0, 0, 0);
    recording
        .for_each::<FaultsRow>(|row| {
            rows += 1;
            unattributed += u64::from(row.mapping_id.is_none());
            let within = |start: u64, pages: u64| (start..start + pages * 4096).contains(&row.addr);
            let place = spaces.iter().position(|space| *space == row.mm_id);
            own += u64::from(place == Some(0) && within(said.own, PAGES));
            child += u64::from(place == Some(1) && within(said.child, CHILD_PAGES));
        })
        .expect("faults");
    assert_eq!((own, child), (PAGES, CHILD_PAGES), "each page once");
    assert!(unattributed * 100 <= rows, "{unattributed} of {rows} faults are on no known mapping");
    let counts = Counts::of(recording);
    assert_eq!((Some(rows), rows, 0), (counts.counted, counts.seen, counts.lost), "{counts:?}");
}

/// How many faults there are by who counted them.
#[derive(Debug, Default)]
struct Counts {
    /// Rows of `faults`.
    rows: u64,
    /// The stream `counters`: the same event, counted by the kernel over the same tasks and time.
    counted: Option<u64>,
    /// The table `loss`.
    seen: u64,
    lost: u64,
}

impl Counts {
    fn of(recording: &Recording) -> Self {
        let mut counts = Self::default();
        recording.for_each::<FaultsRow>(|_| counts.rows += 1).expect("faults");
        recording
            .for_each::<CountersRow>(|row| {
                if row.name.trim_end_matches(":u") == "page-faults" {
                    counts.counted = counts.counted.max(row.value);
                }
            })
            .expect("counters");
        recording
            .for_each::<LossRow>(|row| {
                if row.stream == "faults" {
                    (counts.seen, counts.lost) = (counts.seen + row.seen, counts.lost + row.lost);
                }
            })
            .expect("loss");
        counts
    }
}

/// The address spaces of a program by its name, in the order of their numbers.
fn spaces_of(recording: &Recording, comm: &str) -> Vec<u32> {
    let mut spaces = Vec::new();
    recording
        .for_each::<TasksRow>(|row| {
            if row.comm == Some(comm) && matches!(row.op, "exec" | "fork") {
                spaces.extend(row.mm_id);
            }
        })
        .expect("tasks");
    spaces.sort_unstable();
    spaces.dedup();
    spaces
}

/// The life of the program and of its child, with the accounts that can be known.
#[track_caller]
fn hold_tasks(recording: &Recording, said: &Said) {
    let (mut forks, mut exits) = (0, 0);
    recording
        .for_each::<TasksRow>(|row| {
            forks += u32::from(row.op == "fork");
            if row.op == "exit" && row.pid == said.pid {
                exits += 1;
                assert_eq!(row.exit_code, Some(STATUS << 8));
                assert!(row.min_flt.is_some_and(|faults| faults >= PAGES), "{row:?}");
                // 0.4 s by the program's own clock, told in ticks of 10 ms.
                let cpu = row.utime_ns.unwrap_or(0) + row.stime_ns.unwrap_or(0);
                assert!(cpu >= 370_000_000, "{row:?}");
            }
        })
        .expect("tasks");
    assert_eq!((forks, exits), (1, 1));
}

/// Every view can be shown, and faults without error codes are said to have none.
fn hold_views(out: &Path) {
    for view in [
        "summary", "tasks", "maps", "profile", "counters", "metrics", "settings", "regions", "loss", "syscalls",
        "sched",
    ] {
        run(pagelab().arg("show").arg(out).arg(view), 0);
    }
    let shown = run(pagelab().arg("show").arg(out).args(["faults", "--json"]), 0);
    let shown = json(&shown);
    assert!(shown["write"].is_null() && shown["faults"].is_u64(), "{shown}");
    let notes = shown["notes"].to_string();
    assert!(notes.contains("error code"), "{notes}");
}

/// The program's madvise calls are seen where tracepoints are available; elsewhere the manifest says why not.
#[track_caller]
fn hold_actions(recording: &Recording, by_tracepoints: bool) {
    let (mut advised, space) = (0, spaces_of(recording, "toucher")[0]);
    recording
        .for_each::<MappingsRow>(|row| {
            let small = row.op == "madvise" && row.advice == Some(libc::MADV_NOHUGEPAGE);
            advised += u64::from(small && row.mm_id == space && row.len == Some(PAGES * 4096));
        })
        .expect("mappings");
    assert_eq!(advised, u64::from(by_tracepoints));
    let maps = recording.manifest().probes.iter().find(|probe| probe.name == "maps").expect("maps");
    assert_eq!(maps.extra.contains_key("areas_only_because"), !by_tracepoints, "{maps:?}");
}

/// Mappings of the program: each range once, none by a call that perf cannot know.
#[track_caller]
fn hold_maps(recording: &Recording, said: &Said) {
    let spaces = spaces_of(recording, "toucher");
    let mut found = false;
    recording
        .for_each::<MappingsRow>(|row| {
            let at = row.ret.map_or(row.addr, |ret| Some(ret as u64));
            found |= Some(&row.mm_id) == spaces.first()
                && (row.op, row.kind, at, row.len) == ("mmap", "call", Some(said.own), Some(PAGES * 4096));
        })
        .expect("mappings");
    assert!(found, "the mapping of {PAGES} pages, told from the neighbours that the kernel merged it with");
}

/// `calls` says that tracefs can be read, and what the kernel does be seen.
#[track_caller]
fn hold_by_perf(out: &Path, output: &Output, calls: bool) {
    let recording = Recording::open(out).expect("a recording");
    let with_calls: &[(&str, Rung)] = if calls { &[("syscalls", Rung::Perf)] } else { &[] };
    hold(&recording, &[METRICS.as_slice(), &BY_PERF, with_calls].concat());
    let said = Said::read(output);
    hold_faults(&recording, &said);
    hold_tasks(&recording, &said);
    hold_maps(&recording, &said);
    hold_actions(&recording, calls);
    hold_views(out);
    let told = stderr(output);
    let (recorded, refused) = if calls {
        ("tasks, faults, maps, syscalls, cpu recorded through perf events", ": waits, sched, block not recorded: BPF")
    } else {
        ("tasks, faults, maps, cpu recorded through perf events", ": syscalls not recorded: BPF")
    };
    for words in [recorded, refused, "Operation not permitted"] {
        assert!(told.contains(words), "{words:?} is missing in: {told}");
    }
}

fn paranoid() -> i32 {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").expect("perf events");
    text.trim().parse().expect("a number")
}

#[test]
fn an_ordinary_user_records_own_programs_through_perf_events() {
    assert!(is_root(), "needed: root, to become an ordinary user");
    assert!(paranoid() <= 2, "found {}; needed: 2, or tests of perf's rung mean nothing", paranoid());
    let dir = scratch();
    std::os::unix::fs::chown(dir.path(), Some(USER), Some(USER)).expect("root");
    let (program, out) = (built(dir.path()), dir.path().join("rec"));
    let id = USER.to_string();
    let before = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--no-new-privs"];
    let output = run(&mut record(&before, &out, "all", &[program.to_str().expect("text")]), STATUS);
    hold_by_perf(&out, &output, false);
    let recording = Recording::open(&out).expect("a recording");
    let calls = recording.manifest().probes.iter().find(|probe| probe.name == "syscalls").expect("syscalls");
    let told = calls.reason.as_deref().unwrap_or_default();
    assert!(told.contains("/sys/kernel/tracing") && told.contains("the right to read tracefs"), "{told}");
    assert!(calls.fix.as_deref().is_some_and(|fix| fix.contains("sudo")), "{calls:?}");
    let faults = recording.manifest().probes.iter().find(|probe| probe.name == "faults").expect("faults");
    assert_eq!(faults.extra.get("user_mode_only").is_some(), paranoid() == 2, "{faults:?}");
}

#[test]
fn without_the_right_to_bpf_perf_events_take_its_place() {
    assert!(is_root(), "needed: root, to give up a right");
    let dir = scratch();
    let (program, out) = (built(dir.path()), dir.path().join("rec"));
    let before = ["setpriv", "--bounding-set", "-bpf,-sys_admin", "--inh-caps", "-bpf,-sys_admin"];
    let output = run(&mut record(&before, &out, "all", &[program.to_str().expect("text")]), STATUS);
    hold_by_perf(&out, &output, true);
    let recording = Recording::open(&out).expect("a recording");
    assert!(recording.manifest().probes.iter().all(|probe| !probe.extra.contains_key("user_mode_only")));
    // What a stream is asked for by name must be given or refused before the command runs.
    let named = run(&mut record(&before, &dir.path().join("named"), "faults,sched", &["/bin/true"]), 3);
    assert!(stderr(&named).contains("--observe sched: refused: BPF"), "{}", stderr(&named));
    assert!(!dir.path().join("named").exists());
    run(&mut record(&before, &dir.path().join("low"), "faults", &["/bin/true"]), 0);
}

#[test]
fn a_filter_that_refuses_bpf_leaves_perf_events() {
    let dir = scratch();
    let (program, out) = (built(dir.path()), dir.path().join("rec"));
    let mut command = record(&[], &out, "all", &[program.to_str().expect("text")]);
    refuse(&mut command, &[libc::SYS_bpf]);
    hold_by_perf(&out, &run(&mut command, STATUS), true);
}

#[test]
fn a_filter_that_refuses_both_leaves_proc() {
    let dir = scratch();
    let (program, out) = (built(dir.path()), dir.path().join("rec"));
    let mut command = record(&[], &out, "all", &[program.to_str().expect("text")]);
    refuse(&mut command, &[libc::SYS_bpf, libc::SYS_perf_event_open]);
    let output = run(&mut command, STATUS);
    let recording = Recording::open(&out).expect("a recording");
    let alone = [("tasks", Rung::Procfs), ("maps", Rung::Procfs)];
    hold(&recording, &[METRICS.as_slice(), &alone].concat());
    let said = Said::read(&output);
    let (mut mapped, mut ended) = (false, 0);
    recording
        .for_each::<MappingsRow>(|row| {
            let reaches =
                row.addr.zip(row.len).is_some_and(|(at, len)| at <= said.own && said.own + PAGES * 4096 <= at + len);
            mapped |= row.kind == "snapshot" && reaches;
        })
        .expect("mappings");
    assert!(mapped, "a look must have met the mapping");
    recording
        .for_each::<TasksRow>(|row| {
            if row.op == "exit" {
                ended += 1;
                assert_eq!((row.pid, row.exit_code), (said.pid, Some(STATUS << 8)));
                assert!(row.min_flt.is_some_and(|faults| faults >= PAGES), "{row:?}");
            }
        })
        .expect("tasks");
    assert_eq!(ended, 1);
    let told = stderr(&output);
    for words in [
        "faults, syscalls, cpu not recorded: BPF",
        "it must let bpf pass",
        "perf_event_open",
        "seccomp",
        "tasks, maps recorded from /proc alone",
    ] {
        assert!(told.contains(words), "{words:?} is missing in: {told}");
    }
    for view in ["summary", "tasks", "maps", "faults", "profile", "regions", "loss"] {
        run(pagelab().arg("show").arg(&out).arg(view), 0);
    }
}

#[test]
fn tracefs_and_debugfs_are_not_needed() {
    assert!(is_root(), "needed: root, to unmount in a namespace of its own");
    let dir = scratch();
    let (program, out) = (built(dir.path()), dir.path().join("rec"));
    let without = "for at in /sys/kernel/debug/tracing /sys/kernel/tracing /sys/kernel/debug; do umount -l $at 2>/dev/null; done; \
                   grep -qE ' (tracefs|debugfs) ' /proc/self/mounts && exit 99; exec \"$@\"";
    let before = ["unshare", "--mount", "sh", "-c", without, "sh"];
    let output = run(
        &mut record(&before, &out, "tasks,faults,maps,syscalls,sched,cpu,counters", &[program.to_str().expect("text")]),
        STATUS,
    );
    let by_bpf = ["tasks", "faults", "maps", "syscalls", "sched", "cpu"].map(|name| (name, Rung::Bpf));
    let recording = Recording::open(&out).expect("a recording");
    hold(&recording, &[by_bpf.as_slice(), &[("counters", Rung::Perf)]].concat());
    assert!(!stderr(&output).contains("not recorded"), "{}", stderr(&output));
}

/// A process that runs already, with a thread, is found with what it has mapped, and followed from then on.
#[test]
fn what_runs_already_is_recorded_through_perf_events_too() {
    let dir = scratch();
    let out = dir.path().join("rec");
    let code = "import threading, time, mmap
def work():
    while True:
        m = mmap.mmap(-1, 1 << 20); m.write(b'x' * (1 << 20)); m.close(); time.sleep(0.001)
threading.Thread(target=work, daemon=True).start()
while True: time.sleep(1)";
    let target = Command::new("python3").args(["-S", "-c", code]).spawn().expect("python3");
    let pid = target.id() as i32;
    let recording = record_running(target, 2, "tasks,faults,maps,cpu", "1", &out);
    let (mut tasks, mut snapshots, mut faults, mut unattributed) = (Vec::new(), 0, 0, 0);
    recording
        .for_each::<TasksRow>(|row| {
            // What a task has used until the end.
            if row.op == "alive" {
                return;
            }
            assert_eq!((row.op, row.pid, row.mm_id, row.exe.is_some()), ("snapshot", pid, Some(1), true), "{row:?}");
            tasks.push(row.tid);
        })
        .expect("tasks");
    assert!(tasks.len() == 2 && tasks.contains(&pid), "{tasks:?}");
    recording.for_each::<MappingsRow>(|row| snapshots += u64::from(row.kind == "snapshot")).expect("mappings");
    recording
        .for_each::<FaultsRow>(|row| {
            faults += 1;
            unattributed += u64::from(row.mapping_id.is_none());
        })
        .expect("faults");
    assert!(snapshots > 10 && faults > 256, "{snapshots} mappings, {faults} faults");
    assert!(unattributed * 100 <= faults, "{unattributed} of {faults} faults are on no known mapping");
}

/// The ring holds a hundredth of what comes: what is seen is what the kernel counted, and what is lost is counted to the last fault.
#[test]
fn what_finds_no_room_in_a_ring_is_counted() {
    let dir = scratch();
    let (program, out) = (built(dir.path()), dir.path().join("rec"));
    let mut command = pagelab();
    command.args(["record", "--observe", "tasks,faults,counters", "--ring-bytes", "64K", "-o"]).arg(&out);
    command.arg("--").arg(&program).arg("200000");
    refuse(&mut command, &[libc::SYS_bpf]);
    run(&mut command, STATUS);
    let recording = Recording::open(&out).expect("a recording");
    let counts = Counts::of(&recording);
    assert!(counts.lost > 0 && counts.rows > 0, "{counts:?}");
    assert_eq!(counts.rows + counts.lost, counts.seen, "{counts:?}");
    // The counter's event is another one, opened a moment before: the command's process may fault in between.
    assert!(counts.counted.is_some_and(|counted| (counts.seen..=counts.seen + 2).contains(&counted)), "{counts:?}");
    let faults = recording.manifest().probes.iter().find(|probe| probe.name == "faults").expect("faults");
    assert_eq!((faults.events_seen, faults.events_lost), (Some(counts.seen), Some(counts.lost)));
}

/// `perf stat` counts the same event of the same program in the same run.
#[test]
fn faults_through_perf_events_are_those_that_perf_stat_counts() {
    let dir = scratch();
    let (program, out, counted) = (built(dir.path()), dir.path().join("rec"), dir.path().join("stat"));
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let (program, file) = (text(&program), text(&counted));
    let argv = ["perf", "stat", "-x", ",", "-e", "page-faults", "-o", &file, "--", &program];
    let mut command = record(&[], &out, "tasks,faults", &argv);
    refuse(&mut command, &[libc::SYS_bpf]);
    run(&mut command, STATUS);
    let text = fs::read_to_string(&counted).expect("perf's answer");
    let line = text.lines().find(|line| line.contains("page-faults")).expect("a count");
    let counted: u64 = line.split(',').next().and_then(|count| count.parse().ok()).expect("a number");
    let recording = Recording::open(&out).expect("a recording");
    let spaces = spaces_of(&recording, "toucher");
    let mut rows = 0;
    recording.for_each::<FaultsRow>(|row| rows += u64::from(spaces.contains(&row.mm_id))).expect("faults");
    assert_eq!(rows, counted);
    assert!(rows > PAGES + CHILD_PAGES);
}
