//! Where questions read a compacted fleet from: a folder, or an engine that has its tables elsewhere.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;

use super::day::Day;
use super::tables::{ColumnDef, ColumnType, Row, TableDef, Text};
use crate::error::{FleetError, Result};

/// A condition on rows: the text column equals the value; `None` is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Where<'a> {
    /// A text column of the table.
    pub column: &'a str,
    /// Its value.
    pub equals: Option<&'a str>,
}

/// What was opened for rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    /// Files.
    pub files: usize,
    /// Row groups that were decoded; null where another engine reads and does not say.
    pub row_groups_read: Option<usize>,
    /// Row groups that there are in these days; null likewise.
    pub row_groups: Option<usize>,
    /// Days of the range that are there and lack the table: what it would say is not known.
    pub days_without: Vec<Day>,
}

/// Rows that were read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read<R> {
    /// The rows: by day, and within a day in the order of the table.
    pub rows: Vec<R>,
    /// What was opened for them.
    pub opened: Opened,
}

/// A compacted fleet to read from.
pub trait FleetSource: fmt::Debug {
    /// Where it is, for messages.
    fn place(&self) -> PathBuf;

    /// Its days, in order.
    ///
    /// # Errors
    /// It cannot be listed.
    fn days(&self) -> Result<Vec<Day>>;

    /// Gives the rows of a table in a range of days that fulfil all conditions, by day, and within a day in the order of the table.
    ///
    /// # Errors
    /// Files that cannot be read, and what `take` says.
    fn batches(
        &self,
        table: &'static TableDef,
        days: RangeInclusive<Day>,
        conditions: &[Where],
        take: &mut dyn FnMut(RecordBatch, &Path) -> Result<()>,
    ) -> Result<Opened>;

    /// The values that a text column has in a range of days, each once, in order; null is none.
    ///
    /// # Errors
    /// Files that cannot be read.
    fn texts(&self, table: &'static TableDef, days: RangeInclusive<Day>, column: &str) -> Result<Vec<Text>>;
}

impl dyn FleetSource + '_ {
    /// From the first to the last of its days; none if it has no day.
    ///
    /// # Errors
    /// As [`FleetSource::days`].
    pub fn span(&self) -> Result<Option<RangeInclusive<Day>>> {
        let days = self.days()?;
        Ok(days.first().zip(days.last()).map(|(first, last)| *first..=*last))
    }

    /// The rows of a table in a range of days that fulfil all conditions. All of them are held: those of one metric of 10,000 hosts with
    /// three runs a day take 5 MB a day.
    ///
    /// # Errors
    /// A condition on a column that is no text column of the table, and files that cannot be read.
    pub fn read<R: Row>(&self, days: RangeInclusive<Day>, conditions: &[Where]) -> Result<Read<R>> {
        for condition in conditions {
            check_column(R::TABLE, condition.column)?;
        }
        let mut rows: Vec<R> = Vec::new();
        let opened = self.batches(R::TABLE, days, conditions, &mut |batch, path| {
            rows.extend(R::rows(&batch).map_err(|column| column.of::<R>(path))?);
            Ok(())
        })?;
        Ok(Read { rows, opened })
    }

    /// The values that a text column has in a range of days, each once, in order.
    ///
    /// # Errors
    /// No such text column, and files that cannot be read.
    pub fn distinct<R: Row>(&self, days: RangeInclusive<Day>, column: &str) -> Result<Vec<Text>> {
        check_column(R::TABLE, column)?;
        self.texts(R::TABLE, days, column)
    }
}

fn check_column(table: &'static TableDef, column: &str) -> Result<()> {
    let is_text = |one: &&ColumnDef| one.ty == ColumnType::Text;
    if table.column(column).as_ref().is_some_and(is_text) {
        return Ok(());
    }
    let known: Vec<&str> = table.columns.iter().filter(is_text).map(|column| column.name).collect();
    Err(FleetError::NoSuchColumn { table: table.name, column: column.to_owned(), known: known.join(", ") })
}
