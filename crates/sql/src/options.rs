//! What a query may be told besides its words, and what it gives besides its rows.

use std::path::PathBuf;

use pagelab_recording::Bounds;

use crate::error::{QueryError, Result};

/// How the result of a query is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Columns of text for reading.
    Table,
    /// Comma-separated values with a header; null is empty.
    Csv,
    /// One JSON array with one object per row; null is null.
    Json,
    /// A Parquet file.
    Parquet,
}

impl Format {
    /// All of them.
    const ALL: [Self; 4] = [Self::Table, Self::Csv, Self::Json, Self::Parquet];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Parquet => "parquet",
        }
    }
}

impl std::str::FromStr for Format {
    type Err = QueryError;

    fn from_str(word: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|format| format.name() == word).ok_or_else(|| {
            QueryError::Unanswered(format!(
                "{word:?} is no format of a result; table, csv, json or parquet is needed: --format table"
            ))
        })
    }
}

/// What becomes of a query that meets a damaged part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damaged {
    /// It fails and names the part.
    Refuse,
    /// It is answered from the other parts, and the part is named in [`Answer::left_out`].
    LeaveOut,
}

/// What a query gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Rows written.
    pub rows: u64,
    /// Bytes of column chunks that the scans read; footers, which planning reads, are not counted.
    pub bytes_scanned: u64,
    /// The damage of each part that the answer lacks: a sentence that names the file.
    pub left_out: Vec<String>,
}

/// Limits of a query.
#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// Memory for sorts, joins and aggregations; beyond it they spill.
    pub memory_bytes: usize,
    /// Where they spill to; `None`: the system's directory for temporary files.
    pub spill_dir: Option<PathBuf>,
    /// Threads; `None`: as many as there are processors, at most 8.
    pub threads: Option<usize>,
    /// The part of each recording's time whose events the tables hold.
    pub bounds: Bounds,
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self { memory_bytes: 512 << 20, spill_dir: None, threads: None, bounds: Bounds::default() }
    }
}
