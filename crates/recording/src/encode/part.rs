//! A whole part: row groups in, bytes out.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
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
use crate::error::Result;

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
    effort: Effort,
    file: SerializedFileWriter<Vec<u8>>,
    /// For what this module cannot encode.
    library: ArrowRowGroupWriterFactory,
    choices: Vec<Option<Choice>>,
    zstd: Zstd,
    checksums: Vec<u32>,
    written: u64,
}

impl PartEncoder {
    pub(crate) fn new(schema: SchemaRef, effort: Effort) -> Result<Self> {
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("{} {}", footer::CREATED_BY, env!("CARGO_PKG_VERSION")))
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
        Ok(Self { schema, effort, file, library, choices, zstd, checksums: Vec::new(), written: 0 })
    }

    /// Bytes returned so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Encodes one row group and returns its bytes.
    pub(crate) fn row_group(&mut self, batches: &[RecordBatch]) -> Result<Vec<u8>> {
        let number = self.file.flushed_row_groups().len();
        let mut library: Option<Vec<Option<ArrowColumnWriter>>> = None;
        let descriptors: Vec<ColumnDescPtr> = self.file.schema_descr().columns().to_vec();
        let mut chunks = Vec::with_capacity(descriptors.len());
        for (i, desc) in descriptors.iter().enumerate() {
            let field = self.schema.field(i);
            let arrays: Vec<ArrayRef> = batches.iter().map(|b| b.column(i).clone()).collect();
            if chunk::handles(field) {
                let is_ts = field.name() == "ts";
                let chunk = self.numbers(i, desc, &arrays, is_ts, number)?;
                chunks.push(Encoded::Here(Box::new(chunk)));
                continue;
            }
            let zstd = match self.effort {
                Effort::Live => None,
                Effort::Compact(level) => Some(level),
            };
            if let Some(chunk) = text::encode(desc, &arrays, zstd, &mut self.zstd)? {
                chunks.push(Encoded::Here(Box::new(chunk)));
                continue;
            }
            let writers = match &mut library {
                Some(writers) => writers,
                None => library.insert(self.library.create_column_writers(number)?.into_iter().map(Some).collect()),
            };
            if let Some(mut writer) = writers.get_mut(i).and_then(Option::take) {
                for array in &arrays {
                    for leaf in compute_leaves(self.schema.field(i), array)? {
                        writer.write(&leaf)?;
                    }
                }
                chunks.push(Encoded::ByLibrary(Box::new(writer)));
            }
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
                // Of a list most words repeat even if some never do; differences between its words mean nothing.
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
                unencodable()
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
                unencodable()
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

fn unencodable() -> Result<Chunk> {
    Err(parquet::errors::ParquetError::General("no layout fits a column of numbers".to_owned()).into())
}

/// Compression must save more than 1/32 to be worth the reader's time.
fn is_worth(compressed: usize, plain: usize) -> bool {
    compressed < plain - plain / 32
}

/// A chunk of up to so many rows is tried as a whole.
const SMALL_CHUNK: usize = 1 << 16;
/// Of a larger one, so many stretches of so many rows.
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
                // What comes later is dearer to write and to read: it must save something, in all and per row.
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
