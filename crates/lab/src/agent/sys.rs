//! System calls that the standard library does not have. The agent knows nothing but the standard library.

use std::ffi::{c_int, c_short, c_ulong};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What `poll` waits for.
#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

unsafe extern "C" {
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn poll(fds: *mut PollFd, count: c_ulong, timeout_ms: c_int) -> c_int;
    fn reboot(command: c_int) -> c_int;
    fn sync();
    fn wait(status: *mut c_int) -> c_int;
}

const SIGKILL: c_int = 9;
const POLLIN: c_short = 1;
/// LINUX_REBOOT_CMD_POWER_OFF, reboot(2).
const POWER_OFF: c_int = 0x4321_fedc;
const EINTR: i32 = 4;

/// Kills one process, or with a negative number all of a process group. Who is gone already is no error.
pub(crate) fn kill_now(pid: i32) {
    // SAFETY: kill(2) takes two numbers and touches no memory of this process.
    unsafe { kill(pid, SIGKILL) };
}

/// Waits at most so long until one of the descriptors can be read or its other end is gone. A negative time waits for
/// ever.
pub(crate) fn readable(fds: &[BorrowedFd<'_>], timeout_ms: i32) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd> =
        fds.iter().map(|fd| PollFd { fd: fd.as_raw_fd(), events: POLLIN, revents: 0 }).collect();
    // SAFETY: the pointer and the count are those of a living vector of the C layout.
    let found = unsafe { poll(polled.as_mut_ptr(), polled.len() as c_ulong, timeout_ms) };
    if found < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(EINTR) { Ok(vec![false; fds.len()]) } else { Err(error) };
    }
    Ok(polled.iter().map(|fd| fd.revents != 0).collect())
}

/// Switches the machine off.
pub(crate) fn power_off() {
    // SAFETY: both take no pointers. Only process 1 of a lab calls this.
    unsafe {
        sync();
        reboot(POWER_OFF);
    }
}

/// Waits for the end of any child: its number, or `None` if there is none.
pub(crate) fn reap() -> Option<i32> {
    loop {
        let mut status = 0;
        // SAFETY: the pointer is that of a local number.
        let pid = unsafe { wait(&raw mut status) };
        if pid > 0 {
            return Some(pid);
        }
        if io::Error::last_os_error().raw_os_error() != Some(EINTR) {
            return None;
        }
    }
}
