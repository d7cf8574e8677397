//! The tool `tables`: what SQL may ask for, with unit and meaning.

use pagelab_recording::tables::{self, TableDef};
use pagelab_sql::{ShortQuery, answer_short};
use pagelab_vocab::nearest::hint_for;
use rmcp::schemars;
use serde_json::{Value, json};

use crate::answer::{LIMIT_BYTES, ToolError, document};
use crate::query::{MEMORY_BYTES, failed};

const SMALLER: &str = "ask for one table with `name`";

/// Tables that are made of the manifests. Their columns are the query engine's to tell.
const MADE: [(&str, &str); 2] = [
    ("runs", "One row per recording, from its manifest."),
    (
        "coverage",
        "One row per recording and stream: unless its `state` is `active`, a table without rows of the recording means nothing.",
    ),
];

/// Which table.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The table whose columns are told [default: all tables, without their columns].
    #[serde(default)]
    name: Option<String>,
}

fn listed(table: &TableDef) -> Value {
    json!({"table": table.name, "about": table.help, "columns": table.columns.len()})
}

fn columns(table: &TableDef) -> Value {
    let columns: Vec<Value> = table
        .columns
        .iter()
        .map(|column| {
            json!({
                "column": column.name,
                "type": column.ty.word(),
                "unit": column.unit,
                "may_be_null": column.nullable,
                "about": column.help,
            })
        })
        .collect();
    json!({
        "table": table.name,
        "about": table.help,
        "columns": columns,
        "columns_in_front": "host, variant (text) and run (integer): the recording that a row is from",
    })
}

/// A table of the query engine. It has neither units nor meanings: its columns are named after both.
fn made(name: &str, about: &str) -> Result<Value, ToolError> {
    let sql = format!(
        "select column_name as \"column\", data_type as \"type\" from information_schema.columns \
         where table_name = '{name}' order by ordinal_position"
    );
    // Of this server's own words and no recording: it needs no process of its own.
    let query = ShortQuery { dirs: Vec::new(), sql, memory_bytes: MEMORY_BYTES, most_bytes: LIMIT_BYTES };
    let rows = answer_short(&query).map_err(failed)?.rows_json;
    let columns: Value = serde_json::from_str(&rows).map_err(|error| ToolError::Asked(error.to_string()))?;
    Ok(json!({"table": name, "about": about, "columns": columns}))
}

/// Tells the tables, or the columns of one.
pub(crate) fn answer(args: &Args) -> Result<String, ToolError> {
    let Some(name) = args.name.as_deref() else {
        let mut all: Vec<Value> =
            MADE.iter().map(|(name, about)| json!({"table": name, "about": about, "columns": null})).collect();
        all.extend(tables::all().iter().map(|table| listed(table)));
        return document(&json!({"tables": all}), SMALLER);
    };
    if let Some(table) = tables::table(name) {
        return document(&columns(table), SMALLER);
    }
    if let Some((name, about)) = MADE.iter().find(|(made, _)| *made == name) {
        return document(&made(name, about)?, SMALLER);
    }
    let known: Vec<&str> = MADE.iter().map(|(name, _)| *name).chain(tables::all().iter().map(|one| one.name)).collect();
    let near = hint_for(name, known.iter().copied());
    Err(ToolError::Asked(format!("no table {name:?}{near}; tables: {}", known.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: Option<&str>) -> Value {
        let answer = answer(&Args { name: name.map(str::to_owned) }).expect("an answer");
        serde_json::from_str(&answer).expect("a document")
    }

    #[test]
    fn every_table_is_told_with_all_its_columns() {
        let all = told(None);
        let listed = all["tables"].as_array().expect("a list");
        assert_eq!(listed.len(), tables::all().len() + MADE.len());
        for table in listed {
            let name = table["table"].as_str().expect("a name");
            let one = told(Some(name));
            let columns = one["columns"].as_array().expect("columns");
            let expected = tables::table(name).map(|table| table.columns.len());
            assert!(!columns.is_empty() && expected.is_none_or(|count| count == columns.len()), "{one:#}");
        }
        let faults = told(Some("faults"));
        let addr = &faults["columns"].as_array().expect("columns")[0];
        assert_eq!((&addr["column"], &addr["unit"]), (&"ts".into(), &"ns".into()), "{addr}");
    }

    #[test]
    fn a_table_that_is_none_gets_the_nearest() {
        let said = answer(&Args { name: Some("fault".to_owned()) }).expect_err("no table").to_string();
        assert!(said.contains("did you mean 'faults'?") && said.contains("runs, coverage, "), "{said}");
    }
}
