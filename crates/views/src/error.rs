//! What can go wrong when a recording is asked, each with the value found, the value needed and what to do.

use std::path::PathBuf;

/// Result of this crate.
pub type Result<T, E = ViewError> = std::result::Result<T, E>;

/// Error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] pagelab_recording::Error),
    /// The item requested is not in the recording, or no such question can be asked.
    #[error("{0}")]
    Asked(String),
    /// An answer cannot be written as a document.
    #[error("the answer cannot be written as JSON: {0}")]
    Document(String),
    /// A file of a result cannot be written.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
}
