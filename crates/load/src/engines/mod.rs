//! Engines: what carries out operations. One file each behind one trait; the rest of the crate knows capabilities, not names.
//!
//! # How to add an engine
//! 1. Copy `skeleton.rs`, which says at each place what belongs there. Implement [`Engine`]: `open` makes everything ready before the
//!    start barrier, the other methods are only for engines that have something to flush, reopen or report; and [`Synchronous`], whose
//!    `execute` does one operation and nothing else. An engine that has several operations under way implements [`queue::Queue`]
//!    instead: `push`, `submit`, `reap`. One that reads and writes a file by one plain system call each is a [`file_calls::Calls`].
//! 2. Declare it in `pagelab_fiojob::engines`, with its capabilities stated truthfully: options are offered, refused or warned about by
//!    them. Take its name off the list in `pagelab_fiojob::unsupported`.
//! 3. Add it to the table in `worker/carrying.rs`: engines know nothing of workers.
//! 4. Test counts and contents against fio (`tests/against_fio.rs`) if fio has it.
//!
//! `execute` is called from a loop that is compiled once for each engine, so it is inlined; it must not allocate or lock.

pub(crate) mod anon;
mod arena;
mod backing;
pub(crate) mod dev_dax;
pub(crate) mod e4defrag;
pub(crate) mod falloc;
mod file;
pub(crate) mod file_calls;
mod got;
pub(crate) mod io_uring;
pub(crate) mod libaio;
pub(crate) mod libpmem;
pub(crate) mod mmap;
pub(crate) mod null;
mod own;
pub(crate) mod persist;
mod pieces;
pub(crate) mod posixaio;
pub(crate) mod pvsync2;
pub(crate) mod queue;
pub(crate) mod shm;
#[cfg(test)]
mod skeleton;
mod slots;
pub(crate) mod splice;
pub(crate) mod whole_files;

use std::path::{Path, PathBuf};

use pagelab_fiojob::{Caps, JobOptions, Operation};

pub(crate) use got::mapped_memory;
pub use got::{MapReport, MappedMemory};
pub use slots::SlotCounts;
pub(crate) use slots::{asked, count as count_slots};

use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;
use crate::offsets::Course;

/// `RWF_DONTCACHE` of `linux/fs.h`, since Linux 6.14.
const DONTCACHE: u32 = 0x80;

/// Why an operation with `nowait=1` failed with EAGAIN.
const WOULD_BLOCK: &str = "it would block, and nowait=1 forbids that; ignore_error=EAGAIN,EAGAIN goes on after it";

/// How to start over at the end of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartOver {
    /// A further loop: close and open the target again, as fio does for `loops`.
    Reopen,
    /// Time is not over yet: only drop cached pages where the job asks for it, as fio does for `time_based`.
    Rewind,
    /// Data written, and flushed since, are read again: drop cached pages where the job wants that, whoever has them
    /// mapped here.
    Reread,
}

/// The inputs of an engine's setup.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// The job's name, for messages.
    pub job: &'a str,
    /// The job's options.
    pub options: &'a JobOptions,
    /// The file or device, for engines that have one.
    pub path: Option<&'a Path>,
    /// The right to write it; `None` for jobs that only read.
    pub permit: Option<crate::safety::Permit>,
    /// Where and how the worker will move in this file.
    pub course: &'a Course,
    /// Where files made by pagelab are remembered if the file system cannot.
    pub state_dir: &'a Path,
    /// What the user named to be written.
    pub allow_write: &'a [PathBuf],
}

/// An engine at work for one worker on one file: its life. A worker with several files has one for each that is open.
pub trait Engine: Sized {
    /// Its capabilities, as the job language describes them.
    const CAPS: Caps;

    /// Makes everything ready: open, map, allocate. Runs before the start barrier.
    ///
    /// # Errors
    /// What the host, the file or the job lacks.
    fn open(setup: &Setup<'_>) -> Result<Self, LoadError>;

    /// Makes writes durable.
    ///
    /// # Errors
    /// Why it failed.
    fn flush(&mut self, data_only: bool) -> Result<(), Fault> {
        let _ = data_only;
        Ok(())
    }

    /// Makes writes durable because the file is about to be closed (`fsync_on_close`).
    ///
    /// # Errors
    /// Why it failed.
    fn flush_closing(&mut self) -> Result<(), Fault> {
        self.flush(false)
    }

    /// Writes `bytes` from `offset` back, as the `SYNC_FILE_RANGE` flags say, for engines that can.
    ///
    /// # Errors
    /// Why it failed.
    fn flush_range(&mut self, offset: u64, bytes: u64, flags: u32) -> Result<(), Fault> {
        let _ = (offset, bytes, flags);
        Ok(())
    }

    /// Gets ready for the next pass.
    ///
    /// # Errors
    /// Why it failed.
    fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        let _ = how;
        Ok(())
    }

    /// The mappings so far and their addresses, for engines that map. The worker looks up what the kernel made of them.
    fn mapped(&self) -> Option<MapReport> {
        None
    }

    /// A failed operation in words: value found, value needed, command to type.
    fn explain(&self, fault: Fault, operation: Operation) -> String {
        explain_plainly(fault, operation)
    }
}

/// An engine that completes each operation before it returns.
pub trait Synchronous: Engine {
    /// Does one operation, from or to the start of the buffer; gives the bytes transferred. Fewer than asked means a short transfer:
    /// the caller asks for the rest. The buffer holds the longest operation of the job.
    ///
    /// # Errors
    /// Why it failed; the worker ends with it, unless the job goes on after errors.
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault>;
}

/// Words for a fault that no engine knows more about.
fn explain_plainly(fault: Fault, operation: Operation) -> String {
    let what = format!("{} of {} bytes at offset {}", operation.direction.name(), operation.bytes, operation.offset);
    match fault {
        Fault::Errno(errno) => format!("{what}: {}", std::io::Error::from_raw_os_error(errno)),
        Fault::EndOfFile => format!("{what}: the file ends before; it was made shorter while the job ran"),
        Fault::Bus { address } => {
            format!(
                "{what}: no page for the mapped address {address:#x}: the file was made shorter, its medium is full or failed, or the hugetlb pool is empty"
            )
        }
        Fault::HugetlbExhausted => format!("{what}: the hugetlb pool is empty"),
        Fault::Replaced => format!("{what}: {}", crate::safety::REPLACED),
    }
}
