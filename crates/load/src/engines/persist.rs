//! Copies to persistent memory, and what makes them durable: engines on direct access differ in what they map and in when they wait.
//!
//! A copy through the processor's caches is followed by an instruction that writes its lines back; a non-temporal one
//! bypasses the caches. Either has reached the memory after the next fence. Where a file is not on DAX none of that
//! helps: the kernel holds the writes in its page cache, and msync(2) makes them durable.

use std::os::fd::BorrowedFd;

use pagelab_fiojob::words::SyncMode;
use pagelab_fiojob::{Direction, JobOptions, Operation};
use pagelab_mapping::{CacheLines, WriteBack};

use super::backing::{Backing, FileKind};
use super::file::{OpenFile as _, TargetFile};
use super::pieces::{Pieces, copy};
use super::{MapReport, Setup, StartOver, explain_plainly};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;

/// From this length on a copy whose way is not asked for goes past the caches, as in libpmem.
const NON_TEMPORAL_FROM_BYTES: usize = 256;

/// Which way copies go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stores {
    /// Through the caches.
    Cached,
    /// Past them.
    NonTemporal,
    /// Short ones through them, long ones past them.
    ByLength,
}

/// The way to make a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durable {
    /// The processor.
    ByLines(CacheLines),
    /// msync(2).
    ByMsync,
}

impl Durable {
    fn word(self) -> &'static str {
        match self {
            Self::ByMsync => MSYNC,
            Self::ByLines(lines) => match lines.how() {
                WriteBack::Clwb => "clwb",
                WriteBack::Clflushopt => "clflushopt",
                WriteBack::Clflush => "clflush",
            },
        }
    }
}

/// The word of [`MapReport::durable_by`] for msync(2).
pub(crate) const MSYNC: &str = "msync";

/// How an engine writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ways {
    /// Which way copies go.
    pub stores: Stores,
    /// Each write is durable before it ends.
    pub waits: bool,
}

/// An open target on direct access and its pieces.
pub(crate) struct Persistent {
    file: TargetFile,
    pieces: Pieces,
    ways: Ways,
    durable: Durable,
}

impl Persistent {
    /// Opens and maps the target. `backing` is made of its descriptor, and tells whether the processor can make writes to it durable.
    ///
    /// # Errors
    /// What the host, the file or the job lacks.
    pub(crate) fn open(
        setup: &Setup<'_>,
        ways: Ways,
        backing: impl FnOnce(&TargetFile, BorrowedFd<'_>) -> Result<Backing, LoadError>,
    ) -> Result<Self, LoadError> {
        // The file itself need only be mappable: what direct and sync mean is decided by each copy.
        let options = JobOptions { direct: false, buffered: None, sync: SyncMode::None, ..setup.options.clone() };
        let setup = &Setup { options: &options, ..*setup };
        let file = TargetFile::open(setup)?;
        let fd = file.fd().map_err(|error| LoadError::system("looking at a descriptor", error))?;
        let backing = backing(&file, fd)?;
        let by_lines = matches!(backing, Backing::File { kind: FileKind::Synced | FileKind::DaxDevice, .. });
        let durable = match CacheLines::of_this_processor().filter(|_| by_lines) {
            Some(lines) => Durable::ByLines(lines),
            None => Durable::ByMsync,
        };
        Ok(Self { pieces: Pieces::new(setup, backing)?, file, ways, durable })
    }

    /// Copies a block between the buffer and its piece.
    ///
    /// # Errors
    /// There is no page; msync(2) failed.
    #[inline(always)]
    pub(crate) fn execute(&mut self, operation: Operation, buffer: &Buffer) -> Result<u32, Fault> {
        if operation.direction != Direction::Write {
            return copy(&mut self.pieces, buffer, operation);
        }
        let to = self.pieces.address(operation.offset)?;
        let len = operation.bytes as usize;
        match self.durable {
            // SAFETY: as in `copy`: the block lies in a mapped piece, the buffer holds the longest operation, and the two are distinct.
            Durable::ByLines(lines) => unsafe {
                store(lines, self.ways.stores, buffer.as_ptr(), to, len);
                if self.ways.waits {
                    lines.fence();
                }
            },
            // SAFETY: the same.
            Durable::ByMsync => unsafe {
                std::ptr::copy_nonoverlapping(buffer.as_ptr(), to, len);
                if self.ways.waits {
                    self.pieces.sync_block(to, len)?;
                }
            },
        }
        self.pieces.check()?;
        Ok(operation.bytes)
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// msync(2) failed.
    pub(crate) fn flush(&self) -> Result<(), Fault> {
        match self.durable {
            Durable::ByLines(lines) => {
                lines.fence();
                Ok(())
            }
            Durable::ByMsync => self.pieces.sync(),
        }
    }

    /// Gets ready for the next pass: what is mapped stays mapped, but for a further loop.
    ///
    /// # Errors
    /// The target cannot be opened or mapped again.
    pub(crate) fn start_over(&mut self, how: StartOver) -> Result<(), Fault> {
        if how != StartOver::Rewind {
            self.pieces.unmap_all()?;
            self.file.start_over(how)?;
            self.pieces.replace_file(self.file.fd()?)?;
            return self.pieces.map_anew();
        }
        self.file.start_over(how)
    }

    /// The mappings so far, and what makes writes to them durable.
    pub(crate) fn mapped(&self) -> MapReport {
        let mut report = self.pieces.report();
        report.durable_by.insert(self.durable.word().to_owned(), 1);
        report
    }

    /// A failed operation in words.
    pub(crate) fn explain(&self, fault: Fault, operation: Operation) -> String {
        self.pieces.explain(fault).unwrap_or_else(|| explain_plainly(fault, operation))
    }
}

/// Copies `len` bytes so that they have reached the memory after the next fence.
///
/// # Safety
/// Both ranges are mapped and distinct; nothing of Rust's lies in the one written to.
#[inline(always)]
unsafe fn store(lines: CacheLines, stores: Stores, from: *const u8, to: *mut u8, len: usize) {
    let past = match stores {
        Stores::Cached => false,
        Stores::NonTemporal => true,
        Stores::ByLength => len >= NON_TEMPORAL_FROM_BYTES,
    };
    // SAFETY: the caller's promise; parts of both ranges of the same length at the same distance from their starts.
    unsafe {
        if !past {
            store_cached(lines, from, to, len);
            return;
        }
        // Only whole lines at their own addresses go past the caches: parts of a line would each be a write of the memory.
        let lead = to.align_offset(LINE_BYTES).min(len);
        let body = (len - lead) / LINE_BYTES * LINE_BYTES;
        store_cached(lines, from, to, lead);
        store_past(from.add(lead), to.add(lead), body);
        let done = lead + body;
        store_cached(lines, from.add(done), to.add(done), len - done);
    }
}

/// The granularity of a non-temporal copy: the cache line of every x86-64.
const LINE_BYTES: usize = 64;

/// # Safety
/// As of [`store`].
#[inline(always)]
unsafe fn store_cached(lines: CacheLines, from: *const u8, to: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, len);
            lines.write_back(to as usize, len);
        }
    }
}

/// Copies whole lines by non-temporal stores. They are written as instructions and not by the compiler's intrinsics, which want a fence
/// before anything else looks at the memory: here the job says when there is one, and the processor itself sees its stores in order.
///
/// # Safety
/// As of [`store`]; `to` and `len` are multiples of [`LINE_BYTES`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn store_past(from: *const u8, to: *mut u8, len: usize) {
    for at in (0..len).step_by(LINE_BYTES) {
        // SAFETY: 64 bytes of either range, as the caller promises; SSE2 is in every x86-64.
        unsafe {
            std::arch::asm!(
                "movdqu {a}, [{from}]",
                "movdqu {b}, [{from} + 16]",
                "movdqu {c}, [{from} + 32]",
                "movdqu {d}, [{from} + 48]",
                "movntdq [{to}], {a}",
                "movntdq [{to} + 16], {b}",
                "movntdq [{to} + 32], {c}",
                "movntdq [{to} + 48], {d}",
                from = in(reg) from.add(at),
                to = in(reg) to.add(at),
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
    }
}

/// See the other; nobody has a [`CacheLines`] here.
///
/// # Safety
/// As of [`store`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn store_past(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Every way copies the bytes asked for and no others, wherever the block begins in a line and however long it is.
    #[test]
    fn blocks_arrive_whole_and_alone() {
        let lines = CacheLines::of_this_processor().expect("an x86-64");
        let from: Vec<u8> = (0..1000_u32).map(|k| (k % 251) as u8 + 1).collect();
        for stores in [Stores::Cached, Stores::NonTemporal, Stores::ByLength] {
            for (at, len) in [(0, 1), (0, 64), (1, 63), (1, 64), (63, 2), (5, 255), (64, 256), (17, 700), (3, 0)] {
                let mut to = vec![0_u8; 1024];
                // SAFETY: both vectors are longer than what is copied from and to them.
                unsafe { store(lines, stores, from.as_ptr(), to.as_mut_ptr().add(at), len) };
                lines.fence();
                assert_eq!(to[at..at + len], from[..len], "{stores:?} {len} bytes at {at}");
                assert!(to[..at].iter().chain(&to[at + len..]).all(|byte| *byte == 0), "{stores:?} {len} at {at}");
            }
        }
    }
}
