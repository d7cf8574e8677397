//! `verify` and its pattern as values.

use serde::{Deserialize, Serialize};

use crate::contents::pattern_element;
use crate::units::ParseContext;
use crate::value::{OptionValue, choice, choose};

choice! {
    /// How contents are verified.
    VerifyMethod {
        None = "none" | "0": "not at all",
        Crc32c = "crc32c" | "crc32c-intel": "CRC-32C, with the processor's instruction where it has one",
        Xxhash = "xxhash": "XXH32",
        Sha256 = "sha256": "SHA-256 in fio's form, which is not the standard's",
        Sha512 = "sha512": "SHA-512 of the standard; where fio 3.33 should put it, it leaves bytes of the data",
        Md5 = "md5": "MD5",
        Sha1 = "sha1": "SHA-1",
        Sha3224 = "sha3-224": "SHA3-224",
        Sha3256 = "sha3-256": "SHA3-256",
        Sha3384 = "sha3-384": "SHA3-384",
        Sha3512 = "sha3-512": "SHA3-512",
        Crc64 = "crc64": "CRC-64",
        Crc32 = "crc32": "CRC-32, most significant bit first",
        Crc16 = "crc16": "CRC-16",
        Crc7 = "crc7": "CRC-7",
        Meta = "meta": "the header alone, and verify_pattern if there is one",
        Pattern = "pattern": "verify_pattern over the whole block, without a header",
        PatternHdr = "pattern_hdr": "verify_pattern behind a header; a word of fio later than 3.33",
        Null = "null": "pretends: nothing is prepared and nothing compared",
    }
}

/// Bytes of fio 3.33's header in front of verified data, without the checksum behind it.
pub const HEADER_BYTES: usize = 40;

impl VerifyMethod {
    /// Bytes of the header with the checksum; 0 for methods without header.
    pub fn header_bytes(self) -> u64 {
        match self {
            Self::None | Self::Pattern | Self::Null => 0,
            _ => HEADER_BYTES as u64 + self.checksum_bytes(),
        }
    }

    /// Bytes of its checksum.
    pub fn checksum_bytes(self) -> u64 {
        match self {
            Self::Crc32c | Self::Xxhash | Self::Crc32 => 4,
            Self::Sha256 | Self::Sha512 | Self::Sha3512 => 64,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha3224 => 28,
            Self::Sha3256 => 32,
            Self::Sha3384 => 48,
            Self::Crc64 => 8,
            Self::Crc16 => 2,
            Self::Crc7 => 1,
            Self::None | Self::Meta | Self::Pattern | Self::PatternHdr | Self::Null => 0,
        }
    }
}

/// `verify=`: a [`VerifyMethod`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VerifyOption(pub VerifyMethod);

impl OptionValue for VerifyOption {
    const KIND: &'static str = "word";
    const WORDS: &'static [(&'static str, &'static str)] = <VerifyMethod as crate::value::Choice>::ALL;
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        self.0 = choose(text)?;
        Ok(())
    }
}

/// `verify_pattern`: bytes repeated over every block; empty for none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerifyPattern {
    /// The bytes, with zeros where an offset belongs.
    pub bytes: Vec<u8>,
    /// Where in `bytes` the block's offset goes: eight bytes from the lowest up, for each `%o`.
    pub offsets_at: Vec<usize>,
}

/// Bytes of an offset.
const OFFSET_BYTES: usize = 8;

/// Longest pattern, bytes; as in fio 3.33.
const MAX_PATTERN_BYTES: usize = 128 << 10;

impl OptionValue for VerifyPattern {
    const KIND: &'static str = "pattern: 0xHEX, NUMBER, \"text\", 'file', %o, one after the other";
    fn assign(&mut self, text: &str, _: ParseContext) -> Result<(), String> {
        let mut pattern = Self::default();
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err("a value is needed".to_owned());
        }
        while !rest.is_empty() {
            rest = match rest.strip_prefix("%o") {
                Some(rest) => {
                    pattern.offsets_at.push(pattern.bytes.len());
                    pattern.bytes.extend_from_slice(&[0; OFFSET_BYTES]);
                    rest
                }
                None => pattern_element(rest, &mut pattern.bytes)?,
            };
            if pattern.bytes.len() > MAX_PATTERN_BYTES {
                return Err(format!("the pattern is longer than {MAX_PATTERN_BYTES} bytes"));
            }
        }
        *self = pattern;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_places_for_offsets() {
        let mut pattern = VerifyPattern::default();
        pattern.assign("0xff%o\"abcd\"-12%o", ParseContext::default()).expect("valid");
        assert_eq!(pattern.offsets_at, [1, 17]);
        assert_eq!(pattern.bytes.len(), 25);
        assert_eq!(pattern.bytes.get(9..17), Some(&[0x61, 0x62, 0x63, 0x64, 0xf4, 0xff, 0xff, 0xff][..]));
        for bad in ["", "%x", "\"a"] {
            assert!(pattern.assign(bad, ParseContext::default()).is_err(), "{bad}");
        }
    }
}
