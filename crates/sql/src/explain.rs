//! What the engine says, turned into what the user can do.

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use pagelab_recording::tables;
use pagelab_vocab::nearest::hint_for;

use crate::error::QueryError;
use crate::partition::PARTITION_COLUMNS;

/// How the engine begins its refusals of everything that is not a query.
const REFUSED: [&str; 3] = ["DDL not supported", "DML not supported", "Statement not supported"];

/// The message for an error of planning or running `sql`; `names` are the tables that there are.
pub(crate) fn explain(error: &DataFusionError, sql: &str, names: &[&str]) -> QueryError {
    let root = error.find_root();
    let text = match root {
        DataFusionError::External(inner) => inner.to_string(),
        DataFusionError::SQL(parser, _) => format!("the query is no SQL: {parser}; it was: {sql}"),
        DataFusionError::SchemaError(schema, _) => unknown_column(schema, sql),
        DataFusionError::Plan(text) => match quoted_table(text) {
            Some(table) => unknown_table(table, names),
            None if REFUSED.iter().any(|start| text.starts_with(start)) => {
                format!("{text}: a query may only read; SELECT is needed")
            }
            None => text.clone(),
        },
        DataFusionError::ResourcesExhausted(text) => {
            format!(
                "the query needs more memory than it may use: {text}; ask for fewer columns or rows, or add a LIMIT"
            )
        }
        other => other.strip_backtrace(),
    };
    QueryError::Unanswered(text)
}

/// The name in `table 'datafusion.public.name' not found`.
fn quoted_table(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix("table '")?.split_once("' not found")?;
    name.rsplit('.').next()
}

fn unknown_table(name: &str, names: &[&str]) -> String {
    let near = hint_for(name, names.iter().copied());
    format!("there is no table {name}{near}; the tables are: {}", names.join(" "))
}

fn unknown_column(error: &SchemaError, sql: &str) -> String {
    let SchemaError::FieldNotFound { field, valid_fields } = error else { return error.to_string() };
    let mut known: Vec<&str> = valid_fields.iter().map(|column| column.name.as_str()).collect();
    known.dedup();
    let near = hint_for(&field.name, known.iter().copied());
    let here = if known.is_empty() { String::new() } else { format!("; the columns here are: {}", known.join(" ")) };
    let elsewhere: Vec<&str> = tables::all()
        .iter()
        .filter(|table| table.column(&field.name).is_some() && !sql.contains(table.name))
        .map(|table| table.name)
        .collect();
    let elsewhere = if elsewhere.is_empty() || PARTITION_COLUMNS.contains(&field.name.as_str()) {
        String::new()
    } else {
        format!("; tables that have it: {}", elsewhere.join(" "))
    };
    format!("there is no column {}{near}{here}{elsewhere}", field.name)
}
