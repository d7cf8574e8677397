//! The consumer's side of the rings that BPF programs write into memory mapped here, one per CPU (layouts and protocol: `bpf/wire.h`).

use std::marker::PhantomData;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use pagelab_vocab::remedies::{self, Place};

use super::BpfError;
use super::mapping::Mapping;
use super::skeleton::types::{call_ring, fault_ring, fault_slot};

/// The head of a ring, as the program sees it.
pub trait Head {
    /// What follows the head: slots, words or bytes.
    type Item: Copy;
    /// Where the items begin.
    const ITEMS_AT: usize;
    /// Where the position of the producer is.
    const PRODUCED_AT: usize;
    /// Where the position of the consumer is.
    const CONSUMED_AT: usize;
    /// Items behind the ring's end, into which a record may go on that begins before it; none if records are taken in two pieces.
    const OVERHANG: usize = 0;
}

impl Head for fault_ring {
    type Item = fault_slot;
    const ITEMS_AT: usize = offset_of!(Self, slots);
    const PRODUCED_AT: usize = offset_of!(Self, produced);
    const CONSUMED_AT: usize = offset_of!(Self, consumed);
}

impl Head for call_ring {
    type Item = u64;
    const ITEMS_AT: usize = offset_of!(Self, words);
    const PRODUCED_AT: usize = offset_of!(Self, produced);
    const CONSUMED_AT: usize = offset_of!(Self, consumed);
}

/// Bytes that one ring of `items` items takes in the map.
pub(crate) fn ring_bytes<H: Head>(items: u32) -> usize {
    H::ITEMS_AT + (items as usize + H::OVERHANG) * size_of::<H::Item>()
}

/// The greatest power of two of items that fits into `bytes`, at least 64.
pub(crate) fn ring_items<H: Head>(bytes: usize) -> u32 {
    let items = (bytes / size_of::<H::Item>()).clamp(64, 1 << 26) as u32;
    1 << items.ilog2()
}

/// The rings of all CPUs, mapped into this process.
pub struct Rings<H: Head> {
    mapping: Mapping,
    stride: usize,
    items: u32,
    cpus: usize,
    head: PhantomData<fn() -> H>,
}

impl<H: Head> Rings<H> {
    /// Maps the array behind `map`, which holds `cpus` rings of `items` items (a power of two).
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn map(map: BorrowedFd<'_>, cpus: usize, items: u32) -> Result<Self, BpfError> {
        let stride = ring_bytes::<H>(items).next_multiple_of(8);
        let bytes = (stride * cpus).next_multiple_of(rustix::param::page_size());
        let mapping = Mapping::new(map, bytes, libc::PROT_READ | libc::PROT_WRITE, 0);
        let mapping = mapping.map_err(|error| BpfError::Refused {
            step: "mapping the rings",
            reason: error.to_string(),
            needed: remedies::needed(
                error.raw_os_error(),
                Place::Mmap,
                "memory for the rings of all CPUs; try: --ring-bytes with a smaller value",
            ),
        })?;
        Ok(Self { mapping, stride, items, cpus, head: PhantomData })
    }

    /// Number of rings.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Items in each ring.
    pub fn items(&self) -> u32 {
        self.items
    }

    /// The word of a head that lies `at` bytes behind its beginning.
    pub(crate) fn word(&self, cpu: usize, at: usize) -> &AtomicU64 {
        assert!(cpu < self.cpus && at < H::ITEMS_AT, "ring {cpu} of {}, byte {at}", self.cpus);
        self.mapping.word(cpu * self.stride + at)
    }

    /// The items of a ring; they begin behind its head, inside the mapping, aligned for them.
    fn storage(&self, cpu: usize) -> *const H::Item {
        assert!(cpu < self.cpus, "ring {cpu} of {}", self.cpus);
        // SAFETY: cpu < cpus, so the ring lies inside the mapping.
        unsafe { self.mapping.base().add(cpu * self.stride + H::ITEMS_AT).cast() }
    }

    /// Where the producer of a ring is.
    pub fn produced(&self, cpu: usize) -> u64 {
        self.word(cpu, H::PRODUCED_AT).load(Ordering::Acquire)
    }

    /// The items of a ring that are whole, oldest first.
    pub fn pending(&self, cpu: usize) -> Pending<'_, H::Item> {
        self.pending_until(cpu, self.produced(cpu))
    }

    /// The items of a ring up to where [`Rings::produced`] saw its producer; never more than a ring holds.
    ///
    /// # Panics
    /// There is no such ring.
    pub fn pending_until(&self, cpu: usize, produced: u64) -> Pending<'_, H::Item> {
        let begin = self.consumed(cpu);
        let items = self.items as usize;
        // Positions that make no sense must not reach beyond the ring.
        let count = usize::try_from(produced.saturating_sub(begin)).unwrap_or(usize::MAX).min(items);
        let first = begin as usize & (items - 1);
        let until_wrap = count.min(items - first);
        let storage = self.storage(cpu);
        // SAFETY: first + until_wrap <= items; the kernel does not write these until `consumed` passes them, which `release`
        // sees to after the borrow has ended.
        let older = unsafe { std::slice::from_raw_parts(storage.add(first), until_wrap) };
        // SAFETY: count <= items, so the rest starts at 0 and ends before `first`.
        let newer = unsafe { std::slice::from_raw_parts(storage, count - until_wrap) };
        Pending { older, newer, produced }
    }

    /// Where the consumer of a ring is: everything before is free.
    pub(crate) fn consumed(&self, cpu: usize) -> u64 {
        self.word(cpu, H::CONSUMED_AT).load(Ordering::Relaxed)
    }

    /// The items of a ring from a position on in one piece, `len` at most and never more than [`Head::OVERHANG`]. They must lie
    /// between consumer and producer.
    pub(crate) fn piece(&self, cpu: usize, at: u64, len: usize) -> &[H::Item] {
        let first = at as usize & (self.items as usize - 1);
        // SAFETY: first < items, and as many as OVERHANG follow the last item; the kernel does not write what lies between
        // `consumed` and `produced`.
        unsafe { std::slice::from_raw_parts(self.storage(cpu).add(first), len.min(H::OVERHANG)) }
    }

    /// Frees the items of a ring up to where [`Rings::pending`] saw them.
    pub fn release(&mut self, cpu: usize, produced: u64) {
        self.word(cpu, H::CONSUMED_AT).store(produced, Ordering::Release);
    }
}

/// Items of a ring; what lies behind the ring's end is in `newer`.
#[derive(Debug, Clone, Copy)]
pub struct Pending<'a, T> {
    /// The first piece.
    pub older: &'a [T],
    /// The second, mostly empty.
    pub newer: &'a [T],
    /// Where the producer was, for [`Rings::release`].
    pub produced: u64,
}

/// The rings of page faults.
pub type FaultRings = Rings<fault_ring>;

/// The rings of system calls.
pub type CallRings = Rings<call_ring>;

/// What the rings of page faults counted since they were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Recorded faults.
    pub recorded: u64,
    /// Faults that found the ring full.
    pub lost: u64,
    /// Accesses with page faults disabled: they fail and map nothing.
    pub filtered: u64,
    /// Faults seen by a program that only counts.
    pub counted: u64,
}

impl FaultCounts {
    /// Every fault on a user address that the program saw and that was allowed to be handled.
    pub fn seen(&self) -> u64 {
        self.recorded + self.lost + self.counted
    }
}

impl Rings<fault_ring> {
    /// The counts of one CPU.
    pub fn counts(&self, cpu: usize) -> FaultCounts {
        let read = |at| self.word(cpu, at).load(Ordering::Relaxed);
        FaultCounts {
            recorded: read(offset_of!(fault_ring, produced)),
            lost: read(offset_of!(fault_ring, lost)),
            filtered: read(offset_of!(fault_ring, filtered)),
            counted: read(offset_of!(fault_ring, counted)),
        }
    }

    /// The sum over all CPUs.
    pub fn total(&self) -> FaultCounts {
        (0..self.cpus).map(|cpu| self.counts(cpu)).fold(FaultCounts::default(), |sum, one| FaultCounts {
            recorded: sum.recorded + one.recorded,
            lost: sum.lost + one.lost,
            filtered: sum.filtered + one.filtered,
            counted: sum.counted + one.counted,
        })
    }
}

/// What the rings of system calls counted since they were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls that are in the ring, or were.
    pub recorded: u64,
    /// Calls that found it full.
    pub lost: u64,
    /// Calls that the program was to record, counted before it tried: `recorded + lost`, or all if it only counts.
    pub returned: u64,
    /// Times off the CPU that the program was to record.
    pub off_seen: u64,
    /// Of these, the ones that found the ring full.
    pub off_lost: u64,
}

impl Rings<call_ring> {
    /// The counts of one CPU.
    pub fn counts(&self, cpu: usize) -> CallCounts {
        let read = |at| self.word(cpu, at).load(Ordering::Relaxed);
        CallCounts {
            recorded: read(offset_of!(call_ring, recorded)),
            lost: read(offset_of!(call_ring, lost)),
            returned: read(offset_of!(call_ring, returned)),
            off_seen: read(offset_of!(call_ring, off_seen)),
            off_lost: read(offset_of!(call_ring, off_lost)),
        }
    }

    /// The sum over all CPUs.
    pub fn total(&self) -> CallCounts {
        (0..self.cpus).map(|cpu| self.counts(cpu)).fold(CallCounts::default(), |sum, one| CallCounts {
            recorded: sum.recorded + one.recorded,
            lost: sum.lost + one.lost,
            returned: sum.returned + one.returned,
            off_seen: sum.off_seen + one.off_seen,
            off_lost: sum.off_lost + one.off_lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// Two rings of 64 words in memory that is no BPF map's.
    fn rings() -> CallRings {
        let fd = rustix::fs::memfd_create("rings", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
        rustix::fs::ftruncate(&fd, 1 << 16).expect("memory");
        CallRings::map(fd.as_fd(), 2, 64).expect("it is mapped")
    }

    #[test]
    fn positions_that_make_no_sense_stay_within_the_ring() {
        let mut rings = rings();
        for (consumed, produced, count) in
            [(0, 10, 10), (60, 70, 10), (0, u64::MAX, 64), (70, 60, 0), (u64::MAX, 5, 0), (1 << 63, u64::MAX, 64)]
        {
            rings.release(1, consumed);
            let pending = rings.pending_until(1, produced);
            assert_eq!(pending.older.len() + pending.newer.len(), count, "{consumed}..{produced}");
            // What is handed out can be read.
            assert_eq!(pending.older.iter().chain(pending.newer).sum::<u64>(), 0);
        }
    }

    #[test]
    #[should_panic(expected = "ring 2 of 2")]
    fn a_ring_that_is_not_there_is_not_read() {
        rings().counts(2);
    }
}
