//! Processes that a case starts, and how they wait for each other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::{Errno, checked};
use crate::outcome::{Stop, must};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself.
    Exit(i32),
    /// By a signal.
    Signal(i32),
}

/// A child of the case. It dies with the case.
#[derive(Debug)]
pub(crate) struct Process(i32);

impl Process {
    /// Starts one that does the work and exits with its result; 101 for a panic.
    pub(crate) fn start(work: impl FnOnce() -> i32) -> Result<Self, Stop> {
        // SAFETY: cases fork while they have one thread, or start threads that take no locks of the allocator meanwhile.
        let pid = must("fork", checked(unsafe { libc::fork() }))? as i32;
        if pid == 0 {
            // SAFETY: takes numbers only. If the case is killed, this process must not keep its pages.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
            let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(101);
            // SAFETY: ends the process at once, without what the parent would do at its end.
            unsafe { libc::_exit(code) };
        }
        Ok(Process(pid))
    }

    /// Waits for its end.
    pub(crate) fn wait(self) -> Result<Ended, Stop> {
        let mut status = 0;
        // SAFETY: the kernel writes the status.
        must("waitpid", checked(unsafe { libc::waitpid(self.0, &raw mut status, 0) }))?;
        Ok(ended(status))
    }

    /// Kills it and waits for its end, at most for so long.
    pub(crate) fn kill(self, limit: Duration) -> Result<Ended, Stop> {
        // SAFETY: takes numbers only; the process is a child that has not been waited for.
        must("kill", checked(unsafe { libc::kill(self.0, libc::SIGKILL) }))?;
        let deadline = Instant::now() + limit;
        let mut status = 0;
        // SAFETY: the kernel writes the status.
        while must("waitpid", checked(unsafe { libc::waitpid(self.0, &raw mut status, libc::WNOHANG) }))? == 0 {
            if Instant::now() >= deadline {
                return Err(Stop::fail("a process that was sent SIGKILL", "it lives", "it ends"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(ended(status))
    }
}

fn ended(status: i32) -> Ended {
    if libc::WIFSIGNALED(status) {
        Ended::Signal(libc::WTERMSIG(status))
    } else {
        Ended::Exit(libc::WEXITSTATUS(status))
    }
}

/// Does the work in a child and says how that ended.
pub(crate) fn in_child(work: impl FnOnce() -> i32) -> Result<Ended, Stop> {
    Process::start(work)?.wait()
}

/// Something that one process waits for until another has done it.
#[derive(Debug)]
pub(crate) struct Gate([i32; 2]);

impl Gate {
    pub(crate) fn new() -> Result<Self, Stop> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors.
        must("pipe", checked(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }))?;
        Ok(Gate(ends))
    }

    /// Lets one waiter through.
    pub(crate) fn open(&self) {
        // SAFETY: the kernel reads one byte. A pipe that takes none is noticed by the waiter, and by the time limit.
        unsafe { libc::write(self.0[1], [1_u8].as_ptr().cast(), 1) };
    }

    /// Waits for one `open`.
    pub(crate) fn pass(&self) {
        let mut byte = [0_u8];
        // SAFETY: the kernel writes one byte.
        unsafe { libc::read(self.0[0], byte.as_mut_ptr().cast(), 1) };
    }
}

/// Runs two pieces of work at the same time, `rounds` times, both set off together in each round.
pub(crate) fn pair_of_threads(rounds: usize, one: impl Fn(usize) + Sync, other: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(2);
    let repeat = |work: &(dyn Fn(usize) + Sync)| {
        for round in 0..rounds {
            barrier.wait();
            work(round);
            barrier.wait();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| repeat(&one));
        repeat(&other);
    });
}

/// Gives this process an IPC namespace of its own, which takes its segments with it when it ends.
pub(crate) fn own_ipc() -> Result<(), Errno> {
    // SAFETY: takes a number only.
    checked(unsafe { libc::unshare(libc::CLONE_NEWIPC) }).map(drop)
}
