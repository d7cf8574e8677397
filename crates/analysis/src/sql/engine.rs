//! The query engine: one small runtime, bounded memory, tables registered, the query read-only.

use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use pagelab_recording::set::RecordingRef;
use pagelab_recording::tables;

use super::errors::explain;
use super::output::Output;
use super::runs::{RUNS, runs};
use super::table::RegistryTable;
use super::{Format, QueryOptions};
use crate::error::{AnalysisError, Result};

/// More threads than this gain nothing for scans of one disk and cost memory each.
const MAX_THREADS: usize = 8;

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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("pagelab-query")
        .build()
        .map_err(|e| AnalysisError::Query(format!("cannot start {threads} threads for the query: {e}")))?;
    let context = context(recordings, threads, options)?;
    runtime.block_on(stream(&context, sql, format, out))
}

fn context(recordings: &[RecordingRef], threads: usize, options: &QueryOptions) -> Result<SessionContext> {
    let engine = |e: DataFusionError| AnalysisError::Query(e.strip_backtrace());
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
    let context = SessionContext::new_with_config_rt(config, environment);
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
