//! The tool `query`: SQL over the recordings.

use std::io::{self, Write};
use std::path::PathBuf;

use pagelab_sql::{Format, HELD_BYTES, QueryOptions};
use rmcp::schemars;
use serde_json::json;

use crate::answer::{LIMIT_BYTES, ToolError, bounded};
use crate::recordings::Served;

const SMALLER: &str = "ask for fewer rows with LIMIT, fewer columns, or sums with GROUP BY";

/// Memory of one query for sorts, joins and aggregations: several run at a time.
const MEMORY_BYTES: usize = 256 << 20;

/// The query, and over what.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// One SELECT. Tables and columns, with their units: the tool `tables`.
    sql: String,
    /// Only these recordings, by their paths in `recordings` [default: all].
    #[serde(default)]
    recordings: Option<Vec<String>>,
}

/// Keeps a result that is short enough, and the length of one that is not.
#[derive(Debug, Default)]
struct Short {
    text: Vec<u8>,
    bytes: usize,
}

impl Write for Short {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        if self.bytes > LIMIT_BYTES {
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

/// The rows of a query as a JSON array, how many, and the damage of what was left out.
pub(crate) fn rows(dirs: &[PathBuf], sql: &str) -> Result<(String, pagelab_sql::Answer), ToolError> {
    let mut short = Short::default();
    let options = QueryOptions { memory_bytes: MEMORY_BYTES, ..QueryOptions::default() };
    let done = pagelab_sql::answer(dirs, sql, Format::Json, &mut short, &options);
    if short.bytes > LIMIT_BYTES {
        // The engine writes its result at once, when it has ended or has become as long as it holds back.
        let at_least = short.bytes > HELD_BYTES;
        return Err(ToolError::TooLong { bytes: short.bytes, at_least, smaller: SMALLER.to_owned() });
    }
    let answer = done?;
    Ok((String::from_utf8_lossy(&short.text).trim().to_owned(), answer))
}

/// Runs the query.
pub(crate) fn answer(served: &Served, args: &Args) -> Result<String, ToolError> {
    let (dirs, mut left_out) = match &args.recordings {
        Some(named) => (served.all_named("recordings", named)?, Vec::new()),
        None => served.readable()?,
    };
    let (rows, answer) = rows(&dirs, &args.sql)?;
    // The rows stay as the engine wrote them: a number that is read and written again may be another one.
    left_out.extend(answer.left_out);
    let left_out = json!(left_out);
    bounded(&format!("{{\"rows\":{rows},\"rows_total\":{},\"left_out\":{left_out}}}", answer.rows), SMALLER)
}
