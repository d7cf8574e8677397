//! SQL over tables that are plain Parquet files, named one by one: those of a compacted fleet.
//!
//! They are the engine's own listing tables with a schema that is given and never inferred: a column that a file lacks is null.

use std::io::Write;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;

use crate::engine::{bounded, in_threads, read_only, session, written};
use crate::error::{QueryError, Result};
use crate::explain::explain;
use crate::options::{Format, QueryOptions};

/// A table of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTable {
    /// Its name in SQL.
    pub name: &'static str,
    /// Its columns.
    pub schema: SchemaRef,
    /// URLs of its files: `file:///...`. At least one.
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
        context.register_table(table.name, Arc::new(provider)).map_err(engine)?;
    }
    Ok(())
}

/// Runs a query that only reads in a session that has the tables, and writes its result. Returns the number of rows.
///
/// # Errors
/// What is wrong with the query, or with the files that it read.
async fn answer_in(
    context: &SessionContext,
    tables: &[ListedTable],
    sql: &str,
    format: Format,
    out: &mut (dyn Write + Send),
) -> Result<u64> {
    bounded(sql)?;
    let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
    let why = |error: DataFusionError| explain(&error, sql, &names);
    let frame = context.sql_with_options(sql, read_only()).await.map_err(why)?;
    written(frame.execute_stream().await.map_err(why)?, format, out, why).await
}

/// Runs a query over tables of files with the embedded engine. Returns the number of rows.
///
/// # Errors
/// As [`answer_in`].
pub fn query_listed(
    tables: &[ListedTable],
    sql: &str,
    format: Format,
    out: &mut (dyn Write + Send),
    options: &QueryOptions,
) -> Result<u64> {
    in_threads(options, |runtime, threads| {
        let context = session(threads, options)?;
        register(&context, tables)?;
        runtime.block_on(answer_in(&context, tables, sql, format, out))
    })
}
