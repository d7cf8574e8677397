//! The query engine: one small runtime, bounded memory, tables registered, the query read-only.

use std::io::Write;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::registry::FunctionRegistry;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use futures::{FutureExt, StreamExt};
use pagelab_recording::set::RecordingRef;
use pagelab_recording::tables;
use pagelab_vocab::remedies::{self, Place};

use crate::catalogue::{Catalogue, check_planned};
use crate::coverage::{COVERAGE, Coverage};
use crate::division::IntegerDivision;
use crate::error::{QueryError, Result};
use crate::explain::explain;
use crate::held::Held;
use crate::options::{Answer, Damaged, Format, QueryOptions};
use crate::output::Output;
use crate::runs::{RUNS, runs};
use crate::table::RegistryTable;

/// More threads than this gain nothing for scans of one disk and cost memory each.
const MAX_THREADS: usize = 8;

/// Tables of more bytes are read by all threads. Parts are compressed: a megabyte of faults is half a million rows.
const SPLIT_BYTES: usize = 1 << 20;

/// The engine walks expressions recursively: `a or b or c` is as deep as it is long. Only the touched pages of a stack
/// are memory.
const STACK_BYTES: usize = 512 << 20;

/// Words of a query. A chain of this length needs a third of the stack in a build without optimisation, the hungriest.
const MAX_WORDS: usize = 20_000;

/// How many of the largest users of memory an error names.
const NAMED_CONSUMERS: NonZeroUsize = match NonZeroUsize::new(3) {
    Some(n) => n,
    None => NonZeroUsize::MIN,
};

pub(crate) fn run(
    recordings: &[RecordingRef],
    sql: &str,
    format: Format,
    out: &mut (dyn Write + Send),
    options: &QueryOptions,
    damaged: Damaged,
) -> Result<Answer> {
    bounded(sql)?;
    let catalogue = Arc::new(Catalogue::new(recordings, options.bounds.clone(), damaged));
    in_threads(options, |runtime, threads| {
        let context = context(&catalogue, threads, options)?;
        let mut query = Query::new(context, catalogue.clone(), sql, format, out);
        runtime.block_on(query.answer())
    })
}

/// Calls `work` with a runtime of the threads asked for, in a thread that has the stack that planning needs, whoever calls.
pub(crate) fn in_threads<T: Send>(
    options: &QueryOptions,
    work: impl FnOnce(&tokio::runtime::Runtime, usize) -> Result<T> + Send,
) -> Result<T> {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.unwrap_or(available).clamp(1, MAX_THREADS);
    // The engine's library panics where it cannot start one of its threads.
    can_start(threads).map_err(|e| {
        QueryError::Unanswered(format!("cannot start {threads} threads for the query: {e}{}", ending(&e)))
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .thread_name("pagelab-query")
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(|e| QueryError::Unanswered(format!("cannot start {threads} threads for the query: {e}")))?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("pagelab-query".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, || work(&runtime, threads));
        let thread = thread.map_err(|e| QueryError::Unanswered(format!("cannot start a thread for the query: {e}")))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// What is needed where there is no room for threads.
fn ending(error: &std::io::Error) -> String {
    remedies::ending(error.raw_os_error(), Place::Fork)
}

/// Starts so many threads at once, and two for the engine's own work, which end at once.
fn can_start(threads: usize) -> std::io::Result<()> {
    let all_are_there = std::sync::Mutex::new(());
    let held = all_are_there.lock();
    std::thread::scope(|scope| {
        // They end when `held` goes, whichever way.
        let _held = held;
        for _ in 0..threads + 2 {
            let thread = std::thread::Builder::new().stack_size(64 << 10);
            thread.spawn_scoped(scope, || drop(all_are_there.lock()))?;
        }
        Ok(())
    })
}

/// Refuses a query that the engine would need more stack for than there is.
pub(crate) fn bounded(sql: &str) -> Result<()> {
    let words = Tokenizer::new(&GenericDialect {}, sql)
        .tokenize()
        .map_or(0, |tokens| tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).count());
    if words <= MAX_WORDS {
        return Ok(());
    }
    Err(QueryError::Unanswered(format!(
        "found a query of {words} words, needed at most {MAX_WORDS}; replace long chains of OR by IN (...) over a subquery, or ask in parts"
    )))
}

/// A session of the engine without tables: bounded memory, filters pushed into scans, integers divided as integers.
pub(crate) fn session(threads: usize, options: &QueryOptions) -> Result<SessionContext> {
    let engine = |e: DataFusionError| QueryError::Unanswered(e.strip_backtrace());
    let pool = TrackConsumersPool::new(FairSpillPool::new(options.memory_bytes), NAMED_CONSUMERS);
    let spill = options.spill_dir.clone().unwrap_or_else(std::env::temp_dir);
    let environment = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(pool))
        .with_temp_file_path(spill)
        .build_arc()
        .map_err(engine)?;
    let mut config = SessionConfig::new().with_information_schema(true).with_target_partitions(threads);
    // A sort reserves this much for merging its spilled runs; the default of 10 MiB would be all of a small pool.
    let reserve = (options.memory_bytes / 16).min(config.options().execution.sort_spill_reservation_bytes);
    config.options_mut().execution.sort_spill_reservation_bytes = reserve;
    config.options_mut().execution.parquet.pushdown_filters = true;
    config.options_mut().execution.parquet.reorder_filters = true;
    config.options_mut().optimizer.repartition_file_min_size = SPLIT_BYTES;
    let mut context = SessionContext::new_with_config_rt(config, environment);
    context.register_expr_planner(Arc::new(IntegerDivision)).map_err(engine)?;
    Ok(context)
}

/// A session of the engine with all tables.
pub fn context(catalogue: &Arc<Catalogue>, threads: usize, options: &QueryOptions) -> Result<SessionContext> {
    with_tables(session(threads, options)?, catalogue)
}

/// The session, with all tables.
pub(crate) fn with_tables(context: SessionContext, catalogue: &Arc<Catalogue>) -> Result<SessionContext> {
    let engine = |e: DataFusionError| QueryError::Unanswered(e.strip_backtrace());
    for table in tables::all() {
        let provider = RegistryTable::new(table, catalogue.clone());
        context.register_table(table.name, Arc::new(provider)).map_err(engine)?;
    }
    context.register_batch(RUNS, runs(catalogue.recordings())?).map_err(engine)?;
    context.register_table(COVERAGE, Arc::new(Coverage::new(catalogue.clone())?)).map_err(engine)?;
    Ok(context)
}

/// A query with everything needed to run it, and to run it again.
pub struct Query<'q> {
    context: SessionContext,
    catalogue: Arc<Catalogue>,
    sql: &'q str,
    format: Format,
    out: Held<'q>,
}

/// Why a query ended.
struct Failed {
    error: QueryError,
    /// The engine met something in a file that it could not read.
    may_be_damage: bool,
}

impl From<QueryError> for Failed {
    fn from(error: QueryError) -> Self {
        Self { error, may_be_damage: false }
    }
}

impl<'q> Query<'q> {
    /// A query that has not run.
    pub fn new(
        context: SessionContext,
        catalogue: Arc<Catalogue>,
        sql: &'q str,
        format: Format,
        out: &'q mut (dyn Write + Send),
    ) -> Self {
        Self { context, catalogue, sql, format, out: Held::new(out) }
    }

    /// Runs the query; once more if it failed because of damaged parts, then without them.
    pub async fn answer(&mut self) -> Result<Answer> {
        let (rows, bytes_scanned) = match self.run_guarded().await {
            Ok(done) => done,
            Err(failed) if failed.may_be_damage && self.out.take_back() && self.catalogue.leave_out_failed() => {
                self.run_guarded().await.map_err(|failed| failed.error)?
            }
            Err(failed) => return Err(self.catalogue.failure().map_or(failed.error, QueryError::Unanswered)),
        };
        self.out.release().map_err(|e| QueryError::Unanswered(format!("cannot write the result: {e}")))?;
        Ok(Answer { rows, bytes_scanned, left_out: self.catalogue.left_out() })
    }

    /// As [`Query::run`]. Files of other programs have no checksums of ours, and damage in them can make the engine panic.
    async fn run_guarded(&mut self) -> Result<(u64, u64), Failed> {
        match AssertUnwindSafe(self.run()).catch_unwind().await {
            Ok(result) => result,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
                let error = QueryError::Unanswered(format!("the query engine gave up: {text}; please report this"));
                Err(Failed { error, may_be_damage: true })
            }
        }
    }

    /// Runs the query. Gives the rows written and the bytes that scans read.
    async fn run(&mut self) -> Result<(u64, u64), Failed> {
        let sql = self.sql;
        let names: Vec<&str> = tables::all().iter().map(|table| table.name).chain([RUNS, COVERAGE]).collect();
        let why = |e: DataFusionError| Failed { may_be_damage: is_of_a_file(&e), error: explain(&e, sql, &names) };
        let frame = self.context.sql_with_options(sql, read_only()).await.map_err(why)?;
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.map_err(why)?;
        check_planned(&plan).map_err(why)?;
        let batches = execute_stream(plan.clone(), task).map_err(why)?;
        let rows = written(batches, self.format, &mut self.out, why).await?;
        Ok((rows, bytes_scanned(plan.as_ref())))
    }
}

/// What a query may hold: it only reads.
pub(crate) fn read_only() -> SQLOptions {
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false)
}

/// Writes a result as it comes. Gives the rows written.
pub(crate) async fn written<E: From<QueryError>>(
    mut batches: SendableRecordBatchStream,
    format: Format,
    out: &mut (dyn Write + Send),
    why: impl Fn(DataFusionError) -> E,
) -> Result<u64, E> {
    let mut output = Output::new(format, batches.schema(), out)?;
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(&why)?;
        rows += batch.num_rows() as u64;
        output.write(&batch)?;
    }
    output.finish()?;
    Ok(rows)
}

/// Whether an error may come from what a file holds.
fn is_of_a_file(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ParquetError(_) | DataFusionError::External(_) => true,
        DataFusionError::ArrowError(inner, _) => {
            matches!(**inner, ArrowError::ParquetError(_) | ArrowError::ExternalError(_) | ArrowError::IoError(..))
        }
        _ => false,
    }
}

/// Bytes that the scans of a plan have read.
fn bytes_scanned(plan: &dyn ExecutionPlan) -> u64 {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name("bytes_scanned"));
    let own = own.map_or(0, |bytes| bytes.as_usize() as u64);
    own + plan.children().into_iter().map(|child| bytes_scanned(child.as_ref())).sum::<u64>()
}
