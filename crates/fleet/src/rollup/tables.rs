//! The five tables, declared once: schema, documentation and typed rows come from the same lines.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

/// Text of a cell. Shared: the rows of a host hold its name once.
pub type Text = Arc<str>;

/// The type of a column, in files and in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// UTF-8 text, plain.
    Text,
    /// Signed 64-bit: times.
    I64,
    /// Unsigned 64-bit: counts and numbers.
    U64,
    /// 64-bit float: measured values.
    F64,
    /// True or false.
    Bool,
}

impl ColumnType {
    /// The Arrow type.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Text => DataType::Utf8,
            Self::I64 => DataType::Int64,
            Self::U64 => DataType::UInt64,
            Self::F64 => DataType::Float64,
            Self::Bool => DataType::Boolean,
        }
    }
}

/// One column of a table. Every column may be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnDef {
    /// Name in files and in SQL.
    pub name: &'static str,
    /// Type in files and in memory.
    pub ty: ColumnType,
    /// Unit of the values; empty where a unit makes no sense.
    pub unit: &'static str,
    /// What the value is.
    pub help: &'static str,
}

/// One table of a compacted fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableDef {
    /// Name of the file, without its ending, and of the SQL table.
    pub name: &'static str,
    /// What one row is.
    pub help: &'static str,
    /// Columns in their order.
    pub columns: &'static [ColumnDef],
    /// The columns by which rows of a file are sorted, ascending, null first.
    pub order: &'static [&'static str],
}

impl TableDef {
    /// The schema of files and of reads.
    pub fn schema(&self) -> SchemaRef {
        let fields: Vec<Field> = self.columns.iter().map(|c| Field::new(c.name, c.ty.arrow(), true)).collect();
        Arc::new(Schema::new(fields))
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&'static ColumnDef> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Name of its file in the folder of a day.
    pub fn file_name(&self) -> String {
        format!("{}.parquet", self.name)
    }
}

/// A column that cannot be read as the table declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The column.
    pub column: &'static ColumnDef,
    /// The type found.
    pub found: DataType,
}

/// A typed row of one table. Implemented by the rows that are declared here.
pub trait Row: Clone {
    /// The row's table.
    const TABLE: &'static TableDef;

    /// These rows as a batch in the table's schema.
    ///
    /// # Errors
    /// None that the library is known to have: lengths and types are those of the declaration.
    fn batch(rows: &[Self]) -> Result<RecordBatch, ArrowError>;

    /// The rows of a batch. Columns that the table does not know are ignored, columns that the batch lacks are null.
    ///
    /// # Errors
    /// A column of a type that cannot be read as the declared one.
    fn rows(batch: &RecordBatch) -> Result<Vec<Self>, Unreadable>;

    /// The order of rows in a file, by [`TableDef::order`].
    fn order(&self, other: &Self) -> Ordering;
}

/// What a cell may hold.
trait Cell: Clone {
    const TYPE: ColumnType;

    fn array<'a>(cells: impl Iterator<Item = &'a Option<Self>>) -> ArrayRef
    where
        Self: 'a;
    /// The cells of an array of [`Self::TYPE`]; none if it is of another type.
    fn cells(array: &ArrayRef) -> Option<Vec<Option<Self>>>;
    fn order(&self, other: &Self) -> Ordering;
}

impl Cell for Text {
    const TYPE: ColumnType = ColumnType::Text;

    fn array<'a>(cells: impl Iterator<Item = &'a Option<Self>>) -> ArrayRef {
        Arc::new(cells.map(Option::as_deref).collect::<StringArray>())
    }

    fn cells(array: &ArrayRef) -> Option<Vec<Option<Self>>> {
        let array = array.as_any().downcast_ref::<StringArray>()?;
        // Neighbours are mostly equal, because files are sorted: equal text is held once.
        let mut last: Option<Text> = None;
        let cells = array.iter().map(|cell| {
            let text = cell?;
            if last.as_deref() != Some(text) {
                last = Some(Arc::from(text));
            }
            last.clone()
        });
        Some(cells.collect())
    }

    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

macro_rules! plain_cell {
    ($ty:ty, $name:ident, $array:ty, $order:expr) => {
        impl Cell for $ty {
            const TYPE: ColumnType = ColumnType::$name;

            fn array<'a>(cells: impl Iterator<Item = &'a Option<Self>>) -> ArrayRef {
                Arc::new(cells.copied().collect::<$array>())
            }

            fn cells(array: &ArrayRef) -> Option<Vec<Option<Self>>> {
                Some(array.as_any().downcast_ref::<$array>()?.iter().collect())
            }

            fn order(&self, other: &Self) -> Ordering {
                $order(self, other)
            }
        }
    };
}

plain_cell!(i64, I64, Int64Array, Ord::cmp);
plain_cell!(u64, U64, UInt64Array, Ord::cmp);
plain_cell!(f64, F64, Float64Array, f64::total_cmp);
plain_cell!(bool, Bool, BooleanArray, Ord::cmp);

/// Null before every value.
fn order_of<T: Cell>(a: Option<&T>, b: Option<&T>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.order(b),
        _ => a.is_some().cmp(&b.is_some()),
    }
}

fn cells_of<T: Cell>(batch: &RecordBatch, column: &'static ColumnDef) -> Result<Vec<Option<T>>, Unreadable> {
    let needed = T::TYPE.arrow();
    let array = match batch.column_by_name(column.name) {
        None => new_null_array(&needed, batch.num_rows()),
        Some(array) if *array.data_type() == needed => array.clone(),
        // Other programs write text as dictionaries or large text, and smaller integers.
        Some(array) => cast(array, &needed).map_err(|_| Unreadable { column, found: array.data_type().clone() })?,
    };
    T::cells(&array).ok_or_else(|| Unreadable { column, found: array.data_type().clone() })
}

macro_rules! tables {
    ($(
        $(#[doc = $table_doc:literal])+
        table $name:literal $row:ident: $help:literal, sorted by $($key:ident),+ {
            $( $column:ident: $ty:ident, $unit:literal, $about:literal; )+
        }
    )+) => {
        /// All tables, in the order in which a day is written.
        pub const TABLES: &[&TableDef] = &[$($row::TABLE),+];
        $(
            $(#[doc = $table_doc])+
            #[derive(Debug, Clone, Default, PartialEq)]
            pub struct $row {
                $( #[doc = $about] pub $column: Option<$ty>, )+
            }

            impl Row for $row {
                const TABLE: &'static TableDef = &TableDef {
                    name: $name,
                    help: $help,
                    columns: &[$( ColumnDef {
                        name: stringify!($column), ty: <$ty as Cell>::TYPE, unit: $unit, help: $about,
                    } ),+],
                    order: &[$(stringify!($key)),+],
                };

                fn batch(rows: &[Self]) -> Result<RecordBatch, ArrowError> {
                    let columns = vec![$( <$ty as Cell>::array(rows.iter().map(|row| &row.$column)) ),+];
                    RecordBatch::try_new(Self::TABLE.schema(), columns)
                }

                fn rows(batch: &RecordBatch) -> Result<Vec<Self>, Unreadable> {
                    let mut columns = Self::TABLE.columns.iter();
                    $(
                        // The columns stand in the order of this declaration.
                        let mut $column = match columns.next() {
                            Some(column) => cells_of::<$ty>(batch, column)?.into_iter(),
                            None => Vec::new().into_iter(),
                        };
                    )+
                    let rows = (0..batch.num_rows()).map(|_| $row { $( $column: $column.next().flatten(), )+ });
                    Ok(rows.collect())
                }

                fn order(&self, other: &Self) -> Ordering {
                    Ordering::Equal $( .then_with(|| order_of(self.$key.as_ref(), other.$key.as_ref())) )+
                }
            }
        )+
    };
}

tables! {
    /// One run: a recording of a host.
    table "runs" RunsRow: "One row per run, from the manifest of its recording.", sorted by host, start_ns, recording_id {
        recording_id: Text, "", "Names the recording in all tables; unique in a fleet.";
        host: Text, "", "Host name.";
        variant: Text, "", "Variant of the experiment that the run belongs to.";
        run: u64, "", "Number of the run within its variant.";
        start_ns: i64, "ns", "When the recording began, realtime since the epoch.";
        kernel: Text, "", "Kernel release.";
        cpus: u64, "", "CPUs online.";
        virt: Text, "", "Kind of virtualisation, `none` on bare metal.";
        pagelab_version: Text, "", "Version of the pagelab that recorded.";
        command: Text, "", "The command or job that ran, in one line.";
        complete: bool, "", "Whether the recorder reached a clean end with every row in place.";
        excluded: Text, "", "Why the run counts nowhere: it failed, was cut short, or is not whole; null if it counts. Such a run has no rows in other tables.";
        measured_ns: u64, "ns", "Length of the measured time.";
        operations: f64, "", "Operations in the measured time; null if they were not counted.";
        path: Text, "", "Where the recording was when its day was compacted.";
    }

    /// A label of a run: what is known of it beside its figures, and what runs are grouped by.
    table "labels" LabelsRow: "One row per run and label.", sorted by name, recording_id {
        recording_id: Text, "", "The run.";
        name: Text, "", "Name of the label: `instance_type`, `host_group`, or derived from the run: `kernel`, `thp`.";
        value: Text, "", "Its value for this run.";
    }

    /// A figure of a run.
    table "metrics" MetricsRow: "One row per run, metric and instance.", sorted by name, instance, host, start_ns {
        name: Text, "", "Name of the metric, of the vocabulary.";
        instance: Text, "", "Device, CPU or job that the value is of; null for all together.";
        unit: Text, "", "Unit of the value: a word of the vocabulary.";
        direction: Text, "", "Which way is better: `higher`, `lower` or `neutral`.";
        recording_id: Text, "", "The run.";
        host: Text, "", "Its host.";
        start_ns: i64, "ns", "When the recording began, realtime since the epoch.";
        value: f64, "of `unit`", "The run's value, of a counter its increase per second; null if it was not measured.";
        kind: Text, "", "How the value was made: `counter`, `gauge` or `histogram`.";
        per_operation: f64, "of `unit`", "Of a counter its increase per operation; null if operations were not counted.";
    }

    /// A component of the budget of time of a run.
    table "components" ComponentsRow: "One row per run and component of the budget of time.",
        sorted by component, host, start_ns {
        component: Text, "", "Name of the component, of the vocabulary: `run.memory.clear`.";
        recording_id: Text, "", "The run.";
        host: Text, "", "Its host.";
        start_ns: i64, "ns", "When the recording began, realtime since the epoch.";
        ns_per_operation: f64, "ns", "Time that an operation spent in it, by the wall account; null if a stream that it needs was missing, or operations were not counted.";
        ns_per_s: f64, "ns", "Time of each second that went into it, by the wall account; null if a stream that it needs was missing.";
    }

    /// A setting of a host, where it differs from the host's recording before.
    table "settings" SettingsRow: "One row per change: the value of a setting in the host's first recording, and in each \
        one where it differs from the one before.",
        sorted by key, host, start_ns {
        key: Text, "", "Name of the setting, of the vocabulary: `thp.enabled`.";
        value: Text, "", "Its value from this recording on; null if it could not be read any more.";
        recording_id: Text, "", "The recording in which it differs.";
        host: Text, "", "The host.";
        start_ns: i64, "ns", "When that recording began, realtime since the epoch.";
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_table_is_sorted_by_columns_that_it_has_and_says_what_they_are() {
        let names: BTreeSet<&str> = TABLES.iter().map(|table| table.name).collect();
        assert_eq!(names, BTreeSet::from(["runs", "labels", "metrics", "components", "settings"]));
        for table in TABLES {
            assert!(table.order.iter().all(|key| table.column(key).is_some()), "{}", table.name);
            assert!(table.schema().fields().iter().all(|field| field.is_nullable()), "{}", table.name);
            for column in table.columns {
                assert!(column.help.ends_with('.'), "{}.{}", table.name, column.name);
                let ending = column.name.rsplit('_').next().filter(|ending| *ending == "ns");
                assert!(ending.is_none() || column.unit == "ns", "{}.{}", table.name, column.name);
            }
        }
    }

    #[test]
    fn rows_come_back_from_their_batch_and_missing_columns_are_null() {
        let row = |host: &str, value: Option<f64>| MetricsRow {
            name: Some("run.elapsed_ns".into()),
            host: Some(host.into()),
            start_ns: Some(-3),
            value,
            ..MetricsRow::default()
        };
        let rows = [row("a", Some(1.5)), row("a", None), row("b", Some(0.0))];
        let batch = MetricsRow::batch(&rows).expect("one length");
        assert_eq!(MetricsRow::rows(&batch).expect("its own types"), rows);
        let without = batch.project(&[0, 5, 7]).expect("columns");
        let back = MetricsRow::rows(&without).expect("its own types");
        assert_eq!(
            back.iter().map(|row| (row.start_ns, row.value)).collect::<Vec<_>>(),
            [(None, Some(1.5)), (None, None), (None, Some(0.0))]
        );
    }

    #[test]
    fn a_column_of_another_type_is_cast_or_named() {
        let schema = |ty| Arc::new(Schema::new(vec![Field::new("run", ty, true)]));
        let small = arrow::array::UInt32Array::from(vec![Some(7), None]);
        let batch = RecordBatch::try_new(schema(DataType::UInt32), vec![Arc::new(small)]).expect("a batch");
        assert_eq!(RunsRow::rows(&batch).expect("cast").first().and_then(|row| row.run), Some(7));
        let list = arrow::array::ListArray::new_null(Arc::new(Field::new("item", DataType::Int32, true)), 1);
        let batch = RecordBatch::try_new(schema(list.data_type().clone()), vec![Arc::new(list)]).expect("a batch");
        assert_eq!(RunsRow::rows(&batch).expect_err("a list").column.name, "run");
    }

    #[test]
    fn null_is_sorted_first() {
        let row = |instance: Option<&str>, start_ns| MetricsRow {
            instance: instance.map(Into::into),
            start_ns,
            ..MetricsRow::default()
        };
        assert!(row(None, Some(5)).order(&row(Some("sda"), Some(1))).is_lt());
        assert!(row(None, None).order(&row(None, Some(1))).is_lt());
        assert!(row(Some("sda"), Some(2)).order(&row(Some("sda"), Some(1))).is_gt());
        assert!(row(Some("sda"), Some(2)).order(&row(Some("sda"), Some(2))).is_eq());
    }
}
