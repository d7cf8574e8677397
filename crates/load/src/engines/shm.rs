//! `ioengine=shm`: copies from and to System V shared memory, a segment for each piece.
//!
//! Older databases use it for their buffers. A piece that is mapped is made by shmget(2) and attached by shmat(2); one
//! that is unmapped is detached by shmdt(2) and then gone: every segment is marked for removal as soon as it is
//! attached. See [`crate::segments`] for what holds when the process is killed, and for the limits of the kernel.

use pagelab_fiojob::{Caps, engines as language};

use super::Setup;
use super::backing::{Backing, Fresh};
use super::own::{Own, OwnMemory};
use crate::error::LoadError;

/// The engine.
pub(crate) type Shm = Own<Segments>;

/// SysV segments, of hugetlb pages too.
pub(crate) enum Segments {}

impl OwnMemory for Segments {
    const CAPS: Caps = language::SHM.caps;

    fn backing(setup: &Setup<'_>, hugetlb: Option<u64>) -> Result<Backing, LoadError> {
        Ok(Backing::Fresh { how: Fresh::Segment, hugetlb, fallback: setup.options.hugetlb_fallback })
    }
}
