//! Engines that read and write their file by one system call each: `psync`, `pvsync`, `sync`, `vsync`. They differ in the calls.
//!
//! `sync` and `vsync` use the file's own position, with lseek(2) only where it is not already right. fio's `vsync` joins neighbouring
//! operations into one call when iodepth is above 1; here the depth stays 1, and so does the vector's length.

use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

use pagelab_fiojob::{Caps, Direction, Operation, engines as language};
use rustix::io;

use super::file::{OpenFile, PositionedFile, TargetFile};
use super::{Engine, Setup, StartOver, Synchronous};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;

/// The system calls of an engine.
pub(crate) trait Calls {
    /// What the engine can do.
    const CAPS: Caps;
    /// A file whose calls take the offset, or one with its own position.
    type File: OpenFile;

    /// Reads into the buffer; gives the bytes read.
    ///
    /// # Errors
    /// The kernel's.
    fn read(fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes the buffer; gives the bytes written.
    ///
    /// # Errors
    /// The kernel's.
    fn write(fd: BorrowedFd<'_>, buffer: &[u8], offset: u64) -> io::Result<usize>;
}

/// An engine that makes one of the `Calls` for each operation.
pub(crate) struct FileCalls<C: Calls> {
    file: C::File,
    calls: PhantomData<C>,
}

impl<C: Calls> Engine for FileCalls<C> {
    const CAPS: Caps = C::CAPS;

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        Ok(Self { file: C::File::open(setup)?, calls: PhantomData })
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
}

impl<C: Calls> Synchronous for FileCalls<C> {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault> {
        let fd = self.file.at(operation.offset)?;
        let buffer = buffer.first(operation.bytes)?;
        let done = match operation.direction {
            Direction::Read => C::read(fd, buffer, operation.offset)?,
            Direction::Write => C::write(fd, buffer, operation.offset)?,
            Direction::Trim => return self.file.discard(operation),
        };
        self.file.moved(done)
    }
}

/// `ioengine=psync`: pread(2) and pwrite(2).
pub(crate) enum PSync {}

impl Calls for PSync {
    const CAPS: Caps = language::PSYNC.caps;
    type File = TargetFile;

    #[inline(always)]
    fn read(fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        io::pread(fd, buffer, offset)
    }

    #[inline(always)]
    fn write(fd: BorrowedFd<'_>, buffer: &[u8], offset: u64) -> io::Result<usize> {
        io::pwrite(fd, buffer, offset)
    }
}

/// `ioengine=pvsync`: preadv(2) and pwritev(2), with a vector of one buffer.
pub(crate) enum PvSync {}

impl Calls for PvSync {
    const CAPS: Caps = language::PVSYNC.caps;
    type File = TargetFile;

    #[inline(always)]
    fn read(fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        io::preadv(fd, &mut [IoSliceMut::new(buffer)], offset)
    }

    #[inline(always)]
    fn write(fd: BorrowedFd<'_>, buffer: &[u8], offset: u64) -> io::Result<usize> {
        io::pwritev(fd, &[IoSlice::new(buffer)], offset)
    }
}

/// `ioengine=sync`: read(2) and write(2).
pub(crate) enum Sync {}

impl Calls for Sync {
    const CAPS: Caps = language::SYNC.caps;
    type File = PositionedFile;

    #[inline(always)]
    fn read(fd: BorrowedFd<'_>, buffer: &mut [u8], _: u64) -> io::Result<usize> {
        io::read(fd, buffer)
    }

    #[inline(always)]
    fn write(fd: BorrowedFd<'_>, buffer: &[u8], _: u64) -> io::Result<usize> {
        io::write(fd, buffer)
    }
}

/// `ioengine=vsync`: readv(2) and writev(2), with a vector of one buffer.
pub(crate) enum VSync {}

impl Calls for VSync {
    const CAPS: Caps = language::VSYNC.caps;
    type File = PositionedFile;

    #[inline(always)]
    fn read(fd: BorrowedFd<'_>, buffer: &mut [u8], _: u64) -> io::Result<usize> {
        io::readv(fd, &mut [IoSliceMut::new(buffer)])
    }

    #[inline(always)]
    fn write(fd: BorrowedFd<'_>, buffer: &[u8], _: u64) -> io::Result<usize> {
        io::writev(fd, &[IoSlice::new(buffer)])
    }
}
