//! Bytes of files that are mapped instead of copied, safely: what reads them goes on if somebody shortens the file.
//!
//! Reading a page of a mapping that lies beyond the end of its file raises SIGBUS (mmap(2)). The handler lays a page of zeros over it, and
//! the reader goes on with these. Any other SIGBUS is dealt with as if there were no handler.

use std::fs::File;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Mmap, MmapOptions};

/// Mappings at a time; what comes later is not mapped.
const MAPPED_MAX: usize = 1024;

/// Where one mapping is; both are 0 in a free slot.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
}

static SLOTS: [Slot; MAPPED_MAX] =
    [const { Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; MAPPED_MAX];

/// What the handler needs to know.
struct Installed {
    page_bytes: usize,
    before: libc::sigaction,
}

static INSTALLED: OnceLock<Option<Installed>> = OnceLock::new();

/// Bytes of a file.
pub(super) struct Mapped {
    bytes: Mmap,
    slot: &'static Slot,
}

impl Mapped {
    /// Maps so many bytes from `offset`; none if that cannot be done, or not safely.
    ///
    /// The file must be one that only trusted users change: content that changes while it is read may be anything.
    pub(super) fn of(file: &File, offset: u64, bytes: u64) -> Option<Self> {
        INSTALLED.get_or_init(install).as_ref()?;
        let mut options = MmapOptions::new();
        options.offset(offset).len(usize::try_from(bytes).ok()?);
        // SAFETY: if the file is shortened the handler puts zeros in the place of what is gone. If it is changed, readers see other bytes,
        // which are as well formed as any that a file may hold.
        let bytes = unsafe { options.map(file) }.ok()?;
        let start = bytes.as_ptr() as usize;
        let is_taken =
            |slot: &&Slot| slot.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let slot = SLOTS.iter().find(is_taken)?;
        slot.end.store(start + bytes.len(), Ordering::Release);
        Some(Self { bytes, slot })
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.slot.end.store(0, Ordering::Release);
        self.slot.start.store(0, Ordering::Release);
    }
}

fn is_mapped(addr: usize) -> bool {
    SLOTS.iter().any(|slot| {
        let (start, end) = (slot.start.load(Ordering::Acquire), slot.end.load(Ordering::Acquire));
        (start..end).contains(&addr)
    })
}

fn install() -> Option<Installed> {
    // SAFETY: both structures are plain data, of which zeros are a value; the handler does only what is safe in one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigbus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        let mut before: libc::sigaction = std::mem::zeroed();
        let installed = libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) == 0;
        installed.then(|| Installed { page_bytes: rustix::param::page_size(), before })
    }
}

/// Atomics and two system calls: safe in a handler (signal-safety(7)).
extern "C" fn on_sigbus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // Between the handler's coming into force and this being set nothing of ours is mapped.
    let Some(Some(installed)) = INSTALLED.get() else { std::process::abort() };
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid structure; the page that is replaced is one of a mapping of ours; the errno
    // of what was interrupted is put back.
    unsafe {
        let addr = (*info).si_addr() as usize;
        let errno = *libc::__errno_location();
        let page = addr & !(installed.page_bytes - 1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let is_replaced = is_mapped(addr)
            && libc::mmap(page as *mut libc::c_void, installed.page_bytes, libc::PROT_READ, flags, -1, 0)
                != libc::MAP_FAILED;
        if !is_replaced {
            // What raised it is tried again, and then is dealt with as before.
            libc::sigaction(libc::SIGBUS, &raw const installed.before, std::ptr::null_mut());
        }
        *libc::__errno_location() = errno;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn what_is_gone_of_a_shortened_file_reads_as_zeros() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[7; 3 * 4096]).expect("room");
        let mapped = Mapped::of(&file, 16, 2 * 4096).expect("it is mapped");
        assert!(mapped.iter().all(|byte| *byte == 7) && mapped.len() == 2 * 4096);
        file.set_len(4096).expect("ours");
        assert_eq!(mapped[4096 - 17], 7);
        assert_eq!([mapped[4096 - 16], mapped[2 * 4096 - 1]], [0, 0]);
        let start = mapped.as_ptr() as usize;
        assert!(is_mapped(start));
        drop(mapped);
        assert!(!is_mapped(start));
    }

    #[test]
    fn more_than_there_are_slots_is_not_mapped() {
        // Other tests have some, too.
        let file = File::open("/proc/self/exe").expect("this test");
        let mapped: Vec<Option<Mapped>> = (0..=MAPPED_MAX).map(|_| Mapped::of(&file, 0, 10)).collect();
        assert!(mapped.first().is_some_and(Option::is_some) && mapped.last().is_some_and(Option::is_none));
    }

    const CRASHES: &str = "PAGELAB_TEST_CRASHES";

    /// Run by the test below: reads a mapping of its own, that is none of ours, beyond the end of its file.
    #[test]
    fn reads_beyond_the_end() {
        if std::env::var_os(CRASHES).is_none() {
            return;
        }
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[7; 4096]).expect("room");
        let safe = Mapped::of(&file, 0, 16).expect("it is mapped");
        // SAFETY: nobody reads it but the line below, which is meant to crash.
        let other = unsafe { Mmap::map(&file) }.expect("it is mapped");
        file.set_len(0).expect("ours");
        assert_eq!(safe[0], 0);
        std::hint::black_box(other[0]);
    }

    #[test]
    fn another_sigbus_kills_as_it_did() {
        let ended = std::process::Command::new(std::env::current_exe().expect("/proc"))
            .args(["--exact", "stacks::mapped::tests::reads_beyond_the_end"])
            .env(CRASHES, "1")
            .output()
            .expect("this test");
        assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{ended:?}");
    }
}
