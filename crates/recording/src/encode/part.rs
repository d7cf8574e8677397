//! A whole part: row groups in, bytes out.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnDescPtr;

use super::chunk::{self, Bounds, Choice, Chunk, Layout, Zstd};
use super::{footer, text};
use crate::error::{Error, Result};
use crate::tables::{TableDef, text_of};

/// How hard to try for small files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// While a workload is measured: cheap encodings, no compression.
    Live,
    /// At the end: the smallest of several encodings, compressed at this level of zstd.
    Compact(i32),
}

/// Distinct values that a dictionary of a live part may have. Its pages and table stay in the second-level cache.
const LIVE_DICTIONARY: usize = 4096;
/// The same after compaction, where the smallest encoding wins anyway.
const COMPACT_DICTIONARY: usize = 1 << 16;
/// A chosen layout serves this many row groups before the alternatives are tried again.
const TRY_EVERY: usize = 8;
/// Rows of text per page; the library's default of 20,000 would restart the compressor too often.
const TEXT_PAGE_ROWS: usize = chunk::PAGE_ROWS;

/// Encodes one part, row group by row group. The bytes that [`PartEncoder::row_group`] and [`PartEncoder::finish`]
/// return are the file, in order.
pub(crate) struct PartEncoder {
    schema: SchemaRef,
    /// Per column the one that it is the text of, if it is.
    text_of: Vec<Option<&'static str>>,
    effort: Effort,
    file: SerializedFileWriter<Vec<u8>>,
    /// For columns that this module cannot encode.
    library: ArrowRowGroupWriterFactory,
    choices: Vec<Option<Choice>>,
    zstd: Zstd,
    checksums: Vec<u32>,
    written: u64,
}

impl PartEncoder {
    /// An encoder of parts of `table`, each of which has all of its columns.
    pub(crate) fn of_table(table: &TableDef, effort: Effort) -> Result<Self> {
        Self::new(table.part_schema(), table.columns.iter().map(|column| column.text_of).collect(), effort)
    }

    /// An encoder of parts of any schema; `text_of` says of its columns, as far as it goes, which are the text of which.
    pub(crate) fn new(schema: SchemaRef, text_of: Vec<Option<&'static str>>, effort: Effort) -> Result<Self> {
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("{} {} {}", footer::CREATED_BY, env!("CARGO_PKG_VERSION"), footer::LISTED))
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_data_page_row_count_limit(TEXT_PAGE_ROWS)
            .set_sorting_columns(
                schema
                    .index_of("ts")
                    .ok()
                    .map(|i| vec![SortingColumn { column_idx: i as i32, descending: false, nulls_first: false }]),
            );
        if let Effort::Compact(level) = effort {
            properties = properties.set_compression(Compression::ZSTD(ZstdLevel::try_new(level)?));
        }
        let parquet_schema = ArrowSchemaConverter::new().convert(&schema)?;
        let file =
            SerializedFileWriter::new(Vec::new(), parquet_schema.root_schema_ptr(), Arc::new(properties.build()))?;
        let library = ArrowRowGroupWriterFactory::new(&file, schema.clone());
        let choices = vec![None; schema.fields().len()];
        let zstd = Zstd::default();
        Ok(Self { schema, text_of, effort, file, library, choices, zstd, checksums: Vec::new(), written: 0 })
    }

    /// Bytes returned so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Encodes one row group and returns its bytes. A column that the batches lack is null.
    pub(crate) fn row_group(&mut self, batches: &[RecordBatch]) -> Result<Vec<u8>> {
        let number = self.file.flushed_row_groups().len();
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let mut library = None;
        let descriptors: Vec<ColumnDescPtr> = self.file.schema_descr().columns().to_vec();
        let mut chunks = Vec::with_capacity(descriptors.len());
        for (i, desc) in descriptors.iter().enumerate() {
            let arrays = match self.arrays(i, batches)? {
                None if desc.max_rep_level() == 0 => {
                    chunks.push(Encoded::Here(Box::new(chunk::encode_nulls(desc, rows, &mut self.zstd)?)));
                    continue;
                }
                // A null list has levels of its own, which the library knows.
                None => vec![new_null_array(self.schema.field(i).data_type(), rows)],
                Some(arrays) => arrays,
            };
            chunks.push(match self.chunk(i, desc, &arrays, number)? {
                Some(chunk) => Encoded::Here(Box::new(chunk)),
                None => Encoded::ByLibrary(Box::new(self.by_library(i, &arrays, number, &mut library)?)),
            });
        }
        let mut group = self.file.next_row_group()?;
        for chunk in chunks {
            match chunk {
                Encoded::Here(chunk) => group.append_column(&chunk.bytes, chunk.close)?,
                Encoded::ByLibrary(writer) => writer.close()?.append_to_row_group(&mut group)?,
            }
        }
        let metadata = group.close()?;
        let bytes = self.drain()?;
        // The file begins with the magic number, which the first row group's bytes include.
        footer::chunk_checksums(&metadata, self.written, &bytes, &mut self.checksums);
        self.written += bytes.len() as u64;
        Ok(bytes)
    }

    /// What the batches have of a column, and of text that is made of bytes the text; `None` if all of it is null.
    fn arrays(&self, column: usize, batches: &[RecordBatch]) -> Result<Option<Vec<ArrayRef>>> {
        let field = self.schema.field(column);
        let bytes = self.text_of.get(column).copied().flatten();
        let stored = bytes.unwrap_or(field.name());
        let is_null = |batch: &RecordBatch| batch.column_by_name(stored).is_none_or(|a| a.null_count() == a.len());
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows > 0 && field.is_nullable() && batches.iter().all(is_null) {
            return Ok(None);
        }
        let array = |batch: &RecordBatch| match batch.column_by_name(stored) {
            Some(array) if bytes.is_some() => text_of(array),
            Some(array) => Ok(array.clone()),
            None if field.is_nullable() => Ok(new_null_array(field.data_type(), batch.num_rows())),
            None => Err(unencodable(&format!("the rows lack the column {}", field.name()))),
        };
        batches.iter().map(array).collect::<Result<_>>().map(Some)
    }

    /// A column chunk, if it is of a kind that is encoded here.
    fn chunk(
        &mut self,
        column: usize,
        desc: &ColumnDescPtr,
        arrays: &[ArrayRef],
        group: usize,
    ) -> Result<Option<Chunk>> {
        let field = self.schema.field(column);
        if chunk::handles(field) {
            let is_ts = field.name() == "ts";
            return self.numbers(column, desc, arrays, is_ts, group).map(Some);
        }
        let zstd = match self.effort {
            Effort::Live => None,
            Effort::Compact(level) => Some(level),
        };
        text::encode(desc, arrays, zstd, &mut self.zstd)
    }

    /// A column chunk that is encoded by the library; its writers are made for all columns at once.
    fn by_library(
        &self,
        column: usize,
        arrays: &[ArrayRef],
        group: usize,
        writers: &mut Option<Vec<Option<ArrowColumnWriter>>>,
    ) -> Result<ArrowColumnWriter> {
        let writers = match writers {
            Some(writers) => writers,
            None => writers.insert(self.library.create_column_writers(group)?.into_iter().map(Some).collect()),
        };
        let Some(mut writer) = writers.get_mut(column).and_then(Option::take) else {
            return Err(unencodable("a column has no writer"));
        };
        for array in arrays {
            for leaf in compute_leaves(self.schema.field(column), array)? {
                writer.write(&leaf)?;
            }
        }
        Ok(writer)
    }

    fn drain(&mut self) -> Result<Vec<u8>> {
        self.file.flush().map_err(parquet::errors::ParquetError::from)?;
        Ok(std::mem::take(self.file.inner_mut()))
    }

    /// Ends the part and returns its last bytes.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        self.file.finish()?;
        let mut tail = self.drain()?;
        // Without a row group the magic number at the beginning is still here; it is no part of the footer.
        let head = if self.written == 0 { footer::PARQUET_MAGIC.len() } else { 0 };
        let mut sealed = tail.split_off(head);
        footer::seal(&mut sealed, &self.checksums);
        tail.append(&mut sealed);
        Ok(tail)
    }

    fn numbers(
        &mut self,
        column: usize,
        desc: &ColumnDescPtr,
        arrays: &[ArrayRef],
        is_ts: bool,
        group: usize,
    ) -> Result<Chunk> {
        match self.effort {
            Effort::Live => {
                let spread = if is_float(desc) { Layout::Split } else { Layout::Delta };
                let rows: usize = arrays.iter().map(|a| a.len()).sum();
                let bounds = if is_ts { Bounds::Ends } else { Bounds::None };
                // Most words of a list repeat even if some never do; differences between its words mean nothing.
                let is_list = desc.max_rep_level() > 0;
                let limit = if is_list { rows + LIVE_DICTIONARY } else { LIVE_DICTIONARY.min(rows / 4 + 1) };
                let is_spread = is_ts || !is_list && chunk::varies(arrays);
                let first = if is_spread { spread } else { Layout::Dictionary(limit) };
                for layout in [first, spread] {
                    if let Some(chunk) =
                        chunk::encode(desc, arrays, Choice { layout, zstd: None }, bounds, &mut self.zstd)?
                    {
                        return Ok(chunk);
                    }
                }
                Err(unencodable("no layout fits a column of numbers"))
            }
            Effort::Compact(level) => {
                let known = self.choices[column].filter(|_| !group.is_multiple_of(TRY_EVERY));
                let choice = match known {
                    Some(choice) => choice,
                    None => choose(desc, arrays, level, &mut self.zstd)?,
                };
                self.choices[column] = Some(choice);
                // Values may change their character within a part: what has become too many for a dictionary is split.
                for choice in [choice, Choice { layout: Layout::Split, ..choice }] {
                    let bounds = if is_ts { Bounds::Ends } else { Bounds::Searched };
                    if let Some(chunk) = chunk::encode(desc, arrays, choice, bounds, &mut self.zstd)? {
                        return Ok(chunk);
                    }
                }
                Err(unencodable("no layout fits a column of numbers"))
            }
        }
    }
}

enum Encoded {
    Here(Box<Chunk>),
    ByLibrary(Box<ArrowColumnWriter>),
}

fn is_float(desc: &ColumnDescPtr) -> bool {
    desc.physical_type() == parquet::basic::Type::DOUBLE
}

fn unencodable(why: &str) -> Error {
    parquet::errors::ParquetError::General(why.to_owned()).into()
}

/// Compression must save more than 1/32 to be worth the reader's time.
fn is_worth(compressed: usize, plain: usize) -> bool {
    compressed < plain - plain / 32
}

/// A chunk of up to this many rows is tried as a whole.
const SMALL_CHUNK: usize = 1 << 16;
/// Stretches of `STRETCH` rows that are tried of a larger one.
const STRETCHES: usize = 2;
const STRETCH: usize = 1 << 14;

/// Rows to try the layouts on, and how many rows each of them stands for.
fn sample(arrays: &[ArrayRef], rows: usize) -> (Vec<ArrayRef>, usize) {
    if rows <= SMALL_CHUNK {
        return (arrays.to_vec(), 1);
    }
    let stretches = arrays.iter().step_by(arrays.len().div_ceil(STRETCHES));
    let sample: Vec<ArrayRef> = stretches.map(|a| a.slice(a.len() / 4, STRETCH.min(a.len() / 2))).collect();
    let taken: usize = sample.iter().map(|a| a.len()).sum();
    (sample, (rows / taken.max(1)).max(1))
}

/// Tries every layout, plain and compressed, on a sample, and returns the one that will be smallest.
fn choose(desc: &ColumnDescPtr, arrays: &[ArrayRef], level: i32, zstd: &mut Zstd) -> Result<Choice> {
    let rows: usize = arrays.iter().map(|a| a.len()).sum();
    let (sample, scale) = sample(arrays, rows);
    let dictionary = Layout::Dictionary(COMPACT_DICTIONARY.min(rows / scale / 2 + 1));
    let layouts = [Some(dictionary), (!is_float(desc)).then_some(Layout::Delta), Some(Layout::Split)];
    let mut best: Option<(Choice, usize)> = None;
    for layout in layouts.into_iter().flatten() {
        for compression in [None, Some(level)] {
            let choice = Choice { layout, zstd: compression };
            let Some(chunk) = chunk::encode(desc, &sample, choice, Bounds::None, zstd)? else { break };
            // A dictionary is stored once, however many rows refer to it.
            let once =
                chunk.close.metadata.dictionary_page_offset().map_or(0, |_| chunk.close.metadata.data_page_offset());
            let size = once as usize + (chunk.bytes.len() - once as usize) * scale;
            let better = match &best {
                None => true,
                Some((c, b)) if compression.is_some() && c.zstd.is_none() => is_worth(size, *b),
                // Later encodings cost more to write and to read: each must save something, in all and per row.
                Some((_, b)) => size + rows / 32 < *b,
            };
            if better {
                best = Some((choice, size));
            }
            // Next to nothing: no other layout can save more than this one takes.
            if size < rows / 256 {
                break;
            }
        }
    }
    // The sample had few distinct values; the whole may have more.
    let whole = |layout| match layout {
        Layout::Dictionary(_) => Layout::Dictionary(COMPACT_DICTIONARY.min(rows / 2 + 1)),
        other => other,
    };
    let best = best.map(|(choice, _)| Choice { layout: whole(choice.layout), ..choice });
    Ok(best.unwrap_or(Choice { layout: Layout::Split, zstd: Some(level) }))
}
