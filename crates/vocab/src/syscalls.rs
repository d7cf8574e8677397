//! The system calls of x86-64: numbers, names, arguments and what they mean, declared once. Those of 32-bit programs are in
//! [`i386`].
//!
//! A number that the registry does not have has a name all the same: [`name_of`].
//!
//! The recorder takes numbers and names from here, and which argument is the descriptor, the count and the offset;
//! views take from here how an argument is printed.
//!
//! [`Class`] groups the calls as `strace -e trace=%desc` does, so that what people know of it holds here.
//!
//! ## How to add a call
//!
//! 1. Add a row to the table in `syscalls/table.rs`, in the order of numbers.
//! 2. If an argument's values have names that no set of [`Words`] has, add a set to `syscalls/words.rs`.

pub mod i386;
mod numbers;
mod purpose;
mod table;
mod words;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use numbers::{is_number, name_of, name_of_unknown};
pub use purpose::Purpose;
pub use words::{ERRNOS, WordSet, Words, errno, signal};

/// One system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyscallDef {
    /// Its number on x86-64.
    pub number: u32,
    /// Its name, as in `<asm/unistd_64.h>`.
    pub name: &'static str,
    /// The classes that it is in.
    pub classes: Classes,
    /// Its arguments in their order; empty also where they are not known (calls that no kernel has any more).
    pub args: &'static [Arg],
    /// What it returns if it does not fail.
    pub returns: Returns,
    /// Whether it moves data, and in which direction.
    pub transfer: Option<Transfer>,
}

/// One argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arg {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgKind,
}

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgKind {
    /// A file descriptor.
    Fd,
    /// The descriptor of a directory that paths are relative to, or AT_FDCWD.
    DirFd,
    /// Address of a path, or of another string that ends in 0.
    Path,
    /// Address of memory for the data moved.
    Buffer,
    /// Bytes asked for.
    Count,
    /// Address of an array of buffers with their lengths.
    Iovec,
    /// Entries of that array.
    IovCount,
    /// Offset in the file at which the data are moved.
    Offset,
    /// Another offset in a file.
    FileOffset,
    /// A length or size in bytes.
    Length,
    /// An address.
    Address,
    /// Permissions, printed as octal digits.
    Mode,
    /// A process or thread.
    Pid,
    /// A signal.
    Signal,
    /// A value or flags with names.
    Flags(Words),
    /// A signed number of 32 bits.
    Int,
    /// A word best read in hexadecimal.
    Hex,
    /// A register that the kernel does not look at.
    Unused,
}

/// What a call returns that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// 0, or a number that is none of the following.
    Status,
    /// Bytes moved.
    Bytes,
    /// A new descriptor.
    Fd,
    /// An address.
    Address,
    /// An offset in a file.
    Offset,
    /// A process or thread.
    Pid,
    /// Permissions.
    Mode,
    /// It does not return.
    Never,
}

/// The direction in which a call moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// From the descriptor into memory.
    Read,
    /// From memory to the descriptor.
    Write,
    /// From one descriptor to another.
    Copy,
    /// It only submits operations, which the call itself does not show (io_uring, libaio).
    Submit,
}

/// A group of calls, as strace names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Calls that take or give file descriptors.
    Desc = 1,
    /// Calls that take a path.
    File = 1 << 1,
    /// Mappings of memory.
    Memory = 1 << 2,
    /// Life of processes.
    Process = 1 << 3,
    /// Sockets.
    Network = 1 << 4,
    /// Signals.
    Signal = 1 << 5,
    /// System V communication.
    Ipc = 1 << 6,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 7] =
        [Self::Desc, Self::File, Self::Memory, Self::Process, Self::Network, Self::Signal, Self::Ipc];

    /// Its name, as typed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Desc => "desc",
            Self::File => "file",
            Self::Memory => "memory",
            Self::Process => "process",
            Self::Network => "network",
            Self::Signal => "signal",
            Self::Ipc => "ipc",
        }
    }

    /// The class of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

/// A set of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Classes(u8);

impl Classes {
    /// The set of these.
    pub const fn of(classes: &[Class]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < classes.len() {
            bits |= classes[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// Whether `class` is one of them.
    pub const fn contains(self, class: Class) -> bool {
        self.0 & class as u8 != 0
    }
}

impl SyscallDef {
    fn position(&self, wanted: impl Fn(ArgKind) -> bool) -> Option<usize> {
        self.args.iter().position(|arg| wanted(arg.kind))
    }

    /// The argument that is the descriptor the call works on; of several the first.
    pub fn fd_arg(&self) -> Option<usize> {
        self.position(|kind| kind == ArgKind::Fd)
    }

    /// The argument that says how many bytes are asked for.
    pub fn count_arg(&self) -> Option<usize> {
        self.position(|kind| kind == ArgKind::Count)
    }

    /// The argument that says where in the file the data are moved. -1 in `preadv2` and `pwritev2` is the file
    /// position.
    pub fn offset_arg(&self) -> Option<usize> {
        self.position(|kind| kind == ArgKind::Offset)
    }

    /// The argument that is the array of buffers; the number of its entries is the next one.
    pub fn iovec_arg(&self) -> Option<usize> {
        self.position(|kind| kind == ArgKind::Iovec)
    }
}

/// Every call, by number.
pub fn all() -> &'static [SyscallDef] {
    table::CALLS
}

/// The call with that number.
pub fn by_number(number: u32) -> Option<&'static SyscallDef> {
    let calls = all();
    calls.binary_search_by_key(&number, |call| call.number).ok().and_then(|at| calls.get(at))
}

/// The call with that name; by a name that only 32-bit programs have ([`i386`]), the call that does the same.
pub fn by_name(name: &str) -> Option<&'static SyscallDef> {
    static NAMES: LazyLock<HashMap<&'static str, &'static SyscallDef>> = LazyLock::new(|| {
        let mut names = i386::aliases();
        names.extend(all().iter().map(|call| (call.name, call)));
        names
    });
    NAMES.get(name).copied()
}

#[cfg(test)]
mod tests;
