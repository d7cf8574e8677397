//! `ioengine=libpmem`: copies from and to a file on direct access (`mount -o dax`), mapped with MAP_SYNC.
//!
//! fio's engine of this name calls the library; here the same is done by the instructions that the library uses. A write is durable
//! after the next fence: `sync=1` has one after each write, otherwise `fsync=` and its kin say when. `direct=1` copies past the
//! processor's caches. Where MAP_SYNC is refused fio ends the job; here the file is mapped plainly, msync(2) takes the place of the
//! fence, and the report says so.

use std::os::fd::BorrowedFd;

use pagelab_fiojob::words::SyncMode;
use pagelab_fiojob::{Caps, Operation, engines as language};

use super::backing::{Backing, FileKind, try_sync};
use super::file::TargetFile;
use super::mmap::check_length;
use super::persist::{Persistent, Stores, Ways};
use super::{Engine, MapReport, Setup, StartOver, Synchronous};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;
use crate::safety;

/// An open file and its pieces.
pub(crate) struct LibPmem(Persistent);

impl Engine for LibPmem {
    const CAPS: Caps = language::LIBPMEM.caps;

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        let ways = Ways {
            stores: if setup.options.is_direct() { Stores::NonTemporal } else { Stores::Cached },
            waits: setup.options.sync != SyncMode::None,
        };
        let backing = |file: &TargetFile, fd: BorrowedFd<'_>| {
            check_length(setup, file)?;
            let page = safety::mapping_page_bytes(fd);
            let kind = if try_sync(fd, page).is_ok() { FileKind::Synced } else { FileKind::Named };
            let fd = fd.try_clone_to_owned().map_err(|error| LoadError::system("duplicating a descriptor", error))?;
            Ok(Backing::File { fd, shared: true, page, kind })
        };
        Persistent::open(setup, ways, backing).map(Self)
    }

    fn flush(&mut self, _data_only: bool) -> Result<(), Fault> {
        self.0.flush()
    }

    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        self.0.start_over(how)
    }

    fn mapped(&self) -> Option<MapReport> {
        Some(self.0.mapped())
    }

    fn explain(&self, fault: Fault, operation: Operation) -> String {
        self.0.explain(fault, operation)
    }
}

impl Synchronous for LibPmem {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault> {
        self.0.execute(operation, buffer)
    }
}
