//! SIGINT and SIGTERM end the work early, with a report. A second one, some time after the first, ends the process.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use pagelab_host::signals::{EndRequests, handle};

use crate::shared::Shared;

/// The shared page of the run in progress; null if there is none.
static PAGE: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());

static REQUESTS: EndRequests = EndRequests::none();

/// The last signal; 0 for none.
static LAST: AtomicU32 = AtomicU32::new(0);

/// Workers pass a request to stop on to everybody, and leave aborting to the supervisor: a terminal sends Ctrl-C to all of them.
static IS_WORKER: AtomicBool = AtomicBool::new(false);

/// Handles signals for a run, as long as it lives.
pub(crate) struct Handling(());

impl Handling {
    /// Points the handlers at `shared`.
    pub(crate) fn new(shared: &Shared) -> Self {
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
pub(crate) fn install_handlers() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // Both can be handled; a kernel that says otherwise lets them end the process, as for any other program.
        let _ = handle(signal, on_signal);
    }
}

/// The last signal that this process got.
pub(crate) fn pending() -> Option<i32> {
    Some(LAST.load(Ordering::Relaxed).cast_signed()).filter(|signal| *signal != 0)
}

/// Tells the handlers that this process is a worker now.
pub(crate) fn become_worker() {
    IS_WORKER.store(true, Ordering::Relaxed);
}

extern "C" fn on_signal(signal: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: errno belongs to the interrupted code and is put back at the end.
    let errno = unsafe { *libc::__errno_location() };
    LAST.store(signal.cast_unsigned(), Ordering::Relaxed);
    let aborts = REQUESTS.note().is_some_and(|requests| requests > 1);
    if aborts && !IS_WORKER.load(Ordering::Relaxed) {
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
