//! The consumer's side of the per-CPU rings of samples (layout and protocol: `bpf/stack.bpf.h`).

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::skeleton::types::{sample_flag, sample_head, sample_ring};

/// The largest record; the BPF program's `SAMPLE_BYTES_MAX`, rounded up. A record may go on so far behind the ring's end.
const RECORD_BYTES_MAX: usize = 64 << 10;

/// The smallest ring: two of the largest samples must fit.
const RING_BYTES_MIN: usize = 128 << 10;
const RING_BYTES_MAX: usize = 256 << 20;

/// The greatest power of two of bytes that is at most `bytes`, within what a ring can be.
pub fn ring_bytes(bytes: usize) -> usize {
    1 << bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX).ilog2()
}

/// Bytes that one ring of `ring_bytes` takes in the map.
pub fn value_bytes(ring_bytes: usize) -> usize {
    size_of::<sample_ring>() + ring_bytes + RECORD_BYTES_MAX
}

/// What was counted on a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleCounts {
    /// Stacks that were to be recorded: ticks that met a recorded task, or sleeps that began.
    pub seen: u64,
    /// Of these, the ones that found no room.
    pub lost: u64,
    /// Of these, the ones that were written.
    pub recorded: u64,
}

/// One sample, as it lies in the ring.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// Events that it stands for; ns for clocks.
    pub period: u64,
    /// Who ran.
    pub task_id: u32,
    /// The address space; none if the observer has not named it yet.
    pub mm_id: Option<u32>,
    /// The process.
    pub pid: u32,
    /// Instruction pointer, stack pointer and frame pointer of user space.
    pub regs: [u64; 3],
    /// The kernel's stack, innermost first, 8 bytes a frame; empty if the task was in user space.
    pub kernel: &'a [u8],
    /// The chain of frame pointers of user space, innermost first, 8 bytes a frame.
    pub user: &'a [u8],
    /// The user's stack from the stack pointer on.
    pub copy: &'a [u8],
    /// The kernel's stack is longer.
    pub kernel_cut: bool,
    /// The chain of frame pointers is longer.
    pub user_cut: bool,
    /// The copy ends before the stack does.
    pub copy_cut: bool,
    /// It does so because a page could not be read.
    pub copy_failed: bool,
    /// The number that the user's stack was given by [`Stacks::of_task`](crate::stacks::Stacks::of_task); then there is no copy.
    pub place: Option<u32>,
    /// There is no stack of user space because there was no room for it.
    pub no_room: bool,
}

/// The rings of all CPUs, mapped into this process.
pub struct SampleRings {
    base: NonNull<u8>,
    mapped_bytes: usize,
    stride: usize,
    ring_bytes: usize,
    cpus: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread; shared words are read with atomics.
unsafe impl Send for SampleRings {}

impl SampleRings {
    /// Maps the array behind `map`, which holds `cpus` rings of `ring_bytes` (a power of two).
    pub(crate) fn map(map: BorrowedFd<'_>, cpus: usize, ring_bytes: usize) -> std::io::Result<Self> {
        let stride = value_bytes(ring_bytes).next_multiple_of(8);
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
        Ok(Self { base, mapped_bytes, stride, ring_bytes, cpus })
    }

    /// Number of rings.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    fn head(&self, cpu: usize) -> *mut sample_ring {
        assert!(cpu < self.cpus, "ring {cpu} of {}", self.cpus);
        // SAFETY: cpu < cpus, so the ring lies inside the mapping.
        unsafe { self.base.as_ptr().add(cpu * self.stride) }.cast()
    }

    fn word(&self, cpu: usize, field: impl Fn(*mut sample_ring) -> *mut u64) -> &AtomicU64 {
        // SAFETY: the field is an aligned u64 inside the mapping, which lives as long as self; the kernel writes it
        // concurrently, which is why it is only ever accessed as an atomic.
        unsafe { AtomicU64::from_ptr(field(self.head(cpu))) }
    }

    /// Hands the samples of a CPU that are older than `until_ns` to `sink`, oldest first, and frees their room.
    pub fn drain(&mut self, cpu: usize, until_ns: u64, mut sink: impl FnMut(&Sample<'_>)) {
        // SAFETY: only addresses are computed, nothing is read.
        let produced = self.word(cpu, |ring| unsafe { &raw mut (*ring).produced }).load(Ordering::Acquire);
        // SAFETY: as above.
        let consumed = self.word(cpu, |ring| unsafe { &raw mut (*ring).consumed });
        let mut at = consumed.load(Ordering::Relaxed);
        // SAFETY: only the address of the first byte is computed.
        let data = unsafe { (&raw const (*self.head(cpu)).data).cast::<u8>() };
        // Nothing whole lies further back than a ring is long.
        let produced = produced.min(at.saturating_add(self.ring_bytes as u64));
        while at < produced {
            let offset = at as usize & (self.ring_bytes - 1);
            // SAFETY: offset < ring_bytes, and the room behind the ring holds the largest record; the type consists of
            // integers only, and the kernel does not write to what lies between `consumed` and `produced`.
            let head: sample_head = unsafe { data.add(offset).cast::<sample_head>().read_unaligned() };
            let len = (head.len as usize).min(RECORD_BYTES_MAX);
            // SAFETY: as above; a record is whole below `produced`.
            let bytes = unsafe { std::slice::from_raw_parts(data.add(offset), len) };
            let Some(sample) = read(&head, bytes) else {
                // Never seen; what cannot be read is given up rather than read again for ever.
                at = produced;
                break;
            };
            if sample.ts >= until_ns {
                break;
            }
            sink(&sample);
            at += len as u64;
        }
        consumed.store(at, Ordering::Release);
    }

    /// The counts of one CPU.
    pub fn counts(&self, cpu: usize) -> SampleCounts {
        let read = |field: fn(*mut sample_ring) -> *mut u64| self.word(cpu, field).load(Ordering::Relaxed);
        SampleCounts {
            // SAFETY: only addresses are computed, nothing is read.
            seen: read(|ring| unsafe { &raw mut (*ring).seen }),
            // SAFETY: as above.
            lost: read(|ring| unsafe { &raw mut (*ring).lost }),
            // SAFETY: as above.
            recorded: read(|ring| unsafe { &raw mut (*ring).recorded }),
        }
    }
}

/// Takes the record apart that begins with `head`.
fn read<'a>(head: &sample_head, bytes: &'a [u8]) -> Option<Sample<'a>> {
    let rest = bytes.get(size_of::<sample_head>()..)?;
    let (kernel, rest) = rest.split_at_checked(head.kernel_bytes as usize)?;
    let (user, rest) = rest.split_at_checked(head.user_bytes as usize)?;
    let copy = rest.get(..head.copy_bytes as usize)?;
    let has = |flag: sample_flag| head.flags & flag.0 != 0;
    Some(Sample {
        ts: head.ts,
        period: head.period,
        task_id: head.task_id,
        mm_id: (head.mm_id != 0).then_some(head.mm_id),
        pid: head.pid,
        regs: [head.ip, head.sp, head.bp],
        kernel,
        user,
        copy,
        kernel_cut: has(sample_flag::SAMPLE_KERNEL_CUT),
        user_cut: has(sample_flag::SAMPLE_USER_CUT),
        copy_cut: has(sample_flag::SAMPLE_COPY_CUT) || has(sample_flag::SAMPLE_COPY_FAILED),
        copy_failed: has(sample_flag::SAMPLE_COPY_FAILED),
        place: (head.place != 0).then_some(head.place),
        no_room: has(sample_flag::SAMPLE_NO_ROOM),
    })
}

impl Drop for SampleRings {
    fn drop(&mut self) {
        // SAFETY: exactly what map() mapped; no slice into it outlives drain().
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped_bytes) };
    }
}
