//! The consumer's side of the per-CPU fault rings (layout and protocol: `bpf/wire.h`).

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::skeleton::types::{fault_ring, fault_slot};

/// Bytes that one ring of `slots` slots takes in the map.
pub fn ring_bytes(slots: u32) -> usize {
    size_of::<fault_ring>() - size_of::<fault_slot>() + slots as usize * size_of::<fault_slot>()
}

/// What the rings of all CPUs counted since they were made.
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

/// The rings of all CPUs, mapped into this process.
pub struct FaultRings {
    base: NonNull<u8>,
    mapped_bytes: usize,
    stride: usize,
    slots: u32,
    cpus: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread; shared words are read with atomics.
unsafe impl Send for FaultRings {}

impl FaultRings {
    /// Maps the array behind `map`, which holds `cpus` rings of `slots` slots (a power of two).
    pub fn map(map: BorrowedFd<'_>, cpus: usize, slots: u32) -> std::io::Result<Self> {
        let stride = ring_bytes(slots).next_multiple_of(8);
        let mapped_bytes = (stride * cpus).next_multiple_of(rustix::param::page_size());
        // SAFETY: a fresh shared mapping of a BPF array made with BPF_F_MMAPABLE; nothing else refers to it.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(std::io::Error::last_os_error)?;
        Ok(Self { base, mapped_bytes, stride, slots, cpus })
    }

    /// Number of rings.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    fn head(&self, cpu: usize) -> *mut fault_ring {
        debug_assert!(cpu < self.cpus);
        // SAFETY: cpu < cpus, so the ring lies inside the mapping.
        unsafe { self.base.as_ptr().add(cpu * self.stride) }.cast()
    }

    fn word(&self, cpu: usize, field: impl Fn(*mut fault_ring) -> *mut u64) -> &AtomicU64 {
        // SAFETY: the field is an aligned u64 inside the mapping, which lives as long as self; the kernel writes it
        // concurrently, which is why it is only ever accessed as an atomic.
        unsafe { AtomicU64::from_ptr(field(self.head(cpu))) }
    }

    /// Hands the slots that are whole to `sink`, oldest first, in one or two pieces, and frees them. Returns how many.
    pub fn drain(&mut self, cpu: usize, mut sink: impl FnMut(&[fault_slot])) -> usize {
        // SAFETY: only addresses are computed, nothing is read.
        let produced = self.word(cpu, |ring| unsafe { &raw mut (*ring).produced }).load(Ordering::Acquire);
        // SAFETY: as above.
        let consumed = self.word(cpu, |ring| unsafe { &raw mut (*ring).consumed });
        let begin = consumed.load(Ordering::Relaxed);
        let count = (produced - begin) as usize;
        if count == 0 {
            return 0;
        }
        let slots = self.slots as usize;
        let first = begin as usize & (slots - 1);
        let until_wrap = count.min(slots - first);
        // SAFETY: only the address of the first slot is computed.
        let storage = unsafe { (&raw const (*self.head(cpu)).slots).cast::<fault_slot>() };
        // SAFETY: first + until_wrap <= slots; the kernel does not write these slots until `consumed` passes them.
        sink(unsafe { std::slice::from_raw_parts(storage.add(first), until_wrap) });
        if count > until_wrap {
            // SAFETY: count <= slots, so the rest starts at 0 and ends before `first`.
            sink(unsafe { std::slice::from_raw_parts(storage, count - until_wrap) });
        }
        consumed.store(produced, Ordering::Release);
        count
    }

    /// The counts of one CPU.
    pub fn counts(&self, cpu: usize) -> FaultCounts {
        // SAFETY: only addresses are computed, nothing is read.
        let read = |field: fn(*mut fault_ring) -> *mut u64| self.word(cpu, field).load(Ordering::Relaxed);
        FaultCounts {
            // SAFETY: as above.
            recorded: read(|ring| unsafe { &raw mut (*ring).produced }),
            // SAFETY: as above.
            lost: read(|ring| unsafe { &raw mut (*ring).lost }),
            // SAFETY: as above.
            filtered: read(|ring| unsafe { &raw mut (*ring).filtered }),
            // SAFETY: as above.
            counted: read(|ring| unsafe { &raw mut (*ring).counted }),
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

impl Drop for FaultRings {
    fn drop(&mut self) {
        // SAFETY: exactly what map() mapped; no slice into it outlives drain().
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped_bytes) };
    }
}
