//! SIGINT, SIGTERM, SIGHUP and SIGQUIT to the recorder: the first ends the work and keeps everything, the second, some time
//! later, aborts. SIGHUP comes when the terminal goes, as with a connection of ssh that drops.
//! SIGUSR2 to a flight recorder: what it has is kept.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, Ordering};

use crate::recorder::monotonic_ns;

static RECEIVED: AtomicU32 = AtomicU32::new(0);
static LAST: AtomicI32 = AtomicI32::new(0);
static SENT_BY_PROCESS: AtomicU32 = AtomicU32::new(0);

/// When the last signal that counted came, ns of `CLOCK_MONOTONIC`.
static COUNTED_NS: AtomicI64 = AtomicI64::new(i64::MIN);

/// What comes this soon after a signal is the same wish: `timeout` signals its command and then its whole group.
const ECHO_NS: i64 = 300_000_000;

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // clock_gettime(2) is async-signal-safe.
    let now = monotonic_ns();
    if now.saturating_sub(COUNTED_NS.load(Ordering::Relaxed)) > ECHO_NS {
        COUNTED_NS.store(now, Ordering::Relaxed);
        RECEIVED.fetch_add(1, Ordering::Relaxed);
    }
    LAST.store(signal, Ordering::Relaxed);
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo_t.
    let code = unsafe { info.as_ref() }.map_or(libc::SI_USER, |info| info.si_code);
    // A terminal that goes sends SIGHUP to the leader of its session alone, so that the command has it from nobody else.
    if code != libc::SI_KERNEL || signal == libc::SIGHUP {
        SENT_BY_PROCESS.store(1, Ordering::Relaxed);
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

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

fn handle(signal: i32, handler: Handler) -> io::Result<()> {
    // SAFETY: sigaction is plain data; handlers only touch atomics. No SA_RESTART, so that waits end early.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Installs the handlers, once per process; further calls change nothing. SIGHUP and SIGQUIT stay ignored where they are,
/// as nohup(1) wants.
pub fn install() -> io::Result<()> {
    let polite = [libc::SIGHUP, libc::SIGQUIT].into_iter().filter(|signal| !is_ignored(*signal));
    [libc::SIGINT, libc::SIGTERM].into_iter().chain(polite).try_for_each(|signal| handle(signal, on_signal))
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is plain data, for which zero is a value; without a new action the call only fills in the old one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// How many signals have come since the process began, echoes left out.
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
