//! The registry: every table and column of format 1, declared once.
//!
//! One macro call per table (in [`registry`]) yields four things that cannot drift apart:
//!
//! * a [`TableDef`] for documentation, SQL comments and schema normalisation;
//! * a typed row such as [`FaultsRow`];
//! * a column buffer such as [`FaultsColumns`], which the writer fills and which hot producers extend directly;
//! * a view such as [`FaultsView`], which reads typed rows back out of a record batch.
//!
//! # How to add a column
//! 1. Add one line to the table in `registry.rs`; a new column of an existing table is always `opt`, because older
//!    recordings do not have it and missing is null.
//! 2. If it is of bytes, name it in `text_of(...)` in the table's head, too: other programs show bytes as `b'...'`.
//! 3. Run the tests: `docs/recording.md` is checked against the registry and the failure says how to regenerate it.
//!
//! # How to change a rollup
//! A rollup says `rollup(VERSION; SOURCE, ...)` in its head. Raise the version whenever the same sources would give other
//! rows: rows of another version are not read.

mod columns;
mod order;
#[macro_use]
mod value;
mod registry;
mod text;
mod view;

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

pub use columns::{BytesColumn, DictColumn, ListColumn, OptColumn, StrColumn};
pub use registry::*;
pub use text::text_of;
pub use view::{BoolView, BytesView, DictView, ListView, PrimitiveView, StrView, WordsView};

use crate::error::{Error, Result};

/// The type of a column, as it is in memory and in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColType {
    /// Signed 64-bit: times, durations and results of calls.
    I64,
    /// Unsigned 64-bit: addresses, offsets, inodes, sizes, content hashes.
    U64,
    /// Signed 32-bit: descriptors, pids, statuses.
    I32,
    /// Unsigned 32-bit: identifiers within one recording, flags.
    U32,
    /// 64-bit float.
    F64,
    /// True or false.
    Bool,
    /// UTF-8 text, dictionary-encoded.
    Str,
    /// Bytes that need not be UTF-8 (paths), dictionary-encoded.
    Bytes,
    /// Exactly six unsigned 64-bit words: the arguments of a system call.
    Words6,
    /// A list of unsigned 64-bit words.
    U64List,
}

impl ColType {
    /// The Arrow type that readers are given.
    pub fn arrow(self) -> DataType {
        let words = || Arc::new(Field::new("item", DataType::UInt64, true));
        match self {
            Self::I64 => DataType::Int64,
            Self::U64 => DataType::UInt64,
            Self::I32 => DataType::Int32,
            Self::U32 => DataType::UInt32,
            Self::F64 => DataType::Float64,
            Self::Bool => DataType::Boolean,
            Self::Str => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            Self::Bytes => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Binary)),
            Self::Words6 => DataType::FixedSizeList(words(), 6),
            Self::U64List => DataType::List(words()),
        }
    }

    /// Bytes that a value takes uncompressed; for text and lists a generous mean.
    pub(crate) fn typical_bytes(self) -> u64 {
        match self {
            Self::I64 | Self::U64 | Self::F64 => 8,
            Self::I32 | Self::U32 => 4,
            Self::Bool => 1,
            Self::Str | Self::Bytes | Self::U64List => 64,
            Self::Words6 => 48,
        }
    }

    /// The word for this type in documentation.
    pub fn word(self) -> &'static str {
        match self {
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::F64 => "f64",
            Self::Bool => "bool",
            Self::Str => "string",
            Self::Bytes => "bytes",
            Self::Words6 => "six u64",
            Self::U64List => "list of u64",
        }
    }
}

/// One column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnDef {
    /// Name in files and in SQL.
    pub name: &'static str,
    /// Type in files and in memory.
    pub ty: ColType,
    /// Unit of the values (`ns`, `bytes`, `pct`, ...); empty where a unit makes no sense.
    pub unit: &'static str,
    /// Whether a writer may leave a value out. A reader meets null in every column of an older recording.
    pub nullable: bool,
    /// What the value is.
    pub help: &'static str,
    /// The column of bytes that this one is the text of. It is made of that column when a part is written, and when a part is
    /// read that lacks it; rows do not have it.
    pub text_of: Option<&'static str>,
}

/// One table of format 1.
#[derive(Debug, Clone, Copy)]
pub struct TableDef {
    /// Name of the folder and of the SQL table.
    pub name: &'static str,
    /// What one row is.
    pub help: &'static str,
    /// Columns in their canonical order.
    pub columns: &'static [ColumnDef],
    /// What it is made from, if its rows are sums over other tables.
    pub rollup: Option<RollupDef>,
}

/// What the rows of a rollup are made from; see [`crate::rollup`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollupDef {
    /// Changes whenever the same sources would give other rows.
    pub version: u32,
    /// The tables that it is made from; the first is the one whose rows are added up.
    pub sources: &'static [&'static str],
}

impl TableDef {
    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&'static ColumnDef> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Whether rows have a time, and parts are therefore sorted by it. Only `stacks`, `frames` and rollups have none.
    pub fn has_ts(&self) -> bool {
        self.column("ts").is_some()
    }

    /// The schema that readers are given: every column, all nullable, because an older recording may lack any.
    pub fn schema(&self) -> SchemaRef {
        let fields: Vec<Field> = self.columns.iter().map(|c| Field::new(c.name, c.ty.arrow(), true)).collect();
        Arc::new(Schema::new(fields))
    }

    /// The columns that rows have: all but the text made of other columns.
    pub fn row_columns(&self) -> impl Iterator<Item = &'static ColumnDef> + use<> {
        self.columns.iter().filter(|column| column.text_of.is_none())
    }

    /// The schema of every part that is written, whatever its rows have: other programs take that of one part for all.
    pub fn part_schema(&self) -> SchemaRef {
        let fields: Vec<Field> = self.columns.iter().map(|c| Field::new(c.name, c.ty.arrow(), c.nullable)).collect();
        Arc::new(Schema::new(fields))
    }

    /// A batch of the given columns, with the nullability that the registry says.
    pub(crate) fn batch_of(&self, columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns
            .into_iter()
            .map(|(name, array)| {
                let nullable = self.column(name).is_none_or(|c| c.nullable);
                (Field::new(name, array.data_type().clone(), nullable), array)
            })
            .unzip();
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }
}

/// All tables, in the order of the documentation.
pub fn all() -> &'static [&'static TableDef] {
    registry::TABLES
}

/// The table called `name`.
pub fn table(name: &str) -> Option<&'static TableDef> {
    all().iter().copied().find(|t| t.name == name)
}

/// Like [`table`], but an unknown name is an error that lists the known ones.
pub(crate) fn table_or_err(name: &str) -> Result<&'static TableDef> {
    table(name).ok_or_else(|| Error::UnknownTable { name: name.to_owned(), known: KNOWN.as_str() })
}

static KNOWN: LazyLock<String> = LazyLock::new(|| all().iter().map(|t| t.name).collect::<Vec<_>>().join(" "));

/// A typed row of one table; implemented by the row structs of the registry.
pub trait Row {
    /// The buffer that collects such rows column by column.
    type Columns: TableColumns;
    /// The view that yields such rows from a record batch.
    type View: TableView;
    /// The row's table.
    const TABLE: &'static TableDef;

    /// Appends this row to `columns`.
    fn push_to(&self, columns: &mut Self::Columns);
}

/// The column buffer of one table.
pub trait TableColumns: Default + Send + 'static {
    /// The table these columns belong to.
    const TABLE: &'static TableDef;

    /// Rows collected so far (the length of the first column).
    fn len(&self) -> usize;

    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory the collected rows take, roughly.
    fn memory_bytes(&self) -> usize;

    /// Takes all rows out as one record batch, sorted by `ts` (rows of equal time in the order they came), without the
    /// columns that are null throughout.
    ///
    /// Nullable columns that are shorter than the first column are filled up with nulls, so a hot producer need not
    /// touch columns it never fills; a required column of another length is [`Error::RaggedColumns`].
    fn take_batch(&mut self) -> Result<RecordBatch>;

    /// Gets the batch back when it is written, to use its memory again.
    fn give_back(&mut self, batch: RecordBatch);

    /// The columns' place in [`Tables`].
    fn of(tables: &mut Tables) -> &mut Self;
}

/// A view of a record batch as typed rows; implemented by the view structs of the registry.
pub trait TableView: Sized {
    /// The row this view yields.
    type Row<'v>
    where
        Self: 'v;
    /// The table viewed.
    const TABLE: &'static TableDef;

    /// Looks at `batch`, which must hold the table's columns under their names (more are ignored, nullable ones may
    /// be absent). [`Error::MissingColumn`] if a required column is absent or holds nulls.
    fn new(batch: &RecordBatch) -> Result<Self>;

    /// Number of rows.
    fn len(&self) -> usize;

    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Row `i`; panics beyond [`TableView::len`].
    fn row(&self, i: usize) -> Self::Row<'_>;

    /// All rows in order.
    fn rows(&self) -> impl Iterator<Item = Self::Row<'_>> {
        (0..self.len()).map(|i| self.row(i))
    }
}
