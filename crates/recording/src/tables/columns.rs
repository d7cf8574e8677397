//! Column buffers: what the writer collects rows in, made so that a column nobody fills costs nothing.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, BooleanBufferBuilder, DictionaryArray, FixedSizeListArray,
    Int32Array, ListArray, PrimitiveArray, StringArray, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};

use super::value::ColumnBuffer;

/// A number that a column can hold.
pub trait Number: Copy + Default + Send + std::fmt::Debug + 'static {
    /// Moves values into an array.
    #[doc(hidden)]
    fn into_array(values: Vec<Self>, nulls: Option<NullBuffer>) -> ArrayRef;
}

macro_rules! number {
    ($t:ty, $arrow:ty) => {
        impl Number for $t {
            fn into_array(values: Vec<Self>, nulls: Option<NullBuffer>) -> ArrayRef {
                primitive::<$arrow>(values.into(), nulls)
            }
        }
    };
}
number!(i64, Int64Type);
number!(u64, UInt64Type);
number!(i32, Int32Type);
number!(u32, UInt32Type);
number!(f64, Float64Type);

fn primitive<T: ArrowPrimitiveType>(values: ScalarBuffer<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values, nulls))
}

impl Number for bool {
    fn into_array(values: Vec<Self>, nulls: Option<NullBuffer>) -> ArrayRef {
        Arc::new(BooleanArray::new(values.into(), nulls))
    }
}

impl Number for [u64; 6] {
    fn into_array(values: Vec<Self>, nulls: Option<NullBuffer>) -> ArrayRef {
        let flat = UInt64Array::from(values.into_flattened());
        let item = Arc::new(Field::new("item", DataType::UInt64, true));
        Arc::new(FixedSizeListArray::new(item, 6, Arc::new(flat), nulls))
    }
}

impl<T: Number> ColumnBuffer for Vec<T> {
    fn count(&self) -> usize {
        self.len()
    }

    fn memory(&self) -> usize {
        self.len() * size_of::<T>()
    }

    fn take(&mut self, rows: usize) -> Option<ArrayRef> {
        let values = std::mem::replace(self, Vec::with_capacity(rows));
        (values.len() == rows).then(|| T::into_array(values, None))
    }
}

/// A nullable column. While every value is null it holds only their number.
#[derive(Debug, Default)]
pub struct OptColumn<T> {
    nulls_before: usize,
    values: Vec<T>,
    valid: Vec<bool>,
}

impl<T: Number> OptColumn<T> {
    /// Appends one value.
    #[inline]
    pub fn push(&mut self, value: Option<T>) {
        match value {
            None if self.values.is_empty() => self.nulls_before += 1,
            value => {
                self.values.push(value.unwrap_or_default());
                self.valid.push(value.is_some());
            }
        }
    }

    /// Appends `n` nulls.
    pub fn push_nulls(&mut self, n: usize) {
        if self.values.is_empty() {
            self.nulls_before += n;
        } else {
            self.values.resize(self.values.len() + n, T::default());
            self.valid.resize(self.valid.len() + n, false);
        }
    }
}

impl<T: Number> ColumnBuffer for OptColumn<T> {
    fn count(&self) -> usize {
        self.nulls_before + self.values.len()
    }

    fn memory(&self) -> usize {
        self.values.len() * (size_of::<T>() + 1)
    }

    fn take(&mut self, rows: usize) -> Option<ArrayRef> {
        let Self { nulls_before, values, valid } = std::mem::take(self);
        let count = nulls_before + values.len();
        if count > rows {
            return None;
        }
        let mut bits = BooleanBufferBuilder::new(rows);
        bits.append_n(nulls_before, false);
        bits.append_slice(&valid);
        bits.append_n(rows - count, false);
        let nulls = NullBuffer::new(bits.finish());
        let mut all = values;
        if nulls_before > 0 {
            all.splice(0..0, std::iter::repeat_n(T::default(), nulls_before));
        }
        all.resize(rows, T::default());
        Some(T::into_array(all, Some(nulls)))
    }
}

/// The key of a null while a column is being filled.
const NULL_KEY: i32 = -1;

/// The shared body of [`StrColumn`] and [`BytesColumn`], which differ only in what they let in.
#[derive(Debug, Default)]
struct Dictionary {
    keys: Vec<i32>,
    nulls: usize,
    numbers: HashMap<Box<[u8]>, i32>,
    bytes: Vec<u8>,
    offsets: Vec<i32>,
}

impl Dictionary {
    fn push(&mut self, value: Option<&[u8]>) {
        let Some(value) = value else {
            self.keys.push(NULL_KEY);
            self.nulls += 1;
            return;
        };
        let key = match self.last_if_equal(value) {
            Some(key) => key,
            None => self.number(value),
        };
        self.keys.push(key);
    }

    /// Repetition is the common case (one name per stream, one comm per task): it needs no hash.
    fn last_if_equal(&self, value: &[u8]) -> Option<i32> {
        let key = *self.keys.last()?;
        let at = usize::try_from(key).ok()?;
        let range = *self.offsets.get(at)? as usize..*self.offsets.get(at + 1)? as usize;
        (self.bytes.get(range)? == value).then_some(key)
    }

    fn number(&mut self, value: &[u8]) -> i32 {
        if let Some(key) = self.numbers.get(value) {
            return *key;
        }
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        let key = self.offsets.len() as i32 - 1;
        self.bytes.extend_from_slice(value);
        self.offsets.push(self.bytes.len() as i32);
        self.numbers.insert(value.into(), key);
        key
    }

    fn memory(&self) -> usize {
        self.keys.len() * 4 + self.bytes.len() * 2 + self.numbers.len() * 48
    }

    fn take_keys(&mut self, rows: usize) -> Option<Int32Array> {
        let mut keys = std::mem::take(&mut self.keys);
        let mut null_count = std::mem::take(&mut self.nulls);
        if keys.len() > rows {
            return None;
        }
        null_count += rows - keys.len();
        keys.resize(rows, NULL_KEY);
        let nulls = (null_count > 0).then(|| keys.iter().map(|k| *k != NULL_KEY).collect());
        if null_count > 0 {
            keys.iter_mut().for_each(|k| *k = (*k).max(0));
        }
        Some(Int32Array::new(keys.into(), nulls))
    }

    fn take_values(&mut self) -> (OffsetBuffer<i32>, Vec<u8>) {
        let mut offsets = std::mem::take(&mut self.offsets);
        if offsets.is_empty() {
            offsets.push(0);
        }
        self.numbers.clear();
        (OffsetBuffer::new(offsets.into()), std::mem::take(&mut self.bytes))
    }
}

/// A column of text, dictionary-encoded as it is filled.
#[derive(Debug, Default)]
pub struct StrColumn(Dictionary);

impl StrColumn {
    /// Appends one value.
    #[inline]
    pub fn push(&mut self, value: Option<&str>) {
        self.0.push(value.map(str::as_bytes));
    }
}

impl ColumnBuffer for StrColumn {
    fn count(&self) -> usize {
        self.0.keys.len()
    }

    fn memory(&self) -> usize {
        self.0.memory()
    }

    fn take(&mut self, rows: usize) -> Option<ArrayRef> {
        let keys = self.0.take_keys(rows)?;
        let (offsets, bytes) = self.0.take_values();
        // Only `&str` was pushed, so this checks what is known; it costs one pass over the distinct values.
        let values = StringArray::try_new(offsets, bytes.into(), None).ok()?;
        Some(Arc::new(DictionaryArray::try_new(keys, Arc::new(values)).ok()?))
    }
}

/// A column of bytes that need not be UTF-8, dictionary-encoded as it is filled.
#[derive(Debug, Default)]
pub struct BytesColumn(Dictionary);

impl BytesColumn {
    /// Appends one value.
    #[inline]
    pub fn push(&mut self, value: Option<&[u8]>) {
        self.0.push(value);
    }
}

impl ColumnBuffer for BytesColumn {
    fn count(&self) -> usize {
        self.0.keys.len()
    }

    fn memory(&self) -> usize {
        self.0.memory()
    }

    fn take(&mut self, rows: usize) -> Option<ArrayRef> {
        let keys = self.0.take_keys(rows)?;
        let (offsets, bytes) = self.0.take_values();
        let values = BinaryArray::try_new(offsets, bytes.into(), None).ok()?;
        Some(Arc::new(DictionaryArray::try_new(keys, Arc::new(values)).ok()?))
    }
}

/// A column of lists of words.
#[derive(Debug, Default)]
pub struct ListColumn {
    values: Vec<u64>,
    ends: Vec<i32>,
    valid: Vec<bool>,
}

impl ListColumn {
    /// Appends one list.
    pub fn push(&mut self, value: Option<&[u64]>) {
        self.values.extend_from_slice(value.unwrap_or_default());
        self.ends.push(self.values.len() as i32);
        self.valid.push(value.is_some());
    }
}

impl ColumnBuffer for ListColumn {
    fn count(&self) -> usize {
        self.ends.len()
    }

    fn memory(&self) -> usize {
        self.values.len() * 8 + self.ends.len() * 5
    }

    fn take(&mut self, rows: usize) -> Option<ArrayRef> {
        let mut taken = std::mem::take(self);
        if taken.ends.len() > rows {
            return None;
        }
        let end = taken.values.len() as i32;
        taken.ends.resize(rows, end);
        taken.valid.resize(rows, false);
        let nulls = taken.valid.contains(&false).then(|| NullBuffer::from(taken.valid));
        taken.ends.insert(0, 0);
        let item = Arc::new(Field::new("item", DataType::UInt64, true));
        let offsets = OffsetBuffer::new(taken.ends.into());
        let values = Arc::new(UInt64Array::from(taken.values));
        Some(Arc::new(ListArray::try_new(item, offsets, values, nulls).ok()?))
    }
}
