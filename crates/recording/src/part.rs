//! Reading one part: verify, decode, normalise to the registry, and name file and offset of whatever is wrong.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::{Buf, Bytes};
use pagelab_output::open_plain;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;

use crate::encode::footer::{self, PARQUET_MAGIC, TAIL_LEN, Trailer};
use crate::error::{Error, Result};
use crate::isolate;
use crate::pages::{self, Sizes};
use crate::span::Span;
use crate::tables::{ColType, ColumnDef, text_of};

/// Rows per batch that readers are given.
pub(crate) const BATCH_ROWS: usize = 1 << 16;

/// Memory is taken by what a file says of itself, and a sparse file of no blocks can say anything. Our footers have some
/// kilobytes and our parts 128 MiB in all; other programs write row groups of a million rows.
const LARGEST_FOOTER: u64 = 64 << 20;
const LARGEST_CHUNK: u64 = 512 << 20;
/// What the columns of a row group take when they are unpacked: ours have some 12 MiB.
const LARGEST_GROUP: u64 = 256 << 20;
/// A part takes at most so many times its own size when it is unpacked, beyond [`ALWAYS_UNPACKED`]: equal values pack well, but
/// times differ.
const LARGEST_RATIO: u64 = 1000;
const ALWAYS_UNPACKED: u64 = 64 << 20;
/// Values of a column in a row group: lists have several for each row.
const LARGEST_VALUES: u64 = 1 << 25;
/// Rows that a part has for each of its bytes, beyond [`ALWAYS_ROWS`].
const ROWS_PER_BYTE: u64 = 4096;
const ALWAYS_ROWS: u64 = 1 << 20;

/// Where a part is damaged, and how.
#[derive(Debug, Clone)]
pub(crate) struct Damage {
    offset: u64,
    reason: String,
}

impl Damage {
    fn at(offset: u64) -> impl Fn(String) -> Self {
        move |reason| Self { offset, reason }
    }

    pub(crate) fn of(self, path: &Path) -> Error {
        Error::BadPart { path: path.to_owned(), offset: self.offset, reason: self.reason }
    }
}

/// Runs library code on bytes that may be damaged. The library means to return errors, but in files that carry no
/// checksums of ours it still finds cases that panic.
fn guarded<T, E: ToString>(f: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match isolate::caught(f) {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(words) => Err(format!("the Parquet reader gave up: {words}")),
    }
}

/// A part whose footer has been read and verified.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    path: PathBuf,
    file: Arc<File>,
    len: u64,
    metadata: Arc<ParquetMetaData>,
    checksums: Option<Vec<u32>>,
}

impl Part {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let (file, len) = open_file(path)?;
        let (metadata, checksums) = read_footer(&file, len).map_err(|damage| damage.of(path))?;
        Ok(Self { path: path.to_owned(), file: Arc::new(file), len, metadata: Arc::new(metadata), checksums })
    }

    /// Opens a part whose footer was read before, and of which nothing else is kept.
    pub(crate) fn again(
        path: &Path,
        len: u64,
        metadata: Arc<ParquetMetaData>,
        checksums: Option<Vec<u32>>,
    ) -> Result<Self> {
        let (file, found) = open_file(path)?;
        if found != len {
            let reason = format!("the file has {found} bytes, and had {len} when its footer was read");
            return Err(Damage::at(found.min(len))(reason).of(path));
        }
        Ok(Self { path: path.to_owned(), file: Arc::new(file), len, metadata, checksums })
    }

    /// What [`Part::again`] needs: the size of the file, the footer and the checksums.
    pub(crate) fn into_footer(self) -> (u64, Arc<ParquetMetaData>, Option<Vec<u32>>) {
        (self.len, self.metadata, self.checksums)
    }

    /// The types in which the columns are decoded that are among `columns`.
    pub(crate) fn schema(&self, columns: &[&'static ColumnDef]) -> Result<SchemaRef> {
        let metadata = guarded(|| self.hinted(columns));
        let metadata = metadata.map_err(|reason| Damage::at(self.footer_offset())(reason).of(&self.path))?;
        Ok(metadata.schema().clone())
    }

    /// Size of the file.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Rows, as the footer says.
    pub(crate) fn rows(&self) -> u64 {
        self.metadata.row_groups().iter().map(|g| u64::try_from(g.num_rows()).unwrap_or_default()).sum()
    }

    /// Whether every byte is covered by a checksum, as it is in parts that pagelab wrote.
    pub(crate) fn is_verified(&self) -> bool {
        self.checksums.is_some()
    }

    /// Whether it was written by a pagelab that lists the parts when it closes a recording.
    pub(crate) fn is_of_lister(&self) -> bool {
        self.metadata.file_metadata().created_by().is_some_and(|by| by.ends_with(footer::LISTED))
    }

    /// Compares the checksum of every column chunk, without decoding anything.
    pub(crate) fn verify(&self) -> Result<()> {
        let chunks = Chunks::new(self).map_err(|damage| damage.of(&self.path))?;
        chunks.places.iter().try_for_each(|p| chunks.load(p).map(drop)).map_err(|damage| damage.of(&self.path))
    }

    /// Names of the columns that the part has.
    pub(crate) fn columns(&self) -> Vec<&str> {
        let fields = self.metadata.file_metadata().schema().get_fields();
        fields.iter().map(|f| f.name()).collect()
    }

    /// Names of the columns that may have values: of the others every chunk says that all of it is null.
    pub(crate) fn filled_columns(&self) -> Vec<&str> {
        let nulls = |chunk: &ColumnChunkMetaData| chunk.statistics().and_then(Statistics::null_count_opt);
        let is_null = |chunk: &ColumnChunkMetaData| nulls(chunk) == u64::try_from(chunk.num_values()).ok();
        let is_filled = |name: &&str| {
            let chunks = self.metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
            let mut own = chunks.filter(|chunk| chunk.column_path().parts().first().is_some_and(|part| part == name));
            own.any(|chunk| !is_null(chunk))
        };
        self.columns().into_iter().filter(is_filled).collect()
    }

    /// Smallest and largest `ts` of each row group, if it says so.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Option<(i64, i64)>> {
        let schema = self.metadata.file_metadata().schema_descr();
        let column = schema.columns().iter().position(|c| c.name() == "ts");
        self.metadata.row_groups().iter().map(move |g| match g.columns().get(column?)?.statistics()? {
            Statistics::Int64(s) => Some((*s.min_opt()?, *s.max_opt()?)),
            _ => None,
        })
    }

    /// Rows of one row group, as the footer says.
    pub(crate) fn group_rows(&self, group: usize) -> usize {
        let rows = self.metadata.row_groups().get(group).map(RowGroupMetaData::num_rows);
        rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or_default()
    }

    /// Reads the part in batches of the columns wanted, in their order.
    pub(crate) fn read(&self, columns: &[&'static ColumnDef], schema: &SchemaRef) -> Result<PartReader> {
        self.read_groups(None, columns, schema, BATCH_ROWS)
    }

    /// The same, without the row groups that say that all their rows happened outside of a span.
    pub(crate) fn read_within(
        &self,
        span: Span,
        columns: &[&'static ColumnDef],
        schema: &SchemaRef,
    ) -> Result<PartReader> {
        let overlaps = |times: Option<(i64, i64)>| times.is_none_or(|(first, last)| span.overlaps(first, last));
        let groups = self.groups().enumerate().filter(|(_, times)| overlaps(*times)).map(|(group, _)| group);
        self.read_groups(Some(groups.collect()), columns, schema, BATCH_ROWS)
    }

    /// The same of one row group alone, `batch_rows` rows at a time.
    pub(crate) fn read_group(
        &self,
        group: usize,
        columns: &[&'static ColumnDef],
        schema: &SchemaRef,
        batch_rows: usize,
    ) -> Result<PartReader> {
        self.read_groups(Some(vec![group]), columns, schema, batch_rows)
    }

    fn read_groups(
        &self,
        groups: Option<Vec<usize>>,
        columns: &[&'static ColumnDef],
        schema: &SchemaRef,
        batch_rows: usize,
    ) -> Result<PartReader> {
        let chunks = Arc::new(Chunks::new(self).map_err(|damage| damage.of(&self.path))?);
        let built = |builder: ParquetRecordBatchReaderBuilder<ChunkDoor>| {
            let builder = builder.with_batch_size(batch_rows);
            match groups {
                Some(groups) => builder.with_row_groups(groups).build(),
                None => builder.build(),
            }
        };
        let inner = guarded(|| built(self.reader(columns, &chunks)?))
            .map_err(|reason| chunks.damage(self.footer_offset(), reason).of(&self.path))?;
        Ok(PartReader {
            path: self.path.clone(),
            columns: columns.to_vec(),
            schema: schema.clone(),
            chunks,
            footer: self.footer_offset(),
            inner,
        })
    }

    fn footer_offset(&self) -> u64 {
        self.len.saturating_sub(TAIL_LEN as u64)
    }

    /// The library's view of the part, asked to yield the types of `columns` where it can.
    fn hinted(&self, columns: &[&'static ColumnDef]) -> Result<ArrowReaderMetadata, ParquetError> {
        let options = || ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let plain = ArrowReaderMetadata::try_new(self.metadata.clone(), options())?;
        let hinted: Vec<Arc<Field>> = plain
            .schema()
            .fields()
            .iter()
            .map(|f| match wanted_as(f.name(), columns, plain.schema()) {
                Some(ty) if can_hint(f.data_type(), &ty) => Arc::new(f.as_ref().clone().with_data_type(ty)),
                _ => f.clone(),
            })
            .collect();
        let hint = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(hinted)));
        // A file of another program may have shapes that cannot be read as ours; they are cast afterwards.
        Ok(ArrowReaderMetadata::try_new(self.metadata.clone(), hint).unwrap_or(plain))
    }

    fn reader(
        &self,
        columns: &[&'static ColumnDef],
        chunks: &Arc<Chunks>,
    ) -> Result<ParquetRecordBatchReaderBuilder<ChunkDoor>, ParquetError> {
        let metadata = self.hinted(columns)?;
        let fields = metadata.schema().fields().iter().enumerate();
        let is_wanted = |f: &Field| wanted_as(f.name(), columns, metadata.schema()).is_some();
        let wanted: Vec<usize> = fields.filter(|(_, f)| is_wanted(f)).map(|(i, _)| i).collect();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), wanted);
        let door = ChunkDoor(chunks.clone());
        Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(door, metadata).with_projection(mask))
    }
}

/// The error of a part whose values are refused.
pub(crate) fn refused(path: &Path, wrong: String) -> Error {
    Damage::at(0)(wrong).of(path)
}

/// Opens the file of a part, and says how long it is.
fn open_file(path: &Path) -> Result<(File, u64)> {
    let file = match open_plain(path) {
        Ok(file) => file,
        Err(e @ pagelab_output::Error::WrongType { .. }) => return Err(Damage::at(0)(e.to_string()).of(path)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(Damage::at(0)("the file is not there".to_owned()).of(path));
        }
        Err(e) => return Err(e.into()),
    };
    let len = file.metadata().map_err(Error::io("read", path))?.len();
    Ok((file, len))
}

/// The size of a part, and the checksum at its end if it has one of ours, without reading anything else.
pub(crate) fn end_checksum(path: &Path) -> Result<(u64, Option<u32>)> {
    let (file, len) = open_file(path)?;
    let mut end = [0; footer::END_LEN];
    let Some(at) = len.checked_sub(footer::END_LEN as u64) else { return Ok((len, None)) };
    file.read_exact_at(&mut end, at).map_err(Error::io("read", path))?;
    Ok((len, footer::checksum_of_end(&end)))
}

/// The type that a field of a part is wanted in, if it is: as one of `columns`, or as the bytes that one of them is the text of
/// which the part, whose fields are `part`, lacks.
fn wanted_as(field: &str, columns: &[&'static ColumnDef], part: &Schema) -> Option<DataType> {
    if let Some(column) = columns.iter().find(|c| c.name == field) {
        return Some(column.ty.arrow());
    }
    let mut texts = columns.iter().filter(|c| c.text_of == Some(field));
    texts.any(|text| part.field_with_name(text.name).is_err()).then(|| ColType::Bytes.arrow())
}

/// Whether the Parquet reader can be made to yield `wanted` where it would yield `found`.
fn can_hint(found: &DataType, wanted: &DataType) -> bool {
    match (found, wanted) {
        (DataType::Utf8 | DataType::Binary, DataType::Dictionary(_, value)) => **value == *found,
        (DataType::List(_), DataType::List(_) | DataType::FixedSizeList(..)) => true,
        _ => false,
    }
}

fn read_footer(file: &File, len: u64) -> Result<(ParquetMetaData, Option<Vec<u32>>), Damage> {
    let start = Damage::at(0);
    let io = |at: u64| move |e: std::io::Error| Damage { offset: at, reason: e.to_string() };
    let smallest = (PARQUET_MAGIC.len() + TAIL_LEN) as u64;
    if len < smallest {
        return Err(start(format!("the file has {len} bytes, at least {smallest} are needed: it was cut off")));
    }
    let mut head = [0; PARQUET_MAGIC.len()];
    file.read_exact_at(&mut head, 0).map_err(io(0))?;
    if head != *PARQUET_MAGIC {
        return Err(start("the file does not begin with PAR1".to_owned()));
    }
    let tail_at = len - TAIL_LEN as u64;
    let mut tail = [0; TAIL_LEN];
    file.read_exact_at(&mut tail, tail_at).map_err(io(tail_at))?;
    let [a, b, c, d, magic @ ..] = tail;
    if magic != *PARQUET_MAGIC {
        return Err(Damage::at(tail_at)("the file does not end with PAR1: it was cut off or overwritten".to_owned()));
    }
    let footer_len = u64::from(u32::from_le_bytes([a, b, c, d]));
    let Some(footer_at) = tail_at.checked_sub(footer_len).filter(|at| *at >= PARQUET_MAGIC.len() as u64) else {
        let reason = format!("the footer is said to have {footer_len} bytes, the file has {len}");
        return Err(Damage::at(tail_at)(reason));
    };
    if footer_len > LARGEST_FOOTER {
        let reason = format!("the footer is said to have {footer_len} bytes; at most {LARGEST_FOOTER} are needed");
        return Err(Damage::at(tail_at)(reason));
    }
    let mut bytes = vec![0; footer_len as usize];
    file.read_exact_at(&mut bytes, footer_at).map_err(io(footer_at))?;
    let at_footer = Damage::at(footer_at);
    let trailer = footer::unseal(&bytes).map_err(&at_footer)?;
    let metadata = guarded(|| ParquetMetaDataReader::decode_metadata(&bytes)).map_err(&at_footer)?;
    bound(&metadata, len).map_err(&at_footer)?;
    let chunks: usize = metadata.row_groups().iter().map(RowGroupMetaData::num_columns).sum();
    let ours = metadata.file_metadata().created_by().is_some_and(|by| by.starts_with(footer::CREATED_BY));
    match trailer {
        Trailer::Checksums(list) if list.len() != chunks => {
            Err(at_footer(format!("the footer has checksums of {} column chunks, {chunks} are needed", list.len())))
        }
        Trailer::Checksums(list) => Ok((metadata, Some(list))),
        Trailer::Absent if ours => Err(at_footer("the checksums behind the footer are missing".to_owned())),
        Trailer::Absent => Ok((metadata, None)),
    }
}

/// Refuses a part that would take more memory or time than parts of its size do.
fn bound(metadata: &ParquetMetaData, len: u64) -> Result<(), String> {
    let (mut all, mut all_rows) = (0_u64, 0_u64);
    for group in metadata.row_groups() {
        let rows =
            u64::try_from(group.num_rows()).map_err(|_| "a row group has a negative number of rows".to_owned())?;
        all_rows = all_rows.saturating_add(rows);
        let mut unpacked = 0_u64;
        for chunk in group.columns() {
            let [bytes, values] = [chunk.uncompressed_size(), chunk.num_values()].map(u64::try_from);
            let (Ok(bytes), Ok(values)) = (bytes, values) else {
                return Err("a column chunk has a negative size".to_owned());
            };
            if values > LARGEST_VALUES {
                return Err(format!(
                    "a column chunk is said to have {values} values; at most {LARGEST_VALUES} are needed"
                ));
            }
            unpacked = unpacked.saturating_add(bytes);
        }
        if unpacked > LARGEST_GROUP {
            return Err(format!(
                "a row group takes {unpacked} bytes when it is unpacked; at most {LARGEST_GROUP} are needed"
            ));
        }
        all = all.saturating_add(unpacked);
    }
    let most = len.saturating_mul(LARGEST_RATIO).saturating_add(ALWAYS_UNPACKED);
    if all > most {
        return Err(format!("its {len} bytes take {all} when they are unpacked; at most {most} are needed"));
    }
    let most = len.saturating_mul(ROWS_PER_BYTE).saturating_add(ALWAYS_ROWS);
    if all_rows > most {
        return Err(format!("it is said to have {all_rows} rows in {len} bytes; at most {most} are needed"));
    }
    Ok(())
}

/// A column chunk in the file.
#[derive(Debug, Clone, Copy)]
struct ChunkPlace {
    start: u64,
    len: u64,
    /// What it comes to when it is unpacked, as the footer says. None of a piece of the file that is no chunk.
    unpacked: Option<Sizes>,
    column: usize,
    checksum: Option<u32>,
}

impl ChunkPlace {
    /// Whether unpacking takes no more than the footer says.
    fn fits(&self, bytes: &[u8]) -> Result<(), String> {
        let Some(said) = self.unpacked else { return Ok(()) };
        let Some(found) = pages::sizes(bytes) else { return Err("the heads of its pages cannot be read".to_owned()) };
        if found.bytes > said.bytes || found.values > said.values {
            return Err(format!(
                "its pages have {} bytes and {} values, and the footer says {} and {}",
                found.bytes, found.values, said.bytes, said.values
            ));
        }
        Ok(())
    }
}

/// Gives column chunks to the Parquet library, each verified as a whole before its first byte is decoded.
#[derive(Debug)]
pub(crate) struct Chunks {
    file: Arc<File>,
    len: u64,
    places: Vec<ChunkPlace>,
    /// Per column the chunk in use. Row groups are read in order, so a newer one replaces it.
    held: Mutex<Vec<Option<(u64, Bytes)>>>,
    damage: Mutex<Option<Damage>>,
}

impl Chunks {
    /// The chunks of a part.
    pub(crate) fn of(part: &Part) -> Result<Self> {
        Self::new(part).map_err(|damage| damage.of(&part.path))
    }

    /// The bytes from `start` up to, and without, `end`. A range that is a whole chunk is verified and not held.
    pub(crate) fn range(&self, start: u64, end: u64) -> Result<Bytes, Damage> {
        let len = end.saturating_sub(start);
        let place = self.place(start).filter(|place| end <= place.start + place.len);
        match place {
            Some(place) if place.start == start && place.len == len => self.load(place),
            Some(place) if place.checksum.is_some() => Ok(self.chunk_from(start)?.slice(..len as usize)),
            // Behind the chunks of other programs there are bloom filters and indexes of pages.
            _ if end <= self.len => {
                let bytes = self.load(&ChunkPlace { start, len, unpacked: None, column: 0, checksum: None })?;
                let touched = self.places.iter().filter(|p| p.start < end && start < p.start + p.len);
                for place in touched.filter(|place| place.checksum.is_some()) {
                    self.load(place)?;
                }
                Ok(bytes)
            }
            _ => Err(Damage::at(start)(format!("{len} bytes are needed from here, the file has {}", self.len))),
        }
    }

    /// The chunk that holds offset `at`.
    fn place(&self, at: u64) -> Option<&ChunkPlace> {
        let place = self.places.partition_point(|p| p.start <= at).checked_sub(1).and_then(|i| self.places.get(i));
        place.filter(|p| at <= p.start + p.len)
    }

    fn new(part: &Part) -> Result<Self, Damage> {
        let mut places = Vec::new();
        let mut columns = 0;
        let mut checksums = part.checksums.iter().flatten().copied();
        for group in part.metadata.row_groups() {
            columns = columns.max(group.num_columns());
            for (column, chunk) in group.columns().iter().enumerate() {
                let (start, len) = guarded(|| Ok::<_, String>(chunk.byte_range())).map_err(Damage::at(0))?;
                if start.checked_add(len).is_none_or(|end| end > part.len) {
                    let reason =
                        format!("a column chunk of {len} bytes is said to begin here, the file has {}", part.len);
                    return Err(Damage::at(start)(reason));
                }
                if len > LARGEST_CHUNK {
                    let reason =
                        format!("a column chunk is said to have {len} bytes; at most {LARGEST_CHUNK} are needed");
                    return Err(Damage::at(start)(reason));
                }
                let [bytes, values] = [chunk.uncompressed_size(), chunk.num_values()].map(i64::unsigned_abs);
                let unpacked = Some(Sizes { bytes, values });
                places.push(ChunkPlace { start, len, unpacked, column, checksum: checksums.next() });
            }
        }
        places.sort_by_key(|p| p.start);
        let held = Mutex::new(vec![None; columns]);
        Ok(Self { file: part.file.clone(), len: part.len, places, held, damage: Mutex::new(None) })
    }

    /// The bytes of the chunk that holds offset `at`, from `at` on.
    fn chunk_from(&self, at: u64) -> Result<Bytes, Damage> {
        let Some(place) = self.place(at) else {
            return Err(Damage::at(at)("no column chunk holds this offset".to_owned()));
        };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = held.get_mut(place.column);
        let bytes = match slot {
            Some(Some((start, bytes))) if *start == place.start => bytes.clone(),
            slot => {
                let bytes = self.load(place)?;
                if let Some(slot) = slot {
                    *slot = Some((place.start, bytes.clone()));
                }
                bytes
            }
        };
        Ok(bytes.slice((at - place.start) as usize..))
    }

    fn load(&self, place: &ChunkPlace) -> Result<Bytes, Damage> {
        let mut bytes = vec![0; place.len as usize];
        let damage = Damage::at(place.start);
        self.file.read_exact_at(&mut bytes, place.start).map_err(|e| damage(e.to_string()))?;
        match place.checksum {
            Some(wanted) if crc32fast::hash(&bytes) != wanted => {
                let found = crc32fast::hash(&bytes);
                let len = place.len;
                Err(damage(format!("the checksum of the {len} bytes from here is {found:08x}, {wanted:08x} is needed")))
            }
            _ => {
                place.fits(&bytes).map_err(damage)?;
                Ok(Bytes::from(bytes))
            }
        }
    }

    /// What is wrong: the damage found by a checksum if there is one, else what the library says.
    fn damage(&self, offset: u64, reason: String) -> Damage {
        let found = self.damage.lock().unwrap_or_else(PoisonError::into_inner).take();
        found.unwrap_or(Damage { offset, reason })
    }

    /// Keeps the damage for the caller, because the library turns errors into text on the way.
    fn keep(&self, damage: Damage) -> ParquetError {
        let error = ParquetError::General(damage.reason.clone());
        *self.damage.lock().unwrap_or_else(PoisonError::into_inner) = Some(damage);
        error
    }
}

/// [`Chunks`] as the Parquet library wants them.
struct ChunkDoor(Arc<Chunks>);

impl Length for ChunkDoor {
    fn len(&self) -> u64 {
        self.0.len
    }
}

impl ChunkReader for ChunkDoor {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        self.0.chunk_from(start).map(Buf::reader).map_err(|damage| self.0.keep(damage))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let mut bytes = self.0.chunk_from(start).map_err(|damage| self.0.keep(damage))?;
        if bytes.len() < length {
            let reason = format!("{length} bytes are needed from here, the column chunk has {}", bytes.len());
            return Err(self.0.keep(Damage::at(start)(reason)));
        }
        bytes.truncate(length);
        Ok(bytes)
    }
}

/// The batches of one part.
pub(crate) struct PartReader {
    path: PathBuf,
    columns: Vec<&'static ColumnDef>,
    schema: SchemaRef,
    chunks: Arc<Chunks>,
    footer: u64,
    inner: ParquetRecordBatchReader,
}

impl PartReader {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn normalise(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let arrays: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|c| {
                let ty = c.ty.arrow();
                let bytes = c.text_of.and_then(|bytes| batch.column_by_name(bytes));
                match (batch.column_by_name(c.name), bytes) {
                    (Some(a), _) if *a.data_type() == ty => Ok(a.clone()),
                    (Some(a), _) => Ok(cast(a, &ty)?),
                    (None, Some(bytes)) => text_of(bytes),
                    (None, None) => Ok(new_null_array(&ty, batch.num_rows())),
                }
            })
            .collect::<Result<_>>()?;
        // The number of rows is said explicitly: a caller that only counts asks for no columns.
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?)
    }
}

impl Iterator for PartReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match guarded(|| self.inner.next().transpose()) {
            Ok(batch) => batch.map(|b| self.normalise(&b)),
            Err(reason) => Some(Err(self.chunks.damage(self.footer, reason).of(&self.path))),
        }
    }
}
