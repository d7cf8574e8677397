//! Sizes inside keys: `64K`, `2M`, `1G`. The grammar is that of [`crate::units`], with a unit that has to be there: a bare
//! number in a key is no size.

pub use crate::units::format_size;
use crate::units::parse_size as typed_size;

/// Bytes of a size with a unit, such as `2M`, `64k`, `2048kB`, `1GB` or `1GiB` (binary units; at least one byte).
pub fn parse_size(text: &str) -> Option<u64> {
    let has_letter = text.trim_end_matches(['b', 'B']).ends_with(|last: char| last.is_ascii_alphabetic());
    if !has_letter {
        return None;
    }
    typed_size(text).ok().filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_size_agree() {
        for spelling in ["2M", "2048K", "2048kB", "2MB", "2MiB", "2m"] {
            assert_eq!(parse_size(spelling), Some(2 << 20), "{spelling}");
        }
        for bytes in [8u64 << 10, 64 << 10, 2 << 20, 512 << 20, 1 << 30, 16 << 30] {
            assert_eq!(parse_size(&format_size(bytes)), Some(bytes));
        }
        for wrong in ["", "M", "2", "2X", "0M", "2 M", "-2M", "99999999999999999999M", "9999999999999T", "2B"] {
            assert_eq!(parse_size(wrong), None, "{wrong:?}");
        }
    }
}
