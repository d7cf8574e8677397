//! Checksums of documents: the last key of a manifest and of `set.json` is a checksum of every byte before its digits and
//! behind them. It tells accidents and edits, not forgeries.

use std::hash::Hasher;

use serde_json::Value;
use twox_hash::XxHash64;

/// The key of the checksum, the last one.
const CHECKSUM_KEY: &[u8] = b",\n  \"checksum\": \"";
/// What follows its digits.
const CHECKSUM_END: &[u8] = b"\"\n}\n";
/// Digits of a checksum.
const DIGITS: usize = 16;

/// What a document says of itself by its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seal {
    /// It has none.
    Absent,
    /// It is as it was written.
    Whole,
    /// It was changed.
    Broken,
}

/// A document that ends as pretty-printed JSON does, with its checksum.
pub(crate) fn put(mut text: Vec<u8>) -> Vec<u8> {
    let body = text.strip_suffix(b"\n}\n").map_or(text.len(), <[u8]>::len);
    text.truncate(body);
    text.extend_from_slice(CHECKSUM_KEY);
    let digits = digits_of(&text, CHECKSUM_END);
    text.extend_from_slice(digits.as_bytes());
    text.extend_from_slice(CHECKSUM_END);
    text
}

/// Takes the checksum out of a document, whose text is `text`, and compares it.
pub(crate) fn take(text: &[u8], document: &mut Value) -> Seal {
    if document.as_object_mut().and_then(|keys| keys.remove("checksum")).is_none() {
        return Seal::Absent;
    }
    let digits_at = text.len().checked_sub(CHECKSUM_END.len() + DIGITS);
    let Some((before, rest)) = digits_at.and_then(|at| text.split_at_checked(at)) else { return Seal::Broken };
    let (digits, end) = rest.split_at(DIGITS);
    if before.ends_with(CHECKSUM_KEY) && end == CHECKSUM_END && digits == digits_of(before, end).as_bytes() {
        Seal::Whole
    } else {
        Seal::Broken
    }
}

fn digits_of(before: &[u8], after: &[u8]) -> String {
    let mut hash = XxHash64::with_seed(0);
    hash.write(before);
    hash.write(after);
    format!("{:016x}", hash.finish())
}
