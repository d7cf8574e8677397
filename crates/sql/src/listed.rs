//! SQL over tables that are plain Parquet files, named one by one: those of a compacted fleet.
//!
//! They are the engine's own listing tables with a schema that is given and never inferred: a column that a file lacks is null. So a
//! plan over them can be carried out by another engine of the family, too ([`query_listed_with`]): it is made here in either case.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::DataFrame;

use crate::engine::{bounded, in_threads, read_only, session, written};
use crate::error::{QueryError, Result};
use crate::explain::explain;
use crate::options::{Format, QueryOptions};

/// A table of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTable {
    /// Its name in SQL.
    pub name: String,
    /// Its columns.
    pub schema: SchemaRef,
    /// URLs of its files: `file:///...`, and what the engine that reads them knows. At least one.
    pub files: Vec<String>,
}

/// Puts the tables into a session.
///
/// # Errors
/// A URL that is none, a table without files.
fn register(context: &SessionContext, tables: &[ListedTable]) -> Result<()> {
    for table in tables {
        let engine = |error: DataFusionError| {
            QueryError::Unanswered(format!("table {}: {}", table.name, error.strip_backtrace()))
        };
        if table.files.is_empty() {
            return Err(QueryError::Unanswered(format!("table {}: found no file, needed at least one", table.name)));
        }
        let urls = table.files.iter().map(ListingTableUrl::parse).collect::<std::result::Result<Vec<_>, _>>();
        let options = ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension(".parquet");
        let config = ListingTableConfig::new_with_multi_paths(urls.map_err(engine)?)
            .with_listing_options(options)
            .with_schema(table.schema.clone());
        let provider = ListingTable::try_new(config).map_err(engine)?;
        context.register_table(&table.name, Arc::new(provider)).map_err(engine)?;
    }
    Ok(())
}

/// Whether a plan reads any table.
fn reads_tables(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    let mut reads = false;
    plan.apply_with_subqueries(|node| {
        reads |= matches!(node, LogicalPlan::TableScan(_));
        Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(reads)
}

/// Runs a query over tables of files with the embedded engine. Returns the number of rows.
///
/// # Errors
/// What is wrong with the query, or with the files that it read.
pub fn query_listed(
    tables: &[ListedTable],
    sql: &str,
    format: Format,
    out: &mut (dyn Write + Send),
    options: &QueryOptions,
) -> Result<u64> {
    query_listed_with(tables, sql, format, out, options, Duration::MAX, async |context| Ok(context))
}

/// The same with the engine that `elsewhere` makes of the session: it has the same tables, and is given the plan. A query that reads no
/// table is answered here. After `patience` the query is given up ([`QueryError::TooLate`]).
///
/// # Errors
/// As [`query_listed`], and what that engine says.
pub fn query_listed_with(
    tables: &[ListedTable],
    sql: &str,
    format: Format,
    out: &mut (dyn Write + Send),
    options: &QueryOptions,
    patience: Duration,
    elsewhere: impl AsyncFnOnce(SessionContext) -> Result<SessionContext, DataFusionError> + Send,
) -> Result<u64> {
    bounded(sql)?;
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    let why = |error: DataFusionError| explain(&error, sql, &names);
    let answer = async |context: SessionContext| {
        let frame = context.sql_with_options(sql, read_only()).await.map_err(why)?;
        let plan = frame.logical_plan().clone();
        let optimized = context.state().optimize(&plan).map_err(why)?;
        let frame = if reads_tables(&optimized).map_err(why)? {
            DataFrame::new(elsewhere(context).await.map_err(why)?.state(), plan)
        } else {
            frame
        };
        written(frame.execute_stream().await.map_err(why)?, format, out, why).await
    };
    in_threads(options, |runtime, threads| {
        let context = session(threads, options)?;
        register(&context, tables)?;
        runtime.block_on(within(patience, answer(context)))
    })
}

/// The answer, unless it takes longer than that.
pub(crate) async fn within<T>(patience: Duration, answer: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(patience, answer).await.unwrap_or(Err(QueryError::TooLate))
}
