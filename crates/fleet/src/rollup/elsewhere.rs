//! A compacted fleet whose files another engine reads: questions are put to it in SQL.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use arrow::array::{AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::day::Day;
use super::reader::name_of;
use super::source::{FleetSource, Opened, Where};
use super::tables::{TABLES, TableDef, Text};
use crate::error::{FleetError, Result};

/// A table and the files that hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFiles {
    /// The table.
    pub table: &'static TableDef,
    /// URLs of its files, by day.
    pub files: Vec<String>,
}

/// What runs SQL over tables of files.
pub trait Engine: fmt::Debug {
    /// The result of a query, as a Parquet file from its beginning.
    ///
    /// # Errors
    /// What the engine says.
    fn parquet(&self, tables: &[TableFiles], sql: &str) -> Result<File, String>;
}

/// A day, with the names of the tables that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedDay {
    /// The day.
    pub day: Day,
    /// Its tables.
    pub tables: BTreeSet<String>,
}

/// The fleet.
#[derive(Debug)]
pub struct FleetElsewhere<E> {
    url: String,
    days: Vec<ListedDay>,
    engine: E,
}

impl<E: Engine> FleetElsewhere<E> {
    /// The fleet at a URL, with the days that are there.
    pub fn new(url: &str, mut days: Vec<ListedDay>, engine: E) -> Self {
        days.sort_by_key(|one| one.day);
        Self { url: url.trim_end_matches('/').to_owned(), days, engine }
    }

    /// What reads it.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// All tables, of the days from the first asked for to the last.
    ///
    /// # Errors
    /// [`FleetError::NoDays`] if none of these days has one of them.
    pub fn tables(&self, from: Option<Day>, to: Option<Day>) -> Result<Vec<TableFiles>> {
        let holds = |day: Day| from.is_none_or(|from| day >= from) && to.is_none_or(|to| day <= to);
        let one = |table: &&'static TableDef| match self.with_table(table, holds).0 {
            days if days.is_empty() => Err(FleetError::NoDays {
                path: self.place(),
                found: format!("{} days, none with the table {}", self.days.len(), table.name),
            }),
            days => Ok(self.files(table, &days)),
        };
        TABLES.iter().map(one).collect()
    }

    /// The days of a range that have a table, and those that have not.
    fn with_table(&self, table: &TableDef, holds: impl Fn(Day) -> bool) -> (Vec<Day>, Vec<Day>) {
        let days = self.days.iter().filter(|one| holds(one.day));
        let (with, without): (Vec<&ListedDay>, Vec<&ListedDay>) = days.partition(|one| one.tables.contains(table.name));
        let day_of = |some: Vec<&ListedDay>| some.into_iter().map(|one| one.day).collect();
        (day_of(with), day_of(without))
    }

    fn files(&self, table: &'static TableDef, days: &[Day]) -> TableFiles {
        let file = |day: &Day| format!("{}/{}/{}", self.url, name_of(*day), table.file_name());
        TableFiles { table, files: days.iter().map(file).collect() }
    }

    fn rows(&self, files: TableFiles, sql: &str, mut take: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let answer = self.engine.parquet(&[files], sql).map_err(|said| FleetError::Elsewhere { said })?;
        let unread = |error| FleetError::parquet("read the answer about", self.place())(error);
        let reader = ParquetRecordBatchReaderBuilder::try_new(answer).and_then(ParquetRecordBatchReaderBuilder::build);
        for batch in reader.map_err(unread)? {
            take(batch.map_err(|error| unread(error.into()))?)?;
        }
        Ok(())
    }
}

impl<E: Engine> FleetSource for FleetElsewhere<E> {
    fn place(&self) -> PathBuf {
        PathBuf::from(&self.url)
    }

    fn days(&self) -> Result<Vec<Day>> {
        Ok(self.days.iter().map(|one| one.day).collect())
    }

    fn batches(
        &self,
        table: &'static TableDef,
        days: RangeInclusive<Day>,
        conditions: &[Where],
        take: &mut dyn FnMut(RecordBatch, &Path) -> Result<()>,
    ) -> Result<Opened> {
        let (with, days_without) = self.with_table(table, |day| days.contains(&day));
        let opened = Opened { files: with.len(), row_groups_read: None, row_groups: None, days_without };
        if !with.is_empty() {
            let place = self.place();
            self.rows(self.files(table, &with), &select(table, conditions), |batch| take(batch, &place))?;
        }
        Ok(opened)
    }

    fn texts(&self, table: &'static TableDef, days: RangeInclusive<Day>, column: &str) -> Result<Vec<Text>> {
        let (with, _) = self.with_table(table, |day| days.contains(&day));
        let mut found = Vec::new();
        if !with.is_empty() {
            let sql = format!("SELECT DISTINCT {column} FROM {} WHERE {column} IS NOT NULL ORDER BY 1", table.name);
            self.rows(self.files(table, &with), &sql, |batch| {
                let text = cast(batch.column(0), &DataType::Utf8);
                let text = text.map_err(|error| FleetError::Elsewhere { said: error.to_string() })?;
                found.extend(text.as_string::<i32>().iter().flatten().map(Text::from));
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// Rows that fulfil the conditions, by day, and within a day in the order of the table.
fn select(table: &TableDef, conditions: &[Where]) -> String {
    let one = |condition: &Where| match condition.equals {
        Some(value) => format!("{} = '{}'", condition.column, value.replace('\'', "''")),
        None => format!("{} IS NULL", condition.column),
    };
    let conditions: Vec<String> = conditions.iter().map(one).collect();
    let chosen = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    let day = table.column("start_ns").map(|_| "start_ns / 86400000000000".to_owned());
    let keys = day.into_iter().chain(table.order.iter().map(|key| (*key).to_owned()));
    let order: Vec<String> = keys.map(|key| format!("{key} ASC NULLS FIRST")).collect();
    format!("SELECT * FROM {}{chosen} ORDER BY {}", table.name, order.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> &'static TableDef {
        TABLES.iter().find(|table| table.name == name).expect("a table")
    }

    #[test]
    fn conditions_are_quoted_and_rows_have_one_order() {
        let conditions = [Where { column: "name", equals: Some("it's") }, Where { column: "instance", equals: None }];
        let sql = select(table("metrics"), &conditions);
        let begin = "SELECT * FROM metrics WHERE name = 'it''s' AND instance IS NULL ORDER BY start_ns / ";
        assert!(sql.starts_with(begin) && sql.ends_with("host ASC NULLS FIRST, start_ns ASC NULLS FIRST"), "{sql}");
        let labels = select(table("labels"), &[]);
        assert_eq!(labels, "SELECT * FROM labels ORDER BY name ASC NULLS FIRST, recording_id ASC NULLS FIRST");
    }

    /// Takes the question, and has no answer.
    #[derive(Debug)]
    struct Silent;

    impl Engine for Silent {
        fn parquet(&self, tables: &[TableFiles], _: &str) -> Result<File, String> {
            Err(tables.iter().flat_map(|one| one.files.clone()).collect::<Vec<_>>().join(" "))
        }
    }

    #[test]
    fn days_that_lack_a_table_are_named_and_not_asked() {
        let day = |date: &str, tables: &[&str]| ListedDay {
            day: date.parse().expect("a day"),
            tables: tables.iter().map(|name| (*name).to_owned()).collect(),
        };
        let days = vec![day("2026-03-02", &["runs", "labels"]), day("2026-03-01", &["runs"])];
        let fleet = FleetElsewhere::new("s3://b/fleet/", days, Silent);
        let range = "2026-03-01".parse().expect("a day")..="2026-03-31".parse().expect("a day");
        let opened = fleet.batches(table("metrics"), range.clone(), &[], &mut |_, _| Ok(())).expect("nothing is asked");
        assert_eq!((opened.files, opened.days_without.len()), (0, 2));
        let said = fleet.texts(table("labels"), range, "name").expect_err("silent").to_string();
        assert_eq!(said, "s3://b/fleet/day=2026-03-02/labels.parquet");
        let said = fleet.tables(None, None).expect_err("no metrics").to_string();
        assert!(said.contains("2 days, none with the table metrics"), "{said}");
        assert_eq!(fleet.days().expect("days").first().map(ToString::to_string).as_deref(), Some("2026-03-01"));
    }
}
