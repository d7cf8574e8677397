//! Text made of bytes: paths as people and other programs want them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, DictionaryArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::Int32Type;

use super::ColType;
use crate::error::Result;

/// A column of bytes as one of text, with U+FFFD for invalid UTF-8. Every output that shows a path takes it from here,
/// so that one path has one text.
pub fn text_of(bytes: &ArrayRef) -> Result<ArrayRef> {
    let bytes = cast(bytes, &ColType::Bytes.arrow())?;
    let dictionary = bytes.as_dictionary::<Int32Type>();
    let values = dictionary.values().as_binary::<i32>();
    let texts = match StringArray::try_from_binary(values.clone()) {
        Ok(texts) => texts,
        Err(_) => values.iter().map(|value| value.map(String::from_utf8_lossy)).collect(),
    };
    Ok(Arc::new(DictionaryArray::try_new(dictionary.keys().clone(), Arc::new(texts))?))
}
