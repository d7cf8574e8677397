//! Memory that operations transfer from and to, and its contents: one buffer for each worker, with a slot for each
//! operation that can be in flight.

mod contents;
mod memory;

use std::path::Path;

pub use contents::Contents;

use pagelab_fiojob::JobOptions;

use crate::error::LoadError;
use crate::fault::Fault;
use memory::Memory;

/// How a buffer is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// How many operations can be under way.
    pub count: u32,
    /// The longest of them.
    pub bytes: usize,
}

/// A buffer, present before the first operation. One of its slots is selected at a time; without a queue there is one.
pub struct Buffer {
    memory: Memory,
    contents: Contents,
    /// The selected slot.
    selected: *mut u8,
    slot_bytes: usize,
    /// Writes that were stamped.
    stamped: u64,
}

impl Buffer {
    /// Ordinary memory of `len` bytes with random contents that follow from `seed`.
    ///
    /// # Errors
    /// The kernel has no memory to give.
    pub fn plain(len: usize, seed: u64) -> Result<Self, LoadError> {
        let slots = Slots { count: 1, bytes: len };
        Self::new("", &JobOptions::default(), Path::new("/nonexistent"), slots, seed)
    }

    /// A buffer for these slots as the job asks for it.
    ///
    /// # Errors
    /// The kernel has no such memory to give.
    pub fn new(job: &str, options: &JobOptions, state_dir: &Path, slots: Slots, seed: u64) -> Result<Self, LoadError> {
        let align = usize::try_from(options.iomem_align.0).unwrap_or(usize::MAX).max(rustix::param::page_size());
        let slot_bytes = if slots.count > 1 {
            // Every slot is aligned as the first one is. Validation bounds both summands.
            slots.bytes.checked_next_multiple_of(align).unwrap_or(usize::MAX)
        } else {
            slots.bytes.max(1)
        };
        let all = slot_bytes.saturating_mul(slots.count.max(1) as usize);
        let memory = Memory::new(job, options, state_dir, all)?;
        let selected = memory.start();
        let mut buffer = Self { memory, contents: Contents::new(options, seed), selected, slot_bytes, stamped: seed };
        let Self { memory, contents, .. } = &mut buffer;
        contents.fill(memory.bytes());
        Ok(buffer)
    }

    /// Selects the `slot` that the other methods work on.
    ///
    /// # Errors
    /// There is no such slot, which the depth does not let happen.
    #[inline(always)]
    pub fn select(&mut self, slot: u32) -> Result<(), Fault> {
        let from = slot as usize * self.slot_bytes;
        let slot = self.memory.bytes().get_mut(from..from + self.slot_bytes).ok_or(Fault::Errno(libc::EINVAL))?;
        self.selected = slot.as_mut_ptr();
        Ok(())
    }

    /// The part of a slot that an operation of this length uses, whichever slot is selected.
    ///
    /// # Errors
    /// There is no such slot, or it is shorter, which depth and plan do not let happen.
    pub fn slot(&mut self, slot: u32, bytes: u32) -> Result<&mut [u8], Fault> {
        let from = slot as usize * self.slot_bytes;
        let within = bytes as usize <= self.slot_bytes;
        let part = self.memory.bytes().get_mut(from..from + bytes as usize).filter(|_| within);
        part.ok_or(Fault::Errno(libc::EINVAL))
    }

    /// Distance of the slots.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// The selected slot's first byte.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        self.selected
    }

    /// The part of the selected slot that an operation of this length uses.
    ///
    /// # Errors
    /// The slot is shorter, which the plan does not let happen.
    #[inline(always)]
    pub fn first(&mut self, bytes: u32) -> Result<&mut [u8], Fault> {
        if bytes as usize > self.slot_bytes {
            return Err(Fault::Errno(libc::EINVAL));
        }
        // SAFETY: `selected` to `selected + slot_bytes` lies in the memory of this value, which is borrowed exclusively.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.selected, bytes as usize) })
    }

    /// Fills what a write of this length will use anew.
    pub fn refill(&mut self, bytes: u32) {
        if let Ok(part) = self.first(bytes) {
            let part: *mut [u8] = part;
            // SAFETY: the contents are no part of the memory.
            self.contents.fill(unsafe { &mut *part });
        }
    }

    /// Makes the contents of a write of this length different from every other one: a number at both ends of every 512 bytes.
    #[inline(always)]
    pub fn stamp(&mut self, bytes: u32) {
        const SECTOR: usize = 512;
        self.stamped = self.stamped.wrapping_add(1);
        let first = self.stamped.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut number = first;
        let Ok(part) = self.first(bytes) else { return };
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

    #[test]
    fn slots_lie_side_by_side() {
        let mut options = JobOptions::default();
        options.iomem_align.0 = 1 << 14;
        let slots = Slots { count: 3, bytes: 5000 };
        let mut buffer = Buffer::new("j", &options, Path::new("/nonexistent"), slots, 1).expect("memory");
        let first = buffer.as_ptr() as usize;
        for slot in 0..3 {
            buffer.select(slot).expect("there are three");
            assert_eq!(buffer.as_ptr() as usize, first + slot as usize * (1 << 14));
            buffer.first(5000).expect("long enough").fill(slot as u8);
        }
        buffer.select(1).expect("there are three");
        assert!(buffer.first(5000).expect("long enough").iter().all(|byte| *byte == 1));
        assert!(buffer.select(3).is_err());
    }
}
