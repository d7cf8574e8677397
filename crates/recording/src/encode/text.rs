//! Columns of text and bytes, which are kept as dictionaries in memory already: their keys are renumbered and packed.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray};
use arrow::datatypes::{DataType, Int32Type};
use parquet::schema::types::ColumnDescPtr;

use super::chunk::{self, Chunk, PAGE_ROWS, Words, Zstd};
use crate::error::Result;

/// More distinct bytes are left to the library, which can do without a dictionary.
const DICTIONARY_BYTES: usize = 1 << 20;

/// The distinct values of a chunk in the order of their first appearance.
#[derive(Default)]
struct Distinct<'a> {
    numbers: HashMap<&'a [u8], u32>,
    /// As the dictionary page has them: each behind its length in four bytes.
    plain: Vec<u8>,
}

impl<'a> Distinct<'a> {
    fn number(&mut self, value: &'a [u8]) -> u32 {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(value).or_insert(next);
        if number == next {
            self.plain.extend_from_slice(&(value.len() as u32).to_le_bytes());
            self.plain.extend_from_slice(value);
        }
        number
    }
}

/// Encodes dictionary arrays as one chunk, or `None` if this is no column of text or there is too much of it.
pub(super) fn encode(
    desc: &ColumnDescPtr,
    arrays: &[ArrayRef],
    level: Option<i32>,
    zstd: &mut Zstd,
) -> Result<Option<Chunk>> {
    let Some(columns) = arrays.iter().map(|a| a.as_dictionary_opt::<Int32Type>()).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let mut distinct = Distinct::default();
    let mut pages = Vec::new();
    for column in columns {
        // A slice keeps the whole dictionary: only what its keys use is numbered, at the first use.
        let mut known: Vec<Option<u32>> = vec![None; column.values().len()];
        for at in (0..column.len()).step_by(PAGE_ROWS) {
            let page = column.slice(at, PAGE_ROWS.min(column.len() - at));
            match indices(&page, column, &mut known, &mut distinct) {
                Some(indices) => pages.push(Words { nulls: page.keys().nulls().cloned(), rows: page.len(), indices }),
                None => return Ok(None),
            }
        }
        if distinct.plain.len() > DICTIONARY_BYTES {
            return Ok(None);
        }
    }
    chunk::encode_words(desc, &pages, &distinct.plain, distinct.numbers.len(), level, zstd).map(Some)
}

/// The numbers of a page's values that are not null.
fn indices<'a>(
    page: &DictionaryArray<Int32Type>,
    column: &'a DictionaryArray<Int32Type>,
    known: &mut [Option<u32>],
    distinct: &mut Distinct<'a>,
) -> Option<Vec<u32>> {
    let values = Values::of(column.values())?;
    let mut number = |key: i32| -> Option<u32> {
        let slot = known.get_mut(usize::try_from(key).ok()?)?;
        if slot.is_none() {
            *slot = Some(distinct.number(values.get(key as usize)));
        }
        *slot
    };
    match page.keys().nulls().filter(|nulls| nulls.null_count() > 0) {
        None => page.keys().values().iter().map(|key| number(*key)).collect(),
        Some(_) => page.keys().iter().flatten().map(number).collect(),
    }
}

/// The distinct values of an array.
enum Values<'a> {
    Text(&'a arrow::array::StringArray),
    Bytes(&'a arrow::array::BinaryArray),
}

impl<'a> Values<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        match array.data_type() {
            DataType::Utf8 => array.as_string_opt().map(Self::Text),
            DataType::Binary => array.as_binary_opt().map(Self::Bytes),
            _ => None,
        }
    }

    fn get(&self, i: usize) -> &'a [u8] {
        match self {
            Self::Text(array) => array.value(i).as_bytes(),
            Self::Bytes(array) => array.value(i),
        }
    }
}
