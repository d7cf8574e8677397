//! `ioengine=sync`: `read(2)` and `write(2)`; `lseek(2)` only where the file's position is not already right.

use super::buffer::Buffer;
use super::file::TargetFile;
use super::{Caps, Engine, Fault, Setup, StartOver};
use crate::error::LoadError;
use crate::offsets::{Direction, Operation};

/// An open file, where its position is, and a buffer.
pub struct Sync {
    file: TargetFile,
    position: u64,
    buffer: Buffer,
}

impl Engine for Sync {
    const CAPS: Caps = Caps::FILES.with(Caps::DIRECT).with(Caps::SYNC_OPEN).with(Caps::FSYNC).with(Caps::SYNCHRONOUS);

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        let [read, write] = setup.course.block_bytes;
        let buffer = Buffer::new(read.max(write) as usize, setup.course.seed)?;
        Ok(Self { file: TargetFile::open(setup)?, position: 0, buffer })
    }

    #[inline(always)]
    fn execute(&mut self, operation: Operation) -> Result<u32, Fault> {
        if self.position != operation.offset {
            rustix::fs::seek(self.file.fd()?, rustix::fs::SeekFrom::Start(operation.offset))?;
            self.position = operation.offset;
        }
        let len = operation.bytes as usize;
        let done = match operation.direction {
            Direction::Read => {
                let buffer = self.buffer.as_mut_slice().get_mut(..len).ok_or(Fault::Errno(libc::EINVAL))?;
                rustix::io::read(self.file.fd()?, buffer)?
            }
            Direction::Write => {
                let buffer = self.buffer.as_slice().get(..len).ok_or(Fault::Errno(libc::EINVAL))?;
                rustix::io::write(self.file.fd()?, buffer)?
            }
        };
        self.position += done as u64;
        if done == 0 { Err(Fault::EndOfFile) } else { Ok(done as u32) }
    }

    fn flush(&mut self, data_only: bool) -> Result<(), Fault> {
        let fd = self.file.fd()?;
        if data_only { rustix::fs::fdatasync(fd) } else { rustix::fs::fsync(fd) }.map_err(Fault::from)
    }

    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        self.file.start_over(how)?;
        if how == StartOver::Reopen {
            self.position = 0;
        }
        Ok(())
    }
}
