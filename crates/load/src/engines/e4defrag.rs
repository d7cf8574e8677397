//! `ioengine=e4defrag`: `EXT4_IOC_MOVE_EXT`, which moves the blocks of a file to those of a donor and leaves what the file holds.
//!
//! The donor (`donorname`) is a file of pagelab's own: with `inplace=1` its blocks are allocated before each operation and freed after it.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use pagelab_fiojob::{Caps, Direction, Operation, engines as language};
use rustix::fs::{FallocateFlags, OFlags, fallocate, fstat, ftruncate};

use super::file::{OpenFile as _, TargetFile};
use super::{Engine, Setup, StartOver, Synchronous, explain_plainly};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;
use crate::safety::{self, Ownership};

/// `struct move_extent` of `fs/ext4/ext4.h`.
#[repr(C)]
#[derive(Default)]
struct MoveExtent {
    reserved: u32,
    donor_fd: u32,
    orig_start: u64,
    donor_start: u64,
    length: u64,
    moved: u64,
}

/// `_IOWR('f', 15, struct move_extent)`.
const EXT4_IOC_MOVE_EXT: libc::Ioctl = 0xc028_660f;

/// An open file and its donor.
pub(crate) struct E4Defrag {
    file: TargetFile,
    donor: OwnedFd,
    in_place: bool,
    block_bytes: u64,
}

impl Engine for E4Defrag {
    const CAPS: Caps = language::E4DEFRAG.caps;

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        let file = TargetFile::open(setup)?;
        let donor = donor(setup)?;
        let failed = |what: &str, error| LoadError::system(format!("job '{}': {what} the donor", setup.job), error);
        if !setup.options.inplace {
            let end = setup.course.start.saturating_add(setup.course.region_bytes);
            fallocate(donor.as_fd(), FallocateFlags::empty(), 0, end).map_err(|error| failed("allocating", error))?;
        }
        let stat = fstat(donor.as_fd()).map_err(|error| failed("looking at", error))?;
        let block_bytes = u64::try_from(stat.st_blksize).unwrap_or(4096).max(1);
        Ok(Self { file, donor, in_place: setup.options.inplace, block_bytes })
    }

    fn flush(&mut self, data_only: bool) -> Result<(), Fault> {
        self.file.flush(data_only)
    }

    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        self.file.start_over(how)
    }

    fn explain(&self, fault: Fault, operation: Operation) -> String {
        let words = explain_plainly(fault, operation);
        match fault {
            Fault::Errno(libc::ENOTTY | libc::EOPNOTSUPP) => {
                format!("{words}; EXT4_IOC_MOVE_EXT is a call of ext4 with extents: put file and donor there")
            }
            Fault::Errno(libc::EBUSY) => {
                format!(
                    "{words}; its pages are in use, or not written back yet: fsync the file before, as with end_fsync=1"
                )
            }
            Fault::Errno(libc::EINVAL) if operation.direction == Direction::Read => {
                format!("{words}; e4defrag moves blocks for writes only, as in fio: rw=write or randwrite")
            }
            _ => words,
        }
    }
}

/// The donor, which is made if it is not there.
fn donor(setup: &Setup<'_>) -> Result<OwnedFd, LoadError> {
    let name = setup.options.donorname.as_deref().unwrap_or_default();
    let path = match setup.options.directory.as_deref() {
        Some(directory) => PathBuf::from(directory).join(name),
        None => PathBuf::from(name),
    };
    let ownership = Ownership::new(setup.state_dir);
    match ownership.create(&path)? {
        Some(fd) => Ok(fd),
        None => safety::open_own(&path, OFlags::RDWR, setup.allow_write, &ownership),
    }
}

impl Synchronous for E4Defrag {
    fn execute(&mut self, operation: Operation, _: &mut Buffer) -> Result<u32, Fault> {
        if operation.direction != Direction::Write {
            return Err(Fault::Errno(libc::EINVAL));
        }
        let end = operation.offset + u64::from(operation.bytes);
        if self.in_place {
            fallocate(self.donor.as_fd(), FallocateFlags::empty(), operation.offset, operation.bytes.into())?;
        }
        let start = operation.offset / self.block_bytes;
        let mut extent = MoveExtent {
            donor_fd: self.donor.as_raw_fd().cast_unsigned(),
            orig_start: start,
            donor_start: start,
            length: end.div_ceil(self.block_bytes) - start,
            ..MoveExtent::default()
        };
        // SAFETY: the call reads and writes the structure behind the pointer, which is the one that it knows.
        let result = unsafe { libc::ioctl(self.file.fd()?.as_raw_fd(), EXT4_IOC_MOVE_EXT, &raw mut extent) };
        let failed = if result == 0 { None } else { std::io::Error::last_os_error().raw_os_error() };
        if self.in_place {
            ftruncate(self.donor.as_fd(), 0)?;
        }
        if let Some(errno) = failed {
            return Err(Fault::Errno(errno));
        }
        let moved = extent.moved.saturating_mul(self.block_bytes).min(operation.bytes.into());
        if moved == 0 { Err(Fault::Errno(libc::EINVAL)) } else { Ok(moved as u32) }
    }
}
