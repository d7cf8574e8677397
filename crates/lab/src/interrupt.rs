//! Breaking off, as by Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{LabError, Result};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends the work of this process as soon as possible: `up` takes back what it has done and fails with `interrupted`,
/// `run` kills its command and returns the output so far. May be called from a signal handler.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails if somebody has interrupted.
pub(crate) fn check() -> Result<()> {
    if is_interrupted() { Err(LabError::Interrupted) } else { Ok(()) }
}

extern "C" fn on_signal(_: libc::c_int) {
    interrupt();
}

/// From now on SIGINT, SIGTERM and SIGHUP call [`interrupt`] in this process.
pub fn interrupt_on_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: sigaction is plain data; the handler only touches an atomic. No SA_RESTART, so that waits end early.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}
