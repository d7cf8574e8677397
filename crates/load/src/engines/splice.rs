//! `ioengine=splice`: `splice(2)` between the file and a pipe. Reads come out of the pipe by `read(2)`, writes go in by `vmsplice(2)`.
//!
//! fio first tries to have pages of the pipe mapped into its memory, which no kernel since 2.6.30 does, and then reads them as here.

use std::os::fd::{AsFd as _, OwnedFd};

use pagelab_fiojob::{Caps, Direction, Operation, engines as language};
use rustix::pipe::{IoSliceRaw, PipeFlags, SpliceFlags, splice, vmsplice};

use super::file::{OpenFile as _, TargetFile, transferred};
use super::{Engine, Setup, StartOver, Synchronous, explain_plainly};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;

/// Most bytes that a pipe holds, unless it was made larger.
const PIPE_BYTES: usize = 64 << 10;

/// An open file and the pipe.
pub(crate) struct Splice {
    file: TargetFile,
    read_end: OwnedFd,
    write_end: OwnedFd,
}

impl Splice {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Fault> {
        let mut at = offset;
        let length = buffer.len().min(PIPE_BYTES);
        let flags = if buffer.len() > length { SpliceFlags::MORE } else { SpliceFlags::empty() };
        let moved = splice(self.file.fd()?, Some(&mut at), self.write_end.as_fd(), None, length, flags)?;
        let mut done = 0;
        while done < moved {
            let part = buffer.get_mut(done..moved).unwrap_or(&mut []);
            match rustix::io::read(self.read_end.as_fd(), part) {
                Ok(read) => done += read,
                // What is in the pipe must come out of it, or it would be part of the next operation.
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(moved)
    }

    fn write(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Fault> {
        let length = buffer.len().min(PIPE_BYTES);
        let part = buffer.get_mut(..length).unwrap_or(&mut []);
        let slices = [IoSliceRaw::from_slice(part)];
        // SAFETY: the pages stay as they are until they have left the pipe, which is before this returns.
        let lent = unsafe { vmsplice(self.write_end.as_fd(), &slices, SpliceFlags::empty()) }?;
        let (mut at, mut done) = (offset, 0);
        while done < lent {
            match splice(self.read_end.as_fd(), None, self.file.fd()?, Some(&mut at), lent - done, SpliceFlags::empty())
            {
                Ok(0) => return Err(Fault::EndOfFile),
                Ok(moved) => done += moved,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    self.empty(lent - done);
                    return Err(error.into());
                }
            }
        }
        Ok(lent)
    }

    /// Takes out of the pipe what an operation that failed has left in it.
    #[cold]
    fn empty(&self, mut left: usize) {
        let mut away = vec![0; PIPE_BYTES];
        while left > 0 {
            let most = left.min(away.len());
            match rustix::io::read(self.read_end.as_fd(), away.get_mut(..most).unwrap_or(&mut [])) {
                Ok(0) => return,
                Ok(read) => left -= read,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl Engine for Splice {
    const CAPS: Caps = language::SPLICE.caps;

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        let (read_end, write_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
            .map_err(|error| LoadError::system(format!("job '{}': making a pipe", setup.job), error))?;
        Ok(Self { file: TargetFile::open(setup)?, read_end, write_end })
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
            Fault::Errno(libc::EINVAL) => {
                format!("{words}; this file system or device does not splice: use ioengine=psync")
            }
            _ => words,
        }
    }
}

impl Synchronous for Splice {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault> {
        let buffer = buffer.first(operation.bytes)?;
        let done = match operation.direction {
            Direction::Read => self.read(buffer, operation.offset)?,
            Direction::Write => self.write(buffer, operation.offset)?,
            Direction::Trim => return self.file.discard(operation),
        };
        transferred(done)
    }
}
