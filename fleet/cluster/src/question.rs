//! A question as it comes to this program: tables of files, and SQL.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use pagelab_sql::QueryError;
use pagelab_sql::listed::ListedTable;
use serde::{Deserialize, Serialize};

/// SQL, and the tables that it may read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The tables.
    pub tables: Vec<Table>,
    /// The query; it only reads.
    pub sql: String,
}

/// A table: files that have some or all of its columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its name in SQL.
    pub name: String,
    /// Its columns. Each may be null; one that a file lacks is.
    pub columns: Vec<Column>,
    /// URLs of its files.
    pub files: Vec<String>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type in Arrow's words, such as `Utf8`.
    pub data_type: String,
}

impl Table {
    /// The table as the query engine takes it.
    ///
    /// # Errors
    /// A type that Arrow does not know.
    pub(crate) fn listed(&self) -> Result<ListedTable, QueryError> {
        let field = |column: &Column| {
            let wrong = |error| {
                QueryError::Unanswered(format!(
                    "table {}, column {}: type {:?}: {error}",
                    self.name, column.name, column.data_type
                ))
            };
            Ok(Field::new(&column.name, column.data_type.parse::<DataType>().map_err(wrong)?, true))
        };
        let fields = self.columns.iter().map(field).collect::<Result<Vec<Field>, QueryError>>()?;
        Ok(ListedTable { name: self.name.clone(), schema: Arc::new(Schema::new(fields)), files: self.files.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_in_arrows_words() {
        let table = |data_type: &str| Table {
            name: "runs".to_owned(),
            columns: vec![Column { name: "host".to_owned(), data_type: data_type.to_owned() }],
            files: vec!["file:///x.parquet".to_owned()],
        };
        for data_type in [
            DataType::Utf8,
            DataType::Int64,
            DataType::Boolean,
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        ] {
            let listed = table(&data_type.to_string()).listed().expect("a type");
            assert_eq!(*listed.schema.field(0).data_type(), data_type);
        }
        let error = table("Text").listed().expect_err("no type").to_string();
        assert!(error.contains("table runs, column host"), "{error}");
    }

    #[test]
    fn a_question_of_another_version_is_refused() {
        assert!(serde_json::from_str::<Question>(r#"{"tables": [], "sql": "select 1", "limit": 3}"#).is_err());
    }
}
