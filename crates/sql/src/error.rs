//! What can go wrong with a query.

/// Result of this crate.
pub type Result<T, E = QueryError> = std::result::Result<T, E>;

/// Error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The recordings cannot be found or read.
    #[error(transparent)]
    Recording(#[from] pagelab_recording::Error),
    /// What is wrong with the query, or with the files that it read, and what to do.
    #[error("{0}")]
    Unanswered(String),
    /// It was given up.
    #[error("found no end of the query in the time that it may take")]
    TooLate,
}
