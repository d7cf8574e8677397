//! `ioengine=pvsync2`: `preadv2(2)` and `pwritev2(2)`, with flags for each operation.

use std::io::{IoSlice, IoSliceMut};

use pagelab_fiojob::{Caps, Direction, Operation, engines as language};
use rustix::io::ReadWriteFlags;

use super::file::{OpenFile as _, TargetFile, transferred};
use super::{DONTCACHE, Engine, Setup, StartOver, Synchronous, WOULD_BLOCK, explain_plainly};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;
use crate::random::{SplitMix64, derive_seed};

/// An open file and the flags of its operations.
pub(crate) struct PvSync2 {
    file: TargetFile,
    flags: ReadWriteFlags,
    /// Share of the operations that are polled for, percent; they get `RWF_HIPRI` on top.
    polled_percent: u64,
    draw: SplitMix64,
}

impl PvSync2 {
    #[inline(always)]
    fn flags(&mut self) -> ReadWriteFlags {
        match self.polled_percent {
            0 => self.flags,
            percent if percent >= 100 || self.draw.below(100) < percent => self.flags | ReadWriteFlags::HIPRI,
            _ => self.flags,
        }
    }
}

impl Engine for PvSync2 {
    const CAPS: Caps = language::PVSYNC2.caps;

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        let o = setup.options;
        let mut flags = ReadWriteFlags::empty();
        if o.nowait {
            flags |= ReadWriteFlags::NOWAIT;
        }
        if o.uncached {
            flags |= ReadWriteFlags::from_bits_retain(DONTCACHE);
        }
        // As in fio: hipri turns polling on, hipri_percentage says for how many.
        let share = o.hipri_percentage.map_or(100, |percent| u64::from(percent.0));
        let polled_percent = if o.hipri { share } else { 0 };
        let draw = SplitMix64::new(derive_seed(setup.course.seed, 0x41_91));
        Ok(Self { file: TargetFile::open(setup)?, flags, polled_percent, draw })
    }

    fn flush(&mut self, data_only: bool) -> Result<(), Fault> {
        self.file.flush(data_only)
    }

    fn flush_range(&mut self, offset: u64, bytes: u64, flags: u32) -> Result<(), Fault> {
        self.file.flush_range(offset, bytes, flags)
    }

    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        self.file.start_over(how)
    }

    fn explain(&self, fault: Fault, operation: Operation) -> String {
        let words = explain_plainly(fault, operation);
        match fault {
            Fault::Errno(libc::EOPNOTSUPP) => {
                format!(
                    "{words}; kernel, file system or device lacks a flag of hipri=, nowait= or uncached=: leave it out"
                )
            }
            Fault::Errno(libc::EAGAIN) if self.flags.contains(ReadWriteFlags::NOWAIT) => {
                format!("{words}: {WOULD_BLOCK}")
            }
            _ => words,
        }
    }
}

impl Synchronous for PvSync2 {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault> {
        let flags = self.flags();
        let fd = self.file.fd()?;
        let buffer = buffer.first(operation.bytes)?;
        let done = match operation.direction {
            Direction::Read => rustix::io::preadv2(fd, &mut [IoSliceMut::new(buffer)], operation.offset, flags)?,
            Direction::Write => rustix::io::pwritev2(fd, &[IoSlice::new(buffer)], operation.offset, flags)?,
            Direction::Trim => return self.file.discard(operation),
        };
        transferred(done)
    }
}
