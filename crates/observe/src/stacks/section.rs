//! The bytes of a section from which stacks are unwound.

use std::ops::Deref;
use std::sync::Arc;

use super::mapped::Mapped;

/// A section's bytes: of a file that others may change a copy, else the file's own pages, of which only those that are read take memory.
/// A program of 100 MB has 8 MB of unwind information, and few of its functions are ever met.
#[derive(Clone)]
pub(super) enum Section {
    Copied(Arc<[u8]>),
    Mapped(Arc<Mapped>),
}

/// No bytes.
impl Default for Section {
    fn default() -> Self {
        Self::Copied(Arc::default())
    }
}

impl Deref for Section {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Mapped(bytes) => bytes,
        }
    }
}
