//! Mappings: made, touched, advised, undone.

use super::{Errno, Fd, checked};
use crate::outcome::{Outcome, Stop};

/// Bytes of the pages that a tag is written to.
const BASE: usize = 4096;

/// Readable and writable.
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A range of addresses. It is a pair of numbers: nothing is unmapped when it goes, which the end of the process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) addr: usize,
    pub(crate) len: usize,
}

/// Maps `len` bytes of a file or of nothing, readable and writable.
pub(crate) fn map(len: usize, flags: i32, file: Option<(&Fd, usize)>) -> Result<Region, Errno> {
    map_at(0, len, READ_WRITE, flags, file)
}

/// Maps at an address (a hint, or with MAP_FIXED).
pub(crate) fn map_at(
    addr: usize,
    len: usize,
    protection: i32,
    flags: i32,
    file: Option<(&Fd, usize)>,
) -> Result<Region, Errno> {
    let (fd, offset, flags) = match file {
        Some((fd, offset)) => (fd.raw(), offset as i64, flags),
        None => (-1, 0, flags | libc::MAP_ANONYMOUS),
    };
    // SAFETY: fixed addresses come from a mapping that the case itself made, so nothing else of the process is hit.
    let at = unsafe { libc::mmap(addr as *mut libc::c_void, len, protection, flags, fd, offset) };
    if at == libc::MAP_FAILED { Err(Errno::last()) } else { Ok(Region { addr: at as usize, len }) }
}

impl Region {
    /// `len` bytes of it from `at` on.
    pub(crate) fn part(&self, at: usize, len: usize) -> Region {
        assert!(at + len <= self.len, "{at} + {len} of {}", self.len);
        Region { addr: self.addr + at, len }
    }

    /// Writes one byte.
    pub(crate) fn write(&self, at: usize, byte: u8) {
        assert!(at < self.len, "{at} of {}", self.len);
        // SAFETY: the address is inside a mapping of the case; if the kernel gives no page the case dies by a signal, which
        // is what some cases are about. No reference to this memory exists.
        unsafe { std::ptr::write_volatile((self.addr + at) as *mut u8, byte) }
    }

    /// Reads one byte.
    pub(crate) fn read(&self, at: usize) -> u8 {
        assert!(at < self.len, "{at} of {}", self.len);
        // SAFETY: as for `write`.
        unsafe { std::ptr::read_volatile((self.addr + at) as *const u8) }
    }

    /// Writes a byte at every `stride` bytes.
    pub(crate) fn touch(&self, stride: usize) {
        (0..self.len).step_by(stride).for_each(|at| self.write(at, 1));
    }

    /// Writes a tag into every 4 KiB, another one for each seed and place.
    pub(crate) fn fill(&self, seed: u8) {
        (0..self.len).step_by(BASE).for_each(|at| self.write(at + 8, tag(seed, at)));
    }

    /// All tags must be those of the seed.
    pub(crate) fn check(&self, what: &str, seed: u8) -> Outcome {
        self.check_with(what, |at| tag(seed, at))
    }

    /// Where tags are, all bytes must be zero.
    pub(crate) fn check_zero(&self, what: &str) -> Outcome {
        self.check_with(what, |_| 0)
    }

    fn check_with(&self, what: &str, expected: impl Fn(usize) -> u8) -> Outcome {
        for at in (0..self.len).step_by(BASE) {
            let (found, expected) = (self.read(at + 8), expected(at));
            if found != expected {
                let place = format!("{what}, byte {}", at + 8);
                return Err(Stop::fail(&place, format!("{found:#04x}"), format!("{expected:#04x}")));
            }
        }
        Ok(())
    }

    pub(crate) fn unmap(&self) -> Result<(), Errno> {
        // SAFETY: the region was mapped by the case, and nothing keeps a reference into it.
        checked(unsafe { libc::munmap(self.addr as *mut libc::c_void, self.len) }).map(drop)
    }

    pub(crate) fn advise(&self, advice: i32) -> Result<(), Errno> {
        // SAFETY: as for `unmap`; advice may empty the pages.
        checked(unsafe { libc::madvise(self.addr as *mut libc::c_void, self.len, advice) }).map(drop)
    }

    pub(crate) fn protect(&self, protection: i32) -> Result<(), Errno> {
        // SAFETY: as for `unmap`.
        checked(unsafe { libc::mprotect(self.addr as *mut libc::c_void, self.len, protection) }).map(drop)
    }

    pub(crate) fn lock(&self) -> Result<(), Errno> {
        // SAFETY: takes a range and changes no content.
        checked(unsafe { libc::mlock(self.addr as *const libc::c_void, self.len) }).map(drop)
    }

    /// Moves it over another region of the same length.
    pub(crate) fn move_over(&self, target: &Region) -> Result<Region, Errno> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let (from, to) = (self.addr as *mut libc::c_void, target.addr as *mut libc::c_void);
        // SAFETY: both regions were mapped by the case, and nothing keeps a reference into them.
        let at = unsafe { libc::mremap(from, self.len, target.len, flags, to) };
        if at == libc::MAP_FAILED { Err(Errno::last()) } else { Ok(Region { addr: at as usize, len: target.len }) }
    }

    /// Has the kernel write its bytes from a file: where a page cannot be had this is EFAULT, and no signal.
    pub(crate) fn read_from(&self, file: &Fd, offset: usize) -> Result<usize, Errno> {
        // SAFETY: the region is a mapping of the case, to which no reference exists.
        let read = unsafe { libc::pread(file.raw(), self.addr as *mut libc::c_void, self.len, offset as i64) };
        checked(read as i64).map(|read| read as usize)
    }

    /// Has the kernel write its bytes into a file.
    pub(crate) fn write_to(&self, file: &Fd, offset: usize) -> Result<usize, Errno> {
        // SAFETY: as for `read_from`.
        let written = unsafe { libc::pwrite(file.raw(), self.addr as *const libc::c_void, self.len, offset as i64) };
        checked(written as i64).map(|written| written as usize)
    }
}

/// Never zero, so that it differs from a fresh page.
fn tag(seed: u8, at: usize) -> u8 {
    seed.wrapping_add((at / BASE % 64) as u8) | 0x80
}
