//! One command: started in a process group of its own, its output sent as it comes, killed with all its descendants.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::frame::{Done, End, Frame, Kind, MAX_PAYLOAD, Request};
use crate::sys;

/// In the environment of every process of a command: how those are found that left its process group.
pub(crate) const MARK: &str = "PAGELAB_LAB_RUN";
/// So long is waited for the rest of the output after the command has ended: a process that it left behind may hold
/// its pipes for ever.
const LINGER: Duration = Duration::from_millis(300);
/// How often it is looked whether the command has ended while its pipes are open.
const TICK_MS: i32 = 50;
/// How often processes are looked for that were started while others were being killed.
const KILL_ROUNDS: usize = 20;

/// The commands that run, so that they can be killed from elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<BTreeMap<u64, Entry>>);

/// One of them.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// Its process group; none until it has started.
    group: Option<i32>,
    /// Killed before it had one.
    doomed: bool,
}

impl Running {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command is about to start: from here on it can be killed.
    pub(crate) fn begin(&self, run: u64) {
        self.entries().insert(run, Entry::default());
    }

    /// It has started. If it was killed meanwhile, the signal is delivered now.
    fn started(&self, run: u64, group: i32) {
        let mut entries = self.entries();
        let entry = entries.entry(run).or_default();
        entry.group = Some(group);
        if entry.doomed {
            kill_all(run, group);
        }
    }

    /// It has ended.
    pub(crate) fn end(&self, run: u64) {
        self.entries().remove(&run);
    }

    /// Whether nothing runs, and nothing is about to.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Kills the run named, or all there are.
    pub(crate) fn kill(&self, only: Option<u64>) {
        for (run, entry) in self.entries().iter_mut().filter(|(run, _)| only.is_none_or(|only| only == **run)) {
            match entry.group {
                Some(group) => kill_all(*run, group),
                None => entry.doomed = true,
            }
        }
    }
}

/// Kills the process group, and every process that carries the mark of the run.
fn kill_all(run: u64, group: i32) {
    sys::kill_now(-group);
    let mark = format!("{MARK}={}", mark_of(run));
    for _ in 0..KILL_ROUNDS {
        let found = marked(mark.as_bytes());
        if found.is_empty() {
            return;
        }
        found.into_iter().for_each(sys::kill_now);
    }
}

/// What a run's processes carry: runs are numbered by the client, so two agents may have the same one.
fn mark_of(run: u64) -> String {
    format!("{}.{run}", std::process::id())
}

/// Processes with the mark in their environment. Those that wait to be reaped have none.
fn marked(mark: &[u8]) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|word| word == mark)
    })
    .collect()
}

/// Runs the command to its end. `send` takes its output.
pub(crate) fn run(id: u64, request: &Request, running: &Running, send: &dyn Fn(&Frame) -> io::Result<()>) -> Done {
    let mut child = match start(id, request) {
        Ok(child) => child,
        Err(why) => return Done { end: End::NotStarted(why), stdout_bytes: 0, stderr_bytes: 0 },
    };
    running.started(id, child.id() as i32);
    let mut pumps = [
        Pump::new(Kind::Stdout, child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Pipe>), request.stdout_bytes),
        Pump::new(Kind::Stderr, child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Pipe>), request.stderr_bytes),
    ];
    let status = follow(id, &mut child, &mut pumps, send);
    let [stdout_bytes, stderr_bytes] = pumps.map(|pump| pump.seen);
    let end = match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => End::Exit(code),
            (None, Some(signal)) => End::Signal(signal),
            (None, None) => End::NotStarted(format!("unknown end: {status}")),
        },
        Err(error) => End::NotStarted(format!("waiting for its end: {error}")),
    };
    Done { end, stdout_bytes, stderr_bytes }
}

fn start(id: u64, request: &Request) -> Result<Child, String> {
    let word = |bytes: &Vec<u8>| OsStr::from_bytes(bytes).to_owned();
    let (program, arguments) = request.argv.split_first().ok_or("no command")?;
    let mut command = Command::new(word(program));
    command.args(arguments.iter().map(word)).env(MARK, mark_of(id));
    for pair in &request.env {
        let at = pair.iter().position(|byte| *byte == b'=').ok_or("a variable without `=`")?;
        let (name, value) = pair.split_at(at);
        command.env(OsStr::from_bytes(name), OsStr::from_bytes(value.get(1..).unwrap_or_default()));
    }
    command.current_dir(if request.cwd.is_empty() { "/".into() } else { word(&request.cwd) });
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn().map_err(|error| format!("{}: {error}", word(program).display()))?;
    // The agent is spared when memory runs out; its children are not.
    let _ = fs::write(format!("/proc/{}/oom_score_adj", child.id()), "0");
    Ok(child)
}

trait Pipe: Read + AsFd {}
impl<T: Read + AsFd> Pipe for T {}

/// One of the two pipes.
struct Pump {
    kind: Kind,
    /// `None` once it is at its end.
    pipe: Option<Box<dyn Pipe>>,
    /// Bytes that may still be sent.
    left: u64,
    /// Bytes read.
    seen: u64,
}

impl Pump {
    fn new(kind: Kind, pipe: Option<Box<dyn Pipe>>, left: u64) -> Self {
        Pump { kind, pipe, left, seen: 0 }
    }

    /// Reads once and sends what is wanted of it.
    fn turn(&mut self, id: u64, buffer: &mut [u8], send: &dyn Fn(&Frame) -> io::Result<()>) {
        let Some(pipe) = &mut self.pipe else { return };
        let got = match pipe.read(buffer) {
            Ok(0) | Err(_) => {
                self.pipe = None;
                return;
            }
            Ok(got) => got,
        };
        self.seen += got as u64;
        let wanted = (got as u64).min(self.left) as usize;
        self.left -= wanted as u64;
        if let Some(part) = buffer.get(..wanted).filter(|part| !part.is_empty()) {
            // A client that is gone takes nothing; its command is killed by whoever notices.
            let _ = send(&Frame::new(self.kind, id, part));
        }
    }
}

/// Passes output on until the command has ended and its pipes are empty.
fn follow(
    id: u64,
    child: &mut Child,
    pumps: &mut [Pump; 2],
    send: &dyn Fn(&Frame) -> io::Result<()>,
) -> io::Result<ExitStatus> {
    let mut buffer = vec![0; MAX_PAYLOAD];
    let mut ended: Option<Instant> = None;
    loop {
        // What a command prints last may come between a look at its pipes and one at whether it has ended.
        let had_ended = ended.is_some();
        let open: Vec<usize> = (0..2).filter(|index| pumps[*index].pipe.is_some()).collect();
        if open.is_empty() {
            return child.wait();
        }
        let fds = open.iter().filter_map(|index| pumps[*index].pipe.as_ref().map(|pipe| pipe.as_fd()));
        let ready = sys::readable(&fds.collect::<Vec<_>>(), TICK_MS)?;
        for (index, _) in open.iter().zip(&ready).filter(|(_, ready)| **ready) {
            pumps[*index].turn(id, &mut buffer, send);
        }
        if ended.is_none() && child.try_wait()?.is_some() {
            ended = Some(Instant::now());
        }
        let over = ended.is_some_and(|at| at.elapsed() > LINGER);
        // What a process left behind goes on printing is not the command's output.
        if over || (had_ended && !ready.contains(&true)) {
            return child.wait();
        }
    }
}
