//! The macro that turns one table declaration into definition, row, buffer and view.

use arrow::array::ArrayRef;

/// What the macro needs of a column buffer, whatever its type.
pub(crate) trait ColumnBuffer {
    /// Values collected.
    fn count(&self) -> usize;
    /// Bytes of memory, roughly.
    fn memory(&self) -> usize;
    /// Fills up with nulls to `rows` values, if there are fewer and the column is nullable; false if that fails.
    fn level(&mut self, rows: usize, nullable: bool) -> bool;
    /// The values if they can be times.
    fn times(&self) -> Option<&[i64]> {
        None
    }
    /// Puts the values from `at` on into the order of `order`, whose numbers count from `at`.
    fn reorder(&mut self, at: usize, order: &[u32]);
    /// Takes the values out; `None` if all are null.
    fn take(&mut self) -> Option<ArrayRef>;
    /// Gets an array back that it gave, to use its memory again.
    fn give_back(&mut self, _: ArrayRef) {}
}

/// The Rust type of a value in a row.
macro_rules! row_type {
    (req str) => { &'a str };
    (req bytes) => { &'a [u8] };
    (req words6) => { [u64; 6] };
    (req u64list) => { &'a [u64] };
    (req $t:ident) => { $t };
    (opt str) => { Option<&'a str> };
    (opt bytes) => { Option<&'a [u8]> };
    (opt words6) => { Option<[u64; 6]> };
    (opt u64list) => { Option<&'a [u64]> };
    (opt $t:ident) => { Option<$t> };
}

/// The type of a column buffer.
macro_rules! buffer_type {
    ($n:ident str) => { StrColumn };
    ($n:ident bytes) => { BytesColumn };
    ($n:ident u64list) => { ListColumn };
    (req words6) => { Vec<[u64; 6]> };
    (req $t:ident) => { Vec<$t> };
    (opt $t:ident) => { OptColumn<$t> };
}

/// The type of a column view.
macro_rules! view_type {
    (str) => { StrView };
    (bytes) => { BytesView };
    (u64list) => { ListView };
    (words6) => { WordsView };
    (bool) => { BoolView };
    (i64) => { PrimitiveView<arrow::datatypes::Int64Type> };
    (u64) => { PrimitiveView<arrow::datatypes::UInt64Type> };
    (i32) => { PrimitiveView<arrow::datatypes::Int32Type> };
    (u32) => { PrimitiveView<arrow::datatypes::UInt32Type> };
    (f64) => { PrimitiveView<arrow::datatypes::Float64Type> };
}

/// The [`super::ColType`] of a type word.
macro_rules! col_type {
    (str) => {
        ColType::Str
    };
    (bytes) => {
        ColType::Bytes
    };
    (u64list) => {
        ColType::U64List
    };
    (words6) => {
        ColType::Words6
    };
    (bool) => {
        ColType::Bool
    };
    (i64) => {
        ColType::I64
    };
    (u64) => {
        ColType::U64
    };
    (i32) => {
        ColType::I32
    };
    (u32) => {
        ColType::U32
    };
    (f64) => {
        ColType::F64
    };
}

/// Appends a row's value to a buffer.
macro_rules! push_value {
    (req str, $buf:expr, $v:expr) => {
        $buf.push(Some($v))
    };
    (req bytes, $buf:expr, $v:expr) => {
        $buf.push(Some($v))
    };
    (req u64list, $buf:expr, $v:expr) => {
        $buf.push(Some($v))
    };
    ($n:ident $t:ident, $buf:expr, $v:expr) => {
        $buf.push($v)
    };
}

/// Gets a row's value from a view.
macro_rules! get_value {
    (req, $view:expr, $i:expr) => {
        $view.value($i)
    };
    (opt, $view:expr, $i:expr) => {
        $view.get($i)
    };
}

macro_rules! is_nullable {
    (req) => {
        false
    };
    (opt) => {
        true
    };
}

macro_rules! column_name {
    ($col:ident) => {
        stringify!($col)
    };
    ($col:ident $name:literal) => {
        $name
    };
}

/// Declares the tables; see `registry.rs` for its use.
macro_rules! tables {
    ($(
        $(#[doc = $help:literal])+
        $table:ident ($push:ident) $row:ident [$($lt:lifetime)?] $columns:ident $view:ident $(text_of($($bytes:ident),+))?
        $(rollup($version:literal; $($source:ident),+))? {
            $( $col:ident $(as $name:literal)? : $null:ident $ty:ident $unit:literal $doc:literal; )+
        }
    )+) => {
        /// Every table of the registry.
        pub(super) static TABLES: &[&TableDef] = &[$(<$columns as TableColumns>::TABLE),+];

        /// The buffers of all tables.
        #[derive(Debug, Default)]
        pub struct Tables {
            $( $(#[doc = $help])+ pub $table: $columns, )+
        }

        impl Tables {
            /// Bytes of memory that all collected rows take, roughly.
            pub fn memory_bytes(&self) -> usize {
                0 $( + self.$table.memory_bytes() )+
            }

            /// Rows collected in all tables.
            pub fn rows(&self) -> usize {
                0 $( + self.$table.len() )+
            }

            /// Hands the rows of every table that has any, and takes at least `least_bytes`, to `write`, sorted by time:
            /// `loss` first, whatever it takes, so that no rows are there without their loss, then in registry order. A
            /// table that cannot be taken out does not keep the others back; the first error is returned at the end.
            pub(crate) fn drain(
                &mut self,
                least_bytes: usize,
                mut write: impl FnMut(&'static TableDef, &RecordBatch) -> Result<()>,
            ) -> Result<()> {
                let mut done = Ok(());
                for loss in [true, false] {
                    let least_bytes = if loss { 0 } else { least_bytes };
                    $( if (stringify!($table) == "loss") == loss
                        && !self.$table.is_empty()
                        && self.$table.memory_bytes() >= least_bytes
                    {
                        let written = self.$table.take_batch().and_then(|batch| {
                            write(<$columns as TableColumns>::TABLE, &batch)?;
                            self.$table.give_back(batch);
                            Ok(())
                        });
                        done = done.and(written);
                    } )+
                }
                done
            }
        }

        impl RecordingWriter {
            $(
                #[doc = concat!("Appends one row to `", stringify!($table), "`.")]
                #[inline]
                pub fn $push(&mut self, row: &tables!(@elided $row $($lt)?)) {
                    self.push(row);
                }
            )+
        }

        $(
            $(#[doc = $help])+
            #[derive(Debug, Clone, Copy, Default, PartialEq)]
            #[allow(missing_copy_implementations)]
            pub struct $row $(<$lt>)? {
                $( #[doc = $doc] pub $col: row_type!($null $ty), )+
            }

            #[doc = concat!("Column buffer of `", stringify!($table), "`.")]
            #[derive(Debug, Default)]
            pub struct $columns {
                $( #[doc = $doc] pub $col: buffer_type!($null $ty), )+
            }

            #[doc = concat!("Typed view of a record batch of `", stringify!($table), "`.")]
            #[derive(Debug)]
            pub struct $view {
                row_count: usize,
                $( #[doc = $doc] pub $col: view_type!($ty), )+
            }

            impl $columns {
                /// Appends one row.
                #[inline]
                pub fn push(&mut self, row: &tables!(@elided $row $($lt)?)) {
                    row.push_to(self);
                }
            }

            impl TableColumns for $columns {
                const TABLE: &'static TableDef = &TableDef {
                    name: stringify!($table),
                    help: concat!($($help),+).trim_ascii(),
                    columns: &[ $( ColumnDef {
                        name: column_name!($col $($name)?),
                        ty: col_type!($ty),
                        unit: $unit,
                        nullable: is_nullable!($null),
                        help: $doc,
                        text_of: None,
                    } ),+ $( $(, ColumnDef {
                        name: concat!(stringify!($bytes), "_text"),
                        ty: ColType::Str,
                        unit: "",
                        nullable: true,
                        help: concat!("`", stringify!($bytes), "` as text: U+FFFD stands for what is not UTF-8."),
                        text_of: Some(stringify!($bytes)),
                    } )+ )? ],
                    rollup: tables!(@rollup $($version; $($source),+)?),
                };

                fn len(&self) -> usize {
                    let counts = [$( self.$col.count() ),+];
                    counts[0]
                }

                fn memory_bytes(&self) -> usize {
                    0 $( + self.$col.memory() )+
                }

                fn take_batch(&mut self) -> Result<RecordBatch> {
                    let rows = self.len();
                    $(
                        let found = self.$col.count();
                        if !self.$col.level(rows, is_nullable!($null)) {
                            return Err(Error::RaggedColumns { table: stringify!($table), column: stringify!($col), found, rows });
                        }
                    )+
                    let mut windows = Vec::new();
                    $( if column_name!($col $($name)?) == "ts" {
                        windows = order::disorder(self.$col.times().unwrap_or_default());
                    } )+
                    for (at, order) in &windows {
                        $( self.$col.reorder(*at, order); )+
                    }
                    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
                    $( if let Some(array) = self.$col.take() {
                        columns.push((column_name!($col $($name)?), array));
                    } )+
                    Self::TABLE.batch_of(columns)
                }

                fn give_back(&mut self, batch: RecordBatch) {
                    let (schema, arrays, _) = batch.into_parts();
                    for (field, array) in schema.fields().iter().zip(arrays) {
                        match field.name().as_str() {
                            $( column_name!($col $($name)?) => self.$col.give_back(array), )+
                            _ => {}
                        }
                    }
                }

                fn of(tables: &mut Tables) -> &mut Self {
                    &mut tables.$table
                }
            }

            impl $(<$lt>)? Row for $row $(<$lt>)? {
                type Columns = $columns;
                type View = $view;
                const TABLE: &'static TableDef = <$columns as TableColumns>::TABLE;

                #[inline]
                fn push_to(&self, columns: &mut $columns) {
                    $( push_value!($null $ty, columns.$col, self.$col); )+
                }
            }

            impl TableView for $view {
                type Row<'v> = tables!(@row $row $($lt)?);
                const TABLE: &'static TableDef = <$columns as TableColumns>::TABLE;

                fn new(batch: &RecordBatch) -> Result<Self> {
                    Ok(Self {
                        row_count: batch.num_rows(),
                        $( $col: <view_type!($ty)>::of(
                            batch,
                            Self::TABLE.name,
                            column_name!($col $($name)?),
                            is_nullable!($null),
                        )?, )+
                    })
                }

                fn len(&self) -> usize {
                    self.row_count
                }

                #[inline]
                fn row(&self, i: usize) -> Self::Row<'_> {
                    $row { $( $col: get_value!($null, self.$col, i), )+ }
                }
            }
        )+
    };
    (@rollup) => { None };
    (@rollup $version:literal; $($source:ident),+) => {
        Some(RollupDef { version: $version, sources: &[$(stringify!($source)),+] })
    };
    (@elided $row:ident) => { $row };
    (@elided $row:ident $lt:lifetime) => { $row<'_> };
    (@row $row:ident) => { $row };
    (@row $row:ident $lt:lifetime) => { $row<'v> };
}
