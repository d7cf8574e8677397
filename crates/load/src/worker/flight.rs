//! Operations of a worker that are under way at the same time: a slot for each, from its choice until its completion was taken.

use std::os::fd::RawFd;

use pagelab_fiojob::{Direction, JobOptions, Operation};

use crate::buffer::Buffer;
use crate::engines::queue::{Completion, Queue, QueueSetup};
use crate::error::LoadError;
use crate::fault::Fault;
use crate::report::Depths;
use crate::verify::walk::FailedWrite;
use crate::worker::task::Task;

/// An operation that is not timed has this in the place of its stamps.
pub(super) const UNTIMED: u64 = u64::MAX;

/// The file of a slot that is free.
const NO_FILE: usize = usize::MAX;

/// An operation under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// As it was chosen.
    pub operation: Operation,
    /// The bytes of it transferred by short completions.
    pub done_bytes: u32,
    /// Its file, by place among the worker's, and the descriptor, which stays open as long as anything is under way.
    pub file: usize,
    pub fd: RawFd,
    /// Ticks at which it was begun to be prepared; [`UNTIMED`].
    pub begun: u64,
    /// Ticks at which the kernel had it; [`UNTIMED`].
    pub issued: u64,
}

/// The verifier's state of an operation in flight.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ToVerify {
    /// It is this write of the worker's.
    pub write: Option<u64>,
    /// It is a read that is to be compared, with this write if that is known.
    #[allow(clippy::option_option)] // Not to be compared, compared with nothing known, compared with this write.
    pub read: Option<Option<u64>>,
}

/// How many operations go and come together, as fio's `iodepth` options say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Most under way.
    pub depth: u32,
    /// Submitted together.
    pub batch: u32,
    /// Completions waited for.
    pub complete_least: u32,
    /// Completions taken together.
    pub complete_most: u32,
    /// Once `depth` are under way, completions are taken until this many are left.
    pub low: u32,
    /// Completions are taken after each operation, not only when `depth` are under way.
    pub polls: bool,
}

impl Limits {
    fn new(options: &JobOptions) -> Self {
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let depth = narrow(options.iodepth).max(1);
        let within = |value: u64| narrow(value).clamp(1, depth);
        let complete_least = within(options.iodepth_batch_complete_min);
        Self {
            depth,
            batch: within(options.iodepth_batch),
            complete_least,
            complete_most: narrow(options.iodepth_batch_complete_max).max(complete_least),
            low: match narrow(options.iodepth_low) {
                0 => depth,
                low => low.min(depth),
            },
            polls: options.iodepth_batch_complete_min == 0,
        }
    }
}

/// A worker's queue, and what is under way in it.
pub(super) struct Flight<Q> {
    /// `None` for engines that complete each operation before the next.
    pub queue: Option<Q>,
    pub limits: Limits,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots pushed and not yet handed over, in order.
    pushed: Vec<u32>,
    /// Operations handed over and not yet taken.
    handed: u32,
    /// Those taken last.
    pub completed: Vec<Completion>,
    /// Files that are to be closed when nothing of them is under way any more.
    pub closing: Vec<usize>,
    to_verify: Vec<ToVerify>,
    /// The write whose failure is being reported.
    pub failing: Option<FailedWrite>,
    /// How deep the queue was.
    pub depths: Depths,
}

impl<Q: Queue> Flight<Q> {
    /// Without a queue.
    pub(super) fn none(options: &JobOptions) -> Self {
        Self {
            queue: None,
            limits: Limits::new(options),
            slots: Vec::new(),
            free: Vec::new(),
            pushed: Vec::new(),
            handed: 0,
            completed: Vec::new(),
            closing: Vec::new(),
            to_verify: Vec::new(),
            failing: None,
            depths: Depths::default(),
        }
    }

    /// With a queue for the operations of `task`, from and to the slots of `buffer`.
    ///
    /// # Errors
    /// What the host lacks or forbids.
    pub(super) fn open(task: &Task<'_>, buffer: &mut Buffer) -> Result<Self, LoadError> {
        let mut flight = Self::none(&task.job.options);
        let depth = flight.limits.depth;
        flight.queue = Some(Q::open(&QueueSetup {
            job: &task.job.name,
            options: &task.job.options,
            depth,
            files: task.plan.files.len(),
            memory: buffer.as_ptr(),
            slot_bytes: buffer.slot_bytes(),
        })?);
        let nothing = Slot {
            operation: Operation { direction: Direction::Read, offset: 0, bytes: 0 },
            done_bytes: 0,
            file: NO_FILE,
            fd: -1,
            begun: UNTIMED,
            issued: UNTIMED,
        };
        flight.slots = vec![nothing; depth as usize];
        flight.to_verify = vec![ToVerify::default(); depth as usize];
        // Taken from the end: the first operation gets slot 0.
        flight.free = (0..depth).rev().collect();
        flight.pushed.reserve(depth as usize);
        flight.completed.reserve(depth as usize);
        Ok(flight)
    }

    /// Operations pushed or handed over whose completion was not taken.
    #[inline(always)]
    pub(super) fn under_way(&self) -> u32 {
        self.handed + self.pushed.len() as u32
    }

    /// Operations pushed and not yet handed over.
    #[inline(always)]
    pub(super) fn waiting(&self) -> u32 {
        self.pushed.len() as u32
    }

    /// A slot for the next operation; `None` if all are under way.
    #[inline(always)]
    pub(super) fn take_slot(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// A slot is not needed after all, or not any more.
    #[inline(always)]
    pub(super) fn give_back(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(number as usize) {
            slot.file = NO_FILE;
        }
        self.free.push(number);
    }

    /// Whether an operation on this file is under way.
    pub(super) fn concerns(&self, file: usize) -> bool {
        self.slots.iter().any(|slot| slot.file == file)
    }

    /// The state of an operation in flight.
    #[inline(always)]
    pub(super) fn slot(&self, slot: u32) -> Result<Slot, Fault> {
        self.slots.get(slot as usize).copied().ok_or(Fault::Errno(libc::EINVAL))
    }

    /// Notes an operation that was pushed.
    #[inline(always)]
    pub(super) fn note(&mut self, number: u32, slot: Slot) {
        if let Some(place) = self.slots.get_mut(number as usize) {
            *place = slot;
            self.pushed.push(number);
        }
    }

    /// Whether an operation under way and this one touch the same bytes, and one of them changes them.
    pub(super) fn overlaps(&self, file: usize, operation: Operation) -> bool {
        let end = operation.offset + u64::from(operation.bytes);
        let writes = operation.direction != Direction::Read;
        self.slots.iter().filter(|slot| slot.file == file).any(|Slot { operation: other, .. }| {
            let apart = other.offset >= end || operation.offset >= other.offset + u64::from(other.bytes);
            !apart && (writes || other.direction != Direction::Read)
        })
    }

    /// The verifier's state of a slot.
    pub(super) fn to_verify(&self, number: u32) -> ToVerify {
        self.to_verify.get(number as usize).copied().unwrap_or_default()
    }

    /// Notes what verifying knows of a slot.
    pub(super) fn note_to_verify(&mut self, number: u32, known: ToVerify) {
        if let Some(place) = self.to_verify.get_mut(number as usize) {
            *place = known;
        }
    }

    /// The operation of this slot failed: the code that handles the failure can ask which write it was.
    pub(super) fn note_failing(&mut self, number: u32, slot: &Slot) {
        let write = self.to_verify(number).write;
        self.failing = write.map(|number| FailedWrite { number, file: slot.file, operation: slot.operation });
    }

    /// The first `count` of those pushed were handed over; each slot is shown to `each`.
    #[inline(always)]
    pub(super) fn handed_over(&mut self, count: u32, mut each: impl FnMut(&mut Slot)) {
        let count = (count as usize).min(self.pushed.len());
        if count == 0 {
            return;
        }
        let (under_way, mut reads) = (self.under_way(), 0);
        for number in self.pushed.drain(..count) {
            if let Some(slot) = self.slots.get_mut(number as usize) {
                reads += u32::from(slot.operation.direction == Direction::Read);
                each(slot);
            }
        }
        self.depths.submitted(under_way, count as u32, reads);
        self.handed += count as u32;
    }

    /// The first of those pushed was refused and is not in flight any more; gives its slot's state. The slot is free.
    pub(super) fn refused(&mut self) -> Option<Slot> {
        if self.pushed.is_empty() {
            return None;
        }
        let number = self.pushed.remove(0);
        let slot = self.slots.get(number as usize).copied()?;
        self.note_failing(number, &slot);
        self.give_back(number);
        Some(slot)
    }

    /// Completions of this many operations were taken.
    #[inline(always)]
    pub(super) fn taken(&mut self, count: u32) {
        self.handed = self.handed.saturating_sub(count);
        self.depths.completed(count);
    }
}
