//! The system calls of the cases, each as a function that returns the error number.
//!
//! They go through libc on purpose: a library that is loaded before libc can then break what the kernel does, and each case
//! is shown to notice (`tests/shim`). rustix would make raw system calls, which nothing can stand in front of.

mod mount;
mod process;
mod region;

use std::ffi::{CStr, CString};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub(crate) use mount::Mount;
pub(crate) use process::{Ended, Gate, Process, in_child, own_ipc, pair_of_threads};
pub(crate) use region::{Region, map, map_at};

/// An error number, with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    /// The error of the call just made.
    pub(crate) fn last() -> Self {
        Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// The name in errno.h, for those that the cases meet; the number for others.
    pub(crate) fn name(self) -> String {
        let name = match self.0 {
            libc::EPERM => "EPERM",
            libc::ENOENT => "ENOENT",
            libc::EAGAIN => "EAGAIN",
            libc::ENOMEM => "ENOMEM",
            libc::EACCES => "EACCES",
            libc::EFAULT => "EFAULT",
            libc::EBUSY => "EBUSY",
            libc::ENODEV => "ENODEV",
            libc::EINVAL => "EINVAL",
            libc::ENOSPC => "ENOSPC",
            libc::ENOSYS => "ENOSYS",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            other => return format!("errno {other}"),
        };
        name.to_owned()
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name())
    }
}

/// The result of a call that returns -1 for an error.
pub(crate) fn checked(returned: impl Into<i64>) -> Result<i64, Errno> {
    let returned = returned.into();
    if returned == -1 { Err(Errno::last()) } else { Ok(returned) }
}

/// An open descriptor.
#[derive(Debug)]
pub(crate) struct Fd(OwnedFd);

impl Fd {
    /// Takes what a call returned.
    pub(crate) fn new(returned: i64) -> Result<Self, Errno> {
        let raw = checked(returned)?;
        // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
        Ok(Fd(unsafe { OwnedFd::from_raw_fd(raw as i32) }))
    }

    pub(crate) fn raw(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// The size that the file says it has.
    pub(crate) fn size(&self) -> Result<i64, Errno> {
        let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the kernel fills in the structure, all of whose bytes are zero before.
        checked(unsafe { libc::fstat(self.raw(), stat.as_mut_ptr()) })?;
        // SAFETY: zeroed bytes are a valid stat, and the call filled it in.
        Ok(unsafe { stat.assume_init() }.st_size)
    }

    pub(crate) fn truncate(&self, bytes: usize) -> Result<(), Errno> {
        // SAFETY: takes numbers only.
        checked(unsafe { libc::ftruncate(self.raw(), bytes as i64) }).map(drop)
    }

    pub(crate) fn allocate(&self, mode: i32, from: usize, bytes: usize) -> Result<(), Errno> {
        // SAFETY: takes numbers only.
        checked(unsafe { libc::fallocate(self.raw(), mode, from as i64, bytes as i64) }).map(drop)
    }

    /// Gives the bytes back and leaves the size.
    pub(crate) fn punch(&self, from: usize, bytes: usize) -> Result<(), Errno> {
        self.allocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, from, bytes)
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        // SAFETY: the kernel reads the slice.
        let written = unsafe { libc::write(self.raw(), bytes.as_ptr().cast(), bytes.len()) };
        checked(written as i64).map(|written| written as usize)
    }

    pub(crate) fn read_at(&self, bytes: &mut [u8], at: usize) -> Result<usize, Errno> {
        // SAFETY: the kernel writes into the slice.
        let read = unsafe { libc::pread(self.raw(), bytes.as_mut_ptr().cast(), bytes.len(), at as i64) };
        checked(read as i64).map(|read| read as usize)
    }

    pub(crate) fn seal(&self, seals: i32) -> Result<(), Errno> {
        // SAFETY: takes numbers only.
        checked(unsafe { libc::fcntl(self.raw(), libc::F_ADD_SEALS, seals) }).map(drop)
    }

    /// Block size, blocks and free blocks of the file system, and its magic number.
    pub(crate) fn statfs(&self) -> Result<Statfs, Errno> {
        let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
        // SAFETY: the kernel fills in the structure, all of whose bytes are zero before.
        checked(unsafe { libc::fstatfs(self.raw(), found.as_mut_ptr()) })?;
        // SAFETY: zeroed bytes are a valid statfs, and the call filled it in.
        let found = unsafe { found.assume_init() };
        Ok(Statfs { kind: found.f_type, block: found.f_bsize, blocks: found.f_blocks, free: found.f_bfree })
    }
}

/// What statfs says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Statfs {
    pub(crate) kind: i64,
    pub(crate) block: i64,
    pub(crate) blocks: u64,
    pub(crate) free: u64,
}

/// Opens a path.
pub(crate) fn open(path: &str, flags: i32) -> Result<Fd, Errno> {
    let path = CString::new(path).map_err(|_| Errno(libc::EINVAL))?;
    // SAFETY: the path ends with a zero byte.
    Fd::new(i64::from(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o600) }))
}

/// The text of a small file, read anew each time.
pub(crate) fn read_text(path: &str) -> Result<String, Errno> {
    let file = open(path, libc::O_RDONLY)?;
    let mut all = Vec::new();
    let mut part = vec![0; 1 << 16];
    loop {
        // SAFETY: the kernel writes into the vector, at most its length.
        let got = unsafe { libc::read(file.raw(), part.as_mut_ptr().cast(), part.len()) };
        match checked(got as i64)? {
            0 => return Ok(String::from_utf8_lossy(&all).into_owned()),
            got => all.extend_from_slice(part.get(..got as usize).unwrap_or_default()),
        }
    }
}

/// A file without a name.
pub(crate) fn memfd(name: &CStr, flags: u32) -> Result<Fd, Errno> {
    // SAFETY: the name ends with a zero byte.
    Fd::new(i64::from(unsafe { libc::memfd_create(name.as_ptr(), flags) }))
}

/// Faults that this process has had so far without I/O.
pub(crate) fn minor_faults() -> Result<i64, Errno> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills in the structure, all of whose bytes are zero before.
    checked(unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) })?;
    // SAFETY: zeroed bytes are a valid rusage, and the call filled it in.
    Ok(unsafe { usage.assume_init() }.ru_minflt)
}

/// Switches THP off or on for this process.
pub(crate) fn thp_disable(off: bool) -> Result<(), Errno> {
    // SAFETY: takes numbers only.
    checked(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(off), 0, 0, 0) }).map(drop)
}

/// SysV shared memory.
pub(crate) mod sysv {
    use super::{Errno, Region, checked};

    /// A segment that only this process and its children know.
    pub(crate) fn get(bytes: usize, flags: i32) -> Result<i32, Errno> {
        // SAFETY: takes numbers only.
        checked(unsafe { libc::shmget(libc::IPC_PRIVATE, bytes, libc::IPC_CREAT | flags) }).map(|id| id as i32)
    }

    /// Attaches it; `bytes` is the length that the region will say.
    pub(crate) fn attach(id: i32, flags: i32, bytes: usize) -> Result<Region, Errno> {
        // SAFETY: the kernel chooses the address.
        let at = unsafe { libc::shmat(id, std::ptr::null(), flags) };
        checked(at as i64).map(|at| Region { addr: at as usize, len: bytes })
    }

    pub(crate) fn detach(region: &Region) -> Result<(), Errno> {
        // SAFETY: regions are numbers; nothing keeps a reference into one.
        checked(unsafe { libc::shmdt(region.addr as *const libc::c_void) }).map(drop)
    }

    /// Marks it to go when the last one detaches.
    pub(crate) fn remove(id: i32) -> Result<(), Errno> {
        // SAFETY: IPC_RMID takes no buffer.
        checked(unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) }).map(drop)
    }
}
