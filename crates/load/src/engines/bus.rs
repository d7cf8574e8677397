//! SIGBUS as an error of one operation instead of the end of the process.
//!
//! The kernel sends SIGBUS when a mapped address has no page to show: the file was truncated, its medium failed, a hugetlb pool ran
//! dry. The handler puts anonymous memory under the address, so that the interrupted copy can finish, and leaves a note; the engine
//! looks at the note after every operation and fails that operation. Addresses outside the worker's own range get the default
//! treatment. `mmap` is the only system call in the handler; it is async-signal-safe on Linux (it takes no user-space lock).

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the handler knows about a worker's range, and the note it leaves.
struct Watch {
    low: u64,
    high: u64,
    /// What is replaced at once: the page size, or the hugetlb page size, since such mappings can only be cut there.
    unit: u64,
    /// The first address that failed; 0 for none (nobody maps page 0).
    failed: AtomicU64,
}

thread_local! {
    // Constant initialisation without destructor: plain thread-local storage, which a signal handler may read.
    static WATCH: Cell<*const Watch> = const { Cell::new(std::ptr::null()) };
}

static INSTALL: Once = Once::new();

/// Guards one range for the thread that made it, as long as it lives.
pub struct BusGuard {
    watch: Box<Watch>,
}

impl BusGuard {
    /// Watches `[low, high)`; `unit` is the page size of the mapping, a power of two.
    pub fn new(low: u64, high: u64, unit: u64) -> Self {
        INSTALL.call_once(install);
        let watch = Box::new(Watch { low, high, unit, failed: AtomicU64::new(0) });
        WATCH.set(&raw const *watch);
        Self { watch }
    }

    /// Makes this the range that is watched, after another guard of the same thread was.
    pub fn watch(&self) {
        WATCH.set(&raw const *self.watch);
    }

    /// The first address that had no page, if there was one.
    #[inline(always)]
    pub fn failed(&self) -> Option<u64> {
        match self.watch.failed.load(Ordering::Relaxed) {
            0 => None,
            address => Some(address),
        }
    }
}

impl Drop for BusGuard {
    fn drop(&mut self) {
        let mine: *const Watch = &raw const *self.watch;
        if WATCH.get() == mine {
            WATCH.set(std::ptr::null());
        }
    }
}

fn install() {
    // SAFETY: a zeroed sigaction is a valid one (no flags, empty mask); the handler has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn on_bus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid siginfo to a handler installed with SA_SIGINFO, and si_addr is set for SIGBUS.
    let address = unsafe { (*info).si_addr() } as u64;
    if !repaired(address) {
        // Not ours: let the instruction fault again with the default action, which ends the process as if we were not here.
        // SAFETY: resetting a signal's disposition is async-signal-safe.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    }
}

/// Puts memory under `address` if it lies in this thread's range.
fn repaired(address: u64) -> bool {
    let watch = WATCH.get();
    if watch.is_null() {
        return false;
    }
    // SAFETY: non-null only while the BusGuard that owns the box lives, on this same thread.
    let watch = unsafe { &*watch };
    if !(watch.low..watch.high).contains(&address) {
        return false;
    }
    let page = address & !(watch.unit - 1);
    // SAFETY: errno belongs to the interrupted code and is put back; the mapping replaces only a page of the worker's own range, which
    // holds no Rust object.
    let mapped = unsafe {
        let errno = *libc::__errno_location();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let mapped = libc::mmap(
            page as *mut libc::c_void,
            watch.unit as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        );
        *libc::__errno_location() = errno;
        mapped
    };
    let _ = watch.failed.compare_exchange(0, address.max(1), Ordering::Relaxed, Ordering::Relaxed);
    mapped != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_truncated_file_is_an_error_not_a_crash() {
        let page = rustix::param::page_size();
        let mut file = tempfile::tempfile().expect("tempfile");
        file.write_all(&vec![7_u8; 2 * page]).expect("write");
        // SAFETY: a new shared mapping of a file of two pages.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), 2 * page, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        let guard = BusGuard::new(start as u64, start as u64 + 2 * page as u64, page as u64);
        let second = (start as usize + page) as *const u8;
        // SAFETY: mapped above.
        assert_eq!(unsafe { second.read_volatile() }, 7);
        assert_eq!(guard.failed(), None);
        file.set_len(page as u64).expect("truncate");
        // SAFETY: still mapped; the page is gone and the guard answers for it.
        assert_eq!(unsafe { second.read_volatile() }, 0);
        assert_eq!(guard.failed(), Some(second as u64));
        drop(guard);
        // SAFETY: the mapping made above; nothing refers to it any more.
        unsafe { libc::munmap(start, 2 * page) };
    }
}
