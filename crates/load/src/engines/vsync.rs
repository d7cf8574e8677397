//! `ioengine=vsync`: `readv(2)` and `writev(2)`; `lseek(2)` only where the file's position is not already right.
//!
//! fio joins neighbouring operations into one call when iodepth is above 1; here the depth stays 1, and so does the vector's length.

use std::io::{IoSlice, IoSliceMut};

use pagelab_fiojob::{Caps, Direction, Operation, engines as language};

use super::file::PositionedFile;
use super::{Engine, Setup, StartOver, Synchronous};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;

/// An open file and where its position is.
pub(crate) struct VSync {
    file: PositionedFile,
}

impl Engine for VSync {
    const CAPS: Caps = language::VSYNC.caps;

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        Ok(Self { file: PositionedFile::open(setup)? })
    }

    fn flush(&mut self, data_only: bool) -> Result<(), Fault> {
        self.file.flush(data_only)
    }

    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        self.file.start_over(how)
    }
}

impl Synchronous for VSync {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault> {
        let fd = self.file.at(operation.offset)?;
        let buffer = buffer.first(operation.bytes)?;
        let done = match operation.direction {
            Direction::Read => rustix::io::readv(fd, &mut [IoSliceMut::new(buffer)])?,
            Direction::Write => rustix::io::writev(fd, &[IoSlice::new(buffer)])?,
            Direction::Trim => return self.file.discard(operation),
        };
        self.file.moved(done)
    }
}
