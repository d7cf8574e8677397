//! One column chunk of numbers: choosing an encoding, writing its pages and describing it to the Parquet library.

use std::borrow::Cow;
use std::io;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::bits::{self, IntDictionary};
use super::levels;
use crate::error::Result;

/// Values per page. Large enough that headers and the compressor's restarts cost nothing, small enough to decode in
/// the second-level cache.
pub(crate) const PAGE_ROWS: usize = 1 << 16;

/// How the values of a column chunk are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Numbers into a dictionary, run-length coded; holds how many distinct values are accepted.
    Dictionary(usize),
    /// Differences, bit-packed. Not for floats.
    Delta,
    /// Byte streams, for the compressor.
    Split,
}

/// A layout and, if the pages are compressed, the level of zstd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) layout: Layout,
    pub(crate) zstd: Option<i32>,
}

/// Whether this module can encode the column: numbers, and rows of as many words each.
pub(crate) fn handles(field: &Field) -> bool {
    match field.data_type() {
        DataType::Int32 | DataType::UInt32 | DataType::Int64 | DataType::UInt64 | DataType::Float64 => true,
        DataType::FixedSizeList(item, _) => !field.is_nullable() && item.data_type() == &DataType::UInt64,
        _ => false,
    }
}

/// The values of a page that are not null, as bits of the column's physical width; borrowed where nothing is null.
enum Values<'a> {
    Narrow(Cow<'a, [i32]>),
    Wide(Cow<'a, [i64]>),
}

/// A page's worth of a column.
struct Page {
    array: ArrayRef,
}

impl Page {
    /// Numbers in a row: 1, or the length of its lists.
    fn per_row(&self) -> usize {
        match self.array.data_type() {
            DataType::FixedSizeList(_, len) => *len as usize,
            _ => 1,
        }
    }

    /// Numbers in the page, nulls among them.
    fn numbers(&self) -> usize {
        self.array.len() * self.per_row()
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        self.array.nulls().filter(|n| n.null_count() > 0)
    }

    fn values(&self) -> Values<'_> {
        if let Some(lists) = self.array.as_fixed_size_list_opt() {
            let words = lists.values().as_primitive_opt::<UInt64Type>();
            return Values::Wide(Cow::Borrowed(words.map_or(&[], |words| words.values().inner().typed_data())));
        }
        let data = self.array.as_any();
        // Arrow's buffers are aligned for the type, and a float or unsigned number has the bits that Parquet wants.
        macro_rules! bits_of {
            ($arrow:ty, $kind:ident, $to_bits:expr) => {
                data.downcast_ref::<PrimitiveArray<$arrow>>().map(|a| match self.nulls() {
                    None => Values::$kind(Cow::Borrowed(a.values().inner().typed_data())),
                    Some(_) => Values::$kind(Cow::Owned(a.iter().flatten().map($to_bits).collect())),
                })
            };
        }
        bits_of!(Int64Type, Wide, |v| v)
            .or_else(|| bits_of!(UInt64Type, Wide, |v| v as i64))
            .or_else(|| bits_of!(UInt32Type, Narrow, |v| v as i32))
            .or_else(|| bits_of!(Int32Type, Narrow, |v| v))
            .or_else(|| bits_of!(Float64Type, Wide, |v| v.to_bits() as i64))
            .unwrap_or(Values::Wide(Cow::Borrowed(&[])))
    }

    /// Appends the levels, each kind with the length that version 1 pages put before it: for lists which number begins a row,
    /// and that none is null; for others one bit per row.
    fn put_levels(&self, desc: &ColumnDescPtr, out: &mut Vec<u8>) {
        if desc.max_rep_level() > 0 {
            levels::begins_of_rows(self.array.len(), self.per_row(), out);
            levels::constant(desc.max_def_level() as u32, self.numbers(), out);
            return;
        }
        if desc.max_def_level() > 0 {
            levels::of_nulls(self.nulls(), self.array.len(), out);
        }
    }
}

/// The compressor, kept from chunk to chunk because making one costs more than compressing a small page.
pub(crate) type Zstd = zstd::bulk::Compressor<'static>;

/// The pages of a chunk as they are written.
pub(super) struct Pages<'a> {
    out: Vec<u8>,
    uncompressed: usize,
    zstd: Option<&'a mut Zstd>,
    body: Vec<u8>,
}

const PLAIN: i32 = 0;
const RLE: i32 = 3;
const DELTA_BINARY_PACKED: i32 = 5;
const RLE_DICTIONARY: i32 = 8;
const BYTE_STREAM_SPLIT: i32 = 9;

impl<'a> Pages<'a> {
    /// Pages that are compressed at `level`, if there is one.
    fn new(level: Option<i32>, zstd: &'a mut Zstd) -> Result<Self> {
        let zstd = match level {
            Some(level) => {
                zstd.set_compression_level(level).map_err(external)?;
                Some(zstd)
            }
            None => None,
        };
        Ok(Self { out: Vec::new(), uncompressed: 0, zstd, body: Vec::new() })
    }

    /// Compresses the body collected and writes it behind its header. `dictionary` tells the two kinds of page apart.
    fn finish_page(&mut self, values: usize, encoding: i32, dictionary: bool) -> io::Result<()> {
        let compressed = match self.zstd.as_mut() {
            Some(zstd) => Some(zstd.compress(&self.body)?),
            None => None,
        };
        let body = compressed.as_deref().unwrap_or(&self.body);
        let start = self.out.len();
        put_page_header(&mut self.out, self.body.len(), body.len(), values, encoding, dictionary);
        self.uncompressed += self.out.len() - start + self.body.len();
        self.out.extend_from_slice(body);
        self.body.clear();
        Ok(())
    }
}

/// Appends a page header in Thrift's compact protocol: field header (step of the id, type), then the value.
fn put_page_header(
    out: &mut Vec<u8>,
    uncompressed: usize,
    compressed: usize,
    values: usize,
    encoding: i32,
    dict: bool,
) {
    const I32: u8 = 5;
    const STRUCT: u8 = 12;
    let field = |header: u8, v: i64, out: &mut Vec<u8>| {
        out.push(header);
        bits::put_zigzag(out, v);
    };
    field(0x10 | I32, if dict { 2 } else { 0 }, out);
    field(0x10 | I32, uncompressed as i64, out);
    field(0x10 | I32, compressed as i64, out);
    // From field 3 on to the data page header (5) or the dictionary page header (7).
    out.push(if dict { 0x40 | STRUCT } else { 0x20 | STRUCT });
    field(0x10 | I32, values as i64, out);
    field(0x10 | I32, i64::from(encoding), out);
    if !dict {
        field(0x10 | I32, i64::from(RLE), out);
        field(0x10 | I32, i64::from(RLE), out);
    }
    out.extend_from_slice(&[0, 0]);
}

/// An encoded chunk.
pub(crate) struct Chunk {
    pub(crate) bytes: Bytes,
    pub(crate) close: ColumnCloseResult,
}

/// Encodes `arrays` as one chunk of column `desc`, or `None` if a dictionary was chosen and the values are too many.
pub(crate) fn encode(
    desc: &ColumnDescPtr,
    arrays: &[ArrayRef],
    choice: Choice,
    stats: Bounds,
    zstd: &mut Zstd,
) -> Result<Option<Chunk>> {
    let pages: Vec<Page> = arrays
        .iter()
        .flat_map(|a| (0..a.len()).step_by(PAGE_ROWS).map(|at| a.slice(at, PAGE_ROWS.min(a.len() - at))))
        .map(|array| Page { array })
        .collect();
    let mut out = Pages::new(choice.zstd, zstd)?;
    let mut dictionary_bytes = None;
    match choice.layout {
        Layout::Dictionary(limit) => match put_dictionary_chunk(desc, &pages, limit, &mut out)? {
            None => return Ok(None),
            found => dictionary_bytes = found,
        },
        layout => put_chunk(desc, &pages, layout, &mut out)?,
    }
    let counts = (pages.iter().map(|p| p.array.len()).sum(), pages.iter().map(Page::numbers).sum());
    let (encodings, statistics) = (encodings(choice.layout), statistics(&pages, stats));
    describe(desc, counts, (encodings, choice.zstd), dictionary_bytes, out, statistics).map(Some)
}

/// Encodes a chunk of `rows` nulls of a column that is no list: one page, which says so once, and statistics that say it without
/// a look at the page.
pub(super) fn encode_nulls(desc: &ColumnDescPtr, rows: usize, zstd: &mut Zstd) -> Result<Chunk> {
    let mut out = Pages::new(None, zstd)?;
    levels::constant(0, rows, &mut out.body);
    out.finish_page(rows, PLAIN, false).map_err(external)?;
    let nulls = Some(rows as u64);
    let statistics = match desc.physical_type() {
        Type::BOOLEAN => Statistics::boolean(None, None, None, nulls, false),
        Type::INT32 => Statistics::int32(None, None, None, nulls, false),
        Type::DOUBLE => Statistics::double(None, None, None, nulls, false),
        Type::BYTE_ARRAY => Statistics::byte_array(None, None, None, nulls, false),
        _ => Statistics::int64(None, None, None, nulls, false),
    };
    describe(desc, (rows, rows), (vec![Encoding::PLAIN, Encoding::RLE], None), None, out, Some(statistics))
}

/// Values that are looked at to tell whether a column's values repeat.
const SAMPLE: usize = 128;

/// Whether the first values differ so often that a dictionary would not fit, or would be of no use.
pub(crate) fn varies(arrays: &[ArrayRef]) -> bool {
    let Some(array) = arrays.first() else { return false };
    let sample = Page { array: array.slice(0, SAMPLE.min(array.len())) };
    let distinct = match sample.values() {
        Values::Narrow(values) => distinct(&values),
        Values::Wide(values) => distinct(&values),
    };
    distinct > SAMPLE / 2
}

fn distinct<T: Copy + Ord>(values: &[T]) -> usize {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len()
}

fn external(e: io::Error) -> ParquetError {
    ParquetError::External(Box::new(e))
}

fn put_chunk(desc: &ColumnDescPtr, pages: &[Page], layout: Layout, out: &mut Pages<'_>) -> Result<()> {
    let encoding = if layout == Layout::Delta { DELTA_BINARY_PACKED } else { BYTE_STREAM_SPLIT };
    for page in pages {
        page.put_levels(desc, &mut out.body);
        match (page.values(), layout) {
            (Values::Narrow(v), Layout::Delta) => bits::delta(&v, &mut out.body),
            (Values::Wide(v), Layout::Delta) => bits::delta(&v, &mut out.body),
            (Values::Narrow(v), _) => bits::byte_stream_split(&v, 4, |x, k| (x >> k) as u8, &mut out.body),
            (Values::Wide(v), _) => bits::byte_stream_split(&v, 8, |x, k| (x >> k) as u8, &mut out.body),
        }
        out.finish_page(page.numbers(), encoding, false).map_err(external)?;
    }
    Ok(())
}

/// Calls `index` with the values as unsigned numbers; for a constant page only its one value.
fn numbers<T: Copy + PartialEq>(
    values: &[T],
    wide: impl Fn(T) -> u64,
    dictionary: &mut IntDictionary,
) -> Option<Indices> {
    match values.first() {
        Some(first) if all_are(*first, values) => dictionary.number(wide(*first)).map(Indices::Run),
        _ => {
            let mut indices = Vec::with_capacity(values.len());
            dictionary.index(values.iter().map(|v| wide(*v)), &mut indices).then_some(Indices::Many(indices))
        }
    }
}

/// Whether every value is `first`. Looks at a stretch at a time without leaving it early, which the compiler turns into
/// vector instructions: most columns of faults are constant, and this is all that they cost.
#[allow(clippy::needless_bitwise_bool)]
fn all_are<T: Copy + PartialEq>(first: T, values: &[T]) -> bool {
    values.chunks(256).all(|stretch| stretch.iter().fold(true, |same, v| same & (*v == first)))
}

/// A page's numbers into the dictionary.
enum Indices {
    /// The same one throughout.
    Run(u32),
    Many(Vec<u32>),
}

/// Returns the size of the dictionary page, or `None` if there are more than `limit` distinct values.
fn put_dictionary_chunk(
    desc: &ColumnDescPtr,
    pages: &[Page],
    limit: usize,
    out: &mut Pages<'_>,
) -> Result<Option<usize>> {
    let mut dictionary = IntDictionary::new(limit);
    let mut indices = Vec::with_capacity(pages.len());
    let mut bytes_per_value = 8;
    for page in pages {
        let found = match page.values() {
            Values::Narrow(v) => {
                bytes_per_value = 4;
                numbers(&v, |x| u64::from(x as u32), &mut dictionary)
            }
            // The one kind of list there is.
            Values::Wide(v) if page.per_row() == 6 => {
                let mut indices = Vec::with_capacity(v.len());
                dictionary.index_rows::<6>(&v, &mut indices).then_some(Indices::Many(indices))
            }
            Values::Wide(v) => numbers(&v, |x| x as u64, &mut dictionary),
        };
        match found {
            Some(found) => indices.push(found),
            None => return Ok(None),
        }
    }
    for v in &dictionary.values {
        out.body.extend_from_slice(&v.to_le_bytes()[..bytes_per_value]);
    }
    out.finish_page(dictionary.values.len(), PLAIN, true).map_err(external)?;
    let dictionary_bytes = out.out.len();
    let width = bits::index_width(dictionary.values.len());
    for (page, indices) in pages.iter().zip(indices) {
        page.put_levels(desc, &mut out.body);
        out.body.push(width as u8);
        let present = page.numbers() - page.array.null_count();
        match indices {
            Indices::Run(number) => bits::hybrid_run(number, present, width, &mut out.body),
            Indices::Many(indices) => bits::hybrid(&indices, width, &mut out.body),
        }
        out.finish_page(page.numbers(), RLE_DICTIONARY, false).map_err(external)?;
    }
    Ok(Some(dictionary_bytes))
}

/// A page of a column of text: numbers into the dictionary, of the rows that are not null.
pub(super) struct Words {
    pub(super) rows: usize,
    pub(super) nulls: Option<NullBuffer>,
    pub(super) indices: Vec<u32>,
}

/// Encodes a chunk of text, whose distinct values are `plain` as the dictionary page has them.
pub(super) fn encode_words(
    desc: &ColumnDescPtr,
    pages: &[Words],
    plain: &[u8],
    distinct: usize,
    level: Option<i32>,
    zstd: &mut Zstd,
) -> Result<Chunk> {
    let mut out = Pages::new(level, zstd)?;
    out.body.extend_from_slice(plain);
    out.finish_page(distinct, PLAIN, true).map_err(external)?;
    let dictionary_bytes = out.out.len();
    let width = bits::index_width(distinct);
    for page in pages {
        if desc.max_def_level() > 0 {
            levels::of_nulls(page.nulls.as_ref(), page.rows, &mut out.body);
        }
        out.body.push(width as u8);
        bits::hybrid(&page.indices, width, &mut out.body);
        out.finish_page(page.rows, RLE_DICTIONARY, false).map_err(external)?;
    }
    let rows = pages.iter().map(|page| page.rows).sum();
    let encodings = encodings(Layout::Dictionary(distinct));
    describe(desc, (rows, rows), (encodings, level), Some(dictionary_bytes), out, None)
}

fn encodings(layout: Layout) -> Vec<Encoding> {
    match layout {
        Layout::Dictionary(_) => vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY],
        Layout::Delta => vec![Encoding::RLE, Encoding::DELTA_BINARY_PACKED],
        Layout::Split => vec![Encoding::RLE, Encoding::BYTE_STREAM_SPLIT],
    }
}

/// `counts`: rows, and the numbers in them. The third are the encodings used, and the level of zstd
/// if the pages are compressed.
fn describe(
    desc: &ColumnDescPtr,
    (rows, numbers): (usize, usize),
    (encodings, zstd): (Vec<Encoding>, Option<i32>),
    dictionary_bytes: Option<usize>,
    out: Pages<'_>,
    statistics: Option<Statistics>,
) -> Result<Chunk> {
    let compression = match zstd {
        Some(level) => Compression::ZSTD(ZstdLevel::try_new(level)?),
        None => Compression::UNCOMPRESSED,
    };
    let mut metadata = ColumnChunkMetaData::builder(desc.clone())
        .set_encodings(encodings)
        .set_compression(compression)
        .set_num_values(numbers as i64)
        .set_total_compressed_size(out.out.len() as i64)
        .set_total_uncompressed_size(out.uncompressed as i64)
        .set_dictionary_page_offset(dictionary_bytes.map(|_| 0))
        .set_data_page_offset(dictionary_bytes.unwrap_or_default() as i64);
    if let Some(statistics) = statistics {
        metadata = metadata.set_statistics(statistics);
    }
    let bytes = Bytes::from(out.out);
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: rows as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok(Chunk { bytes, close })
}

/// Which statistics a chunk gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// None: they cost a pass over the values.
    None,
    /// The first and last value, which are the smallest and largest of a sorted column.
    Ends,
    /// The smallest and largest value.
    Searched,
}

/// Smallest and largest value and the number of nulls, so that readers can leave row groups out.
fn statistics(pages: &[Page], bounds: Bounds) -> Option<Statistics> {
    use arrow::compute::{max, min};
    macro_rules! statistics {
        ($arrow:ty, $make:ident, $to:ty) => {{
            let arrays = || pages.iter().map(|p| p.array.as_primitive::<$arrow>());
            let (low, high) = match bounds {
                Bounds::None => return None,
                Bounds::Ends => (
                    arrays().find_map(|a| a.values().first().copied()),
                    arrays().rev().find_map(|a| a.values().last().copied()),
                ),
                Bounds::Searched => (arrays().filter_map(min).min(), arrays().filter_map(max).max()),
            };
            let nulls = arrays().map(|a| a.null_count() as u64).sum();
            Some(Statistics::$make(low.map(|v| v as $to), high.map(|v| v as $to), None, Some(nulls), false))
        }};
    }
    match pages.first()?.array.data_type() {
        DataType::Int32 => statistics!(Int32Type, int32, i32),
        DataType::UInt32 => statistics!(UInt32Type, int32, i32),
        DataType::Int64 => statistics!(Int64Type, int64, i64),
        DataType::UInt64 => statistics!(UInt64Type, int64, i64),
        _ => None,
    }
}
