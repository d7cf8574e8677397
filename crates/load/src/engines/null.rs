//! `ioengine=null`: does nothing, at once. Shows what choosing, timing and counting operations cost.

use pagelab_fiojob::{Caps, Operation, engines as language};

use super::{Engine, Setup, Synchronous};
use crate::buffer::Buffer;
use crate::error::LoadError;
use crate::fault::Fault;

/// Nothing.
pub(crate) struct Null;

impl Engine for Null {
    const CAPS: Caps = language::NULL.caps;

    fn open(_: &Setup<'_>) -> Result<Self, LoadError> {
        Ok(Self)
    }
}

impl Synchronous for Null {
    #[inline(always)]
    fn execute(&mut self, operation: Operation, _: &mut Buffer) -> Result<u32, Fault> {
        // Without this the optimiser would see that offsets are never used and not compute them.
        std::hint::black_box(operation.offset);
        Ok(operation.bytes)
    }
}
