//! SIGINT and SIGTERM end the work early, with a report. A second one, some time after the first, ends the process. SIGUSR1 asks for a
//! report of what was measured so far, and the work goes on.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use pagelab_host::signals::{EndRequests, Handler, handle};

use crate::shared::Shared;

/// The shared page of the run in progress; null if there is none.
static PAGE: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());

static REQUESTS: EndRequests = EndRequests::none();

/// The last signal; 0 for none.
static LAST: AtomicU32 = AtomicU32::new(0);

/// SIGUSR1 has come since the last report of what was measured so far.
static REPORT_WANTED: AtomicBool = AtomicBool::new(false);

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

/// The signals that a load process handles.
pub(crate) const HANDLED: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1];

/// Lets signals that are handled here wait, in this process and in the program that it executes. Async-signal-safe.
pub(crate) fn hold() {
    mask(libc::SIG_BLOCK);
}

fn mask(how: libc::c_int) {
    // SAFETY: a zeroed sigset_t is a valid one, which is then made empty; the calls write to it alone and to the mask of this thread.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in HANDLED {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut());
    }
}

/// Installs the handlers, and lets signals in that were held until there were some; they stay until the process ends.
pub(crate) fn install_handlers() {
    for (signal, handler) in
        [(libc::SIGINT, on_signal as Handler), (libc::SIGTERM, on_signal), (libc::SIGUSR1, on_report_request)]
    {
        // All can be handled; a kernel that says otherwise lets them end the process, as for any other program.
        let _ = handle(signal, handler);
    }
    mask(libc::SIG_UNBLOCK);
}

/// Whether a report of what was measured so far was asked for; the request is taken.
pub(crate) fn take_report_request() -> bool {
    REPORT_WANTED.swap(false, Ordering::Relaxed)
}

/// The supervisor's waits end early, and it looks.
extern "C" fn on_report_request(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    REPORT_WANTED.store(true, Ordering::Relaxed);
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
