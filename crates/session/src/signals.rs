//! SIGINT and SIGTERM to the recorder: the first ends the work and keeps everything, the second aborts.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

static RECEIVED: AtomicU32 = AtomicU32::new(0);
static LAST: AtomicI32 = AtomicI32::new(0);
static SENT_BY_PROCESS: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    RECEIVED.fetch_add(1, Ordering::Relaxed);
    LAST.store(signal, Ordering::Relaxed);
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo_t.
    let code = unsafe { info.as_ref() }.map_or(libc::SI_USER, |info| info.si_code);
    if code != libc::SI_KERNEL {
        SENT_BY_PROCESS.store(1, Ordering::Relaxed);
    }
}

/// Installs the handlers, once per process; further calls change nothing.
pub fn install() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: sigaction is plain data; the handler only touches atomics. No SA_RESTART, so that waits end early.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, std::ptr::null_mut())
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// How many signals have come since the process began.
pub fn count() -> u32 {
    RECEIVED.load(Ordering::Relaxed)
}

/// The latest signal.
pub fn last() -> i32 {
    LAST.load(Ordering::Relaxed)
}

/// Whether a process sent it. If not, it came from the terminal, which sends it to the whole foreground group, so that
/// the command already has it.
pub fn sent_by_process() -> bool {
    SENT_BY_PROCESS.load(Ordering::Relaxed) != 0
}
