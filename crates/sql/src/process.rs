//! A short query in a process of its own, which is killed when its time is over.
//!
//! The engine lets go of a processor between batches only, and some of its loops (a cross join's among them) make no batch for hours.
//! So a query that must end is run by `PROGRAM __query`: the query comes as JSON on standard input, the answer goes as JSON to standard
//! output.
//!
//! **When it is killed.** At its limit of time or memory, when whoever asked has gone ([`run`]'s `cancelled`), and by the kernel when
//! the thread that waits for it dies with its program. Its temporary files are in a folder that the waiting side makes and removes.
//!
//! **How memory is bounded.** The engine's pool bounds sorts, joins and aggregations, which spill beyond it and say so in words. What
//! the pool does not count (a string function's result, say) is bounded by the resident memory of the process, which the waiting side
//! looks at. A limit of address space (`RLIMIT_AS`) cannot do either: each thread of the engine reserves 512 MiB for its stack, of
//! which a few pages are memory.
//!
//! **What it may do.** It has an empty environment, in which credentials of object stores would be, and where the kernel has Landlock
//! (5.13) it opens nothing but the recordings, to read, and its folder for temporary files; it can connect to nobody.

use std::ffi::OsStr;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope,
    path_beneath_rules,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::short::{ShortAnswer, ShortError, ShortQuery, answer_within};

/// The hidden command under which the binary calls [`process_main`].
pub const QUERY_COMMAND: &str = "__query";

/// How often the memory of the process is looked at: between two looks a processor fills some 50 MB.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Longest answer that is taken from the process. It holds the damage of every part that was left out.
const LONGEST_BYTES: usize = 64 << 20;

/// Variables that the process keeps: where its libraries are.
const KEPT: &str = "LD_LIBRARY_PATH";

/// What the process of a query may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Time from its start.
    pub time: Duration,
    /// Resident memory, files not counted.
    pub resident_bytes: u64,
}

/// Why a query in a process of its own has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It ended with an error.
    #[error(transparent)]
    Query(#[from] ShortError),
    /// It reached its limit of time.
    #[error(
        "found no end of the query after {} s, its limit; ask about fewer recordings or a shorter time, or join on a key",
        limit.as_secs_f64()
    )]
    Late {
        /// The limit.
        limit: Duration,
    },
    /// It reached its limit of memory.
    #[error(
        "the query needs more memory than it may use: found {found_bytes} bytes in use, needed at most {limit_bytes}; ask for \
         fewer columns or rows, or for shorter text"
    )]
    TooLarge {
        /// Its resident memory.
        found_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// Whoever asked has gone.
    #[error("the query was cancelled")]
    Cancelled,
    /// The process did not start, or died.
    #[error("{0}")]
    Failed(String),
}

/// Runs a query as `program __query` and waits for its answer. `cancelled` becomes readable, or its other end is closed, when nobody
/// waits for the answer any more. When this returns the process has gone.
///
/// # Errors
/// The query is wrong, its answer too long, or its process was killed or died.
pub fn run(
    program: &Path,
    query: &ShortQuery,
    limits: ProcessLimits,
    cancelled: BorrowedFd<'_>,
) -> Result<ShortAnswer, ProcessError> {
    let not_started = |error: io::Error| {
        ProcessError::Failed(format!("cannot start the process of the query ({}): {error}", program.display()))
    };
    // Asked of while it waited for its turn.
    if wait(&[cancelled], Duration::ZERO).map_err(not_started)?.contains(&true) {
        return Err(ProcessError::Cancelled);
    }
    let mut running = Running::start(program, query).map_err(not_started)?;
    let text = running.listen(limits, cancelled)?;
    match serde_json::from_slice::<Result<ShortAnswer, ShortError>>(&text) {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(running.died()),
    }
}

/// The process of a query. It is killed when this is dropped.
struct Running {
    child: Child,
    said: ChildStdout,
    /// Removed when the process has gone: fields are dropped after [`Running::drop`].
    _spilled: Option<TempDir>,
}

impl Running {
    fn start(program: &Path, query: &ShortQuery) -> io::Result<Self> {
        // A file in memory, so that nobody waits for a process that does not read.
        let mut asked = std::fs::File::from(rustix::fs::memfd_create("query", MemfdFlags::CLOEXEC)?);
        asked.write_all(&serde_json::to_vec(query)?)?;
        asked.rewind()?;
        // Without it a query that spills says that it cannot.
        let spilled = tempfile::Builder::new().prefix("pagelab-query-").tempdir().ok();
        let mut command = Command::new(program);
        command.arg(QUERY_COMMAND).stdin(asked).stdout(Stdio::piped()).env_clear();
        command.envs(std::env::var_os(KEPT).map(|value| (KEPT, value)));
        command.env("TMPDIR", spilled.as_ref().map_or(OsStr::new("/nonexistent"), |dir| dir.path().as_os_str()));
        // SAFETY: prctl is one system call; nothing else happens between fork and exec.
        unsafe {
            command.pre_exec(|| {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)
            });
        }
        let mut child = command.spawn()?;
        let Some(said) = child.stdout.take() else { return Err(io::Error::other("no pipe")) };
        Ok(Self { child, said, _spilled: spilled })
    }

    /// Reads what the process says until it closes its output.
    fn listen(&mut self, limits: ProcessLimits, cancelled: BorrowedFd<'_>) -> Result<Vec<u8>, ProcessError> {
        let lost = |error: io::Error| ProcessError::Failed(format!("cannot read the answer to the query: {error}"));
        let began = Instant::now();
        let mut text = Vec::new();
        loop {
            let left = limits.time.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(ProcessError::Late { limit: limits.time });
            }
            let [spoke, gone] = wait(&[self.said.as_fd(), cancelled], left.min(LOOK_EVERY)).map_err(lost)?;
            if gone {
                return Err(ProcessError::Cancelled);
            }
            if spoke {
                let mut part = [0; 1 << 14];
                match self.said.read(&mut part) {
                    Ok(0) => return Ok(text),
                    Ok(got) => text.extend_from_slice(part.get(..got).unwrap_or_default()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(lost(error)),
                }
                if text.len() > LONGEST_BYTES {
                    return Err(ProcessError::Failed(format!("found an answer of more than {LONGEST_BYTES} bytes")));
                }
            }
            let found_bytes = resident_bytes(self.child.id()).unwrap_or(0);
            if found_bytes > limits.resident_bytes {
                return Err(ProcessError::TooLarge { found_bytes, limit_bytes: limits.resident_bytes });
            }
        }
    }

    /// Its output ended before its answer did.
    fn died(&mut self) -> ProcessError {
        // If it is dying, this changes nothing: how it ends is settled before its output is closed.
        let _ = self.child.kill();
        let how = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        ProcessError::Failed(format!(
            "the process of the query died without an answer ({how}); what it said is on the standard error of pagelab; ask for \
             less, and please report this"
        ))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; both fail only then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Which of some descriptors can be read or have been closed at the other end, after at most `limit`.
fn wait<const N: usize>(fds: &[BorrowedFd<'_>; N], limit: Duration) -> io::Result<[bool; N]> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    let mut polled = fds.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
    match poll(&mut polled, Some(&limit)) {
        // An interrupted look is an early one.
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(polled.map(|fd| !fd.revents().is_empty())),
        Err(error) => Err(error.into()),
    }
}

/// Resident memory of a process without pages of files. `None` if that cannot be read: the process is ending, or there is no /proc.
fn resident_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut pages = text.split(' ').skip(1).map(|word| word.parse::<u64>().ok());
    let (resident, of_files) = (pages.next()??, pages.next()??);
    Some(resident.saturating_sub(of_files) * rustix::param::page_size() as u64)
}

/// Does `work` on a thread of this program and looks at the memory of the whole program meanwhile. At a limit the thread goes on:
/// whoever called this is to end the program.
///
/// # Errors
/// [`ProcessError::Late`] or [`ProcessError::TooLarge`].
pub fn within<T: Send + 'static>(
    limits: ProcessLimits,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ProcessError> {
    let (done, answer) = std::sync::mpsc::channel();
    let began = Instant::now();
    let thread = std::thread::Builder::new().name("query".to_owned()).spawn(move || {
        // Nobody listens any more when a limit was reached.
        let _ = done.send(work());
    });
    let thread =
        thread.map_err(|error| ProcessError::Failed(format!("cannot start the thread of the query: {error}")))?;
    loop {
        let left = limits.time.saturating_sub(began.elapsed());
        match answer.recv_timeout(left.min(LOOK_EVERY)) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => {
                    return Err(ProcessError::Failed("the thread of the query ended without an answer".to_owned()));
                }
            },
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(ProcessError::Late { limit: limits.time }),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let found_bytes = resident_bytes(std::process::id()).unwrap_or(0);
        if found_bytes > limits.resident_bytes {
            return Err(ProcessError::TooLarge { found_bytes, limit_bytes: limits.resident_bytes });
        }
    }
}

/// Runs the query that comes on standard input. Call it before the program has started any thread.
pub fn process_main() -> ExitCode {
    let mut text = Vec::new();
    let asked = io::stdin().lock().read_to_end(&mut text).map_err(|error| error.to_string());
    let asked = asked.and_then(|_| serde_json::from_slice(&text).map_err(|error| error.to_string()));
    let answer = match asked {
        Ok(query) => answer_confined(&query),
        Err(error) => Err(ShortError::Unanswered(format!(
            "pagelab {QUERY_COMMAND}: found {error}, needed a query; this command is for pagelab's own use"
        ))),
    };
    let mut out = io::stdout().lock();
    let said = serde_json::to_vec(&answer).map_err(io::Error::from).and_then(|text| out.write_all(&text));
    if said.and_then(|()| out.flush()).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn answer_confined(query: &ShortQuery) -> Result<ShortAnswer, ShortError> {
    // Counted here: a limit of the cgroup is not to be read from inside.
    let threads = std::thread::available_parallelism().ok().map(usize::from);
    confine(query, &std::env::temp_dir())
        .map_err(|error| ShortError::Unanswered(format!("cannot confine the process of the query: {error}")))?;
    answer_within(query, threads)
}

/// Takes from this process what the query does not need. A kernel without Landlock, or with an earlier one, takes what it can.
fn confine(query: &ShortQuery, spilled: &Path) -> Result<(), RulesetError> {
    let newest = ABI::V6;
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    Ruleset::default()
        .handle_access(AccessFs::from_all(newest))?
        .handle_access(AccessNet::from_all(newest))?
        .scope(Scope::from_all(newest))?
        .create()?
        .add_rules(path_beneath_rules(&query.dirs, reading))?
        .add_rules(path_beneath_rules([spilled], AccessFs::from_all(newest) & !AccessFs::Execute))?
        .restrict_self()?;
    Ok(())
}
