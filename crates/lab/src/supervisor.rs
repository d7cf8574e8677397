//! The process that a lab lives by: it starts QEMU, keeps the end of the console, and takes QEMU with it when it goes.
//!
//! `up` starts it as `PROGRAM __lab FOLDER` in a session of its own, so that Ctrl-C reaches neither it nor QEMU.
//! Standard input is a pipe from `up`: when that closes before `up` has said a word, `up` was killed, and the lab is ended
//! and its folder removed. QEMU is killed when the supervisor dies. Both hold the lock on the lab's folder: while it is taken
//! something runs, and once it is free nothing does.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use crate::console::BoundedLog;
use crate::folders::write_whole;
use crate::qemu::{AGENT_SOCKET, QMP_SOCKET};
use crate::tool;

/// The hidden command under which the binary calls [`supervisor_main`]: `pagelab __lab FOLDER`.
pub const SUPERVISOR_COMMAND: &str = "__lab";

/// Files in a lab's folder.
pub(crate) const SPEC: &str = "qemu.json";
pub(crate) const LOCK: &str = "lock";
pub(crate) const ENDED: &str = "ended.json";
/// What `up` says when the guest has answered.
pub(crate) const KEEP: u8 = b'k';
/// What `up` says when the lab is to be ended, but `up` still wants to read what is in its folder.
pub(crate) const QUIT: u8 = b'q';
/// The logs.
pub(crate) const CONSOLE: &str = "console";
pub(crate) const QEMU_LOG: &str = "qemu";
/// Bytes of QEMU's own output that are kept; up to twice as many lie on disk.
const QEMU_LOG_BYTES: u64 = 64 << 10;
/// How long QEMU has to end after being asked.
const POLITE: Duration = Duration::from_secs(3);

/// The supervisor's parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) console_bytes: u64,
}

/// Who holds the lock; the text of the lock file.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) supervisor: u32,
    pub(crate) qemu: u32,
}

/// How QEMU ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// In words.
    pub how: String,
    /// Whether somebody asked for it: `down`, or an `up` that gave up.
    pub asked: bool,
}

/// The supervisor process; call it with the arguments after [`SUPERVISOR_COMMAND`] before the program has started any
/// thread, and exit with its result: 0 if QEMU ran and ended, 1 if it could not be run, 2 for wrong arguments.
pub fn supervisor_main(arguments: &[OsString]) -> i32 {
    let [folder] = arguments else {
        eprintln!("pagelab {SUPERVISOR_COMMAND}: needed: a folder; this command is for pagelab's own use");
        return 2;
    };
    match supervise(Path::new(folder)) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn supervise(folder: &Path) -> io::Result<()> {
    std::env::set_current_dir(folder)?;
    let here = Path::new(".");
    let spec: Spec = serde_json::from_slice(&std::fs::read(SPEC)?)?;
    let mut lock = File::options().create(true).truncate(false).write(true).open(LOCK)?;
    lock.try_lock().map_err(|_| io::Error::other("another process holds the lab's lock"))?;
    let asked = ask_signals()?;
    let mut qemu = start(&spec, &lock)?;
    let holder = Holder { supervisor: std::process::id(), qemu: qemu.id() };
    lock.set_len(0)?;
    lock.write_all(&serde_json::to_vec(&holder)?)?;
    let mut logs = [
        Log::new(qemu.stdout.take(), BoundedLog::create(here, CONSOLE, spec.console_bytes)?),
        Log::new(qemu.stderr.take(), BoundedLog::create(here, QEMU_LOG, QEMU_LOG_BYTES)?),
    ];
    let end = watch(&mut qemu, &mut logs, &asked)?;
    // The rest of the output: QEMU is gone, so the pipes have an end.
    for log in &mut logs {
        while log.turn() {}
    }
    if end.orphaned {
        return std::fs::remove_dir_all(folder);
    }
    for name in [AGENT_SOCKET, QMP_SOCKET] {
        let _ = std::fs::remove_file(name);
    }
    let ended = Ended { how: words(end.status), asked: end.asked };
    write_whole(Path::new(ENDED), &serde_json::to_vec(&ended)?).map_err(io::Error::other)
}

/// From here on SIGTERM is not obeyed but read; what is meant for a terminal's programs is ignored.
fn ask_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is a local that sigemptyset makes valid before it is used; the calls keep no pointer to it.
    let fd = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: signalfd has just returned it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn start(spec: &Spec, lock: &File) -> io::Result<Child> {
    let mut command = Command::new(&spec.program);
    command.args(&spec.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    tool::die_with_parent(&mut command);
    let lock = lock.as_raw_fd();
    // SAFETY: system calls alone between fork and exec. The descriptor is the lock's, open until QEMU has ended.
    unsafe {
        command.pre_exec(move || {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
            // QEMU holds the lock too.
            fcntl_setfd(std::os::fd::BorrowedFd::borrow_raw(lock), FdFlags::empty())?;
            Ok(())
        });
    }
    command.spawn().map_err(|error| io::Error::other(format!("{}: {error}", spec.program.display())))
}

struct Log {
    pipe: Option<File>,
    log: BoundedLog,
}

impl Log {
    fn new(pipe: Option<impl Into<OwnedFd>>, log: BoundedLog) -> Self {
        Log { pipe: pipe.map(|pipe| File::from(pipe.into())), log }
    }

    /// Reads once; false at the end. A log that cannot be written loses text, but the lab goes on.
    fn turn(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut buffer = [0; 16 << 10];
        match pipe.read(&mut buffer) {
            Ok(0) | Err(_) => {
                self.pipe = None;
                false
            }
            Ok(got) => {
                let _ = self.log.write(buffer.get(..got).unwrap_or_default());
                true
            }
        }
    }
}

struct Finished {
    status: ExitStatus,
    asked: bool,
    /// Whether `up` died before the guest had answered.
    orphaned: bool,
}

/// Passes the console on until QEMU has ended, by itself or because it was asked to.
fn watch(qemu: &mut Child, logs: &mut [Log; 2], asked: &OwnedFd) -> io::Result<Finished> {
    let ended = rustix::process::pidfd_open(Pid::from_child(qemu), PidfdFlags::empty())?;
    let mut lifeline = Some(File::from(io::stdin().as_fd().try_clone_to_owned()?));
    let (mut kill_at, mut orphaned): (Option<Instant>, bool) = (None, false);
    loop {
        let mut fds = vec![PollFd::new(&ended, PollFlags::IN), PollFd::new(asked, PollFlags::IN)];
        fds.extend(lifeline.iter().map(|lifeline| PollFd::new(lifeline, PollFlags::IN)));
        let first_log = fds.len();
        let open: Vec<usize> = (0..2).filter(|index| logs[*index].pipe.is_some()).collect();
        fds.extend(open.iter().filter_map(|index| Some(PollFd::new(logs[*index].pipe.as_ref()?, PollFlags::IN))));
        let left = kill_at.map(|at| at.saturating_duration_since(Instant::now()));
        match poll(&mut fds, left.and_then(|left| Timespec::try_from(left).ok()).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let happened: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        for (index, _) in open.iter().zip(&happened[first_log..]).filter(|(_, happened)| **happened) {
            logs[*index].turn();
        }
        let mut over = happened[1] && kill_at.is_none();
        if lifeline.is_some() && happened[2] {
            let mut word = [0; 1];
            let said = lifeline.take().map(|mut lifeline| lifeline.read(&mut word));
            let said = said.is_some_and(|said| said.is_ok_and(|got| got == 1)).then_some(word[0]);
            over |= said != Some(KEEP);
            orphaned = !matches!(said, Some(KEEP | QUIT));
        }
        if happened[0] {
            return Ok(Finished { status: qemu.wait()?, asked: kill_at.is_some(), orphaned });
        }
        if over && kill_at.is_none() {
            rustix::process::kill_process(Pid::from_child(qemu), Signal::TERM)?;
            kill_at = Some(Instant::now() + POLITE);
        } else if kill_at.is_some_and(|at| at <= Instant::now()) {
            // It does not listen: stopped, or hung in the kernel.
            qemu.kill()?;
            return Ok(Finished { status: qemu.wait()?, asked: true, orphaned });
        } else if kill_at.is_some() && happened[1] {
            drain(asked);
        }
    }
}

/// Takes a signal off the descriptor, so that it does not wake again.
fn drain(asked: &OwnedFd) {
    let mut one = [0; size_of::<libc::signalfd_siginfo>()];
    let _ = rustix::io::read(asked, &mut one);
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
