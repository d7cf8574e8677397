//! Engines: what carries out operations. One file each behind one trait; the rest of the crate knows capabilities, not names.
//!
//! # How to add an engine
//! 1. Copy `skeleton.rs`, which says at each place what belongs there. Implement [`Engine`]: `open` makes everything ready before the
//!    start barrier, the other methods are only for engines that have something to flush, reopen or report; and [`Synchronous`], whose
//!    `execute` does one operation and nothing else. An engine that has several operations under way implements [`queue::Queue`]
//!    instead: `push`, `submit`, `reap`.
//! 2. State its capabilities in [`Engine::CAPS`] truthfully: options are offered, refused or warned about by them.
//! 3. Add it to [`ENGINES`], take its name off the list in `job/unsupported.rs`.
//! 4. Test counts and contents against fio (`tests/against_fio.rs`) if fio has it.
//!
//! `execute` is called from a loop that is compiled once for each engine, so it is inlined; it must not allocate or lock.

mod anon;
mod arena;
mod backing;
mod dev_dax;
mod file;
mod got;
mod io_uring;
mod libaio;
mod libpmem;
mod mmap;
mod null;
mod own;
pub(crate) mod persist;
mod pieces;
mod psync;
mod pvsync;
mod pvsync2;
pub(crate) mod queue;
mod shm;
#[cfg(test)]
mod skeleton;
mod slots;
mod sync;
mod vsync;

use std::path::Path;

pub(crate) use got::mapped_memory;
pub use got::{MapReport, MappedMemory};
pub use slots::SlotCounts;
pub(crate) use slots::{asked, count as count_slots};

use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::job::JobOptions;
use crate::offsets::{Course, Operation};
use crate::worker::drive;
use crate::worker::task::{Task, WorkerResult};

/// What an engine can do, as a set of flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps(u32);

impl Caps {
    /// Nothing in particular.
    pub const NONE: Self = Self(0);
    /// Works on a file or block device.
    pub const FILES: Self = Self(1);
    /// Can bypass the page cache.
    pub const DIRECT: Self = Self(1 << 1);
    /// Can open its file for synchronous writing.
    pub const SYNC_OPEN: Self = Self(1 << 2);
    /// Maps memory; takes the `map_` options.
    pub const MAPS: Self = Self(1 << 3);
    /// Maps anonymous memory, hugetlb too.
    pub const ANONYMOUS: Self = Self(1 << 4);
    /// Has something to flush.
    pub const FSYNC: Self = Self(1 << 5);
    /// Completes each operation before it returns: no queue, no submission latency.
    pub const SYNCHRONOUS: Self = Self(1 << 6);
    /// Touches the target's memory with the processor's own loads and stores, which a plain time stamp may overtake.
    pub const TOUCHES_MEMORY: Self = Self(1 << 7);
    /// Needs its file to have full length before it starts.
    pub const NEEDS_LENGTH: Self = Self(1 << 8);
    /// Transfers from and to a buffer.
    pub const BUFFERS: Self = Self(1 << 9);
    /// Can poll for the completion of some of its operations and not of others.
    pub const POLLED_SHARE: Self = Self(1 << 10);
    /// Can poll for the completion of operations.
    pub const POLLED: Self = Self(1 << 11);
    /// Can give up where an operation would block.
    pub const NOWAIT: Self = Self(1 << 12);
    /// Can drop an operation's pages from the page cache when it is done.
    pub const UNCACHED: Self = Self(1 << 13);
    /// Has rings shared with the kernel.
    pub const RINGS: Self = Self(1 << 14);
    /// Maps SysV segments.
    pub const SEGMENTS: Self = Self(1 << 16);
    /// Maps memory that may come from a memfd.
    pub const MEMFD: Self = Self(1 << 17);
    /// Can give up what a block device holds.
    pub const TRIMS: Self = Self(1 << 18);
    /// Writes past the page cache to memory that keeps it; maps shared.
    pub const PERSISTS: Self = Self(1 << 19);
    /// Works on character devices of direct access, and on nothing else.
    pub const DAX_DEVICES: Self = Self(1 << 20);
    /// Not an ability: what an engine has that reads and writes files by system calls.
    pub const FILE_CALLS: Self = Self::FILES
        .with(Self::DIRECT)
        .with(Self::SYNC_OPEN)
        .with(Self::FSYNC)
        .with(Self::SYNCHRONOUS)
        .with(Self::BUFFERS)
        .with(Self::TRIMS);

    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether everything in `other` is here.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Why an operation failed. Small and `Copy`: it travels through the hot loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A system call failed with this error number.
    Errno(i32),
    /// The file ended before the block did.
    EndOfFile,
    /// The kernel had no page to give for a mapped address (SIGBUS).
    Bus {
        /// The address.
        address: u64,
    },
    /// The hugetlb pool has no free page left.
    HugetlbExhausted,
    /// The path of a file that the job writes leads to something else than what was checked.
    Replaced,
}

impl Fault {
    /// The nearest error number, for reports that have only numbers.
    pub fn errno(self) -> i32 {
        match self {
            Self::Errno(errno) => errno,
            Self::EndOfFile => libc::EIO,
            Self::Bus { .. } => libc::EFAULT,
            Self::HugetlbExhausted => libc::ENOMEM,
            Self::Replaced => libc::ESTALE,
        }
    }
}

impl From<rustix::io::Errno> for Fault {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Errno(errno.raw_os_error())
    }
}

impl From<crate::safety::Unopened> for Fault {
    fn from(unopened: crate::safety::Unopened) -> Self {
        match unopened {
            crate::safety::Unopened::Errno(errno) => errno.into(),
            crate::safety::Unopened::Replaced => Self::Replaced,
        }
    }
}

/// `RWF_DONTCACHE` of `linux/fs.h`, since Linux 6.14.
const DONTCACHE: u32 = 0x80;

/// Why an operation with `nowait=1` failed with EAGAIN.
const WOULD_BLOCK: &str = "it would block, and nowait=1 forbids that; continue_on_error=all goes on after it";

/// How to start over at the end of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartOver {
    /// A further loop: close and open the target again, as fio does for `loops`.
    Reopen,
    /// Time is not over yet: only drop cached pages where the job asks for it, as fio does for `time_based`.
    Rewind,
    /// What was written, and flushed since, is read again: drop cached pages where the job wants that, whoever has them mapped here.
    Reread,
}

/// What an engine gets to make itself ready.
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
}

/// An engine at work for one worker on one file: its life. A worker with several files has one for each that is open.
pub trait Engine: Sized {
    /// What it can do.
    const CAPS: Caps;

    /// Makes everything ready: open, map, allocate. Runs before the start barrier.
    ///
    /// # Errors
    /// What the host, the file or the job lacks.
    fn open(setup: &Setup<'_>) -> Result<Self, LoadError>;

    /// Makes what was written durable.
    ///
    /// # Errors
    /// Why it failed.
    fn flush(&mut self, data_only: bool) -> Result<(), Fault> {
        let _ = data_only;
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

    /// What was mapped so far and where, for engines that map. What the kernel made of it is looked up by the worker.
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

/// An engine as the job language sees it.
pub struct EngineDef {
    /// The word of `ioengine=`.
    pub name: &'static str,
    /// What it does.
    pub help: &'static str,
    /// What it can do.
    pub caps: Caps,
    /// A worker's life with this engine.
    pub(crate) run: fn(&Task<'_>) -> WorkerResult,
}

const fn define<E: Synchronous>(name: &'static str, help: &'static str) -> EngineDef {
    EngineDef { name, help, caps: E::CAPS, run: drive::run::<E> }
}

const fn define_queue<Q: queue::Queue>(name: &'static str, help: &'static str) -> EngineDef {
    EngineDef { name, help, caps: Q::CAPS, run: drive::run_queued::<Q> }
}

/// All engines.
pub static ENGINES: &[EngineDef] = &[
    define::<psync::PSync>("psync", "pread(2) and pwrite(2)"),
    define::<sync::Sync>("sync", "read(2) and write(2), with lseek(2) where the position is another"),
    define::<vsync::VSync>("vsync", "readv(2) and writev(2), with lseek(2) where the position is another"),
    define::<pvsync::PvSync>("pvsync", "preadv(2) and pwritev(2)"),
    define::<pvsync2::PvSync2>(
        "pvsync2",
        "preadv2(2) and pwritev2(2), with the flags that hipri, nowait and uncached ask for",
    ),
    define_queue::<io_uring::Uring>(
        "io_uring",
        "io_uring_enter(2), iodepth operations under way; with fixed buffers, registered files or a submitting thread of the kernel's",
    ),
    define_queue::<libaio::LibAio>("libaio", "io_submit(2) and io_getevents(2), iodepth operations under way"),
    define::<mmap::Mmap>("mmap", "copies from and to a mapping of the file, in pieces of any size"),
    define::<libpmem::LibPmem>(
        "libpmem",
        "copies from and to a file on direct access mapped with MAP_SYNC; writes are made durable by the processor, by msync(2) where MAP_SYNC is refused",
    ),
    define::<dev_dax::DevDax>(
        "dev-dax",
        "copies from and to a character device of direct access, /dev/dax0.0; each write is durable when it ends",
    ),
    define::<anon::Anon>(
        "anon",
        "copies from and to anonymous memory or a memfd: base pages, transparent huge pages by advice, or hugetlb pages",
    ),
    define::<shm::Shm>(
        "shm",
        "copies from and to System V shared memory, a segment for each piece: base pages or hugetlb pages",
    ),
    define::<null::Null>("null", "does nothing: what remains is what measuring costs"),
];

/// The engine of this name.
pub fn find(name: &str) -> Option<&'static EngineDef> {
    ENGINES.iter().find(|engine| engine.name == name)
}

/// The names of all engines.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENGINES.iter().map(|engine| engine.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_sets() {
        let both = Caps::FILES.with(Caps::DIRECT);
        assert!(both.contains(Caps::FILES) && both.contains(Caps::NONE) && !Caps::FILES.contains(both));
    }

    #[test]
    fn names_are_found() {
        for name in names() {
            assert_eq!(find(name).map(|engine| engine.name), Some(name));
        }
        assert!(find("posixaio").is_none());
    }
}
