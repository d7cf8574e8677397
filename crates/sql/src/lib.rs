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
//! A table is planned (`table.rs`) as the engine's own Parquet scan of the files that the recordings' reader accepts
//! (`catalogue.rs`). Filters and projections are pushed into the scan: row groups whose statistics exclude a filter are not
//! read, and of the others first the columns of the filters, and the rest only where they leave rows. Bytes are compared
//! with their checksums before they are decoded (`bytes.rs`).
//!
//! Queries read only: statements that would create, change or write anything are refused. Memory is bounded, sorts and
//! aggregations beyond it spill to the directory for temporary files. A query that must end is run in a process of its own
//! ([`process`]).
//!
//! # Refusals
//! | refused | test |
//! |---|---|
//! | SQL that creates, changes or writes anything | `tests/queries.rs::a_query_cannot_write` |
//! | a damaged part: no answer, or one that names it as left out | `tests/queries.rs::a_damaged_part_is_named`, `tests/scans.rs::a_part_that_fails_in_mid_query_is_left_out_and_named` |
//! | a query beyond its time or memory | `crates/cli/tests/query_limits.rs::a_query_ends_at_its_limits_and_leaves_nothing` |
//! | a file that is no recording's, to the process of a query | `crates/cli/tests/mcp.rs::the_process_of_a_query_writes_to_its_folder_and_reads_its_recordings_alone` |

mod adapt;
mod bytes;
mod catalogue;
mod coverage;
mod division;
mod engine;
mod error;
mod explain;
mod held;
pub mod listed;
mod options;
mod output;
mod partition;
pub mod placed;
mod placed_scan;
mod places;
pub mod process;
mod runs;
mod short;
mod table;

use std::io::Write;
use std::path::PathBuf;

/// What this crate's own tests look at. They are in its integration program: a program of unit tests compiles the crate, and what
/// it instantiates of DataFusion, a second time.
#[doc(hidden)]
pub mod internals {
    pub use crate::catalogue::{Catalogue, check_planned, join};
    pub use crate::engine::{Query, context};
    pub use crate::held::Held;
}

pub use error::{QueryError, Result};
pub use held::HELD_BYTES;
pub use options::{Answer, Damaged, Format, QueryOptions};
pub use pagelab_recording::{Bound, Bounds};
pub use short::{ShortAnswer, ShortError, ShortQuery, answer_short};

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
/// [`QueryError::Unanswered`] says what is wrong with the query or with the files it read.
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
            return Err(QueryError::Unanswered(format!(
                "{} is an address ({scheme}); this version reads local directories only: copy the recording here first",
                dir.display()
            )));
        }
    }
    let recordings = pagelab_recording::set::discover(dirs)?;
    engine::run(&recordings, sql, format, out, options, damaged)
}
