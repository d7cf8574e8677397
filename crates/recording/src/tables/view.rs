//! Column views: typed access to the columns of a record batch, whatever way its strings are encoded.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray, GenericByteArray, Int32Array, ListArray,
    PrimitiveArray, RecordBatch, StringArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{ByteArrayType, DataType, Int32Type, UInt64Type};

use crate::error::{Error, Result};

use super::ColType;

/// Finds a column and brings it to `ty`. `Ok(None)` for a nullable column that is absent.
fn find(
    batch: &RecordBatch,
    table: &'static str,
    column: &'static str,
    nullable: bool,
    ty: &DataType,
) -> Result<Option<ArrayRef>> {
    let array = batch.column_by_name(column);
    match array {
        Some(a) if !nullable && a.null_count() > 0 => Err(Error::MissingColumn { table, column }),
        Some(a) if a.data_type() == ty => Ok(Some(a.clone())),
        Some(a) => Ok(Some(cast(a, ty)?)),
        None if nullable => Ok(None),
        None => Err(Error::MissingColumn { table, column }),
    }
}

/// A column of numbers.
#[derive(Debug)]
pub struct PrimitiveView<T: ArrowPrimitiveType>(Option<PrimitiveArray<T>>);

impl<T: ArrowPrimitiveType> PrimitiveView<T> {
    pub(super) fn of(batch: &RecordBatch, table: &'static str, column: &'static str, nullable: bool) -> Result<Self> {
        let array = find(batch, table, column, nullable, &T::DATA_TYPE)?;
        Ok(Self(array.map(|a| a.as_primitive::<T>().clone())))
    }

    /// The value of row `i`; the type's zero where it is null, which a required column never is.
    #[inline]
    pub fn value(&self, i: usize) -> T::Native {
        self.0.as_ref().map_or_else(T::Native::default, |a| a.value(i))
    }

    /// The value of row `i`, or `None` where it is null.
    #[inline]
    pub fn get(&self, i: usize) -> Option<T::Native> {
        self.0.as_ref().and_then(|a| a.is_valid(i).then(|| a.value(i)))
    }

    /// The whole column, `None` if the recording lacks it.
    pub fn array(&self) -> Option<&PrimitiveArray<T>> {
        self.0.as_ref()
    }
}

/// A column of booleans.
#[derive(Debug)]
pub struct BoolView(Option<BooleanArray>);

impl BoolView {
    pub(super) fn of(batch: &RecordBatch, table: &'static str, column: &'static str, nullable: bool) -> Result<Self> {
        let array = find(batch, table, column, nullable, &DataType::Boolean)?;
        Ok(Self(array.map(|a| a.as_boolean().clone())))
    }

    /// The value of row `i`; false where it is null, which a required column never is.
    #[inline]
    pub fn value(&self, i: usize) -> bool {
        self.get(i).unwrap_or_default()
    }

    /// The value of row `i`, or `None` where it is null.
    #[inline]
    pub fn get(&self, i: usize) -> Option<bool> {
        self.0.as_ref().and_then(|a| a.is_valid(i).then(|| a.value(i)))
    }
}

/// A column of texts, dictionary-encoded; `A` is the array of its distinct values.
#[derive(Debug)]
pub struct DictView<A>(Option<(Int32Array, A)>);

/// A column of text.
pub type StrView = DictView<StringArray>;

/// A column of bytes.
pub type BytesView = DictView<BinaryArray>;

impl<T: ByteArrayType<Offset = i32>> DictView<GenericByteArray<T>> {
    pub(super) fn of(batch: &RecordBatch, table: &'static str, column: &'static str, nullable: bool) -> Result<Self> {
        let encoded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(T::DATA_TYPE));
        let array = find(batch, table, column, nullable, &encoded)?;
        Ok(Self(array.map(|array| {
            let dictionary = array.as_dictionary::<Int32Type>();
            (dictionary.keys().clone(), dictionary.values().as_bytes::<T>().clone())
        })))
    }

    /// The value of row `i`; empty where it is null, which a required column never is.
    pub fn value<'a>(&'a self, i: usize) -> &'a T::Native
    where
        &'a T::Native: Default,
    {
        self.get(i).unwrap_or_default()
    }

    /// The value of row `i`, or `None` where it is null.
    pub fn get(&self, i: usize) -> Option<&T::Native> {
        let (keys, values) = self.0.as_ref()?;
        keys.is_valid(i).then(|| values.value(keys.value(i) as usize))
    }

    /// The place of row `i`'s value among [`DictView::distinct`], or `None` where it is null.
    #[inline]
    pub fn key(&self, i: usize) -> Option<usize> {
        let (keys, _) = self.0.as_ref()?;
        keys.is_valid(i).then(|| keys.value(i) as usize)
    }

    /// All values that rows of the batch can have.
    pub fn distinct(&self) -> impl Iterator<Item = &T::Native> {
        self.0.iter().flat_map(|(_, values)| (0..values.len()).map(|at| values.value(at)))
    }
}

/// A column of six words each.
#[derive(Debug)]
pub struct WordsView(Option<(arrow::array::FixedSizeListArray, UInt64Array)>);

impl WordsView {
    pub(super) fn of(batch: &RecordBatch, table: &'static str, column: &'static str, nullable: bool) -> Result<Self> {
        let array = find(batch, table, column, nullable, &ColType::Words6.arrow())?;
        Ok(Self(array.map(|a| {
            let lists = a.as_fixed_size_list().clone();
            let words = lists.values().as_primitive::<UInt64Type>().clone();
            (lists, words)
        })))
    }

    /// The words of row `i`; zeroes where it is null, which a required column never is.
    pub fn value(&self, i: usize) -> [u64; 6] {
        self.get(i).unwrap_or_default()
    }

    /// The words of row `i`, or `None` where it is null.
    pub fn get(&self, i: usize) -> Option<[u64; 6]> {
        let (lists, words) = self.0.as_ref()?;
        lists.is_valid(i).then(|| {
            let start = lists.value_offset(i) as usize;
            std::array::from_fn(|k| words.value(start + k))
        })
    }
}

/// A column of lists of words.
#[derive(Debug)]
pub struct ListView(Option<(ListArray, UInt64Array)>);

impl ListView {
    pub(super) fn of(batch: &RecordBatch, table: &'static str, column: &'static str, nullable: bool) -> Result<Self> {
        let array = find(batch, table, column, nullable, &ColType::U64List.arrow())?;
        Ok(Self(array.map(|a| {
            let lists = a.as_list::<i32>().clone();
            let words = lists.values().as_primitive::<UInt64Type>().clone();
            (lists, words)
        })))
    }

    /// The list of row `i`; empty where it is null, which a required column never is.
    pub fn value(&self, i: usize) -> &[u64] {
        self.get(i).unwrap_or_default()
    }

    /// The list of row `i`, or `None` where it is null.
    pub fn get(&self, i: usize) -> Option<&[u64]> {
        let (lists, words) = self.0.as_ref()?;
        let offsets = lists.value_offsets();
        lists.is_valid(i).then(|| &words.values()[offsets[i] as usize..offsets[i + 1] as usize])
    }
}
