//! Signals that ask this process to end: handlers for them, and which of them is a request of its own.
//!
//! The first request ends the work and keeps its results; a second one aborts. A process may get one request several
//! times: a sender that signals a group (`timeout`, a shell's `kill -- -PGID`) reaches it, and so does a parent that
//! passes its own signal on. So a request soon after another is an echo of it ([`EndRequests`]).

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// What comes within this time of a request is its echo.
const ECHO_NS: i64 = 300_000_000;

/// What a signal calls: its number, what the kernel says of it, and the interrupted context.
pub type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// Requests to end that this process has got. All of it may be called from a signal handler.
#[derive(Debug)]
pub struct EndRequests {
    count: AtomicU32,
    /// When the last one came, ns of CLOCK_MONOTONIC.
    last_ns: AtomicI64,
}

impl EndRequests {
    /// None so far.
    pub const fn none() -> Self {
        Self { count: AtomicU32::new(0), last_ns: AtomicI64::new(i64::MIN) }
    }

    /// Notes that a signal came now. The number of requests so far, if this is a new one; none if it is an echo.
    pub fn note(&self) -> Option<u32> {
        // clock_gettime(2) is async-signal-safe.
        let now = clock_gettime(ClockId::Monotonic);
        self.note_at(now.tv_sec * 1_000_000_000 + now.tv_nsec)
    }

    fn note_at(&self, now_ns: i64) -> Option<u32> {
        let last_ns = self.last_ns.load(Ordering::Relaxed);
        if now_ns.saturating_sub(last_ns) <= ECHO_NS {
            return None;
        }
        // Of two threads that are signalled at the same time one counts.
        self.last_ns.compare_exchange(last_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(self.count.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// How many there have been, echoes left out.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }
}

/// Calls `handler` for a signal from now on. Waits that the signal interrupts end early: there is no SA_RESTART.
///
/// `handler` may only do what is async-signal-safe (`signal-safety(7)`), and must leave `errno` as it was.
///
/// # Errors
/// The kernel refuses: there is no such signal, or it cannot be handled.
pub fn handle(signal: libc::c_int, handler: Handler) -> io::Result<()> {
    // SAFETY: sigaction is plain data, for which zero is a value; the handler has the signature that SA_SIGINFO asks for.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Keeps all signals from the calling thread; another one takes them.
pub fn block_all() {
    // SAFETY: a set of signals is plain integers and is filled before it is used; the call acts on this thread alone.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}

/// Whether a signal is ignored, as nohup(1) has it for SIGHUP.
pub fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: sigaction is plain data, for which zero is a value; without a new action the call only fills in the old one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_soon_after_a_request_is_its_echo() {
        let requests = EndRequests::none();
        let at = |ms: i64| requests.note_at(ms * 1_000_000);
        assert_eq!((at(5_000), at(5_001), at(5_300)), (Some(1), None, None));
        assert_eq!(at(5_301), Some(2), "echoes do not put off the next request");
        assert_eq!((at(5_500), at(9_000)), (None, Some(3)));
        assert_eq!(requests.count(), 3);
    }

    static SEEN: EndRequests = EndRequests::none();

    extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        SEEN.note();
    }

    #[test]
    fn a_signal_calls_its_handler() {
        handle(libc::SIGURG, on_signal).expect("SIGURG can be handled");
        assert!(!is_ignored(libc::SIGURG));
        // SAFETY: the handler only touches atomics.
        unsafe { libc::raise(libc::SIGURG) };
        assert_eq!(SEEN.count(), 1);
        let error = handle(libc::SIGKILL, on_signal).expect_err("SIGKILL cannot be handled");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
