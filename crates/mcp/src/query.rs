//! The tool `query`: SQL over the recordings.

use std::os::fd::BorrowedFd;

use pagelab_sql::{ShortAnswer, ShortError, ShortQuery};
use rmcp::schemars;
use serde_json::json;

use crate::answer::{LIMIT_BYTES, ToolError, bounded};
use crate::recordings::Served;

const SMALLER: &str = "ask for fewer rows with LIMIT, fewer columns, or sums with GROUP BY";

/// Memory of one query for sorts, joins and aggregations: several run at a time.
pub(crate) const MEMORY_BYTES: usize = 256 << 20;

/// Runs the queries of clients: where they can be killed, because a query may need hours and a client may go.
pub trait QueryRunner: std::fmt::Debug + Send + Sync {
    /// Runs one query to its end, or to the limit of its time. `cancelled` becomes readable, or its other end is closed, when nobody
    /// waits for the answer any more: the query must end then, and no process of it may be left when this returns.
    ///
    /// # Errors
    /// What is wrong with the query, or which limit it reached, in words for the client.
    fn run(&self, query: &ShortQuery, cancelled: BorrowedFd<'_>) -> Result<ShortAnswer, ShortError>;
}

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

/// Why a query has no answer, in words for the client.
pub(crate) fn failed(error: ShortError) -> ToolError {
    match error {
        ShortError::Unanswered(said) => ToolError::Query(said),
        ShortError::TooLong { bytes, at_least } => ToolError::TooLong { bytes, at_least, smaller: SMALLER.to_owned() },
    }
}

/// Has the query run.
pub(crate) fn answer(
    served: &Served,
    args: &Args,
    runner: &dyn QueryRunner,
    cancelled: BorrowedFd<'_>,
) -> Result<String, ToolError> {
    let (dirs, mut left_out) = match &args.recordings {
        Some(named) => (served.all_named("recordings", named)?, Vec::new()),
        None => served.readable()?,
    };
    let query = ShortQuery { dirs, sql: args.sql.clone(), memory_bytes: MEMORY_BYTES, most_bytes: LIMIT_BYTES };
    let answer = runner.run(&query, cancelled).map_err(failed)?;
    // The rows stay as the engine wrote them: a number that is read and written again may be another one.
    left_out.extend(answer.left_out);
    let (rows, left_out) = (answer.rows_json, json!(left_out));
    bounded(&format!("{{\"rows\":{rows},\"rows_total\":{},\"left_out\":{left_out}}}", answer.rows), SMALLER)
}
