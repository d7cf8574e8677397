//! Page-aligned memory that operations transfer from and to.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::error::LoadError;
use crate::random::SplitMix64;

/// Memory of its own mapping, filled with random bytes: incompressible, and present before the first operation.
pub struct Buffer {
    start: *mut u8,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone; moving it to another thread moves that ownership.
unsafe impl Send for Buffer {}

impl Buffer {
    /// A buffer of `len` bytes, whose contents follow from `seed`.
    ///
    /// # Errors
    /// The kernel has no memory to give.
    pub fn new(len: usize, seed: u64) -> Result<Self, LoadError> {
        let len = len.max(1).next_multiple_of(rustix::param::page_size());
        // SAFETY: a new private mapping at an address of the kernel's choice overlaps nothing.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }
                .map_err(|error| LoadError::system(format!("allocating a buffer of {len} bytes"), error))?;
        let mut buffer = Self { start: start.cast(), len };
        let mut draw = SplitMix64::new(seed);
        for chunk in buffer.as_mut_slice().chunks_mut(8) {
            let bytes = draw.next_u64().to_ne_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        Ok(buffer)
    }

    /// Its first byte.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// All of it.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` to `start + len` is one readable mapping that lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// All of it, for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, writable, and borrowed exclusively through `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length and nothing refers to it any more.
        // Failure would leave memory mapped until exit, which is harmless.
        let _ = unsafe { munmap(self.start.cast(), self.len) };
    }
}
