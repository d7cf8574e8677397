//! A command in the guest.

use std::path::Path;
use std::time::{Duration, Instant};

use pagelab_output::Lock;

use crate::channel::{Channel, Received};
use crate::console;
use crate::error::{LabError, Result};
use crate::folders::lock_file;
use crate::frame::{Done, End, Frame, Kind, MAX_PAYLOAD, Request};
use crate::interrupt;
use crate::lab;
use crate::qemu::AGENT_SOCKET;
use crate::supervisor::CONSOLE;

/// Bytes of the console that an error shows.
pub(crate) const SHOWN_BYTES: usize = 4000;
/// Bytes of the console's output during the command that a result holds.
const CONSOLE_BYTES: u64 = 64 << 10;
/// How often a silent guest is asked whether it is there.
const PING: Duration = Duration::from_secs(5);
/// How long the agent may take to answer a new client.
const HELLO: Duration = Duration::from_secs(30);

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments. A name is looked for in the guest's PATH.
    pub argv: Vec<String>,
    /// Further variables of its environment.
    pub env: Vec<(String, String)>,
    /// Working directory; `None` is `/`.
    pub cwd: Option<String>,
}

impl Command {
    /// A program and its arguments, no shell between.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Command { argv: argv.into_iter().map(Into::into).collect(), env: Vec::new(), cwd: None }
    }

    /// A line for the guest's shell.
    pub fn shell(line: &str) -> Self {
        Self::new(["sh", "-c", line])
    }
}

/// How far a command may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How long it may take, by the host's clock; then it and all its descendants are killed. `None` is without end.
    pub time: Option<Duration>,
    /// Bytes of standard output that are brought out, its beginning; what exceeds that is counted and thrown away.
    pub stdout_bytes: u64,
    /// The same of standard error.
    pub stderr_bytes: u64,
    /// How long the guest may be silent, although it is asked, before it counts as hung.
    pub silence: Duration,
    /// How long to wait for another `run` in the same lab.
    pub wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            time: None,
            stdout_bytes: 16 << 20,
            stderr_bytes: 16 << 20,
            silence: Duration::from_mins(1),
            wait: Duration::from_mins(1),
        }
    }
}

/// Which of the two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With a status.
    Status(i32),
    /// By a signal.
    Signal(i32),
}

impl Exit {
    /// As a shell says it: a signal is 128 and its number.
    pub fn status(self) -> i32 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// What a command wrote to one output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The beginning of it, as far as the limit allows.
    pub bytes: Vec<u8>,
    /// All that it wrote, bytes.
    pub written_bytes: u64,
}

impl Output {
    /// Bytes that were thrown away.
    pub fn dropped_bytes(&self) -> u64 {
        self.written_bytes.saturating_sub(self.bytes.len() as u64)
    }
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunResult {
    /// How it ended. A command that was killed at its time limit ends with signal 9, or with what its shell made of it.
    pub exit: Exit,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// Whether it was killed at its time limit.
    pub timed_out: bool,
    /// Whether it was killed because of [`crate::interrupt`].
    pub interrupted: bool,
    /// How long it took by the host's clock.
    pub took: Duration,
    /// What the guest's console said meanwhile, at most the last 64 KiB: the kernel's warnings, say.
    pub console: String,
}

/// Runs a command in the lab of a folder. `sink` takes the output as it comes.
pub(crate) fn run(
    name: &str,
    folder: &Path,
    command: &Command,
    limits: &Limits,
    sink: &mut dyn FnMut(Stream, &[u8]),
) -> Result<RunResult> {
    let request = request(command, limits)?;
    let _turn = turn(name, folder, limits.wait)?;
    let from = console::position(folder, CONSOLE);
    let mut talk = Talk::begin(name, folder, HELLO)?;
    let begin = Instant::now();
    talk.send(Kind::Run, &request)?;
    let Followed { done, mut outputs, timed_out, interrupted } = talk.follow(begin, limits, sink)?;
    let exit = match done.end {
        End::Exit(status) => Exit::Status(status),
        End::Signal(signal) => Exit::Signal(signal),
        End::NotStarted(why) => return Err(LabError::NotStarted { why }),
    };
    outputs[0].written_bytes = done.stdout_bytes;
    outputs[1].written_bytes = done.stderr_bytes;
    let [stdout, stderr] = outputs;
    let console = console::since(folder, CONSOLE, from, CONSOLE_BYTES);
    Ok(RunResult { exit, stdout, stderr, timed_out, interrupted, took: begin.elapsed(), console })
}

fn request(command: &Command, limits: &Limits) -> Result<Vec<u8>> {
    let wrong = |found: String, needed: &str| LabError::Option { option: "command", found, needed: needed.to_owned() };
    if command.argv.first().is_none_or(String::is_empty) {
        return Err(wrong("none".to_owned(), "a program and its arguments"));
    }
    let bytes = |text: &String| text.as_bytes().to_vec();
    if let Some((name, _)) = command.env.iter().find(|(name, _)| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(wrong(format!("the variable {name:?}"), "a name without `=`"));
    }
    let request = Request {
        argv: command.argv.iter().map(bytes).collect(),
        env: command.env.iter().map(|(name, value)| format!("{name}={value}").into_bytes()).collect(),
        cwd: command.cwd.iter().flat_map(|cwd| cwd.bytes()).collect(),
        stdout_bytes: limits.stdout_bytes,
        stderr_bytes: limits.stderr_bytes,
    };
    let request = request.encode();
    if request.len() > MAX_PAYLOAD {
        let found = format!("{} bytes of arguments and variables", request.len());
        return Err(wrong(found, "at most 65536; put more into a script in the shared folder"));
    }
    Ok(request)
}

/// One command at a time: QEMU lets one client at a time speak to the agent.
fn turn(name: &str, folder: &Path, wait: Duration) -> Result<Lock> {
    let path = folder.join("run.lock");
    let file = lock_file(&path)?;
    let deadline = Instant::now() + wait;
    loop {
        if let Ok(lock) = Lock::try_take(file.try_clone().map_err(LabError::io(&path))?) {
            return Ok(lock);
        }
        interrupt::check()?;
        if Instant::now() >= deadline {
            return Err(LabError::Busy { name: name.to_owned(), waited_s: wait.as_secs() });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What came of following a command.
struct Followed {
    done: Done,
    outputs: [Output; 2],
    timed_out: bool,
    interrupted: bool,
}

/// A conversation in which every failure is explained by what became of the guest.
pub(crate) struct Talk<'a> {
    name: &'a str,
    folder: &'a Path,
    channel: Channel,
}

impl<'a> Talk<'a> {
    /// Connects, and waits for the agent.
    pub(crate) fn begin(name: &'a str, folder: &'a Path, limit: Duration) -> Result<Self> {
        let channel = Channel::connect(folder, AGENT_SOCKET).map_err(|_| lab::gone(folder))?;
        let mut talk = Talk { name, folder, channel };
        let deadline = Instant::now() + limit;
        loop {
            match talk.receive(deadline)? {
                Some(frame) if frame.kind == Kind::Ready => return Ok(talk),
                Some(_) => {}
                None if Instant::now() >= deadline => return Err(talk.hung(limit)),
                None => {}
            }
        }
    }

    fn send(&mut self, kind: Kind, payload: &[u8]) -> Result<()> {
        self.channel.send(kind, payload).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => self.hung(HELLO),
            _ => lab::gone(self.folder),
        })
    }

    fn receive(&mut self, deadline: Instant) -> Result<Option<Frame>> {
        match self.channel.receive(deadline) {
            Ok(Received::Frame(frame)) => Ok(Some(frame)),
            Ok(Received::Nothing) => Ok(None),
            Ok(Received::Closed) | Err(_) => Err(lab::gone(self.folder)),
        }
    }

    fn hung(&self, waited: Duration) -> LabError {
        LabError::GuestHang {
            name: self.name.to_owned(),
            waited_s: waited.as_secs(),
            console: console::tail(self.folder, CONSOLE, SHOWN_BYTES),
        }
    }

    /// Takes output until the command has ended; kills it at its limit.
    fn follow(&mut self, begin: Instant, limits: &Limits, sink: &mut dyn FnMut(Stream, &[u8])) -> Result<Followed> {
        let mut outputs = [Output::default(), Output::default()];
        let mut kill_at = limits.time.map(|time| begin + time);
        let (mut heard, mut asked) = (Instant::now(), Instant::now());
        let (mut timed_out, mut interrupted) = (false, false);
        loop {
            let now = Instant::now();
            if kill_at.is_some_and(|at| at <= now) {
                self.send(Kind::Kill, &[])?;
                (kill_at, timed_out) = (None, true);
            }
            if interrupt::is_interrupted() && !interrupted {
                self.send(Kind::Kill, &[])?;
                interrupted = true;
            }
            if heard.elapsed() > limits.silence {
                return Err(self.hung(heard.elapsed()));
            }
            if heard.elapsed() > PING && asked.elapsed() > PING {
                self.send(Kind::Ping, &[])?;
                asked = now;
            }
            let deadline = kill_at.unwrap_or(now + PING).min(now + PING);
            let Some(frame) = self.receive(deadline)? else { continue };
            heard = Instant::now();
            let (output, stream) = match frame.kind {
                Kind::Stdout => (&mut outputs[0], Stream::Stdout),
                Kind::Stderr => (&mut outputs[1], Stream::Stderr),
                Kind::Done => match Done::decode(&frame.payload) {
                    Some(done) => return Ok(Followed { done, outputs, timed_out, interrupted }),
                    None => return Err(LabError::NotStarted { why: "the agent's answer cannot be read".to_owned() }),
                },
                _ => continue,
            };
            sink(stream, &frame.payload);
            output.bytes.extend_from_slice(&frame.payload);
        }
    }
}
