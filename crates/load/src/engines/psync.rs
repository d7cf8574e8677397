//! `ioengine=psync`: `pread(2)` and `pwrite(2)`.

use super::buffer::Buffer;
use super::file::TargetFile;
use super::{Caps, Engine, Fault, Setup, StartOver};
use crate::error::LoadError;
use crate::offsets::{Direction, Operation};

/// An open file and a buffer.
pub struct PSync {
    file: TargetFile,
    buffer: Buffer,
}

impl Engine for PSync {
    const CAPS: Caps = Caps::FILES.with(Caps::DIRECT).with(Caps::SYNC_OPEN).with(Caps::FSYNC).with(Caps::SYNCHRONOUS);

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        let [read, write] = setup.course.block_bytes;
        Ok(Self { file: TargetFile::open(setup)?, buffer: Buffer::new(read.max(write) as usize, setup.course.seed)? })
    }

    #[inline(always)]
    fn execute(&mut self, operation: Operation) -> Result<u32, Fault> {
        let len = operation.bytes as usize;
        let done = match operation.direction {
            Direction::Read => {
                let buffer = self.buffer.as_mut_slice().get_mut(..len).ok_or(Fault::Errno(libc::EINVAL))?;
                rustix::io::pread(self.file.fd()?, buffer, operation.offset)?
            }
            Direction::Write => {
                let buffer = self.buffer.as_slice().get(..len).ok_or(Fault::Errno(libc::EINVAL))?;
                rustix::io::pwrite(self.file.fd()?, buffer, operation.offset)?
            }
        };
        if done == 0 { Err(Fault::EndOfFile) } else { Ok(done as u32) }
    }

    fn flush(&mut self, data_only: bool) -> Result<(), Fault> {
        let fd = self.file.fd()?;
        if data_only { rustix::fs::fdatasync(fd) } else { rustix::fs::fsync(fd) }.map_err(Fault::from)
    }

    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        Ok(self.file.start_over(how)?)
    }
}
