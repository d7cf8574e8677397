//! One case as the parent sees it: a process that is listened to, and killed with all its children when its time is over.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::child::{Answer, CHILD_COMMAND, Message, SetAnswer};
use crate::outcome::{Stop, Verdict};

/// Longest text that is taken from a case.
const LONGEST: usize = 1 << 20;
/// Bytes of a case's output that are shown when it dies.
const SHOWN_BYTES: usize = 600;

/// Runs the case in a process of its own. `set` is asked for settings of the host.
pub(crate) fn supervise(
    program: &Path,
    name: &str,
    environment: &[(String, String)],
    limit: Duration,
    set: &mut dyn FnMut(&str, &str) -> SetAnswer,
) -> Answer {
    match Running::start(program, name, environment) {
        Ok(mut running) => {
            let end = running.listen(Instant::now() + limit, set);
            running.conclude(end, limit)
        }
        Err(error) => {
            Answer::new(Err(Stop::inconclusive(format!("{} did not start: {error}", program.display()))), Vec::new())
        }
    }
}

/// Why listening ended.
enum End {
    Answered(Answer),
    /// The process is gone and said nothing.
    Gone,
    /// It said something else than it should.
    Garbled(String),
    Late,
}

struct Running {
    child: Child,
    said: ChildStdout,
    answers: ChildStdin,
    /// Its output for people: a file, so that nobody has to read it meanwhile.
    errors: std::fs::File,
    ended: std::os::fd::OwnedFd,
}

impl Running {
    fn start(program: &Path, name: &str, environment: &[(String, String)]) -> io::Result<Self> {
        let errors = rustix::fs::memfd_create("conformance", rustix::fs::MemfdFlags::CLOEXEC)?;
        let errors = std::fs::File::from(errors);
        let mut command = Command::new(program);
        command.arg(CHILD_COMMAND).arg(name);
        command.envs(environment.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.try_clone()?).process_group(0);
        // SAFETY: prctl is one system call; nothing else happens between fork and exec.
        unsafe {
            // The case ends when this thread does: its pages must not outlive pagelab.
            command.pre_exec(|| {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)
            });
        }
        let mut child = command.spawn()?;
        let (Some(said), Some(answers)) = (child.stdout.take(), child.stdin.take()) else {
            return Err(io::Error::other("no pipes"));
        };
        let ended = match rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(ended) => ended,
            Err(error) => {
                child.kill()?;
                child.wait()?;
                return Err(error.into());
            }
        };
        Ok(Running { child, said, answers, errors, ended })
    }

    /// Reads what the case says until it is done, gone, or late.
    fn listen(&mut self, deadline: Instant, set: &mut dyn FnMut(&str, &str) -> SetAnswer) -> End {
        let mut text = Vec::new();
        loop {
            let (spoke, gone) = match self.wait(deadline) {
                Ok(Some(what)) => what,
                Ok(None) => return End::Late,
                Err(error) => return End::Garbled(error.to_string()),
            };
            if !spoke && gone {
                return End::Gone;
            }
            let mut part = [0; 4096];
            match self.said.read(&mut part) {
                Ok(0) if gone => return End::Gone,
                // Its side is closed, but the process lives: there is nothing more to wait for.
                Ok(0) => return End::Garbled("its output was closed before it ended".to_owned()),
                Ok(got) => text.extend_from_slice(part.get(..got).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return End::Garbled(error.to_string()),
            }
            if text.len() > LONGEST {
                return End::Garbled(format!("more than {LONGEST} bytes"));
            }
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(Message::Done(answer)) => return End::Answered(answer),
                    Ok(Message::Set { key, value }) => {
                        if let Err(error) = self.answer(&set(&key, &value)) {
                            return End::Garbled(error.to_string());
                        }
                    }
                    Err(_) => return End::Garbled(String::from_utf8_lossy(&line).trim().to_owned()),
                }
            }
        }
    }

    fn answer(&mut self, answer: &SetAnswer) -> io::Result<()> {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        self.answers.write_all(&line)
    }

    /// Waits until the case says something or ends: (said something, ended). `None` when the time is over.
    fn wait(&self, deadline: Instant) -> io::Result<Option<(bool, bool)>> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut fds = [PollFd::new(&self.said, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Ok(None),
                // The end of the pipe (HUP) is read as 0 bytes; a child of the case may keep the pipe open after its end.
                Ok(_) => {
                    let [said, ended] = fds.map(|fd| fd.revents());
                    return Ok(Some((said.contains(PollFlags::IN), !ended.is_empty() || said == PollFlags::HUP)));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Kills what is left of the case, and makes an answer of how it ended.
    fn conclude(mut self, end: End, limit: Duration) -> Answer {
        let late = matches!(end, End::Late);
        if !matches!(end, End::Answered(_) | End::Late) {
            // Let it end by itself for a moment, so that its own way of dying is seen and not ours.
            let _ = self.wait_end(Duration::from_secs(1));
        }
        // The process has not been waited for, so its id is still that of its group. It may have no members left.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let status = self.child.wait();
        let said = self.errors_shown();
        let stop = match end {
            End::Answered(answer) => return answer,
            _ if late => Stop::fail("the case", format!("no answer within {} s", limit.as_secs_f64()), "an answer"),
            End::Garbled(what) => Stop::inconclusive(format!("the case did not answer as it should: {what}{said}")),
            _ => match status {
                Ok(status) => died(status, &said),
                Err(error) => Stop::inconclusive(format!("the case cannot be waited for: {error}")),
            },
        };
        Answer::new(Err(stop), Vec::new())
    }

    fn wait_end(&self, limit: Duration) -> io::Result<()> {
        let timeout = Timespec::try_from(limit).map_err(io::Error::other)?;
        poll(&mut [PollFd::from_borrowed_fd(self.ended.as_fd(), PollFlags::IN)], Some(&timeout))?;
        Ok(())
    }

    /// The last of what the case printed, for the reason.
    fn errors_shown(&mut self) -> String {
        let mut bytes = Vec::new();
        let rewound = io::Seek::rewind(&mut self.errors).and_then(|()| self.errors.read_to_end(&mut bytes));
        let from = bytes.len().saturating_sub(SHOWN_BYTES);
        let text = String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()).trim().to_owned();
        if rewound.is_err() || text.is_empty() { String::new() } else { format!("; it printed: {text}") }
    }
}

/// The process ended without an answer.
fn died(status: ExitStatus, said: &str) -> Stop {
    let found = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("death by {}", signal_name(signal)),
        (_, Some(2)) => return Stop { verdict: Verdict::Inconclusive, ..without_answer(2, said) },
        (_, code) => return without_answer(code.unwrap_or_default(), said),
    };
    Stop::fail("the case's process", format!("{found}{said}"), "an answer")
}

fn without_answer(code: i32, said: &str) -> Stop {
    Stop::fail("the case's process", format!("exit status {code} without an answer{said}"), "an answer")
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGBUS => "SIGBUS",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGKILL => "SIGKILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGILL => "SIGILL",
        libc::SIGTERM => "SIGTERM",
        other => return format!("signal {other}"),
    };
    format!("{name} ({signal})")
}

#[cfg(test)]
mod tests;
