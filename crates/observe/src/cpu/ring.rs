//! The consumer's side of the per-CPU rings of samples (layout and protocol: `bpf/stack.bpf.h`).

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use pagelab_vocab::samples::ReturnedFrom;

use super::skeleton::types::{sample_flag, sample_head, sample_ring};
use crate::bpf::rings::{self, Head, Rings};
use crate::bpf::{WireRecord, read};

/// The largest record; the BPF program's `SAMPLE_BYTES_MAX`, rounded up. A record may go on so far behind the ring's end.
const RECORD_BYTES_MAX: usize = 64 << 10;

/// The smallest ring: two of the largest samples must fit.
const RING_BYTES_MIN: usize = 128 << 10;
const RING_BYTES_MAX: usize = 256 << 20;

/// The greatest power of two of bytes that is at most `bytes`, within what a ring can be.
pub(crate) fn ring_bytes(bytes: usize) -> usize {
    1 << bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX).ilog2()
}

/// Bytes that one ring of `ring_bytes` takes in the map.
pub(crate) fn value_bytes(ring_bytes: usize) -> usize {
    rings::ring_bytes::<sample_ring>(ring_bytes as u32)
}

impl Head for sample_ring {
    type Item = u8;
    const ITEMS_AT: usize = offset_of!(Self, data);
    const PRODUCED_AT: usize = offset_of!(Self, produced);
    const CONSUMED_AT: usize = offset_of!(Self, consumed);
    const OVERHANG: usize = RECORD_BYTES_MAX;
}

// SAFETY: integers without gaps.
unsafe impl WireRecord for sample_head {}

/// The counts of a CPU.
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
    /// The sampled task.
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
    /// The copy is the stack of code of 32 bits.
    pub is_32_bit: bool,
    /// The number that the user's stack was given by [`Stacks::of_task`](crate::stacks::Stacks::of_task); then there is no copy.
    pub place: Option<u32>,
    /// There is no stack of user space because there was no room for it.
    pub no_room: bool,
    /// The kernel had just returned to user space, where nothing has run since.
    pub returned_from: Option<ReturnedFrom>,
}

/// The rings of samples.
pub type SampleRings = Rings<sample_ring>;

impl Rings<sample_ring> {
    /// Hands the samples of a CPU that are older than `until_ns` to `sink`, oldest first, and frees their room.
    pub fn drain(&mut self, cpu: usize, until_ns: u64, mut sink: impl FnMut(&Sample<'_>)) {
        let mut at = self.consumed(cpu);
        // Nothing whole lies further back than a ring is long.
        let produced = self.produced(cpu).min(at.saturating_add(u64::from(self.items())));
        while at < produced {
            let Some((bytes, sample)) = self.record(cpu, at) else {
                // Never seen; what cannot be read is given up rather than read again for ever.
                at = produced;
                break;
            };
            if sample.ts >= until_ns {
                break;
            }
            sink(&sample);
            at += bytes;
        }
        self.release(cpu, at);
    }

    /// The sample at a position, and how many bytes it takes.
    fn record(&self, cpu: usize, at: u64) -> Option<(u64, Sample<'_>)> {
        let head = read::<sample_head>(self.piece(cpu, at, size_of::<sample_head>()))?;
        let bytes = self.piece(cpu, at, head.len as usize);
        Some((bytes.len() as u64, sample(&head, bytes)?))
    }

    /// The counts of one CPU.
    pub fn counts(&self, cpu: usize) -> SampleCounts {
        let read = |at| self.word(cpu, at).load(Ordering::Relaxed);
        SampleCounts {
            seen: read(offset_of!(sample_ring, seen)),
            lost: read(offset_of!(sample_ring, lost)),
            recorded: read(offset_of!(sample_ring, recorded)),
        }
    }
}

/// Takes the record apart that begins with `head`.
fn sample<'a>(head: &sample_head, bytes: &'a [u8]) -> Option<Sample<'a>> {
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
        is_32_bit: has(sample_flag::SAMPLE_USER32),
        place: (head.place != 0).then_some(head.place),
        no_room: has(sample_flag::SAMPLE_NO_ROOM),
        returned_from: if has(sample_flag::SAMPLE_AFTER_FAULT) {
            Some(ReturnedFrom::Fault)
        } else {
            has(sample_flag::SAMPLE_AFTER_CALL).then_some(ReturnedFrom::Call)
        },
    })
}
