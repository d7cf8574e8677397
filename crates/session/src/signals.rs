//! SIGINT, SIGTERM, SIGHUP and SIGQUIT to the recorder: the first ends the work and keeps everything, the second, some
//! time later, aborts. SIGHUP comes when the terminal goes, as with an ssh connection that drops. SIGUSR2 to a flight
//! recorder: it keeps its events.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use pagelab_host::signals::{EndRequests, handle, is_ignored};

static REQUESTS: EndRequests = EndRequests::none();
static LAST: AtomicI32 = AtomicI32::new(0);
static SENT_BY_PROCESS: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    REQUESTS.note();
    LAST.store(signal, Ordering::Relaxed);
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo_t.
    let code = unsafe { info.as_ref() }.map_or(libc::SI_USER, |info| info.si_code);
    // A terminal that goes sends SIGHUP to the leader of its session alone, so that the command has it from nobody else.
    if code != libc::SI_KERNEL || signal == libc::SIGHUP {
        SENT_BY_PROCESS.store(true, Ordering::Relaxed);
    }
}

static KEEP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_keep(_signal: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    KEEP.store(true, Ordering::Relaxed);
}

/// Takes SIGUSR2 from now on; without this it ends the process, as it does every program that expects none.
pub fn listen_for_keep() -> io::Result<()> {
    KEEP.store(false, Ordering::Relaxed);
    handle(libc::SIGUSR2, on_keep)
}

/// Whether SIGUSR2 has come since [`listen_for_keep`].
pub fn asked_to_keep() -> bool {
    KEEP.load(Ordering::Relaxed)
}

/// Installs the handlers, once per process; further calls change nothing. SIGHUP and SIGQUIT stay ignored where they are,
/// as nohup(1) wants.
pub fn install() -> io::Result<()> {
    let polite = [libc::SIGHUP, libc::SIGQUIT].into_iter().filter(|signal| !is_ignored(*signal));
    [libc::SIGINT, libc::SIGTERM].into_iter().chain(polite).try_for_each(|signal| handle(signal, on_signal))
}

/// How many signals have come since the process began, echoes left out.
pub fn count() -> u32 {
    REQUESTS.count()
}

/// The latest signal.
pub fn last() -> i32 {
    LAST.load(Ordering::Relaxed)
}

/// Whether a process sent it. If not, it came from the terminal, which sends it to the whole foreground group, so that
/// the command already has it.
pub fn sent_by_process() -> bool {
    SENT_BY_PROCESS.load(Ordering::Relaxed)
}
