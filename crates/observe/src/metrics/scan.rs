//! Reading kernel text as bytes: lines, words and numbers, without copies and without trust.

/// The lines of `text`, without their ends. Bytes, not characters: device and process names may hold anything.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b'\n').filter(|line| !line.is_empty())
}

/// The words of a line, split at blanks and tabs.
#[derive(Clone)]
pub(super) struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self(line)
    }

    /// The next word as a number; `None` at the end of the line or when the word is something else.
    pub(super) fn number(&mut self) -> Option<u64> {
        self.next().and_then(number)
    }

    /// The unread rest, blanks at its front included.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|b| !b.is_ascii_whitespace())?;
        let from = self.0.get(start..)?;
        let len = from.iter().position(u8::is_ascii_whitespace).unwrap_or(from.len());
        let (word, rest) = from.split_at_checked(len)?;
        self.0 = rest;
        Some(word)
    }
}

/// A decimal number with nothing before or behind it. `None` for anything else, also for one beyond 64 bits:
/// a value that cannot be held is missing, not the largest one that can.
pub(super) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.checked_sub(b'0').filter(|d| *d < 10)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A finite decimal fraction, as in `/proc/loadavg`.
pub(super) fn fraction(word: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?;
    if !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    text.parse().ok().filter(|x: &f64| x.is_finite())
}

/// Splits `key: value` at the first colon; the key without blanks around it.
pub(super) fn key_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|b| *b == b':')?;
    let (key, rest) = line.split_at_checked(colon)?;
    Some((key.trim_ascii(), rest.get(1..)?))
}

/// Where `needle` begins in `text`.
pub(super) fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|w| w == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_words_within_64_bits() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"18446744073709551616", b"-1", b"+1", b"1.5", b"12kB", b"0x10", b"\xff", b" 1"] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn fractions_refuse_what_rust_would_take() {
        assert_eq!(fraction(b"2.06"), Some(2.06));
        for bad in [&b"nan"[..], b"inf", b"1e9", b"-1.0", b"", b".", b"\xff"] {
            assert_eq!(fraction(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn words_and_keys_of_odd_lines() {
        let words: Vec<&[u8]> = Words::new(b"  a\t b  ").collect();
        assert_eq!(words, [&b"a"[..], b"b"]);
        assert_eq!(Words::new(b" \t ").next(), None);
        assert_eq!(key_value(b"  eth0:12 3"), Some((&b"eth0"[..], &b"12 3"[..])));
        assert_eq!(key_value(b"no colon"), None);
        assert_eq!(key_value(b":"), Some((&b""[..], &b""[..])));
    }
}
