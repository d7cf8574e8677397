//! Column buffers: what the writer collects rows in, made so that a column nobody fills costs nothing.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, DictionaryArray, FixedSizeListArray, GenericByteArray,
    Int32Array, ListArray, PrimitiveArray, StringArray, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{ByteArrayType, DataType, Field, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};

use super::value::ColumnBuffer;

/// A number that a column can hold.
pub trait Number: Copy + Default + Send + std::fmt::Debug + 'static {
    /// Moves values into an array.
    #[doc(hidden)]
    fn into_array(values: Vec<Self>, nulls: Option<NullBuffer>) -> ArrayRef;

    /// Moves the values of an array that nobody else holds out again, so that their memory serves the next part:
    /// fresh memory costs a page fault per 4 KiB, which is more than writing it.
    #[doc(hidden)]
    fn into_values(array: ArrayRef) -> Option<Vec<Self>>;

    /// The values if they can be times.
    #[doc(hidden)]
    fn as_times(_: &[Self]) -> Option<&[i64]> {
        None
    }
}

macro_rules! number {
    ($t:ty, $arrow:ty $(, $times:item)?) => {
        impl Number for $t {
            fn into_array(values: Vec<Self>, nulls: Option<NullBuffer>) -> ArrayRef {
                Arc::new(PrimitiveArray::<$arrow>::new(values.into(), nulls))
            }

            fn into_values(array: ArrayRef) -> Option<Vec<Self>> {
                // The array is cloned out of its `Arc` and that dropped, so that its memory has one owner again.
                let typed = array.as_primitive_opt::<$arrow>()?.clone();
                drop(array);
                let (_, values, _) = typed.into_parts();
                values.into_inner().into_vec::<$t>().ok()
            }

            $($times)?
        }
    };
}
number!(
    i64,
    Int64Type,
    fn as_times(values: &[i64]) -> Option<&[i64]> {
        Some(values)
    }
);
number!(u64, UInt64Type);
number!(i32, Int32Type);
number!(u32, UInt32Type);
number!(f64, Float64Type);

impl Number for bool {
    fn into_array(values: Vec<Self>, nulls: Option<NullBuffer>) -> ArrayRef {
        Arc::new(BooleanArray::new(values.into(), nulls))
    }

    fn into_values(_: ArrayRef) -> Option<Vec<Self>> {
        None
    }
}

impl Number for [u64; 6] {
    fn into_array(values: Vec<Self>, nulls: Option<NullBuffer>) -> ArrayRef {
        let flat = UInt64Array::from(values.into_flattened());
        let item = Arc::new(Field::new("item", DataType::UInt64, true));
        Arc::new(FixedSizeListArray::new(item, 6, Arc::new(flat), nulls))
    }

    fn into_values(array: ArrayRef) -> Option<Vec<Self>> {
        let lists = array.as_fixed_size_list_opt()?.clone();
        drop(array);
        let (.., words, _) = lists.into_parts();
        let mut words = u64::into_values(words)?;
        words.clear();
        // A vector of rows must be made of memory for whole rows.
        let rows = words.capacity() / 6;
        (words.capacity() == rows * 6).then(|| {
            let mut words = std::mem::ManuallyDrop::new(words);
            // SAFETY: the memory was allocated for rows * 6 words by the same allocator, [u64; 6] has the alignment of u64,
            // and no row is counted as filled.
            unsafe { Vec::from_raw_parts(words.as_mut_ptr().cast::<Self>(), 0, rows) }
        })
    }
}

/// Puts `values[at..]` into the order of `order`, whose numbers count from `at`.
fn reorder<T: Copy>(values: &mut [T], at: usize, order: &[u32]) {
    let Some(window) = values.get_mut(at..at + order.len()) else { return };
    let sorted: Vec<T> = order.iter().filter_map(|i| window.get(*i as usize).copied()).collect();
    window.copy_from_slice(&sorted);
}

impl<T: Number> ColumnBuffer for Vec<T> {
    fn count(&self) -> usize {
        self.len()
    }

    fn memory(&self) -> usize {
        self.len() * size_of::<T>()
    }

    fn level(&mut self, rows: usize, _: bool) -> bool {
        self.len() == rows
    }

    fn times(&self) -> Option<&[i64]> {
        T::as_times(self)
    }

    fn reorder(&mut self, at: usize, order: &[u32]) {
        reorder(self, at, order);
    }

    fn take(&mut self) -> Option<ArrayRef> {
        Some(T::into_array(std::mem::take(self), None))
    }

    fn give_back(&mut self, array: ArrayRef) {
        if let Some(mut values) = T::into_values(array) {
            values.clear();
            *self = values;
        }
    }
}

/// A nullable column. While every value is null it holds only their number, and while none is no word on which is.
#[derive(Debug, Default)]
pub struct OptColumn<T> {
    nulls_before: usize,
    values: Vec<T>,
    /// Validity of each value; empty while all are valid.
    valid: Vec<bool>,
}

impl<T: Number> OptColumn<T> {
    /// Appends one value.
    #[inline]
    pub fn push(&mut self, value: Option<T>) {
        match value {
            Some(value) => {
                self.values.push(value);
                if !self.valid.is_empty() {
                    self.valid.push(true);
                }
            }
            None => self.push_nulls(1),
        }
    }

    /// Appends values.
    #[inline]
    pub fn extend(&mut self, values: impl Iterator<Item = Option<T>>) {
        self.values.reserve(values.size_hint().0);
        values.for_each(|value| self.push(value));
    }

    /// Appends values that are all there: as fast as a column that knows no nulls.
    #[inline]
    pub fn extend_some(&mut self, values: impl Iterator<Item = T>) {
        self.values.extend(values);
        if !self.valid.is_empty() {
            self.valid.resize(self.values.len(), true);
        }
    }

    /// The value of a row; none if it is null, or beyond the end.
    pub fn get(&self, row: usize) -> Option<T> {
        let at = row.checked_sub(self.nulls_before)?;
        let value = self.values.get(at).copied()?;
        self.valid.get(at).is_none_or(|valid| *valid).then_some(value)
    }

    /// Takes the value of a row out; the last row takes its place.
    ///
    /// # Panics
    /// There is no such row.
    pub fn swap_remove(&mut self, row: usize) -> Option<T> {
        if self.values.is_empty() {
            assert!(row < self.nulls_before, "row {row} of {}", self.nulls_before);
            self.nulls_before -= 1;
            return None;
        }
        self.level(self.count(), true);
        let is_valid = self.valid.is_empty() || self.valid.swap_remove(row);
        let value = self.values.swap_remove(row);
        is_valid.then_some(value)
    }

    /// Appends `n` nulls.
    pub fn push_nulls(&mut self, n: usize) {
        if self.values.is_empty() {
            self.nulls_before += n;
            return;
        }
        self.valid.resize(self.values.len(), true);
        self.values.resize(self.values.len() + n, T::default());
        self.valid.resize(self.values.len(), false);
    }
}

impl<T: Number> ColumnBuffer for OptColumn<T> {
    fn count(&self) -> usize {
        self.nulls_before + self.values.len()
    }

    fn memory(&self) -> usize {
        self.values.len() * size_of::<T>() + self.valid.len()
    }

    fn level(&mut self, rows: usize, _: bool) -> bool {
        let count = self.count();
        if count < rows {
            self.push_nulls(rows - count);
        }
        if !self.values.is_empty() && self.nulls_before > 0 {
            self.valid.resize(self.values.len(), true);
            let nulls = std::mem::take(&mut self.nulls_before);
            self.values.splice(0..0, std::iter::repeat_n(T::default(), nulls));
            self.valid.splice(0..0, std::iter::repeat_n(false, nulls));
        }
        count <= rows
    }

    fn reorder(&mut self, at: usize, order: &[u32]) {
        reorder(&mut self.values, at, order);
        reorder(&mut self.valid, at, order);
    }

    fn take(&mut self) -> Option<ArrayRef> {
        let Self { values, valid, .. } = std::mem::take(self);
        let nulls = (!valid.is_empty()).then(|| NullBuffer::from(valid));
        (!values.is_empty()).then(|| T::into_array(values, nulls))
    }

    fn give_back(&mut self, array: ArrayRef) {
        if array.null_count() < array.len()
            && let Some(mut values) = T::into_values(array)
        {
            values.clear();
            self.values = values;
        }
    }
}

/// The key of a null while a column is being filled.
const NULL_KEY: i32 = -1;

/// The body of a [`DictColumn`], whatever its values are.
#[derive(Debug, Default)]
struct Dictionary {
    keys: Vec<i32>,
    nulls: usize,
    numbers: HashMap<Box<[u8]>, i32>,
    bytes: Vec<u8>,
    offsets: Vec<i32>,
    /// Constants that were pushed lately: where their text lies, and its key.
    constants: [(usize, i32); CONSTANTS],
}

/// Constants whose keys are known without looking at their text; a power of two.
const CONSTANTS: usize = 16;

impl Dictionary {
    /// The key of a text that lies in one place for ever, so that the place tells which it is.
    #[inline]
    fn key_of_constant(&mut self, value: &'static str) -> i32 {
        let place = value.as_ptr() as usize;
        // One text may begin another, in one place.
        let slot = (place.wrapping_mul(0x9E37_79B9) >> 16).wrapping_add(value.len()) % CONSTANTS;
        let tag = place.wrapping_add(value.len() << 48);
        if self.constants[slot].0 == tag {
            return self.constants[slot].1;
        }
        let key = self.number(value.as_bytes());
        self.constants[slot] = (tag, key);
        key
    }

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

    fn level(&mut self, rows: usize, nullable: bool) -> bool {
        let count = self.keys.len();
        if count < rows && nullable {
            self.nulls += rows - count;
            self.keys.resize(rows, NULL_KEY);
        }
        self.keys.len() == rows
    }

    fn take_keys(&mut self) -> Int32Array {
        let mut keys = std::mem::take(&mut self.keys);
        let nulls = (std::mem::take(&mut self.nulls) > 0).then(|| {
            let valid = keys.iter().map(|k| *k != NULL_KEY).collect();
            for key in &mut keys {
                *key = (*key).max(0);
            }
            valid
        });
        Int32Array::new(keys.into(), nulls)
    }

    fn take_values(&mut self) -> (OffsetBuffer<i32>, Vec<u8>) {
        let mut offsets = std::mem::take(&mut self.offsets);
        if offsets.is_empty() {
            offsets.push(0);
        }
        self.numbers.clear();
        self.constants = Default::default();
        (OffsetBuffer::new(offsets.into()), std::mem::take(&mut self.bytes))
    }
}

/// A column of texts, dictionary-encoded as it is filled; `A` is the array of its distinct values.
#[derive(Debug)]
pub struct DictColumn<A> {
    dictionary: Dictionary,
    values: PhantomData<fn() -> A>,
}

/// A column of text.
pub type StrColumn = DictColumn<StringArray>;

/// A column of bytes that need not be UTF-8.
pub type BytesColumn = DictColumn<BinaryArray>;

impl<A> Default for DictColumn<A> {
    fn default() -> Self {
        Self { dictionary: Dictionary::default(), values: PhantomData }
    }
}

impl<T: ByteArrayType<Offset = i32>> DictColumn<GenericByteArray<T>> {
    /// Appends one value.
    #[inline]
    pub fn push(&mut self, value: Option<&T::Native>) {
        self.dictionary.push(value.map(AsRef::as_ref));
    }
}

impl<A> DictColumn<A> {
    /// Appends `n` nulls.
    pub fn push_nulls(&mut self, n: usize) {
        self.dictionary.nulls += n;
        self.dictionary.keys.resize(self.dictionary.keys.len() + n, NULL_KEY);
    }
}

impl StrColumn {
    /// Appends words of a fixed list, such as names of system calls: compared by address, without reading their
    /// letters.
    #[inline]
    pub fn extend_static(&mut self, values: impl ExactSizeIterator<Item = Option<&'static str>>) {
        self.dictionary.keys.reserve(values.len());
        for value in values {
            match value {
                Some(value) => {
                    let key = self.dictionary.key_of_constant(value);
                    self.dictionary.keys.push(key);
                }
                None => self.dictionary.push(None),
            }
        }
    }

    /// Appends one word of a fixed list several times.
    pub fn push_repeated(&mut self, value: &'static str, count: usize) {
        let key = self.dictionary.key_of_constant(value);
        self.dictionary.keys.resize(self.dictionary.keys.len() + count, key);
    }
}

impl<T: ByteArrayType<Offset = i32>> ColumnBuffer for DictColumn<GenericByteArray<T>> {
    fn count(&self) -> usize {
        self.dictionary.keys.len()
    }

    fn memory(&self) -> usize {
        self.dictionary.memory()
    }

    fn level(&mut self, rows: usize, nullable: bool) -> bool {
        self.dictionary.level(rows, nullable)
    }

    fn reorder(&mut self, at: usize, order: &[u32]) {
        reorder(&mut self.dictionary.keys, at, order);
    }

    fn take(&mut self) -> Option<ArrayRef> {
        let keys = self.dictionary.take_keys();
        let (offsets, bytes) = self.dictionary.take_values();
        if keys.null_count() == keys.len() {
            return None;
        }
        // Text columns only take `&str`, so this checks what is known already; it costs one pass over the distinct
        // values.
        let values = GenericByteArray::<T>::try_new(offsets, bytes.into(), None).ok()?;
        Some(Arc::new(DictionaryArray::try_new(keys, Arc::new(values)).ok()?))
    }

    fn give_back(&mut self, array: ArrayRef) {
        let Some(column) = array.as_dictionary_opt::<Int32Type>().cloned() else { return };
        drop(array);
        let (keys, _) = column.into_parts();
        if keys.null_count() < keys.len()
            && let Some(mut keys) = i32::into_values(Arc::new(keys))
        {
            keys.clear();
            self.dictionary.keys = keys;
        }
    }
}

/// A column of lists of words.
#[derive(Debug, Default)]
pub struct ListColumn {
    words: Vec<u64>,
    /// Per row where its list begins and ends in `words`; null where there is none.
    spans: Vec<Option<(usize, usize)>>,
}

impl ListColumn {
    /// Appends one list.
    pub fn push(&mut self, value: Option<&[u64]>) {
        self.spans.push(value.map(|list| {
            let start = self.words.len();
            self.words.extend_from_slice(list);
            (start, self.words.len())
        }));
    }
}

impl ColumnBuffer for ListColumn {
    fn count(&self) -> usize {
        self.spans.len()
    }

    fn memory(&self) -> usize {
        self.words.len() * 8 + self.spans.len() * 24
    }

    fn level(&mut self, rows: usize, nullable: bool) -> bool {
        if self.spans.len() < rows && nullable {
            self.spans.resize(rows, None);
        }
        self.spans.len() == rows
    }

    fn reorder(&mut self, at: usize, order: &[u32]) {
        reorder(&mut self.spans, at, order);
    }

    fn take(&mut self) -> Option<ArrayRef> {
        let Self { words, spans } = std::mem::take(self);
        if spans.iter().all(Option::is_none) {
            return None;
        }
        let lists = || spans.iter().map(|s| s.and_then(|(a, b)| words.get(a..b)));
        let flat: Vec<u64> = lists().flatten().flatten().copied().collect();
        let offsets = OffsetBuffer::from_lengths(lists().map(|l| l.map_or(0, <[u64]>::len)));
        let nulls: NullBuffer = lists().map(|l| l.is_some()).collect();
        let item = Arc::new(Field::new("item", DataType::UInt64, true));
        Some(Arc::new(ListArray::try_new(item, offsets, Arc::new(UInt64Array::from(flat)), Some(nulls)).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_takes_the_place_of_one_that_is_taken_out() {
        let mut column = OptColumn::<u32>::default();
        column.push_nulls(2);
        assert_eq!((column.swap_remove(1), column.count(), column.get(0)), (None, 1, None));
        column.extend([Some(7), None, Some(9)].into_iter());
        assert_eq!((column.get(0), column.get(1), column.get(2), column.get(4)), (None, Some(7), None, None));
        assert_eq!(column.swap_remove(0), None);
        assert_eq!((column.get(0), column.get(1), column.get(2), column.count()), (Some(9), Some(7), None, 3));
        assert_eq!((column.swap_remove(0), column.get(0), column.get(1)), (Some(9), None, Some(7)));
    }

    #[test]
    fn constants_have_the_keys_of_their_text() {
        const WORDS: &str = "readread";
        let mut column = StrColumn::default();
        // In one place, of two lengths; and equal texts in two places.
        column.extend_static([Some(WORDS), Some(&WORDS[..4]), None, Some(&WORDS[4..])].into_iter());
        column.push(Some("read"));
        let array = column.take().expect("not all null");
        let keys = array.as_dictionary::<Int32Type>().keys();
        let found: Vec<Option<i32>> = keys.iter().collect();
        assert_eq!(found, [Some(0), Some(1), None, Some(1), Some(1)]);
        // The next part numbers its texts anew.
        column.extend_static([Some(&WORDS[..4])].into_iter());
        let array = column.take().expect("not all null");
        assert_eq!(array.as_dictionary::<Int32Type>().values().len(), 1);
    }
}
