//! Starting workers as processes or threads, waiting for them, collecting their results.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread::Scope;
use std::time::Duration;

use pagelab_fiojob::Workload;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions};

use super::aggregate::Aggregate;
use super::carrying;
use super::so_far::Asking;
use super::status::StatusLine;
use super::steady::SteadyWatch;
use super::task::{Task, WorkerResult};
use super::told::FromWorker;
use crate::clock::Clock;
use crate::control::Status;
use crate::error::LoadError;
use crate::plan::Plan;
use crate::report::{Failure, WorkerReport};
use crate::shared::{Shared, Stage, State};
use crate::signals;

/// The state common to all workers of a run.
pub(crate) struct Crew<'a> {
    /// Who works where.
    pub plan: &'a Plan,
    /// The jobs.
    pub workload: &'a Workload,
    /// The clock of each job.
    pub clocks: &'a [Clock],
    /// The shared page.
    pub shared: &'a Shared,
    /// Where files made by pagelab are remembered if the file system cannot.
    pub state_dir: &'a Path,
    /// What the user named to be written.
    pub allow_write: &'a [PathBuf],
    /// Whether to tell how far it is.
    pub status: Status,
    /// Whether to log the bandwidth of all together.
    pub bandwidth_log: bool,
    /// The time between two reports of what was measured so far; `None` for no such reports unless a signal asks for one.
    pub status_interval: Option<Duration>,
}

impl Crew<'_> {
    /// The report of a worker of which no more is known than what it is called.
    pub(super) fn nameless(&self, index: usize) -> WorkerReport {
        let plan = self.plan.workers.get(index);
        let job = plan.and_then(|plan| self.workload.jobs.get(plan.job));
        WorkerReport {
            job: plan.map_or(0, |plan| plan.job),
            name: job.map_or_else(String::new, |job| job.name.clone()),
            clone: plan.map_or(0, |plan| plan.clone),
            group: plan.map_or(0, |plan| plan.group),
            ..WorkerReport::default()
        }
    }
}

/// What hears of a run while it goes on.
pub(crate) struct Listeners<'a> {
    /// Gets the lines of the workers' intervals.
    pub line: &'a mut dyn FnMut(&[u8]),
    /// Gets what all workers have measured so far, as often as that is asked for.
    pub so_far: &'a mut dyn FnMut(Vec<WorkerReport>),
}

/// A worker seen from outside.
pub(super) struct Member {
    pipe: File,
    pub(super) heard: FromWorker,
    pub(super) open: bool,
    /// It was asked for a report of what it has measured so far, and has not answered yet.
    pub(super) asked: bool,
    /// Its process; `None` for threads.
    pid: Option<Pid>,
    pub(super) result: Option<WorkerResult>,
}

/// Runs all workers, wave by wave, and gives their results in order of the plan.
///
/// # Errors
/// A worker cannot be started, or one of the first wave cannot get ready; then none works.
pub(crate) fn run(crew: &Crew<'_>, listeners: &mut Listeners<'_>) -> Result<Vec<WorkerResult>, LoadError> {
    std::thread::scope(|scope| {
        let outcome = start(crew, scope).and_then(|mut members| {
            let mut steady = SteadyWatch::new(crew);
            let ready = supervise(crew, &mut members, &mut steady, listeners);
            // Whatever happened, nobody is left behind.
            while members.iter().any(|member| member.open) {
                receive(crew, &mut members, 100, listeners.line);
            }
            for (index, found) in steady.reports() {
                if let Some(result) = members.get_mut(index).and_then(|member| member.result.as_mut()) {
                    result.report.steady = Some(found);
                }
            }
            ready.map(|()| members)
        });
        if outcome.is_err() {
            crew.shared.stop(0);
        }
        Ok(outcome?.into_iter().map(|member| member.result.unwrap_or_default()).collect())
    })
}

/// Processes first, while this process still has no threads of its own: a child of `fork` has only the thread that called it.
fn start<'scope, 'env: 'scope>(
    crew: &'env Crew<'env>,
    scope: &'scope Scope<'scope, 'env>,
) -> Result<Vec<Member>, LoadError> {
    let mut members: Vec<(usize, Member)> = Vec::new();
    for threads in [false, true] {
        for plan in &crew.plan.workers {
            let job =
                crew.workload.jobs.get(plan.job).ok_or_else(|| LoadError::Protocol(format!("no job {}", plan.job)))?;
            if job.options.thread != threads {
                continue;
            }
            let clock = crew.clocks.get(plan.job).copied().unwrap_or_else(Clock::gettime);
            let exitall = crew.workload.jobs.iter().any(|job| job.options.exitall);
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
                .map_err(|error| LoadError::system("making a pipe", error))?;
            let task = Task {
                plan,
                job,
                crew: &crew.plan.workers,
                exitall,
                clock,
                shared: crew.shared,
                state_dir: crew.state_dir,
                allow_write: crew.allow_write,
                out: write.into(),
            };
            let pid = if threads {
                let builder = std::thread::Builder::new().name(short_name(&job.name));
                builder
                    .spawn_scoped(scope, move || live(&task))
                    .map_err(|error| LoadError::system("starting a thread", error))?;
                None
            } else {
                Some(fork(&task)?)
            };
            members.push((
                plan.index,
                Member { pipe: read.into(), heard: FromWorker::default(), open: true, asked: false, pid, result: None },
            ));
        }
    }
    members.sort_by_key(|(index, _)| *index);
    Ok(members.into_iter().map(|(_, member)| member).collect())
}

/// The kernel keeps 15 bytes of a thread's name; a NUL byte would end it.
fn short_name(name: &str) -> String {
    name.chars().filter(|c| *c != '\0').take(15).collect()
}

fn fork(task: &Task<'_>) -> Result<Pid, LoadError> {
    let parent = rustix::process::getpid();
    // SAFETY: the child runs only what follows here and ends with `_exit`. Where the parent has other threads (a test, or a job
    // with thread=1 started before, which `start` avoids) the child relies on glibc, which keeps its allocator usable after fork.
    match unsafe { libc::fork() } {
        -1 => Err(LoadError::system("starting a process", std::io::Error::last_os_error())),
        0 => {
            signals::become_worker();
            // Workers die with the process that collects their results. If it is dead already, nobody waits.
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            if rustix::process::getppid() != Some(parent) {
                // SAFETY: ends the process without running anything of the parent's.
                unsafe { libc::_exit(1) };
            }
            // A session of its own, as fio's workers have: with sched_autogroup the scheduler shares CPUs out by sessions, and workers
            // that stay in one get one share together. It fails for leaders of a group only, which a new child is not. A terminal's
            // Ctrl-C reaches the supervisor, which ends all workers through the page that they share.
            let _ = rustix::process::setsid();
            if let Ok(name) = std::ffi::CString::new(short_name(&task.job.name)) {
                let _ = rustix::thread::set_name(&name);
            }
            live(task);
            // SAFETY: as above; buffers of the parent's standard output must not be written twice.
            unsafe { libc::_exit(0) };
        }
        pid => Pid::from_raw(pid).ok_or_else(|| LoadError::Protocol(format!("fork gave pid {pid}"))),
    }
}

/// A worker's life, from its first to its last instruction of this crate.
fn live(task: &Task<'_>) {
    let result = catch_unwind(AssertUnwindSafe(|| match carrying::find(&task.job.options.ioengine.0) {
        Some(engine) => (engine.run)(task),
        None => failed(task, format!("no engine '{}'", task.job.options.ioengine.0)),
    }))
    .unwrap_or_else(|_| failed(task, "the worker panicked; its message is on standard error".to_owned()));
    task.give(result);
    task.shared.set_state(task.plan.index, State::Done);
}

fn failed(task: &Task<'_>, message: String) -> WorkerResult {
    let report = WorkerReport {
        job: task.plan.job,
        name: task.job.name.clone(),
        clone: task.plan.clone,
        group: task.plan.group,
        failure: Some(Failure { errno: libc::EIO, message }),
        ..WorkerReport::default()
    };
    WorkerResult { report, not_ready: None }
}

/// Leads the workers through their waves.
fn supervise(
    crew: &Crew<'_>,
    members: &mut [Member],
    steady: &mut SteadyWatch<'_>,
    listeners: &mut Listeners<'_>,
) -> Result<(), LoadError> {
    let mut status = StatusLine::new(crew, crew.status);
    let mut aggregate = Aggregate::new(crew)?;
    let mut asking = Asking::new(crew);
    for wave in 0..crew.plan.waves {
        let of_wave: Vec<usize> =
            crew.plan.workers.iter().filter(|plan| plan.wave == wave).map(|plan| plan.index).collect();
        for index in &of_wave {
            crew.shared.release(*index, Stage::Prepare);
        }
        while !crew.shared.stopped() {
            let seen = crew.shared.changes();
            receive(crew, members, 0, listeners.line);
            if of_wave.iter().all(|index| crew.shared.state(*index) != State::Preparing) {
                break;
            }
            crew.shared.await_change(seen);
        }
        if wave == 0 {
            refuse_unready(crew, members, &of_wave, listeners.line)?;
        }
        for index in &of_wave {
            crew.shared.release(*index, Stage::Work);
        }
        while of_wave.iter().any(|index| members.get(*index).is_some_and(|member| member.open)) {
            receive(crew, members, asking.nap_ms(), listeners.line);
            asking.tick(members, listeners.so_far);
            if let Some(status) = &mut status {
                status.tick();
            }
            if let Some(aggregate) = &mut aggregate {
                aggregate.tick();
            }
            steady.tick();
        }
    }
    aggregate.map_or(Ok(()), Aggregate::finish)
}

/// Fail before the run: if a worker of the first wave could not get ready, nobody starts.
fn refuse_unready(
    crew: &Crew<'_>,
    members: &mut [Member],
    of_wave: &[usize],
    tell: &mut dyn FnMut(&[u8]),
) -> Result<(), LoadError> {
    if of_wave.iter().all(|index| crew.shared.state(*index) != State::Done) {
        return Ok(());
    }
    // A worker that is done before the start has failed: its words are in the pipe or already here.
    while of_wave
        .iter()
        .any(|index| crew.shared.state(*index) == State::Done && members.get(*index).is_some_and(|member| member.open))
    {
        receive(crew, members, 10, tell);
    }
    let unready = members.iter().filter_map(|member| member.result.as_ref()).find_map(|result| {
        let failure = result.report.failure.as_ref()?;
        Some((failure.message.clone(), result.not_ready.unwrap_or(3)))
    });
    match unready {
        Some((message, exit_status)) => {
            crew.shared.stop(0);
            Err(LoadError::NotReady { message, exit_status })
        }
        None => Ok(()),
    }
}

/// Takes what has arrived from workers; waits at most `timeout_ms` for something.
fn receive(crew: &Crew<'_>, members: &mut [Member], timeout_ms: i64, tell: &mut dyn FnMut(&[u8])) {
    let open: Vec<usize> =
        members.iter().enumerate().filter(|(_, member)| member.open).map(|(index, _)| index).collect();
    let ready: Vec<bool> = {
        let mut fds: Vec<PollFd<'_>> = open
            .iter()
            .filter_map(|index| members.get(*index))
            .map(|member| PollFd::from_borrowed_fd(member.pipe.as_fd(), PollFlags::IN))
            .collect();
        let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: timeout_ms * 1_000_000 };
        // Interrupted by a signal: nothing is ready, and the caller looks at the stop flag.
        let _ = poll(&mut fds, Some(&timeout));
        fds.iter().map(|fd| !fd.revents().is_empty()).collect()
    };
    for (index, _) in open.into_iter().zip(ready).filter(|(_, ready)| *ready) {
        if let Some(member) = members.get_mut(index) {
            read_some(crew, member, index, tell);
        }
    }
}

fn read_some(crew: &Crew<'_>, member: &mut Member, index: usize, tell: &mut dyn FnMut(&[u8])) {
    let mut chunk = [0_u8; 1 << 14];
    match member.pipe.read(&mut chunk) {
        Ok(0) => {
            member.open = false;
            let end = member.pid.and_then(reap);
            let heard = std::mem::take(&mut member.heard);
            member.result = Some(heard.result().unwrap_or_else(|| lost(crew, index, end)));
            crew.shared.set_state(index, State::Done);
        }
        Ok(n) => member.asked &= !member.heard.add(chunk.get(..n).unwrap_or(&[]), tell),
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
        Err(_) => member.open = false,
    }
}

/// Waits for a process that has closed its pipe; gives the signal that ended it, if one did.
fn reap(pid: Pid) -> Option<i32> {
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(Some((_, status))) => return status.terminating_signal(),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// The result of a worker that died without giving one.
fn lost(crew: &Crew<'_>, index: usize, signal: Option<i32>) -> WorkerResult {
    let message = match signal {
        Some(libc::SIGKILL) => {
            "the worker was killed by signal 9, by the OOM killer perhaps (see dmesg); what it measured is lost"
                .to_owned()
        }
        Some(signal) => format!("the worker was killed by signal {signal}; what it measured is lost"),
        None => "the worker ended without a report; what it measured is lost".to_owned(),
    };
    let failure = Some(Failure { errno: libc::EINTR, message });
    let report = WorkerReport { failure, ..crew.nameless(index) };
    WorkerResult { report, not_ready: None }
}
