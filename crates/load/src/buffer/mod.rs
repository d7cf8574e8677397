//! Memory that operations transfer from and to, one buffer for each worker, and what it contains.

mod contents;
mod memory;

use std::path::Path;

pub use contents::Contents;

use crate::engines::Fault;
use crate::error::LoadError;
use crate::job::JobOptions;
use memory::Memory;

/// A buffer, present before the first operation.
pub struct Buffer {
    memory: Memory,
    contents: Contents,
    /// Writes that were stamped.
    stamped: u64,
}

impl Buffer {
    /// Ordinary memory of `len` bytes with random contents that follow from `seed`.
    ///
    /// # Errors
    /// The kernel has no memory to give.
    pub fn plain(len: usize, seed: u64) -> Result<Self, LoadError> {
        Self::new("", &JobOptions::default(), Path::new("/nonexistent"), len, seed)
    }

    /// A buffer of `len` bytes as the job asks for it.
    ///
    /// # Errors
    /// The kernel has no such memory to give.
    pub fn new(job: &str, options: &JobOptions, state_dir: &Path, len: usize, seed: u64) -> Result<Self, LoadError> {
        let memory = Memory::new(job, options, state_dir, len.max(1))?;
        let mut buffer = Self { memory, contents: Contents::new(options, seed), stamped: seed };
        let Self { memory, contents, .. } = &mut buffer;
        contents.fill(memory.bytes());
        Ok(buffer)
    }

    /// Its first byte.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.start()
    }

    /// The part that an operation of this length uses.
    ///
    /// # Errors
    /// The buffer is shorter, which the plan does not let happen.
    #[inline(always)]
    pub fn first(&mut self, bytes: u32) -> Result<&mut [u8], Fault> {
        self.memory.bytes().get_mut(..bytes as usize).ok_or(Fault::Errno(libc::EINVAL))
    }

    /// Fills what a write of this length will use anew.
    pub fn refill(&mut self, bytes: u32) {
        let Self { memory, contents, .. } = self;
        if let Some(part) = memory.bytes().get_mut(..bytes as usize) {
            contents.fill(part);
        }
    }

    /// Makes the contents of a write of this length different from every other one: a number at both ends of every 512 bytes.
    #[inline(always)]
    pub fn stamp(&mut self, bytes: u32) {
        const SECTOR: usize = 512;
        self.stamped = self.stamped.wrapping_add(1);
        let first = self.stamped.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut number = first;
        let Some(part) = self.memory.bytes().get_mut(..bytes as usize) else { return };
        for sector in part.chunks_exact_mut(SECTOR) {
            number = number.wrapping_add(1);
            if let Some((head, _)) = sector.split_first_chunk_mut::<8>() {
                *head = number.to_ne_bytes();
            }
            if let Some((_, tail)) = sector.split_last_chunk_mut::<8>() {
                *tail = number.to_ne_bytes();
            }
        }
        if bytes < SECTOR as u32
            && let Some((head, _)) = part.split_first_chunk_mut::<8>()
        {
            *head = first.to_ne_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_change_every_sector_every_time() {
        let mut buffer = Buffer::plain(4096, 1).expect("memory");
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            buffer.stamp(4096);
            for sector in buffer.first(4096).expect("long enough").chunks(512) {
                assert!(seen.insert(sector.to_vec()));
            }
        }
        buffer.stamp(100);
        assert!(buffer.first(8192).is_err());
    }
}
