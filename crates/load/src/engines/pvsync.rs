//! `ioengine=pvsync`: `preadv(2)` and `pwritev(2)`, with a vector of one buffer.

use std::io::{IoSlice, IoSliceMut};

use pagelab_fiojob::{Caps, Direction, Operation, engines as language};

use super::file::{TargetFile, transferred};
use super::{Engine, Setup, StartOver, Synchronous};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;

/// An open file.
pub(crate) struct PvSync {
    file: TargetFile,
}

impl Engine for PvSync {
    const CAPS: Caps = language::PVSYNC.caps;

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        Ok(Self { file: TargetFile::open(setup)? })
    }

    fn flush(&mut self, data_only: bool) -> Result<(), Fault> {
        self.file.flush(data_only)
    }

    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        self.file.start_over(how)
    }
}

impl Synchronous for PvSync {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault> {
        let fd = self.file.fd()?;
        let buffer = buffer.first(operation.bytes)?;
        let done = match operation.direction {
            Direction::Read => rustix::io::preadv(fd, &mut [IoSliceMut::new(buffer)], operation.offset)?,
            Direction::Write => rustix::io::pwritev(fd, &[IoSlice::new(buffer)], operation.offset)?,
            Direction::Trim => return self.file.discard(operation),
        };
        transferred(done)
    }
}
