//! `ioengine=anon`: copies from and to anonymous memory, mapped in pieces of any size.
//!
//! A block cache, a heap or an arena without the application: what the kernel does when memory is mapped, touched and unmapped in a
//! certain rhythm, on base pages, transparent huge pages or hugetlb pages.

use super::pieces::{Backing, Pieces};
use super::{Caps, Engine, Fault, MapReport, Setup, Synchronous, explain_plainly};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::hugetlb;
use crate::job::words::MapShare;
use crate::offsets::{Direction, Operation};

/// Pieces.
pub struct Anon {
    pieces: Pieces,
}

impl Engine for Anon {
    const CAPS: Caps =
        Caps::MAPS.with(Caps::ANONYMOUS).with(Caps::BUFFERS).with(Caps::SYNCHRONOUS).with(Caps::TOUCHES_MEMORY);

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        let o = setup.options;
        let page = (o.hugetlb.0 > 0).then_some(o.hugetlb.0);
        if let Some(page) = page {
            hugetlb::check_size(std::path::Path::new("/"), setup.job, page)?;
        }
        let backing =
            Backing::Anonymous { shared: o.map_share == MapShare::Shared, hugetlb: page, fallback: o.hugetlb_fallback };
        Ok(Self { pieces: Pieces::new(setup, backing)? })
    }

    fn mapped(&self) -> Option<MapReport> {
        Some(self.pieces.report())
    }

    fn explain(&self, fault: Fault, operation: Operation) -> String {
        self.pieces.explain(fault).unwrap_or_else(|| explain_plainly(fault, operation))
    }
}

impl Synchronous for Anon {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault> {
        copy(&mut self.pieces, buffer, operation)
    }
}

/// Copies a block between the buffer and its piece.
#[inline(always)]
pub(super) fn copy(pieces: &mut Pieces, buffer: &Buffer, operation: Operation) -> Result<u32, Fault> {
    let target = pieces.address(operation.offset)?;
    let len = operation.bytes as usize;
    // SAFETY: `target` to `target + len` lies in a mapped piece (the course keeps blocks inside the region, and validation keeps
    // them inside one piece), the buffer holds the longest operation, and the two mappings are distinct. Memory shared with other
    // workers may change while it is copied: the bytes are never interpreted. The buffer is written through its raw pointer; no
    // reference to its contents is alive.
    unsafe {
        match operation.direction {
            Direction::Read => std::ptr::copy_nonoverlapping(target, buffer.as_ptr(), len),
            Direction::Write => std::ptr::copy_nonoverlapping(buffer.as_ptr(), target, len),
        }
    }
    pieces.check()?;
    Ok(operation.bytes)
}
