//! `ioengine=falloc`: `fallocate(2)`. No data are moved: writes allocate, reads allocate and keep the file's size, trims punch holes.

use pagelab_fiojob::{Caps, Direction, Operation, engines as language};
use rustix::fs::{FallocateFlags, fallocate};

use super::file::{OpenFile as _, TargetFile};
use super::{Engine, Setup, StartOver, Synchronous};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;

/// An open file.
pub(crate) struct Falloc {
    file: TargetFile,
}

impl Engine for Falloc {
    const CAPS: Caps = language::FALLOC.caps;

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

impl Synchronous for Falloc {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, _: &mut Buffer) -> Result<u32, Fault> {
        let mode = match operation.direction {
            Direction::Read => FallocateFlags::KEEP_SIZE,
            Direction::Write => FallocateFlags::empty(),
            Direction::Trim => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        };
        fallocate(self.file.fd()?, mode, operation.offset, operation.bytes.into())?;
        Ok(operation.bytes)
    }
}
