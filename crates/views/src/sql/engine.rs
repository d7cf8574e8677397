//! The query engine: one small runtime, bounded memory, tables registered, the query read-only.

use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::registry::FunctionRegistry;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionConfig;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use futures::StreamExt;
use pagelab_recording::set::RecordingRef;
use pagelab_recording::tables;

use super::division::IntegerDivision;
use super::errors::explain;
use super::output::Output;
use super::runs::{RUNS, runs};
use super::table::RegistryTable;
use super::{Format, QueryOptions};
use crate::error::{Result, ViewError};

/// More threads than this gain nothing for scans of one disk and cost memory each.
const MAX_THREADS: usize = 8;

/// The engine walks expressions recursively: `a or b or c` is as deep as it is long. Of a stack only the pages touched
/// are memory.
const STACK_BYTES: usize = 512 << 20;

/// Words of a query. A chain of this length needs a third of the stack in a build without optimisation, the hungriest.
const MAX_WORDS: usize = 20_000;

/// How many of the largest users of memory an error names.
const NAMED_CONSUMERS: NonZeroUsize = match NonZeroUsize::new(3) {
    Some(n) => n,
    None => NonZeroUsize::MIN,
};

pub(super) fn run(
    recordings: &[RecordingRef],
    sql: &str,
    format: Format,
    out: &mut (dyn Write + Send),
    options: &QueryOptions,
) -> Result<u64> {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.unwrap_or(available).clamp(1, MAX_THREADS);
    bounded(sql)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("pagelab-query")
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(|e| ViewError::Query(format!("cannot start {threads} threads for the query: {e}")))?;
    let context = context(recordings, threads, options)?;
    // Planning happens in the thread that waits: it gets the stack that it needs, whoever calls.
    let plan_and_run = || runtime.block_on(stream(&context, sql, format, out));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("pagelab-query".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, plan_and_run);
        let thread = thread.map_err(|e| ViewError::Query(format!("cannot start a thread for the query: {e}")))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Refuses a query that the engine would need more stack for than there is.
fn bounded(sql: &str) -> Result<()> {
    let words = Tokenizer::new(&GenericDialect {}, sql)
        .tokenize()
        .map_or(0, |tokens| tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).count());
    if words <= MAX_WORDS {
        return Ok(());
    }
    Err(ViewError::Query(format!(
        "found a query of {words} words, needed at most {MAX_WORDS}; replace long chains of OR by IN (...) over a subquery, or ask in parts"
    )))
}

fn context(recordings: &[RecordingRef], threads: usize, options: &QueryOptions) -> Result<SessionContext> {
    let engine = |e: DataFusionError| ViewError::Query(e.strip_backtrace());
    let pool = TrackConsumersPool::new(FairSpillPool::new(options.memory_bytes), NAMED_CONSUMERS);
    let spill = options.spill_dir.clone().unwrap_or_else(std::env::temp_dir);
    let environment = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(pool))
        .with_temp_file_path(spill)
        .build_arc()
        .map_err(engine)?;
    let mut config = SessionConfig::new().with_information_schema(true).with_target_partitions(threads);
    // A sort keeps this much back for merging what it spilled; the default of 10 MiB would be all of a small pool.
    let reserve = (options.memory_bytes / 16).min(config.options().execution.sort_spill_reservation_bytes);
    config.options_mut().execution.sort_spill_reservation_bytes = reserve;
    let mut context = SessionContext::new_with_config_rt(config, environment);
    context.register_expr_planner(Arc::new(IntegerDivision)).map_err(engine)?;
    let shared: Arc<[RecordingRef]> = recordings.into();
    for table in tables::all() {
        let provider = RegistryTable::new(table, shared.clone(), options.bounds.clone());
        context.register_table(table.name, Arc::new(provider)).map_err(engine)?;
    }
    context.register_batch(RUNS, runs(recordings)?).map_err(engine)?;
    Ok(context)
}

async fn stream(context: &SessionContext, sql: &str, format: Format, out: &mut (dyn Write + Send)) -> Result<u64> {
    let names: Vec<&str> = tables::all().iter().map(|table| table.name).chain([RUNS]).collect();
    let why = |e: DataFusionError| explain(&e, sql, &names);
    let read_only = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let frame = context.sql_with_options(sql, read_only).await.map_err(why)?;
    let mut batches = frame.execute_stream().await.map_err(why)?;
    let mut output = Output::new(format, batches.schema(), out)?;
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(why)?;
        rows += batch.num_rows() as u64;
        output.write(&batch)?;
    }
    output.finish()?;
    Ok(rows)
}
