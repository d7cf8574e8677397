//! Kernel text under a folder that stands for `/`, and memory to look at.

use std::fs;
use std::path::Path;

use crate::page_size::SLOT;

/// Writes a file, with the folders above it.
pub(crate) fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
    fs::write(path, text).expect("write");
}

/// Anonymous memory of this process that begins at a multiple of 2 MiB; gone when dropped.
pub(crate) struct Memory {
    mapped: usize,
    mapped_bytes: usize,
    /// Address of the first byte.
    pub(crate) address: usize,
}

impl Memory {
    /// `slots` times 2 MiB, advised to be huge.
    pub(crate) fn advised(slots: usize) -> Self {
        let memory = Self::new(slots);
        memory.advise(0, slots * SLOT as usize, libc::MADV_HUGEPAGE);
        memory
    }

    /// `slots` times 2 MiB. It has no neighbours, so that it stays a mapping of its own.
    pub(crate) fn new(slots: usize) -> Self {
        let mapped_bytes = (slots + 2) * SLOT as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping; nothing else refers to it.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), mapped_bytes, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(mapped, libc::MAP_FAILED);
        let address = (mapped as usize + 4096).next_multiple_of(SLOT as usize);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a part of the mapping just made.
        assert_eq!(unsafe { libc::mprotect(address as *mut _, slots * SLOT as usize, protection) }, 0);
        Self { mapped: mapped as usize, mapped_bytes, address }
    }

    /// madvise of `bytes` at `offset`; whether the kernel took it.
    pub(crate) fn advise(&self, offset: usize, bytes: usize, advice: libc::c_int) -> bool {
        // SAFETY: a part of the mapping, to which nobody holds references.
        unsafe { libc::madvise((self.address + offset) as *mut _, bytes, advice) == 0 }
    }

    /// Writes the byte at `offset`.
    pub(crate) fn touch(&self, offset: usize) {
        // SAFETY: inside the mapping, which is writable.
        unsafe { ((self.address + offset) as *mut u8).write_volatile(1) };
    }

    /// Reads the byte at `offset`.
    pub(crate) fn read(&self, offset: usize) {
        // SAFETY: inside the mapping, which is readable.
        unsafe { ((self.address + offset) as *const u8).read_volatile() };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.mapped as *mut _, self.mapped_bytes) };
    }
}
