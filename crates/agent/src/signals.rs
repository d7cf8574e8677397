//! Signals to the agent, as bytes in a pipe: whoever sleeps on it wakes at once, and none is lost between two looks.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use pagelab_host::signals::{handle, is_ignored};
use rustix::pipe::{PipeFlags, pipe_with};

/// The end that the handler writes to; below 0: none yet.
static WRITE_END: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_signal(signal: libc::c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let byte = signal as u8;
    // SAFETY: write(2) is async-signal-safe and reads one byte of this stack; errno belongs to this thread, and is put back for what the
    // signal interrupted. A pipe that is full has bytes enough to wake whoever reads.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(WRITE_END.load(Ordering::Relaxed), (&raw const byte).cast(), 1);
        *errno = before;
    }
}

/// SIGTERM, SIGINT, SIGQUIT, SIGHUP and SIGUSR1 to this process.
#[derive(Debug)]
pub(crate) struct Signals {
    read: OwnedFd,
    /// Open for as long as the handler may run.
    _write: &'static OwnedFd,
}

impl Signals {
    /// Takes them from now on, for the rest of the process's life.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn take_over() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let write: &'static OwnedFd = Box::leak(Box::new(write));
        WRITE_END.store(write.as_raw_fd(), Ordering::Relaxed);
        // SIGHUP stays ignored where it is, as nohup(1) wants.
        let polite = Some(libc::SIGHUP).filter(|signal| !is_ignored(*signal));
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1].into_iter().chain(polite) {
            handle(signal, on_signal)?;
        }
        Ok(Self { read, _write: write })
    }

    /// Those that have come since they were last asked for.
    pub(crate) fn came(&self) -> Vec<libc::c_int> {
        let mut bytes = [0_u8; 64];
        let count = rustix::io::read(&self.read, &mut bytes).unwrap_or(0);
        bytes[..count].iter().map(|signal| libc::c_int::from(*signal)).collect()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}
