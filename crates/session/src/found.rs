//! Targets that run already: processes, a cgroup, the whole system. They are watched and left as they are.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use pagelab_observe::bpf::Cgroup;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
use rustix::time::Timespec;

use crate::options::{SessionError, Target};

/// How often a cgroup is looked into; one that is empty twice in a row has ended.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The target found.
pub(crate) enum Found {
    /// Processes, those that have ended left out.
    Processes(Vec<(u32, OwnedFd)>),
    /// A cgroup.
    Cgroup(Looked),
    /// The whole system.
    System,
}

/// A cgroup, and whether it had processes when it was looked at.
pub(crate) struct Looked {
    pub cgroup: Cgroup,
    next: Instant,
    had_processes: bool,
    was_empty: bool,
}

impl Found {
    /// Finds the target; none if it is one that is to be started. Some of several processes may have ended since their
    /// ids were looked up: `missed` takes a message for each. It is an error if none is left.
    pub(crate) fn open(target: &Target, missed: &mut Vec<String>) -> Result<Option<Self>, SessionError> {
        match target {
            Target::Command(_) | Target::Job(_) => Ok(None),
            Target::Processes(pids) => Ok(Some(Self::Processes(open_processes(pids, missed)?))),
            Target::Cgroup(path) => {
                let cgroup = Cgroup::open(path).map_err(SessionError::Target)?;
                let had_processes = !cgroup.is_empty();
                let next = Instant::now() + LOOK_INTERVAL;
                Ok(Some(Self::Cgroup(Looked { cgroup, next, had_processes, was_empty: false })))
            }
            Target::System => Ok(Some(Self::System)),
        }
    }

    /// The processes named, as far as they live.
    pub(crate) fn processes(&self) -> Vec<(u32, BorrowedFd<'_>)> {
        match self {
            Self::Processes(all) => all.iter().map(|(pid, fd)| (*pid, fd.as_fd())).collect(),
            Self::Cgroup(_) | Self::System => Vec::new(),
        }
    }

    /// The process whose metrics and settings stand for the target: the first one. None for the whole system.
    pub(crate) fn first_pid(&self) -> Option<u32> {
        match self {
            Self::Processes(all) => all.first().map(|(pid, _)| *pid),
            Self::Cgroup(looked) => first_in(&looked.cgroup.path),
            Self::System => None,
        }
    }

    /// Waits at most for `time`; true if everything has ended. A cgroup has ended when it had processes and has none
    /// any more for a second; the system never ends.
    pub(crate) fn wait(&mut self, time: Duration) -> bool {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
        match self {
            Self::Processes(all) => {
                let mut fds: Vec<PollFd<'_>> = all.iter().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)).collect();
                // An interrupted wait is a short wait.
                let ready = matches!(poll(&mut fds, Some(&timeout)), Ok(1..));
                if ready {
                    let ended: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
                    let mut ended = ended.into_iter();
                    all.retain(|_| !ended.next().unwrap_or(false));
                }
                all.is_empty()
            }
            Self::Cgroup(looked) => {
                let _ = poll(&mut [], Some(&timeout));
                looked.has_ended()
            }
            Self::System => {
                let _ = poll(&mut [], Some(&timeout));
                false
            }
        }
    }
}

impl Looked {
    fn has_ended(&mut self) -> bool {
        if Instant::now() < self.next {
            return false;
        }
        self.next = Instant::now() + LOOK_INTERVAL;
        let empty = self.cgroup.is_empty();
        self.had_processes |= !empty;
        let before = std::mem::replace(&mut self.was_empty, empty);
        empty && before && self.had_processes
    }
}

fn first_in(folder: &Path) -> Option<u32> {
    let own = fs::read_to_string(folder.join("cgroup.procs")).ok()?;
    own.lines().find_map(|line| line.parse().ok()).or_else(|| {
        let mut below = fs::read_dir(folder).ok()?.flatten().filter(|entry| entry.path().is_dir());
        below.find_map(|entry| first_in(&entry.path()))
    })
}

/// Why a process cannot be recorded.
enum Unopened {
    /// It has ended.
    Gone(String),
    /// It never could be.
    Refused(String),
}

/// Opens those of the processes that run.
fn open_processes(pids: &[u32], missed: &mut Vec<String>) -> Result<Vec<(u32, OwnedFd)>, SessionError> {
    let mut processes: Vec<(u32, OwnedFd)> = Vec::new();
    let mut gone = Vec::new();
    for pid in pids {
        // Named twice is wanted once.
        if processes.iter().any(|(known, _)| known == pid) {
            continue;
        }
        match open_process(*pid) {
            Ok(fd) => processes.push((*pid, fd)),
            Err(Unopened::Gone(reason)) => gone.push(reason),
            Err(Unopened::Refused(reason)) => return Err(SessionError::Target(reason)),
        }
    }
    if processes.is_empty() {
        return Err(SessionError::Target(gone.join("\n")));
    }
    missed.extend(gone.into_iter().map(|reason| format!("{reason}; the others are recorded")));
    Ok(processes)
}

/// Opens a running process that this user may look into.
fn open_process(pid: u32) -> Result<OwnedFd, Unopened> {
    let gone =
        || Unopened::Gone(format!("-p {pid}: found no such process; needed: the id of a running one, look: ps -e"));
    if pid == std::process::id() {
        let reason = format!("-p {pid}: that is the recorder itself, which is left out of its own recordings");
        return Err(Unopened::Refused(reason));
    }
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    let fd = pidfd_open(process, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH => gone(),
        // The kernel opens thread groups only.
        Errno::INVAL | Errno::NOENT => Unopened::Refused(format!(
            "-p {pid}: that is a thread; needed: the id of its process, look: grep Tgid /proc/{pid}/status"
        )),
        other => Unopened::Refused(format!("-p {pid}: {other}")),
    })?;
    match test_kill_process(process) {
        Err(Errno::PERM) => {
            return Err(Unopened::Refused(format!(
                "-p {pid}: it is another user's process; needed: its user or root, try: sudo pagelab record -p {pid} ..."
            )));
        }
        Err(Errno::SRCH) => return Err(gone()),
        _ => {}
    }
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if matches!(poll(&mut fds, Some(&now)), Ok(1..)) {
        return Err(Unopened::Gone(format!(
            "-p {pid}: it has ended and only waits for its parent (a zombie); needed: the id of a running process, look: ps -e"
        )));
    }
    Ok(fd)
}
