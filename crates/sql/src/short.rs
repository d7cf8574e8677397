//! A query whose answer is wanted whole and short, as one text.

use std::io::{self, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::HELD_BYTES;
use crate::options::{Format, QueryOptions};

/// A query, and how much its answer may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortQuery {
    /// Recordings, and folders of them.
    pub dirs: Vec<PathBuf>,
    /// One SELECT.
    pub sql: String,
    /// Memory for sorts, joins and aggregations; beyond it they spill.
    pub memory_bytes: usize,
    /// Most bytes of the rows as JSON.
    pub most_bytes: usize,
}

/// The answer to a [`ShortQuery`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortAnswer {
    /// The rows as one JSON array, as the engine wrote them.
    pub rows_json: String,
    /// How many.
    pub rows: u64,
    /// The damage of each part that the answer lacks: a sentence that names the file.
    pub left_out: Vec<String>,
}

/// Why a [`ShortQuery`] has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ShortError {
    /// What is wrong with the query, or with the files that it read, and what to do.
    #[error("{0}")]
    Unanswered(String),
    /// The rows are longer than [`ShortQuery::most_bytes`].
    #[error("found a result of {}{bytes} bytes", if *at_least { "more than " } else { "" })]
    TooLong {
        /// Bytes that were made.
        bytes: usize,
        /// It is longer: it was not made to its end.
        at_least: bool,
    },
}

/// Keeps a result that is short enough, and the length of one that is not.
#[derive(Debug)]
struct Short {
    text: Vec<u8>,
    bytes: usize,
    most_bytes: usize,
}

impl Write for Short {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        if self.bytes > self.most_bytes {
            self.text.clear();
            // The query ends here: a result may be endless.
            return Err(io::Error::other("the result is too long"));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a query in this process. What is damaged is left out and named, as by [`crate::answer`].
///
/// # Errors
/// The query or the files it read are wrong, or its rows are too long.
pub fn answer_short(query: &ShortQuery) -> Result<ShortAnswer, ShortError> {
    answer_within(query, None)
}

/// As [`answer_short`], with this number of threads; `None`: as many as there are processors.
pub(crate) fn answer_within(query: &ShortQuery, threads: Option<usize>) -> Result<ShortAnswer, ShortError> {
    let mut short = Short { text: Vec::new(), bytes: 0, most_bytes: query.most_bytes };
    let options = QueryOptions { memory_bytes: query.memory_bytes, threads, ..QueryOptions::default() };
    let done = crate::answer(&query.dirs, &query.sql, Format::Json, &mut short, &options);
    if short.bytes > query.most_bytes {
        // The engine writes its result at once, when it has ended or has become as long as it holds back.
        return Err(ShortError::TooLong { bytes: short.bytes, at_least: short.bytes > HELD_BYTES });
    }
    let answer = done.map_err(|error| ShortError::Unanswered(error.to_string()))?;
    let rows_json = String::from_utf8_lossy(&short.text).trim().to_owned();
    Ok(ShortAnswer { rows_json, rows: answer.rows, left_out: answer.left_out })
}
