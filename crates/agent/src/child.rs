//! The programs that the agent starts: recorders, uploads, marks.
//!
//! Each is a process of its own. Memory that a recording took is given back with its process, a recorder that crashes takes nothing with
//! it, and the agent itself stays small. When the agent dies, also by SIGKILL, the kernel sends its children SIGTERM: recorders close their
//! recordings then as after any end.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal, setsid};

use crate::usage::{BpfTime, CpuTime, cpu_time, own_cpu_time};

/// Lines of a child's standard error that are kept.
const MOST_LINES: usize = 20;
/// How long the reader of an ended child's standard error gets for what it wrote last.
const LAST_WORDS_TIME: Duration = Duration::from_millis(100);
/// What sudo sets: with it files would be made in the name of the user who called it, those of a service would not.
const SUDO: [&str; 5] = ["SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND", "SUDO_HOME"];

/// Where the programs are that the agent starts.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `pagelab`: this very program, for the first recorder; later ones are found anew.
    pub pagelab: PathBuf,
    /// `pagelab-fleet`, which speaks to object stores.
    pub fleet: PathBuf,
}

/// A child that runs.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// Where its files in `/proc` are.
    process: PathBuf,
    bpf: BpfTime,
    said: Arc<Mutex<Vec<String>>>,
    /// Puts what it writes into `said`; none where no thread could be had.
    reader: Option<JoinHandle<()>>,
}

/// A child that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub status: ExitStatus,
    /// CPU time that it took, ns.
    pub cpu_ns: u64,
    /// Run time of its BPF programs when it was last looked at, ns.
    pub bpf_ns: u64,
    /// The first lines that it wrote to standard error.
    pub said: Vec<String>,
}

impl Running {
    /// Starts a program. To be called by the main thread: children of a thread that ends are sent SIGTERM, too.
    ///
    /// # Errors
    /// There is no such program, or no process can be made.
    pub(crate) fn start(program: &Path, words: &[OsString]) -> io::Result<Self> {
        let parent = std::process::id();
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        for name in SUDO {
            command.env_remove(name);
        }
        let own_session = move || {
            // Ctrl-C at a terminal is for the agent, which ends its children in its own way. Where sessions are groups of the
            // scheduler, one that closes its recording steps back alone.
            setsid()?;
            set_parent_process_death_signal(Some(Signal::TERM))?;
            // One that died before this line sends no signal.
            let is_there = getppid().is_some_and(|found| found.as_raw_pid() as u32 == parent);
            if is_there { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
        };
        // SAFETY: it makes three system calls and allocates nothing.
        unsafe { command.pre_exec(own_session) };
        let mut child = command.spawn()?;
        let said = Arc::default();
        let reader = child.stderr.take().and_then(|stderr| keep_lines(stderr, Arc::clone(&said)));
        let process = PathBuf::from(format!("/proc/{}", child.id()));
        Ok(Self { bpf: BpfTime::of(child.id()), child, process, said, reader })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time so far, ns; 0 once it has been waited for, when it is in the sum of this process's children.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let CpuTime { own_ns, children_ns } = cpu_time(&self.process).unwrap_or_default();
        own_ns + children_ns
    }

    /// Run time of its BPF programs, ns, as [`Running::look`] last saw it.
    pub(crate) fn bpf_ns(&self) -> u64 {
        self.bpf.seen_ns
    }

    /// Looks at the run time of its BPF programs.
    pub(crate) fn look(&mut self) {
        self.bpf.look();
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<Ended> {
        let before = own_cpu_time().children_ns;
        let status = match self.child.try_wait() {
            Ok(status) => status?,
            // Nobody else waits for it; said as what a child has that vanished.
            Err(_) => std::os::unix::process::ExitStatusExt::from_raw(libc::SIGKILL),
        };
        let cpu_ns = own_cpu_time().children_ns.saturating_sub(before);
        self.await_reader();
        let said = std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        Some(Ended { status, cpu_ns, bpf_ns: self.bpf.seen_ns, said })
    }

    /// What it wrote last may not have been read yet when it has ended. A child of its own may have its standard error open for as long
    /// as it likes, and is not waited for.
    fn await_reader(&self) {
        let end = Instant::now() + LAST_WORDS_TIME;
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends it a signal; one that has ended is a zombie of ours until it is waited for, and gets none.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends it at once and waits for it.
    pub(crate) fn kill(mut self) -> Ended {
        self.bpf.look();
        self.signal(Signal::KILL);
        loop {
            match self.ended() {
                Some(ended) => return ended,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// Keeps the first lines that a child writes, and reads the rest so that it need not wait.
fn keep_lines(stderr: ChildStderr, said: Arc<Mutex<Vec<String>>>) -> Option<JoinHandle<()>> {
    let read = move || {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            if said.len() < MOST_LINES {
                said.push(String::from_utf8_lossy(&line[..line.len().min(2000)]).into_owned());
            }
        }
    };
    // Without the thread a child that says much waits for its reader, and is ended as one that hangs.
    std::thread::Builder::new().name("stderr".to_owned()).stack_size(64 << 10).spawn(read).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(words: &str) -> Running {
        Running::start(Path::new("/bin/sh"), &["-c".into(), words.into()]).expect("sh")
    }

    fn wait(running: &mut Running) -> Ended {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(ended) = running.ended() {
                return ended;
            }
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_child_is_told_of_its_end_with_status_words_and_time() {
        let mut running =
            shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo one >&2; echo two >&2; exit 3");
        let ended = wait(&mut running);
        assert_eq!(ended.status.code(), Some(3));
        assert!(ended.cpu_ns >= 20_000_000, "{ended:?}");
        assert_eq!(ended.said, ["one", "two"]);
    }

    #[test]
    fn a_child_that_says_much_is_not_held_up() {
        let mut running = shell("i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i+1)); done");
        let ended = wait(&mut running);
        assert!(ended.status.success() && ended.said.len() <= MOST_LINES, "{}", ended.said.len());
    }

    #[test]
    fn a_child_is_sent_sigterm_when_its_parent_is_killed() {
        let dir = tempfile::tempdir().expect("a folder");
        let told = dir.path().join("told");
        let script = format!("trap 'echo term > {}; exit' TERM; while :; do sleep 0.01; done", told.display());
        // The parent is the thread that starts it.
        let running = std::thread::spawn(move || shell(&script)).join().expect("it starts");
        let end = Instant::now() + Duration::from_secs(10);
        while !told.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The trap may not have been set yet: then the signal ended it.
        let ended = wait(&mut { running });
        assert!(told.exists() || std::os::unix::process::ExitStatusExt::signal(&ended.status) == Some(libc::SIGTERM));
    }
}
