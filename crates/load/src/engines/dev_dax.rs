//! `ioengine=dev-dax`: copies from and to a character device of direct access, which has no file system and no read(2).
//!
//! Each write is durable when it ends, as in fio; flushes have nothing left to do. `ndctl create-namespace -f -e namespace0.0
//! --mode=devdax` makes such a device of persistent memory; in a lab without udev `modprobe -a dax_pmem device_dax` comes first.

use std::os::fd::BorrowedFd;
use std::path::Path;

use pagelab_fiojob::{Caps, JobOptions, Operation, engines as language};
use pagelab_mapping::CacheLines;

use super::backing::{Backing, FileKind};
use super::file::TargetFile;
use super::persist::{Persistent, Stores, Ways};
use super::{Engine, MapReport, Setup, StartOver, Synchronous};
use crate::buffer::Buffer;
use crate::dax_device::{self, DaxDevice};
use crate::error::LoadError;
use crate::fault::Fault;

/// An open device and its pieces.
pub(crate) struct DevDax(Persistent);

impl Engine for DevDax {
    const CAPS: Caps = language::DEV_DAX.caps;

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        if CacheLines::of_this_processor().is_none() {
            return Err(LoadError::Target {
                job: setup.job.to_owned(),
                reason: format!(
                    "no instruction is known that writes cache lines back on {}; ioengine=dev-dax needs x86_64",
                    std::env::consts::ARCH
                ),
            });
        }
        // There is no file to make, and no page cache to read ahead into.
        let options = JobOptions { create_on_open: false, pre_read: false, ..setup.options.clone() };
        let setup = &Setup { options: &options, ..*setup };
        let backing = |_: &TargetFile, fd: BorrowedFd<'_>| {
            let device = device(setup, fd)?;
            let fd = fd.try_clone_to_owned().map_err(|error| LoadError::system("duplicating a descriptor", error))?;
            Ok(Backing::File { fd, shared: true, page: device.align, kind: FileKind::DaxDevice })
        };
        Persistent::open(setup, Ways { stores: Stores::ByLength, waits: true }, backing).map(Self)
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

impl Synchronous for DevDax {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault> {
        self.0.execute(operation, buffer)
    }
}

/// The opened device, which need not be the one that the plan looked at.
fn device(setup: &Setup<'_>, fd: BorrowedFd<'_>) -> Result<DaxDevice, LoadError> {
    let target = |reason: String| LoadError::Target { job: setup.job.to_owned(), reason };
    let stat = rustix::fs::fstat(fd).map_err(|error| LoadError::system("looking at a descriptor", error))?;
    let end = setup.course.start + setup.course.region_bytes;
    match dax_device::look(Path::new("/"), stat.st_rdev).map_err(target)? {
        Some(device) if device.bytes >= end => Ok(device),
        Some(device) => Err(target(format!("the device has {} bytes, the region ends at {end}", device.bytes))),
        None => Err(target("what was opened is no character device of direct access any more".to_owned())),
    }
}
