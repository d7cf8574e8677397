//! SIGINT and SIGTERM end the work early, with a report. A second one, some time after the first, ends the process.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::clock::monotonic_ns;
use crate::shared::Shared;

/// The shared page of the run in progress; null if there is none.
static PAGE: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());

/// When the first signal came, ns of `CLOCK_MONOTONIC`; 0 before.
static FIRST_NS: AtomicU64 = AtomicU64::new(0);

/// What comes this soon after the first signal is the same wish: whoever signals a group (`timeout`, a shell's `kill -- -PGID`)
/// reaches this process, and so does the recorder that passes its own signal on.
const ECHO_NS: u64 = 300_000_000;

/// The last one; 0 for none.
static LAST: AtomicU32 = AtomicU32::new(0);

/// Workers pass a request to stop on to everybody, and leave aborting to the supervisor: a terminal sends Ctrl-C to all of them.
static IS_WORKER: AtomicBool = AtomicBool::new(false);

/// Handles signals for a run, as long as it lives.
pub struct Handling(());

impl Handling {
    /// Points the handlers at `shared`.
    pub fn new(shared: &Shared) -> Self {
        PAGE.store((&raw const *shared).cast_mut(), Ordering::Release);
        // A signal that came before the page was there counts.
        if let Some(signal) = pending() {
            shared.stop(signal);
        }
        Self(())
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        PAGE.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// Installs the handlers; they stay until the process ends.
pub fn install_handlers() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: a zeroed sigaction is a valid one. No SA_RESTART: sleeps and waits are to end when the run does.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// The last signal that this process got.
pub fn pending() -> Option<i32> {
    Some(LAST.load(Ordering::Relaxed).cast_signed()).filter(|signal| *signal != 0)
}

/// Tells the handlers that this process is a worker now.
pub fn become_worker() {
    IS_WORKER.store(true, Ordering::Relaxed);
}

extern "C" fn on_signal(signal: libc::c_int) {
    // SAFETY: errno belongs to the interrupted code and is put back at the end.
    let errno = unsafe { *libc::__errno_location() };
    LAST.store(signal.cast_unsigned(), Ordering::Relaxed);
    let now = monotonic_ns().max(1);
    let first = FIRST_NS.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).unwrap_or_else(|first| first);
    if first > 0 && now.saturating_sub(first) > ECHO_NS && !IS_WORKER.load(Ordering::Relaxed) {
        // SAFETY: async-signal-safe; workers die with this process.
        unsafe { libc::_exit(128 + signal) };
    }
    let page = PAGE.load(Ordering::Acquire);
    if !page.is_null() {
        // SAFETY: `Handling` lives no longer than the page it was given and takes the pointer back when it is dropped; `stop` uses
        // atomics and a futex call only.
        unsafe { (*page).stop(signal) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}
