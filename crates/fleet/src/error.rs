//! What can go wrong with the tables of a fleet, each with the value found, the value needed and what to do.

use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// Result of this crate.
pub type Result<T, E = FleetError> = std::result::Result<T, E>;

/// Error of this crate. Statistics have none: what cannot be tested is a result with the reason.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A place to write to is not safe, or a file to read is not a plain file.
    #[error(transparent)]
    Output(#[from] pagelab_output::Error),
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The Parquet library cannot write or read a file.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Parquet {
        /// The attempted action, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the library says.
        source: ParquetError,
    },
    /// A row was given that belongs before the row in front of it.
    #[error(
        "{path}: row {row} belongs before the row in front of it; rows sorted by {order} are needed: sort them, or use \
         FleetFolder::sorting_writer, which takes rows in any order", path = path.display()
    )]
    OutOfOrder {
        /// The file being written.
        path: PathBuf,
        /// Number of the row, counted from 0.
        row: u64,
        /// The columns that rows are sorted by.
        order: String,
    },
    /// A column has a type that cannot be read as the one that the table declares.
    #[error(
        "{path}: column {column} of table {table} has the type {found}; needed: {needed}; write the day once more",
        path = path.display()
    )]
    BadColumn {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The type found.
        found: String,
        /// The type needed.
        needed: String,
    },
    /// A question names a column that the table lacks, or that does not hold text.
    #[error("table {table} has no text column {column}; needed: one of {known}")]
    NoSuchColumn {
        /// The table.
        table: &'static str,
        /// The column asked for.
        column: String,
        /// The text columns that there are.
        known: String,
    },
    /// A day that is none.
    #[error("found the day {text:?}; needed: YYYY-MM-DD between 1970-01-01 and 2261-12-31")]
    BadDay {
        /// The text.
        text: String,
    },
    /// The fleet has none of the days asked for.
    #[error(
        "{path}: found {found}; needed: a compacted fleet that has the days asked for; type: pagelab fleet compact RECORDINGS {path}",
        path = path.display()
    )]
    NoDays {
        /// The fleet's folder.
        path: PathBuf,
        /// Its days.
        found: String,
    },
    /// No run of the days asked for has the metric.
    #[error("found no metric {name} in these days; there is: {known}")]
    NoSuchMetric {
        /// The metric asked for.
        name: String,
        /// Metrics or instances that there are.
        known: String,
    },
    /// No run of the days asked for has the label, or it has not the values asked for.
    #[error("label {label}: found {found}; needed: {needed}")]
    BadLabel {
        /// The label asked for.
        label: String,
        /// Its values, or the labels that there are.
        found: String,
        /// What is needed.
        needed: String,
    },
    /// The engine that reads the fleet elsewhere says no.
    #[error("{said}")]
    Elsewhere {
        /// In its words.
        said: String,
    },
    /// Recordings cannot be found.
    #[error(transparent)]
    Recording(#[from] pagelab_recording::Error),
    /// Somebody else compacts the fleet.
    #[error("{path}: another compaction of it is running; wait for its end", path = path.display())]
    Busy {
        /// The fleet's folder.
        path: PathBuf,
    },
    /// An option of a simulated fleet is outside its range.
    #[error("{option} of the simulated fleet is {found}; needed: {needed}")]
    BadPlan {
        /// The option.
        option: &'static str,
        /// Its value.
        found: String,
        /// The range.
        needed: &'static str,
    },
}

impl FleetError {
    /// Wraps an error of the Parquet library.
    pub(crate) fn parquet(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(ParquetError) -> Self {
        let path = path.into();
        move |source| Self::Parquet { action, path, source }
    }

    /// Wraps an error of the kernel.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
