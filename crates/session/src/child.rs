//! The recorded process: forked, held at a gate until the probes are attached, then let go.
//!
//! `std::process::Command` cannot do this, because its `spawn` returns only after `exec`. The child does nothing but
//! async-signal-safe calls on memory that was prepared before the fork, as it must in a program with threads.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pagelab_host::own_limits;
use pagelab_host::process::ProcessSettings;
use pagelab_host::run_groups::RunGroups;
use pagelab_host::run_mounts::RunMounts;
use pagelab_vocab::remedies::{self, Place};

use crate::gate::{self, Numbers};
use crate::program::{self, MissingInterpreter};

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct ChildSpec {
    /// Program and arguments; never empty.
    pub argv: Vec<OsString>,
    /// Working directory; the recorder's own if none.
    pub cwd: Option<PathBuf>,
    /// Environment, limits and memory policy of the process.
    pub settings: ProcessSettings,
    /// End the process when the recorder dies: for workers of `run`, never for a user's command.
    pub dies_with_recorder: bool,
    /// A process group of its own, so that it can be stopped together with its children.
    pub own_group: bool,
    /// Descriptors to hand down, each as (ours, its number in the child).
    pub hand_down: Vec<(i32, i32)>,
}

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// No such program.
    #[error(
        "cannot run {program:?}: found no such program in {searched}; needed: the name of a program, try: command -v {program}"
    )]
    NotFound {
        /// The program requested.
        program: String,
        /// Where it was looked for.
        searched: String,
    },
    /// The program is there, the interpreter that it names is not.
    #[error("cannot run {program:?}: {missing}; needed: that interpreter, or another one in {}", .missing.of.display())]
    NoInterpreter {
        /// The program requested.
        program: String,
        /// What is missing.
        missing: MissingInterpreter,
    },
    /// The kernel refused.
    #[error("cannot run {program:?}: {step}: {error}{}", remedy_at(step, error))]
    Refused {
        /// The program requested.
        program: String,
        /// Which step failed.
        step: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

/// What is needed where a limit stands in the way of a step.
pub(crate) fn remedy_at(step: &str, error: &io::Error) -> String {
    let place = if step == "fork" { Place::Fork } else { Place::Open };
    remedies::ending(error.raw_os_error(), place)
}

impl SpawnError {
    /// The exit status that shells and `env` use: 127 for a program that is not there, 126 for one that cannot run.
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::NotFound { .. } | Self::NoInterpreter { .. } => 127,
            Self::Refused { .. } => 126,
        }
    }
}

/// A process that waits at the gate.
#[derive(Debug)]
pub(crate) struct Child {
    program: String,
    /// Its file, and the folder in which it is executed if that is not the recorder's.
    file: (PathBuf, Option<PathBuf>),
    pid: i32,
    pidfd: OwnedFd,
    gate: Option<OwnedFd>,
    exec_result: Option<OwnedFd>,
    own_group: bool,
    reaped: bool,
    /// Limits of the run's own; they end with it.
    groups: RunGroups,
    /// What the process had used when it was let go: minor and major faults, and its largest resident size.
    before: Before,
}

/// What a process has used before it executes its program.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    faults: (u64, u64),
    max_rss_bytes: u64,
}

impl Before {
    fn of(pid: u32) -> Self {
        let faults = pagelab_observe::process::accounts(pid).map(|accounts| accounts.faults).unwrap_or_default();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let peak =
            status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok());
        Self { faults, max_rss_bytes: peak.unwrap_or(0_u64) * 1024 }
    }
}

/// How a process ended, with what the kernel accounted to it since it was let go, and to the children it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// As `wait` reports it.
    pub status: i32,
    /// User CPU time, ns.
    pub utime_ns: u64,
    /// System CPU time, ns.
    pub stime_ns: u64,
    /// Faults that needed no I/O.
    pub minor_faults: u64,
    /// Faults that did.
    pub major_faults: u64,
    /// Voluntary and forced context switches.
    pub context_switches: (u64, u64),
    /// Largest resident size, bytes; none where it was below that of the recorder, from which the process was forked.
    pub max_rss_bytes: Option<u64>,
}

impl Ended {
    /// Exit code; none if a signal ended the process.
    pub fn code(&self) -> Option<i32> {
        libc::WIFEXITED(self.status).then(|| libc::WEXITSTATUS(self.status))
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        libc::WIFSIGNALED(self.status).then(|| libc::WTERMSIG(self.status))
    }

    /// The status that a shell would report: the code, or 128 + the signal.
    pub fn shell_status(&self) -> i32 {
        self.code().unwrap_or_else(|| 128 + self.signal().unwrap_or(0))
    }
}

/// Words of the small program before the command's arguments.
const OWN_WORDS: usize = 2;

/// All that the child needs, in memory before the fork.
struct Prepared {
    program: CString,
    argv: Vec<CString>,
    envp: Vec<CString>,
    cwd: Option<CString>,
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::other("an argument holds a NUL byte"))
}

fn prepare(spec: &ChildSpec, program: &Path) -> io::Result<Prepared> {
    let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    env.extend(spec.settings.env().map(|(name, value)| (name.into(), value.into())));
    let pair = |(name, value): (&OsString, &OsString)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat());
    Ok(Prepared {
        program: c_string(program.as_os_str().as_bytes())?,
        argv: spec.argv.iter().map(|arg| c_string(arg.as_bytes())).collect::<io::Result<_>>()?,
        envp: env.iter().map(pair).collect::<io::Result<_>>()?,
        cwd: spec.cwd.as_ref().map(|dir| c_string(dir.as_os_str().as_bytes())).transpose()?,
    })
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

impl Child {
    /// Forks the process; it waits at the gate.
    pub(crate) fn spawn(spec: &ChildSpec) -> Result<Self, SpawnError> {
        let name = spec.argv.first().cloned().unwrap_or_default();
        let shown = name.to_string_lossy().into_owned();
        let program = program::find(&name, std::env::var_os("PATH").as_deref())
            .map_err(|searched| SpawnError::NotFound { program: shown.clone(), searched })?;
        let refused = |step: &'static str| {
            let program = shown.clone();
            move |error: io::Error| SpawnError::Refused { program, step, error }
        };
        let prepared = prepare(spec, &program).map_err(refused("preparing arguments"))?;
        let (gate_read, gate_write) = pipe().map_err(refused("pipe"))?;
        let (result_read, result_write) = pipe().map_err(refused("pipe"))?;
        let mounts = spec.settings.prepare_mounts().map_err(refused("changing options of its mounts"))?;
        let groups = spec.settings.make_groups().map_err(refused("making its control groups"))?;
        let recorder = rustix::process::getpid().as_raw_pid();
        let (pid_read, pid_write) = pipe().map_err(refused("pipe"))?;
        let numbers = Numbers {
            gate: gate_read.as_raw_fd(),
            result: result_write.as_raw_fd(),
            pid: pid_write.as_raw_fd(),
            recorder: if spec.dies_with_recorder { recorder } else { 0 },
            own_group: spec.own_group,
            shell: program::is_text(&spec.cwd.as_deref().map_or_else(|| program.clone(), |dir| dir.join(&program))),
        };
        // Without it the process waits at the gate itself.
        let small = gate::program(&numbers).ok();
        let words = Words::of(&prepared);
        // SAFETY: the child only calls async-signal-safe functions on memory prepared above, then execs or exits.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(refused("fork")(io::Error::last_os_error()));
        }
        if pid == 0 {
            // With its own copy of the other ends the child would never see that the recorder is gone, and wait for
            // ever, with the locks of the settings in its hands.
            // SAFETY: descriptors that this function opened; the values that own them are never dropped in the child.
            unsafe {
                libc::close(gate_write.as_raw_fd());
                libc::close(pid_read.as_raw_fd());
                libc::close(result_read.as_raw_fd());
            }
            let small = small.as_ref().map(AsFd::as_fd);
            let waiting = Waiting { words: &words, numbers, small, recorder };
            let failed = in_child(spec, &prepared, &mounts, &waiting);
            end_with(&result_write, failed);
        }
        drop(pid_write);
        let pid = command_pid(pid, pid_read);
        let process = rustix::process::Pid::from_raw(pid)
            .ok_or_else(|| refused("fork")(io::Error::other("the kernel gave no process id")))?;
        let pidfd = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty())
            .map_err(|error| refused("pidfd_open")(error.into()))?;
        let child = Self {
            program: shown.clone(),
            file: (program, spec.cwd.clone()),
            pid,
            pidfd,
            gate: Some(gate_write),
            exec_result: Some(result_read),
            own_group: spec.own_group,
            reaped: false,
            groups,
            before: Before::default(),
        };
        // From here on dropping it ends the process at the gate, and reaps it.
        child.enter_groups(&spec.settings).map_err(refused("putting it into its control groups"))?;
        mounts.check(child.pid()).map_err(refused("changing options of its mounts"))?;
        Ok(child)
    }

    /// Puts the process into the groups of its limits, and on its processors once more, which entering may have taken.
    fn enter_groups(&self, settings: &ProcessSettings) -> io::Result<()> {
        self.groups.take(self.pid())?;
        settings.set_affinity_again(self.pid())
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// A descriptor of the process: readable when it has ended.
    pub(crate) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Opens the gate and waits until the program runs.
    pub(crate) fn release(&mut self) -> Result<(), SpawnError> {
        let refused = |program: &str, step: &'static str, error: io::Error| SpawnError::Refused {
            program: program.to_owned(),
            step,
            error,
        };
        if let Some(gate) = self.gate.take() {
            self.before = Before::of(self.pid());
            std::fs::File::from(gate).write_all(b"g").map_err(|error| refused(&self.program, "gate", error))?;
        }
        let Some(result) = self.exec_result.take() else { return Ok(()) };
        let mut bytes = Vec::new();
        std::fs::File::from(result).read_to_end(&mut bytes).map_err(|error| refused(&self.program, "exec", error))?;
        match <[u8; 4]>::try_from(bytes.as_slice()) {
            Ok(errno) => {
                let error = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
                let (file, cwd) = (&self.file.0, self.file.1.as_deref());
                let is_missing = error.raw_os_error() == Some(libc::ENOENT);
                match is_missing.then(|| program::missing_interpreter(file, cwd)).flatten() {
                    Some(missing) => Err(SpawnError::NoInterpreter { program: self.program.clone(), missing }),
                    None => Err(refused(&self.program, "exec", error)),
                }
            }
            Err(_) => Ok(()),
        }
    }

    /// Sends a signal to the process, or to its group if it has its own.
    pub(crate) fn signal(&self, signal: i32) {
        if self.reaped {
            return;
        }
        let target = if self.own_group { -self.pid } else { self.pid };
        // SAFETY: kill takes numbers; the process is not reaped, so the id is still its own.
        unsafe { libc::kill(target, signal) };
    }

    /// Takes the ended process's status and accounts; `None` while it runs.
    pub(crate) fn try_reap(&mut self) -> Option<Ended> {
        let mut status = 0;
        // SAFETY: rusage is plain integers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers refer to locals that outlive the call.
        let pid = unsafe { libc::wait4(self.pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
        if pid != self.pid {
            return None;
        }
        self.reaped = true;
        let Before { faults, max_rss_bytes } = self.before;
        let peak = usage.ru_maxrss as u64 * 1024;
        Some(Ended {
            status,
            utime_ns: timeval_ns(usage.ru_utime),
            stime_ns: timeval_ns(usage.ru_stime),
            minor_faults: (usage.ru_minflt as u64).saturating_sub(faults.0),
            major_faults: (usage.ru_majflt as u64).saturating_sub(faults.1),
            context_switches: (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64),
            max_rss_bytes: Some(peak).filter(|peak| *peak > max_rss_bytes),
        })
    }
}

impl Drop for Child {
    /// A process that never passed the gate ends; one that did goes on, as DESIGN wants of recorded commands.
    fn drop(&mut self) {
        if self.gate.take().is_some() && !self.reaped {
            let mut status = 0;
            // SAFETY: our own child, which reads the closed gate and exits; status is a local.
            unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        }
    }
}

fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000
}

/// Arguments and environment, each ended by a null pointer.
struct Words {
    /// Of the small program: its name, the path of the command, and the command's own.
    small: Vec<*const libc::c_char>,
    /// Of a shell that is to read the command as a script.
    script: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
}

impl Words {
    fn of(prepared: &Prepared) -> Self {
        let own = null_ended(&prepared.argv);
        let begin =
            |name: &'static CStr| -> [*const libc::c_char; OWN_WORDS] { [name.as_ptr(), prepared.program.as_ptr()] };
        Self {
            script: begin(c"/bin/sh").into_iter().chain(own.iter().skip(1).copied()).collect(),
            small: begin(c"pagelab-gate").into_iter().chain(own).collect(),
            env: null_ended(&prepared.envp),
        }
    }
}

fn null_ended(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// The process of the command: the one that says so, or the forked one. A forked one that is not is reaped.
fn command_pid(forked: i32, told: OwnedFd) -> i32 {
    let mut bytes = [0; 4];
    // The command's process writes it before the gate, or has failed.
    let read = std::fs::File::from(told).read_exact(&mut bytes);
    let pid = i32::from_ne_bytes(bytes);
    if read.is_err() || pid == forked {
        return forked;
    }
    let mut status = 0;
    // SAFETY: our own child, which exits after its report; status is a local.
    while unsafe { libc::waitpid(forked, &raw mut status, 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    pid
}

/// What the forked process needs to wait for its start.
struct Waiting<'a> {
    words: &'a Words,
    numbers: Numbers,
    small: Option<BorrowedFd<'a>>,
    recorder: i32,
}

/// Runs in the forked child: tells the parent the errno of what failed, and ends without running anything of the parent's.
fn end_with(result: &OwnedFd, failed: i32) -> ! {
    let bytes = failed.to_ne_bytes();
    // SAFETY: the buffer lives on this stack.
    unsafe {
        libc::write(result.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
        libc::_exit(125)
    }
}

/// The limits, mounts and settings that the command is to run with: the caller's, and what was asked for. For use between fork and exec.
fn surroundings_of(spec: &ChildSpec, mounts: &RunMounts) -> io::Result<()> {
    own_limits::restore_in_child()?;
    mounts.apply_in_child()?;
    spec.settings.apply_in_child()
}

/// Runs in the forked child. Returns the errno of what failed; on success it does not return. Limits and priorities come last: they may
/// take the rights that a namespace needs.
fn in_child(spec: &ChildSpec, prepared: &Prepared, mounts: &RunMounts, waiting: &Waiting<'_>) -> i32 {
    let Waiting { words, numbers, small, recorder } = waiting;
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    // SAFETY: async-signal-safe calls on numbers and on memory prepared before the fork.
    unsafe {
        if spec.dies_with_recorder {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != *recorder {
                return libc::ESRCH;
            }
        }
        if spec.own_group {
            libc::setpgid(0, 0);
        }
        // Rust ignores SIGPIPE; the command expects the default.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        if let Some(dir) = &prepared.cwd
            && libc::chdir(dir.as_ptr()) != 0
        {
            return errno();
        }
    }
    if let Err(error) = surroundings_of(spec, mounts) {
        return error.raw_os_error().unwrap_or(libc::EIO);
    }
    // SAFETY: as above.
    unsafe {
        for (ours, theirs) in &spec.hand_down {
            // dup2 onto itself would keep CLOEXEC.
            if ours == theirs {
                libc::fcntl(*ours, libc::F_SETFD, 0);
            } else if libc::dup2(*ours, *theirs) < 0 {
                return errno();
            }
        }
        if let Some(small) = small {
            let kept = [numbers.gate, numbers.result, numbers.pid];
            for fd in kept {
                libc::fcntl(fd, libc::F_SETFD, 0);
            }
            libc::syscall(
                libc::SYS_execveat,
                small.as_raw_fd(),
                c"".as_ptr(),
                words.small.as_ptr(),
                words.env.as_ptr(),
                libc::AT_EMPTY_PATH,
            );
            for fd in kept {
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        let own = libc::getpid().to_ne_bytes();
        libc::write(numbers.pid, own.as_ptr().cast(), own.len());
        let mut go = 0u8;
        loop {
            match libc::read(numbers.gate, (&raw mut go).cast(), 1) {
                1 => break,
                0 => libc::_exit(125), // The recorder died before it was ready.
                _ if errno() == libc::EINTR => {}
                _ => return errno(),
            }
        }
    }
    execute(prepared, words, numbers.shell)
}

/// Runs in the forked child: executes the command, by the shell if it is a script without `#!`. Returns the errno of what failed.
fn execute(prepared: &Prepared, words: &Words, shell: bool) -> i32 {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    // SAFETY: async-signal-safe calls on memory prepared before the fork; the command's own words follow the small program's.
    unsafe {
        libc::execve(prepared.program.as_ptr(), words.small.as_ptr().add(OWN_WORDS), words.env.as_ptr());
        if shell && errno() == libc::ENOEXEC {
            libc::execve(c"/bin/sh".as_ptr(), words.script.as_ptr(), words.env.as_ptr());
        }
    }
    errno()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_never_let_go_ends_with_the_gate() {
        let witness = std::env::temp_dir().join(format!("pagelab-gate-{}", std::process::id()));
        let spec = ChildSpec {
            argv: vec!["touch".into(), witness.clone().into()],
            cwd: None,
            settings: ProcessSettings::default(),
            dies_with_recorder: false,
            own_group: false,
            hand_down: Vec::new(),
        };
        let child = Child::spawn(&spec).expect("touch is there");
        let gone = child.pidfd().try_clone_to_owned().expect("a descriptor");
        // Drop waits for the process; from a thread, so that a process that waits for ever fails the test.
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(child);
            sender.send(())
        });
        receiver.recv_timeout(std::time::Duration::from_secs(10)).expect("the process ends when the gate is closed");
        let mut polled = [rustix::event::PollFd::new(&gone, rustix::event::PollFlags::IN)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut polled, Some(&now)).expect("poll"), 1, "it has ended");
        assert!(!witness.exists(), "and never ran its program");
    }
}
