//! `pagelab watch` of programs whose load is known: the figures of each second, its ends, and the terminal that it leaves.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use crate::common;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{pagelab, run, scratch, stderr, without_thp};
use serde_json::Value;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Thirty times a tenth of a second: half of it awake, in which it maps 100 pages, writes to each and makes 200 calls of a kind
/// that no shell makes which may start the interpreter.
const HALVES: &str = "import mmap, os, time
for period in range(30):
    end = time.monotonic() + 0.05
    memory = mmap.mmap(-1, 4096 * 100)
    for page in range(100): memory[page * 4096] = 1
    memory.close()
    for call in range(200): os.sched_get_priority_max(0)
    while time.monotonic() < end: pass
    time.sleep(0.05)";
const PERIODS: u64 = 30;

/// Four threads that sleep in a call that they began before, and go on to sleep.
const SLEEPERS: &str = "import threading, time
for thread in range(3): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print('ready', flush=True)
time.sleep(600)";

fn watch(words: &[&str]) -> Command {
    let mut command = pagelab();
    command.args(["watch", "--json"]).args(words);
    command
}

/// The seconds that a watch tells.
#[track_caller]
fn seconds(command: &mut Command) -> Vec<Value> {
    let output = run(command, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn ns(second: &Value, key: &str) -> u64 {
    second[key].as_u64().unwrap_or_else(|| panic!("{key}: {second:#}"))
}

fn length(second: &Value) -> f64 {
    second["seconds"].as_f64().unwrap()
}

/// A figure of the calls of one name in a second; 0 if there were none.
fn of_call(second: &Value, name: &str, key: &str) -> u64 {
    let calls = second["calls"].as_array().unwrap_or_else(|| panic!("calls are counted: {second:#}"));
    calls.iter().find(|call| call["name"] == name).map_or(0, |call| ns(call, key))
}

/// The states sum to the lives, the components to the states, and the lives to as many seconds as there are tasks.
#[track_caller]
fn closes(second: &Value, tasks: f64) {
    closes_within(second, tasks, 0.03);
}

#[track_caller]
fn closes_within(second: &Value, tasks: f64, error: f64) {
    let lives = ns(second, "lives_ns");
    assert_eq!(ns(second, "run_ns") + ns(second, "ready_ns") + ns(second, "off_ns"), lives);
    for state in ["run", "ready", "off"] {
        let parts = second["components"].as_array().unwrap().iter().filter(|one| one["state"] == state);
        let sum: u64 = parts.map(|one| ns(one, "ns")).sum();
        assert!(sum.abs_diff(ns(second, &format!("{state}_ns"))) < 100, "{state}: {second:#}");
    }
    let expected = tasks * length(second) * 1e9;
    assert!((lives as f64 - expected).abs() < error * expected, "{lives} ns of {expected}: {second:#}");
}

#[test]
fn a_known_load_is_told_second_by_second() {
    let mut command = watch(&["--", "python3", "-c", HALVES]);
    let seconds = seconds(without_thp(&mut command));
    let sum = |of: &dyn Fn(&Value) -> u64| seconds.iter().map(of).sum::<u64>();
    // Every call and every fault is counted, in one second or another; less than half a second at the end is not shown.
    let periods = sum(&|second| of_call(second, "clock_nanosleep", "calls"));
    let calls = sum(&|second| of_call(second, "sched_get_priority_max", "calls"));
    assert!((PERIODS - 6..=PERIODS).contains(&periods), "{periods} periods");
    assert!(calls.abs_diff(200 * periods) <= 200, "{calls} calls in {periods} periods");
    assert!(sum(&|second| ns(&second["faults"], "write")) >= 100 * (periods - 1));
    assert!(seconds.iter().all(|second| length(second) >= 0.5), "no fragment: {seconds:#?}");
    let whole: Vec<&Value> = seconds.iter().filter(|second| length(second) > 0.9).collect();
    assert!(whole.len() >= 2, "it runs for 3 s: {seconds:#?}");
    // The interpreter's own beginning is in the first.
    for second in &whole[1..] {
        closes(second, 1.0);
        // The second may begin or end in the middle of a period.
        let periods = of_call(second, "clock_nanosleep", "calls");
        let off = ns(second, "off_ns");
        assert!(off.abs_diff(50_000_000 * periods) < 100_000_000, "it sleeps 50 ms of each period: {second:#}");
        assert!(
            ns(second, "run_ns") * 10 > ns(second, "lives_ns"),
            "and runs the rest, on a machine that may be busy: {second:#}"
        );
        // A call lasts until its task runs again, which waits for a CPU after it was woken.
        let asleep = of_call(second, "clock_nanosleep", "ns");
        let longest = off + ns(second, "ready_ns") + of_call(second, "clock_nanosleep", "cpu_ns");
        assert!(asleep + 10_000_000 > off && asleep < longest + 10_000_000, "in one call: {second:#}");
        assert!(of_call(second, "clock_nanosleep", "cpu_ns") < 20_000_000, "where it needs no CPU: {second:#}");
        let faults = ns(&second["faults"], "write");
        assert!(periods >= 3 && faults.abs_diff(100 * periods) <= 100, "{second:#}");
        let per_s = second["faults"]["per_s"].as_f64().unwrap();
        assert!((per_s * length(second) - ns(&second["faults"], "total") as f64).abs() < 0.5, "{second:#}");
        assert_eq!(second["threads"][0]["comm"], "python3");
        assert_eq!(second["waits"][0]["call"], "clock_nanosleep");
        assert_eq!(second["waits"][0]["woken_by"], "timer");
    }
    // The last one is short, and so is the time that its figures are of.
    let own = whole.iter().map(|second| second["cost"]["cpu_pct"].as_f64().unwrap()).fold(0.0, f64::max);
    assert!(own > 0.0 && own < 20.0, "{own} %");
}

#[test]
fn a_call_that_lasts_is_in_each_second() {
    let seconds = seconds(&mut watch(&["--", "sleep", "3.5"]));
    let whole: Vec<&Value> = seconds.iter().filter(|second| length(second) > 0.9).collect();
    assert!(whole.len() >= 3, "{seconds:#?}");
    for second in &whole[1..] {
        closes(second, 1.0);
        let expected = (length(second) * 1e9) as u64;
        assert!(of_call(second, "clock_nanosleep", "ns").abs_diff(expected) < expected / 30, "{second:#}");
        assert_eq!(of_call(second, "clock_nanosleep", "calls"), 0, "it has not returned");
    }
}

struct Sleepers(Child);

impl Sleepers {
    fn new() -> Self {
        let mut child = Command::new("python3").args(["-c", SLEEPERS]).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        Self(child)
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn tasks_that_slept_before_are_there() {
    let sleepers = Sleepers::new();
    let seconds = seconds(&mut watch(&["-p", &sleepers.0.id().to_string(), "--for", "3.2"]));
    let whole: Vec<&Value> = seconds.iter().filter(|second| length(second) > 0.9).collect();
    assert!(whole.len() >= 2, "{seconds:#?}");
    // The rest of a second at the end, in which nothing is over either, is told once.
    closes_within(seconds.last().unwrap(), 4.0, 0.2);
    for second in whole {
        closes(second, 4.0);
        assert_eq!(second["tasks"], 4, "{second:#}");
        let asleep = of_call(second, "clock_nanosleep", "ns") as f64;
        assert!(asleep > 3.8e9 * length(second), "all in the call that they were in: {second:#}");
    }
}

#[test]
fn the_whole_system_is_watched_but_for_the_watch() {
    let mut child = watch(&["--all", "--for", "2.5"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let seconds: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(seconds.len() >= 2, "{text}");
    for second in &seconds {
        assert!(ns(second, "tasks") > 5 && ns(&second["faults"], "total") < 100_000_000, "{second:#}");
        let threads = second["threads"].as_array().unwrap();
        assert!(threads.iter().all(|thread| thread["pid"] != child.id()), "{second:#}");
    }
}

#[test]
fn it_ends_with_its_target_and_says_when_there_is_none() {
    let mut target = Command::new("sleep").arg("1.5").spawn().unwrap();
    let pid = target.id().to_string();
    // A shell's child would be reaped at once; ours is a zombie until then, which has ended, too.
    let lines = run(pagelab().args(["watch", "-p", &pid]), 0);
    let text = String::from_utf8(lines.stdout).unwrap();
    assert!(
        text.lines().count() >= 1 && text.lines().all(|line| line.contains("  off ") && line.contains("own ")),
        "{text}"
    );
    target.wait().unwrap();
    let refused = run(pagelab().args(["watch", "-p", &pid]), 2);
    assert!(stderr(&refused).contains("found no such process"), "{}", stderr(&refused));
    assert!(refused.stdout.is_empty());
    run(&mut watch(&["--", "/nothing/of/this/name"]), 2);
    run(&mut watch(&["-p", &pid, "--all"]), 2);
    let failed = run(&mut watch(&["--", "sh", "-c", "echo out; exit 3"]), 0);
    assert!(stderr(&failed).contains("out") && stderr(&failed).contains("status 3"), "{}", stderr(&failed));
    assert!(!String::from_utf8_lossy(&failed.stdout).contains("out\n"));
}

#[test]
fn the_recording_is_kept_where_somebody_wants_it() {
    let tmp = scratch();
    let rec = tmp.path().join("rec");
    let mut command = watch(&["--for", "1.2", "-o"]);
    run(command.arg(&rec).args(["--", "sleep", "60"]), 0);
    run(pagelab().arg("check").arg(&rec), 0);
    let budget = run(pagelab().arg("show").arg(&rec).arg("budget"), 0);
    assert!(String::from_utf8_lossy(&budget.stdout).contains("WAITING FOR OTHERS"));
}

/// A terminal of 80x24, ours and the program's end.
fn terminal() -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointers refer to locals; null means that no name and no modes are given.
    let made = unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, std::ptr::null_mut(), std::ptr::null(), &raw const size)
    };
    assert_eq!(made, 0);
    for end in [ours, theirs] {
        // Programs that other tests start must not keep it open.
        // SAFETY: the call takes numbers.
        assert_eq!(unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
    }
    // SAFETY: the kernel has just made both, and nobody else knows of them.
    unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

/// Begins a watch in a terminal of its own.
fn in_terminal(theirs: &OwnedFd, words: &[&str]) -> Child {
    let mut command = pagelab();
    command.arg("watch").args(words).env("TERM", "xterm-256color");
    let end = || Stdio::from(theirs.try_clone().unwrap());
    command.stdin(end()).stdout(end()).stderr(end());
    let lead = || {
        // SAFETY: the calls take numbers; descriptor 0 is the terminal. Whoever runs the tests by nohup ignores SIGHUP, and so would the
        // watch.
        let done = unsafe {
            libc::signal(libc::SIGHUP, libc::SIG_DFL) != libc::SIG_ERR
                && libc::setsid() >= 0
                && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: system calls and nothing else.
    unsafe { command.pre_exec(lead) };
    command.spawn().unwrap()
}

fn modes(terminal: &OwnedFd) -> libc::termios {
    // SAFETY: plain integers, for which zero is a value; the pointer refers to a local.
    unsafe {
        let mut modes = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &raw mut modes), 0);
        modes
    }
}

/// Reads what the program draws until it holds `wanted`.
#[track_caller]
fn read_until(ours: &mut File, drawn: &mut Vec<u8>, wanted: &str) {
    let until = Instant::now() + PATIENCE;
    while !String::from_utf8_lossy(drawn).contains(wanted) {
        let mut fds = [rustix::event::PollFd::new(&*ours, rustix::event::PollFlags::IN)];
        let wait = rustix::time::Timespec { tv_sec: 1, tv_nsec: 0 };
        let ready = rustix::event::poll(&mut fds, Some(&wait)).unwrap();
        assert!(Instant::now() < until, "{wanted:?} is not drawn: {}", String::from_utf8_lossy(drawn));
        if ready > 0 {
            let mut chunk = [0; 4096];
            let read = ours.read(&mut chunk).unwrap();
            drawn.extend_from_slice(&chunk[..read]);
        }
    }
}

const ENTERED: &str = "\u{1b}[?1049h";
const LEFT: &str = "\u{1b}[?1049l";

/// Ends a watch as `end` does, and demands the terminal back.
fn gives_the_terminal_back(words: &[&str], end: impl FnOnce(&mut File, &Child)) {
    let (mut ours, theirs) = terminal();
    let before = modes(&theirs);
    let mut child = in_terminal(&theirs, words);
    let mut drawn = Vec::new();
    read_until(&mut ours, &mut drawn, ENTERED);
    read_until(&mut ours, &mut drawn, "System calls");
    assert_eq!(modes(&theirs).c_lflag & libc::ICANON, 0, "keys come one by one");
    end(&mut ours, &child);
    read_until(&mut ours, &mut drawn, LEFT);
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&drawn));
    let after = modes(&theirs);
    assert_eq!((before.c_lflag, before.c_iflag, before.c_oflag), (after.c_lflag, after.c_iflag, after.c_oflag));
}

#[test]
fn keys_end_it_and_the_terminal_comes_back() {
    let sleepers = Sleepers::new();
    let pid = sleepers.0.id().to_string();
    gives_the_terminal_back(&["-p", &pid], |ours, _| ours.write_all(b"4?pq").unwrap());
    // A command gets the signal that Ctrl-C would send.
    gives_the_terminal_back(&["--", "sleep", "600"], |ours, _| ours.write_all(b"\x03").unwrap());
}

/// The window is closed, or the connection breaks: nobody is left to press a key.
#[test]
fn it_ends_with_its_terminal() {
    let sleepers = Sleepers::new();
    let (mut ours, theirs) = terminal();
    let mut child = in_terminal(&theirs, &["-p", &sleepers.0.id().to_string()]);
    let mut drawn = Vec::new();
    read_until(&mut ours, &mut drawn, "System calls");
    drop((ours, theirs));
    let until = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("it goes on without a terminal");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn signals_end_it_and_the_terminal_comes_back() {
    let sleepers = Sleepers::new();
    let pid = sleepers.0.id().to_string();
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::HUP] {
        gives_the_terminal_back(&["-p", &pid], |_, child| {
            let child = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
            rustix::process::kill_process(child, signal).unwrap();
        });
    }
}
