//! What somebody does in the first hour with `record`, `run` and `show`, as a new user did it and was let down: with sudo,
//! without -o, without DIR, on a narrow terminal, over a connection that drops.
#![allow(clippy::unwrap_used, reason = "what is missing here has failed the test")]

use crate::common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{as_ordinary_user, json, pagelab, run, scratch, stderr};

const USER: u32 = 1000;

/// The command as sudo runs it for the ordinary user: as root, with the variables that sudo sets.
fn sudo() -> Command {
    let mut command = pagelab();
    let id = USER.to_string();
    command.envs([("SUDO_UID", id.as_str()), ("SUDO_GID", id.as_str()), ("SUDO_USER", "pagelab-nobody-has-this-name")]);
    command
}

/// Every file below, the directory itself included, with its owner.
fn owners(dir: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = vec![(dir.to_owned(), fs::symlink_metadata(dir).unwrap().uid())];
    if dir.is_dir() {
        for entry in fs::read_dir(dir).unwrap() {
            found.extend(owners(&entry.unwrap().path()));
        }
    }
    found
}

#[track_caller]
fn all_belong_to(dir: &Path, uid: u32) {
    let all = owners(dir);
    assert!(all.len() > 1, "{all:?}");
    assert!(all.iter().all(|(_, owner)| *owner == uid), "{all:?}");
}

/// A directory of the ordinary user's.
fn home() -> tempfile::TempDir {
    let home = scratch();
    std::os::unix::fs::chown(home.path(), Some(USER), Some(USER)).unwrap();
    home
}

/// Waits for a file that a command makes.
fn wait_for(path: &Path) {
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn with_sudo_the_recording_belongs_to_who_called_it() {
    let (home, (program, mut user)) = (home(), as_ordinary_user());
    let out = home.path().join("rec");
    run(sudo().current_dir(home.path()).args(["record", "-q", "-o", "rec", "--", "true"]), 0);
    all_belong_to(&out, USER);
    run(user.arg("show").arg(&out), 0);
    drop(program);
    // Where only root may write, the user has the directory all the same.
    let above = scratch();
    fs::set_permissions(above.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let out = above.path().join("rec");
    run(sudo().args(["record", "-q", "-o"]).arg(&out).args(["--", "true"]), 0);
    all_belong_to(&out, USER);
    run(sudo().current_dir(home.path()).args(["run", "-o", "run.rec", "--name=x", "--ioengine=null", "--size=1m"]), 0);
    all_belong_to(&home.path().join("run.rec"), USER);
}

#[test]
fn a_killed_recorder_leaves_the_recording_to_who_called_sudo() {
    let home = home();
    let (out, began) = (home.path().join("rec"), home.path().join("began"));
    // The command ends when nobody writes to its standard input any more.
    let script = format!("touch {}; read line", began.display());
    let mut recorder = sudo();
    recorder.args(["record", "-q", "-o"]).arg(&out).args(["--", "sh", "-c", &script]).stdin(Stdio::piped());
    let mut recorder = recorder.spawn().unwrap();
    let reader = recorder.stdin.take();
    wait_for(&began);
    wait_for(&out.join("metrics"));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    all_belong_to(&out, USER);
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(out.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["complete"], false);
    drop(reader);
}

#[test]
fn a_set_made_with_sudo_belongs_to_who_called_it() {
    let home = home();
    let compare = ["compare", "-n", "2", "-o", "set", "--", "true", "true"];
    let output = sudo().current_dir(home.path()).args(compare).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    all_belong_to(&home.path().join("set"), USER);
}

#[test]
fn without_sudo_nothing_is_given_away_and_who_may_not_read_is_told_what_to_type() {
    let above = scratch();
    fs::set_permissions(above.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let out = above.path().join("rec");
    // A variable alone is not from sudo.
    run(pagelab().env("SUDO_UID", "1000").args(["record", "-q", "-o"]).arg(&out).args(["--", "true"]), 0);
    all_belong_to(&out, 0);
    let (_program, mut user) = as_ordinary_user();
    let output = user.arg("show").arg(&out).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.code() == Some(2), "{said}");
    for part in ["read permission", "belongs to root", "sudo chown -R", out.to_str().unwrap()] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("write permission"), "{said}");
}

/// A process that forks a child every 50 ms; each reads 4 MiB and lives on.
const FORKS: &str = r"
import os, sys, time
print('ready', flush=True)
while True:
    if os.fork() == 0:
        with open('/dev/zero', 'rb', buffering=0) as zero:
            for _ in range(64): zero.read(65536)
        time.sleep(1000)
    time.sleep(0.05)
";

/// A group of processes of the test's own, killed at the end.
struct Group(Child);

impl Group {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        let mut child = command.args(arguments).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: kill takes numbers; the group's leader is not reaped yet.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        self.0.wait().unwrap();
    }
}

#[test]
fn processes_that_come_later_are_in_the_figures() {
    let (group, dir) = (Group::start("python3", &["-c", FORKS]), scratch());
    let out = dir.path().join("rec");
    let record = ["record", "-q", "--observe", "metrics,tasks", "--duration", "1", "-p", &group.pid(), "-o"];
    run(pagelab().args(record).arg(&out), 0);
    drop(group);
    // SIGTERM and five seconds are for commands that were started.
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(out.join("manifest.json")).unwrap()).unwrap();
    let clock = &manifest["clock"];
    let lasted = clock["realtime_at_end_ns"].as_i64().unwrap() - clock["realtime_at_start_ns"].as_i64().unwrap();
    assert!((1_000_000_000..5_000_000_000).contains(&lasted), "{lasted}");
    let metrics = json(&run(pagelab().arg("show").arg(&out).args(["metrics", "target.", "--json"]), 0));
    let of = |name: &str| {
        let all = metrics["metrics"].as_array().unwrap();
        let found = all.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        (found["first"].as_f64().unwrap(), found["last"].as_f64().unwrap())
    };
    let (first, last) = of("target.io.rchar");
    assert!(last - first >= f64::from(4 << 20), "{first} to {last}: the children read");
    let (first, last) = of("target.status.processes");
    assert!(last - first >= 2.0, "{first} to {last}");
    assert!(of("target.smaps.pss_bytes").1 > of("target.smaps.pss_bytes").0);
    let tasks = json(&run(pagelab().arg("show").arg(&out).args(["tasks", "--json"]), 0));
    let alive: Vec<_> = tasks["tasks"].as_array().unwrap().iter().filter(|task| task["exit_ns"].is_null()).collect();
    assert!(alive.len() >= 3 && alive.iter().all(|task| task["cpu_ns"].is_u64()), "{tasks:#}");
    assert!(tasks["sums"]["cpu_ns"].as_u64().unwrap() > 0);
}

#[test]
fn a_process_that_is_gone_does_not_end_the_rest() {
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let (group, dir) = (Group::start("sh", &["-c", "echo ready; sleep 1000"]), scratch());
    let record = |pids: &str, out: &str, status| {
        let mut command = pagelab();
        command.args(["record", "--observe", "metrics,tasks", "--duration", "0.2", "-p", pids, "-o"]);
        stderr(&run(command.arg(dir.path().join(out)), status))
    };
    let said = record(&format!("{},{}", gone.id(), group.pid()), "some", 0);
    assert!(said.contains(&format!("-p {}: found no such process", gone.id())) && said.contains("others"), "{said}");
    let said = record(&gone.id().to_string(), "none", 125);
    assert!(said.contains("found no such process") && !dir.path().join("none").exists(), "{said}");
}

/// A signal that is ignored stays so, as under nohup, which may be what this test runs under.
fn hears_hang_ups(command: &mut Command) -> &mut Command {
    // SAFETY: signal is async-signal-safe and takes numbers.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            Ok(())
        })
    }
}

#[test]
fn a_hang_up_closes_the_recording() {
    let dir = scratch();
    for (signal, name) in [(libc::SIGHUP, "hup"), (libc::SIGQUIT, "quit"), (libc::SIGTERM, "term")] {
        let (out, began) = (dir.path().join(name), dir.path().join(format!("{name}.began")));
        let script = format!("touch {}; exec sleep 100", began.display());
        let mut recorder = pagelab();
        recorder.args(["record", "-q", "-o"]).arg(&out).args(["--", "sh", "-c", &script]);
        let mut recorder = hears_hang_ups(&mut recorder).spawn().unwrap();
        wait_for(&began);
        // SAFETY: kill takes numbers; the recorder is not reaped.
        unsafe { libc::kill(recorder.id() as i32, signal) };
        assert_eq!(recorder.wait().unwrap().code(), Some(128 + signal), "{name}");
        let report = json(&run(pagelab().args(["check", "--json"]).arg(&out), 0));
        assert_eq!(report["complete"], true, "{name}");
    }
}

/// A terminal, and a command on it that is the leader of its session.
struct Terminal {
    master: Option<fs::File>,
    child: Child,
}

impl Terminal {
    fn start(columns: u16, mut command: Command) -> Self {
        use std::os::fd::AsRawFd;
        // Opened by the library, which lets no other process of the test inherit it.
        let open = |path: &str| fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let master = open("/dev/ptmx");
        let mut name = [0; 64];
        // SAFETY: the descriptor is open, and the buffer as long as it is said to be.
        unsafe {
            assert_eq!(libc::unlockpt(master.as_raw_fd()), 0);
            assert_eq!(libc::ptsname_r(master.as_raw_fd(), name.as_mut_ptr(), name.len()), 0);
        }
        let name: Vec<u8> = name.iter().map(|letter| *letter as u8).take_while(|letter| *letter != 0).collect();
        let slave = open(std::str::from_utf8(&name).unwrap());
        let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the size is a local that outlives the call.
        unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        let end = || Stdio::from(slave.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: both calls are async-signal-safe and take numbers.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            })
        };
        let child = command.spawn().unwrap();
        Self { master: Some(master), child }
    }

    /// All that is written until the command and what it started have ended.
    fn text(mut self) -> String {
        let mut bytes = Vec::new();
        // The kernel answers EIO when the other end has gone.
        let _ = std::io::Read::read_to_end(self.master.as_mut().unwrap(), &mut bytes);
        self.child.wait().unwrap();
        String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
    }
}

#[test]
fn a_recording_outlives_the_connection_that_drops() {
    let dir = scratch();
    let (out, began) = (dir.path().join("rec"), dir.path().join("began"));
    let script = format!("touch {}; exec sleep 100", began.display());
    let mut command = pagelab();
    command.args(["record", "-o"]).arg(&out).args(["--", "sh", "-c", &script]);
    hears_hang_ups(&mut command);
    let mut terminal = Terminal::start(80, command);
    wait_for(&began);
    drop(terminal.master.take());
    let status = terminal.child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(128 + libc::SIGHUP), None), "{status}");
    let report = json(&run(pagelab().args(["check", "--json"]).arg(&out), 0));
    assert_eq!(report["complete"], true);
}

#[test]
fn what_a_command_prints_stands_alone_on_the_terminal() {
    let dir = scratch();
    let mut command = pagelab();
    // Longer than the second after which progress was shown.
    command.args(["record", "-o"]).arg(dir.path().join("rec")).args(["--", "sh", "-c", "sleep 1.3; echo hello"]);
    let text = Terminal::start(80, command).text();
    assert!(text.starts_with("hello\npagelab: recorded into "), "{text:?}");
    let mut command = pagelab();
    command.args(["compare", "-n", "2", "--show-output", "-o"]).arg(dir.path().join("set")).args([
        "--",
        "echo hello",
        "echo hello",
    ]);
    let text = Terminal::start(80, command).text();
    assert_eq!(text.lines().filter(|line| *line == "hello").count(), 4, "{text:?}");
    let while_running = text.split_once("pagelab: the runs are in").map_or("", |(before, _)| before);
    assert!(!while_running.contains(['\x1b', '\u{8}']), "{text:?}");
}

#[test]
fn without_names_the_newest_recording_here_is_meant() {
    let dir = scratch();
    let here = |words: &[&str], status| {
        let mut command = pagelab();
        run(command.current_dir(dir.path()).args(words), status)
    };
    let said = stderr(&here(&["show"], 2));
    assert!(said.contains("found no recording in") && said.contains("pagelab record"), "{said}");
    here(&["record", "-o", "older.rec", "true"], 0);
    let output = here(&["record", "sh", "-c", "echo $0 $1", "-o", "--json"], 0);
    assert_eq!(output.stdout, b"-o --json\n", "what follows the command is the command's");
    let names = || fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let made = names().find(|name| name != "older.rec").unwrap();
    assert!(made.starts_with("pagelab-20") && made.ends_with("-sh.rec"), "{made}");
    assert!(stderr(&output).contains(&format!("pagelab show {made}")), "{}", stderr(&output));
    for words in [&["show"][..], &["show", "summary"], &["show", &made]] {
        let output = here(words, 0);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(text.starts_with(&format!("{made}: complete\n")), "{words:?}: {text}");
        let says = words.len() < 2 || words[1] == "summary";
        assert_eq!(stderr(&output).contains(&format!("the newest recording here: {made}")), says, "{words:?}");
    }
    here(&["show", "metrics", "vmstat.pgfault"], 0);
    here(&["run", "--name=x", "--ioengine=null", "--size=1m"], 0);
    here(&["run", "-q", "-o", "named.rec", "--name=x", "--ioengine=null", "--size=1m"], 0);
    here(&["run", "--name=x", "--ioengine=nul", "--size=1m"], 2);
    let mut all: Vec<String> = names().collect();
    all.sort();
    assert_eq!(all, ["named.rec", "older.rec", &made], "fio's own command line records nothing");
}

#[test]
fn what_runs_is_recorded_for_as_long_as_a_command_does() {
    let dir = scratch();
    let out = dir.path().join("rec");
    let words = ["record", "-q", "--observe", "metrics,tasks", "-a", "-o"];
    run(pagelab().args(words).arg(&out).args(["--", "sh", "-c", "exit 7"]), 7);
    let summary = json(&run(pagelab().arg("show").arg(&out).arg("--json"), 0));
    assert_eq!((&summary["target"], &summary["complete"]), (&"the whole system".into(), &true.into()));
    let tasks = String::from_utf8(run(pagelab().arg("show").arg(&out).arg("tasks"), 0).stdout).unwrap();
    let first = tasks.lines().find(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())).unwrap();
    assert!(!first.contains("kthreadd"), "kernel threads come last: {first}");
}

#[test]
fn the_summary_begins_with_what_most_want_to_know() {
    let dir = scratch();
    let out = dir.path().join("rec");
    let arguments: Vec<String> = (0..15_000).map(|number| number.to_string()).collect();
    run(pagelab().args(["record", "-q", "-o"]).arg(&out).args(["--", "true"]).args(&arguments), 0);
    let text = String::from_utf8(run(pagelab().arg("show").arg(&out), 0).stdout).unwrap();
    assert!(text.contains("... (15000 arguments, "), "{text}");
    let facts: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("  ")).filter_map(|line| line.split("  ").next()).collect();
    let facts: Vec<&&str> =
        facts.iter().skip_while(|fact| **fact != "command").filter(|fact| !fact.is_empty()).take(8).collect();
    let wanted = ["command", "exit", "elapsed", "CPU", "waiting", "faults", "disk", "memory"];
    assert!(facts.len() == 8 && facts.iter().zip(wanted).all(|(fact, wanted)| **fact == wanted), "{facts:?}: {text}");
    let place = |head: &str| text.find(head).unwrap_or_else(|| panic!("no {head}"));
    assert!(place("\nFAULTS") < place("\nPROBES") && place("\nPROBES") < place("\nTABLES"));
}

#[test]
fn lines_are_as_wide_as_the_terminal() {
    let dir = scratch();
    let out = dir.path().join("rec");
    run(pagelab().args(["record", "-q", "-o"]).arg(&out).args(["--", "true"]), 0);
    let widest = |columns, view: &str| {
        let mut command = pagelab();
        command.arg("show").arg(&out).arg(view);
        let text = Terminal::start(columns, command).text();
        text.lines().map(|line| line.chars().count()).max().unwrap()
    };
    for view in ["summary", "settings"] {
        assert!((40..=60).contains(&widest(60, view)), "{view}");
    }
    assert!((101..=220).contains(&widest(220, "settings")));
}
