//! Triggers: what ends the flight recorder and keeps what it holds.
//!
//! | word | fires |
//! |---|---|
//! | `psi:RESOURCE:KIND:STALL/WINDOW` | when tasks stalled for STALL in a WINDOW, by the kernel's own watch (Documentation/accounting/psi.rst) |
//! | `file:PATH` | when the file comes to be, or changes (its inode, size or time); looked at once a second |
//! | `command:CMD` | when the shell command, run once a second, ends with status 0 |
//! | `signal` | on SIGUSR1 to the agent |
//!
//! The kernel watches pressure at no cost to the agent, which sleeps in poll(2) on it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use pagelab_vocab::units::{parse_time, short_duration};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

/// What the kernel accepts as the window of a watch.
const PSI_WINDOWS: std::ops::RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(10);
/// Windows that a process without CAP_SYS_RESOURCE may watch are multiples of this.
const PSI_STEP: Duration = Duration::from_secs(2);
/// Time between two runs of a command.
const COMMAND_PAUSE: Duration = Duration::from_secs(1);
/// Time that a command may run.
const COMMAND_TIME: Duration = Duration::from_secs(10);

/// A trigger, as it is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// Tasks stall for want of a resource.
    Psi(Psi),
    /// A file comes to be, or changes.
    File(PathBuf),
    /// A shell command ends with status 0.
    Command(String),
    /// SIGUSR1.
    Signal,
}

/// A watch of pressure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Psi {
    /// `cpu`, `memory` or `io`.
    pub resource: &'static str,
    /// `some` or `full`.
    pub kind: &'static str,
    /// Time that tasks must have stalled.
    pub stall: Duration,
    /// In this time.
    pub window: Duration,
}

/// Why a text is no trigger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {found:?}, needed {needed}")]
pub struct TriggerError {
    found: String,
    needed: String,
}

/// The forms of a trigger, with an example of each.
const FORMS: &str =
    "psi:memory:some:150ms/1s (cpu, memory or io; some or full; stall/window), file:PATH, command:CMD or signal";

impl FromStr for Trigger {
    type Err = TriggerError;

    fn from_str(text: &str) -> Result<Self, TriggerError> {
        let wrong = |needed: String| TriggerError { found: text.to_owned(), needed };
        let (word, rest) = text.split_once(':').unwrap_or((text, ""));
        match word {
            "psi" => psi(rest).map(Self::Psi).map_err(wrong),
            "file" if Path::new(rest).is_absolute() => Ok(Self::File(PathBuf::from(rest))),
            "file" => Err(wrong("an absolute path, such as file:/run/pagelab-keep".to_owned())),
            "command" if !rest.trim().is_empty() => Ok(Self::Command(rest.to_owned())),
            "signal" if text == "signal" => Ok(Self::Signal),
            _ => Err(wrong(format!("one of {FORMS}"))),
        }
    }
}

fn psi(text: &str) -> Result<Psi, String> {
    let form = || format!("one of {FORMS}");
    let parts: Vec<&str> = text.split(':').collect();
    let [resource, kind, times] = parts[..] else { return Err(form()) };
    let known = |words: &[&'static str], word: &str| words.iter().copied().find(|known| *known == word);
    let resource = known(&["cpu", "memory", "io"], resource).ok_or_else(form)?;
    let kind = known(&["some", "full"], kind).ok_or_else(form)?;
    if (resource, kind) == ("cpu", "full") {
        return Err("cpu:some: of the whole system, cpu:full is always 0".to_owned());
    }
    let (stall, window) = times.split_once('/').ok_or_else(form)?;
    let time = |text: &str| parse_time(text).map_err(|error| error.to_string());
    let (stall, window) = (time(stall)?, time(window)?);
    if !PSI_WINDOWS.contains(&window) || stall > window {
        return Err("a window of 500ms to 10s, and a stall of at most the window".to_owned());
    }
    Ok(Psi { resource, kind, stall, window })
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Psi(Psi { resource, kind, stall, window }) => {
                let words = |time: &Duration| short_duration(time.as_nanos() as f64);
                write!(f, "psi:{resource}:{kind}:{}/{}", words(stall), words(window))
            }
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Command(command) => write!(f, "command:{command}"),
            Self::Signal => f.write_str("signal"),
        }
    }
}

impl Trigger {
    /// What it is, for names of files and of metrics. A command's words may hold secrets, and are in neither.
    pub(crate) fn slug(&self) -> String {
        match self {
            Self::Psi(Psi { resource, kind, .. }) => format!("psi-{resource}-{kind}"),
            Self::File(_) => "file".to_owned(),
            Self::Command(_) => "command".to_owned(),
            Self::Signal => "signal".to_owned(),
        }
    }
}

/// All triggers, watched.
#[derive(Debug)]
pub(crate) struct Watches(Vec<Watch>);

#[derive(Debug)]
struct Watch {
    trigger: Trigger,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The kernel's watch, and whether it has fired since it was last asked.
    Psi(File, bool),
    /// The file as it was last seen.
    File(Option<Seen>),
    Command(Runs),
    Signal,
}

/// One state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    inode: u64,
    bytes: u64,
    modified_ns: i128,
}

fn seen(path: &Path) -> Option<Seen> {
    let found = std::fs::metadata(path).ok()?;
    let modified_ns = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    Some(Seen { inode: found.ino(), bytes: found.size(), modified_ns })
}

/// A command that is run again and again.
#[derive(Debug, Default)]
struct Runs {
    running: Option<(Child, Instant)>,
    next: Option<Instant>,
}

impl Watches {
    /// Begins to watch. Beside the watches, what is not watched as it was asked for.
    ///
    /// # Errors
    /// The kernel does not watch pressure: what is needed.
    pub(crate) fn open(triggers: &[Trigger]) -> Result<(Self, Vec<String>), String> {
        let mut notes = Vec::new();
        let mut watch = |trigger: &Trigger| {
            let mut trigger = trigger.clone();
            let state = match &trigger {
                Trigger::Psi(psi) => {
                    let (file, watched) = open_psi(Path::new("/proc/pressure"), psi)?;
                    if watched != *psi {
                        let (asked, got) = (trigger, Trigger::Psi(watched));
                        notes.push(format!(
                            "{asked} is watched as {got}: the kernel lets a process without CAP_SYS_RESOURCE watch windows of 2s and \
                             multiples of it only"
                        ));
                        trigger = got;
                    }
                    State::Psi(file, false)
                }
                Trigger::File(path) => State::File(seen(path)),
                Trigger::Command(_) => State::Command(Runs::default()),
                Trigger::Signal => State::Signal,
            };
            Ok(Watch { trigger, state })
        };
        let watches = triggers.iter().map(&mut watch).collect::<Result<_, String>>()?;
        Ok((Self(watches), notes))
    }

    /// Sleeps until a signal comes, pressure fires or the time is over.
    pub(crate) fn sleep(&mut self, signals: BorrowedFd<'_>, time: Duration) {
        let mut fds = vec![PollFd::from_borrowed_fd(signals, PollFlags::IN)];
        for watch in &self.0 {
            if let State::Psi(file, _) = &watch.state {
                fds.push(PollFd::from_borrowed_fd(file.as_fd(), PollFlags::PRI));
            }
        }
        let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        // Interrupted is as good as woken.
        let _ = poll(&mut fds, Some(&timeout));
        let fired: Vec<bool> = fds[1..].iter().map(|fd| fd.revents().contains(PollFlags::PRI)).collect();
        let watches = self.0.iter_mut().filter_map(|watch| match &mut watch.state {
            State::Psi(_, has_fired) => Some(has_fired),
            _ => None,
        });
        // The kernel says it once: to the poll(2) that sees it.
        watches.zip(fired).for_each(|(has_fired, now)| *has_fired |= now);
    }

    /// The triggers that have fired since they were last asked; `signalled` says that SIGUSR1 has come.
    pub(crate) fn fired(&mut self, signalled: bool, now: Instant) -> Vec<Trigger> {
        let fires = |watch: &mut Watch| match (&mut watch.state, &watch.trigger) {
            (State::Psi(_, has_fired), _) => std::mem::take(has_fired),
            (State::File(before), Trigger::File(path)) => {
                let now = seen(path);
                let is_new = now.is_some() && now != *before;
                *before = now;
                is_new
            }
            (State::Command(runs), Trigger::Command(command)) => runs.fires(command, now),
            (State::Signal, _) => signalled,
            _ => false,
        };
        self.0.iter_mut().filter_map(|watch| fires(watch).then(|| watch.trigger.clone())).collect()
    }

    /// Ends the commands that run.
    pub(crate) fn close(&mut self) {
        for watch in &mut self.0 {
            if let State::Command(runs) = &mut watch.state {
                runs.end();
            }
        }
    }
}

impl Runs {
    fn fires(&mut self, command: &str, now: Instant) -> bool {
        let mut fired = false;
        if let Some((child, began)) = &mut self.running {
            match child.try_wait() {
                Ok(None) if now.duration_since(*began) < COMMAND_TIME => return false,
                Ok(None) => self.end(),
                Ok(Some(status)) => {
                    fired = status.success();
                    self.running = None;
                }
                Err(_) => self.running = None,
            }
        }
        if self.next.is_none_or(|next| now >= next) {
            self.next = Some(now + COMMAND_PAUSE);
            // One that cannot be started does not fire.
            self.running = start_command(command).ok().map(|child| (child, now));
        }
        fired
    }

    fn end(&mut self) {
        let Some((mut child, _)) = self.running.take() else { return };
        // Its group: what the shell has started ends with it.
        if let Some(group) = Pid::from_raw(child.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        drop(child.wait());
    }
}

fn start_command(command: &str) -> io::Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    shell.spawn()
}

/// Lets the kernel watch a resource; where it refuses the window to a process without CAP_SYS_RESOURCE, in the next longer one that it
/// lets everybody have. What is watched.
fn open_psi(folder: &Path, psi: &Psi) -> Result<(File, Psi), String> {
    let path = folder.join(psi.resource);
    let watch = |psi: &Psi| {
        let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&path);
        // The kernel takes the last byte for the end of the text, whatever it is.
        let words = format!("{} {} {}\0", psi.kind, psi.stall.as_micros(), psi.window.as_micros());
        opened.and_then(|mut file| file.write_all(words.as_bytes()).map(|()| file))
    };
    let longer = Psi { window: next_for_everybody(psi.window), ..psi.clone() };
    let watched = match watch(psi) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) && longer != *psi => {
            watch(&longer).map(|file| (file, longer))
        }
        other => other.map(|file| (file, psi.clone())),
    };
    let (shown, wanted) = (path.display(), Trigger::Psi(psi.clone()));
    watched.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP) => format!(
            "{wanted}: this kernel keeps no pressure stall information ({shown}: {error}); needed: CONFIG_PSI=y and, where it is off \
             by default, psi=1 on the kernel command line; or another trigger: {FORMS}"
        ),
        Some(libc::EPERM | libc::EACCES | libc::EROFS) => {
            format!("{wanted}: {shown}: {error}; needed: root, with /proc writable in a container")
        }
        _ => format!("{wanted}: {shown}: {error}"),
    })
}

/// The next multiple of two seconds.
fn next_for_everybody(window: Duration) -> Duration {
    let step_us = PSI_STEP.as_micros() as u64;
    Duration::from_micros((window.as_micros() as u64).next_multiple_of(step_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_read_and_written_alike() {
        for text in ["psi:memory:some:150ms/1s", "psi:io:full:1s/10s", "file:/run/x", "command:test -e /x", "signal"] {
            assert_eq!(text.parse::<Trigger>().expect(text).to_string(), text);
        }
        let slugs = ["psi:cpu:some:1ms/500ms", "file:/run/x", "command:curl -u me:secret x", "signal"];
        let slugs = slugs.map(|text| text.parse::<Trigger>().expect(text).slug());
        assert_eq!(slugs, ["psi-cpu-some", "file", "command", "signal"]);
    }

    #[test]
    fn what_is_no_trigger_is_refused_with_what_is_needed() {
        for (text, needed) in [
            ("psi:memory", "psi:memory:some:150ms/1s"),
            ("psi:disk:some:1ms/1s", "cpu, memory or io"),
            ("psi:memory:all:1ms/1s", "some or full"),
            ("psi:memory:some:150ms", "stall/window"),
            ("psi:memory:some:2s/1s", "a stall of at most the window"),
            ("psi:memory:some:1ms/60s", "a window of 500ms to 10s"),
            ("psi:memory:some:1ms/soon", "a number of seconds"),
            ("psi:cpu:full:1ms/1s", "cpu:some"),
            ("file:relative", "an absolute path"),
            ("command:", "command:CMD"),
            ("signal:USR1", "or signal"),
            ("sigusr1", "or signal"),
            ("", "or signal"),
        ] {
            let said = text.parse::<Trigger>().expect_err(text).to_string();
            assert!(said.contains(needed) && said.contains(&format!("{text:?}")), "{text}: {said}");
        }
    }

    #[test]
    fn a_kernel_without_pressure_says_what_is_needed() {
        let dir = tempfile::tempdir().expect("a folder");
        let Ok(Trigger::Psi(psi)) = "psi:memory:some:150ms/1s".parse() else { panic!("a watch") };
        let said = open_psi(dir.path(), &psi).expect_err("nothing is there");
        assert!(said.contains("CONFIG_PSI=y") && said.contains("psi=1") && said.contains("psi:memory:some"), "{said}");
    }

    #[test]
    fn windows_for_everybody_are_the_next_longer_ones() {
        for (ms, expected) in [(500, 2000), (1000, 2000), (2000, 2000), (2001, 4000), (10_000, 10_000)] {
            assert_eq!(next_for_everybody(Duration::from_millis(ms)), Duration::from_millis(expected), "{ms}");
        }
    }

    #[test]
    fn a_file_fires_when_it_comes_and_when_it_changes() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("keep");
        let trigger = Trigger::File(path.clone());
        let mut watches = Watches::open(std::slice::from_ref(&trigger)).expect("no kernel is asked").0;
        let mut fires = || !watches.fired(true, Instant::now()).is_empty();
        assert!(!fires(), "it is not there");
        std::fs::write(&path, "a").expect("ours");
        assert!(fires() && !fires(), "once");
        std::fs::write(&path, "ab").expect("ours");
        assert!(fires() && !fires(), "once more");
        std::fs::remove_file(&path).expect("ours");
        assert!(!fires());
        std::fs::write(&path, "ab").expect("ours");
        assert!(fires(), "it came again");
        // What is there at the start is no news.
        let mut later = Watches::open(&[trigger]).expect("no kernel is asked").0;
        assert!(later.fired(false, Instant::now()).is_empty());
    }

    #[test]
    fn a_command_fires_by_its_status_and_is_run_once_a_second() {
        let dir = tempfile::tempdir().expect("a folder");
        let log = dir.path().join("log");
        let trigger = Trigger::Command(format!("echo x >> {}; test -e {}/go", log.display(), dir.path().display()));
        let mut watches = Watches::open(&[trigger]).expect("no kernel is asked").0;
        let began = Instant::now();
        let mut ask = |ms: u64| {
            std::thread::sleep(Duration::from_millis(100));
            !watches.fired(true, began + Duration::from_millis(ms)).is_empty()
        };
        let runs = || std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());
        assert!(!ask(0) && !ask(500) && !ask(900), "status 1");
        assert_eq!(runs(), 1);
        assert!(!ask(1000), "it is begun again");
        std::fs::write(dir.path().join("go"), "").expect("ours");
        assert!(!ask(1100) || runs() == 2);
        assert!(!ask(2000) && ask(2100), "status 0");
        assert!(!ask(2200), "until it is run again");
    }

    #[test]
    fn a_command_that_hangs_is_ended() {
        let mut runs = Runs::default();
        let now = Instant::now();
        assert!(!runs.fires("sleep 1000 & wait", now));
        let group = runs.running.as_ref().expect("it runs").0.id();
        std::thread::sleep(Duration::from_millis(100));
        assert!(!runs.fires("true", now + COMMAND_TIME));
        let members = std::fs::read_dir("/proc").expect("/proc").flatten().filter(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            fields.get(2).is_some_and(|found| *found == group.to_string()) && fields[0] != "Z"
        });
        assert_eq!(members.count(), 0, "nothing of it is left");
        runs.end();
    }

    /// The real kernel: a watch that anything fires, while two threads want each processor.
    #[test]
    fn the_kernel_watches_pressure() {
        let trigger: Trigger = "psi:cpu:some:1ms/500ms".parse().expect("a watch");
        let (mut watches, notes) = Watches::open(&[trigger]).expect("psi is on");
        // With CAP_SYS_RESOURCE as it was asked for, without it in a longer window, which is said.
        let watched = watches.0[0].trigger.to_string();
        match &notes[..] {
            [] => assert_eq!(watched, "psi:cpu:some:1ms/500ms"),
            [note] => {
                assert!(watched == "psi:cpu:some:1ms/2s" && note.contains("CAP_SYS_RESOURCE"), "{watched}: {note}");
            }
            _ => panic!("{notes:?}"),
        }
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let end = Instant::now() + Duration::from_secs(10);
        let threads = 2 * std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let stop = std::sync::atomic::AtomicBool::new(false);
        let fired = std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let mut fired = false;
            while !fired && Instant::now() < end {
                watches.sleep(reader.as_fd(), Duration::from_secs(1));
                fired = !watches.fired(false, Instant::now()).is_empty();
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            fired
        });
        assert!(fired, "pressure was not told");
    }
}
