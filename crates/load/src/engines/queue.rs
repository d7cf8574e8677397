//! The common part of engines that have several operations in flight.
//!
//! Such an engine has two parts. Files are opened, flushed and closed one by one, as elsewhere: that is [`QueuedFile`], the same for
//! all of them. Operations of all files of a worker go through one [`Queue`], which belongs to the worker.

use std::os::fd::RawFd;

use pagelab_fiojob::{Caps, JobOptions, Operation};

use super::file::{OpenFile as _, TargetFile};
use super::{Engine, Setup, StartOver, WOULD_BLOCK, explain_plainly};
use crate::error::LoadError;
use crate::fault::Fault;

/// The inputs of a queue's setup.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueSetup<'a> {
    /// The job's name, for messages.
    pub job: &'a str,
    /// The job's options.
    pub options: &'a JobOptions,
    /// Most operations under way at once.
    pub depth: u32,
    /// Files of the worker.
    pub files: usize,
    /// Address of the memory of the first slot; those of the others follow at a distance of `slot_bytes`.
    pub memory: *mut u8,
    /// Length of the memory of each slot.
    pub slot_bytes: usize,
}

/// An operation on its way into a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submission {
    /// The place that it takes among those under way; it comes back with the completion.
    pub slot: u32,
    /// The file, by place among the worker's.
    pub file: usize,
    /// Its descriptor.
    pub fd: RawFd,
    /// The operation.
    pub operation: Operation,
    /// Where the data are or go.
    pub memory: *mut u8,
}

/// An operation that is done, or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The place that it took.
    pub slot: u32,
    /// Bytes transferred, or a negative error number.
    pub result: i32,
}

impl Completion {
    /// Bytes transferred, or why none were.
    #[inline(always)]
    pub(crate) fn outcome(self) -> Result<u32, Fault> {
        match self.result {
            0 => Err(Fault::EndOfFile),
            bytes if bytes > 0 => Ok(bytes.cast_unsigned()),
            errno => Err(Fault::Errno(errno.wrapping_neg())),
        }
    }
}

/// A queue of operations at the kernel's, for one worker.
pub(crate) trait Queue: Sized {
    /// The engine's capabilities.
    const CAPS: Caps;
    /// The engine can flush data without metadata, and ranges; else it flushes all that is asked for any of it.
    const FLUSHES_IN_PART: bool = true;

    /// Makes the queue. Runs before the start barrier, in the thread that will use it.
    ///
    /// # Errors
    /// What the host lacks or forbids.
    fn open(setup: &QueueSetup<'_>) -> Result<Self, LoadError>;

    /// Puts an operation into the queue. The kernel learns of it by [`Queue::submit`].
    ///
    /// # Errors
    /// There is no room, which the depth does not let happen.
    fn push(&mut self, submission: Submission) -> Result<(), Fault>;

    /// Submits the pushed operations to the kernel, in order; gives how many it took. Fewer than were pushed means that
    /// the kernel takes no more until some are completed.
    ///
    /// # Errors
    /// The kernel refused the first of them, which is then no longer in the queue.
    fn submit(&mut self) -> Result<u32, Fault>;

    /// Waits until at least `least` operations are completed and takes them, and as many more as are completed, up to `most`.
    ///
    /// # Errors
    /// The kernel's. [`libc::EINTR`]: a signal came first.
    fn reap(&mut self, least: u32, most: u32, completed: &mut Vec<Completion>) -> Result<(), Fault>;

    /// A file is closed, or closed and opened again: nothing of it is under way, and what is known of it is no longer true.
    fn forget(&mut self, file: usize) {
        let _ = file;
    }

    /// A failed operation in words; `None` if there is nothing to add to the plain ones.
    fn explain(options: &JobOptions, fault: Fault) -> Option<&'static str> {
        explain_commonly(options, fault)
    }
}

/// What any queue knows of a failed operation.
pub(crate) fn explain_commonly(options: &JobOptions, fault: Fault) -> Option<&'static str> {
    match fault {
        Fault::Errno(libc::EAGAIN) if options.nowait => Some(WOULD_BLOCK),
        Fault::Errno(libc::EINVAL) if options.is_direct() => {
            Some("direct I/O needs offsets, lengths and iomem_align that are multiples of the device's block size")
        }
        _ => None,
    }
}

/// The queue of engines that have none.
#[derive(Debug)]
pub(crate) enum NoQueue {}

impl Queue for NoQueue {
    const CAPS: Caps = Caps::NONE;

    fn open(setup: &QueueSetup<'_>) -> Result<Self, LoadError> {
        Err(LoadError::Protocol(format!("job '{}': its engine has no queue", setup.job)))
    }

    fn push(&mut self, _: Submission) -> Result<(), Fault> {
        match *self {}
    }

    fn submit(&mut self) -> Result<u32, Fault> {
        match *self {}
    }

    fn reap(&mut self, _: u32, _: u32, _: &mut Vec<Completion>) -> Result<(), Fault> {
        match *self {}
    }
}

/// An open file whose operations go through a queue.
pub(crate) struct QueuedFile<Q> {
    file: TargetFile,
    options: JobOptions,
    queue: std::marker::PhantomData<Q>,
}

impl<Q: Queue> QueuedFile<Q> {
    /// Its descriptor.
    ///
    /// # Errors
    /// Opening the file again failed before.
    #[inline(always)]
    pub(crate) fn fd(&self) -> Result<RawFd, Fault> {
        use std::os::fd::AsRawFd as _;
        Ok(self.file.fd()?.as_raw_fd())
    }

    /// Gives up what the device holds there. There is no queue for that: it is done when this returns.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn discard(&self, operation: Operation) -> Result<u32, Fault> {
        self.file.discard(operation)
    }
}

impl<Q: Queue> Engine for QueuedFile<Q> {
    const CAPS: Caps = Q::CAPS;

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        Ok(Self { file: TargetFile::open(setup)?, options: setup.options.clone(), queue: std::marker::PhantomData })
    }

    fn flush(&mut self, data_only: bool) -> Result<(), Fault> {
        self.file.flush(data_only && Q::FLUSHES_IN_PART)
    }

    fn flush_range(&mut self, offset: u64, bytes: u64, flags: u32) -> Result<(), Fault> {
        if Q::FLUSHES_IN_PART { self.file.flush_range(offset, bytes, flags) } else { self.file.flush(false) }
    }

    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        self.file.start_over(how)
    }

    fn explain(&self, fault: Fault, operation: Operation) -> String {
        let words = explain_plainly(fault, operation);
        match Q::explain(&self.options, fault) {
            Some(more) => format!("{words}; {more}"),
            None => words,
        }
    }
}
