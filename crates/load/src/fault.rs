//! Why an operation failed, as it travels through the loops around engines.

use crate::safety::Unopened;

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
    /// The path of a file that the job writes leads to another file than the one checked.
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

impl From<Unopened> for Fault {
    fn from(unopened: Unopened) -> Self {
        match unopened {
            Unopened::Errno(errno) => errno.into(),
            Unopened::Replaced => Self::Replaced,
        }
    }
}
