//! System calls through perf's tracepoints, where BPF is not available: all of them, as strace and the program itself
//! count them; losses are counted, and leave no wrong row.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::lower::{USER, record, record_running, refuse};
use common::{is_root, pagelab, run, scratch, stderr};
use pagelab_recording::tables::{FaultsRow, LossRow, MappingsRow, SyscallsRow, TasksRow};
use pagelab_recording::{ProbeState, Recording};

/// Threads that each seek in a file of their own: what a call returns is what it was asked for, and no two are the same.
const SEEKER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static long each;
static void *work(void *number)
{
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
	for (long i = 0; i < each; i++)
		lseek(fd, (long)number << 32 | i, SEEK_SET);
	return 0;
}
int main(int argc, char **argv)
{
	long threads = atol(argv[1]);
	pthread_t ids[16];
	each = atol(argv[2]);
	for (long i = 0; i < threads; i++)
		pthread_create(&ids[i], 0, work, (void *)i);
	for (long i = 0; i < threads; i++)
		pthread_join(ids[i], 0);
	return argc > 3 ? pause() : 0;
}
"#;

/// Interrupted and restarted calls, a call that a signal kills, a program that another thread than the first executes.
const LIVES: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void nothing(int signal) {}
/* A child that waits for a processor has not begun the call in which it is to be killed. */
static int sleeps(pid_t pid)
{
	char path[32], stat[512], *state;
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *file = fopen(path, "r");
	int found = file && fgets(stat, sizeof(stat), file) && (state = strrchr(stat, ')')) && state[2] == 'S';
	if (file)
		fclose(file);
	return found;
}
static void *become(void *path)
{
	char *argv[] = { path, "last", 0 };
	return (void *)syscall(SYS_execveat, AT_FDCWD, path, argv, environ, 0);
}
int main(int argc, char **argv)
{
	int pipes[2];
	char bytes[77];
	if (argc > 1)
		return 0;
	if (pipe(pipes))
		return 1;
	pid_t child = fork();
	if (!child)
		return read(pipes[0], bytes, 77);
	struct timespec moment = { 0, 300000000 };
	signal(SIGALRM, nothing);
	struct itimerspec alarm = { .it_value = { 0, 50000000 } };
	timer_t timer;
	timer_create(CLOCK_MONOTONIC, 0, &timer);
	timer_settime(timer, 0, &alarm, 0);
	syscall(SYS_nanosleep, &moment, &moment);
	while (!sleeps(child))
		sched_yield();
	kill(child, SIGKILL);
	waitpid(child, 0, 0);
	pthread_t thread;
	pthread_create(&thread, 0, become, argv[0]);
	pthread_join(thread, 0);
	return 1;
}
"#;

/// Seccomp refuses getpid with ENOSYS and lets SIGSYS answer getuid; no kernel has the numbers 500 and 99999.
const REFUSED: &str = r"
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void handler(int signal) {}
int main(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(steps) / sizeof(*steps), steps };
	signal(SIGSYS, handler);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	for (int i = 0; i < 77; i++)
		syscall(SYS_getpid, 11, 12, 13, 14, 15, 16);
	for (int i = 0; i < 3; i++)
		syscall(SYS_getuid);
	for (int i = 0; i < 4; i++) {
		syscall(500, 1, 2, 3, 4, 5, 6);
		syscall(99999, 1, 2, 3, 4, 5, 6);
	}
	/* A child returns from the call that made it: that is no call of its own. */
	if (!fork()) {
		syscall(SYS_getpid);
		_exit(0);
	}
	wait(0);
	return 0;
}
";

fn built(dir: &Path, name: &str, source: &str) -> PathBuf {
    let (from, program) = (dir.join(format!("{name}.c")), dir.join(name));
    fs::write(&from, source).expect("the directory is ours");
    let gcc = Command::new("gcc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&from).status();
    assert!(gcc.expect("gcc").success());
    program
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Records a command without BPF.
fn recorded(out: &Path, observe: &str, more: &[&str], program: &[&str]) -> Recording {
    let mut command = pagelab();
    command.args(["record", "--observe", observe, "-o"]).arg(out).args(more).arg("--").args(program);
    command.current_dir(out.parent().expect("a directory"));
    refuse(&mut command, &[libc::SYS_bpf]);
    run(&mut command, 0);
    let recording = Recording::open(out).expect("a recording");
    let probe = recording.manifest().probes.iter().find(|probe| probe.name == "syscalls").expect("syscalls").clone();
    assert_eq!((probe.state, probe.rung.as_deref()), (ProbeState::Active, Some("perf")), "{probe:?}");
    recording
}

#[derive(Debug)]
struct Row {
    name: String,
    ts: i64,
    dur: Option<i64>,
    task_id: u32,
    args: [u64; 6],
    ret: Option<i64>,
}

fn calls(recording: &Recording) -> Vec<Row> {
    let mut rows = Vec::new();
    recording
        .for_each::<SyscallsRow>(|row| {
            assert_eq!((row.cpu_ns, row.blocked_ns, row.file_id), (None, None, None), "{row:?}");
            // Of a call that was refused there is a result and no time.
            let is_refused = row.dur.is_none() && (row.name == "getpid" || row.name == "getuid");
            assert_eq!(row.ret.is_some() && !is_refused, row.dur.is_some(), "{row:?}");
            let SyscallsRow { ts, dur, task_id, args, ret, .. } = row;
            rows.push(Row { name: row.name.to_owned(), ts, dur, task_id, args, ret });
        })
        .expect("calls");
    rows
}

/// Seen and lost, from `loss`, which must agree with the manifest.
#[track_caller]
fn counts(recording: &Recording) -> (u64, u64) {
    let (mut seen, mut lost) = (0, 0);
    recording
        .for_each::<LossRow>(|row| {
            if row.stream == "syscalls" {
                assert!(row.cpu.is_some() && row.lost <= row.seen, "{row:?}");
                (seen, lost) = (seen + row.seen, lost + row.lost);
            }
        })
        .expect("loss");
    let probe = recording.manifest().probes.iter().find(|probe| probe.name == "syscalls").expect("syscalls");
    assert_eq!((probe.events_seen, probe.events_lost), (Some(seen), Some(lost)));
    (seen, lost)
}

/// strace -c counts 78 getpid, all of them errors, 3 getuid, and 4 of each number.
#[test]
fn calls_that_were_refused_and_calls_that_no_kernel_has_are_calls() {
    let dir = scratch();
    let program = built(dir.path(), "refused", REFUSED);
    let recording = recorded(&dir.path().join("rec"), "syscalls", &[], &[text(&program)]);
    let rows = calls(&recording);
    let of = |name: &str| rows.iter().filter(|row| row.name == name).map(|row| row.ret).collect::<Vec<_>>();
    assert_eq!(of("getpid"), [Some(-38); 78]);
    assert_eq!(of("getuid"), [None; 3], "answered by a signal");
    for name in ["syscall_500", "syscall_99999"] {
        assert_eq!(of(name), [Some(-38); 4]);
        assert!(rows.iter().filter(|row| row.name == name).all(|row| row.args == [1, 2, 3, 4, 5, 6]));
    }
    let made = rows.iter().filter(|row| matches!(row.name.as_str(), "fork" | "clone" | "vfork")).count();
    assert_eq!(made, 1, "the child's return is no call");
    assert_eq!(counts(&recording), (rows.len() as u64, 0));
}

/// strace counts the calls that returned, of all tasks from the first program on; what it runs in before that is not counted.
#[test]
fn counts_are_those_of_strace_on_the_same_run() {
    let dir = scratch();
    let script = "for i in 1 2 3; do ls -l / >/dev/null; done; head -c 300000 /dev/zero | gzip -c | wc -c >/dev/null";
    let strace = ["strace", "-f", "-c", "-U", "name,calls,errors", "-o", "counts", "sh", "-c", script];
    let recording = recorded(&dir.path().join("rec"), "tasks,syscalls", &[], &strace);
    let table = fs::read_to_string(dir.path().join("counts")).expect("strace's table");
    let mut theirs = BTreeMap::new();
    for line in table.lines() {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        if let ([count, errors @ ..], false) = (numbers.as_slice(), name == "total") {
            theirs.insert(name.to_owned(), (*count, errors.first().copied().unwrap_or(0)));
        }
    }
    assert!(theirs.len() > 15, "{table}");
    // strace is task 1, its children are what it traces.
    let mut parents = BTreeMap::new();
    let mut began = BTreeMap::new();
    recording
        .for_each::<TasksRow>(|row| {
            if row.op == "fork" {
                parents.insert(row.task_id, row.parent_task_id.unwrap_or(0));
            }
            if row.op == "exec" {
                began.entry(row.task_id).or_insert(row.ts);
            }
        })
        .expect("tasks");
    let shell = *began.iter().find(|(task, _)| **task != 1).expect("the shell").0;
    let of_shell = |task: u32| std::iter::successors(Some(task), |task| parents.get(task).copied()).any(|t| t == shell);
    let mut ours: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in calls(&recording) {
        // What strace's child does before it becomes the shell is not counted by strace; its execve is.
        let counts = of_shell(row.task_id)
            && (row.task_id != shell || row.ts + row.dur.unwrap_or(0) >= began[&shell])
            && row.ret.is_some();
        if counts {
            let entry = ours.entry(row.name).or_default();
            *entry = (entry.0 + 1, entry.1 + u64::from(row.ret.is_some_and(|ret| ret < 0)));
        }
    }
    assert_eq!(ours, theirs, "{table}");
    assert_eq!(counts(&recording).1, 0);
}

#[test]
fn every_call_has_its_row_with_what_it_returned() {
    let dir = scratch();
    let program = built(dir.path(), "seeker", SEEKER);
    // Room for all of them: with other tests running the recorder may not run for a while.
    let more = ["--ring-bytes", "64M"];
    let recording = recorded(&dir.path().join("rec"), "syscalls:lseek", &more, &[text(&program), "3", "20000"]);
    let rows = calls(&recording);
    let mut asked: Vec<u64> = rows.iter().map(|row| row.args[1]).collect();
    asked.sort_unstable();
    let wanted: Vec<u64> = (0..3).flat_map(|thread| (0..20_000).map(move |i| thread << 32 | i)).collect();
    assert_eq!(asked, wanted);
    for row in &rows {
        assert_eq!(
            (row.name.as_str(), row.ret, row.args[3..].to_vec()),
            ("lseek", Some(row.args[1] as i64), vec![0; 3])
        );
        assert!(row.dur.is_some_and(|dur| dur > 0), "{row:?}");
    }
    assert_eq!(counts(&recording), (60_000, 0));
}

/// The rings hold some hundred calls: most are lost, of entries as of returns.
#[test]
fn what_is_lost_is_counted_to_the_call_and_leaves_no_wrong_row() {
    let dir = scratch();
    let program = built(dir.path(), "seeker", SEEKER);
    let more = ["--ring-bytes", "1K"];
    let recording = recorded(&dir.path().join("rec"), "syscalls:lseek", &more, &[text(&program), "4", "100000"]);
    let rows = calls(&recording);
    let wrong: Vec<&Row> = rows.iter().filter(|row| row.ret != Some(row.args[1] as i64)).collect();
    assert!(wrong.is_empty(), "{} of {}: {:?}", wrong.len(), rows.len(), wrong[0]);
    let (seen, lost) = counts(&recording);
    assert!(lost > 0 && !rows.is_empty(), "the rings were made too small on purpose");
    assert_eq!((seen, lost + rows.len() as u64), (400_000, 400_000));
}

#[test]
fn calls_that_never_return_have_no_result_and_signals_end_calls() {
    let dir = scratch();
    let program = built(dir.path(), "lives", LIVES);
    // Calls that return with other numbers must not be lost to a filter on numbers.
    let observe = "tasks,syscalls:read,nanosleep,rt_sigreturn,execveat,exit_group";
    let recording = recorded(&dir.path().join("rec"), observe, &[], &[text(&program)]);
    let rows = calls(&recording);
    let of = |name: &str| rows.iter().filter(|row| row.name == name).collect::<Vec<_>>();
    let killed = of("read").into_iter().find(|row| row.args[2] == 77).expect("the read that was killed");
    assert_eq!((killed.ret, killed.dur), (None, None));
    // ERESTART_RESTARTBLOCK: what the kernel had in mind for the call that the handler came into.
    let slept = of("nanosleep");
    assert_eq!(slept.iter().map(|row| row.ret).collect::<Vec<_>>(), [Some(-516)], "{slept:?}");
    assert!(slept[0].dur.is_some_and(|dur| (40_000_000..300_000_000).contains(&dur)), "{slept:?}");
    let returned = of("rt_sigreturn");
    assert_eq!(returned.iter().map(|row| row.ret).collect::<Vec<_>>(), [Some(-4)], "EINTR goes on: {returned:?}");
    // The thread that executes a program becomes the first of its process; execveat returns as execve.
    let executed = of("execveat");
    assert_eq!(executed.iter().map(|row| row.ret).collect::<Vec<_>>(), [Some(0)], "{executed:?}");
    let ended = of("exit_group");
    assert_eq!(ended.iter().map(|row| row.ret).collect::<Vec<_>>(), [None], "{ended:?}");
    assert_eq!(ended[0].task_id, executed[0].task_id);
    assert_eq!(counts(&recording), (rows.len() as u64, 0));
}

/// Threads of a process that runs already are followed, and left in peace; what one is in at the end has no result.
#[test]
fn a_process_that_runs_already_is_followed() {
    let dir = scratch();
    let (program, out) = (built(dir.path(), "seeker", SEEKER), dir.path().join("rec"));
    let target = Command::new(&program).args(["2", "1000000000"]).spawn().expect("it starts");
    let recording = record_running(target, 3, "tasks,syscalls:lseek,futex", "0.5", &out);
    let rows = calls(&recording);
    let returned = || rows.iter().filter(|row| row.ret.is_some());
    assert!(returned().count() > 100, "{} calls", rows.len());
    let right = |row: &Row| row.name == "lseek" && row.ret == Some(row.args[1] as i64);
    assert!(returned().all(right), "{:?}", returned().find(|row| !right(row)));
    assert!(rows.len() - returned().count() <= 3, "a thread is in one call at most");
    let (seen, lost) = counts(&recording);
    assert_eq!(seen, rows.len() as u64 + lost);
}

#[test]
fn without_tracefs_the_reason_says_what_to_mount() {
    assert!(is_root(), "needed: root, to unmount in a namespace of its own");
    let dir = scratch();
    let without = "for at in /sys/kernel/debug/tracing /sys/kernel/tracing /sys/kernel/debug; do umount -l $at 2>/dev/null; done; \
                   grep -qE ' (tracefs|debugfs) ' /proc/self/mounts && exit 99; exec \"$@\"";
    let before = ["unshare", "--mount", "sh", "-c", without, "sh"];
    let refused_calls = |observe: &str, out: &str, status: i32| {
        let mut command = record(&before, &dir.path().join(out), observe, &["/bin/true"]);
        refuse(&mut command, &[libc::SYS_bpf]);
        stderr(&run(&mut command, status))
    };
    let told = refused_calls("syscalls", "named", 3);
    for words in ["--observe syscalls: refused: BPF", "raw_syscalls", "mount -t tracefs tracefs /sys/kernel/tracing"] {
        assert!(told.contains(words), "{words:?} is missing in: {told}");
    }
    // All the others are recorded as before.
    let told = refused_calls("all", "all", 0);
    assert!(
        told.contains("syscalls not recorded: BPF") && told.contains("tasks, faults, maps, cpu recorded"),
        "{told}"
    );
}

/// Maps, advises, moves and unmaps memory, again and again at the same address.
const MOVER: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
int main(void)
{
	char *at = mmap(0, 64 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(at, 64 << 12);
	for (int i = 0; i < 500; i++) {
		at = mmap(at, 64 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		madvise(at, 64 << 12, MADV_NOHUGEPAGE);
		at[0] = 1;
		char *moved = mremap(at, 64 << 12, 80 << 12, MREMAP_MAYMOVE | MREMAP_FIXED, at - (1L << 30));
		moved[70 << 12] = 1;
		munmap(moved, 80 << 12);
	}
	munmap((void *)1, 4096);
	printf("%lu\n", (unsigned long)at);
	return 0;
}
"#;

/// As BPF sees them, in the same order, of the same places.
#[test]
fn mappings_are_seen_to_go_and_to_move() {
    let dir = scratch();
    let program = built(dir.path(), "mover", MOVER);
    let (by_perf, by_bpf) = (dir.path().join("perf"), dir.path().join("bpf"));
    let mut command = pagelab();
    // What is mapped where must not depend on luck.
    command.args(["record", "--observe", "tasks,faults,maps", "-o"]).arg(&by_bpf);
    command.args(["--", "setarch", "-R"]).arg(&program);
    run(&mut command, 0);
    let mut command = pagelab();
    command.args(["record", "--observe", "tasks,faults,maps", "-o"]).arg(&by_perf);
    command.args(["--", "setarch", "-R"]).arg(&program);
    refuse(&mut command, &[libc::SYS_bpf]);
    run(&mut command, 0);
    let of = |out: &Path| {
        let recording = Recording::open(out).expect("a recording");
        let (mut actions, mut made, mut faults, mut lone) = (Vec::new(), 0, 0, 0);
        let mut space = None;
        recording
            .for_each::<TasksRow>(|row| {
                if row.op == "exec" && row.comm == Some("mover") {
                    space = row.mm_id;
                }
            })
            .expect("tasks");
        recording
            .for_each::<MappingsRow>(|row| {
                if Some(row.mm_id) != space || row.kind != "call" {
                    return;
                }
                // That memory of this size is there again: of neighbours that merge nothing is known here.
                made += u32::from(row.op == "mmap" && row.len == Some(64 << 12));
                if matches!(row.op, "munmap" | "mremap" | "madvise") {
                    let place = (row.addr, row.len, row.old_addr, row.old_len);
                    actions.push((row.op.to_owned(), place, row.advice, row.ret));
                }
            })
            .expect("mappings");
        recording
            .for_each::<FaultsRow>(|row| {
                faults += 1;
                lone += u32::from(Some(row.mm_id) == space && row.mapping_id.is_none());
            })
            .expect("faults");
        assert!(faults > 1000, "{faults}");
        (actions, made, lone)
    };
    let (perf, bpf) = (of(&by_perf), of(&by_bpf));
    assert!(perf.0.len() > 1500 && perf.1 > 500, "{} actions, {} mappings", perf.0.len(), perf.1);
    assert_eq!(perf, bpf);
}

/// A user who may read tracefs but see user mode alone gets that reason; seeing the kernel is the only right needed.
#[test]
fn tracepoints_need_the_right_to_see_the_kernel() {
    assert!(is_root(), "needed: root, to become an ordinary user with one right or two");
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").expect("perf events");
    assert_eq!(paranoid.trim(), "2", "needed: 2, or this test means nothing");
    let dir = scratch();
    std::os::unix::fs::chown(dir.path(), Some(USER), Some(USER)).expect("root");
    let id = USER.to_string();
    let by = |rights: &str, out: &str, status: i32| {
        let before = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--no-new-privs"];
        let rights = ["--inh-caps", rights, "--ambient-caps", rights];
        run(&mut record(&[before.as_slice(), &rights].concat(), &dir.path().join(out), "syscalls", &["ls"]), status)
    };
    let told = stderr(&by("+dac_read_search", "without", 3));
    for words in ["found kernel.perf_event_paranoid = 2", "at most 1, or CAP_PERFMON", "sudo pagelab record"] {
        assert!(told.contains(words), "{words:?} is missing in: {told}");
    }
    by("+dac_read_search,+perfmon", "with", 0);
    let recording = Recording::open(&dir.path().join("with")).expect("a recording");
    assert!(calls(&recording).iter().any(|row| row.name == "getdents64" && row.ret.is_some()));
}
