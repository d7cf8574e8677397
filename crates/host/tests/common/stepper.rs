//! Kills a program at a chosen system call, so that a crash test skips no step, even one that goes past every seam.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It was killed at the stop asked for.
    Killed,
    /// It ended by itself, with this code, after fewer stops.
    Exited(i32),
}

/// Runs the program and kills it (SIGKILL) at the stop of this number. It stops before and after each system call, so that a call is
/// interrupted once when nothing of it is done and once when all of it is. Its children run freely.
#[expect(clippy::zombie_processes, reason = "it is waited for with waitpid, as its tracer")]
pub(crate) fn killed_at(command: &mut Command, stop: u32) -> End {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let traceme = || {
        // SAFETY: the request takes no pointers.
        let result = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: one system call between fork and exec.
    let child = unsafe { command.pre_exec(traceme) }.spawn().expect("starts");
    let pid = i32::try_from(child.id()).expect("a pid");
    // It stops after exec.
    let status = wait(pid);
    assert!(libc::WIFSTOPPED(status), "stopped after exec: {status:#x}");
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SETOPTIONS, pid, options as usize);
    let (mut seen, mut signal) = (0, 0);
    loop {
        request(libc::PTRACE_SYSCALL, pid, signal);
        let status = wait(pid);
        signal = 0;
        if libc::WIFEXITED(status) {
            return End::Exited(libc::WEXITSTATUS(status));
        }
        assert!(libc::WIFSTOPPED(status), "ended by a signal of others: {status:#x}");
        match libc::WSTOPSIG(status) {
            number if number == libc::SIGTRAP | 0x80 && seen == stop => {
                // SAFETY: the process is ours and not waited for yet.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                assert!(libc::WIFSIGNALED(wait(pid)), "killed");
                return End::Killed;
            }
            number if number == libc::SIGTRAP | 0x80 => seen += 1,
            number => signal = number as usize,
        }
    }
}

fn request(what: libc::c_uint, pid: i32, data: usize) {
    // SAFETY: both requests take a number for data, and no address.
    let result = unsafe { libc::ptrace(what, pid, 0_usize, data) };
    assert_eq!(result, 0, "ptrace {what}: {}", std::io::Error::last_os_error());
}

fn wait(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: writes one number that lives here.
    let result = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(result, pid, "waitpid: {}", std::io::Error::last_os_error());
    status
}
