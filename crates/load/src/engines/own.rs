//! Engines that work on memory of their own: `anon` and `shm` differ in what lies under their pieces, and in nothing else.

use std::marker::PhantomData;
use std::path::Path;

use pagelab_fiojob::{Caps, Operation};

use super::backing::Backing;
use super::pieces::{Pieces, copy};
use super::{Engine, MapReport, Setup, Synchronous, explain_plainly};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;
use crate::hugetlb;

/// Where an engine's memory comes from.
pub(crate) trait OwnMemory {
    /// The engine's capabilities.
    const CAPS: Caps;

    /// What lies under its pieces; `hugetlb` is the page size that the job asks for, which the kernel knows.
    ///
    /// # Errors
    /// The kernel has no such memory.
    fn backing(setup: &Setup<'_>, hugetlb: Option<u64>) -> Result<Backing, LoadError>;
}

/// An engine on pieces of memory `M`.
pub(crate) struct Own<M> {
    pieces: Pieces,
    memory: PhantomData<M>,
}

impl<M: OwnMemory> Engine for Own<M> {
    const CAPS: Caps = M::CAPS;

    fn open(setup: &Setup<'_>) -> Result<Self, LoadError> {
        let page = Some(setup.options.hugetlb.0).filter(|page| *page > 0);
        if let Some(page) = page {
            hugetlb::check_size(Path::new("/"), setup.job, page)?;
        }
        Ok(Self { pieces: Pieces::new(setup, M::backing(setup, page)?)?, memory: PhantomData })
    }

    fn mapped(&self) -> Option<MapReport> {
        Some(self.pieces.report())
    }

    fn explain(&self, fault: Fault, operation: Operation) -> String {
        self.pieces.explain(fault).unwrap_or_else(|| explain_plainly(fault, operation))
    }
}

impl<M: OwnMemory> Synchronous for Own<M> {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, buffer: &mut Buffer) -> Result<u32, Fault> {
        copy(&mut self.pieces, buffer, operation)
    }
}
