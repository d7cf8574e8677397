//! The limits of pagelab's own process: raised as far as the user may, and put back in the commands that it starts.
//!
//! A recorder needs a descriptor for each probe, CPU and thread, a soft limit of 1,024 is for programs that use select(2), and the hard
//! limit is what the user really allows. The recorded command must see the limits of the shell that typed it.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit on open files that this process was started with, once it was raised.
static FILES_BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit on open files to the hard one. What cannot be raised says so when a file is opened.
pub fn raise_open_files() {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    if FILES_BEFORE.get().is_none() && setrlimit(Resource::Nofile, raised).is_ok() {
        // Another thread that did the same at this moment may have put down the raised limit; only one does it in practice.
        let _ = FILES_BEFORE.set(before);
    }
}

/// Puts the limit back that this process was started with. For use between fork and exec: it makes one system call.
///
/// # Errors
/// What the kernel says; lowering a limit is always allowed.
pub fn restore_in_child() -> io::Result<()> {
    match FILES_BEFORE.get() {
        Some(before) => Ok(setrlimit(Resource::Nofile, *before)?),
        None => Ok(()),
    }
}

/// A file that reaches the limit on its size (`ulimit -f`) ends the program unless it takes SIGXFSZ. From now on writing fails instead
/// (EFBIG), as on a full disk. It is a handler that does nothing: commands that are started do not inherit it, as they would a signal
/// that is ignored.
pub fn take_file_size_signal() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: sigaction is plain data, for which zero is a value.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a local that outlives the call.
    if unsafe { libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &raw mut now) } != 0
        || now.sa_sigaction != libc::SIG_DFL
    {
        // Whoever started this process ignores it already.
        return;
    }
    now.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    now.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler touches nothing, and the pointer is to a local that outlives the call.
    unsafe { libc::sigaction(libc::SIGXFSZ, &raw const now, std::ptr::null_mut()) };
}

/// Stack that pagelab's commands need: reading a command line alone takes more than 256 KiB in a build for tests.
const STACK_BYTES: u64 = 8 << 20;

/// The size of a stack for a thread that is to do the work, where the main thread's is too small (`ulimit -s`); `None` where it is
/// not. A thread's stack is ordinary memory, which that limit does not concern.
pub fn stack_for_a_thread() -> Option<usize> {
    let soft = getrlimit(Resource::Stack).current?;
    (soft < STACK_BYTES).then_some(STACK_BYTES as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_raised_once_and_put_back() {
        let before = getrlimit(Resource::Nofile);
        raise_open_files();
        raise_open_files();
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
        restore_in_child().expect("lower limits are always allowed");
        assert_eq!(getrlimit(Resource::Nofile), before);
    }

    #[test]
    fn a_file_that_is_too_large_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        // SAFETY: the child makes system calls on memory prepared before, and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            take_file_size_signal();
            let limit = Rlimit { current: Some(4096), maximum: None };
            let status = setrlimit(Resource::Fsize, Rlimit { maximum: getrlimit(Resource::Fsize).maximum, ..limit })
                .and_then(|()| {
                    rustix::fs::open(
                        &path,
                        rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY,
                        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
                    )
                })
                .map_or(1, |file| match rustix::io::pwrite(&file, b"x", 8192) {
                    Err(rustix::io::Errno::FBIG) => 0,
                    _ => 2,
                });
            // SAFETY: ends the child without running anything of the test's.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: the pointer is to a local that outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
    }
}
