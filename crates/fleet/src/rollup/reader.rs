//! Reading the tables of a fleet: only the days, and of them only the row groups, that a question needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::DataType;
use pagelab_output::{Folder, Lock, Sync};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::day::Day;
use super::source::{FleetSource, Opened, Read, Where};
use super::tables::{Row, TableDef, Text, Unreadable};
use super::writer::{SortedWriter, SortingWriter, WriteOptions};
use crate::error::{FleetError, Result};

/// What the folder of a day is called in front of its date: partitions as Hive has them, which other programs know.
const DAY_PREFIX: &str = "day=";
/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 1 << 14;

/// What the folder of a day is called in front of that name until it is whole, and after it was replaced.
const NEW_PREFIX: &str = ".new-";
/// What a day that came from an object store holds beside its tables: their sizes and contents (`pagelab-fleet` writes it).
const DOCUMENT: &str = "complete.json";
/// The file that whoever compacts holds.
const LOCK: &str = ".compact.lock";

/// The folder of a compacted fleet.
///
/// A day whose tables were read once stays held: all tables of it come from the same compaction, whatever replaces it meanwhile.
#[derive(Debug, Clone)]
pub struct FleetFolder {
    path: PathBuf,
    held: Arc<Mutex<BTreeMap<Day, Arc<Folder>>>>,
}

impl FleetFolder {
    /// Opens the folder of a fleet, or makes it and its parents, to write into.
    ///
    /// # Errors
    /// As [`Folder::create`]: it must be ours and not writable by others.
    pub fn create(path: &Path) -> Result<Self> {
        let folder = Folder::create(path)?;
        Ok(Self::at(folder.path()))
    }

    fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), held: Arc::default() }
    }

    /// Opens the folder of a fleet to read from.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn open(path: &Path) -> Result<Self> {
        Folder::open_any(path)?;
        Ok(Self::at(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its days, in order. Other names in the folder are ignored.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn days(&self) -> Result<Vec<Day>> {
        let names = Folder::open_any(&self.path)?.names()?;
        let days = names.iter().filter_map(|name| name.to_str()?.strip_prefix(DAY_PREFIX)?.parse().ok());
        let mut days: Vec<Day> = days.collect();
        days.sort_unstable();
        Ok(days)
    }

    /// The files of a table, by day, from the first day asked for to the last; absolute paths.
    ///
    /// # Errors
    /// The folder cannot be listed; [`FleetError::NoDays`] if none of these days has the table.
    pub fn files(&self, table: &TableDef, from: Option<Day>, to: Option<Day>) -> Result<Vec<PathBuf>> {
        let root = std::path::absolute(&self.path).map_err(FleetError::io("find", &self.path))?;
        let days = self.days()?;
        let wanted = days.iter().filter(|day| from.is_none_or(|from| **day >= from) && to.is_none_or(|to| **day <= to));
        let files = wanted.map(|day| root.join(name_of(*day)).join(table.file_name()));
        let files: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
        if files.is_empty() {
            return Err(FleetError::NoDays {
                path: self.path.clone(),
                found: format!("{} days, none with the table {}", days.len(), table.name),
            });
        }
        Ok(files)
    }

    /// Begins a table of a day whose rows come sorted; it replaces the one that is there once it is whole.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn writer<R: Row>(&self, day: Day, options: &WriteOptions) -> Result<SortedWriter<R>> {
        SortedWriter::begin(&self.folder_of(day)?, options)
    }

    /// Begins a table of a day whose rows come in any order; it replaces the one that is there once it is whole.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn sorting_writer<R: Row>(&self, day: Day, options: &WriteOptions) -> Result<SortingWriter<R>> {
        SortingWriter::begin(&self.folder_of(day)?, options)
    }

    fn folder_of(&self, day: Day) -> Result<Folder> {
        Ok(Folder::open(&self.path)?.folder_or_new(name_of(day))?)
    }

    /// Removes the document that says what the tables of a day hold: one of them was changed here.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(crate) fn remove_document(&self, day: Day) -> Result<()> {
        let folder = self.folder_of(day)?;
        if folder.holds(DOCUMENT)? {
            folder.remove_file(DOCUMENT)?;
        }
        Ok(())
    }

    /// Begins all tables of a day anew, beside those that are there. What an earlier try left is removed.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn replacement(&self, day: Day) -> Result<Replacement> {
        let fleet = Folder::open(&self.path)?;
        let name = format!("{NEW_PREFIX}{}", name_of(day));
        if fleet.holds(&name)? {
            fleet.remove_tree(&name)?;
        }
        let folder = fleet.create_folder(&name)?;
        Ok(Replacement { fleet, folder, day, held: self.held.clone() })
    }

    /// Removes what compactions left that were broken off, and days that were replaced.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(crate) fn remove_leftovers(&self) -> Result<()> {
        let fleet = Folder::open(&self.path)?;
        for name in fleet.names()? {
            if name.as_encoded_bytes().starts_with(NEW_PREFIX.as_bytes()) {
                fleet.remove_tree(&name)?;
            }
        }
        Ok(())
    }

    /// Keeps other compactions of the fleet out while it is held.
    ///
    /// # Errors
    /// [`FleetError::Busy`] if there is one.
    pub(crate) fn lock(&self) -> Result<Lock> {
        Lock::try_take(Folder::open(&self.path)?.lock_file(LOCK)?).map_err(|error| match error {
            TryLockError::WouldBlock => FleetError::Busy { path: self.path.clone() },
            TryLockError::Error(error) => FleetError::io("lock", self.path.join(LOCK))(error),
        })
    }

    /// The folder of a day as it was when it was first looked at.
    fn held(&self, day: Day) -> Result<Arc<Folder>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = held.get(&day) {
            return Ok(folder.clone());
        }
        let folder = Arc::new(Folder::open_any(&self.path)?.folder_any(name_of(day))?);
        held.insert(day, folder.clone());
        Ok(folder)
    }

    /// The file of a table of a day, to read; none if the day or the table is not there.
    pub(crate) fn file(&self, table: &TableDef, day: Day) -> Result<Option<(File, PathBuf)>> {
        if !Folder::open_any(&self.path)?.holds(name_of(day))? {
            return Ok(None);
        }
        let (folder, name) = (self.held(day)?, table.file_name());
        if !folder.holds(&name)? {
            return Ok(None);
        }
        Ok(Some((folder.open_file(&name)?, folder.path_of(&name))))
    }

    /// As [`FleetSource::read`](trait@FleetSource).
    ///
    /// # Errors
    /// A condition on a column that is no text column of the table, and files that cannot be read.
    pub fn read<R: Row>(&self, days: RangeInclusive<Day>, conditions: &[Where]) -> Result<Read<R>> {
        let source: &dyn FleetSource = self;
        source.read(days, conditions)
    }
}

impl FleetSource for FleetFolder {
    fn place(&self) -> PathBuf {
        self.path.clone()
    }

    fn days(&self) -> Result<Vec<Day>> {
        FleetFolder::days(self)
    }

    /// Row groups whose smallest and largest values exclude a condition are not read.
    fn batches(
        &self,
        table: &'static TableDef,
        days: RangeInclusive<Day>,
        conditions: &[Where],
        take: &mut dyn FnMut(RecordBatch, &Path) -> Result<()>,
    ) -> Result<Opened> {
        let mut opened = Opened { row_groups_read: Some(0), row_groups: Some(0), ..Opened::default() };
        for day in self.days()?.into_iter().filter(|day| days.contains(day)) {
            match self.file(table, day)? {
                Some((file, path)) => opened.add(file, &path, conditions, take)?,
                None => opened.days_without.push(day),
            }
        }
        Ok(opened)
    }

    /// Only that column is read, and of it only row groups whose smallest and largest value differ.
    fn texts(&self, table: &'static TableDef, days: RangeInclusive<Day>, column: &str) -> Result<Vec<Text>> {
        let mut found: BTreeSet<Text> = BTreeSet::new();
        for day in self.days()?.into_iter().filter(|day| days.contains(day)) {
            if let Some((file, path)) = self.file(table, day)? {
                add_distinct(file, column, &mut found).map_err(FleetError::parquet("read", &path))?;
            }
        }
        Ok(found.into_iter().collect())
    }
}

fn add_distinct(file: File, column: &str, found: &mut BTreeSet<Text>) -> Result<(), ParquetError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
    let metadata = builder.metadata().clone();
    let schema = metadata.file_metadata().schema_descr();
    let Some(at) = schema.columns().iter().position(|one| one.name() == column) else { return Ok(()) };
    let mut wanted = Vec::new();
    for (number, group) in metadata.row_groups().iter().enumerate() {
        match one_value(group, at) {
            Some(value) => _ = found.insert(value),
            None => wanted.push(number),
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let mask = ProjectionMask::leaves(schema, [at]);
    for batch in builder.with_projection(mask).with_row_groups(wanted).with_batch_size(BATCH_ROWS).build()? {
        let text = cast(batch?.column(0), &DataType::Utf8)?;
        let mut last: Option<&str> = None;
        for value in text.as_string::<i32>().iter().flatten() {
            if last != Some(value) && !found.contains(value) {
                found.insert(Text::from(value));
            }
            last = Some(value);
        }
    }
    Ok(())
}

/// The value that a column of a row group has in all rows, if its statistics say that it has one.
fn one_value(group: &RowGroupMetaData, column: usize) -> Option<Text> {
    let statistics = group.columns().get(column)?.statistics()?;
    let is_one = statistics.min_is_exact() && statistics.max_is_exact() && statistics.null_count_opt() == Some(0);
    let (least, most) = (statistics.min_bytes_opt()?, statistics.max_bytes_opt()?);
    let value = std::str::from_utf8(least).ok()?;
    (is_one && least == most).then(|| Text::from(value))
}

pub(super) fn name_of(day: Day) -> String {
    format!("{DAY_PREFIX}{day}")
}

/// All tables of a day, in the making.
///
/// The folder of the day is replaced as a whole by [`Self::finish`]: a reader has either the old tables or the new ones. The old ones
/// stay beside it until the day is replaced again, for readers that hold them. Dropped before its end it leaves the day as it is.
#[derive(Debug)]
pub struct Replacement {
    fleet: Folder,
    folder: Folder,
    day: Day,
    held: Arc<Mutex<BTreeMap<Day, Arc<Folder>>>>,
}

impl Replacement {
    /// Begins a table whose rows come in any order.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn sorting_writer<R: Row>(&self, options: &WriteOptions) -> Result<SortingWriter<R>> {
        SortingWriter::begin(&self.folder, options)
    }

    /// Puts the tables in place of those of the day.
    ///
    /// # Errors
    /// The folder cannot be renamed; the old tables are then still there.
    pub fn finish(self, sync: Sync) -> Result<()> {
        let (new, name) = (format!("{NEW_PREFIX}{}", name_of(self.day)), name_of(self.day));
        if self.fleet.holds(&name)? {
            self.fleet.exchange(&new, &name)?;
        } else {
            self.fleet.rename(&new, &name)?;
        }
        if matches!(sync, Sync::Data) {
            self.fleet.sync()?;
        }
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.day);
        Ok(())
    }
}

impl Opened {
    fn add(
        &mut self,
        file: File,
        path: &Path,
        conditions: &[Where],
        take: &mut dyn FnMut(RecordBatch, &Path) -> Result<()>,
    ) -> Result<()> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(FleetError::parquet("read", path))?;
        let metadata = builder.metadata().clone();
        let wanted: Vec<usize> = (0..metadata.num_row_groups())
            .filter(|at| conditions.iter().all(|condition| may_hold(&metadata, *at, condition)))
            .collect();
        self.files += 1;
        self.row_groups = self.row_groups.map(|sum| sum + metadata.num_row_groups());
        self.row_groups_read = self.row_groups_read.map(|sum| sum + wanted.len());
        let batches = builder.with_row_groups(wanted).with_batch_size(BATCH_ROWS).build();
        for batch in batches.map_err(FleetError::parquet("read", path))? {
            let batch = batch.map_err(|error| FleetError::parquet("read", path)(error.into()))?;
            let batch =
                fulfilling(&batch, conditions).map_err(|error| FleetError::parquet("read", path)(error.into()))?;
            take(batch, path)?;
        }
        Ok(())
    }
}

/// Whether a row group can have rows that fulfil the condition, by its statistics. What says nothing can.
fn may_hold(metadata: &ParquetMetaData, group: usize, condition: &Where) -> bool {
    let schema = metadata.file_metadata().schema_descr();
    let Some(column) = schema.columns().iter().position(|column| column.name() == condition.column) else {
        // A column that the file lacks is null.
        return condition.equals.is_none();
    };
    let statistics = metadata.row_groups().get(group).map(RowGroupMetaData::columns);
    let Some(statistics) = statistics.and_then(|columns| columns.get(column)?.statistics()) else { return true };
    match condition.equals {
        None => statistics.null_count_opt() != Some(0),
        Some(value) => {
            // Bounds may be cut to 64 bytes; the lower one is then smaller, and the upper one larger, than the values.
            let below = statistics.min_bytes_opt().is_some_and(|least| value.as_bytes() < least);
            let above = statistics.max_bytes_opt().is_some_and(|most| value.as_bytes() > most);
            !below && !above
        }
    }
}

/// The rows of a batch that fulfil the conditions.
fn fulfilling(batch: &RecordBatch, conditions: &[Where]) -> Result<RecordBatch, arrow::error::ArrowError> {
    let mut batch = batch.clone();
    for condition in conditions {
        let mask = match batch.column_by_name(condition.column) {
            None => BooleanArray::from(vec![condition.equals.is_none(); batch.num_rows()]),
            Some(array) => {
                let array = cast(array, &DataType::Utf8)?;
                let text = array.as_string_opt::<i32>();
                let equal = |at| text.and_then(|text| text.is_valid(at).then(|| text.value(at))) == condition.equals;
                (0..batch.num_rows()).map(|at| Some(equal(at))).collect()
            }
        };
        batch = filter_record_batch(&batch, &mask)?;
    }
    Ok(batch)
}

impl Unreadable {
    /// The error, of the file that has the column.
    pub(super) fn of<R: Row>(self, path: &Path) -> FleetError {
        FleetError::BadColumn {
            path: path.to_owned(),
            table: R::TABLE.name,
            column: self.column.name,
            found: self.found.to_string(),
            needed: self.column.ty.arrow().to_string(),
        }
    }
}
