//! Recordings whose files another engine of the family reads elsewhere, such as a cluster that reads an object store.
//!
//! There are copies here, which decide what a query reads: parts that the reader accepts ([`Catalogue`]), whose bytes have their checksums.
//! The query is planned here to the last operator; its scans name the files where the other engine finds them, and are scans of plain
//! Parquet: nothing of ours is in the plan. So the other engine reads exactly the files that were catalogued.
//!
//! Paths, which are bytes in the files and text in SQL, are read from the text that stands beside them. Parts of old recordings lack it, and
//! their table cannot be asked for elsewhere.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use pagelab_recording::tables;

use crate::catalogue::Catalogue;
use crate::coverage::COVERAGE;
use crate::engine::{bounded, in_threads, read_only, session, with_tables, written};
use crate::error::Result;
use crate::explain::explain;
use crate::listed::within;
use crate::options::{Answer, Damaged, Format, QueryOptions};
pub use crate::places::Places;
use crate::runs::RUNS;

/// Runs a query over recordings with the engine that `execute` gives the plan to. `configure` makes that engine's settings of ours; a query
/// that reads no file is answered here. Damaged parts are left out and named.
///
/// # Errors
/// What is wrong with the query or the files, what that engine says, and [`QueryError::TooLate`](crate::QueryError::TooLate) after `patience`.
pub fn query_placed(
    places: &Places,
    sql: &str,
    (format, out): (Format, &mut (dyn Write + Send)),
    (options, patience): (&QueryOptions, Duration),
    configure: impl FnOnce(SessionConfig) -> SessionConfig + Send,
    execute: impl AsyncFnOnce(Arc<dyn ExecutionPlan>, SessionContext) -> Result<SendableRecordBatchStream, DataFusionError>
    + Send,
) -> Result<Answer> {
    bounded(sql)?;
    let recordings = pagelab_recording::set::discover(&places.folders())?;
    let catalogue = Arc::new(Catalogue::new(&recordings, options.bounds.clone(), Damaged::LeaveOut).at(places.clone()));
    let names: Vec<&str> = tables::all().iter().map(|table| table.name).chain([RUNS, COVERAGE]).collect();
    let why = |error: DataFusionError| explain(&error, sql, &names);
    let answer = async |context: SessionContext| {
        let frame = context.sql_with_options(sql, read_only()).await.map_err(why)?;
        let task = Arc::new(frame.task_ctx());
        let plan = match frame.clone().create_physical_plan().await {
            Err(_) if catalogue.leave_out_failed() => frame.create_physical_plan().await,
            planned => planned,
        };
        let plan = plan.map_err(why)?;
        let batches = if reads_files(&plan) { execute(plan, context).await } else { execute_stream(plan, task) };
        written(batches.map_err(why)?, format, out, why).await
    };
    let rows = in_threads(options, |runtime, threads| {
        let state = session(threads, options)?.state();
        let config = configure(state.config().clone());
        let state = SessionStateBuilder::new_from_existing(state).with_config(config).build();
        // Tables come last: a session that is made of another one has an empty catalogue.
        let context = with_tables(SessionContext::new_with_state(state), &catalogue)?;
        runtime.block_on(within(patience, answer(context)))
    })?;
    Ok(Answer { rows, bytes_scanned: 0, left_out: catalogue.left_out() })
}

fn reads_files(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_of_files = |source: &DataSourceExec| source.data_source().downcast_ref::<FileScanConfig>().is_some();
    plan.downcast_ref::<DataSourceExec>().is_some_and(is_of_files) || plan.children().into_iter().any(reads_files)
}
