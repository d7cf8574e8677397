//! SQL over recordings.
//!
//! Every table of the registry is there, with the columns `host`, `variant` and `run` in front, which come from each
//! recording's manifest (or, where that has none, from the path). A table that a recording lacks has no rows from it, a
//! column that it lacks is null. Paths, which are bytes in the files, are text here; bytes that are not UTF-8 appear as
//! U+FFFD. So `path` is the same as `path_text`, which the files have for other programs. The table `runs` has one row
//! per recording, from the manifests. The table `coverage` has one row per recording and stream: unless its `state` is
//! `active`, a table without rows of the recording means nothing. A quotient of integers is an integer (`addr/4096` is
//! a page).
//!
//! # How tables are read
//! A table is planned ([`table`]) as the engine's own Parquet scan of the files that the recordings' reader accepts
//! ([`catalogue`]). Filters and projections are pushed into the scan: row groups whose statistics exclude a filter are not
//! read, and of the others first the columns of the filters, and the rest only where they leave rows. Bytes are compared
//! with their checksums before they are decoded ([`bytes`]).
//!
//! Queries read only: statements that would create, change or write anything are refused. Memory is bounded, sorts and
//! aggregations beyond it spill to the directory for temporary files.

mod adapt;
mod bytes;
mod catalogue;
mod coverage;
mod division;
mod engine;
mod errors;
mod held;
mod output;
mod runs;
mod table;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::path::PathBuf;

use pagelab_recording::Bounds;

use crate::error::{Result, ViewError};

pub use held::HELD_BYTES;

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

impl std::str::FromStr for Format {
    type Err = ViewError;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "table" => Ok(Self::Table),
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            "parquet" => Ok(Self::Parquet),
            _ => Err(ViewError::Query(format!(
                "{word:?} is no format of a result; table, csv, json or parquet is needed: --format table"
            ))),
        }
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

/// Runs one SQL query over the recordings at and below `dirs` and writes the result to `out`. Returns the number of rows.
pub fn query(dirs: &[PathBuf], sql: &str, format: Format, out: &mut (dyn Write + Send)) -> Result<u64> {
    query_with(dirs, sql, format, out, &QueryOptions::default())
}

/// As [`query`], with limits. A damaged part fails the query.
pub fn query_with(
    dirs: &[PathBuf],
    sql: &str,
    format: Format,
    out: &mut (dyn Write + Send),
    options: &QueryOptions,
) -> Result<u64> {
    ask(dirs, sql, format, out, options, Damaged::Refuse).map(|answer| answer.rows)
}

/// As [`query_with`], but answers from what is readable and names the parts that it left out.
///
/// A part may turn out to be damaged while the query runs. Then it is left out and the query runs once more, unless more
/// than [`HELD_BYTES`] of the result have been written: those cannot be taken back, and the query fails.
///
/// # Errors
/// [`ViewError::Query`] says what is wrong with the query or with the files it read.
pub fn answer(
    dirs: &[PathBuf],
    sql: &str,
    format: Format,
    out: &mut (dyn Write + Send),
    options: &QueryOptions,
) -> Result<Answer> {
    ask(dirs, sql, format, out, options, Damaged::LeaveOut)
}

fn ask(
    dirs: &[PathBuf],
    sql: &str,
    format: Format,
    out: &mut (dyn Write + Send),
    options: &QueryOptions,
    damaged: Damaged,
) -> Result<Answer> {
    for dir in dirs {
        if let Some((scheme, _)) = dir.to_str().and_then(|text| text.split_once("://")) {
            return Err(ViewError::Query(format!(
                "{} is an address ({scheme}); this version reads local directories only: copy the recording here first",
                dir.display()
            )));
        }
    }
    let recordings = pagelab_recording::set::discover(dirs)?;
    engine::run(&recordings, sql, format, out, options, damaged)
}
