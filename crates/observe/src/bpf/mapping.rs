//! Memory of a BPF map, mapped into this process.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A piece of a map in this process, shared with the kernel.
pub(super) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread; shared words are read with atomics.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes` of a map from `offset` on.
    ///
    /// # Errors
    /// The kernel does not map it.
    pub(super) fn new(
        map: BorrowedFd<'_>,
        bytes: usize,
        protection: libc::c_int,
        offset: usize,
    ) -> std::io::Result<Self> {
        // SAFETY: a fresh shared mapping; nothing else refers to it.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(std::io::Error::last_os_error)?;
        Ok(Self { base, bytes })
    }

    /// Its first byte.
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The word that lies `at` bytes behind the beginning.
    ///
    /// # Panics
    /// No aligned word lies there.
    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes, "word at byte {at} of {}", self.bytes);
        // SAFETY: an aligned u64 inside the mapping, which lives as long as self; the kernel uses it concurrently, which is why it
        // is only ever accessed as an atomic. Where the mapping is read-only it is only read.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; no slice into it outlives the borrow of its owner.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
