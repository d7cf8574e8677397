//! SIGINT, SIGTERM, SIGHUP and SIGQUIT to the recorder: the first ends the work and keeps everything, the second, some
//! time later, aborts. SIGHUP comes when the terminal goes, as with an ssh connection that drops. SIGUSR2 to a flight
//! recorder: it keeps its events. SIGUSR1 to a recorder of jobs goes on to the load, which reports what it has measured so far.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};
use std::time::Duration;

use pagelab_host::signals::{EndRequests, handle, is_ignored};
use pagelab_observe::watcher::monotonic_ns;

static REQUESTS: EndRequests = EndRequests::none();
static LAST: AtomicI32 = AtomicI32::new(0);
static SENT_BY_PROCESS: AtomicBool = AtomicBool::new(false);
/// When the last one came that was no echo, CLOCK_MONOTONIC, ns.
static LAST_NS: AtomicI64 = AtomicI64::new(0);
/// The descriptor of an event that is to be raised; none is -1.
static WAKE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let is_new = REQUESTS.note().is_some();
    LAST.store(signal, Ordering::Relaxed);
    let wake = WAKE.load(Ordering::Relaxed);
    if is_new {
        LAST_NS.store(monotonic_ns(), Ordering::Relaxed);
    }
    if is_new && wake >= 0 {
        let one = 1_u64;
        // SAFETY: write(2) is async-signal-safe; errno is put back. A descriptor that is closed meanwhile takes nothing.
        unsafe {
            let errno = *libc::__errno_location();
            libc::write(wake, (&raw const one).cast(), size_of::<u64>());
            *libc::__errno_location() = errno;
        }
    }
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

/// The load process that SIGUSR1 goes on to; 0 while there is none.
static LOAD: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_report_request(signal: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let pid = LOAD.load(Ordering::Acquire);
    if pid > 0 {
        // SAFETY: errno belongs to the interrupted code and is put back; kill(2) touches no memory, and the process is our child and
        // not reaped while its number stands here.
        unsafe {
            let errno = *libc::__errno_location();
            libc::kill(pid, signal);
            *libc::__errno_location() = errno;
        }
    }
}

/// Takes SIGUSR1 from now on; it goes on to the load once there is one.
pub(crate) fn listen_for_report_requests() -> io::Result<()> {
    handle(libc::SIGUSR1, on_report_request)
}

/// SIGUSR1 goes on to this process, or to none.
pub(crate) fn pass_report_requests_to(load: Option<i32>) {
    LOAD.store(load.unwrap_or(0), Ordering::Release);
}

/// Does something while SIGUSR1 waits, in the processes too that are forked meanwhile: until a load has a handler of its own for it.
pub(crate) fn with_report_requests_held<T>(work: impl FnOnce() -> T) -> T {
    let mask = |how| {
        // SAFETY: a zeroed sigset_t is a valid one, which is then made empty; the calls write to it alone and to this thread's mask.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGUSR1);
            libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut());
        }
    };
    mask(libc::SIG_BLOCK);
    let done = work();
    mask(libc::SIG_UNBLOCK);
    done
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

/// Whether a second signal has come since there were `before`, and some time has passed since.
pub(crate) fn is_impatient(before: u32, after: Duration) -> bool {
    let since_ns = monotonic_ns().saturating_sub(LAST_NS.load(Ordering::Relaxed));
    count() >= before.saturating_add(2) && u128::try_from(since_ns).is_ok_and(|since| since >= after.as_nanos())
}

/// The event that each signal raises from now on.
pub(crate) fn wake(event: Option<RawFd>) {
    WAKE.store(event.unwrap_or(-1), Ordering::Relaxed);
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
