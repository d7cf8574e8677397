//! The helper process: sleeps until its guard is gone, then undoes the guard's journal.
//!
//! Guard and helper share a pipe. The guard says `done` through it when it has put everything back itself; if the pipe
//! closes without that word, or the guard's process ends (a pidfd says so even while a forked child still holds the
//! pipe), the helper acts. It is in a session of its own, so that a signal to the guard's process group, a closed
//! terminal or Ctrl-C does not reach it, and it ignores the signals that ask politely. Services, CI jobs and containers
//! are ended by killing all of a cgroup: where it may, the helper moves to the root of every hierarchy before it says
//! that it watches, and asks to be spared when memory runs out.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use pagelab_vocab::terminal::{Allow, Escaping};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags};

use super::journal::{self, Journal};
use super::leftovers::{self, undo_journal};
use super::state;
use super::{Door, GuardError, KernelDoor, RestoreReport};
use pagelab_residency::mounts::table;

/// The hidden command under which the binary calls [`helper_main`]: `pagelab __guard JOURNAL FD`.
pub const HELPER_COMMAND: &str = "__guard";

/// What the guard says when the helper is not needed any more.
const DONE: u8 = b'd';
/// What the helper says when it watches.
const READY: &[u8] = b"watching\n";
/// How long starting the program may take; it is only waited for before the first change.
const START: Duration = Duration::from_secs(10);
/// How long the helper waits for another process that holds the journal of a dead guard.
const HELD: Duration = Duration::from_millis(300);

/// The guard's side.
pub(super) struct Helper {
    child: Child,
    /// Closes with the process.
    lifeline: Option<ChildStdin>,
    /// `None` once the helper has said that it watches.
    answer: Option<ChildStdout>,
    exe: String,
}

impl Helper {
    /// Starts the helper without waiting for it.
    pub(super) fn start(exe: &Path, journal: &Path) -> Result<Self, GuardError> {
        let mut command = Command::new(exe);
        command.arg(HELPER_COMMAND).arg(journal).arg("0").current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: setsid is one system call; nothing else happens between fork and exec.
        unsafe {
            command.pre_exec(|| rustix::process::setsid().map(|_| ()).map_err(std::io::Error::from));
        }
        let name = exe.display().to_string();
        let mut child = command
            .spawn()
            .map_err(|error| GuardError::Helper { exe: name.clone(), reason: crate::settings::plain(&error) })?;
        let (lifeline, answer) = (child.stdin.take(), child.stdout.take());
        Ok(Helper { child, lifeline, answer, exe: name })
    }

    /// Waits until the helper watches.
    pub(super) fn wait_ready(&mut self) -> Result<(), GuardError> {
        let Some(answer) = &mut self.answer else { return Ok(()) };
        let deadline = Instant::now() + START;
        let mut said = Vec::new();
        let reason = loop {
            let mut part = [0u8; 64];
            if !readable(answer.as_fd(), Some(deadline.saturating_duration_since(Instant::now()))) {
                break format!("it did not answer in {} s", START.as_secs());
            }
            match answer.read(&mut part) {
                Ok(0) => break "it ended without watching; the program does not answer to __guard".to_owned(),
                Ok(got) => said.extend_from_slice(part.get(..got).unwrap_or_default()),
                Err(error) => break crate::settings::plain(&error),
            }
            if said == READY {
                self.answer = None;
                return Ok(());
            }
            if !READY.starts_with(&said) {
                break "it answered something else; the program does not answer to __guard".to_owned();
            }
        };
        Err(GuardError::Helper { exe: self.exe.clone(), reason })
    }

    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Tells the helper that all is done, and waits for its end.
    pub(super) fn dismiss(mut self) {
        if let Some(mut lifeline) = self.lifeline.take() {
            // If it is gone already there is nobody to tell.
            let _ = lifeline.write_all(&[DONE]);
        }
        let _ = self.child.wait();
    }
}

/// Waits until a descriptor can be read or its other end is gone; `None` waits for ever.
fn readable(fd: BorrowedFd<'_>, limit: Option<Duration>) -> bool {
    wait(&mut [PollFd::new(&fd, PollFlags::IN)], limit)
}

/// Polls until something happens or the time is up.
fn wait(fds: &mut [PollFd<'_>], limit: Option<Duration>) -> bool {
    let deadline = limit.map(|limit| Instant::now() + limit);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(fds, timeout.as_ref()) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// The helper process; call it with the arguments after [`HELPER_COMMAND`] (journal and descriptor) before anything
/// else of the program starts, and exit with its result: 0 if nothing had to be done or all is back, 1 if something
/// could not be put back (it says so on standard error), 2 for wrong arguments.
pub fn helper_main(args: &[OsString]) -> i32 {
    helper_main_with(args, &mut KernelDoor)
}

/// For tests: as [`helper_main`], with another door.
pub fn helper_main_with(args: &[OsString], door: &mut dyn Door) -> i32 {
    let [journal, fd] = args else {
        say("pagelab __guard: needed: JOURNAL FD; this command is for pagelab's own use");
        return 2;
    };
    let journal = Path::new(journal);
    let Some(mut lifeline) = fd.to_str().and_then(|text| text.parse().ok()).and_then(lifeline) else {
        say("pagelab __guard: FD is not an open descriptor; this command is for pagelab's own use");
        return 2;
    };
    ignore_signals();
    outlive_the_guard();
    // Before the answer is sent the guard has changed nothing, so its journal and process are still there.
    let header = journal::read(journal).ok().and_then(|contents| contents.header);
    let guard = header.as_ref().map(|header| header.pid);
    let watched = guard.and_then(watch);
    let _ = std::io::stdout().write_all(READY);
    let _ = std::io::stdout().flush();
    if guard_said_done(&mut lifeline, watched.as_ref()) {
        return 0;
    }
    let report = undo_dead(journal, door);
    if let Some(header) = header.filter(|_| matches!(journal.try_exists(), Ok(false))) {
        leftovers::forget(&state::registry(&header.root), journal);
    }
    let text = report.to_string();
    if !text.is_empty() {
        let who = guard.map_or_else(String::new, |pid| format!(" (process {pid})"));
        say(&format!("pagelab{who} ended without putting its changes back; its guard did:\n{}", text.trim_end()));
    }
    i32::from(!report.failed.is_empty())
}

/// Standard error may be closed by now, which is no reason to stop.
fn say(text: &str) {
    let _ = writeln!(Escaping::new(std::io::stderr(), Allow::Lines), "{text}");
}

fn lifeline(fd: i32) -> Option<File> {
    if fd < 0 {
        return None;
    }
    // SAFETY: fcntl(F_GETFD) on a number that is no open descriptor fails with EBADF and does nothing.
    let open = unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1;
    // SAFETY: the descriptor is open, and the command line hands it to this function alone.
    open.then(|| File::from(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) }))
}

/// A pidfd of the guard, if it is the parent; where the kernel has none (before 5.3) the pipe alone decides.
fn watch(pid: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    let watched = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // Only a parent is known not to have been replaced by another process of the same id.
    (rustix::process::getppid() == Some(pid)).then_some(watched)
}

/// Sleeps until the guard says that it is done (true) or is gone (false).
fn guard_said_done(lifeline: &mut File, watched: Option<&OwnedFd>) -> bool {
    loop {
        let mut fds = vec![PollFd::new(lifeline, PollFlags::IN)];
        fds.extend(watched.map(|watched| PollFd::new(watched, PollFlags::IN)));
        if !wait(&mut fds, None) {
            return false;
        }
        let (spoke, ended) = match fds.as_slice() {
            [pipe, process] => (!pipe.revents().is_empty(), !process.revents().is_empty()),
            [pipe] => (!pipe.revents().is_empty(), false),
            _ => (false, true),
        };
        drop(fds);
        if spoke {
            let mut word = [0u8; 1];
            match lifeline.read(&mut word) {
                Ok(1) if word == [DONE] => return true,
                Ok(1) => {}
                // The pipe closes before the process has quite ended. If it does not end at all, the guard closed its
                // side by mistake and lives: then its end is waited for.
                _ => {
                    if let Some(watched) = watched {
                        readable(watched.as_fd(), None);
                    }
                    return false;
                }
            }
        } else if ended {
            return false;
        }
    }
}

/// Undoes the journal of a guard that is dead. If somebody else (another pagelab, `restore`) is at it already, the
/// journal disappears and nothing is left to do; if its lock is held only by a leftover child of the guard, it is
/// undone without the lock.
fn undo_dead(path: &Path, door: &mut dyn Door) -> RestoreReport {
    let mut report = RestoreReport::default();
    let deadline = Instant::now() + HELD;
    while path.exists() {
        let journal = match Journal::take_over(path) {
            Ok(Some(journal)) => Some(journal),
            _ if Instant::now() >= deadline => Journal::open_unlocked(path).ok(),
            _ => None,
        };
        if let Some(journal) = journal {
            undo_journal(journal, door, &mut report);
            return report;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    report
}

/// Leaves the groups that the guard may be killed with. Each step is tried; without the right to it the helper stays
/// where it is.
fn outlive_the_guard() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let Ok(groups) = std::fs::read_to_string("/proc/self/cgroup") else { return };
    let mounts = table(Path::new("/"), None).unwrap_or_default();
    for group in groups.lines() {
        let mut parts = group.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if path == "/" {
            continue;
        }
        let v2 = id == "0" && controllers.is_empty();
        let mount = mounts.iter().find(|mount| {
            if v2 {
                return mount.fs == "cgroup2";
            }
            let mut names = controllers.split(',');
            mount.fs == "cgroup" && names.all(|name| mount.fs_options.iter().any(|option| option == name))
        });
        if let Some(mount) = mount {
            // `0` is whoever writes it.
            let _ = std::fs::write(format!("{}/cgroup.procs", mount.mountpoint), "0");
        }
    }
}

fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
        // SAFETY: SIG_IGN is no function of ours, so nothing can run in a signal's context.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
