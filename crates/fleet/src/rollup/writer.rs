//! Writing one table of one day: sorted, in bounded row groups, under a temporary name until it is whole.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::datatypes::{Schema, SchemaRef};
use pagelab_output::{Folder, NewFile, Sync};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::tables::Row;
use crate::error::{FleetError, Result};

/// Rows that are turned into columns at a time.
const BATCH_ROWS: usize = 1 << 13;
/// How hard files are compressed: level of zstd. Level 9 saves 5 % of the bytes for three times the time.
const LEVEL: i32 = 3;

/// How a table is written.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Rows of a row group at most, at least 1. A question reads whole row groups: fewer rows are read for one metric, and
    /// the footer that says what is where becomes longer.
    pub row_group_rows: usize,
    /// Rows that [`SortingWriter`] holds in memory at most, at least 1.
    pub max_buffered_rows: usize,
    /// Whether the file is forced to the device before it gets its name.
    pub sync: Sync,
    /// Columns that the file is to lack, as files of an older version do. For simulations.
    pub columns_left_out: Vec<&'static str>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { row_group_rows: 1 << 15, max_buffered_rows: 1 << 18, sync: Sync::Data, columns_left_out: Vec::new() }
    }
}

/// Writes rows that are sorted already. Holds the rows of one batch and the encoded pages of one row group.
#[derive(Debug)]
pub struct SortedWriter<R: Row> {
    writer: ArrowWriter<NewFile>,
    path: PathBuf,
    batch: Vec<R>,
    last: Option<R>,
    rows: u64,
    /// Columns that are written; all if the file lacks none.
    kept: Option<Vec<usize>>,
    sync: Sync,
}

impl<R: Row> SortedWriter<R> {
    pub(super) fn begin(folder: &Folder, options: &WriteOptions) -> Result<Self> {
        let file = folder.writer(R::TABLE.file_name())?;
        let path = file.path().to_owned();
        let (schema, kept) = schema_without::<R>(&options.columns_left_out);
        let properties = properties::<R>(&schema, options).map_err(FleetError::parquet("write", &path))?;
        let writer =
            ArrowWriter::try_new(file, schema, Some(properties)).map_err(FleetError::parquet("write", &path))?;
        let batch = Vec::with_capacity(BATCH_ROWS);
        Ok(Self { writer, path, batch, last: None, rows: 0, kept, sync: options.sync })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// [`FleetError::OutOfOrder`] if it belongs before the row in front of it, and what writing fails of.
    pub fn push(&mut self, row: R) -> Result<()> {
        if self.batch.last().or(self.last.as_ref()).is_some_and(|last| last.order(&row).is_gt()) {
            return Err(FleetError::OutOfOrder {
                path: self.path.clone(),
                row: self.rows,
                order: R::TABLE.order.join(", "),
            });
        }
        self.batch.push(row);
        self.rows += 1;
        if self.batch.len() < BATCH_ROWS {
            return Ok(());
        }
        self.write_batch()
    }

    fn write_batch(&mut self) -> Result<()> {
        let failed = |error: ParquetError| FleetError::parquet("write", &self.path)(error);
        let mut batch = R::batch(&self.batch).map_err(|error| failed(error.into()))?;
        if let Some(kept) = &self.kept {
            batch = batch.project(kept).map_err(|error| failed(error.into()))?;
        }
        self.writer.write(&batch).map_err(FleetError::parquet("write", &self.path))?;
        self.last = self.batch.pop();
        self.batch.clear();
        Ok(())
    }

    /// Ends the file and gives it its name. Returns its number of rows.
    ///
    /// # Errors
    /// What writing, forcing to the device or renaming fails of. The file that had the name before is then still there.
    pub fn finish(mut self) -> Result<u64> {
        self.write_batch()?;
        let file = self.writer.into_inner().map_err(FleetError::parquet("write", &self.path))?;
        file.commit(self.sync)?;
        Ok(self.rows)
    }
}

/// The table's schema without some columns, and the indices of those that are left.
fn schema_without<R: Row>(left_out: &[&str]) -> (SchemaRef, Option<Vec<usize>>) {
    let schema = R::TABLE.schema();
    if left_out.is_empty() {
        return (schema, None);
    }
    let kept: Vec<usize> = (0..schema.fields().len())
        .filter(|at| schema.fields().get(*at).is_some_and(|field| !left_out.contains(&field.name().as_str())))
        .collect();
    let fields: Vec<_> = kept.iter().filter_map(|at| schema.fields().get(*at).cloned()).collect();
    (SchemaRef::new(Schema::new(fields)), Some(kept))
}

fn properties<R: Row>(schema: &Schema, options: &WriteOptions) -> Result<WriterProperties, ParquetError> {
    // Without a column the file is sorted by the columns in front of it only.
    let sorted = R::TABLE.order.iter().map_while(|key| schema.index_of(key).ok());
    let sorted = sorted.map(|at| SortingColumn { column_idx: at as i32, descending: false, nulls_first: true });
    Ok(WriterProperties::builder()
        .set_created_by(format!("pagelab-fleet {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(options.row_group_rows.max(1)))
        .set_sorting_columns(Some(sorted.collect()))
        .build())
}

/// Writes rows that come in any order.
///
/// An external merge sort (D. E. Knuth, "The Art of Computer Programming", volume 3, 5.4): each
/// [`WriteOptions::max_buffered_rows`] rows are sorted and written to an unnamed temporary file in the folder of the day; at
/// the end all of them are read at once, row by row, in order. Rows that are equal in order stay in the order in which
/// they came. Beside the buffered rows it holds one batch of each temporary file.
#[derive(Debug)]
pub struct SortingWriter<R: Row> {
    sorted: SortedWriter<R>,
    folder: PathBuf,
    buffered: Vec<R>,
    most: usize,
    spilled: Vec<File>,
}

impl<R: Row> SortingWriter<R> {
    pub(super) fn begin(folder: &Folder, options: &WriteOptions) -> Result<Self> {
        let sorted = SortedWriter::begin(folder, options)?;
        let most = options.max_buffered_rows.max(1);
        Ok(Self { sorted, folder: folder.path().to_owned(), buffered: Vec::new(), most, spilled: Vec::new() })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// What writing a temporary file fails of.
    pub fn push(&mut self, row: R) -> Result<()> {
        self.buffered.push(row);
        if self.buffered.len() < self.most {
            return Ok(());
        }
        self.buffered.sort_by(Row::order);
        let file = spill(&self.buffered, &self.folder)?;
        self.spilled.push(file);
        self.buffered.clear();
        Ok(())
    }

    /// Takes in all rows of a file of this table that is sorted, such as that of an earlier compaction. They are read at the end.
    pub fn take_in(&mut self, file: File) {
        self.spilled.push(file);
    }

    /// Ends the file and gives it its name. Returns its number of rows.
    ///
    /// # Errors
    /// As [`SortedWriter::finish`]; [`FleetError::OutOfOrder`] if a file that was taken in is not sorted.
    pub fn finish(mut self) -> Result<u64> {
        self.buffered.sort_by(Row::order);
        let mut sources = Vec::with_capacity(self.spilled.len() + 1);
        for file in self.spilled {
            sources.push(Source::Spilled(SpilledRows::open(file, &self.folder)?));
        }
        sources.push(Source::Buffered(self.buffered.into_iter()));
        let mut heap = BinaryHeap::with_capacity(sources.len());
        for (source, rows) in sources.iter_mut().enumerate() {
            heap.extend(rows.next()?.map(|row| Reverse(Head { row, source })));
        }
        while let Some(Reverse(Head { row, source })) = heap.pop() {
            self.sorted.push(row)?;
            if let Some(rows) = sources.get_mut(source) {
                heap.extend(rows.next()?.map(|row| Reverse(Head { row, source })));
            }
        }
        self.sorted.finish()
    }
}

/// Writes sorted rows to a file without a name.
fn spill<R: Row>(rows: &[R], folder: &Path) -> Result<File> {
    let failed = |error: ParquetError| FleetError::parquet("write a temporary file in", folder)(error);
    let file = tempfile::tempfile_in(folder).map_err(FleetError::io("make a temporary file in", folder))?;
    let properties = WriterProperties::builder().set_compression(Compression::LZ4_RAW).build();
    let mut writer = ArrowWriter::try_new(&file, R::TABLE.schema(), Some(properties)).map_err(failed)?;
    for rows in rows.chunks(BATCH_ROWS) {
        let batch = R::batch(rows).map_err(|error| failed(error.into()))?;
        writer.write(&batch).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(file)
}

/// The first row of a source that is left.
struct Head<R> {
    row: R,
    source: usize,
}

impl<R: Row> Ord for Head<R> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.row.order(&other.row).then(self.source.cmp(&other.source))
    }
}

impl<R: Row> PartialOrd for Head<R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: Row> PartialEq for Head<R> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<R: Row> Eq for Head<R> {}

enum Source<R> {
    Spilled(SpilledRows<R>),
    Buffered(std::vec::IntoIter<R>),
}

impl<R: Row> Source<R> {
    fn next(&mut self) -> Result<Option<R>> {
        match self {
            Self::Spilled(rows) => rows.next(),
            Self::Buffered(rows) => Ok(rows.next()),
        }
    }
}

struct SpilledRows<R> {
    batches: ParquetRecordBatchReader,
    rows: std::vec::IntoIter<R>,
    folder: PathBuf,
}

impl<R: Row> SpilledRows<R> {
    fn open(file: File, folder: &Path) -> Result<Self> {
        let failed = |error: ParquetError| FleetError::parquet("read a temporary file in", folder)(error);
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(failed)?;
        let batches = builder.with_batch_size(BATCH_ROWS).build().map_err(failed)?;
        Ok(Self { batches, rows: Vec::new().into_iter(), folder: folder.to_owned() })
    }

    fn next(&mut self) -> Result<Option<R>> {
        loop {
            if let Some(row) = self.rows.next() {
                return Ok(Some(row));
            }
            let Some(batch) = self.batches.next() else { return Ok(None) };
            let batch =
                batch.map_err(|error| FleetError::parquet("read a temporary file in", &self.folder)(error.into()))?;
            self.rows = R::rows(&batch).map_err(|column| column.of::<R>(&self.folder))?.into_iter();
        }
    }
}
