//! A lab that is up: found again by other processes, asked, ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use pagelab_output::Lock;
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use crate::console;
use crate::error::{LabError, Result};
use crate::event::Event;
use crate::folders::{Folders, lock_file};
use crate::options::Options;
use crate::qemu::Machine;
use crate::qmp;
use crate::run::{self, Command, Limits, RunResult, SHOWN_BYTES, Stream};
use crate::supervisor::{CONSOLE, ENDED, Ended, Holder, LOCK};
use crate::up;

/// What is known of a lab that came up.
pub(crate) const STATE: &str = "state.json";
/// How long the supervisor has to end QEMU, which it gives 3 s.
const POLITE: Duration = Duration::from_secs(8);
/// How long dying takes.
const DYING: Duration = Duration::from_secs(5);
/// How long a supervisor may take to say how QEMU ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A lab that is up. Dropping it changes nothing: it lives until [`Lab::down`]. One that is bound
/// ([`Options::bound`]) ends with the value that [`Lab::up`] gave.
#[derive(Debug)]
pub struct Lab {
    folder: PathBuf,
    bound: Option<up::Supervisor>,
    /// What is known of it.
    pub state: State,
}

/// The lab as made, along with the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The request.
    pub options: Options,
    /// How instructions are run.
    pub machine: Machine,
    /// Why not by KVM.
    pub no_kvm: Option<String>,
    /// The kernel's package, with its version.
    pub kernel_package: String,
    /// The kernel, as the guest's `uname -r` says.
    pub release: String,
    /// The kernel's command line.
    pub cmdline: String,
    /// Processors that the guest sees.
    pub cpus: u32,
    /// Memory that the guest manages, bytes; less than was asked for, by what the kernel itself takes.
    pub memory_bytes: u64,
    /// Persistent memory that the guest sees, bytes.
    pub pmem_bytes: Option<u64>,
    /// How long the boot took, ms.
    pub boot_ms: u64,
    /// Boots that hung before this one.
    pub hung_boots: u32,
    /// When it was up, ns since 1970.
    pub up_at_ns: u64,
}

/// How a lab is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Whether something of it runs.
    pub alive: bool,
    /// The supervisor's process; `None` if it does not run.
    pub pid: Option<u32>,
    /// QEMU's process; `None` if it does not run.
    pub qemu_pid: Option<u32>,
    /// What is known of it; `None` while it comes up.
    pub state: Option<State>,
    /// How QEMU ended, if it has.
    pub ended: Option<Ended>,
    /// The end of the console.
    pub console: String,
}

impl Lab {
    /// Brings a lab up. It stays up when this process ends. `say` gets the events.
    pub fn up(options: &Options, say: &mut dyn FnMut(Event)) -> Result<Self> {
        Self::up_in(&Folders::find(), options, say)
    }

    /// The same, in other folders.
    pub fn up_in(folders: &Folders, options: &Options, say: &mut dyn FnMut(Event)) -> Result<Self> {
        let up::Up { folder, state, bound } = up::up(folders, options, say)?;
        Ok(Lab { folder, bound, state })
    }

    /// A lab that is up already.
    pub fn open(name: &str) -> Result<Self> {
        Self::open_in(&Folders::find(), name)
    }

    /// The same, in other folders.
    pub fn open_in(folders: &Folders, name: &str) -> Result<Self> {
        let folder = folders.lab(name)?;
        let not_up = || LabError::NotUp { name: name.to_owned() };
        let state = read_state(&folder).ok_or_else(not_up)?;
        if !is_alive(&folder) {
            return Err(gone(&folder));
        }
        Ok(Lab { folder, bound: None, state })
    }

    /// Runs a command in the guest. `sink` takes the output as it comes; the result holds it too. If this process is
    /// killed meanwhile the guest kills the command.
    pub fn run(&self, command: &Command, limits: &Limits, sink: &mut dyn FnMut(Stream, &[u8])) -> Result<RunResult> {
        run::run(&self.state.options.name, &self.folder, command, limits, sink)
    }

    /// Instructions that the guest has run since it was switched on; `None` if they are not counted.
    pub fn instructions(&self) -> Result<Option<u64>> {
        if self.state.options.vm.icount_shift.is_none() {
            return Ok(None);
        }
        let answer = qmp::ask(&self.folder, "query-replay").map_err(|error| LabError::Io {
            path: self.folder.join(crate::qemu::QMP_SOCKET).display().to_string(),
            why: error.to_string(),
        })?;
        Ok(answer.get("icount").and_then(serde_json::Value::as_u64))
    }

    /// The end of the guest's console.
    pub fn console(&self) -> String {
        console::tail(&self.folder, CONSOLE, SHOWN_BYTES)
    }

    /// Ends a lab, whatever state it is in, and removes its folder. True if there was one.
    pub fn down(name: &str) -> Result<bool> {
        Self::down_in(&Folders::find(), name)
    }

    /// The same, in other folders.
    pub fn down_in(folders: &Folders, name: &str) -> Result<bool> {
        let folder = folders.lab(name)?;
        if !folder.exists() {
            return Ok(false);
        }
        end(&folder)?;
        match fs::remove_dir_all(&folder) {
            Ok(()) => Ok(true),
            // Somebody else has done it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(LabError::io(&folder)(error)),
        }
    }

    /// How the lab of this name is; `None` if there is none.
    pub fn status(name: &str) -> Result<Option<Status>> {
        Self::status_in(&Folders::find(), name)
    }

    /// The same, in other folders.
    pub fn status_in(folders: &Folders, name: &str) -> Result<Option<Status>> {
        let folder = folders.lab(name)?;
        if !folder.is_dir() {
            return Ok(None);
        }
        let alive = is_alive(&folder);
        let holder = holder(&folder).filter(|_| alive);
        Ok(Some(Status {
            name: name.to_owned(),
            alive,
            pid: holder.map(|holder| holder.supervisor),
            qemu_pid: holder.map(|holder| holder.qemu),
            state: read_state(&folder),
            ended: read_ended(&folder),
            console: console::tail(&folder, CONSOLE, SHOWN_BYTES),
            folder,
        }))
    }

    /// The names of all labs of this user, up or not.
    pub fn names() -> Vec<String> {
        Self::names_in(&Folders::find())
    }

    /// The same, in other folders.
    pub fn names_in(folders: &Folders) -> Vec<String> {
        let entries = fs::read_dir(&folders.run).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(supervisor) = self.bound.take() {
            // Waits until QEMU has ended.
            drop(supervisor);
            // What cannot be removed is removed by the next lab of this name.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn read_state(folder: &Path) -> Option<State> {
    serde_json::from_slice(&fs::read(folder.join(STATE)).ok()?).ok()
}

fn read_ended(folder: &Path) -> Option<Ended> {
    serde_json::from_slice(&fs::read(folder.join(ENDED)).ok()?).ok()
}

/// Whether the supervisor or QEMU runs: they hold the lock.
pub(crate) fn is_alive(folder: &Path) -> bool {
    let lock = folder.join(LOCK);
    lock.exists() && lock_file(&lock).is_ok_and(|file| Lock::try_take(file).is_err())
}

pub(crate) fn holder(folder: &Path) -> Option<Holder> {
    serde_json::from_slice(&fs::read(folder.join(LOCK)).ok()?).ok()
}

/// Ends what holds the lock: politely, then not.
pub(crate) fn end(folder: &Path) -> Result<()> {
    let Some(holder) = holder(folder) else { return await_free(folder, POLITE) };
    signal(folder, holder.supervisor, Signal::TERM);
    if await_free(folder, POLITE).is_ok() {
        return Ok(());
    }
    signal(folder, holder.supervisor, Signal::KILL);
    signal(folder, holder.qemu, Signal::KILL);
    await_free(folder, DYING)
}

/// Signals a process if it still is what the lock file says: its number may be another's by now.
fn signal(folder: &Path, pid: u32, signal: Signal) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return };
    // The descriptor is that of the process that has the number now; it holds a file of the lab's folder open, or not.
    let holds = || {
        let lock = fs::canonicalize(folder.join(LOCK)).ok()?;
        let open = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).ok()?;
        Some(open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == lock)))
    };
    if holds() == Some(true) {
        // A process that is gone already needs no signal.
        let _ = rustix::process::pidfd_send_signal(process, signal);
    }
}

fn await_free(folder: &Path, limit: Duration) -> Result<()> {
    let deadline = Instant::now() + limit;
    while is_alive(folder) {
        if Instant::now() >= deadline {
            return Err(LabError::Io {
                path: folder.join(LOCK).display().to_string(),
                why: format!("still held after {} s; type: fuser -v {}", limit.as_secs(), folder.join(LOCK).display()),
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Why the guest does not answer, once QEMU is gone: from how it ended and from its console.
pub(crate) fn gone(folder: &Path) -> LabError {
    let deadline = Instant::now() + LAST_WORDS;
    while read_ended(folder).is_none() && is_alive(folder) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let console = console::tail(folder, CONSOLE, SHOWN_BYTES);
    if let Some(what) = console::panic_words(&console::since(folder, CONSOLE, 0, 64 << 10)) {
        return LabError::GuestPanic { what, console };
    }
    let how = match read_ended(folder) {
        Some(ended) if ended.asked => "it was ended".to_owned(),
        Some(ended) => format!("QEMU ended with {}", ended.how),
        None if is_alive(folder) => "QEMU runs, but does not let anyone speak to the guest".to_owned(),
        None => "QEMU and its supervisor were killed".to_owned(),
    };
    LabError::GuestGone { how, console }
}

/// Now, ns since 1970.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
