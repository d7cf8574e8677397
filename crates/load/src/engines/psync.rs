//! `ioengine=psync`: `pread(2)` and `pwrite(2)`.

use pagelab_fiojob::{Caps, Direction, Operation, engines as language};

use super::file::{TargetFile, transferred};
use super::{Engine, Setup, StartOver, Synchronous};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;

/// An open file.
pub(crate) struct PSync {
    file: TargetFile,
}

impl Engine for PSync {
    const CAPS: Caps = language::PSYNC.caps;

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

impl Synchronous for PSync {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault> {
        let fd = self.file.fd()?;
        let buffer = buffer.first(operation.bytes)?;
        let done = match operation.direction {
            Direction::Read => rustix::io::pread(fd, buffer, operation.offset)?,
            Direction::Write => rustix::io::pwrite(fd, buffer, operation.offset)?,
            Direction::Trim => return self.file.discard(operation),
        };
        transferred(done)
    }
}
